"""Options of the views, which are flags of `seqloom inspect VIEW` and arguments of `seqloom.inspect.VIEW`."""

from __future__ import annotations

from dataclasses import dataclass

from seqloom.config import MAX_INTEGER, Config, option

# ---- language models


@dataclass(frozen=True, kw_only=True)
class SurprisalOptions(Config):
    top: int = option(3, "alternatives that are shown of each token", minimum=0, maximum=100)


@dataclass(frozen=True, kw_only=True)
class DifferenceOptions(Config):
    top: int = option(
        20, "disagreements that are listed, the largest first", minimum=1, maximum=1000
    )


@dataclass(frozen=True, kw_only=True)
class BackoffOptions(Config):
    token: int | None = option(
        None,
        "the token whose probability is divided, from 1  [default: the last of the text]",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    corpus: str | None = option(
        None,
        "text in which the longest n-gram that the model knew is looked up, such as the training text",
        metavar="FILE",
    )
    lines: int = option(5, "lines of the corpus that are listed", minimum=1, maximum=100)


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

# ---- attention


@dataclass(frozen=True, kw_only=True)
class AttentionOptions(LayerOptions):
    head: int | None = option(
        None, "the head, from 0  [default: the mean of all]", minimum=0, maximum=MAX_INTEGER
    )


# ---- what is in the vectors

# ---- answers


@dataclass(frozen=True, kw_only=True)
class TrellisOptions(Config):
    first: int = option(
        1, "the token at which the picture begins, from 1", minimum=1, maximum=MAX_INTEGER
    )

# ---- runs
