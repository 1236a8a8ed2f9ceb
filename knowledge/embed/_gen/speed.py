#!/usr/bin/env python3
"""Time the ONNX models beside ONNX Runtime on the same texts, in turns, one thread each, and print the ratios.

usage: speed.py MODELS [ROUNDS]      (onnxruntime, tokenizers, numpy; run it in knowledge/embed on an idle machine)

Ratios are above 1 when we are faster: by the clock, and by processor time, which a busy machine disturbs less.

MODELS is the folder of the models, each in a folder of its name in the fetch script. Both sides tokenize, batch by
length and pool; ONNX Runtime gets batches of 8 texts of about one length, which is the fastest of 1, 8 and 32.
"""
import os, random, re, resource, subprocess, sys, tempfile, time

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

# name: limit, pooling, passage prefix
MODELS = {
    "all-minilm-l6-v2-q": (512, "mean", ""),
    "bge-small-en-v1.5-q": (512, "cls", ""),
    "e5-small-v2-q": (512, "mean", "passage: "),
}
WORDS = ("the of and a to in is with stone bridge river water lamp keeper old new quarry repaired before storm engine "
         "pressure measured result shows that material under heat flow between layers").split()


def texts():
    r = random.Random(20261130)
    return [" ".join(r.choice(WORDS) for _ in range(12 + 5 * i)) for i in range(48)]


class Peer:
    def __init__(self, dir, name):
        self.limit, self.pooling, self.prefix = MODELS[name]
        o = ort.SessionOptions()
        o.intra_op_num_threads = o.inter_op_num_threads = 1
        self.session = ort.InferenceSession(f"{dir}/{name}/{name}.onnx", o, providers=["CPUExecutionProvider"])
        self.tokenizer = Tokenizer.from_file(f"{dir}/{name}/{name}-tokenizer.json")
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(self.limit)
        self.inputs = {i.name for i in self.session.get_inputs()}

    def embed(self, texts):
        ids = [self.tokenizer.encode(self.prefix + t).ids for t in texts]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        for at in range(0, len(order), 8):
            part = [ids[i] for i in order[at:at + 8]]
            n = max(map(len, part))
            x = np.zeros((len(part), n), np.int64)
            mask = np.zeros_like(x)
            for r, p in enumerate(part):
                x[r, :len(p)], mask[r, :len(p)] = p, 1
            feed = {"input_ids": x, "attention_mask": mask, "token_type_ids": np.zeros_like(x)}
            h = self.session.run(None, {k: v for k, v in feed.items() if k in self.inputs})[0]
            v = h[:, 0] if self.pooling == "cls" else (h * mask[:, :, None]).sum(1)
            v / np.linalg.norm(v, axis=1, keepdims=True)

    def rate(self, texts):
        """Texts a second, and processor seconds a pass."""
        self.embed(texts)
        start, cpu, n = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - start < 3:
            self.embed(texts)
            n += 1
        return n * len(texts) / (time.perf_counter() - start), (time.process_time() - cpu) / n


def bench(binary, models, file, name, workers, passes):
    """Texts a second, and processor seconds of the whole process."""
    env = dict(os.environ, QUARRY_MODELS=models, QUARRY_TEXTS=file)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([binary, "-test.run", "^$", "-test.bench", f"BenchmarkModels/{name}/workers={workers}$",
                          "-test.benchtime", f"{passes}x"], env=env, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(re.search(r"([\d.e+]+) texts/s", out)[1]), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(binary, models, file, name):
    few, many = 1, 6
    (_, start), (one, end) = (bench(binary, models, file, name, 1, n) for n in (few, many))
    two, _ = bench(binary, models, file, name, 2, many)
    return one, two, (end - start) / (many - few)


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    models, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 3
    with tempfile.TemporaryDirectory() as tmp:
        binary, file = tmp + "/embed.test", tmp + "/texts.txt"
        subprocess.run(["go", "test", "-c", "-o", binary, "."], check=True)
        with open(file, "w") as f:
            f.write("\n".join(texts()) + "\n")
        for name in MODELS:
            peer = Peer(models, name)
            for _ in range(rounds):
                (peer_rate, peer_cpu), (one, two, cpu) = peer.rate(texts()), ours(binary, models, file, name)
                print(f"{name}: ONNX Runtime {peer_rate:.1f}, ours {one:.1f} texts/s: {one / peer_rate:.2f}; "
                      f"by processor time {peer_cpu / cpu:.2f}; two cores / one {two / one:.2f}; load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
