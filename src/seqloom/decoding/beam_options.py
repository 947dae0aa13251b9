"""The options of beam search that users see; without NumPy, so that `--help` shows them quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from seqloom.config import Config, option


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
