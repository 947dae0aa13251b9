"""The options of the language models, apart from the models, so that `--help` shows them without
loading torch or NumPy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import (
    COUNTS,
    ITERATES,
    MAX_INTEGER,
    MOST_SEED,
    MOST_WIDTH,
    Config,
    OnlyWith,
    TextConfig,
    Unit,
    option,
)
from seqloom.errors import ConfigError
from seqloom.models.network.configs import (
    CellVariants,
    FormVariants,
    GateVariants,
    NetworkConfig,
    SoftmaxName,
    StackVariants,
)

SmoothingName = Literal[
    "modified-kneser-ney",
    "kneser-ney",
    "absolute",
    "witten-bell",
    "add-k",
    "maximum-likelihood",
    "imported",
]


@dataclass(frozen=True, kw_only=True)
class UniformConfig(TextConfig):
    tokenizer: str = option(
        "byte",
        "whitespace, word, char, byte, bpe, wordpiece, unigram, or a saved tokenizer",
        metavar="KIND|PATH",
    )
    unit: Unit = option(
        "stream",
        "what counts as one sequence: a line, a document (file), or the whole text as a stream",
    )


@dataclass(frozen=True, kw_only=True)
class NGramConfig(TextConfig):
    fit_arguments: ClassVar[frozenset[str]] = COUNTS | {"cluster"}
    only_with: ClassVar[OnlyWith] = {"k": {"smoothing": ("add-k",)}}

    order: int = option(5, "length of the longest n-grams", minimum=1, maximum=60)
    smoothing: SmoothingName = option("modified-kneser-ney", "smoothing method")
    k: float = option(1.0, "pseudo-count of add-k smoothing", minimum=1e-9, maximum=1e9)
    prune: tuple[int, ...] = option(
        (),
        "for each order, drop n-grams seen at most this often (0,0,1); the last value holds "
        "for higher orders",
        minimum=0,
        maximum=MAX_INTEGER,
    )
    prune_entropy: float = option(
        0.0,
        "drop n-grams whose removal raises perplexity by less than this fraction (1e-8 is mild)",
        minimum=0.0,
        maximum=1.0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prune:
            if self.prune[0] != 0:
                raise ConfigError(
                    f"prune must begin with 0: words are not pruned (use min_count); got {list(self.prune)}"
                )
            if list(self.prune) != sorted(self.prune):
                raise ConfigError(
                    f"prune must not fall from order to order; got {list(self.prune)}"
                )
            if len(self.prune) > self.order:
                raise ConfigError(f"prune has {len(self.prune)} values for order {self.order}")
        if self.prune_entropy and self.smoothing in ("add-k", "maximum-likelihood"):
            raise ConfigError(
                f"prune_entropy needs a smoothing that backs off, which {self.smoothing} does not"
            )


@dataclass(frozen=True, kw_only=True)
class HMMConfig(TextConfig):
    fit_arguments: ClassVar[frozenset[str]] = ITERATES

    states: int = option(32, "number of hidden states", minimum=1, maximum=4096)
    iterations: int = option(
        50, "maximum number of Baum-Welch iterations", minimum=1, maximum=1_000_000
    )
    tolerance: float = option(
        1e-4,
        "stop when the relative gain in log-likelihood falls below this",
        minimum=0.0,
        maximum=1e6,
    )
    restarts: int = option(
        1, "number of random initialisations; the best result is kept", minimum=1, maximum=10_000
    )
    k: float = option(0.01, "pseudo-count of every transition and token", minimum=0.0, maximum=1e9)
    seed: int = option(0, "random seed", minimum=0, maximum=MOST_SEED)


@dataclass(frozen=True, kw_only=True)
class CacheConfig(TextConfig):
    only_with: ClassVar[OnlyWith] = {"carry": {"unit": ("line", "document")}}

    window: int = option(500, "number of past tokens to remember", minimum=1, maximum=10_000_000)
    floor: float = option(0.01, "weight of the uniform distribution", minimum=1e-6, maximum=1.0)
    carry: bool = option(False, "remember tokens of earlier units too")


@dataclass(frozen=True, kw_only=True)
class MixtureConfig(Config):
    members: tuple[str, ...] = option((), "directories of the models to mix", metavar="MODEL")
    iterations: int = option(100, "maximum number of EM iterations", minimum=1, maximum=1_000_000)
    tolerance: float = option(
        1e-6, "stop when no weight changes by more than this", minimum=0.0, maximum=1e6
    )


@dataclass(frozen=True, kw_only=True)
class NeuralCacheConfig(Config):
    member: str | None = option(None, "directory of the trained network", metavar="MODEL")
    window: int = option(2000, "number of past tokens to remember", minimum=1, maximum=1_000_000)
    theta: float | None = option(
        None,
        "how strongly similar states are preferred; 0: all count alike [default: tuned on the "
        "text]",
        minimum=0.0,
        maximum=1e6,
    )
    share: float | None = option(
        None, "weight of the cache [default: tuned on the text]", minimum=0.0, maximum=0.99
    )


# ---- neural configs

GPT_SHAPE = (
    "n_kv_heads d_mlp positions rope_base rope_scale max_distance window norm norm_kind "
    "norm_epsilon activation "
    "bias"
)  # options of the network with and without torch
# the same for recurrent ones
RECURRENT_SHAPE = "d_projection layer_norm residual learned_start norm shrink"
NPLM_EMBED = 64  # default width of the NPLM's token vectors


@dataclass(frozen=True, kw_only=True)
class NeuralConfig(NetworkConfig):
    """Options of all neural language models."""

    only_with: ClassVar[OnlyWith] = {
        "carry": {"unit": ("line", "document")},
        "label_smoothing": {"softmax": ("full",)},
        "samples": {"softmax": ("sampled", "nce")},
    }
    training_only: ClassVar[frozenset[str]] = frozenset({"samples", "label_smoothing"})
    changeable: ClassVar[frozenset[str]] = frozenset(
        {"unit", "carry", "samples", "label_smoothing"}
    )

    tokenizer: str = option(
        "bpe",
        "whitespace, word, char, byte, bpe, wordpiece, unigram, or a saved tokenizer",
        metavar="KIND|PATH",
    )
    unit: Unit = option(
        "stream",
        "what counts as one sequence: a line, a document (file), or the whole text as a stream",
    )
    carry: bool = option(
        True,
        "carry the state over to the next unit, in training and scoring; gpt and nplm also see tokens "
        "of earlier units",
    )
    softmax: SoftmaxName = option(
        "full",
        "full: over all tokens; adaptive: rare tokens in narrow clusters; sampled, nce: "
        "trained against sampled tokens, scored over all",
    )
    samples: int = option(
        1024, "number of tokens that sampled and nce draw per step", minimum=1, maximum=1_000_000
    )
    label_smoothing: float = option(
        0.0, "share of the target probability spread over all tokens", minimum=0.0, maximum=0.99
    )


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(StackVariants, NeuralConfig):
    only_with: ClassVar[OnlyWith] = {"tied": {"softmax": ("full", "sampled", "nce")}}
    changeable: ClassVar[frozenset[str]] = frozenset(
        {
            "dropout",
            "input_dropout",
            "word_dropout",
            "recurrent_dropout",
            "weight_drop",
            "variational",
        }
    )

    d_hidden: int | None = option(
        None, "hidden size [default: chosen by text size and time]", minimum=1, maximum=MOST_WIDTH
    )
    d_embed: int | None = option(
        None,
        "embedding size [default: the hidden size, or that of pretrained]",
        minimum=1,
        maximum=MOST_WIDTH,
    )
    n_layers: int = option(1, "number of recurrent layers", minimum=1, maximum=1000)
    tied: bool = option(True, "tie the output layer to the token embeddings")
    dropout: float | None = option(
        None,
        "dropout on the output of each layer [default: 0 to 0.2, by the number of epochs]",
        minimum=0.0,
        maximum=0.95,
    )
    input_dropout: float | None = option(
        None,
        "dropout on the token embeddings [default: half of dropout]",
        minimum=0.0,
        maximum=0.95,
    )
    word_dropout: float = option(
        0.0,
        "share of the vocabulary whose embeddings are dropped in a step",
        minimum=0.0,
        maximum=0.95,
    )
    recurrent_dropout: float = option(
        0.0, "dropout on the state passed to the next time step", minimum=0.0, maximum=0.95
    )
    weight_drop: float = option(
        0.0, "dropout on the recurrent weights (DropConnect)", minimum=0.0, maximum=0.95
    )
    variational: bool = option(True, "use the same dropout mask at all time steps of a window")
    layer_norm: bool = option(False, "layer normalisation inside the cell")
    residual: bool = option(False, "residual connections between layers")
    learned_start: bool = option(False, "learn the initial state")
    d_projection: int | None = option(
        None, "project the state to this size", minimum=1, maximum=MOST_WIDTH
    )


@dataclass(frozen=True, kw_only=True)
class CellConfig(CellVariants, RecurrentConfig):
    """Options of the built-in cells."""

    recurrent_init: Literal["orthogonal", "identity", "normal"] = option(
        "orthogonal", "initial weights from state to state, of each gate", saved=False
    )


@dataclass(frozen=True, kw_only=True)
class RNNConfig(FormVariants, CellConfig):
    pass


@dataclass(frozen=True, kw_only=True)
class LSTMConfig(GateVariants, CellConfig):
    forget_bias: float = option(
        1.0, "initial bias of the forget gate; above zero it remembers", minimum=-1e6, maximum=1e6
    )


@dataclass(frozen=True, kw_only=True)
class GRUConfig(GateVariants, CellConfig):
    reset: Literal["after", "before"] = option(
        "after", "apply the reset gate after or before the product with the state"
    )
    update: Literal["keep", "replace"] = option(
        "keep", "whether an open update gate keeps the state or replaces it"
    )


@dataclass(frozen=True, kw_only=True)
class NPLMConfig(NeuralConfig):
    changeable: ClassVar[frozenset[str]] = frozenset({"dropout"})

    order: int = option(
        5, "predict each token from the order - 1 tokens before it", minimum=2, maximum=64
    )
    d_embed: int | None = option(
        None,
        f"width of the token vectors [default: {NPLM_EMBED}, or that of pretrained]",
        minimum=1,
        maximum=MOST_WIDTH,
    )
    d_hidden: int | None = option(
        None, "hidden size [default: chosen by text size and time]", minimum=1, maximum=MOST_WIDTH
    )
    direct: bool = option(False, "direct connections from the embeddings to the output")
    dropout: float | None = option(
        None,
        "dropout on the hidden layer [default: 0 to 0.2, by the number of epochs]",
        minimum=0.0,
        maximum=0.95,
    )


@dataclass(frozen=True, kw_only=True)
class GPTConfig(NeuralConfig):
    only_with: ClassVar[OnlyWith] = {
        "tied": {"softmax": ("full", "sampled", "nce")},
        "rope_base": {"positions": ("rope",)},
        "rope_scale": {"positions": ("rope",)},
        "max_distance": {"positions": ("relative",)},
    }
    training_only: ClassVar[frozenset[str]] = frozenset({"dropout"})
    changeable: ClassVar[frozenset[str]] = frozenset({"dropout", "rope_base", "rope_scale"})

    context: int = option(256, "context length in tokens", minimum=2, maximum=1_000_000)
    d_model: int | None = option(
        None,
        "model width [default: chosen by text size and time, or that of pretrained]",
        minimum=2,
        maximum=MOST_WIDTH,
    )
    n_layers: int = option(4, "number of Transformer blocks", minimum=1, maximum=1000)
    n_heads: int = option(
        4, "number of attention heads; must divide the width", minimum=1, maximum=10_000
    )
    n_kv_heads: int | None = option(
        None,
        "number of keys and values that groups of heads share; must divide n_heads "
        "[default: n_heads]",
        minimum=1,
        maximum=10_000,
    )
    d_mlp: int | None = option(
        None,
        "width of the feed-forward layers [default: 4 times the model width]",
        minimum=1,
        maximum=MOST_WIDTH,
    )
    window: int | None = option(
        None,
        "in each block, see only this many tokens back [default: the whole context]",
        minimum=1,
        maximum=1_000_000,
    )
    positions: Literal["learned", "sinusoidal", "rope", "alibi", "relative", "none"] = option(
        "rope",
        "positional encoding; relative: a learned vector for each distance; none: order shows only "
        "in what each "
        "token can see",
    )
    rope_base: float = option(
        10000.0, "base of the wavelengths of rope positions", minimum=1.0, maximum=1e12
    )
    rope_scale: float = option(1.0, "divide rope positions by this", minimum=1.0, maximum=1e6)
    max_distance: int = option(
        64,
        "relative positions: farther tokens have the vector of this distance",
        minimum=1,
        maximum=1_000_000,
    )
    norm: Literal["pre", "post"] = option("pre", "normalisation before or after each sublayer")
    norm_kind: Literal["layer", "rms"] = option(
        "layer", "layer normalisation, or RMSNorm, which has no mean and no bias"
    )
    norm_epsilon: float = option(
        1e-5, "added to the variance before a norm divides by its root", minimum=1e-12, maximum=1.0
    )
    activation: Literal["gelu", "relu", "swiglu"] = option(
        "gelu", "activation function of the feed-forward layers"
    )
    bias: bool = option(True, "biases in linear layers and layer normalisations")
    dropout: float | None = option(
        None,
        "dropout on the output of each sublayer [default: 0 to 0.2, by the number of epochs]",
        minimum=0.0,
        maximum=0.95,
    )
    tied: bool = option(True, "tie the output layer to the token embeddings")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_kv_heads is not None and self.n_heads % self.n_kv_heads:
            raise ConfigError(
                f"n_kv_heads {self.n_kv_heads} does not divide n_heads {self.n_heads} into groups"
            )
        if self.d_model is not None and self.d_model % self.multiple:
            pairs = (
                " (rope turns pairs, so each head has an even width)"
                if self.positions == "rope"
                else ""
            )
            raise ConfigError(
                f"d_model {self.d_model} is not a multiple of {self.multiple}, as {self.n_heads} heads and "
                f"{self.positions} positions need{pairs}"
            )

    def may_change(self, name: str) -> bool:
        """Return whether an option may change: a longer context is learnt by further training, unless
        positions are a table.
        """
        return super().may_change(name) or (name == "context" and self.positions != "learned")

    @property
    def multiple(self) -> int:
        """Return the number that must divide the width."""
        if self.positions == "rope":
            return 2 * self.n_heads
        return math.lcm(2, self.n_heads) if self.positions == "sinusoidal" else self.n_heads
