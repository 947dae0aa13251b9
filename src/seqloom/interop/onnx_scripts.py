"""Short scripts that use ONNX files without seqloom, one for each kind of model; written beside the
file. Marks around texts, cutting and padding are in the tokenizer's file, windows and spans in the graph.
"""

from __future__ import annotations

from string import Template
from typing import Any

_HEAD = '''\
"""Use the ONNX file beside this script without seqloom: pip install numpy onnxruntime$more"""
import itertools, json, pathlib, sys, numpy as np, onnxruntime$imports

here = pathlib.Path(__file__).parent
facts = json.loads((here / $facts).read_text("utf-8"))
network = onnxruntime.InferenceSession(here / $network)
'''
_TOKENIZER = """\
$name = tokenizers.Tokenizer.from_file(str(here / $file))
"""
_TOKENIZERS = """\
$names = (tokenizers.Tokenizer.from_file(str(here / name)) for name in facts["tokenizers"])
"""
_NO_MARKS = """\
$name.encode_special_tokens = True  # no text becomes a mark
"""
_LANGUAGE = """\
ids = tokenizer.encode(" ".join(sys.argv[1:]), add_special_tokens=False).ids
assert len(ids) < (facts["context"] or np.inf), f"it reads {facts['context']} tokens at once"
rows = $rows
log_probs = np.concatenate([network.run(["log_probs"], {"ids": np.array([row])})[0][0] for row in rows])
print("log-probability", sum(log_probs[t, i] for t, i in enumerate(ids)))
for i in log_probs[-1].argsort()[::-1][:5]:  # what comes next
    print(repr(tokenizer.id_to_token(i)), np.exp(log_probs[-1, i]))
"""
_TOGETHER = '[[facts["start"], *ids]]'
_START_ALONE = '[[facts["start"]], ids] if ids else [[facts["start"]]]'

# ---- examples

_TEXTS = """\
texts = $texts
found = tokenizer.encode_batch(texts, add_special_tokens=False)
ids = [i for row in found for i in (*row.ids, facts["end"])]
batch = {"ids": np.array([ids]), "lengths": np.array([len(ids)])}
"""
_TEXT, _SENTENCES = '[" ".join(sys.argv[1:])]', "sys.argv[1:]"
_NORMALISED = "[tokenizer.normalizer.normalize_str(text) for text in $texts]"
_SPELLED_TEXTS = """\
words = [text[a:b] for text, row in zip(texts, found) for a, b in (*row.offsets, (0, 0))]
"""
_SPELLED = """\
batch["spellings"] = np.array([[word.ids for word in characters.encode_batch(words)]])
"""
_MARKED = """\
rows = tokenizer.encode_batch($texts)
"""
_MARKED_ROWS = """\
batch = {"ids": np.array([row.ids for row in rows])}
batch["lengths"] = np.array([sum(row.attention_mask) for row in rows])
"""
_OVERFLOWING = """\
rows = [part for row in rows for part in (row, *row.overflowing)]  # windows of a long text
"""
_COUNTS = """\
batch["counts"] = np.array([len(rows)])
"""
_TYPES = """\
batch["types"] = np.array([row.type_ids for row in rows])
"""
_PAIR = "[tuple(sys.argv[1:3])]"
_CHOICES = "[(sys.argv[1], choice) for choice in sys.argv[2:]]"  # a context, and choices
_NUMBERS = """\
rows = np.array(json.loads(sys.argv[1]), np.float32)  # [[1.0, 2.0], [0.5, 1.5]]: steps of all columns
batch = {"values": rows.reshape(1, len(rows), -1), "lengths": np.array([len(rows)])}
"""
_WORDS = """\
words = sys.argv[1:]
ids = [facts["words"].get(word.lower() if facts["lowercase"] else word, 0) for word in words]
batch = {"ids": np.array([ids]), "lengths": np.array([len(ids)])}
"""
_MARKED_WORDS = """\
room, parts, places = facts["max_length"] - 2, [[]], []
for i, word in enumerate(sys.argv[1:]):
    ids = tokenizer.encode(" " * (i > 0) + word, add_special_tokens=False).ids[:room] or [facts["unknown"]]
    parts += [[]] * (len(parts[-1]) + len(ids) > room)  # a long sentence is read in parts
    places.append((len(parts) - 1, len(parts[-1])))
    parts[-1] += ids
batch = {"ids": np.array([*itertools.zip_longest(*parts, fillvalue=-1)]).T, "places": np.array([places])}
"""
_QUESTION = """\
asked, found = (tokenizer.encode(text, add_special_tokens=False) for text in sys.argv[1:3])
asks, words = ([text[a:b].strip() for a, b in row.offsets] for text, row in zip(sys.argv[1:], (asked, found)))
asks = asks[: facts["longest_question"]]
batch = {"question": np.array([asked.ids[: len(asks)]], np.int64), "ids": np.array([found.ids], np.int64)}
"""

