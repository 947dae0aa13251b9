"""Short scripts that use ONNX files without seqloom, one for each kind of model; written beside the file."""

from __future__ import annotations

from typing import Any

_HEAD = '''\
"""Use {stem}.onnx without seqloom: pip install numpy onnxruntime{more}"""
import json, pathlib, sys
import numpy as np, onnxruntime{imports}

here = pathlib.Path(__file__).parent
facts = json.loads((here / "{stem}.json").read_text("utf-8"))
network = onnxruntime.InferenceSession(here / "{stem}.onnx")
'''
_TEXT = """\
tokenizer = tokenizers.Tokenizer.from_file(str(here / "{stem}.tokenizer.json"))
"""
_LANGUAGE = """\
text = " ".join(sys.argv[1:])
ids = [facts["end"], *tokenizer.encode(text, add_special_tokens=False).ids]
log_probs = network.run(["log_probs"], {"ids": np.array([ids])})[0][0]
print("log-probability", log_probs[np.arange(len(ids) - 1), ids[1:]].sum())
for i in log_probs[-1].argsort()[::-1][:5]:
    print(repr(tokenizer.id_to_token(i)), np.exp(log_probs[-1, i]))
"""
_PROBABILITIES = """\
for label, log_prob in zip(facts["classes"], network.run(["log_probs"], batch)[0][0]):
    print(label, np.exp(log_prob))
"""
_READ_TEXT = """\
ids = [*tokenizer.encode(" ".join(sys.argv[1:]), add_special_tokens=False).ids, facts["end"]]
"""
_CUT = """\
ids = ids[: facts["max_length"]]
batch = {"ids": np.array([ids]), "lengths": np.array([len(ids)])}
"""
_WINDOWS = """\
size = facts["max_length"]
parts = [ids[i : i + size] for i in range(0, max(len(ids) - size, 0) + size // 2, max(size // 2, 1))]
parts = parts if len(ids) > size else [ids]
"""
_SENTENCES = """\
size = facts["max_length"]  # each argument is a sentence of one document
parts = [tokenizer.encode(text, add_special_tokens=False).ids for text in sys.argv[1:]]
parts = [[*part, facts["end"]][:size] for part in parts]
"""
_PARTS = """\
lengths = np.array([len(part) for part in parts])
ids = np.array([part + [0] * (lengths.max() - len(part)) for part in parts])
batch = {"ids": ids, "lengths": lengths, "counts": np.array([len(parts)])}
"""
_NUMBERS = """\
rows = np.array(json.loads(sys.argv[1]), np.float32)  # [[1.0, 2.0], [0.5, 1.5]]: steps of all columns
batch = {"values": rows[None], "lengths": np.array([len(rows)])}
"""
_MARKED = """\
marks, ids = facts["marks"], tokenizer.encode(" ".join(sys.argv[1:]), add_special_tokens=False).ids
ids = [marks["cls"], *ids[: facts["longest"] - 2], marks["sep"]]
batch = {"ids": np.array([ids]), "lengths": np.array([len(ids)])}
"""
_PAIRS = """\
marks, texts = facts["marks"], sys.argv[1:3]
first, second = (tokenizer.encode(text, add_special_tokens=False).ids for text in texts)
ids = [marks["cls"], *first, *[marks["sep"]] * marks["separators"], *second, marks["sep"]]
types = [int(i > len(first) + 1 and marks["separators"] == 1) for i in range(len(ids))]
batch = {"ids": np.array([ids]), "lengths": np.array([len(ids)]), "types": np.array([types])}
"""
_SPELLED = """\
words = [word[: facts["longest_word"]] for word in words]
known = {character: i for i, character in enumerate(facts["characters"], 2)}
lengths = np.array([len(word) for word in words])
spelled = [[known.get(c, 1) for c in word] + [0] * (max(lengths) - len(word)) for word in words]
batch |= {"words": np.arange(len(words))[None], "spellings": np.array(spelled), "spelling_lengths": lengths}
"""
_SPELLED_TEXT = """\
text = " ".join(sys.argv[1:])
words = [*(text[a:b] for a, b in tokenizer.encode(text).offsets), ""][: len(ids)]
"""
_TAG_WORDS = """\
words = sys.argv[1:]
rows = [facts["words"].get(word.lower() if facts["lowercase"] else word, 0) for word in words]
batch = {"ids": np.array([rows]), "lengths": np.array([len(rows)])}
"""
_TAG_MARKED = """\
words, marks, ids, at = sys.argv[1:], facts["marks"], [facts["marks"]["cls"]], []
for word in words:
    at.append(len(ids))
    ids += tokenizer.encode(word, add_special_tokens=False).ids
batch = {"ids": np.array([[*ids, marks["sep"]]]), "lengths": np.array([len(ids) + 1])}
batch |= {"counts": np.array([1]), "rows": np.zeros((1, len(at)), np.int64)}
batch |= {"positions": np.array([at]), "word_counts": np.array([len(at)])}
"""
_TAGS = """\
for word, tag in zip(sys.argv[1:], network.run(["tags"], batch)[0][0]):
    print(word, facts["tags"][tag])
"""
_VECTOR = """\
print(json.dumps(network.run(["vectors"], batch)[0][0].tolist()))
"""
_VECTORS = """\
batch |= {"types": np.zeros_like(batch["ids"])} if "types" in facts["inputs"] else {}
print(json.dumps(network.run(["vectors"], batch)[0][0].tolist()))
"""
_FILL = """\
marks, before_after = facts["marks"], " ".join(sys.argv[1:]).split("[MASK]")
ids = [marks["cls"]]
for i, part in enumerate(before_after):
    ids += [marks["mask"]] * (i > 0) + tokenizer.encode(part, add_special_tokens=False).ids
ids = np.array([[*ids, marks["sep"]]])
batch = {"ids": ids, "lengths": np.array([ids.shape[1]]), "types": np.zeros_like(ids)}
log_probs = network.run(["log_probs"], {name: batch[name] for name in facts["inputs"]})[0][0]
for place in np.flatnonzero(ids[0] == marks["mask"]):
    print([tokenizer.id_to_token(i) for i in log_probs[place].argsort()[::-1][:5]])
"""
_SOURCE_TEXT = """\
reader = tokenizers.Tokenizer.from_file(str(here / "{stem}.source.tokenizer.json"))
ids = reader.encode(" ".join(sys.argv[1:]), add_special_tokens=False).ids[:: facts["direction"]]
ids = [*facts["before"], *ids, *facts["after"]]
batch = {"ids": np.array([ids]), "lengths": np.array([len(ids)])}
"""
_TRANSLATE = """\
written = list(facts["start"])
for _ in range((facts["longest"] or 200) - len(written)):  # the likeliest token, one after the other
    batch["targets"] = np.array([written])
    written.append(int(network.run(["log_probs"], batch)[0][0, -1].argmax()))
    if written[-1] == facts["end"]: break
print(tokenizer.decode([i for i in written[len(facts["start"]) :] if i != facts["end"]]))
"""
_FORECAST = """\
rows = np.array(json.loads(sys.argv[1]), np.float32).reshape(-1, len(facts["columns"]))
missing = max(facts["window"] - len(rows), 0)
assert not missing, f"it looks back {facts['window']} steps; give {missing} more"
batch = {"values": rows[None]}
if "known" in facts["inputs"]:  # (window + horizon, columns known in advance), as the model scales them
    batch["known"] = np.array([json.loads(sys.argv[2])], np.float32)
print(json.dumps(network.run(["forecast"], batch)[0][0].tolist()))
"""


