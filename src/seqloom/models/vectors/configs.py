"""The options of the word-vector models, apart from the models, so that `--help` shows them without loading anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import COUNTS, ITERATES, MOST, MOST_SEED, Config, OnlyWith, TextConfig, option
from seqloom.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig(Config):
    """Finished vectors have no options: whoever trained them had."""


@dataclass(frozen=True, kw_only=True)
class GloveConfig(TextConfig):
    """GloVe; the defaults are those of its authors' programs, with vectors of 100 dimensions instead of 50."""

    fit_arguments: ClassVar[frozenset[str]] = COUNTS | ITERATES

    min_count: int = option(5, "words seen less often are left out, without leaving a gap", minimum=1, maximum=MOST)
    dimensions: int = option(100, "numbers of a vector", minimum=1, maximum=65_000)
    window: int = option(15, "neighbours that count, on each side", minimum=1, maximum=10_000)
    symmetric: bool = option(True, "whether neighbours on both sides count, or those to the right only")
    weighting: Literal["distance", "equal"] = option("distance", "a neighbour at distance d counts 1/d, or all count the same")
    x_max: float = option(100.0, "count from which on a pair has its full weight", minimum=1e-6, maximum=1e12)
    alpha: float = option(0.75, "exponent of the weight of rarer pairs, (x / x_max)^alpha", minimum=0, maximum=100)
    epochs: int = option(25, "passes over all pairs", minimum=1, maximum=1_000_000)
    lr: float = option(0.05, "learning rate: first step of AdaGrad, before its sums of squares grow", minimum=1e-9, maximum=1e6)
    bias_rate: float = option(1.0, "the same for the biases, which have further to go", minimum=1e-9, maximum=1e6)
    vectors: Literal["input", "output", "sum"] = option("sum", "what a word's vector is: as a word, as a neighbour, or the sum")
    seed: int = option(1, "of the first vectors and of the order of pairs", minimum=0, maximum=MOST_SEED)
    start: str | None = option(None, "a saved model of this kind whose vectors are learnt further, new words added",
                               metavar="DIR")


@dataclass(frozen=True, kw_only=True)
class WindowConfig(TextConfig):
    """What word2vec and fastText share: words are learnt from the words around them."""

    fit_arguments: ClassVar[frozenset[str]] = COUNTS | ITERATES
    only_with: ClassVar[OnlyWith] = {"negatives": {"loss": ("ns",)}, "noise_exponent": {"loss": ("ns",)}}

    min_count: int = option(5, "words seen less often are left out", minimum=1, maximum=MOST)
    architecture: Literal["skip-gram", "cbow"] = option("skip-gram", "each neighbour predicts the word, or the mean of "
                                                         "all does")
    loss: Literal["ns", "hs", "softmax"] = option("ns", "negative sampling, hierarchical softmax (a tree), or softmax over all "
                                                  "words (small vocabularies)")
    dimensions: int = option(100, "numbers of a vector", minimum=1, maximum=65_000)
    window: int = option(5, "neighbours that count, on each side", minimum=1, maximum=10_000)
    shrink: bool = option(True, "each window has a random size up to the full one, so that near words count more")
    negatives: int = option(5, "noise words beside each word, shared by its window", minimum=1, maximum=10_000)
    noise_exponent: float = option(0.75, "noise words are drawn by count to this power", minimum=-10.0, maximum=10.0)
    sample: float = option(1e-3, "words that are more than this share of the text are read less often; 0: all are read",
                           minimum=0.0, maximum=1.0)
    epochs: int = option(5, "passes over the text", minimum=1, maximum=1_000_000)
    lr: float | None = option(None, "learning rate at the beginning, then it falls to zero in a line; if not given 0.025, and "
                                         "0.05 for cbow", minimum=1e-8, maximum=1e6)
    seed: int = option(0, "of the first vectors, the noise and what is read", minimum=0, maximum=MOST_SEED)
    deterministic: bool = option(False, "one thread only, so that every run gives the same bits")
    start: str | None = option(None, "a saved model of this kind whose vectors are learnt further, new words added",
                               metavar="DIR")

    @property
    def rate(self) -> float:
        """The learning rate; its defaults are those of the authors' program."""
        return self.lr or (0.05 if self.architecture == "cbow" else 0.025)


@dataclass(frozen=True, kw_only=True)
class Word2VecConfig(WindowConfig):
    vectors: Literal["input", "output", "sum"] = option("input", "what a word's vector is: as a neighbour that predicts, as "
                                                        "the word that is predicted, or the sum")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vectors != "input" and self.loss == "hs":
            raise ConfigError(f"a tree has no vector for each word on its output side; vectors {self.vectors!r} needs loss "
                              "ns or softmax")


@dataclass(frozen=True, kw_only=True)
class SubwordConfig(WindowConfig):
    """What fastText and charngram share: words are made of character n-grams. The defaults are those of fastText."""

    noise_exponent: float = option(0.5, "noise words are drawn by count to this power", minimum=-10.0, maximum=10.0)
    sample: float = option(1e-4, "words that are more than this share of the text are read less often; 0: all are read",
                           minimum=0.0, maximum=1.0)
    lr: float | None = option(0.05, "learning rate at the beginning; it falls to zero in a line", minimum=1e-8, maximum=1e6)
    min_ngram: int = option(3, "shortest character n-grams of a word", minimum=1, maximum=100)
    max_ngram: int = option(6, "longest character n-grams of a word", minimum=1, maximum=100)
    buckets: int = option(2_000_000, "n-grams are told apart by this many hash values", minimum=1, maximum=2**31 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_ngram > self.max_ngram:
            raise ConfigError(f"min_ngram {self.min_ngram} is more than max_ngram {self.max_ngram}")


@dataclass(frozen=True, kw_only=True)
class FastTextConfig(SubwordConfig):
    """A word is its own row and those of its n-grams."""


@dataclass(frozen=True, kw_only=True)
class CharNgramConfig(SubwordConfig):
    min_ngram: int = option(2, "shortest character n-grams of a word", minimum=1, maximum=100)
    max_ngram: int = option(4, "longest character n-grams of a word", minimum=1, maximum=100)
    aggregate: Literal["sum", "mean", "weighted", "attention"] = option(
        "weighted", "how n-grams become a vector: sum, mean, mean with rarer n-grams counting more, or learnt attention")
