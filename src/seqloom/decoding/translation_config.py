"""How translations are searched for; without NumPy, so that `--help` shows it quickly."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from seqloom.config import MOST, MOST_SEED, OnlyWith, option
from seqloom.decoding.beam_options import BeamOptions


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
        maximum=MOST,
    )
    prefix: str = option("", "text that every translation is to begin with")
    temperature: float = option(
        1.0, "below 1 less random, above 1 more random", minimum=0.0, maximum=100.0
    )
    top_k: int | None = option(
        None, "sample from the k most likely tokens only", minimum=1, maximum=MOST
    )
    top_p: float | None = option(
        None,
        "sample from the smallest set of tokens with this total probability",
        minimum=0.0,
        maximum=1.0,
    )
    seed: int = option(0, "random seed", minimum=0, maximum=MOST_SEED)
