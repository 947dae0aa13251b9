"""A rung and the bench that it is made on.

A comparison is a ladder of models, from the most trivial to the best; each of them is a rung. A
rung says which model it is, not yet fitted, on a `Bench` (the parts of the data and what rungs
share). An `Attempt` makes that model, once: it is fitted, and from its own options comes the key
under which a finished rung is kept, so that it is used again only where all that it was made of is
the same.
"""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from seqloom.errors import MissingExtra, SeqloomError, TrainingError
from seqloom.registry import MODELS, model_class
from seqloom.text.tokenizer import Tokenizer, TokenizerConfig
from seqloom.training.checkpoint import Run
from seqloom.training.config import TrainConfig

WORDS = "word"  # the tokenizer of whole words, with others spelled in bytes
OWN = "own"  # the family of models that were given as objects
PRETRAINED = "pretrained"  # and of those that were trained elsewhere
UNKNOWN = "trained elsewhere, on unknown text that may contain the test part"


@dataclass
class Bench:
    """What the rungs share: the data and the tokenizers, and the models that a mixture can use."""

    splits: Any  # train, valid and test
    recipe: Callable[[str, int], TokenizerConfig] | None = (
        None  # of a tokenizer: by its name and the bytes of the text
    )
    # By kind, with the seconds that fitting took.
    tokenizers: dict[str, tuple[Tokenizer, float]] = field(default_factory=dict)
    fitted: dict[str, Any] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)  # the names in `fitted` of models given as objects
    minutes: float = 0.6  # that a network trains
    # Whether networks may stop earlier, where little data has been read often enough.
    enough: bool = True
    directory: Path | None = None  # for checkpoints of networks
    seed: int = 0
    # Options of every rung, where the ladder has some.
    options: dict[str, Any] = field(default_factory=dict)
    # Keys of rungs by name; another bench has others.
    keys: dict[str, str] = field(default_factory=dict, init=False)

    def tokenizer(self, kind: str) -> Tokenizer:
        if kind not in self.tokenizers:
            start = time.perf_counter()
            config = self.tokenizer_config(kind)
            settings = {"vocab_size": config.vocab_size or 0, "min_count": config.min_count}
            tokenizer = (
                Tokenizer.whole_words(self.splits.train, **settings)
                if kind == WORDS
                else Tokenizer(config).fit(self.splits.train)
            )
            self.tokenizers[kind] = tokenizer, time.perf_counter() - start
        return self.tokenizers[kind][0]

    def tokenizer_config(self, kind: str) -> TokenizerConfig:
        assert self.recipe is not None
        return self.recipe(kind, self.splits.train.n_bytes or 0)


def unfitted(name: str, *, seeded: bool = False, **options: Any) -> Callable[[Bench], Any]:
    """Return a function that makes the registered model of that name with these options; `seeded`:
    and with the seed of the bench.
    """
    return lambda bench: model_class(name)(**options, **({"seed": bench.seed} if seeded else {}))


def _unused(name: str, taken: Iterable[str]) -> str:
    """Return the name, with a number appended if it is taken."""
    names, n, candidate = set(taken), 1, name
    while candidate in names:
        n += 1
        candidate = f"{name}-{n}"
    return candidate


class NotPossible(SeqloomError):
    """A rung that cannot be trained here, and why."""