# ---- answers

_PROBABILITIES = """\
for label, log_prob in zip(facts["classes"], network.run(["log_probs"], batch)[0][0]):
    print(label, np.exp(log_prob))
"""
_CHOSEN = """\
log_probs = network.run(["log_probs"], batch)[0][:, 0]
odds = np.exp(log_probs - np.log(-np.expm1(log_probs)))
for choice, share in zip(sys.argv[2:], odds / odds.sum()):
    print(choice, share)
"""
_TAGS = """\
for word, tag in zip(sys.argv[1:], network.run(["tags"], batch)[0][0]):
    print(word, facts["tags"][tag])
"""
_VECTOR = """\
print(json.dumps(network.run(["vectors"], batch)[0][0].tolist()))
"""
_FILL = """\
marks = facts["marks"]
parts = tokenizer.encode_batch(" ".join(sys.argv[1:]).split("[MASK]"), add_special_tokens=False)
ids = [i for part in parts for i in (marks["mask"], *part.ids)][1:]
ids = np.array([[marks["cls"], *ids, marks["sep"]]])
batch = {"ids": ids, "lengths": np.array([ids.shape[1]])$types}
log_probs = network.run(["log_probs"], batch)[0][0]
for place in np.flatnonzero(ids[0] == marks["mask"]):
    print([tokenizer.id_to_token(i) for i in log_probs[place].argsort()[::-1][:5]])
"""
_SOURCE_TEXT = """\
ids = source.encode(" ".join(sys.argv[1:]), add_special_tokens=False).ids[:: facts["direction"]]
ids = [*facts["before"], *ids, *facts["after"]]
batch = {"ids": np.array([ids]), "lengths": np.array([len(ids)])}
"""
_TRANSLATE = """\
written, start, most = [], facts["start"], facts["longest"] or 200
while len(written) < most - len(start) and facts["end"] not in written:  # the likeliest token, each time
    batch["targets"] = np.array([[*start, *written]])
    written.append(int(network.run(["log_probs"], batch)[0][0, -1].argmax()))
print(tokenizer.decode([i for i in written if i != facts["end"]]))
"""
_FORECAST = """\
rows = np.array(json.loads(sys.argv[1]), np.float32).reshape(-1, len(facts["columns"]))
missing = max(facts["window"] - len(rows), 0)
assert not missing, f"it looks back {facts['window']} steps; give {missing} more"
batch = {"values": rows[None]}
${known}print(json.dumps(network.run(["forecast"], batch)[0][0].tolist()))
"""
_KNOWN = """\
# (window + horizon, columns known in advance), as the model scales them
batch["known"] = np.array([json.loads(sys.argv[2])], np.float32)
"""
_KINDS_SHARED = """\
same = {word.lower() for word in asks if word.isalnum()}  # kinds: a blank, a word, one of the question
batch["kinds"] = np.array([[(word != "") * (1 + (word.lower() in same)) for word in words]], np.int64)
"""
_KINDS = """\
batch["kinds"] = np.array([[word != "" for word in words]], np.int64)
"""
_ANSWER = """\
((a, b),), (no_answer,) = network.run(["spans", "no_answer"], batch)
places = found.offsets[a:b] if no_answer <= facts["threshold"] else []
print(no_answer, sys.argv[2][places[0][0] : places[-1][1]].strip() if places else "")
"""
_SPELLED_ANSWER = """\
batch["spellings"] = np.array([[word.ids for word in characters.encode_batch([*asks, *words, ""])]])
"""


