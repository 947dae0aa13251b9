"""The layout of an encoder, apart from the models, so that `--help` shows it without loading anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import MOST_WIDTH, Config, option
from seqloom.errors import ConfigError

ActivationName = Literal["gelu-erf", "gelu", "relu"]
PoolingName = Literal["mean", "cls", "max"]

# options that both networks take, with torch and without
SHAPE = "d_mlp d_embed n_types position_offset shared_layers activation norm_epsilon pooler"


@dataclass(frozen=True, kw_only=True)
class EncoderLayout(Config):
    """Options of every model on an encoder of the BERT family; the defaults are those of BERT-base."""

    training_only: ClassVar[frozenset[str]] = frozenset({"dropout"})
    changeable: ClassVar[frozenset[str]] = frozenset({"dropout"})

    context: int = option(
        512,
        "the most tokens that it reads at once, its own marks included",
        minimum=4,
        maximum=1_000_000,
    )
    d_model: int = option(768, "model width", minimum=1, maximum=MOST_WIDTH)
    n_layers: int = option(12, "number of Transformer blocks", minimum=1, maximum=1000)
    n_heads: int = option(
        12, "number of attention heads; must divide the width", minimum=1, maximum=10_000
    )
    d_mlp: int | None = option(
        None,
        "width of the feed-forward layers [default: 4 times the model width]",
        minimum=1,
        maximum=MOST_WIDTH,
    )
    d_embed: int | None = option(
        None,
        "width of token vectors that a projection widens (ALBERT, ELECTRA) [default: the model "
        "width, without a projection]",
        minimum=1,
        maximum=MOST_WIDTH,
    )
    n_types: int = option(
        2,
        "kinds of texts that tokens may belong to: 2 tells the texts of a pair apart, 0 is none",
        minimum=0,
        maximum=1000,
    )
    position_offset: int = option(
        0, "number of the first position in the table (2 for RoBERTa)", minimum=0, maximum=1000
    )
    shared_layers: bool = option(False, "all blocks share their weights (ALBERT)")
    activation: ActivationName = option(
        "gelu-erf", "activation function of the feed-forward layers; gelu has tanh instead of erf"
    )
    norm_epsilon: float = option(
        1e-12, "added to the variance before a norm divides by its root", minimum=1e-15, maximum=1.0
    )
    dropout: float = option(
        0.1, "dropout on the output of each sublayer, in training", minimum=0.0, maximum=0.95
    )
    pooler: bool = option(False, "a layer on the vector of the first token")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % self.n_heads:
            raise ConfigError(f"d_model {self.d_model} is not a multiple of n_heads {self.n_heads}")


@dataclass(frozen=True, kw_only=True)
class BertConfig(EncoderLayout):
    head: bool = option(
        True, "with the layer that guesses hidden tokens; without it there are hidden states alone"
    )
    head_activation: ActivationName | None = option(
        None, "activation function of that layer [default: that of the others]"
    )
    tied: bool = option(True, "tie the output layer to the token embeddings")


@dataclass(frozen=True, kw_only=True)
class SentenceEncoderConfig(EncoderLayout):
    pooling: PoolingName = option(
        "mean",
        "how a text gets its vector from those of its tokens: their mean, that of the first "
        "mark, or the largest of each feature",
    )
    unit_length: bool = option(True, "divide each vector by its length")
    longest: int | None = option(
        None,
        "the most tokens that are read of a text, its marks included [default: all that it can "
        "read at once]",
        minimum=4,
        maximum=1_000_000,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.longest is not None and self.longest > self.context:
            raise ConfigError(
                f"longest {self.longest} is more than the {self.context} tokens that the encoder "
                f"reads at once"
            )
