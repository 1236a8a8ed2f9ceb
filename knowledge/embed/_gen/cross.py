#!/usr/bin/env python3
"""Write testdata/cross: two cross-encoders of random weights, laid out by transformers itself as on the hub, and their logits.

usage: cross.py OUTDIR      (PyTorch 1.13, transformers 4.30, tokenizers 0.13)

bert/ is a BertForSequenceClassification with WordPiece, roberta/ an XLMRobertaForSequenceClassification with Unigram, both
saved in half precision. golden.json holds, for pairs of made-up texts, the tokens of the pair, whether it was cut, and
the logit by PyTorch in float32.
"""
import json, os, sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast, PreTrainedTokenizerFast
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

LIMIT = 32
WORDS = "stone quarry lamp water bridge how is the of a repaired built old new in with rope and".split()
SHAPE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=1,
             hidden_act="gelu")
LONG = " ".join(WORDS * 3)
PAIRS = [
    ("how is a lamp repaired", ["a lamp is repaired with a rope", "the old bridge of stone", "", "Water!", LONG]),
    ("", ["stone", ""]),
    (LONG, ["stone", "the new quarry", LONG, " ".join(WORDS[:15])]),
    ("stone " * 14, ["lamp " * 14, "lamp " * 15, "lamp " * 16]),
    ("Quarry, bridge?", ["zebra lamps", "quarry bridge"]),
]


def randomize(model, seed):
    """Weights large enough for logits that differ, exact in half precision."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            norm = "LayerNorm.weight" in name
            # Tables and biases small, matrices so that a product keeps its size.
            spread = 0.1 if norm or p.dim() == 1 else 1.0 if "embeddings" in name else 1.3 / p.shape[1] ** 0.5
            p.copy_((torch.randn(p.shape, generator=g) * spread + (1 if norm else 0)).half().float())
    return model.eval()


def bert(out):
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "?", "!"] + WORDS + [w for w in letters if w != "a"] + ["##" + c for c in letters]
    os.makedirs(out, exist_ok=True)
    with open(out + "/vocab.txt", "w") as f:
        f.write("\n".join(vocab) + "\n")
    tok = BertTokenizerFast(out + "/vocab.txt", do_lower_case=True, model_max_length=LIMIT)
    tok.save_pretrained(out)
    model = BertForSequenceClassification(BertConfig(vocab_size=len(vocab), max_position_embeddings=LIMIT, **SHAPE))
    return tok, randomize(model, 1)


def roberta(out):
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = ["<s>", "<pad>", "</s>", "<unk>"] + ["\u2581" + w for w in WORDS if w != "a"] + ["\u2581"] + letters + [".", ",", "?", "!"]
    scores = [0.0] * 4 + [-3.0 - 0.125 * i for i in range(len(pieces) - 4)]
    t = Tokenizer(models.Unigram(list(zip(pieces, scores)), 3))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)])
    tok = PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", sep_token="</s>", cls_token="<s>",
                                  unk_token="<unk>", pad_token="<pad>", model_max_length=LIMIT)
    tok.save_pretrained(out)
    config = XLMRobertaConfig(vocab_size=len(pieces), max_position_embeddings=LIMIT + 2, type_vocab_size=1, pad_token_id=1,
                              layer_norm_eps=1e-5, **SHAPE)
    return tok, randomize(XLMRobertaForSequenceClassification(config), 2)


def golden(tok, model):
    out = []
    for query, passages in PAIRS:
        for passage in passages:
            pair = [query], [passage]  # lists: a bare "" would be no passage at all
            enc = tok(*pair, truncation="longest_first", max_length=LIMIT, return_tensors="pt")
            whole = tok(*pair, truncation=False, verbose=False)["input_ids"][0]
            with torch.no_grad():
                logit = model(**enc).logits.item()
            out.append({"query": query, "passage": passage, "ids": enc["input_ids"][0].tolist(),
                        "cut": len(whole) > LIMIT, "logit": round(logit, 5)})
    return out


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    result = {}
    for name, make in ("bert", bert), ("roberta", roberta):
        where = os.path.join(sys.argv[1], name)
        tok, model = make(where)
        result[name] = golden(tok, model)
        model.half().save_pretrained(where, safe_serialization=True)
        for extra in "special_tokens_map.json", "added_tokens.json":
            if os.path.exists(os.path.join(where, extra)):
                os.remove(os.path.join(where, extra))
    with open(os.path.join(sys.argv[1], "golden.json"), "w") as f:
        json.dump(result, f, ensure_ascii=False)
        f.write("\n")
