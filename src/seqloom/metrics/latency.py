"""How long an answer takes: one example at a time, as a user waits for it, and many together, as a file is worked through."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from seqloom import progress

MOST = 1000  # examples that are asked about alone
BATCH = 20_000  # and together
ENOUGH = 5.0  # seconds, after which no further ones are asked about
FEWEST = 20  # of them all the same
WARM_UP = 3  # calls that are not counted: kernels are loaded, caches filled


def latency(predict: Callable[[Any], Any], examples: list[Any]) -> dict[str, float]:
    """Milliseconds of one example, which half and 95 % of them do not exceed, and examples per second of a list.

    >>> sorted(latency(len, ["a text", "another"]))
    ['examples_per_second', 'latency_p50_ms', 'latency_p95_ms']
    """
    chosen = [
        examples[i]
        for i in np.linspace(0, len(examples) - 1, min(MOST, len(examples))).astype(int).tolist()
    ]
    many = examples[:BATCH]
    with progress.reporting(None):
        for example in (chosen * WARM_UP)[:WARM_UP]:
            predict(example)
        began, spent = time.perf_counter(), []
        for example in chosen:
            start = time.perf_counter()
            predict(example)
            spent.append(time.perf_counter() - start)
            if time.perf_counter() - began > ENOUGH and len(spent) >= FEWEST:
                break
        predict(many[:FEWEST])
        start = time.perf_counter()
        predict(many)
        seconds = time.perf_counter() - start
    half, most = (float(np.quantile(spent, share, method="inverted_cdf")) for share in (0.5, 0.95))
    return {
        "latency_p50_ms": 1000 * half,
        "latency_p95_ms": 1000 * most,
        "examples_per_second": len(many) / seconds,
    }
