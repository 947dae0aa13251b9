"""How long a rung would take, measured on a small part of the data before it is begun in earnest.

Only for rungs that could take long: by a speed that all of them reach, most are known not to.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from seqloom import progress
from seqloom.comparison.bench import Attempt, Bench, NotPossible, Rung

if TYPE_CHECKING:
    from seqloom.comparison.ladder import Ladder

PARTS = (64, 16)  # of the training data; the larger one is asked where the smaller says no
SLOWEST = 1e5  # units a second and pass


def check_time(ladder: Ladder, rung: Rung, bench: Bench, minutes: float) -> None:
    """Refuse a rung that would need more minutes than allowed; networks take the time that they are given."""
    size, allowed = ladder.size(bench.splits.train), minutes * 60
    if not rung.work or rung.on_others or size * rung.work / SLOWEST <= allowed:
        return
    for part in PARTS:
        data = ladder.smaller(bench.splits.train, part)
        if data is None:
            data = bench.splits.train if part == PARTS[-1] else None
        if data is None:
            continue
        smaller = dataclasses.replace(
            bench, splits=dataclasses.replace(bench.splits, train=data), place=None
        )
        progress.say(f"timing {rung.name} on 1/{part} of the {ladder.data_word}")
        if rung.tokenizer:
            bench.tokenizer(rung.tokenizer)  # shared by several rungs, so no part of the time
        start = time.perf_counter()
        Attempt(rung, smaller).fit()
        estimate = (time.perf_counter() - start) * size / max(ladder.size(data), 1)
        if estimate <= allowed:
            return
    raise NotPossible(
        f"would need about {duration(estimate)} of the {duration(allowed)} allowed, measured on a part; "
        "--limit allows more"
    )


def duration(seconds: float) -> str:
    return f"{seconds:.3g} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
