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
    """Draw the letters of each step, padded with zeros."""

    def draw(rows: int, steps: int, rng: np.random.Generator) -> Arrays:
        return {"spellings": _letters((rows, steps), characters, rng)}

    return draw


def _letters(shape: tuple[int, ...], characters: int, rng: np.random.Generator) -> np.ndarray:
    drawn = rng.integers(1, characters, (*shape, 7))
    drawn[np.arange(7) >= rng.integers(0, 8, (*shape, 1))] = 0
    return drawn


def sentences(size: int, end: int) -> Draw:
    """Draw texts whose sentences end in `end`."""

    def draw(rows: int, steps: int, rng: np.random.Generator) -> Arrays:
        drawn = rng.integers(0, size, (rows, steps))
        drawn[rng.random(drawn.shape) < 0.3] = end
        many = lengths(rows, steps, rng)["lengths"]
        drawn[np.arange(rows), many - 1] = end
        return {"ids": drawn, "lengths": many}

    return draw


def counts(rows: int, steps: int, rng: np.random.Generator) -> Arrays:
    """Divide the rows among documents."""
    return {"counts": np.array([rows - 1, 1] if rows > 1 else [1])}


def places(size: int) -> Draw:
    """Draw the pieces of words, and where each word begins: its row, and its place there."""

    def draw(rows: int, steps: int, rng: np.random.Generator) -> Arrays:
        ids, many = _padded_ids(size, rows, steps, rng), max(rows - 1, 1)
        drawn = np.stack(
            [rng.integers(0, most, (many, 1 + steps // 2)) for most in (rows, steps)], 2
        )
        drawn[1:][np.arange(drawn.shape[1]) >= rng.integers(1, 2 + steps // 2, (many - 1, 1))] = -1
        return {"ids": ids, "places": drawn}

    return draw


def _padded_ids(size: int, rows: int, steps: int, rng: np.random.Generator) -> np.ndarray:
    drawn = rng.integers(0, size, (rows, steps))
    drawn[np.arange(steps) >= lengths(rows, steps, rng)["lengths"][:, None]] = -1
    return drawn


def questions(size: int, longest: int, characters: int) -> Draw:
    """Draw questions, and contexts with what stands there: a blank, a word, or a word of the question."""

    def draw(rows: int, steps: int, rng: np.random.Generator) -> Arrays:
        asked = min(1 + steps // 3, longest)
        arrays = {
            "question": _padded_ids(size, rows, asked, rng),
            "ids": _padded_ids(size, rows, steps, rng),
            "kinds": rng.integers(0, 3, (rows, steps)),
        }
        if characters:
            arrays["spellings"] = _letters((rows, asked + steps + 1), characters, rng)
        return arrays

    return draw


def together(*draws: Draw) -> Draw:
    return lambda rows, steps, rng: {
        name: array for draw in draws for name, array in draw(rows, steps, rng).items()
    }
