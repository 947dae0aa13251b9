"""The options of the word-vector models, apart from the models, so that `--help` shows them without
loading anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import (
    COUNTS,
    ITERATES,
    MAX_INTEGER,
    MOST_SEED,
    Config,
    CorpusConfig,
    OnlyWith,
    option,
)
from seqloom.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig(Config):
    """Finished vectors have no options."""


@dataclass(frozen=True, kw_only=True)
class GloveConfig(CorpusConfig):
    """GloVe; the defaults are those of its authors' programs, with vectors of 100 dimensions
    instead of 50.
    """

    fit_arguments: ClassVar[frozenset[str]] = COUNTS | ITERATES

    min_count: int = option(
        5,
        "ignore words seen less often than this; windows skip them",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    dimensions: int = option(100, "number of dimensions", minimum=1, maximum=65_000)
    window: int = option(15, "number of context words on each side", minimum=1, maximum=10_000)
    symmetric: bool = option(True, "count context words on both sides, or on the right only")
    weighting: Literal["distance", "equal"] = option(
        "distance", "a context word at distance d counts 1/d, or all count the same"
    )
    x_max: float = option(
        100.0, "count at which a pair reaches its full weight", minimum=1e-6, maximum=1e12
    )
    alpha: float = option(
        0.75, "exponent of the weight of rarer pairs, (x / x_max)^alpha", minimum=0, maximum=100
    )
    epochs: int = option(25, "passes over all pairs", minimum=1, maximum=1_000_000)
    lr: float = option(0.05, "initial learning rate of AdaGrad", minimum=1e-9, maximum=1e6)
    bias_rate: float = option(1.0, "initial learning rate of the biases", minimum=1e-9, maximum=1e6)
    vectors: Literal["input", "output", "sum"] = option(
        "sum", "vector of a word: as a word, as a context word, or the sum"
    )
    seed: int = option(1, "random seed", minimum=0, maximum=MOST_SEED)
    start: str | None = option(
        None, "saved model of this kind to continue training; new words are added", metavar="DIR"
    )


@dataclass(frozen=True, kw_only=True)
class WindowConfig(CorpusConfig):
    """Options of word2vec and fastText: words are learnt from the words around them."""

    fit_arguments: ClassVar[frozenset[str]] = COUNTS | ITERATES
    only_with: ClassVar[OnlyWith] = {
        "negatives": {"loss": ("ns",)},
        "noise_exponent": {"loss": ("ns",)},
    }

    min_count: int = option(
        5, "ignore words seen less often than this", minimum=1, maximum=MAX_INTEGER
    )
    architecture: Literal["skip-gram", "cbow"] = option(
        "skip-gram", "predict a word from each neighbour, or from the mean of all"
    )
    loss: Literal["ns", "hs", "softmax"] = option(
        "ns",
        "negative sampling, hierarchical softmax (a tree), or full softmax (small vocabularies)",
    )
    dimensions: int = option(100, "number of dimensions", minimum=1, maximum=65_000)
    window: int = option(5, "number of context words on each side", minimum=1, maximum=10_000)
    shrink: bool = option(
        True, "draw each window's size at random up to the full one, so that near words count more"
    )
    negatives: int = option(
        5, "negative samples per word, shared by its window", minimum=1, maximum=10_000
    )
    noise_exponent: float = option(
        0.75, "negative samples are drawn by word count to this power", minimum=-10.0, maximum=10.0
    )
    sample: float = option(
        1e-3, "subsample words above this share of the text; 0: none", minimum=0.0, maximum=1.0
    )
    epochs: int = option(5, "passes over the text", minimum=1, maximum=1_000_000)
    lr: float | None = option(
        None,
        "initial learning rate; decays linearly to zero [default: 0.025, or 0.05 for cbow]",
        minimum=1e-8,
        maximum=1e6,
    )
    seed: int = option(0, "random seed", minimum=0, maximum=MOST_SEED)
    deterministic: bool = option(False, "use one thread, so that runs are exactly reproducible")
    start: str | None = option(
        None, "saved model of this kind to continue training; new words are added", metavar="DIR"
    )

    @property
    def rate(self) -> float:
        """Return the learning rate; its defaults are those of the authors' program."""
        return self.lr or (0.05 if self.architecture == "cbow" else 0.025)


@dataclass(frozen=True, kw_only=True)
class Word2VecConfig(WindowConfig):
    vectors: Literal["input", "output", "sum"] = option(
        "input",
        "vector of a word: as the predicting word (input), as the "
        "predicted word (output), or the sum",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vectors != "input" and self.loss == "hs":
            raise ConfigError(
                f"a tree has no vector for each word on its output side; vectors {self.vectors!r} needs loss "
                "ns or softmax"
            )


@dataclass(frozen=True, kw_only=True)
class SubwordConfig(WindowConfig):
    """Options of fastText and charngram: words are made of character n-grams. The defaults are
    those of fastText.
    """

    noise_exponent: float = option(
        0.5, "negative samples are drawn by word count to this power", minimum=-10.0, maximum=10.0
    )
    sample: float = option(
        1e-4, "subsample words above this share of the text; 0: none", minimum=0.0, maximum=1.0
    )
    lr: float | None = option(
        0.05, "initial learning rate; decays linearly to zero", minimum=1e-8, maximum=1e6
    )
    min_ngram: int = option(3, "minimum length of character n-grams", minimum=1, maximum=100)
    max_ngram: int = option(6, "maximum length of character n-grams", minimum=1, maximum=100)
    buckets: int = option(
        2_000_000, "number of hash buckets for n-grams", minimum=1, maximum=2**31 - 1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_ngram > self.max_ngram:
            raise ConfigError(f"min_ngram {self.min_ngram} is more than max_ngram {self.max_ngram}")


@dataclass(frozen=True, kw_only=True)
class FastTextConfig(SubwordConfig):
    """A word has a row, and those of its n-grams."""


@dataclass(frozen=True, kw_only=True)
class CharNgramConfig(SubwordConfig):
    min_ngram: int = option(2, "minimum length of character n-grams", minimum=1, maximum=100)
    max_ngram: int = option(4, "maximum length of character n-grams", minimum=1, maximum=100)
    aggregate: Literal["sum", "mean", "weighted", "attention"] = option(
        "weighted",
        "how n-gram vectors are combined: sum, mean, mean with more weight on rare n-grams, or "
        "learned attention",
    )
