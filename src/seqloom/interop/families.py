"""Which reader and which writer a published model needs, by the name of its family.

A family is a line in each table; its file has the names and shapes of its tensors and turns its values into options.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from seqloom.errors import ConfigError, quoted, suggest_known
from seqloom.interop.hugging_face import read_directory

FORM = "hugging-face"  # what `convert --form` calls these directories

_ENCODERS = ("bert", "roberta", "distilbert", "albert", "electra")

READERS: dict[str, str] = {  # model_type of config.json: "module:function", which takes a ModelDirectory and a task or None
    "bart": "seqloom.interop.bart:read_bart",
    "gpt2": "seqloom.interop.hugging_face_gpt:read_gpt2",
    "llama": "seqloom.interop.hugging_face_gpt:read_llama",
    "marian": "seqloom.interop.bart:read_marian",
    "t5": "seqloom.interop.t5:read_t5",
    **dict.fromkeys(_ENCODERS, "seqloom.interop.bert:read_model"),
}
WRITERS: dict[str, str] = {  # name of a model: "module:function", which takes the model and a target
    "bert": "seqloom.interop.bert_writing:write_bert",
    "gpt": "seqloom.interop.hugging_face_gpt_writer:write_gpt",
    "transformer": "seqloom.interop.bart:write_transformer",
    "sentence-encoder": "seqloom.interop.sentence_transformers:write_sentence_encoder",
}


def read_model(path: str | Path, task: str | None = None) -> Any:
    """The model in a directory of transformers; `task` where one family serves several."""
    directory = read_directory(path)
    family = directory.text("model_type")
    if family not in READERS:
        directory.fail(f"a model of the family {quoted(family)}, which cannot be converted{suggest_known(family, READERS)}")
    return _function(READERS[family])(directory, task)


def write_model(model: Any, place: str, target: str | Path) -> None:
    """A saved model as a directory that transformers opens."""
    if model.name not in WRITERS:
        raise ConfigError(f"{place} is a {model.name} model, which transformers has not; "
                          f"{', '.join(WRITERS)} can be converted to {FORM}")
    _function(WRITERS[model.name])(model, target)


def _function(target: str) -> Callable[..., Any]:
    module, name = target.split(":")
    return getattr(import_module(module), name)
