"""The fitted model that training starts from (`fit(..., start=...)`).

Its weights, tokenizers and learnt values are taken over, and so are the options that the new model was not
given. Options that only say how to train may be other ones (`Config.may_change`); one that says what the
network is may not.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from seqloom import storage
from seqloom.arrays import digest
from seqloom.config import Config, in_words
from seqloom.errors import ConfigError, DataError, quoted

if TYPE_CHECKING:
    from seqloom.contracts.base import Model
    from seqloom.contracts.fitting import FitOptions
    from seqloom.data.classification import Labelled
    from seqloom.data.forecasting import Series
    from seqloom.data.tagging import Tagged

M = TypeVar("M", bound="Model")


@dataclass(frozen=True)
class Origin:
    """What training starts from."""

    model: Any  # a copy of the fitted model
    config: Any  # the options of the new one
    weights: Mapping[str, np.ndarray]  # by name
    digest: str  # of all that the model has learnt

    @property
    def record(self) -> dict[str, Any]:
        """Return what the new model records of it: its label, its digest, and hashes of the data that it
        has seen.
        """
        return {
            "origin": self.model.label(),
            "origin_weights": self.digest,
            "origin_data": sorted(self.model.data_hashes()),
        }

    def check_known(
        self, values: Collection[Any], known: Collection[Any], what: str, name: str
    ) -> None:
        """Refuse labels, tags or columns of the data of that name which the model does not have."""
        strange = [value for value in values if value not in known]
        if strange:
            raise DataError(
                f"{name} has the {what} {quoted(strange[0])}, which the {self.model.label()} "
                f"model to start from does not have; leave it out, or fit without start"
            )


def open_origin(start: Any, model: Model) -> Origin:
    """Open the model that a new one is to start from: a directory, or the fitted model itself."""
    opened, origin_name = _opened(start, type(model))
    origin: Any = copy.copy(opened)  # the new model may be the same object
    given = {name: getattr(model.config, name) for name in model.given_options}
    return Origin(
        origin, merged_options(origin, given, origin_name), origin.weights, digest(origin.arrays())
    )


def new_model(cls: type[M], start: Any, options: Mapping[str, Any]) -> tuple[M, M]:
    """Return an unfitted model with these options and the others of the one to start from, and that one."""
    origin, name = _opened(start, cls)
    model = cls(merged_options(origin, options, name))
    model.given_options = frozenset(options)
    return model, origin


def merged_options(origin: Any, given: Mapping[str, Any], origin_name: str) -> Config:
    """Return the options of the model to start from, overridden by the given ones; refuse contradictions."""
    config: Config = origin.config
    settled = origin.settled_options()
    initial = config.gathered("initial_options")
    defaults = {name: field.default for name, field in config.__dataclass_fields__.items()}
    for name, value in given.items():
        if name in initial and value != defaults[name]:
            raise ConfigError(
                f"start and {name} both say what the network begins with; leave one of them out"
            )
        if name not in initial and not config.may_change(name) and value != settled[name]:
            had = "none" if settled[name] is None else in_words(settled[name])
            raise ConfigError(
                f"{name} is {in_words(value)}, but {origin_name} has {had}; leave {name} out, or "
                "start from another model"
            )
    inherited, chosen = (
        {name: value for name, value in values.items() if name not in initial}
        for values in (origin.config.all_options(), given)
    )
    return type(config).continued(inherited, chosen)


def check_tokenizer_alone(tokenizer: Any, options: FitOptions) -> None:
    """Refuse a tokenizer beside a model to start from, which brings its own."""
    if tokenizer is not None and options.start is not None:
        raise ConfigError(
            "start and tokenizer cannot be given together: the tokenizer of the model to start "
            "from is taken over"
        )


def _opened(start: Any, cls: type[M]) -> tuple[M, str]:
    """Return a fitted model of that class and its name for messages."""
    name = str(start)
    if isinstance(start, (str, Path)):
        start = storage.load(start)
    else:
        name = (
            f"the {start.label()} model to start from"
            if hasattr(start, "label")
            else "what was given"
        )
    if type(start) is not cls:
        kind = getattr(start, "name", quoted(start))
        raise ConfigError(f"start must be a saved {cls.name} model; {name} is {kind}")
    start.check_fitted()
    if bits := start.learnt.get("bits"):
        raise ConfigError(
            f"start: {name} has {bits} bits a weight, which cannot be trained; give the model "
            "that it was quantised from, or convert again without bits"
        )
    return start, name


# ---- data as the model to start from knows it


def labels_of_start(data: Labelled, start: Origin) -> Labelled:
    """Return the data with labels of the type that the model has; new ones are refused."""
    model = start.model
    data = data.like(model.classes)
    start.check_known(data.classes, model.classes, "label", data.name)
    if data.multi_label and not model.multi_label:
        raise DataError(
            f"{data.name} has examples with several labels, but the {model.label()} model to "
            "start from predicts one per example; give each example one label"
        )
    model.check_examples(data.examples)
    return data


def tags_of_start(data: Tagged, start: Origin) -> Tagged:
    """Return the data with tags in the scheme that the model works in; new ones are refused."""
    model = start.model
    inside, outside = model.learnt["working_scheme"], model.learnt["scheme"]
    if (data.scheme is None) != (outside is None):
        marks = (
            "mark no spans" if data.scheme is None else f"mark spans in the scheme {data.scheme}"
        )
        raise DataError(
            f"the tags of {data.name} {marks}, unlike those of the {model.label()} model to "
            "start from; declare their scheme (scheme=...)"
        )
    work = data if inside is None else data.converted(inside)
    start.check_known(work.tagset, model.tags, "tag", data.name)
    return work


def columns_of_start(series: Series, start: Origin) -> Series:
    """Return the series with the model's columns, in its order; new ones and other steps are refused."""
    like: Series = start.model.read_like(series)
    if len(series.columns) + len(series.known_columns) > len(like.columns) + len(
        like.known_columns
    ):
        every = (*series.columns, *series.known_columns)
        start.check_known(every, (*like.columns, *like.known_columns), "column", series.name)
    return like


def check_numeric(given: bool, known: bool, what: str) -> None:
    """Refuse numbers where the model to start from reads texts, and texts where it reads numbers."""
    if given != known:
        kinds = ("numbers", "texts") if given else ("texts", "numbers")
        raise DataError(f"{what} are {kinds[0]}, but the model to start from reads {kinds[1]}")
