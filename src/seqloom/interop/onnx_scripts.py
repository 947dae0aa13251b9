"""Short scripts that use ONNX files without seqloom, one for each kind of model; written beside the
file. They read as the models do: texts are cut or divided, and rows padded, in the same way.
"""

from __future__ import annotations

from string import Template
from typing import Any

_HEAD = '''\
"""Use the ONNX file beside this script without seqloom: pip install numpy onnxruntime$more"""
import json, pathlib, sys
import numpy as np, onnxruntime$imports

here = pathlib.Path(__file__).parent
facts = json.loads((here / $facts).read_text("utf-8"))
network = onnxruntime.InferenceSession(here / $network)
'''
_TOKENIZER = """\
$name = tokenizers.Tokenizer.from_file(str(here / $file))
$name.encode_special_tokens = True  # no text becomes a mark
"""
_LANGUAGE = """\
ids = tokenizer.encode(" ".join(sys.argv[1:]), add_special_tokens=False).ids
assert len(ids) < (facts["context"] or np.inf), f"it reads {facts['context']} tokens at once"
rows = [[facts["start"]], ids] if ids and facts["start_alone"] else [[facts["start"], *ids]]
found = [network.run(["log_probs"], {"ids": np.array([row])})[0][0] for row in rows]
log_probs = np.concatenate(found)  # of what comes after the start, and after each token
print("log-probability", sum(log_probs[t, i] for t, i in enumerate(ids)))
for i in log_probs[-1].argsort()[::-1][:5]:
    print(repr(tokenizer.id_to_token(i)), np.exp(log_probs[-1, i]))
"""

# ---- examples

