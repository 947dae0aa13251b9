"""Options of the views, which are flags of `seqloom inspect VIEW` and arguments of `seqloom.inspect.VIEW`."""

from __future__ import annotations

from dataclasses import dataclass

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

# ---- attention


@dataclass(frozen=True, kw_only=True)
class AttentionOptions(LayerOptions):
    head: int | None = option(
        None, "the head, from 0  [default: the mean of all]", minimum=0, maximum=MAX_INTEGER
    )


# ---- what is in the vectors


@dataclass(frozen=True, kw_only=True)
class LayersOptions(Config):
    random: bool = option(
        True, "show a network of the same shape with random weights beside the model (needs torch)"
    )
    seed: int = option(0, "seed of what is drawn by chance", minimum=0, maximum=MOST_SEED)


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(LayersOptions):
    words: int = option(
        4000, "words that are read, in sentences drawn by chance", minimum=10, maximum=1_000_000
    )
    held_out: float = option(
        0.3, "share of the sentences that probes are tested on", minimum=0.01, maximum=0.9
    )
    C: float = option(
        0.1,
        "how freely a probe may fit, as of scikit-learn's LogisticRegression",
        minimum=1e-6,
        maximum=1e6,
    )
    column: str | None = option(
        None, "column of the tags (a number, upos, xpos, ...) or of the labels", metavar="NAME"
    )


@dataclass(frozen=True, kw_only=True)
class SensesOptions(LayersOptions):
    word: str | None = option(
        None, "the word, where it is not marked by asterisks in the sentences", metavar="WORD"
    )
    sentences: int = option(
        400, "sentences that are read, drawn by chance from a longer file", minimum=4, maximum=5000
    )


# ---- answers

# ---- runs
