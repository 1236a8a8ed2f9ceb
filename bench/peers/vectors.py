#!/usr/bin/env python3
"""Other engines on the vectors that quarry bench vectors is run on, in the same JSON lines.

    vectors.py ENGINE BASE.fvecs QUERY.fvecs TRUTH.ivecs [--metric cos|ip|l2] [--m 16] [--threads 2]

One query thread, the best of three passes, recall@10; efConstruction is 200. --m is HNSW's M (2M links on level 0): a peer counts at
its best one, so run several. Engines that take one query a call are driven from Python, which costs them some 15 to 30 µs a query:
overhead_us is what a query of k = 1 and ef = 1 takes, and net_qps is the speed without it. (It holds a short walk, too, so it errs in
the peer's favor.) From engines that take all queries in one call nothing is taken off.

With --keep DIR an index is built once and stays in DIR: the next run opens it and prints no build line, so that several runs of the
queries of all engines, one after the other, fit into an idle hour.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile
import time

import numpy as np

WIDTHS = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 800)
K = 10
CONSTRUCT = 200
PASSES = 3


def rows(path, kind):
    """Rows of a TexMex file: each an int32 dimension and that many values."""
    raw = np.fromfile(path, dtype=np.int32)
    table = raw.reshape(-1, raw[0] + 1)[:, 1:]
    return np.ascontiguousarray(table.view(kind))


def set_name(path):
    name = os.path.basename(path).split(".")[0]
    return os.path.basename(os.path.dirname(os.path.abspath(path))) if name in ("base", "b") else name


class Engine:
    """An engine under test. batch tells that it takes all queries in one call."""

    batch = False

    def __init__(self, metric, m, threads):
        self.l2, self.m, self.threads = metric == "l2", m, threads

    def save(self, path):
        raise NotImplementedError

    def load(self, path, base):
        raise NotImplementedError

    def close(self):
        pass


class Hnswlib(Engine):
    name, batch = "hnswlib", True

    def build(self, base):
        import hnswlib

        self.index = hnswlib.Index("l2" if self.l2 else "ip", base.shape[1])
        self.index.init_index(len(base), M=self.m, ef_construction=CONSTRUCT, random_seed=1)
        self.index.add_items(base, num_threads=self.threads)

    def save(self, path):
        self.index.save_index(path)

    def load(self, path, base):
        import hnswlib

        self.index = hnswlib.Index("l2" if self.l2 else "ip", base.shape[1])
        self.index.load_index(path, max_elements=len(base))

    def search(self, queries, k, ef):
        self.index.set_ef(ef)
        return self.index.knn_query(queries, k, num_threads=1)[0]


class Faiss(Engine):
    name, batch, spec = "faiss", True, "HNSW{},Flat"

    def build(self, base):
        import faiss

        self.faiss = faiss
        faiss.omp_set_num_threads(self.threads)
        self.index = faiss.index_factory(base.shape[1], self.spec.format(self.m), faiss.METRIC_L2 if self.l2 else faiss.METRIC_INNER_PRODUCT)
        self.graph = faiss.downcast_index(self.index).hnsw
        self.graph.efConstruction = CONSTRUCT
        self.index.train(base)
        self.index.add(base)
        faiss.omp_set_num_threads(1)

    def save(self, path):
        self.faiss.write_index(self.index, path)

    def load(self, path, base):
        import faiss

        self.faiss = faiss
        self.index = faiss.read_index(path)
        self.graph = faiss.downcast_index(self.index).hnsw
        faiss.omp_set_num_threads(1)

    def search(self, queries, k, ef):
        self.graph.efSearch = ef
        return self.index.search(queries, k)[1]


class FaissSQ8(Faiss):
    name, spec = "faiss-sq8", "HNSW{}_SQ8"


class USearch(Engine):
    name, batch, dtype = "usearch", True, "f32"

    def empty(self, base):
        from usearch.index import Index

        metric = "l2sq" if self.l2 else "cos" if self.dtype == "i8" else "ip"
        return Index(ndim=base.shape[1], metric=metric, dtype=self.dtype, connectivity=self.m, expansion_add=CONSTRUCT)

    def build(self, base):
        self.index = self.empty(base)
        self.index.add(np.arange(len(base)), base, threads=self.threads)

    def save(self, path):
        self.index.save(path)

    def load(self, path, base):
        self.index = self.empty(base)
        self.index.load(path)

    def search(self, queries, k, ef):
        self.index.expansion_search = ef
        return self.index.search(queries, k, threads=1).keys


class USearchI8(USearch):
    name, dtype = "usearch-i8", "i8"


class Vsag(Engine):
    name = "vsag-sq8"

    def empty(self, base):
        import pyvsag

        graph = dict(base_quantization_type="sq8_uniform", max_degree=2 * self.m, ef_construction=CONSTRUCT, build_thread_count=self.threads,
                     use_reorder=True, precise_quantization_type="fp32")
        return pyvsag.Index("hgraph", json.dumps(dict(dtype="float32", metric_type="l2" if self.l2 else "ip", dim=base.shape[1], index_param=graph)))

    def build(self, base):
        self.index = self.empty(base)
        self.index.build(vectors=base, ids=np.arange(len(base)), num_elements=len(base), dim=base.shape[1])

    def save(self, path):
        self.index.save(path)

    def load(self, path, base):
        self.index = self.empty(base)
        self.index.load(path)

    def search(self, queries, k, ef):
        parameters = json.dumps({"hgraph": {"ef_search": ef}})
        return [self.index.knn_search(vector=q, k=k, parameters=parameters)[0] for q in queries]


class Zvec(Engine):
    name = "zvec-int8"

    def build(self, base):
        import zvec

        self.zvec, self.folder = zvec, tempfile.mkdtemp()
        path = os.path.join(self.folder, "collection")
        graph = zvec.HnswIndexParam(metric_type=zvec.MetricType.L2 if self.l2 else zvec.MetricType.IP, m=2 * self.m, ef_construction=CONSTRUCT,
                                    quantize_type=zvec.QuantizeType.INT8, use_contiguous_memory=True)
        schema = zvec.CollectionSchema(name="c", vectors=zvec.VectorSchema("v", zvec.DataType.VECTOR_FP32, base.shape[1], graph))
        writer = zvec.create_and_open(path=path, schema=schema)
        for at in range(0, len(base), 1000):
            writer.insert([zvec.Doc(id=str(at + i), vectors={"v": row.tolist()}) for i, row in enumerate(base[at:at + 1000])])
        writer.optimize(zvec.OptimizeOption(concurrency=self.threads))
        writer.flush()
        writer.close()
        self.open(path)

    def open(self, path):
        self.collection = self.zvec.open(path, self.zvec.CollectionOption(read_only=True, enable_mmap=False))

    def save(self, path):
        self.collection.close()
        shutil.move(os.path.join(self.folder, "collection"), path)
        self.open(path)

    def load(self, path, base):
        import zvec

        self.zvec, self.folder = zvec, None
        self.open(path)

    def search(self, queries, k, ef):
        param = self.zvec.HnswQueryParam(ef=ef, is_using_refiner=True, scale_factor=2)
        query = self.zvec.Query
        return [self.collection.query_internal_ids(query("v", vector=q, param=param), topk=k) for q in queries]

    def names(self, found):
        """The ids of internal ones, not timed."""
        return [[-1 if x is None else int(x) for x in self.collection.resolve_internal_ids(f)] for f in found]

    def close(self):
        self.collection.close()
        if self.folder:
            shutil.rmtree(self.folder)


class QdrantEdge(Engine):
    name = "qdrant-edge-int8"

    def build(self, base):
        import qdrant_edge as qe

        self.qe, self.folder = qe, tempfile.mkdtemp()
        vectors = qe.EdgeVectorParams(size=base.shape[1], distance=qe.Distance.Euclid if self.l2 else qe.Distance.Dot,
                                      quantization_config=qe.ScalarQuantizationConfig(qe.ScalarType.Int8, quantile=0.99, always_ram=True),
                                      hnsw_config=qe.HnswIndexConfig(m=self.m, ef_construct=CONSTRUCT, full_scan_threshold=1000, max_indexing_threads=self.threads))
        config = qe.EdgeConfig(vectors={"v": vectors}, optimizers=qe.EdgeOptimizersConfig(default_segment_number=1, indexing_threshold=1000, max_segment_size=10_000_000))
        self.shard = qe.EdgeShard.create(self.folder, config)
        for at in range(0, len(base), 2000):
            points = [qe.Point(id=at + i, vector={"v": row.tolist()}, payload={}) for i, row in enumerate(base[at:at + 2000])]
            self.shard.update(qe.UpdateOperation.upsert_points(points))
        while self.shard.optimize():
            pass

    def save(self, path):
        self.shard.close()
        shutil.move(self.folder, path)
        self.load(path, None)

    def load(self, path, base):
        import qdrant_edge as qe

        self.qe, self.folder = qe, None
        self.shard = qe.EdgeShard.load(path)

    def search(self, queries, k, ef):
        qe = self.qe
        params = qe.SearchParams(hnsw_ef=ef, quantization=qe.QuantizationSearchParams(rescore=True))
        ask = lambda q: qe.QueryRequest(limit=k, query=qe.Query.Nearest(q.tolist(), using="v"), params=params, with_payload=False, with_vector=False)
        return [[hit.id for hit in self.shard.query(ask(q))] for q in queries]

    def close(self):
        self.shard.close()
        if self.folder:
            shutil.rmtree(self.folder)


ENGINES = {"hnswlib": Hnswlib, "faiss": Faiss, "faiss-sq8": FaissSQ8, "usearch": USearch, "usearch-i8": USearchI8, "vsag": Vsag, "zvec": Zvec, "qdrant-edge": QdrantEdge}


def fastest(engine, queries, k, ef):
    """Answers, and the seconds of the best pass."""
    best, found = float("inf"), None
    for _ in range(PASSES):
        start = time.perf_counter()
        found = engine.search(queries, k, ef)
        best = min(best, time.perf_counter() - start)
    return found, best


def recall(found, truth):
    return float(np.mean([len(set(map(int, f[:K])) & set(map(int, t[:K]))) / K for f, t in zip(found, truth)]))


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("engine", choices=ENGINES)
    args.add_argument("base")
    args.add_argument("query")
    args.add_argument("truth")
    args.add_argument("--metric", choices=("cos", "ip", "l2"), default="cos")
    args.add_argument("--m", type=int, default=16)
    args.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of the build")
    args.add_argument("--ef", type=lambda s: [int(x) for x in s.split(",")], default=WIDTHS)
    args.add_argument("--keep", help="folder that keeps what was built")
    a = args.parse_args()
    truth = rows(a.truth, np.int32)
    base, queries = rows(a.base, np.float32), rows(a.query, np.float32)[:len(truth)]
    if a.metric == "cos":  # by inner product of unit vectors
        base, queries = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) for x in (base, queries))
    base, queries = np.ascontiguousarray(base), np.ascontiguousarray(queries)
    engine = ENGINES[a.engine](a.metric, a.m, a.threads)

    def tell(kind, **line):
        print(json.dumps(dict(kind=kind, engine=engine.name, set=set_name(a.base), m=a.m, **line)), flush=True)

    kept = os.path.join(a.keep, f"{set_name(a.base)}-{engine.name}-{a.m}") if a.keep else ""
    if kept and os.path.exists(kept):
        engine.load(kept, base)
    else:
        start = time.perf_counter()
        engine.build(base)
        tell("build", build_s=round(time.perf_counter() - start, 1), threads=a.threads, vectors=len(base), bytes=0)
        if kept:
            os.makedirs(a.keep, exist_ok=True)
            engine.save(kept)
    overhead = 0.0
    if not engine.batch:
        overhead = fastest(engine, queries, 1, 1)[1] / len(queries)
    tell("overhead", overhead_us=round(overhead * 1e6, 1))
    for ef in a.ef:
        found, seconds = fastest(engine, queries, K, ef)
        if hasattr(engine, "names"):
            found = engine.names(found)
        each = seconds / len(queries)
        line = dict(ef=ef, recall=round(recall(found, truth), 4), qps=round(1 / each), distances=0, avg_us=round(each * 1e6, 1))
        if overhead and each < 1.1 * overhead:  # the machine was at other work in one of the two
            print(f"{engine.name} ef {ef}: {each * 1e6:.1f} us a query, {overhead * 1e6:.1f} of them overhead: left out", file=sys.stderr)
            continue
        if overhead:
            line.update(overhead_us=round(overhead * 1e6, 1), net_qps=round(1 / (each - overhead)))
        tell("curve", **line)
    engine.close()


if __name__ == "__main__":
    main()