_TEXT = """\
text = " ".join(sys.argv[1:])
ids = [*tokenizer.encode(text, add_special_tokens=False).ids, facts["end"]][: facts["max_length"]]
batch = {"ids": np.array([ids]), "lengths": np.array([len(ids)])}
"""
_SPELLED_TEXT = """\
text = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
words = [*(text[a:b] for a, b in tokenizer.encode(text).offsets), ""][: len(ids)]
places = np.array([range(len(words))])
"""
_MARKED = """\
marks, ids = facts["marks"], tokenizer.encode(" ".join(sys.argv[1:]), add_special_tokens=False).ids
ids = [marks["cls"], *ids[: facts["max_length"] - 2], marks["sep"]]
batch = {"ids": np.array([ids]), "lengths": np.array([len(ids)])}
"""
_DIVIDED = """\
texts, size = $texts, facts["max_length"]$room
ids, words, parts = $before, [], []
for text in texts:$normal
    found, first = tokenizer.encode(text, add_special_tokens=False), len(ids)
    ids, words = [*ids, *found.ids$end], [*words, *(text[a:b] for a, b in found.offsets), ""]
    parts += [[$open*range(i, min(i + size, len(ids)))$close] for i in $starts]
lengths = np.array([len(part) for part in parts])
places = np.array([[*part, *[0] * (max(lengths) - len(part))] for part in parts])
batch = {"ids": np.array(ids)[places], "lengths": lengths, "counts": np.array([len(parts)])}
"""
_NORMALISED = (
    "\n    text = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text"
)
_WINDOWS = "range(first, max(len($what) - size, first) + max(size // 2, 1), max(size // 2, 1))"
_NUMBERS = """\
rows = np.array(json.loads(sys.argv[1]), np.float32)  # [[1.0, 2.0], [0.5, 1.5]]: steps of all columns
batch = {"values": rows.reshape(1, len(rows), -1), "lengths": np.array([len(rows)])}
"""
_DIVIDED_NUMBERS = """\
rows = np.array(json.loads(sys.argv[1]), np.float32)  # [[1.0, 2.0], [0.5, 1.5]]: steps of all columns
rows, size, first = rows.reshape(len(rows), -1), facts["max_length"], 0
parts = [[*range(i, min(i + size, len(rows)))] for i in $starts]
lengths = np.array([len(part) for part in parts])
places = np.array([[*part, *[0] * (max(lengths) - len(part))] for part in parts])
batch = {"values": rows[places], "lengths": lengths, "counts": np.array([len(parts)])}
"""
_PAIR = "pairs = [sys.argv[1:3]]\n"
_CHOICES = "pairs = [(sys.argv[1], choice) for choice in sys.argv[2:]]  # a context, and choices\n"
_PAIRS = """\
marks, rows, types = facts["marks"], [], []
room = facts["max_length"] - 2 - marks["separators"]
for pair in pairs:  # of a pair that is too long the end of the longer text is left out
    a, b = (tokenizer.encode(text, add_special_tokens=False).ids for text in pair)
    shorter = min(len(a), len(b), room // 2)
    a = a[: shorter if len(a) <= len(b) else room - shorter]
    row = [marks["cls"], *a, *[marks["sep"]] * marks["separators"], *b[: room - len(a)], marks["sep"]]
    types.append([int(i > len(a) + 1 and marks["separators"] == 1) for i in range(len(row))])
    rows.append(row)
lengths = np.array([len(row) for row in rows])
ids, types = ([[*row, *[0] * (max(lengths) - len(row))] for row in some] for some in (rows, types))
batch = {"ids": np.array(ids), "lengths": lengths, "types": np.array(types)}
batch = {name: batch[name] for name in facts["inputs"]}
"""
_SPELLED = """\
words = [word[: facts["longest_word"]] for word in words]
known = {character: i for i, character in enumerate(facts["characters"], 2)}
lengths = np.array([len(word) for word in words])
spelled = [[known.get(c, 1) for c in word] + [0] * (max(*lengths, 1) - len(word)) for word in words]
batch |= {"words": places, "spellings": np.array(spelled), "spelling_lengths": lengths}
"""
_WORDS = """\
words = sys.argv[1:]
rows = [facts["words"].get(word.lower() if facts["lowercase"] else word, 0) for word in words]
batch, places = {"ids": np.array([rows]), "lengths": np.array([len(rows)])}, np.array([range(len(rows))])
"""
_MARKED_WORDS = """\
marks, size, parts, rows, positions = facts["marks"], facts["max_length"] - 2, [[]], [], []
for i, word in enumerate(sys.argv[1:]):
    ids = tokenizer.encode(" " * (i > 0) + word, add_special_tokens=False).ids[:size] or [facts["unknown"]]
    if len(parts[-1]) + len(ids) > size: parts.append([])  # a long sentence is read in parts
    rows.append(len(parts) - 1); positions.append(len(parts[-1]) + 1)
    parts[-1] += ids
parts = [[marks["cls"], *part, marks["sep"]] for part in parts]
lengths = np.array([len(part) for part in parts])
ids = np.array([[*part, *[0] * (max(lengths) - len(part))] for part in parts])
batch = {"ids": ids, "lengths": lengths, "counts": np.array([len(parts)])}
batch |= {"rows": np.array([rows]), "positions": np.array([positions]), "word_counts": np.array([len(rows)])}
"""
_QUESTION = """\
question, context, marks, n = *sys.argv[1:3], facts["marks"], facts["longest_question"]
asked, found = (tokenizer.encode(text, add_special_tokens=False) for text in (question, context))
between, asked_words = [""] * marks["separators"], [question[a:b].strip() for a, b in asked.offsets][:n]
words = ["", *asked_words, *between, *(context[a:b].strip() for a, b in found.offsets), ""]
ids = [marks["cls"], *asked.ids[:n], *[marks["sep"]] * marks["separators"], *found.ids, marks["sep"]]
first, last = len(ids) - len(found.ids) - 1, len(ids) - 1  # the context is between these
size = facts["max_length"] - first - 1
step = max(size - $overlap, 1)  # windows of a long context overlap
starts = range(first, max(last - size, first) + step, step)
parts = [[*range(first), *range(i, min(i + size, last)), last] for i in starts]
lengths = np.array([len(part) for part in parts])
places = np.array([[*part, *[last] * (max(lengths) - len(part))] for part in parts])
allowed = np.array([i == 0 or first <= i and word != "" for i, word in enumerate(words)])
types = np.array($types)
batch = {"ids": np.array(ids)[places], "lengths": lengths}
batch |= {"types": types[places], "allowed": allowed[places]}
"""

# ---- answers

