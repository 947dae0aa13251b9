"""Opens and writes models of other programs: a file or directory is recognised and becomes a fitted model.

    interop.open("gpt2-directory")               a directory of transformers or sentence-transformers
    interop.open("SmolLM2.Q4_1.gguf", bits=4)    a GGUF file; blocks of as many bits stay as they are
    interop.open("checkpoint20.npz")             the weights of g2p-en
    interop.open("model.arpa.gz")                n-grams
    interop.open("glove.6B.50d.txt")             word vectors of word2vec, GloVe or fastText
    interop.write(model, "directory")            and back, for transformers
    interop.write_onnx(model, "model.onnx")      a network as a file that runs without seqloom

A family of transformers is a line of `FAMILIES`, a table of its tensors (`interop/layouts`) and a function
that converts its values to options. Sizes in a file are checked against its length before memory is used.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from seqloom import registry
from seqloom.data.vector_files import file_head, sniff_vectors
from seqloom.errors import ConfigError, quoted, suggest_known

FORM = "hugging-face"  # what `convert --form` calls directories of transformers
ONNX = ".onnx"  # how the name of a file ends that other runtimes run


class Family(NamedTuple):
    reader: str  # "module:function" of a ModelDirectory and a task, which gives `Parts`
    models: tuple[str, ...]  # what it can become
    tasks: tuple[str, ...] = ()  # further words for what it can become


_ENCODER = Family(
    "heads:read_encoder",
    ("bert", "sentence-encoder", "classifier", "tagger", "answerer"),
    ("pairs",),
)
FAMILIES = {  # by model_type of config.json
    "bart": Family("translators:read_bart", ("transformer",)),
    "gpt2": Family("gpt:read_gpt2", ("gpt",)),
    "llama": Family("gpt:read_llama", ("gpt",)),
    "marian": Family("translators:read_marian", ("transformer",)),
    "t5": Family("translators:read_t5", ("transformer",)),
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra"), _ENCODER
    ),
}
WRITERS = {  # by the name of a model: "module:function" of the model and a target
    "answerer": "heads:write_answerer",
    "bert": "encoders:write_encoder",
    "classifier": "heads:write_classifier",
    "gpt": "gpt:write_gpt",
    "transformer": "translators:write_transformer",
    "sentence-encoder": "encoders:write_encoder",
    "tagger": "heads:write_tagger",
}


def form_of(path: str | Path) -> str | None:
    """Return what lies there: hugging-face, gguf, g2p, arpa, fasttext or vectors; None: nothing of these."""
    source = Path(path)
    if source.is_dir():
        return FORM if _function("hugging_face:is_directory")(source) else None
    head, packed = file_head(source) if source.is_file() else (b"", False)
    if source.name.endswith(".gguf") or head.startswith(b"GGUF"):
        return "gguf"
    if head.startswith(b"PK") and _function("g2p:is_g2p")(source):
        return "g2p"
    if (
        source.name.endswith((".arpa", ".arpa.gz"))
        or b"\\data\\" in head
        or head.startswith(b"mmap lm")
    ):
        return "arpa"
    vectors = sniff_vectors(head) if head else None
    if vectors is None:
        return None
    return "fasttext" if vectors.form == "fasttext-bin" and not packed else "vectors"


def open(path: str | Path, task: str | None = None, bits: int | None = None) -> Any:
    """Return the model that another program wrote, fitted.

    `task`: what it is for, where a family serves several; `bits`: 8 or 4, to quantise matrices on the way.
    """
    source = Path(path)
    form = form_of(source)
    if bits not in (None, 8, 4):
        raise ConfigError(f"bits is {bits!r}; it must be 8 or 4")
    if source.is_dir():
        model = _open_directory(path, task, bits)
    elif form == "gguf":
        model = _function("gpt:read_gguf_llama")(_function("gguf:read_gguf")(path)).model(bits)
    elif form == "g2p":
        model = _function("g2p:read_g2p")(source).model(bits)
    elif form == "fasttext":
        model = _function("fasttext:convert_fasttext")(source)
    elif form == "arpa" or not source.is_file() or not source.stat().st_size:
        model = _function("arpa:read_arpa")(source)
    else:
        model = _function("vectors:read_vectors")(source)  # it says what the file is if it has none
    return model if bits is None or model.learnt.get("bits") else quantised(model, bits, str(path))


def _open_directory(path: str | Path, task: str | None, bits: int | None) -> Any:
    directory = _function("hugging_face:read_directory")(path)
    name = directory.text("model_type")
    if name not in FAMILIES:
        directory.fail(
            f"a model of the family {quoted(name)}, which cannot be converted"
            f"{suggest_known(name, FAMILIES)}"
        )
    family = FAMILIES[name]
    wanted = task and task.replace(" ", "-")
    tasks = {model: registry.find(model).task.replace(" ", "-") for model in family.models}
    known = dict.fromkeys(
        [
            *tasks,
            *tasks.values(),
            *(one.removesuffix("-model") for one in tasks.values()),
            *family.tasks,
        ]
    )
    if wanted and wanted not in known:
        raise ConfigError(
            f"{path}: a {name} cannot be converted for the task {quoted(task)}"
            f"{suggest_known(wanted, known)}"
        )
    return _function(family.reader)(directory, wanted).model(bits)


def quantised(model: Any, bits: int, source: str) -> Any:
    """Return the same model with so many bits a weight; `source` is where it was, for messages."""
    if "bits" not in model.learnt_values:
        raise ConfigError(
            f"--bits quantises the weights of a network; {source} is of kind {model.name}, which has none"
        )
    return model.quantised(bits)


def write(model: Any, target: str | Path, source: str = "this model") -> None:
    """Write a model as a directory that transformers opens; `source` is where it was, for messages."""
    if model.name not in WRITERS:
        raise ConfigError(
            f"{source} is of kind {model.name}, which transformers does not have; "
            f"{', '.join(WRITERS)} can be converted to {FORM}"
        )
    _function(WRITERS[model.name])(model, target)


def write_onnx(model: Any, target: str | Path, source: str = "this model") -> None:
    """Write a network as an ONNX file, with its tokenizer, its labels and a script that uses them
    beside it; `source` is where it was, for messages.
    """
    _function("onnx:write_onnx")(model, target, source)


def _function(target: str) -> Any:
    module, name = target.split(":")
    return getattr(import_module(f"seqloom.interop.{module}"), name)
