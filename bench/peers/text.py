#!/usr/bin/env python3
"""Tantivy on the files that quarry bench text is run on, in the same JSON lines.

    text.py DOCS.txt QUERIES.txt [--mode union|and|phrase] [--k 10] [--dir DIR]

One query thread, each query's best of 15 passes. --dir keeps the index, and uses the one that is there.
"""
import argparse
import json
import os
import shutil
import tempfile
import time

import tantivy


def schema():
    b = tantivy.SchemaBuilder()
    b.add_text_field("t", stored=False, tokenizer_name="default")
    return b.build()


def index(path, docs, s):
    writer = tantivy.Index(s, path=path).writer(512_000_000, 2)
    n = 0
    with open(docs, encoding="utf8") as lines:
        for n, line in enumerate(lines, 1):
            writer.add_document(tantivy.Document(t=line))
    writer.commit()
    writer.wait_merging_threads()
    return n


def parse(line, mode, s):
    terms = line.split()
    if mode == "phrase" and len(terms) > 1:
        return tantivy.Query.phrase_query(s, "t", terms)
    occur = tantivy.Occur.Must if mode == "and" else tantivy.Occur.Should
    return tantivy.Query.boolean_query([(occur, tantivy.Query.term_query(s, "t", t)) for t in terms])


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("docs")
    args.add_argument("queries")
    args.add_argument("--mode", choices=("union", "and", "phrase"), default="union")
    args.add_argument("--k", type=int, default=10)
    args.add_argument("--dir")
    a = args.parse_args()
    s, path, kept = schema(), a.dir or tempfile.mkdtemp(), a.dir is not None
    os.makedirs(path, exist_ok=True)
    name = os.path.basename(a.docs).split(".")[0]
    if not os.listdir(path):
        start = time.perf_counter()
        n = index(path, a.docs, s)
        size = sum(os.path.getsize(os.path.join(path, f)) for f in os.listdir(path))
        print(json.dumps(dict(kind="text index", engine="tantivy", set=name, index_s=round(time.perf_counter() - start, 1), docs=n, bytes=size)), flush=True)
    searcher = tantivy.Index(s, path=path).searcher()
    with open(a.queries, encoding="utf8") as lines:
        queries = [parse(line, a.mode, s) for line in lines if line.strip()]
    best, hits = [float("inf")] * len(queries), 0
    for _ in range(15):
        hits = 0
        for i, q in enumerate(queries):
            start = time.perf_counter()
            found = searcher.search(q, a.k, count=False)
            best[i] = min(best[i], (time.perf_counter() - start) * 1e6)
            hits += len(found.hits)
    best.sort()
    print(json.dumps(dict(kind="text", engine="tantivy", set=name, mode=a.mode, k=a.k, segments=searcher.num_segments, queries=len(best), hits=hits,
                          avg_us=round(sum(best) / len(best), 1), p50_us=round(best[len(best) // 2], 1), p99_us=round(best[len(best) * 99 // 100], 1))))
    if not kept:
        shutil.rmtree(path)


if __name__ == "__main__":
    main()