def script_for(
    model: Any, network: str, facts: str, tokenizers: dict[str, str], inputs: Any, special: bool
) -> str:
    """Return the script for a model; `network`, `facts`, `tokenizers`: the names of the files, those
    of tokenizers by what they are called in the script; `inputs`: those of the graph; `special`: whether
    the tokenizer has tokens that a text could spell.
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
    if len(opened) > 1:
        opened = [Template(_TOKENIZERS).substitute(names=", ".join(tokenizers))]
    if special:
        reads = "source" if "source" in tokenizers else "tokenizer"
        opened.append(Template(_NO_MARKS).substitute(name=reads))
    script = "".join([head, *opened, *_parts(model, inputs)])
    return script if "itertools." in script else script.replace("import itertools, ", "import ")


def _parts(model: Any, inputs: Any) -> list[str]:
    task, spelled = model.task, [_SPELLED] if "spellings" in inputs else []
    types = [_TYPES] if "types" in inputs else []
    marked = Template(_MARKED).substitute(texts=_TEXT) + _MARKED_ROWS
    if task == "language model":
        rows = _START_ALONE if model.learnt.get("start_alone") else _TOGETHER
        return [Template(_LANGUAGE).substitute(rows=rows)]
    if task == "masked language model":
        if model.config.head:
            more = ', "types": np.zeros_like(ids)' if types else ""
            return [Template(_FILL).substitute(types=more)]
        return [marked, *types, _VECTOR]
    if task == "forecaster":
        return [Template(_FORECAST).substitute(known=_KNOWN if "known" in inputs else "")]
    if task == "translator":
        return [_NUMBERS if model.sizes.columns else _SOURCE_TEXT, _TRANSLATE]
    if task == "tagger":
        return [*([_WORDS, *spelled] if model.published is None else [_MARKED_WORDS]), _TAGS]
    if task == "answerer":
        kinds = _KINDS_SHARED if model.published is None else _KINDS
        return [_QUESTION, kinds, *([_SPELLED_ANSWER] if spelled else []), _ANSWER]
    if task == "classifier":
        if model.learnt.get("choices"):
            return [Template(_MARKED).substitute(texts=_CHOICES), _MARKED_ROWS, *types, _CHOSEN]
        return [*_example(model), *types, *spelled, _PROBABILITIES]
    return [marked, _VECTOR]


def _example(model: Any) -> list[str]:
    """Return how a script reads the example of a classifier."""
    long = model.config.long
    if model.sizes.columns:
        return [_NUMBERS]
    texts = _SENTENCES if long == "sentences" else _TEXT
    if model.published is not None:
        texts = _PAIR if model.reads_pairs else texts
        rows = Template(_MARKED).substitute(texts=texts)
        divided = [_OVERFLOWING] if long == "windows" else []
        return [rows, *divided, _MARKED_ROWS, *([] if long == "truncate" else [_COUNTS])]
    if not model.learnt.get("characters"):
        return [Template(_TEXTS).substitute(texts=texts)]
    if model.tokenizer.normalizer is not None:  # offsets are those of what is cut
        texts = Template(_NORMALISED).substitute(texts=texts)
    return [Template(_TEXTS).substitute(texts=texts), _SPELLED_TEXTS]
