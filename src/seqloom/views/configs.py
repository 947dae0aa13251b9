"""Options of the views, which are flags of `seqloom inspect VIEW` and arguments of `seqloom.inspect.VIEW`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from seqloom.config import MAX_INTEGER, MOST_SEED, Config, option

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


@dataclass(frozen=True, kw_only=True)
class GatesOptions(LayerOptions):
    units: int = option(
        40, "units that are drawn, those with the longest memory first", minimum=1, maximum=500
    )


# ---- gradients

Start = Literal["orthogonal", "gaussian", "identity"]


@dataclass(frozen=True, kw_only=True)
class GradientsOptions(Config):
    cell: tuple[str, ...] = option(
        (), "fresh cells instead of a model, by name, such as rnn,lstm", metavar="CELL,.."
    )
    distance: int = option(100, "how many steps back", minimum=1, maximum=1000)
    hidden: int = option(64, "width of fresh cells", minimum=1, maximum=1024)
    start: Start = option("orthogonal", "initial recurrent matrices of fresh cells")
    gain: float = option(
        1.0, "factor of the initial recurrent matrices", minimum=0.0, maximum=1000.0
    )
    forget_bias: float = option(
        1.0, "initial bias of forget gates of fresh cells", minimum=-100.0, maximum=100.0
    )
    noise: float = option(
        1.0, "standard deviation of what fresh cells read", minimum=0.0, maximum=1000.0
    )
    seed: int = option(0, "seed of fresh cells", minimum=0, maximum=MOST_SEED)


# ---- attention


@dataclass(frozen=True, kw_only=True)
class AttentionOptions(LayerOptions):
    head: int | None = option(
        None, "the head, from 0  [default: the mean of all]", minimum=0, maximum=MAX_INTEGER
    )


# ---- what is in the vectors

# ---- answers

# ---- runs