def script_for(model: Any, stem: str) -> str:
    """Return the script for a model whose ONNX file has this name without its ending."""
    parts = _parts(model)
    text = bool(model.tokenizers)
    head = _HEAD.format(
        stem=stem,
        more=" tokenizers" if text else "",
        imports=", tokenizers" if text else "",
    )
    return "".join([head, _TEXT.format(stem=stem) if text else "", *parts]).replace("{stem}", stem)


def _parts(model: Any) -> list[str]:
    task = model.task
    if task == "language model":
        return [_LANGUAGE]
    if task == "masked language model":
        return [_FILL] if model.config.head else [_MARKED, _VECTORS]
    if task == "forecaster":
        return [_FORECAST]
    if task == "translator":
        return [_NUMBERS if model.sizes.columns else _SOURCE_TEXT, _TRANSLATE]
    if task == "tagger":
        spelled = [_SPELLED] if model.learnt.get("characters") else []
        read = [_TAG_WORDS, *spelled] if model.published is None else [_TAG_MARKED]
        return [*read, _TAGS]
    if task == "classifier":
        return [*_read_example(model), _PROBABILITIES]
    return [_MARKED, _VECTOR]


def _read_example(model: Any) -> list[str]:
    long = model.config.long
    if model.sizes.columns:
        return [_NUMBERS]
    if model.published is not None:
        return [_PAIRS if model.reads_pairs else _MARKED]
    if long == "sentences":
        return [_SENTENCES, _PARTS]
    if long == "windows":
        return [_READ_TEXT, _WINDOWS, _PARTS]
    if model.learnt.get("characters"):
        return [_READ_TEXT, _CUT, _SPELLED_TEXT, _SPELLED]
    return [_READ_TEXT, _CUT]