@dataclass(frozen=True)
class Rung:
    name: str
    family: str
    tokenizer: str  # the kind it is trained with; empty: the model's own, or none
    make: Callable[[Bench], Any]  # the model, not yet fitted
    # roughly, passes over the data, by which a rung that may take long is known; 0: it takes the
    # time given
    work: int
    adds: str  # in a sentence
    on_others: bool = (
        False  # made of the rungs before it, so it is another one where those are others
    )
    given: Any = None  # a model given as an object
    # Options of training that are not the defaults.
    training: Mapping[str, Any] = field(default_factory=dict)
    directory: Path | None = None  # where a model that was trained elsewhere is saved
    fitting: Mapping[str, Any] | None = (
        None  # arguments of `fit`, where they are given and not the comparison's
    )

    @classmethod
    def of(cls, model: Any, taken: Iterable[str]) -> Rung:
        """Make the rung of a model object: a copy is fitted, unless it is fitted already."""
        name = _unused(model.label(), taken)
        fitted = bool(getattr(model, "fitted", False))
        adds = "a model of your own" + (", already fitted" if fitted else "")
        return cls(
            name,
            OWN,
            "",
            lambda bench: model if fitted else copy.deepcopy(model),
            0 if fitted or model.trained else 1,  # a network takes the minutes that it is given
            adds,
            given=model,
        )

    @classmethod
    def pretrained(cls, model: Any, directory: Path, taken: Iterable[str]) -> Rung:
        """Make the rung of a saved model that was trained elsewhere, named after its directory."""
        return cls(
            _unused(directory.name or model.label(), taken),
            PRETRAINED,
            "",
            lambda bench: model,
            0,
            UNKNOWN,
            given=model,
            directory=directory,
        )

    @property
    def finished(self) -> bool:
        """Return whether it was fitted before it was given."""
        return self.given is not None and bool(self.given.fitted)

    @property
    def reusable(self) -> bool:
        """Return whether a finished one may be used again: the code of a model from elsewhere may
        change unseen.
        """
        if self.given is None:
            return True
        kind = type(self.given)
        registered = (
            self.given.name in MODELS
            and MODELS[self.given.name].target == f"{kind.__module__}:{kind.__name__}"
        )
        return registered and kind.__module__.startswith("seqloom.") and not self.finished

    def train(self, bench: Bench) -> TrainConfig:
        """Return the config that a network is trained with."""
        return TrainConfig(
            minutes=bench.minutes, enough=bench.enough, seed=bench.seed, **self.training
        )

    def options(self) -> Any:
        """Return the options that a rung on others is made with besides them."""
        return getattr(self.make, "options", {})

    def mixes(self, other: Rung) -> bool:
        """Return whether the other rung is a member, where this one is a mixture."""
        return other.tokenizer == self.tokenizer and other.family not in (
            "calibration",
            "mixture",
            OWN,
        )


@dataclass
class Attempt:
    """A rung on a bench: its model, made once, and the key under which it is kept when it is finished."""

    rung: Rung
    bench: Bench
    others: Sequence[Rung] = ()  # rungs that it could mix

    @cached_property
    def model(self) -> Any:
        """Return the model; not fitted, unless it was when it was given."""
        return self.rung.make(self.bench)

    @cached_property
    def key(self) -> str:
        """Return a short hash of all that makes this rung what it is, besides the data."""
        rung, bench = self.rung, self.bench
        facts: dict[str, Any] = {"rung": rung.name, "seed": bench.seed}
        if rung.on_others:
            facts |= {
                "model": rung.family,
                "members": [self._member_key(other) for other in self.others if rung.mixes(other)],
                "options": rung.options(),
            }
        else:
            facts |= {"model": self.model.name, "config": self.model.config.to_dict()}
            if self.model.trained:
                facts["train"] = rung.train(bench).to_dict()
        if rung.tokenizer:
            facts["tokenizer"] = bench.tokenizer_config(rung.tokenizer).to_dict()
        bench.keys[rung.name] = hashlib.sha256(
            json.dumps(facts, sort_keys=True).encode()
        ).hexdigest()[:12]
        return bench.keys[rung.name]

    def _member_key(self, other: Rung) -> str:
        return self.bench.keys.get(other.name) or Attempt(other, self.bench).key

    def fit(self, **more: Any) -> Any:
        """Fit the model and return it; `more`: arguments of its `fit`."""
        rung, bench, model, parts = self.rung, self.bench, self.model, self.bench.splits
        if rung.finished:
            return model
        if rung.fitting is not None:
            return model.fit(parts.train, **rung.fitting, **more)
        if rung.on_others:
            return model.fit(parts.valid)  # the weights are learnt on text that no member has seen
        extra: dict[str, Any] = (
            {"tokenizer": bench.tokenizer(rung.tokenizer)} if rung.tokenizer else {}
        )
        if not model.trained:
            return model.fit(parts.train, **extra)
        run = None if bench.directory is None else bench.directory / f"{rung.name}-{self.key}.run"
        with nullcontext() if run is None else Run(run).held():
            try:
                model.fit(parts.train, valid=parts.valid, run=run, train=rung.train(bench), **extra)
            except (MissingExtra, TrainingError) as error:
                # A package is missing, training diverges, or memory is too small.
                raise NotPossible(str(error)) from None
            if run is not None:
                Run(run).clear()
        return model
