"""What it costs to look inside: a trace of 1,000 tokens of a recurrent network, with all gates and states,
beside the same walk without one.

The peer is the plain forward pass of our own, on the same weights, in turns; the ratio above one says how
many times as long the trace takes. Weights are drawn, since their values do not change the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.side_by_side import alternate, collect, seconds, sized, table
from seqloom.runtime.cells import Sequences
from seqloom.runtime.recurrent import RecurrentStack
from seqloom.runtime.weights import Recorder, Weights
from seqloom.traces import Trace

Row = tuple[str, str, str, str]
TOKENS, WIDTH, LAYERS = sized(1_000, 20), sized(650, 8), 2
CASES: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "lstm"},
    "gru": {"cell": "gru"},
    "rnn": {"cell": "rnn"},
    "bilstm": {"cell": "lstm", "bidirectional": True},
    "lstm, layer norm (step by step)": {"cell": "lstm", "layer_norm": True},
}


def run(quick: bool, only: str) -> None:
    rows = collect(
        {name: partial(measure, name, options, quick) for name, options in CASES.items()}, only
    )
    table(
        f"A trace of {TOKENS:,} tokens, {LAYERS} x {WIDTH}",
        rows,
        ("network", "plain, ms", "traced, ms", "traced takes"),
    )


def measure(name: str, options: dict[str, Any], quick: bool) -> Iterator[Row]:
    stack, x = drawn(options), draw(np.random.default_rng(1), TOKENS, WIDTH)
    at = Sequences.at(np.array([0, TOKENS]))
    stack.walk(x, at, Trace())  # compiled and packed
    ratio = alternate(
        lambda: seconds(lambda: stack.walk(x, at)),
        lambda: seconds(lambda: stack.walk(x, at, Trace())),
        3 if quick else 15,
    )
    yield name, f"{1000 * ratio.ours:.1f}", f"{1000 * ratio.peer:.1f}", str(ratio)


def drawn(options: dict[str, Any]) -> RecurrentStack:
    """Return a stack with random weights."""
    recorder, rng = Recorder(), np.random.default_rng(0)
    RecurrentStack(recorder, WIDTH, WIDTH, LAYERS, **options)
    arrays = {name: draw(rng, *each.shape) for name, each in recorder.declared.items()}
    return RecurrentStack(Weights(arrays), WIDTH, WIDTH, LAYERS, **options)


def draw(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(0, WIDTH**-0.5, shape).astype(np.float32)
