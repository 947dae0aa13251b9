"""Options that networks of several tasks have; they load neither torch nor NumPy, so `--help` stays quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from seqloom.config import CONTINUES, MAX_INTEGER, Config, OnlyWith, TextConfig, option

SoftmaxName = Literal["full", "adaptive", "sampled", "nce"]
Unknown = Literal["random", "subword", "mean"]


@dataclass(frozen=True, kw_only=True)
class PretrainedConfig(Config):
    """Options of every network that reads words: the vectors that it begins with."""

    only_with: ClassVar[OnlyWith] = {
        "pretrained_unknown": {"pretrained": ()},
        "pretrained_training": {"pretrained": ()},
        "pretrained_frozen_for": {"pretrained": (), "pretrained_training": ("gradual",)},
    }
    training_only: ClassVar[frozenset[str]] = frozenset(
        {"pretrained", "pretrained_unknown", "pretrained_training", "pretrained_frozen_for"}
    )
    initial_options: ClassVar[frozenset[str]] = training_only

    pretrained: str | None = option(
        None,
        "pretrained word vectors: a saved model, or a file of word2vec, GloVe or fastText; "
        "needs tokenizer whitespace or word",
        metavar="DIR|FILE",
    )
    pretrained_unknown: Unknown = option(
        "random",
        "vector of a token that has none: random, built from its spelling, or the mean of the others",
    )
    pretrained_training: Literal["tuned", "frozen", "gradual"] = option(
        "tuned",
        "whether pretrained vectors are fine-tuned, frozen, or frozen at first and then fine-tuned",
    )
    pretrained_frozen_for: float = option(
        0.3,
        "gradual: share of the steps, or number of steps if above 1, for which they are "
        "frozen; their learning rate then rises over as many steps",
        minimum=0.0,
        maximum=MAX_INTEGER,
    )


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(PretrainedConfig, TextConfig):
    """Options of every network that reads running text."""

    training_only: ClassVar[frozenset[str]] = frozenset(
        {"tokenizer", "vocab_size", "min_count", "vocab_file", "normalize", "marks"}
    )
    fit_arguments: ClassVar[frozenset[str]] = CONTINUES


def options_of(config: Config, names: str) -> dict[str, Any]:
    """Return the options with these names, separated by blanks, as keyword arguments."""
    return {name: getattr(config, name) for name in names.split()}
