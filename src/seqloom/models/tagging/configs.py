"""The options of the taggers, apart from the models, so that `--help` shows them without loading anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import MAX_INTEGER, Config, OnlyWith, option
from seqloom.models.sequence.configs import TRAINED_HERE, EncoderConfig


@dataclass(frozen=True, kw_only=True)
class MostFrequentTagConfig(Config):
    pass


@dataclass(frozen=True, kw_only=True)
class HMMTaggerConfig(Config):
    order: int = option(2, "number of preceding tags that a tag depends on", minimum=1, maximum=2)
    work_in: Literal["bioes", "bio", "iob1", "data"] = option(
        "bioes",
        "if tags mark spans: scheme used inside the model; predictions are in the scheme of the data",
    )
    suffix: int = option(
        5, "length of the longest suffix used for unknown words", minimum=0, maximum=20
    )
    rare: int = option(
        20,
        "suffixes are learned from words seen at most this often",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    word_k: float = option(
        0.7,
        "weight of the estimate from a word's lower-case form, in counts of the word",
        minimum=1e-6,
        maximum=1e9,
    )
    lower_k: float = option(
        3.0,
        "weight of the estimate from suffix and shape, in counts of the lower-case form",
        minimum=1e-6,
        maximum=1e9,
    )
    suffix_k: float = option(
        4.0,
        "weight of the estimate from a shorter suffix, in counts of the longer one",
        minimum=1e-6,
        maximum=1e9,
    )


@dataclass(frozen=True, kw_only=True)
class NeuralTaggerConfig(EncoderConfig):
    only_with: ClassVar[OnlyWith] = {
        name: TRAINED_HERE for name in ("lowercase", "min_count", "characters")
    }

    crf: bool = option(
        True,
        "score whole sequences of tags by a conditional random field, which excludes illegal spans",
    )
    work_in: Literal["bioes", "bio", "iob1", "data"] = option(
        "bioes",
        "if tags mark spans: scheme used inside the model; predictions are in the scheme of the data",
    )
    lowercase: bool = option(True, "look words up in lower case; case is left to the characters")
    min_count: int = option(
        1, "words seen less often than this become <unk>", minimum=1, maximum=MAX_INTEGER
    )
    characters: Literal["none", "cnn", "lstm"] = option(
        "cnn", "features from the characters of each word"
    )
