"""Options of the views, which are flags of `seqloom inspect VIEW` and arguments of `seqloom.inspect.VIEW`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from seqloom.config import MAX_INTEGER, Config, option

# ---- language models


@dataclass(frozen=True, kw_only=True)
class SurprisalOptions(Config):
    top: int = option(3, "alternatives that are shown of each token", minimum=0, maximum=100)


# ---- recurrent networks


@dataclass(frozen=True, kw_only=True)
class LayerOptions(Config):
    layer: int | None = option(
        None, "the layer, from 0  [default: the last]", minimum=0, maximum=MAX_INTEGER
    )


UNIT = "a unit of the layer, from 0"


@dataclass(frozen=True, kw_only=True)
class GatesOptions(LayerOptions):
    units: int = option(
        24, "units that are drawn, those with the longest memory first", minimum=1, maximum=500
    )
    unit: int | None = option(None, f"colour the text by {UNIT}", minimum=0, maximum=MAX_INTEGER)


@dataclass(frozen=True, kw_only=True)
class UnitsOptions(LayerOptions):
    count: int = option(
        40, "lines that the terminal shows; the data has all units", minimum=1, maximum=MAX_INTEGER
    )


@dataclass(frozen=True, kw_only=True)
class CompareGatesOptions(Config):
    steps: int = option(
        10, "count the units that remember longer than this", minimum=1, maximum=MAX_INTEGER
    )


@dataclass(frozen=True, kw_only=True)
class StepOptions(LayerOptions):
    at: int | None = option(
        None, "the step of the text, from 0  [default: the last]", minimum=0, maximum=MAX_INTEGER
    )
    unit: int | None = option(
        None, f"{UNIT}  [default: the one that changes most]", minimum=0, maximum=MAX_INTEGER
    )
    names: Literal["standard", "ltm"] = option(
        "standard",
        "names of an LSTM's parts; ltm: long-term memory c, short-term memory h, event x",
    )


@dataclass(frozen=True, kw_only=True)
class UnrolledOptions(Config):
    steps: int = option(4, "steps that are drawn", minimum=1, maximum=12)


@dataclass(frozen=True, kw_only=True)
class SimilarOptions(LayerOptions):
    corpus: str | None = option(
        None, "text file that is searched  [default: the text itself]", metavar="FILE"
    )
    unit: int | None = option(
        None, f"compare {UNIT}  [default: the whole state]", minimum=0, maximum=MAX_INTEGER
    )
    steps: int = option(
        3, "last steps of the text whose values are looked for", minimum=1, maximum=100
    )
    count: int = option(10, "places that are shown", minimum=1, maximum=1000)


# ---- gradients

# ---- attention


@dataclass(frozen=True, kw_only=True)
class AttentionOptions(LayerOptions):
    head: int | None = option(
        None, "the head, from 0  [default: the mean of all]", minimum=0, maximum=MAX_INTEGER
    )


# ---- what is in the vectors

# ---- answers

# ---- runs
