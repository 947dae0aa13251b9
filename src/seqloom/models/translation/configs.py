"""The options of the translators, apart from the models, so that `--help` shows them without
loading anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import CONTINUES, MAX_INTEGER, MOST_TOKENS, MOST_WIDTH, Config, OnlyWith, option
from seqloom.encoder_table import CELL_NAMES, ENCODER_NAMES, LAYERED, encoders_with
from seqloom.errors import ConfigError
from seqloom.models.network.configs import EncoderVariants

KINDS = "bpe, unigram, wordpiece, word, whitespace, char, byte, or a saved tokenizer"
SAMPLED = ("linear", "exponential", "inverse-sigmoid")
GATED = ("geglu", "swiglu")  # activations of which half of the units are gates


@dataclass(frozen=True, kw_only=True)
class CopyConfig(Config):
    pass


@dataclass(frozen=True, kw_only=True)
class DictionaryConfig(Config):
    """Options of the word-for-word dictionary."""

    tokenizer: Literal["word", "char"] = option(
        "word", "what is translated one by one: words and punctuation marks, or characters"
    )
    min_count: int = option(
        1,
        "words seen less often than this become <unk>; they are copied",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    iterations: int = option(10, "iterations of EM", minimum=1, maximum=10_000)
    smoothing: float = option(
        0.01,
        "share of the probability of each word's translations that is spread over all target words",
        minimum=1e-9,
        maximum=1.0,
    )
    least: float = option(
        1e-4,
        "translations of a word that are less probable than this are dropped after fitting; 0 keeps "
        "all",
        minimum=0.0,
        maximum=1.0,
    )


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig(Config):
    """Of every network that writes a target for a source."""

    fit_arguments: ClassVar[frozenset[str]] = CONTINUES
    changeable: ClassVar[frozenset[str]] = frozenset(
        {
            "max_length",
            "dropout",
            "label_smoothing",
            "scheduled_sampling",
            "sampling_half",
            "select_by",
        }
    )
    only_with: ClassVar[OnlyWith] = {"sampling_half": {"scheduled_sampling": SAMPLED}}
    training_only: ClassVar[frozenset[str]] = frozenset(
        {
            "tokenizer",
            "source_tokenizer",
            "target_tokenizer",
            "vocab_size",
            "min_count",
            "marks",
            "max_length",
            "dropout",
            "label_smoothing",
            "scheduled_sampling",
            "sampling_half",
            "select_by",
        }
    )

    tokenizer: str = option("bpe", f"tokens of sources and targets: {KINDS}", metavar="KIND|PATH")
    source_tokenizer: str | None = option(None, "other tokens for sources", metavar="KIND|PATH")
    target_tokenizer: str | None = option(None, "other tokens for targets", metavar="KIND|PATH")
    vocab_size: int | None = option(
        None,
        "maximum vocabulary size of each side [default for subwords: by the size of the "
        "text, 4000 for 2 MB]",
        minimum=2,
        maximum=MOST_TOKENS,
    )
    min_count: int = option(
        1, "tokens seen less often than this become <unk>", minimum=1, maximum=MAX_INTEGER
    )
    marks: tuple[str, ...] = option(
        (),
        "further tokens of either side that no text produces, such as <extra_id_0>",
        metavar="MARK,..",
        saved=False,
    )
    shared_vocabulary: bool = option(
        False, "one vocabulary, with one vector for each token, for sources and targets"
    )
    max_length: int = option(
        250,
        "pairs with more tokens than this on one side are left out in training",
        minimum=1,
        maximum=MOST_TOKENS,
    )
    tied: bool = option(True, "the output layer uses the vectors of the target tokens")
    dropout: float = option(0.3, "dropout of vectors and layers", minimum=0.0, maximum=0.95)
    label_smoothing: float = option(
        0.1,
        "share of the target probability that is spread over all tokens",
        minimum=0.0,
        maximum=0.99,
    )
    scheduled_sampling: Literal["none", "linear", "exponential", "inverse-sigmoid"] = option(
        "none",
        "how the decoder's inputs in training pass from the true tokens to its own predictions",
    )
    sampling_half: float = option(
        10.0, "epochs until half of the inputs are predictions", minimum=0.01, maximum=MAX_INTEGER
    )
    select_by: Literal["nats", "bleu"] = option(
        "nats",
        "what chooses the best weights on held-out pairs: nats per target "
        "token, or BLEU of greedy translations",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared_vocabulary and (self.source_tokenizer or self.target_tokenizer):
            raise ConfigError(
                "a shared vocabulary has one tokenizer; give tokenizer instead of source_tokenizer and "
                "target_tokenizer"
            )


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(EncoderVariants, TranslatorConfig):
    """Options of the recurrent encoder-decoder; variants of cells are for the encoder."""

    only_with: ClassVar[OnlyWith] = {
        "window": {"encoder": encoders_with("window")},
        "n_heads": {"encoder": encoders_with("n_heads")},
        "n_layers": {"encoder": LAYERED},
        "input_feeding": {
            "attention": ("additive", "dot", "general", "concat", "scaled"),
            "one_network": (False,),
        },
        "coverage": {"attention": ("additive", "dot", "general", "concat", "scaled")},
        "encoder": {"one_network": (False,)},
        "bottleneck": {"one_network": (False,)},
        **{
            name: {**needs, "one_network": (False,)}
            for name, needs in EncoderVariants.only_with.items()
        },
        "one_network": {"shared_vocabulary": (True,)},
    }

    encoder: str = option(
        "bigru",
        "reads the source: bag: vectors alone; window: feed-forward over neighbours; cnn; "
        "rnn, lstm, gru; birnn, bilstm, bigru: both directions; transformer",
        known=ENCODER_NAMES,
    )
    cell: str = option("gru", "recurrent cell of the decoder", known=CELL_NAMES)
    d_embed: int = option(256, "size of token vectors", minimum=1, maximum=MOST_WIDTH)
    d_hidden: int = option(
        256, "hidden size of a layer, in each direction", minimum=1, maximum=MOST_WIDTH
    )
    n_layers: int = option(1, "number of layers of the encoder", minimum=1, maximum=100)
    n_decoder_layers: int = option(1, "number of layers of the decoder", minimum=1, maximum=100)
    window: int = option(
        1, "neighbours on either side that window and cnn look at", minimum=0, maximum=100
    )
    n_heads: int = option(4, "attention heads of a transformer encoder", minimum=1, maximum=1000)
    attention: Literal["none", "additive", "dot", "general", "concat", "scaled"] = option(
        "additive",
        "how source positions are scored: additive (Bahdanau); dot, general, concat (Luong); "
        "scaled dot product; "
        "none: the decoder only knows a summary of the source",
    )
    input_feeding: bool = option(
        False, "what was read from the source is part of the next input; slower"
    )
    coverage: bool = option(
        False, "the attention knows what each source position has been given so far; slower"
    )
    bottleneck: Literal["initial", "every-step"] = option(
        "initial",
        "how the summary of the source reaches the decoder: as its initial state, or also as an "
        "input of every step",
    )
    reverse_source: bool = option(False, "read sources from right to left")
    one_network: bool = option(
        False,
        "one recurrent network reads the source and then writes the target; needs "
        "shared_vocabulary",
    )


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(TranslatorConfig):
    """Options of the encoder-decoder Transformer."""

    only_with: ClassVar[OnlyWith] = {
        "context": {"positions": ("learned",)},
        "buckets": {"positions": ("t5",)},
        "max_distance": {"positions": ("t5",)},
    }
    training_only: ClassVar[frozenset[str]] = frozenset({"attention_dropout"})
    changeable: ClassVar[frozenset[str]] = frozenset({"attention_dropout"})

    d_model: int = option(128, "width of the network", minimum=2, maximum=MOST_WIDTH)
    dropout: float = option(0.2, "dropout of vectors and layers", minimum=0.0, maximum=0.95)
    n_layers: int = option(4, "number of layers of the encoder", minimum=1, maximum=100)
    n_decoder_layers: int = option(4, "number of layers of the decoder", minimum=1, maximum=100)
    n_heads: int = option(4, "attention heads", minimum=1, maximum=1000)
    d_head: int | None = option(
        None, "width of a head [default: d_model / n_heads]", minimum=1, maximum=MOST_WIDTH
    )
    d_mlp: int | None = option(
        None, "width of the perceptrons [default: 4 times d_model]", minimum=1, maximum=MOST_WIDTH
    )
    positions: Literal["sinusoidal", "learned", "t5"] = option(
        "sinusoidal",
        "positions of tokens: sinusoidal or learned, added to the vectors; t5: numbers for ranges "
        "of distances, "
        "learned and added to the scores",
    )
    context: int = option(
        1024,
        "longest source and longest target for which positions are learned",
        minimum=2,
        maximum=1_000_000,
    )
    buckets: int = option(32, "ranges of distances", minimum=4, maximum=10_000)
    max_distance: int = option(
        128, "distance from which on all are in the last range", minimum=2, maximum=10_000
    )
    norm: Literal["pre", "post"] = option(
        "pre", "layer norm before each part of a layer, or after it as in the paper"
    )
    norm_kind: Literal["layer", "rms"] = option("layer", "layer norm, or RMSNorm")
    norm_epsilon: float = option(
        1e-5, "what the norms add to the variance", minimum=1e-12, maximum=1.0
    )
    embedding_norm: bool = option(
        False, "norm of the vectors before the first layer of either side"
    )
    activation: Literal["relu", "gelu", "gelu-erf", "swish", "geglu", "swiglu"] = option(
        "relu",
        "activation function of the perceptrons; gelu is the form with tanh, gelu-erf the exact "
        "one; geglu and swiglu "
        "have gates of gelu and of swish",
    )
    bias: bool = option(True, "biases of layers, norms and the output")
    scaled_attention: bool = option(True, "scores are divided by the root of a head's width")
    scaled_embedding: bool = option(True, "token vectors are multiplied by the root of d_model")
    scaled_output: bool = option(
        False, "what the output layer reads is divided by the root of d_model"
    )
    attention_dropout: float = option(
        0.0, "dropout of attention weights", minimum=0.0, maximum=0.95
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.d_head is None and self.d_model % self.n_heads) or (
            self.positions == "sinusoidal" and self.d_model % 2
        ):
            raise ConfigError(
                f"d_model {self.d_model} must be even and a multiple of n_heads {self.n_heads}"
            )
        if self.positions == "t5" and (self.buckets % 2 or self.max_distance <= self.buckets // 2):
            raise ConfigError(
                f"buckets {self.buckets} must be even, and max_distance {self.max_distance} above half of it"
            )
        if self.positions == "learned" and self.max_length > self.context:
            raise ConfigError(
                f"context {self.context} must be at least max_length {self.max_length}, the "
                f"longest text that is "
                "trained on"
            )
