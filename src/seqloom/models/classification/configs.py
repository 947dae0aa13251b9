"""The options of the classifiers, apart from the models, so that `--help` shows them without
loading anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import (
    ITERATES,
    MAX_INTEGER,
    MOST_MINUTES,
    MOST_SEED,
    MOST_TOKENS,
    Config,
    OnlyWith,
    option,
)
from seqloom.errors import ConfigError
from seqloom.models.sequence.configs import TRAINED_HERE, EncoderConfig

MINUTES = 5.0  # default time limit of tune


@dataclass(frozen=True, kw_only=True)
class MajorityConfig(Config):
    pass


@dataclass(frozen=True, kw_only=True)
class TextsConfig(Config):
    """How texts become words, for every classifier."""

    tokenizer: str = option(
        "word",
        "whitespace, word, char, byte, bpe, wordpiece, unigram, or a saved tokenizer",
        metavar="KIND|PATH",
    )
    vocab_size: int | None = option(None, "maximum vocabulary size", minimum=2, maximum=MOST_TOKENS)
    min_count: int = option(
        1, "ignore words seen less often than this", minimum=1, maximum=MAX_INTEGER
    )
    vocab_file: str | None = option(
        None, "read the vocabulary from a file, one token per line", metavar="FILE"
    )
    normalize: str = option(
        "none",
        "preprocessing: none, topic, sentiment, or steps such as case=lower,stem=porter",
        metavar="PRESET|STEP=VALUE,..",
    )


@dataclass(frozen=True, kw_only=True)
class WordNgramsConfig(TextsConfig):
    """Which words and n-grams of words are features."""

    min_count: int = option(
        1, "ignore words and n-grams seen less often than this", minimum=1, maximum=MAX_INTEGER
    )
    ngrams: int = option(1, "maximum length of word n-grams", minimum=1, maximum=60)


@dataclass(frozen=True, kw_only=True)
class LogisticConfig(WordNgramsConfig):
    C: float = option(
        1.0,
        "how closely to fit: the inverse of the strength of the L2 penalty, as in scikit-learn",
        minimum=1e-6,
        maximum=1e6,
    )
    sublinear: bool = option(
        False, "a word that occurs n times in a text counts 1 + log n instead of n"
    )
    class_weights: Literal["none", "balanced"] = option(
        "none", "balanced: every class counts as much as any other, however rare"
    )


@dataclass(frozen=True, kw_only=True)
class NaiveBayesConfig(WordNgramsConfig):
    variant: Literal["multinomial", "bernoulli", "complement"] = option(
        "multinomial",
        "event model: word counts (multinomial), presence and absence of words (bernoulli), or "
        "word counts of "
        "the other classes (complement)",
    )
    features: Literal["counts", "presence"] = option(
        "counts",
        "count every occurrence of a word in a text, or only its presence (bernoulli: always presence)",
    )
    k: float = option(
        1.0, "pseudo-count added to each count (additive smoothing)", minimum=1e-9, maximum=1e9
    )
    prior: Literal["data", "uniform"] = option(
        "data", "prior of the classes: their frequency in the data, or uniform"
    )
    calibrate: Literal["none", "temperature"] = option(
        "none",
        "temperature: calibrate the probabilities on the validation data; predictions stay the same",
    )


@dataclass(frozen=True, kw_only=True)
class FastTextClassifierConfig(TextsConfig):
    fit_arguments: ClassVar[frozenset[str]] = ITERATES
    only_with: ClassVar[OnlyWith] = {"cutoff": {"quantise": (True,)}, "minutes": {"tune": (True,)}}

    ngrams: int = option(1, "maximum length of word n-grams", minimum=1, maximum=60)
    min_ngram: int = option(
        3, "minimum length of character n-grams, if max_ngram is given", minimum=1, maximum=100
    )
    max_ngram: int = option(
        0, "maximum length of character n-grams; 0: none", minimum=0, maximum=100
    )
    buckets: int = option(
        2_000_000, "number of hash buckets for n-grams", minimum=1, maximum=2**31 - 1
    )
    dimensions: int = option(100, "number of dimensions", minimum=1, maximum=65_000)
    loss: Literal["softmax", "hs"] = option(
        "softmax", "softmax, or hierarchical softmax (a tree) for very many classes"
    )
    epochs: int | None = option(
        None,
        "passes over the texts  [default: 5, more for few texts]",
        minimum=1,
        maximum=1_000_000,
    )
    lr: float = option(
        0.5, "initial learning rate; decays linearly to zero", minimum=1e-8, maximum=1e6
    )
    pretrained: str | None = option(
        None, "pretrained word vectors: a saved model or a file", metavar="DIR|FILE"
    )
    seed: int = option(0, "random seed", minimum=0, maximum=MOST_SEED)
    deterministic: bool = option(
        False, "use one thread, so that runs are exactly reproducible; small data always uses one"
    )
    quantise: bool = option(
        False,
        "save the vectors by product quantisation, 8 bits per two dimensions: about an eighth of "
        "the size",
    )
    cutoff: int | None = option(
        None,
        "with quantise: keep only this many features, those with the largest norm",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    tune: bool = option(
        False,
        "search for the settings that are best on the validation data; options with a value other than "
        "their default stay fixed",
    )
    minutes: float = option(
        MINUTES, "time limit of the search, in minutes", minimum=0.001, maximum=MOST_MINUTES
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.max_ngram < self.min_ngram:
            raise ConfigError(f"min_ngram {self.min_ngram} is more than max_ngram {self.max_ngram}")


@dataclass(frozen=True, kw_only=True)
class NeuralClassifierConfig(EncoderConfig, TextsConfig):
    only_with: ClassVar[OnlyWith] = {
        "n_sentence_layers": {"long": ("sentences",)},
        **{
            name: TRAINED_HERE
            for name in ("tokenizer", "vocab_size", "min_count", "vocab_file", "normalize")
        },
    }

    changeable: ClassVar[frozenset[str]] = frozenset(
        {"max_length", "class_weights", "label_smoothing", "calibrate", "tune_threshold"}
    )

    pooling: Literal["last", "first", "mean", "max", "attention"] | None = option(
        None,
        "how the vectors of all steps become one: last: the final state; first: that of the mark "
        "which a converted encoder puts before a text; mean; max; attention: a learned mean "
        "[default: max; mean with a converted encoder]",
    )
    head_layer: Literal["none", "tanh", "relu", "gelu", "gelu-erf"] = option(
        "none",
        "activation of a further layer between that vector and the classes, as published "
        "classifiers have it; none: no such layer",
    )
    long: Literal["truncate", "windows", "sentences"] = option(
        "truncate",
        "texts of more than max_length tokens: truncate; windows: average over overlapping "
        "windows; sentences: "
        "read sentences first, then their sequence",
    )
    max_length: int = option(
        512,
        "maximum number of tokens of a text, window or sentence",
        minimum=2,
        maximum=MAX_INTEGER,
    )
    n_sentence_layers: int = option(
        1, "with long sentences: layers of the encoder of sentences", minimum=1, maximum=100
    )
    class_weights: Literal["none", "balanced"] = option(
        "none", "balanced: every class counts as much as any other, however rare"
    )
    label_smoothing: float = option(
        0.0, "share of the target probability spread over all classes", minimum=0.0, maximum=0.99
    )
    calibrate: Literal["none", "temperature"] = option(
        "none",
        "temperature: calibrate the probabilities on the held-out data; predictions stay the same",
    )
    tune_threshold: bool = option(
        False,
        "two classes or several labels: move the threshold to where F1 is best on the "
        "held-out data",
    )

    @property
    def pools(self) -> Literal["last", "first", "mean", "max", "attention"]:
        """Return the pooling that is used."""
        return self.pooling or ("mean" if self.published else "max")
