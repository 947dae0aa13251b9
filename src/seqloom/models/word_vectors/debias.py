"""Bias taken out of finished vectors: hard debiasing, and a report of what it did and what it cost.

Bolukbasi et al. 2016, "Man is to computer programmer as woman is to homemaker?", section 6:

    direction   first principal component of pairs such as (she, he), each centred on its own mean
    neutralise  w -> w less its part along the direction equalise    both words of a pair -> their
    mean without the direction, plus equal and opposite parts along it

They work on vectors of length one. Here a vector keeps its length (a pair gets the mean of its
two), so that the matrix can still be the first layer of a network; by cosine it comes to the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.contracts.word_vectors import Embedder, unknown_word
from seqloom.errors import ConfigError, DataError
from seqloom.metrics.bias import (
    Pairs,
    direct_bias,
    known_words,
    told_by_neighbours,
    unit_rows,
    weat,
)
from seqloom.models.word_vectors.word_vectors import WordVectors

TINY = 1e-7  # of a length: less is the rounding of float32

Four = tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str]]  # X, Y, A, B


@dataclass(frozen=True)
class Direction:
    """A line through the space; the first words of the pairs are on its positive side."""

    vector: np.ndarray  # float64 (D,), of length one
    pairs: Pairs
    explained: float  # the share of the pairs' variance that lies along it

    def cosines(self, vectors: Embedder, words: Sequence[str]) -> np.ndarray:
        """Return how far each word leans along the direction, from -1 to 1."""
        return unit_rows(vectors.rows(words)) @ self.vector


def bias_direction(vectors: Embedder, pairs: Pairs) -> Direction:
    """Return the bias direction: the difference of one pair, or what the differences of several
    have in common.

    Pairs with a word that has no vector are left out; if that leaves none, the first such word is an error.
    """
    known = known_pairs(vectors, pairs)
    if not known:
        raise (
            _unknown(vectors, pairs)
            if pairs
            else ConfigError("a direction needs at least one pair of words, such as he,she")
        )
    first, second = (unit_rows(vectors.rows(words)) for words in zip(*known))  # (P, D)
    halves = (first - second) / 2  # the words of a pair less their mean are plus and minus this
    _, sizes, lines = np.linalg.svd(halves, full_matrices=False)
    if sizes[0] <= TINY:
        raise DataError(
            f"{known[0][0]!r} and {known[0][1]!r} have the same direction; they cannot span a bias"
        )
    line = lines[0] if (halves @ lines[0]).sum() >= 0 else -lines[0]
    return Direction(line, known, float(sizes[0] ** 2 / (sizes**2).sum()))


def neutralise(vectors: Embedder, words: Sequence[str], direction: Direction) -> WordVectors:
    """Return new vectors in which these words do not lean along the direction."""
    table = vectors.vectors
    places = _places(table, words)
    rows = table.matrix[places].astype(np.float64)  # (n, D)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    flat = rows - np.outer(rows @ direction.vector, direction.vector)
    left = np.linalg.norm(flat, axis=1, keepdims=True)
    if lost := [word for word, is_gone in zip(words, (left <= TINY * lengths)[:, 0]) if is_gone]:
        raise DataError(
            f"nothing is left of {lost[0]!r} without the direction; leave it out of the words to neutralise"
        )
    return _changed(table, places, flat * lengths / left, "neutralised")


def equalise(vectors: Embedder, pairs: Pairs, direction: Direction) -> WordVectors:
    """Return new vectors in which the words of a pair are alike but for opposite parts along the
    direction.
    """
    table = vectors.vectors
    each = [word for pair in pairs for word in pair]
    places = _places(table, each)
    if len(set(places.tolist())) < len(each):
        twice = next(word for i, word in enumerate(each) if word in each[:i])
        raise ConfigError(f"{twice!r} is in two pairs; a word can be equalised with one other word")
    rows = table.matrix[places].astype(np.float64).reshape(len(pairs), 2, -1)  # (P, 2, D)
    length = np.linalg.norm(rows, axis=2).mean(axis=1)  # (P,)
    units = unit_rows(rows.reshape(len(each), -1)).reshape(rows.shape)
    mean = units.mean(axis=1)
    common = mean - np.outer(mean @ direction.vector, direction.vector)  # (P, D) the same for both
    apart = (
        units[:, 0] - units[:, 1]
    ) @ direction.vector  # (P,) its sign says which is on which side
    height = np.sqrt(np.maximum(1 - (common**2).sum(axis=1), 0)) * np.where(apart >= 0, 1, -1)
    new_units = np.stack(
        [common + np.outer(height, direction.vector), common - np.outer(height, direction.vector)],
        axis=1,
    )
    return _changed(
        table, places, (new_units * length[:, None, None]).reshape(len(each), -1), "equalised"
    )


def debias(
    vectors: Embedder, words: Sequence[str], pairs: Pairs, direction: Direction | None = None
) -> WordVectors:
    """Neutralise the words and equalise the pairs; the direction is that of the pairs unless
    another is given.
    """
    line = bias_direction(vectors, pairs) if direction is None else direction
    neutral, _ = known_words(vectors.vectors, words)
    if not neutral:
        raise (
            _unknown(vectors, [(word, word) for word in words])
            if words
            else ConfigError("no words to neutralise")
        )
    equal = known_pairs(vectors.vectors, pairs)
    if both := {word for pair in equal for word in pair} & set(neutral):
        raise ConfigError(
            f"{min(both)!r} is both among the words to neutralise and in a pair to equalise; "
            f"remove it from one"
        )
    neutralised = neutralise(vectors, neutral, line)
    return equalise(neutralised, equal, line) if equal else neutralised


def report(
    before: Embedder,
    after: Embedder | None = None,
    *,
    tests: Mapping[str, Four] | None = None,
    direction: Direction | None = None,
    neutral: Sequence[str] = (),
    on: Sequence[str | Path] = (),
    permutations: int = 100_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Report everything at once: the tests, the leanings of `neutral` words, and results on files
    of analogies or similarities.

    Each number is a list: before, and after where there is an after.
    """
    states = [before] if after is None else [before, after]
    summary: dict[str, Any] = {"tests": {}, "seed": seed}
    for name, four in (tests or {}).items():
        outcomes = [weat(state, *four, permutations=permutations, seed=seed) for state in states]
        summary["tests"][name] = {
            "effect_size": [o.effect_size for o in outcomes],
            "p_value": [o.p_value for o in outcomes],
            "partitions": outcomes[0].partitions,
            "exact": outcomes[0].exact,
            "missing": list(outcomes[0].missing),
        }
    if direction is not None:
        words, missing = known_words(before, neutral)
        leans = [direction.cosines(state, words) for state in states] if words else []
        summary["direction"] = {"pairs": direction.pairs, "explained": direction.explained}
        summary["neutral"] = {
            "words": len(words),
            "missing": missing,
            "direct_bias": [direct_bias(lean) for lean in leans],
            "mean_projection": [
                float(np.abs(state.rows(words) @ direction.vector).mean())
                for state in states
                if words
            ],
            "told_by_neighbours": [
                told_by_neighbours(state.rows(words), leans[0]) for state in states if words
            ],
            "leans": {word: [float(lean[i]) for lean in leans] for i, word in enumerate(words)},
        }
    summary["cost"] = {
        str(file): [_headline(state.evaluate(Path(file)).metrics) for state in states]
        for file in on
    }
    return summary


