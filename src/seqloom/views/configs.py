"""Options of the views, which are flags of `seqloom inspect VIEW` and arguments of `seqloom.inspect.VIEW`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from seqloom.config import MAX_INTEGER, MOST_MINUTES, MOST_SEED, Config, option

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
    continuations: int = option(
        0,
        "also list so many tokens that may follow the context of each order, the likeliest first",
        minimum=0,
        maximum=1000,
    )


@dataclass(frozen=True, kw_only=True)
class DiscountsOptions(Config):
    corpus: str | None = option(
        None,
        "text that is counted, but for its last tenth, on which the bits are measured  [default: the text "
        "that comes with seqloom]",
        metavar="FILE",
    )
    steps: int = option(20, "discounts that are tried, from 1/steps to 1", minimum=1, maximum=100)


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
class ClampOptions(Config):
    gate: str | None = option(
        None, "i, f, g or o of an LSTM, r, z or n of a GRU  [default: each in turn]", metavar="GATE"
    )
    value: Literal["0", "1", "mean"] | None = option(
        None, "what it is held at; mean: over the text  [default: each in turn]"
    )
    layer: int | None = option(
        None, "the layer, from 0  [default: all together]", minimum=0, maximum=MAX_INTEGER
    )
    unit: int | None = option(
        None, f"{UNIT}  [default: all together]", minimum=0, maximum=MAX_INTEGER
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
    at: int | None = option(
        None,
        "the last of these steps, from 0  [default: that of the text]",
        minimum=0,
        maximum=MAX_INTEGER,
    )
    count: int = option(10, "places that are shown", minimum=1, maximum=1000)


@dataclass(frozen=True, kw_only=True)
class PredictionOptions(LayerOptions):
    token: int | None = option(
        None,
        "the token of the text that is predicted, from 1  [default: the last, </s>: what follows the text]",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    rank: int | None = option(
        None,
        "explain the token of this rank, 1 being the likeliest  [default: the token that came]",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    head: int | None = option(
        None, "the head of a Transformer, from 0  [default: 0]", minimum=0, maximum=MAX_INTEGER
    )
    unit: int | None = option(
        None,
        f"{UNIT}; of a head one of its numbers  [default: the one that changes most, of a head 0]",
        minimum=0,
        maximum=MAX_INTEGER,
    )


# ---- gradients

Start = Literal["orthogonal", "normal", "identity"]


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


@dataclass(frozen=True, kw_only=True)
class NeuronOptions(Config):
    activation: Literal["sigmoid", "tanh"] = option("sigmoid", "h = f(w h + b), f being this")
    w: float = option(5.0, "its weight", minimum=-100.0, maximum=100.0)
    b: float = option(-2.5, "its bias", minimum=-100.0, maximum=100.0)
    steps: int = option(50, "steps after which the loss looks at h", minimum=1, maximum=1000)
    target: float = option(
        0.855, "of the loss, the square of target - h", minimum=-1.0, maximum=1.0
    )
    begin: float = option(0.5, "h before the first step", minimum=-1.0, maximum=1.0)


@dataclass(frozen=True, kw_only=True)
class LagOptions(Config):
    minutes: float = option(4.0, "time for all together", minimum=0.01, maximum=MOST_MINUTES)
    lags: tuple[int, ...] = option(
        (), "the lags  [default: 5,10,20,50,100,200,500]", minimum=1, maximum=10_000
    )
    hidden: int = option(64, "width of the networks", minimum=8, maximum=1024)
    updates: int = option(1000, "updates at each lag, at most", minimum=1, maximum=1_000_000)
    seed: int = option(0, "seed of weights and data", minimum=0, maximum=MOST_SEED)


@dataclass(frozen=True, kw_only=True)
class ReachOptions(LagOptions):
    task: tuple[str, ...] = option((), "recall, adding, copying  [default: all]", metavar="TASK,..")
    encoder: tuple[str, ...] = option(
        (),
        "cells and encoders by name, and lstm-no-forget  [default: all of one direction]",
        metavar="NAME,..",
    )
    clip: Literal["both", "norm", "none"] = option("both", "clip gradients by norm, or not")
    start: tuple[str, ...] = option(
        ("orthogonal",),
        "initial recurrent matrices: orthogonal, normal, identity",
        metavar="START,..",
    )
    forget_bias: tuple[float, ...] = option(
        (1.0,), "initial bias of the forget gates, such as 0,1,2", minimum=-100.0, maximum=100.0
    )
    noise: tuple[float, ...] = option(
        (0.0,),
        "standard deviation of noise on all that is read, such as 0,0.5,1",
        minimum=0.0,
        maximum=100.0,
    )
    seeds: int = option(1, "how many seeds, from the first on", minimum=1, maximum=1000)
    work: str | None = option(
        None,
        "directory where finished lags are kept; a later call goes on from there",
        metavar="DIR",
    )


@dataclass(frozen=True, kw_only=True)
class ActivationsOptions(LagOptions):
    minutes: float = option(1.0, "time of the trainings", minimum=0.01, maximum=MOST_MINUTES)
    distance: int = option(
        50, "steps over which fresh networks are measured", minimum=1, maximum=1000
    )


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


@dataclass(frozen=True, kw_only=True)
class WithoutOptions(Config):
    off: tuple[str, ...] = option(
        ("0.0",),
        "what is switched off: heads as LAYER.HEAD, or LAYER for all heads of one, from 0, such as 0.1,2",
        metavar="LAYER.HEAD,..",
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


@dataclass(frozen=True, kw_only=True)
class ExplanationOptions(Config):
    method: Literal["weights", "gradients", "occlusion", "attention"] | None = option(
        None, "how shares are found  [default: the best that the model has]"
    )
    label: str | int | None = option(
        None,
        "the class, tag or token that is explained  [default: the model's answer]",
        minimum=-MOST_SEED,
        maximum=MOST_SEED,
    )
    against: str | int | None = option(
        None,
        "the one it is held against  [default: the likeliest other one]",
        minimum=-MOST_SEED,
        maximum=MOST_SEED,
    )
    top: int = option(10, "shares that are listed, the largest first", minimum=1, maximum=1000)
    word: int | None = option(
        None,
        "of a tagger: the word whose tag is explained, from 1  [default: 1]",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    target: str | None = option(
        None, "of a translator: a translation  [default: the model's own]", metavar="TEXT"
    )
    step: int | None = option(
        None,
        "of a translator: the token of the translation, from 1  [default: 1]",
        minimum=1,
        maximum=MAX_INTEGER,
    )


@dataclass(frozen=True, kw_only=True)
class TrellisOptions(Config):
    first: int = option(
        1, "the token at which the picture begins, from 1", minimum=1, maximum=MAX_INTEGER
    )
    tables: str | None = option(
        None,
        'language models: cells of the tables that are changed, as JSON: {"start": {"0": 0.5}, '
        '"transitions": {"0": {"1": 0.9}}, "emissions": {"0": {"the": 0.2}}}; the rest of a row is scaled',
        metavar="FILE",
    )


# ---- runs


@dataclass(frozen=True, kw_only=True)
class RunOptions(Config):
    by: Literal["steps", "tokens", "seconds"] = option("steps", "what the curves are drawn against")
