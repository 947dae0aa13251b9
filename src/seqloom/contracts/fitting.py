"""What `fit` takes besides the data, and what it prepares from both: the tokenizer of a text, and the
record of which text it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.contracts.starting import Origin
from seqloom.data.corpus import Corpus
from seqloom.errors import ConfigError
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.tokenizer_directory import KINDS, choose_tokenizer

if TYPE_CHECKING:
    from seqloom.contracts.base import Model
    from seqloom.training.config import TrainConfig


@dataclass(frozen=True)
class FitOptions:
    """Arguments of `fit` besides the data: resources and training, which are never part of the model."""

    valid: Any = (
        None  # held out: ids for a language model, Labelled for a classifier, Tagged for a tagger
    )
    memory: int | None = None  # bytes that counting may use
    train: TrainConfig | None = None
    device: str | None = None
    run: Path | None = None  # where checkpoints go
    start: Origin | None = None  # the fitted model that training starts from


def refuse_idle(model: Model, options: FitOptions, start: Any) -> None:
    """Refuse the arguments of `fit` that this kind of model does not use."""
    arguments = {
        "memory": options.memory,
        "train": options.train,
        "device": options.device,
        "run": options.run,
        "start": start,
    }
    unused = [
        name
        for name, value in arguments.items()
        if value is not None and name not in model.config.fit_arguments
    ]
    if unused == ["start"] and hasattr(model.config, "start"):
        raise ConfigError(
            f"start is an option of {model.name} models: {type(model).__name__}(start=...)"
        )
    if unused:
        raise ConfigError(
            f"{model.name} models do not use {' and '.join(unused)} in fit; leave "
            f"{'it' if len(unused) == 1 else 'them'} out"
        )


def tokenizer_for(c: Any, corpus: Corpus) -> Tokenizer:
    """Return the tokenizer that the options of a model ask for, fitted on the corpus."""
    default = type(c).__dataclass_fields__["min_count"].default
    # A finished vocabulary, which the default of min_count does not contradict.
    finished = c.vocab_file is not None or c.tokenizer not in KINDS
    least = 1 if finished and c.min_count == default else c.min_count
    chosen = {
        "vocab_size": c.vocab_size,
        "min_count": least,
        "vocab_file": c.vocab_file,
        "normalize": c.normalize,
    }
    inserts_marks = hasattr(c, "marks")  # others would have rows for tokens that they never read
    if inserts_marks:
        chosen["marks"] = c.marks
    if corpus.of_words and c.tokenizer in KINDS and c.tokenizer != "whitespace":
        raise ConfigError(
            f"the tokenizer {c.tokenizer!r} would split words given as lists; give texts, or "
            "tokenizer='whitespace', which keeps words as they are"
        )
    tokenizer = corpus.read_by(lambda: choose_tokenizer(c.tokenizer, corpus, **chosen))
    return tokenizer if inserts_marks else tokenizer.without_marks()


def data_record(corpus: Corpus) -> dict[str, Any]:
    """Return which text a model was fitted on, for its record; what has been read to the end is
    not read again.
    """
    return {"data": corpus.name, "data_hash": corpus.fingerprint[:16], "bytes": corpus.n_bytes}