_PROBABILITIES = """\
for label, log_prob in zip(facts["classes"], network.run(["log_probs"], batch)[0][0]):
    print(label, np.exp(log_prob))
"""
_CHOSEN = """\
log_probs = network.run(["log_probs"], batch)[0][:, 0]
odds = np.exp(log_probs - np.log(-np.expm1(log_probs)))
for (_, choice), share in zip(pairs, odds / odds.sum()):
    print(choice, share)
"""
_TAGS = """\
for word, tag in zip(sys.argv[1:], network.run(["tags"], batch)[0][0]):
    print(word, facts["tags"][tag])
"""
_ANSWER = """\
batch = {name: batch[name] for name in facts["inputs"]}
spans, scores, nothing = network.run(["spans", "scores", "no_answer"], batch)
row, no_answer = scores.argmax(), 1 / (1 + np.exp(scores.max() - nothing.min()))
answered = no_answer <= facts["threshold"] and scores[row] > -np.inf
begin, end = (found.offsets[i - first] for i in places[row][spans[row]]) if answered else [(0, 0)] * 2
print(no_answer, context[begin[0] : end[1]].strip())
"""
_VECTOR = """\
print(json.dumps(network.run(["vectors"], batch)[0][0].tolist()))
"""
_TYPES = """\
batch |= {"types": np.zeros_like(batch["ids"])} if "types" in facts["inputs"] else {}
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
ids = source.encode(" ".join(sys.argv[1:]), add_special_tokens=False).ids[:: facts["direction"]]
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


def script_for(model: Any, network: str, facts: str, tokenizers: dict[str, str]) -> str:
    """Return the script for a model; `network`, `facts`, `tokenizers`: the names of the files, those
    of tokenizers by what they are called in the script.
    """
    head = Template(_HEAD).substitute(
        more=" tokenizers" if tokenizers else "",
        imports=", tokenizers" if tokenizers else "",
        facts=repr(facts),
        network=repr(network),
    )
    opened = [
        Template(_TOKENIZER).substitute(name=name, file=repr(file))
        for name, file in tokenizers.items()
    ]
    return "".join([head, *opened, *_parts(model)])


def _parts(model: Any) -> list[str]:
    task, spelled = model.task, [_SPELLED] if model.learnt.get("characters") else []
    if task == "language model":
        return [_LANGUAGE]
    if task == "masked language model":
        return [_FILL] if model.config.head else [_MARKED, _TYPES, _VECTOR]
    if task == "forecaster":
        return [_FORECAST]
    if task == "translator":
        return [_NUMBERS if model.sizes.columns else _SOURCE_TEXT, _TRANSLATE]
    if task == "tagger":
        return [*([_WORDS, *spelled] if model.published is None else [_MARKED_WORDS]), _TAGS]
    if task == "answerer":
        return [_question(model), *spelled, _ANSWER]
    if task == "classifier":
        if model.learnt.get("choices"):
            return [_CHOICES, _PAIRS, _CHOSEN]
        return [*_example(model), _PROBABILITIES]
    return [_MARKED, _VECTOR]


def _example(model: Any) -> list[str]:
    """Return how a script reads the example of a classifier."""
    divided, marked = model.config.long != "truncate", model.published is not None
    spelled = bool(model.learnt.get("characters"))
    if model.sizes.columns:
        return [_divided(_DIVIDED_NUMBERS, model, "rows") if divided else _NUMBERS]
    if model.reads_pairs:
        return [_PAIR, _PAIRS]
    if divided:
        return [_divided(_DIVIDED, model, "ids"), *([_SPELLED] if spelled else [])]
    if marked:
        return [_MARKED]
    return [_TEXT, *([_SPELLED_TEXT, _SPELLED] if spelled else [])]


def _divided(text: str, model: Any, what: str) -> str:
    """Return the part of a script that divides an example into rows."""
    windows, marked = model.config.long == "windows", model.published is not None
    return Template(text).substitute(
        texts='[" ".join(sys.argv[1:])]' if windows else "sys.argv[1:]",
        room=" - 2" if marked else "",
        before='[facts["marks"]["cls"], facts["marks"]["sep"]]' if marked else "[]",
        normal=_NORMALISED if model.learnt.get("characters") else "",
        end="" if marked else ', facts["end"]',
        open="0, " if marked else "",
        close=", 1" if marked else "",
        starts=Template(_WINDOWS).substitute(what=what) if windows else "[first]",
    )


def _question(model: Any) -> str:
    """Return the part of a script that divides a question and its context into rows."""
    overlap = model.config.overlap
    if model.published is None:  # words of the context that are in the question are told apart
        same = "word.lower() in {word.lower() for word in asked_words if word.isalnum()}"
        types = f"[(first <= i < last) * (1 + ({same})) for i, word in enumerate(words)]"
    else:
        types = '[int(i >= first and marks["separators"] == 1) for i in range(len(ids))]'
    return Template(_QUESTION).substitute(
        overlap="size // 3" if overlap is None else overlap, types=types
    )
