"""Options that networks of several tasks have; they load neither torch nor NumPy, so `--help` stays quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from seqloom.config import CONTINUES, MAX_INTEGER, Config, OnlyWith, TextConfig, option
from seqloom.encoder_table import StackNorm, encoders_with
from seqloom.errors import ConfigError

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


# ---- variants of recurrent cells

STACK_VARIANTS, CELL_VARIANTS = ("norm", "shrink"), ("activation", "clamp")
GATE_VARIANTS, FORM_VARIANTS = ("gate_activation",), ("recurrence", "time_step")
VARIANTS = (*CELL_VARIANTS, *GATE_VARIANTS, *FORM_VARIANTS, *STACK_VARIANTS)


@dataclass(frozen=True, kw_only=True)
class StackVariants(Config):
    """Options of a stack of recurrent layers of any cell."""

    norm: StackNorm = option(
        "none",
        "layer normalisation outside the gates: of the inputs, between recurrent layers, of the "
        "outputs, or of the states after each step",
        saved=False,
    )
    shrink: float = option(
        1.0,
        "width of each recurrent layer as a share of the one before; 0.5: 512, 256, 128",
        minimum=0.01,
        maximum=1.0,
        saved=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if getattr(self, "n_layers", 2) == 1 and (self.shrink != 1 or self.norm == "between"):
            name = "shrink" if self.shrink != 1 else "norm between"
            raise ConfigError(
                f"{name} has no effect with one layer; give n_layers 2 or more, or leave it out",
                (name.split()[0], "n_layers"),
            )


@dataclass(frozen=True, kw_only=True)
class CellVariants(Config):
    """Options of every built-in cell."""

    activation: Literal["tanh", "relu", "leaky-relu", "sigmoid"] = option(
        "tanh",
        "function of a recurrent cell's values: of the state of rnn, of the candidate of lstm and "
        "gru, and of what lstm puts out",
        saved=False,
    )
    clamp: float | None = option(
        None,
        "keep the states of a recurrent cell between minus this and this",
        minimum=1e-6,
        maximum=1e6,
        saved=False,
    )


@dataclass(frozen=True, kw_only=True)
class GateVariants(Config):
    """Options of cells with gates."""

    gate_activation: Literal["sigmoid", "hard-sigmoid"] = option(
        "sigmoid",
        "function of the gates of lstm and gru; hard-sigmoid: x / 6 + 1/2 between 0 and 1",
        saved=False,
    )


@dataclass(frozen=True, kw_only=True)
class FormVariants(Config):
    """Options of the plain recurrent cell."""

    recurrence: Literal["elman", "pascanu", "continuous"] = option(
        "elman",
        "where rnn has its function f: elman: f(W h + U x + b); pascanu: W f(h) + U x + b; "
        "continuous: f(W h + b) + U x",
        saved=False,
    )
    time_step: float = option(
        1.0,
        "share of the way from the old state of rnn to the new one in a step",
        minimum=1e-6,
        maximum=1.0,
        saved=False,
    )


@dataclass(frozen=True, kw_only=True)
class EncoderVariants(StackVariants, CellVariants, GateVariants, FormVariants):
    """The same options where a recurrent network is one of several encoders."""

    only_with: ClassVar[OnlyWith] = {name: {"encoder": encoders_with(name)} for name in VARIANTS}


def options_of(config: Config, names: str) -> dict[str, Any]:
    """Return the options with these names, separated by blanks, as keyword arguments."""
    return {name: getattr(config, name) for name in names.split()}
