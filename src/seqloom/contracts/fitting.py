"""What `fit` takes besides the data, and what it prepares from both: the tokenizer of a text, and the
record of which text it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom import progress
from seqloom.config import Config
from seqloom.contracts.starting import Origin
from seqloom.data.corpus import Corpus
from seqloom.describing import changed_options, train_config
from seqloom.errors import ConfigError, ModelError, SeqloomError, quoted
from seqloom.progress import Lines
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.tokenizer_directory import KINDS, choose_tokenizer

if TYPE_CHECKING:
    from seqloom.contracts.base import Model
    from seqloom.training.config import TrainConfig

    Train = TrainConfig | Mapping[str, Any] | None  # how to train, as `fit` and a model take it


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


LENGTHS = ("minutes", "steps", "epochs")  # options that say how long to train
PREFIX = "train__"  # of an option of training among those of a model, as scikit-learn names it


def take_training(
    train: TrainConfig | None, options: Mapping[str, Any]
) -> tuple[TrainConfig | None, dict[str, Any]]:
    """Take `train` and `train__lr` and the like out of the options of a model; return how to train, where
    nothing is given as in `train`, and the other options.
    """
    whole = options.get("train", train)
    single = {
        name.removeprefix(PREFIX): value
        for name, value in options.items()
        if name.startswith(PREFIX)
    }
    others = {
        name: value
        for name, value in options.items()
        if name != "train" and not name.startswith(PREFIX)
    }
    chosen = _merged(None, whole, single)
    return None if chosen is None or not changed_options(chosen) else chosen, others


class OwnTraining:
    """`train` of a network: how its `fit` trains, unless it is told otherwise. Other models have no such
    attribute, since in other libraries it is what `fit` is here.
    """

    def __get__(self, model: Model | None, owner: type) -> Any:
        if "train" not in getattr(owner, "config_class", Config).fit_arguments:
            raise AttributeError("train")
        return self if model is None else model.own_train


def training_params(train: TrainConfig | None, deep: bool) -> dict[str, Any]:
    """Return `train` as a parameter and, with `deep`, each of its options."""
    values = (train or train_config({})).all_options() if deep else {}
    return {"train": train} | {f"{PREFIX}{name}": value for name, value in values.items()}


def chosen_training(model: Model, train: Train, training: Mapping[str, Any]) -> TrainConfig | None:
    """Return how `fit` is to train: as the model says, changed by `train`, changed by single options."""
    own, known = model.config.all_options(), train_config({}).all_options()
    for name in training:
        if name in own and (name not in known or not model.trained):
            raise ConfigError(
                f"{name} is an option of {model.name} models: {type(model).__name__}({name}=...)"
            )
        if not model.trained:
            raise ConfigError(f"{model.name} models do not use {name} in fit; leave it out")
    return _merged(model.own_train, train, training)


def _merged(
    before: TrainConfig | None, train: Train, single: Mapping[str, Any]
) -> TrainConfig | None:
    """Return the options of training, the later ones over those before; a later length (steps, epochs or
    minutes) replaces an earlier one of any kind.
    """
    usual = train_config({})
    if train is not None and not isinstance(train, (Mapping, type(usual))):
        raise ConfigError(
            f"train must be a TrainConfig or a dict such as {{'steps': 200}}; got {quoted(train)}"
        )
    if before is None and not single and not isinstance(train, Mapping):
        return train
    values: dict[str, Any] = {}
    for layer in (before, train, single):
        given = dict(layer or {}) if isinstance(layer, Mapping | None) else changed_options(layer)
        if any(given.get(name) is not None for name in LENGTHS):
            values = {name: value for name, value in values.items() if name not in LENGTHS}
        values |= given
    config: TrainConfig = train_config(values)
    return config


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


def no_tokenizer(model: Model) -> SeqloomError:
    """Return the error that says why a fitted model has no tokenizer named text."""
    if model.tokenizers:
        return ConfigError(
            f"{model.name} models have no tokenizer named text, but {', '.join(model.tokenizers)}; "
            "ask for one of model.tokenizers"
        )
    if hasattr(model.config, "tokenizer"):
        return ModelError(
            f"this {model.name} model has lost its tokenizer: it is damaged; fit and save it again"
        )
    return ConfigError(
        f"{model.name} models take words as they are and have no tokenizer; split text into "
        f"words first, for example with text.split()"
    )


def remark_training_data(model: Model, name: str, fingerprint: str, files: Collection[str]) -> None:
    """Warn if evaluation data is data that the model was fitted on, as a whole or by single files."""
    hashes = model.data_hashes()
    again = sum(digest[:16] in hashes for digest in files)
    whole = fingerprint[:16] in hashes
    part = "" if whole or again == len(files) else f"{again:,} of the {len(files):,} files of "
    if again or whole:
        progress.say(
            f"warning: this {model.name} model was fitted on {part}{name}; results on it are "
            f"too optimistic"
        )


def training_log(model: Model) -> Lines:
    """Return the log of the training, or what the record of the fit has of it."""
    nothing: list[float] = []
    losses = model.recorded("losses", nothing)
    likelihoods = model.recorded("log_likelihoods", nothing)
    return (
        model.log
        or [{"epoch": i, "loss": loss} for i, loss in enumerate(losses, 1)]
        or [{"step": i, "log_likelihood": value} for i, value in enumerate(likelihoods)]
    )


# files with a kept hash, so that evaluating a model on its training text is noticed
MOST_FILES = 1000


def text_record(corpus: Corpus, tokens: int, units: int) -> dict[str, Any]:
    """Begin the record of a fit on text: which text, and of several files which."""
    record = {**data_record(corpus), "tokens": tokens, "units": units}
    if 1 < len(files := corpus.file_hashes) <= MOST_FILES:
        record["data_files"] = [digest[:16] for digest in files]
    return record


def data_record(corpus: Corpus) -> dict[str, Any]:
    """Return which text a model was fitted on, for its record; what has been read to the end is
    not read again.
    """
    return {"data": corpus.name, "data_hash": corpus.fingerprint[:16], "bytes": corpus.n_bytes}
