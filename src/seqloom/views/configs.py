"""Options of the views, which are flags of `seqloom inspect VIEW` and arguments of `seqloom.inspect.VIEW`."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, kw_only=True)
class HeadsOptions(Config):
    tagged: str | None = option(
        None,
        "sentences with heads, CoNLL-U: which relations each head of attention finds",
        metavar="FILE",
    )
    pairs: str | None = option(
        None,
        "lines of a text, a mention, what it refers to and what else it might, with tabs between: "
        "which one each head looks at",
        metavar="FILE",
    )
    sentences: int = option(
        400, "sentences of tagged that are read", minimum=4, maximum=MAX_INTEGER
    )


@dataclass(frozen=True, kw_only=True)
class AblationOptions(Config):
    examples: int = option(
        100, "lines, sentences or pairs of the data that are read", minimum=1, maximum=MAX_INTEGER
    )


# ---- what is in the vectors

# ---- answers

# ---- runs