def known_pairs(vectors: Embedder, pairs: Pairs) -> Pairs:
    """Return the pairs, as they are or in lower case, of which both words have a vector."""
    spellings = [(known_words(vectors, [a])[0], known_words(vectors, [b])[0]) for a, b in pairs]
    return [(a[0], b[0]) for a, b in spellings if a and b]


def _headline(metrics: Mapping[str, Any]) -> dict[str, Any]:
    name = "accuracy" if "accuracy" in metrics else "spearman"
    return {name: metrics[name], "missing": metrics["missing"]}


def _places(table: WordVectors, words: Sequence[str]) -> np.ndarray:
    places = table.words.find(words)
    if (places < 0).any():
        raise unknown_word(words[int(np.argmin(places))], table)
    return places


def _unknown(vectors: Embedder, pairs: Pairs) -> DataError:
    return unknown_word(
        next(word for pair in pairs for word in pair if not known_words(vectors, [word])[0]),
        vectors.vectors,
    )


def _changed(table: WordVectors, places: np.ndarray, rows: np.ndarray, how: str) -> WordVectors:
    matrix = np.array(table.matrix)  # in memory of its own: the other may be a mapped file
    matrix[places] = rows
    changed = WordVectors.of(
        table.words, matrix, table.counts, source=table.recorded("data", "memory")
    )
    changed.fit_info |= {how: len(places)} | {
        key: n for key in ("neutralised", "equalised") if (n := table.recorded(key, 0))
    }
    return changed
