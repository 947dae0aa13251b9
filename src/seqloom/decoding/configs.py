"""Options of beam search and of translating; without NumPy, so that `--help` shows them quickly."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from seqloom.config import MAX_INTEGER, MOST_SEED, Config, OnlyWith, option


@dataclass(frozen=True, kw_only=True)
class BeamOptions(Config):
    beams: int = option(
        5, "hypotheses that are kept in each step; 1 is greedy search", minimum=1, maximum=1000
    )
    length_penalty: float = option(
        1.0,
        "exponent of the length that scores are divided by: 0 favours short outputs, 1 is the "
        "mean per token",
        minimum=0.0,
        maximum=30.0,
    )
    length_normalization: Literal["simple", "gnmt"] = option(
        "simple", "what is raised to the length penalty; simple: the length; gnmt: (5 + length) / 6"
    )
    coverage_penalty: float = option(
        0.0,
        "weight of a penalty for parts of the source that no attention was paid to",
        minimum=0.0,
        maximum=100.0,
    )


# ---- translation config


@dataclass(frozen=True, kw_only=True)
class TranslationConfig(BeamOptions):
    """How to translate: by beam search, or drawn."""

    only_with: ClassVar[OnlyWith] = {
        name: {"search": ("sample",)} for name in ("temperature", "top_k", "top_p", "seed")
    } | {
        name: {"search": ("beam",)}
        for name in ("prefix", *(field.name for field in fields(BeamOptions)))
    }

    search: Literal["beam", "sample"] = option(
        "beam", "beam: the best translation; sample: drawn at random"
    )
    max_tokens: int | None = option(
        None,
        "maximum number of tokens of a translation [default: twice the longest target in training]",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    max_source: int | None = option(
        None,
        "number of tokens beyond which a source is refused, since time and memory grow with its square "
        "[default: four times the longest in training, at least 1024]",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    prefix: str = option("", "text that every translation is to begin with")
    temperature: float = option(
        1.0, "below 1 less random, above 1 more random", minimum=0.0, maximum=100.0
    )
    top_k: int | None = option(
        None, "sample from the k most likely tokens only", minimum=1, maximum=MAX_INTEGER
    )
    top_p: float | None = option(
        None,
        "sample from the smallest set of tokens with this total probability",
        minimum=0.0,
        maximum=1.0,
    )
    seed: int = option(0, "random seed", minimum=0, maximum=MOST_SEED)
