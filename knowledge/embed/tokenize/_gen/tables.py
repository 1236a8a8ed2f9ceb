#!/usr/bin/env python3
"""Makes ../bert.tab and ../nmt_nfkc.tab, the tables that package tokenize embeds (see ../format.md).

usage: tables.py CHARSMAP

Needs tokenizers==0.23.3. CHARSMAP holds the nmt_nfkc charsmap of sentencepiece 0.1.83 … 0.1.91, the one
XLM-RoBERTa was trained with (field precompiled_charsmap of a model, 237,539 bytes, sha256
0942789e0111452f1cc446f70036e26d24458c3c7858c53cc12ca4d87531279b).
"""
import base64, hashlib, os, struct, sys
from tokenizers import normalizers, pre_tokenizers

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def v(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def ranges(cps):
    """v count, then per range v gap to the end of the one before, v length."""
    runs, out, prev = [], b"", 0
    for c in cps:
        if runs and runs[-1][1] == c:
            runs[-1][1] = c + 1
        else:
            runs.append([c, c + 1])
    for a, b in runs:
        out += v(a - prev) + v(b - a)
        prev = b
    return v(len(runs)) + out


def mapping(m):
    out, prev = v(len(m)), 0
    for c in sorted(m):
        b = m[c].encode()
        out += v(c - prev) + v(len(b)) + b
        prev = c
    return out


def bert():
    N = lambda **k: normalizers.BertNormalizer(**{**dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False), **k})
    clean, strip, cjk, low, nfd, pre = N(clean_text=True), N(strip_accents=True), N(handle_chinese_chars=True), N(lowercase=True), normalizers.NFD(), pre_tokenizers.BertPreTokenizer()
    removed, spaces, punct, marks, han, dec, lower = [], [], [], [], [], {}, {}
    for cp in [*range(0xD800), *range(0xE000, 0x110000)]:
        c = chr(cp)
        if clean.normalize_str(c) == "":
            removed.append(cp)
        if cjk.normalize_str(c) != c:
            han.append(cp)
        n = len(pre.pre_tokenize_str("a" + c + "b"))
        if n == 2:
            spaces.append(cp)
        elif n == 3:
            punct.append(cp)
        d, s, l = nfd.normalize_str(c), strip.normalize_str(c), low.normalize_str(c)
        if d == c and s == "":
            marks.append(cp)
        if d != c and not 0xAC00 <= cp < 0xAC00 + 11172:
            dec[cp] = d
        if l != c:
            lower[cp] = l
    t = b"".join(ranges(x) for x in (removed, spaces, punct, marks, han)) + mapping(dec) + mapping(lower)
    open(os.path.join(OUT, "bert.tab"), "wb").write(t)
    print("bert.tab", len(t), len(removed), len(spaces), len(punct), len(marks), len(han), len(dec), len(lower))


def charsmap_entries(cm):
    """Every (key, value) that a lookup of the shortest prefix among at most 5 bytes can find."""
    ts = struct.unpack_from("<I", cm)[0]
    arr, blob = struct.unpack_from("<%dI" % (ts // 4), cm, 4), cm[4 + ts:]
    off = lambda u: (u >> 10) << ((u & (1 << 9)) >> 6)
    out, stack = {}, [(off(arr[0]), b"")]
    while stack:
        p, k = stack.pop()
        for c in range(1, 256):
            q = p ^ c
            if q < len(arr) and arr[q] & 0x800000FF == c:
                n = q ^ off(arr[q])
                if arr[q] >> 8 & 1:
                    a = arr[n] & 0x7FFFFFFF
                    out[k + bytes([c])] = blob[a:blob.index(b"\0", a)]
                elif len(k) < 4:
                    stack.append((n, k + bytes([c])))
    return out


def charsmap(path):
    cm = open(path, "rb").read()
    print("charsmap sha256", hashlib.sha256(cm).hexdigest())
    e, prev = charsmap_entries(cm), b""
    t = v(len(e))
    for k in sorted(e):
        n = len(os.path.commonprefix([prev, k]))
        t += v(n) + v(len(k) - n) + k[n:] + v(len(e[k])) + e[k]
        prev = k
    open(os.path.join(OUT, "nmt_nfkc.tab"), "wb").write(t)
    print("nmt_nfkc.tab", len(t), len(e))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    charsmap(sys.argv[1])
    bert()
