"""Directories of sentence-transformers (https://www.sbert.net): an encoder, and beside it how a text gets its vector.

modules.json lists the steps: the encoder, pooling, and possibly a division by the length. 1_Pooling/config.json says how
vectors of tokens become one, sentence_bert_config.json how many tokens are read. A plain directory of transformers has the mean
and a length of one, as most such models do. What is not known, such as a further layer, is refused by name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from seqloom import progress
from seqloom.errors import DataError, quoted
from seqloom.interop.hugging_face import CONFIG, read_json
from seqloom.interop.values import Values
from seqloom.models.encode.configs import SentenceEncoderConfig
from seqloom.text.tokenizer import Tokenizer

MODULES, POOLING, READING = "modules.json", "1_Pooling", "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
_KINDS = "sentence_transformers.models."  # before the name of a step
_POOLINGS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens"}


def is_sentence_encoder(path: Path) -> bool:
    """Tell whether a directory says how texts get their vectors."""
    return (path / MODULES).is_file()


def read_pooling(path: Path, context: int, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return how texts get their vectors, as options of a `sentence-encoder`."""
    if not is_sentence_encoder(path):
        return {}
    options = _steps(path)
    if (path / READING).is_file():
        options |= _reading(path, context, tokenizer)
    if (path / PROMPTS).is_file() and (name := read_json(path / PROMPTS).get("default_prompt_name")) is not None:
        progress.say(f"{path}: the prompt {quoted(name)} is not put before texts by itself; write it before yours")
    return options


def _steps(path: Path) -> dict[str, Any]:
    """What modules.json asks for, as options."""
    place = path / MODULES
    try:
        modules = json.loads(place.read_text("utf-8"))
        steps = [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in modules]
    except (OSError, ValueError, RecursionError, LookupError, TypeError) as error:
        raise DataError(f"{place}: damaged ({error}); it must be a list of steps, each with a type and a path") from None
    names = [name for name, _ in steps]
    if names[:2] != ["Transformer", "Pooling"] or names[2:] not in ([], ["Normalize"]):
        raise DataError(f"{place}: the steps {', '.join(names) or 'are none'}; Transformer, Pooling and Normalize can be "
                        "converted, in this order")
    if steps[0][1]:
        raise DataError(f"{place}: its encoder is in {quoted(steps[0][1])}; convert that directory with --task "
                        "sentence-vectors")
    if Path(steps[1][1]).name != steps[1][1]:
        raise DataError(f"{place}: the path {quoted(steps[1][1])} is not one of this directory")
    return {"pooling": _pooling(path / steps[1][1] / CONFIG), "unit_length": len(names) == 3}


def _pooling(place: Path) -> str:
    values = read_json(place)
    if isinstance(named := values.get("pooling_mode"), str):  # as newer versions write it
        wanted = [named]
    else:
        wanted = [key for key, value in values.items() if key.startswith("pooling_mode_") and value is True]
    known = {**{key: name for name, key in _POOLINGS.items()}, **{name: name for name in _POOLINGS}}
    if len(wanted) != 1 or wanted[0] not in known:
        raise DataError(f"{place}: pooling by {', '.join(map(quoted, wanted)) or 'nothing'}; one of "
                        f"{', '.join(_POOLINGS)} can be converted")
    return known[wanted[0]]


def _reading(path: Path, context: int, tokenizer: Tokenizer) -> dict[str, Any]:
    values = Values(str(path / READING), read_json(path / READING))
    if values.values.get("do_lower_case") and tokenizer.encode("A").tolist() != tokenizer.encode("a").tolist():
        values.fail("its texts are put into lower case, which its tokenizer does not do; this cannot be converted")
    if values.values.get("max_seq_length") is None:
        return {}
    return {"longest": min(values.whole("max_seq_length", 4, 1_000_000), context)}


def pooling_files(config: SentenceEncoderConfig) -> dict[str, str]:
    """Return the files that say the same, by name."""
    c = config
    steps = [("Transformer", ""), ("Pooling", POOLING), *([("Normalize", "2_Normalize")] if c.unit_length else [])]
    modules = [{"idx": i, "name": str(i), "path": path, "type": _KINDS + name} for i, (name, path) in enumerate(steps)]
    pooling = {"word_embedding_dimension": c.d_model, **{key: name == c.pooling for name, key in _POOLINGS.items()}}
    reading = {"max_seq_length": c.longest or c.context, "do_lower_case": False}
    files = {MODULES: modules, f"{POOLING}/{CONFIG}": pooling, READING: reading}
    return {name: json.dumps(values, indent=2) + "\n" for name, values in files.items()}
