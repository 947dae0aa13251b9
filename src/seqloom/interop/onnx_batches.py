"""Batches drawn at random, on which a network and its ONNX file are compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Arrays = dict[str, np.ndarray]
# a batch of that many rows, of that length, drawn at random
Draw = Callable[[int, int, np.random.Generator], Arrays]


def ids(size: int, name: str = "ids") -> Draw:
    return lambda rows, steps, rng: {name: rng.integers(0, size, (rows, steps))}


def lengths(rows: int, steps: int, rng: np.random.Generator) -> Arrays:
    drawn = rng.integers(1, steps + 1, rows)
    drawn[0] = steps
    return {"lengths": drawn}


def values(columns: int, missing: bool = False) -> Draw:
    def draw(rows: int, steps: int, rng: np.random.Generator) -> Arrays:
        drawn = rng.normal(size=(rows, steps, columns)).astype(np.float32)
        if missing:
            drawn[rng.random(drawn.shape) < 0.2] = np.nan
        return {"values": drawn}

    return draw


def spellings(characters: int) -> Draw:
    def draw(rows: int, steps: int, rng: np.random.Generator) -> Arrays:
        words = rows + steps
        long = rng.integers(1, 8, words)
        drawn = rng.integers(1, characters, (words, long.max()))
        drawn[np.arange(long.max()) >= long[:, None]] = 0
        return {
            "words": rng.integers(0, words, (rows, steps)),
            "spellings": drawn,
            "spelling_lengths": long,
        }

    return draw


def counts(rows: int, steps: int, rng: np.random.Generator) -> Arrays:
    """Divide the rows among documents."""
    return {"counts": np.array([rows - 1, 1] if rows > 1 else [1])}


def word_positions(rows: int, steps: int, rng: np.random.Generator) -> Arrays:
    of_each = counts(rows, steps, rng)["counts"]
    many, words = len(of_each), 1 + steps // 2
    return {
        "counts": of_each,
        "rows": rng.integers(0, of_each[:, None], (many, words)),
        "positions": rng.integers(0, steps, (many, words)),
        "word_counts": np.r_[words, rng.integers(1, words + 1, many - 1)],
    }


def allowed(rows: int, steps: int, rng: np.random.Generator) -> Arrays:
    drawn = rng.random((rows, steps)) < 0.7
    drawn[:, 0] = True
    return {"allowed": drawn}


def together(*draws: Draw) -> Draw:
    return lambda rows, steps, rng: {
        name: array for draw in draws for name, array in draw(rows, steps, rng).items()
    }
