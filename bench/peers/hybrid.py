#!/usr/bin/env python3
"""zvec's hybrid search on the folder that quarry bench hybrid is run on, in the same JSON lines.

    hybrid.py FOLDER [--texts DIR] [--filter "set = 'tldr'"] [--ef 64] [--keep DIR]

FOLDER has base.f16 and query.f16 (or .fvecs), rows.jsonl.gz and gt.ivecs; the corpora that rows.jsonl names lie beside it. One thread,
each query's fastest of five passes; its two searches (HNSW int8 with refinement, full text) are joined by zvec's own RRF, which asks each
for k hits: beside --depth 10 of ours. What an empty query costs in Python cannot be told from a hybrid one, so nothing is taken off.
A query's text is the first five words of its row, by a regular expression that takes each CJK and Thai character for a word, as nearly
all of them are by UAX 29.
"""
import argparse
import gzip
import json
import os
import re
import time

import numpy as np
import zvec

K = 10
PASSES = 5
WORD = re.compile(r"[\u0e00-\u0eff\u3040-\u309f\u3400-\u9fff\uf900-\ufaff]|[^\W\u0e00-\u0eff\u3040-\u309f\u3400-\u9fff\uf900-\ufaff]+")
PIECES = {"nodejs-org": (1000, True), "jaquad": (600, False)}  # characters of a row's text, and whether the title stands before it


def matrix(folder, name, dim):
    path = os.path.join(folder, name + ".f16")
    if os.path.exists(path):
        return np.fromfile(path, dtype="<f2").reshape(-1, dim).astype("<f4")
    raw = np.fromfile(os.path.join(folder, name + ".fvecs"), dtype="<i4")
    return np.ascontiguousarray(raw.reshape(-1, raw[0] + 1)[:, 1:].view("<f4"))


def lines(path):
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as f:
        for line in f:
            yield json.loads(line)


def joined(folder, texts):
    """Set and text of each row, queries first."""
    corpora = {}
    for row in lines(os.path.join(folder, "rows.jsonl.gz")):
        name = row["set"]
        if "text" in row:
            yield name, row["text"]
            continue
        if name not in corpora:
            files = [os.path.join(texts, name, f + ".jsonl.gz") for f in ("chunks", "corpus", "docs")]
            corpora[name] = {d["id"]: d for d in lines(next(f for f in files if os.path.exists(f)))}
        limit, title = PIECES.get(name, (1200, True))
        d = corpora[name][row["id"]]
        whole = d["title"] + "\n" + d["text"] if title and d.get("title") else d["text"]
        yield name, whole[row["start"]:row["start"] + limit]


def build(path, base, rows):
    schema = zvec.CollectionSchema(name="c", fields=[
        zvec.FieldSchema("set", zvec.DataType.STRING, nullable=False, index_param=zvec.InvertIndexParam()),
        zvec.FieldSchema("text", zvec.DataType.STRING, nullable=False, index_param=zvec.FtsIndexParam()),
    ], vectors=zvec.VectorSchema("v", zvec.DataType.VECTOR_FP32, base.shape[1], zvec.HnswIndexParam(
        metric_type=zvec.MetricType.IP, m=32, ef_construction=200, quantize_type=zvec.QuantizeType.INT8, use_contiguous_memory=True)))
    writer = zvec.create_and_open(path=path, schema=schema)
    for at in range(0, len(base), 1000):
        writer.insert([zvec.Doc(id=str(at + i), vectors={"v": base[at + i].tolist()}, fields={"set": s, "text": t}) for i, (s, t) in enumerate(rows[at:at + 1000])])
    writer.optimize(zvec.OptimizeOption(concurrency=2))
    writer.flush()
    writer.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--texts", help="folder with the corpora; default the one above")
    p.add_argument("--dim", type=int, default=384, help="of .f16 files")
    p.add_argument("--filter", default="set = 'tldr'")
    p.add_argument("--ef", type=int, default=16, help="width of the vector leg; its recall is printed")
    p.add_argument("--keep", required=True, metavar="DIR", help="folder that keeps what was built")
    a = p.parse_args()
    base, queries = matrix(a.folder, "base", a.dim), matrix(a.folder, "query", a.dim)
    rows = list(joined(a.folder, a.texts or os.path.join(a.folder, "..")))
    words = [" ".join(WORD.findall(text)[:5]) for _, text in rows[:len(queries)]]
    path = os.path.join(a.keep, "zvec-hybrid")
    if not os.path.exists(path):
        build(path, base, rows[len(queries):])
    collection = zvec.open(path, zvec.CollectionOption(read_only=True, enable_mmap=False))
    param = zvec.HnswQueryParam(ef=a.ef, is_using_refiner=True, scale_factor=2)
    truth = np.fromfile(os.path.join(a.folder, "gt.ivecs"), dtype="<i4")
    truth = truth.reshape(-1, truth[0] + 1)[:, 1:K + 1]

    def legs(i, mode):
        vector, text = zvec.Query("v", vector=queries[i], param=param), zvec.Query("text", fts=zvec.Fts(match_string=words[i]))
        return {"vector": vector, "keyword": text, "hybrid": [vector, text]}[mode]

    fusion = zvec.RrfReRanker()
    for mode in ("hybrid", "keyword", "vector"):
        for condition in (None, a.filter):
            best, hits = np.full(len(queries), np.inf), [None] * len(queries)
            for _ in range(PASSES):
                for i in range(len(queries)):
                    if mode != "vector" and not words[i]:
                        hits[i] = []
                        continue
                    query = legs(i, mode)
                    start = time.perf_counter()
                    hits[i] = collection.query(query, topk=K, filter=condition, output_fields=[], reranker=fusion if mode == "hybrid" else None)
                    best[i] = min(best[i], time.perf_counter() - start)
            us = best[np.isfinite(best)] * 1e6
            line = {"kind": "hybrid", "engine": "zvec-int8", "set": os.path.basename(os.path.normpath(a.folder)), "mode": mode, "threads": 1, "k": K, "depth": K,
                    "queries": len(us), "hits": sum(map(len, hits)), "avg_us": round(us.mean(), 1), "p50_us": round(float(np.percentile(us, 50)), 1),
                    "p99_us": round(float(np.percentile(us, 99)), 1)}
            if condition:
                line["filter"] = condition.replace("'", '"')  # as quarry writes it, so that the lines are told as one search
            elif mode == "vector":
                line["recall"] = round(np.mean([len({int(d.id) for d in found} & set(map(int, want))) / K for found, want in zip(hits, truth)]), 4)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
