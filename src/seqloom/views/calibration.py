"""Calibration: of all the times that a model gave something 30 %, did it come 30 % of the time?

Looking only at the probabilities of the tokens that came would be wrong: likely tokens come more
often, so even a perfect model would look too timid. Therefore every token of the vocabulary at
every sampled position is a forecast of its own, with the probability that the model gave it and the
outcome that it came or did not (Murphy 1973; Guo et al. 2017 keep only the likeliest token, this
keeps all). Forecasts are binned by odds, a factor of two a bin.

The positions lie in stretches spread evenly over the text. Before each stretch the model reads
`context` tokens, at most WARM: exact for n-grams; a model that remembers more starts its stretch
with that much memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.batching import like_lengths
from seqloom.charts.calibration import Forecasts, reliability
from seqloom.contracts import LanguageModel
from seqloom.data.corpus import as_corpus
from seqloom.data.encode import encode_corpus
from seqloom.decoding.stepper import select

# Positions in all and in a stretch at most; tokens read before a stretch.
POSITIONS, STEPS, WARM = 8192, 64, 128
# Probabilities in all, which limits the positions of large vocabularies; in memory at once.
FORECASTS, CELLS = 30_000_000, 4_000_000
EDGES = 1 / (1 + 2.0 ** -np.arange(-14, 11))  # odds of 2^-14 to 2^10
LOG_EDGES = np.log(EDGES).astype(np.float32)


class Bin(NamedTuple):
    """Forecasts of like probability."""

    predicted: float  # their mean probability
    observed: float  # how often they came true
    low: float  # 95 % interval of that (Wilson 1927)
    high: float
    n: int  # forecasts
    hits: int


@dataclass(frozen=True)
class Calibration:
    bins: list[Bin]
    # share of the probability that lies in another bin than the outcomes do: 0 is perfect, 1 the
    # worst
    error: float
    chance: float  # what a perfect model would show on so few positions
    positions: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "error": self.error,
            "chance": self.chance,
            "positions": self.positions,
            "bins": [b._asdict() for b in self.bins],
        }


def calibration(model: LanguageModel, data: Any, *, positions: int = POSITIONS) -> Calibration:
    """Measure how the model's probabilities agree with what came, at about `positions` positions
    of the data.
    """
    ids = encode_corpus(model.tokenizer, as_corpus(data), unit=model.unit).astype(np.int64)
    return collect(forecasts(model, ids, positions))


def calibration_chart(calibrations: dict[str, Calibration]) -> Any:
    """Draw how often forecasts of each probability came true."""
    return reliability(
        {
            name: [Forecasts(b.predicted, b.observed, b.low, b.high, b.n) for b in c.bins]
            for name, c in calibrations.items()
        }
    )


def collect(batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> Calibration:
    """Compute the calibration of any forecasts: log-probabilities (n, V) with the tokens that came
    (n,).
    """
    bins = len(EDGES) + 1
    count, hits, mass, variance = (np.zeros(bins) for _ in range(4))
    counted = 0
    for log_probs, targets in batches:
        n = len(targets)
        row = bins * np.repeat(np.arange(n), log_probs.shape[1])
        where = row + np.searchsorted(LOG_EDGES, log_probs.ravel(), side="right")
        shares = np.bincount(where, np.exp(log_probs, dtype=np.float64).ravel(), n * bins).reshape(
            n, bins
        )
        count += np.bincount(where, minlength=n * bins).reshape(n, bins).sum(axis=0)
        mass += shares.sum(axis=0)
        # A position hits a bin as often as all its tokens come.
        variance += (shares * (1 - shares)).sum(axis=0)
        hits += np.bincount(
            np.searchsorted(LOG_EDGES, log_probs[np.arange(n), targets], side="right"),
            minlength=bins,
        )
        counted += n
    filled = [
        Bin(m / n, h / n, *wilson(h, n), int(n), int(h)) for n, m, h in zip(count, mass, hits) if n
    ]
    # Mean distance of a normal variable from its mean.
    by_chance = np.sqrt(2 / np.pi * np.maximum(variance, 0)).sum()
    return Calibration(
        filled,
        float(np.abs(mass - hits).sum() / 2 / counted),
        float(by_chance / 2 / counted),
        counted,
    )


def forecasts(
    model: LanguageModel, ids: np.ndarray, positions: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield log-probabilities (n, V) and the tokens that came (n,), a step of many stretches at a
    time.
    """
    stepper = model.sized_stepper()
    begin, first, last = _stretches(
        model, ids, max(min(positions, FORECASTS // stepper.vocab_size), 1)
    )
    batches = like_lengths(last - begin, rows=max(CELLS // stepper.vocab_size, 1))
    with progress.task(
        "calibration", int(sum((last - begin)[batch[0]] for batch in batches)), "steps"
    ) as bar:
        for batch in batches:
            state, log_probs = stepper.start(len(batch))
            for t in range(int((last - begin)[batch[0]])):
                live = batch[(last - begin)[batch] > t]
                if len(live) < len(log_probs):
                    state, log_probs = select(state, np.arange(len(live))), log_probs[: len(live)]
                at = begin[live] + t
                counts = at >= first[live]
                if counts.any():
                    yield log_probs[counts], ids[at[counts]]
                state, log_probs = stepper.step(state, ids[at])
                bar.advance()


def _stretches(
    model: LanguageModel, ids: np.ndarray, positions: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where reading begins, where counting begins and where it ends, for stretches spread
    evenly over the text.

    A stretch in which a unit ends becomes two, so that no position is more likely to be counted than another.
    """
    ends = np.flatnonzero(ids == model.tokenizer.eos_id) + 1
    count = -(-min(positions, len(ids)) // STEPS)
    low = np.arange(count) * len(ids) // count
    high = np.minimum(low + STEPS, np.append(low[1:], len(ids)))
    inside = [ends[(ends > a) & (ends < b)] for a, b in zip(low, high)]
    first = np.concatenate([np.append(a, cuts) for a, cuts in zip(low, inside)])
    last = np.concatenate([np.append(cuts, b) for b, cuts in zip(high, inside)])
    unit = np.append(0, ends)[np.searchsorted(ends, first, side="right")]
    warm = WARM if model.context is None else min(model.context, WARM)
    return np.maximum(unit, first - warm), first, last


def wilson(hits: float, count: float, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % interval of a proportion (Wilson 1927, the score interval).

    >>> [round(x, 3) for x in wilson(5, 10)]
    [0.237, 0.763]
    """
    middle = (hits + z * z / 2) / (count + z * z)
    half = z / (count + z * z) * math.sqrt(hits * (count - hits) / count + z * z / 4)
    return max(middle - half, 0.0), min(middle + half, 1.0)
