"""The options of the neural language models; they load neither torch nor NumPy, so `--help` stays quick."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import MOST_WIDTH, OnlyWith, Unit, option
from seqloom.errors import ConfigError
from seqloom.models.network.configs import NetworkConfig, SoftmaxName

NPLM_EMBED = 64  # width of the NPLM's token vectors when nobody says


@dataclass(frozen=True, kw_only=True)
class NeuralConfig(NetworkConfig):
    """What all neural language models share."""

    only_with: ClassVar[OnlyWith] = {"carry": {"unit": ("line", "document")}, "label_smoothing": {"softmax": ("full",)},
                 "samples": {"softmax": ("sampled", "nce")}}

    tokenizer: str = option("bpe", "whitespace, word, char, byte, bpe, wordpiece, unigram, or a saved tokenizer",
                            metavar="KIND|PATH")
    unit: Unit = option("stream", "what one sequence is: a line, a document (file), or the whole stream")
    carry: bool = option(True, "the state goes on from one unit to the next, in training as in scoring; gpt and nplm "
                         "also see the tokens of the units before")
    softmax: SoftmaxName = option("full", "over all tokens; adaptive: rare ones in narrow clusters; sampled, nce: trained "
                                  "against drawn ones, scored over all")
    samples: int = option(1024, "tokens that sampled and nce draw for a step", minimum=1, maximum=1_000_000)
    label_smoothing: float = option(0.0, "share of the target that is spread over all tokens", minimum=0.0, maximum=0.99)


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(NeuralConfig):
    only_with: ClassVar[OnlyWith] = {"tied": {"softmax": ("full", "sampled", "nce")}}

    d_hidden: int | None = option(None, "width of the state [default: by the text and the time]", minimum=1, maximum=MOST_WIDTH)
    d_embed: int | None = option(None, "width of the token vectors [default: that of the state, or of pretrained]",
                                 minimum=1, maximum=MOST_WIDTH)
    n_layers: int = option(1, "recurrent layers, one on the other", minimum=1, maximum=1000)
    tied: bool = option(True, "the output layer uses the token vectors")
    dropout: float | None = option(None, "share of what leaves each layer that is set to zero [default: 0 to 0.2, by the "
                                   "number of passes over the text]", minimum=0.0, maximum=0.95)
    input_dropout: float | None = option(None, "share of the token vectors that is set to zero [default: half of dropout]",
                                         minimum=0.0, maximum=0.95)
    word_dropout: float = option(0.0, "share of the vocabulary whose vectors are zero in a step", minimum=0.0, maximum=0.95)
    recurrent_dropout: float = option(0.0, "share of the state that is hidden from the next step", minimum=0.0, maximum=0.95)
    weight_drop: float = option(0.0, "share of the recurrent weights that is zero in a step", minimum=0.0, maximum=0.95)
    variational: bool = option(True, "one dropout mask for all tokens of a window")
    layer_norm: bool = option(False, "normalise inside the cell")
    residual: bool = option(False, "add a layer's input to its output")
    learned_start: bool = option(False, "learn the first state")
    d_projection: int | None = option(None, "narrow the state to this width", minimum=1, maximum=MOST_WIDTH)


@dataclass(frozen=True, kw_only=True)
class RNNConfig(RecurrentConfig):
    activation: Literal["tanh", "relu"] = option("tanh", "of the cell")


@dataclass(frozen=True, kw_only=True)
class LSTMConfig(RecurrentConfig):
    forget_bias: float = option(1.0, "where the forget gate begins: above zero it remembers", minimum=-1e6, maximum=1e6)


@dataclass(frozen=True, kw_only=True)
class GRUConfig(RecurrentConfig):
    reset: Literal["after", "before"] = option("after", "the reset gate acts after the product with the state, or before")
    update: Literal["keep", "replace"] = option("keep", "an open update gate keeps the state, or replaces it")


@dataclass(frozen=True, kw_only=True)
class NPLMConfig(NeuralConfig):
    order: int = option(5, "predicts a token from the order - 1 before it", minimum=2, maximum=64)
    d_embed: int | None = option(None, f"width of the token vectors [default: {NPLM_EMBED}, or that of pretrained]",
                                 minimum=1, maximum=MOST_WIDTH)
    d_hidden: int | None = option(None, "width of the hidden layer [default: by the text and the time]",
                                  minimum=1, maximum=MOST_WIDTH)
    direct: bool = option(False, "also connect the vectors with the output directly")
    dropout: float | None = option(None, "share of the hidden layer that is set to zero [default: 0 to 0.2, by the number of "
                                   "passes over the text]", minimum=0.0, maximum=0.95)


@dataclass(frozen=True, kw_only=True)
class GPTConfig(NeuralConfig):
    only_with: ClassVar[OnlyWith] = {"tied": {"softmax": ("full", "sampled", "nce")}}

    context: int = option(256, "tokens that it sees at once", minimum=2, maximum=1_000_000)
    d_model: int | None = option(None, "width [default: by the text and the time, or that of pretrained]",
                                 minimum=2, maximum=MOST_WIDTH)
    n_layers: int = option(4, "blocks", minimum=1, maximum=1000)
    n_heads: int = option(4, "heads of attention; they divide the width", minimum=1, maximum=10_000)
    positions: Literal["learned", "sinusoidal", "rope", "alibi"] = option("rope", "how it knows the order of tokens")
    norm: Literal["pre", "post"] = option("pre", "normalise before each part of a block, or after it")
    activation: Literal["gelu", "relu"] = option("gelu", "inside the blocks")
    dropout: float | None = option(None, "share of what leaves each part that is set to zero [default: 0 to 0.2, by the "
                                   "number of passes over the text]", minimum=0.0, maximum=0.95)
    tied: bool = option(True, "the output layer uses the token vectors")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model is not None and self.d_model % self.multiple:
            pairs = " (rope turns pairs, so each head has an even width)" if self.positions == "rope" else ""
            raise ConfigError(f"d_model {self.d_model} is not a multiple of {self.multiple}, as {self.n_heads} heads and "
                              f"{self.positions} positions need{pairs}")

    @property
    def multiple(self) -> int:
        """What the width must be a multiple of."""
        if self.positions == "rope":
            return 2 * self.n_heads
        return math.lcm(2, self.n_heads) if self.positions == "sinusoidal" else self.n_heads
