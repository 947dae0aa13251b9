"""The options of the classifiers, apart from the models, so that `--help` shows them without loading anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from seqloom.config import Config, option


@dataclass(frozen=True, kw_only=True)
class NaiveBayesConfig(Config):
    tokenizer: str = option("word", "whitespace, word, char, byte, bpe, wordpiece, unigram, or a saved tokenizer",
                            metavar="KIND|PATH")
    vocab_size: int | None = option(None, "keep this many tokens at most", minimum=2)
    min_count: int = option(1, "leave out words and n-grams seen less often than this", minimum=1)
    vocab_file: str | None = option(None, "take the vocabulary from a file, one token a line", metavar="FILE")
    normalize: str = option("none", "what is done to the text first: none, topic, sentiment, or steps such as "
                            "case=lower,stem=porter", metavar="PRESET|STEP=VALUE,..")
    variant: Literal["multinomial", "bernoulli", "complement"] = option(
        "multinomial", "multinomial: draws of words; bernoulli: which words are there and which are not; complement: "
        "how little a text is like the other classes")
    ngrams: int = option(1, "length of the longest word n-grams", minimum=1, maximum=60)
    features: Literal["counts", "presence"] = option(
        "counts", "whether a word that comes three times in a text counts three times or once (bernoulli: always once)")
    k: float = option(1.0, "what is added to each count", minimum=1e-9)
    prior: Literal["data", "uniform"] = option(
        "data", "how likely a class is before anything is read: as in the data, or all alike")
    calibrate: Literal["none", "temperature"] = option(
        "none", "temperature: make the probabilities honest, on the valid data; the order of classes stays")
