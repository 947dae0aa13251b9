"""What stands beside an ONNX file: its tokenizer as a `tokenizer.json`, labels and numbers as JSON, and
a short script that uses them with onnxruntime, tokenizers and NumPy alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqloom.errors import ConfigError
from seqloom.interop.hugging_face_tokenizers import TOKENIZER, Around, tokenizer_files
from seqloom.interop.onnx_scripts import script_for
from seqloom.models.sequence.inputs import LONGEST_WORD, PADDING
from seqloom.text.boundaries import character_ranges
from seqloom.text.normalize import NormalizerConfig
from seqloom.text.tokenizer import Tokenizer

SPACES = r"[ \t-\r]"  # white space of kind whitespace
END = " </s>"  # with a blank, which no token of a text has
_CASED = r"[\p{Lu}\p{Ll}\p{Lt}]"
FINAL_SIGMA = rf"(?<={_CASED})Σ(?![\p{{Mn}}'’.:·]*{_CASED})"
CUT = {"direction": "Right", "strategy": "LongestFirst", "stride": 0}
NORMALIZERS = {"nfc": "NFC", "nfkc": "NFKC", "lower": "Lowercase"}


def files_beside(model: Any, target: Path, graph: Any) -> dict[Path, str]:
    """Return the texts of the files beside the target, by their paths."""
    stem = target.name.removesuffix(".onnx")
    names = {
        "tokenizer" if name in ("text", "target") else name: (
            f"{stem}.tokenizer.json"
            if name in ("text", "target")
            else f"{stem}.{name}.tokenizer.json"
        )
        for name in model.tokenizers
    }
    facts = f"{stem}.json"
    specs = {
        names["tokenizer" if name in ("text", "target") else name]: json.loads(tokenizer_text(it))
        for name, it in model.tokenizers.items()
    }
    special = any(spec["added_tokens"] for spec in specs.values())
    if "tokenizer" in names and (around := _around(model)):
        specs[names["tokenizer"]] |= around
    if characters := model.learnt.get("characters"):
        names["characters"] = f"{stem}.characters.json"
        specs[names["characters"]] = character_spec(characters)
    files = {
        name: json.dumps(it, indent=1, ensure_ascii=False) + "\n" for name, it in specs.items()
    }
    known = facts_of(model, graph) | {"tokenizers": [*names.values()]}
    files[facts] = json.dumps(known, indent=1, ensure_ascii=False) + "\n"
    files[f"use_{stem}.py"] = script_for(model, target.name, facts, names, graph.inputs, special)
    return {target.with_name(name): text for name, text in files.items()}


def facts_of(model: Any, graph: Any) -> dict[str, Any]:
    """Return what a user of the file must know: inputs and outputs, labels, ids of marks."""
    facts: dict[str, Any] = {
        "model": model.name,
        "task": model.task,
        "inputs": {name: list(axes) for name, axes in graph.inputs.items()},
        "outputs": {name: list(axes) for name, axes in graph.outputs.items()},
        "longest": graph.longest,
    }
    c, learnt, published = model.config, model.learnt, getattr(model, "published", None)
    if model.tokenizers and "text" in model.tokenizers:
        facts["end"] = model.tokenizer.eos_id
    for name in ("classes", "tags", "columns", "horizon", "window", "multi_label", "threshold"):
        if hasattr(model, name):
            value = getattr(model, name)
            facts[name] = list(value) if isinstance(value, (list, tuple)) else value
    if model.task == "language model":
        facts |= {
            "start": learnt.get("start", model.tokenizer.eos_id),
            "start_alone": bool(learnt.get("start_alone")),
            "context": getattr(c, "context", None),
        }
    if model.name == "tagger" and published is None:
        facts |= {"words": model.rows, "lowercase": c.lowercase}
    facts["max_length"] = _most(model)
    marks = getattr(published or model, "marks", None)
    if model.task == "answerer":
        inputs = model.window_inputs()
        marks, facts["longest_question"] = inputs.marks, inputs.longest_question
    if marks is not None:
        unknown = model.tokenizer.unk_id
        facts |= {"marks": marks._asdict(), "unknown": marks.sep if unknown is None else unknown}
    if hasattr(model, "start_ids"):
        facts |= {
            "start": model.start_ids,
            "end": model.target_tokenizer.eos_id,
            "before": [] if model.source_start is None else [model.source_start],
            "direction": -1 if model.backwards else 1,
        }
        source = model.tokenizers.get("source")
        facts["after"] = [] if source is None else [source.eos_id]
    return facts


# ---- tokenizers


def _most(model: Any) -> int | None:
    """Return the number of tokens that the model reads at once, marks included; None: any."""
    c, published = model.config, getattr(model, "published", None)
    context = published.layout.context if published is not None else getattr(c, "context", None)
    most = getattr(c, "max_length", getattr(c, "longest", None))
    return min(filter(None, (most, context)), default=None)


def _around(model: Any) -> dict[str, Any] | None:
    """Return how the tokenizer of a model that reads texts or pairs with marks around them cuts and marks
    and pads them; None if the model reads them otherwise.
    """
    published = getattr(model, "published", None)
    if not (
        (model.task == "classifier" and published is not None)
        or model.task == "sentence vectors"
        or (model.task == "masked language model" and not model.config.head)
    ):
        return None
    marks = (published or model).marks
    size, overlap = _most(model), 0
    assert size is not None
    if getattr(model.config, "long", "truncate") == "windows":
        overlap = size - 2 - max((size - 2) // 2, 1)
    second = int(marks.separators == 1)
    around = Around([marks.cls], [marks.sep], [marks.sep] * (marks.separators - 1), second)
    return {
        "post_processor": around.template({marks.cls: "[CLS]", marks.sep: "[SEP]"}),
        "truncation": {**CUT, "max_length": size, "stride": overlap},
        "padding": padding("BatchLongest", marks.pad),
    }


def padding(strategy: Any, i: int) -> dict[str, Any]:
    return {
        "strategy": strategy,
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": i,
        "pad_type_id": 0,
        "pad_token": " <pad>",
    }


def character_spec(characters: Sequence[str]) -> dict[str, Any]:
    """Return the tokenizer of the characters of a word (`Spellings.of`)."""
    known = {character: i for i, character in enumerate(characters, 2)}
    return _word_level("char", {" <pad>": PADDING, " <unk>": 1, **known}, " <unk>") | {
        "truncation": {**CUT, "max_length": LONGEST_WORD},
        "padding": padding({"Fixed": LONGEST_WORD}, PADDING),
    }


def tokenizer_text(tokenizer: Tokenizer) -> str:
    """Return a tokenizer as the text of a tokenizer.json, with the same ids."""
    if tokenizer.subword or tokenizer.kind == "byte":
        return tokenizer_files(tokenizer)[TOKENIZER]
    spec = _word_level(tokenizer.kind, _vocabulary(tokenizer), "<unk>", _normalizer(tokenizer))
    return json.dumps(spec, indent=1, ensure_ascii=False) + "\n"


def _word_level(
    kind: str, vocabulary: dict[str, int], unknown: str, normalizer: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": _pattern(kind)},
            "behavior": "Removed",
            "invert": True,  # what matches is kept
        },
        "post_processor": None,
        "decoder": {"type": "Fuse"} if kind == "char" else None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": unknown},
    }


def _pattern(kind: str) -> str:
    """Return a regular expression that finds the tokens of a kind (`kernels/tokens`)."""
    if kind == "whitespace":
        return f"[^{SPACES[1:]}+"
    if kind == "char":
        return r"[\s\S]"
    letter, digit = character_ranges("LM"), character_ranges("N")
    apostrophe = rf"(?<=[{letter}])['’](?=[{letter}])"
    return rf"[{letter}{digit}](?:[{letter}{digit}]|{apostrophe})*|[^\s\x1c-\x1f]"


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    assert tokenizer.unk_id is not None  # closed vocabularies have one
    vocabulary = {END: tokenizer.eos_id, "<unk>": tokenizer.unk_id}
    for i in range(tokenizer.vocab_size):
        if i not in (tokenizer.eos_id, tokenizer.unk_id):
            vocabulary.setdefault(tokenizer.token(i), i)
    return vocabulary


def _normalizer(tokenizer: Tokenizer) -> dict[str, Any] | None:
    if tokenizer.normalizer is None:
        return None
    config = tokenizer.normalizer.config
    plain = NormalizerConfig(unicode=config.unicode, case=config.case, language=config.language)
    if config != plain:
        raise ConfigError(
            f"{tokenizer.loses()} before it is cut into tokens, and a tokenizer.json has no such steps; fit "
            "a model that changes the case or the Unicode form at most, or use seqloom itself"
        )
    steps: list[dict[str, Any]] = [
        {"type": NORMALIZERS[value]} for value in (config.unicode, config.case) if value != "keep"
    ]
    if config.case == "lower":  # which that program does letter by letter
        steps.insert(-1, {"type": "Replace", "pattern": {"Regex": FINAL_SIGMA}, "content": "ς"})
    return {"type": "Sequence", "normalizers": steps}
