"""The options of the classifiers, apart from the models, so that `--help` shows them without loading anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import ITERATES, MOST, MOST_MINUTES, MOST_SEED, MOST_TOKENS, Config, OnlyWith, option
from seqloom.errors import ConfigError

MINUTES = 5.0  # that tune may take by default


@dataclass(frozen=True, kw_only=True)
class TextsConfig(Config):
    """How texts become words, for every classifier."""

    tokenizer: str = option("word", "whitespace, word, char, byte, bpe, wordpiece, unigram, or a saved tokenizer",
                            metavar="KIND|PATH")
    vocab_size: int | None = option(None, "keep this many tokens at most", minimum=2, maximum=MOST_TOKENS)
    min_count: int = option(1, "leave out words seen less often than this", minimum=1, maximum=MOST)
    vocab_file: str | None = option(None, "take the vocabulary from a file, one token a line", metavar="FILE")
    normalize: str = option("none", "what is done to the text first: none, topic, sentiment, or steps such as "
                            "case=lower,stem=porter", metavar="PRESET|STEP=VALUE,..")


@dataclass(frozen=True, kw_only=True)
class NaiveBayesConfig(TextsConfig):
    min_count: int = option(1, "leave out words and n-grams seen less often than this", minimum=1, maximum=MOST)
    variant: Literal["multinomial", "bernoulli", "complement"] = option(
        "multinomial", "multinomial: draws of words; bernoulli: which words are there and which are not; complement: "
        "how little a text is like the other classes")
    ngrams: int = option(1, "length of the longest word n-grams", minimum=1, maximum=60)
    features: Literal["counts", "presence"] = option(
        "counts", "whether a word that comes three times in a text counts three times or once (bernoulli: always once)")
    k: float = option(1.0, "what is added to each count", minimum=1e-9, maximum=1e9)
    prior: Literal["data", "uniform"] = option(
        "data", "how likely a class is before anything is read: as in the data, or all alike")
    calibrate: Literal["none", "temperature"] = option(
        "none", "temperature: make the probabilities honest, on the valid data; the order of classes stays")


@dataclass(frozen=True, kw_only=True)
class FastTextClassifierConfig(TextsConfig):
    fit_arguments: ClassVar[frozenset[str]] = ITERATES
    only_with: ClassVar[OnlyWith] = {"cutoff": {"quantise": (True,)}, "minutes": {"tune": (True,)}}

    ngrams: int = option(1, "length of the longest word n-grams", minimum=1, maximum=60)
    min_ngram: int = option(3, "shortest character n-grams of a word, where max_ngram is given", minimum=1, maximum=100)
    max_ngram: int = option(0, "longest character n-grams of a word; 0: words have none", minimum=0, maximum=100)
    buckets: int = option(2_000_000, "n-grams are told apart by this many hash values", minimum=1, maximum=2**31 - 1)
    dimensions: int = option(100, "numbers of a vector", minimum=1, maximum=65_000)
    loss: Literal["softmax", "hs"] = option("softmax", "softmax over all classes, or hierarchical softmax (a tree), for very "
                                            "many of them")
    epochs: int | None = option(None, "passes over the texts  [default: 5, more for few texts]", minimum=1, maximum=1_000_000)
    lr: float = option(0.5, "learning rate at the beginning; it falls to zero in a line", minimum=1e-8, maximum=1e6)
    pretrained: str | None = option(None, "saved word vectors, or a file of them, that the words begin with",
                                    metavar="DIR|FILE")
    seed: int = option(0, "of the first vectors and of the order of the texts", minimum=0, maximum=MOST_SEED)
    deterministic: bool = option(False, "one thread only, so that every run gives the same bits; few texts are always "
                                 "learnt in one")
    quantise: bool = option(False, "save the vectors in codes of 8 bits for two dimensions, about an eighth of the size")
    cutoff: int | None = option(None, "with quantise: keep this many features, the longest vectors", minimum=1, maximum=MOST)
    tune: bool = option(False, "try other settings and keep those that are best on the valid data; options that are given a "
                        "value other than their default stay as they are")
    minutes: float = option(MINUTES, "how long tune may take", minimum=0.001, maximum=MOST_MINUTES)

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.max_ngram < self.min_ngram:
            raise ConfigError(f"min_ngram {self.min_ngram} is more than max_ngram {self.max_ngram}")
