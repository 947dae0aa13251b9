"""Removing bias from finished vectors: hard debiasing, and a report of its effects and its cost.

Bolukbasi et al. 2016, "Man is to computer programmer as woman is to homemaker?", section 6:

    direction   first principal component of pairs such as (she, he), each minus its mean
    neutralise  w -> w minus its projection on the direction
    equalise    both words of a pair -> their mean without the direction, plus equal and opposite
                parts along it

They use vectors of length one. Here a vector keeps its length (a pair gets the mean of its two), so
that the matrix can still be the first layer of a network; cosines are the same.
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

TINY = 1e-7  # share of a length; less is rounding of float32

Four = tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str]]  # X, Y, A, B


@dataclass(frozen=True)
class Direction:
    """A line through the origin; the first words of the pairs are on its positive side."""

    vector: np.ndarray  # float64 (D,), of length one
    pairs: Pairs
    explained: float  # share of the variance of the pairs along it

    def cosines(self, vectors: Embedder, words: Sequence[str]) -> np.ndarray:
        """Return the cosine of each word with the direction."""
        return unit_rows(vectors.rows(words)) @ self.vector


def bias_direction(vectors: Embedder, pairs: Pairs) -> Direction:
    """Return the bias direction: the difference of one pair, or the first principal component of
    several.

    Pairs with a word without a vector are left out; if none remains, the first such word is an
    error.
    """
    usable = known_pairs(vectors, pairs)
    if not usable:
        raise (
            _unknown(vectors, pairs)
            if pairs
            else ConfigError("a direction needs at least one pair of words, such as he,she")
        )
    first, second = (unit_rows(vectors.rows(words)) for words in zip(*usable))  # (P, D)
    halves = (first - second) / 2  # the words of a pair minus their mean: plus and minus this
    _, sizes, lines = np.linalg.svd(halves, full_matrices=False)
    if sizes[0] <= TINY:
        raise DataError(
            f"{usable[0][0]!r} and {usable[0][1]!r} have the same direction; they cannot span a bias"
        )
    line = lines[0] if (halves @ lines[0]).sum() >= 0 else -lines[0]
    return Direction(line, usable, float(sizes[0] ** 2 / (sizes**2).sum()))


def neutralise(vectors: Embedder, words: Sequence[str], direction: Direction) -> WordVectors:
    """Return new vectors in which these words are orthogonal to the direction."""
    table = vectors.vectors
    indices = _indices(table, words)
    rows = table.matrix[indices].astype(np.float64)  # (n, D)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    flat = rows - np.outer(rows @ direction.vector, direction.vector)
    flat_lengths = np.linalg.norm(flat, axis=1, keepdims=True)
    if lost := [
        word for word, is_gone in zip(words, (flat_lengths <= TINY * lengths)[:, 0]) if is_gone
    ]:
        raise DataError(
            f"nothing is left of {lost[0]!r} without the direction; leave it out of the words to neutralise"
        )
    return _changed(table, indices, flat * lengths / flat_lengths, "neutralised")


def equalise(vectors: Embedder, pairs: Pairs, direction: Direction) -> WordVectors:
    """Return new vectors in which the words of a pair are equal, except for opposite parts along the
    direction.
    """
    table = vectors.vectors
    all_words = [word for pair in pairs for word in pair]
    indices = _indices(table, all_words)
    if len(set(indices.tolist())) < len(all_words):
        twice = next(word for i, word in enumerate(all_words) if word in all_words[:i])
        raise ConfigError(f"{twice!r} is in two pairs; a word can be equalised with one other word")
    rows = table.matrix[indices].astype(np.float64).reshape(len(pairs), 2, -1)  # (P, 2, D)
    length = np.linalg.norm(rows, axis=2).mean(axis=1)  # (P,)
    units = unit_rows(rows.reshape(len(all_words), -1)).reshape(rows.shape)
    mean = units.mean(axis=1)
    common = mean - np.outer(mean @ direction.vector, direction.vector)  # (P, D) the same for both
    # (P,): the sign tells which word is on the positive side.
    apart = (units[:, 0] - units[:, 1]) @ direction.vector
    height = np.sqrt(np.maximum(1 - (common**2).sum(axis=1), 0)) * np.where(apart >= 0, 1, -1)
    new_units = np.stack(
        [common + np.outer(height, direction.vector), common - np.outer(height, direction.vector)],
        axis=1,
    )
    return _changed(
        table, indices, (new_units * length[:, None, None]).reshape(len(all_words), -1), "equalised"
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
    if in_both := {word for pair in equal for word in pair} & set(neutral):
        raise ConfigError(
            f"{min(in_both)!r} is both among the words to neutralise and in a pair to equalise; "
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
    """Report the tests, the bias of `neutral` words, and results on files of analogies or
    similarities.

    Each number is a list: before and, if given, after.
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
    """Return the pairs with vectors for both words, which may be those of lower case."""
    spellings = [(known_words(vectors, [a])[0], known_words(vectors, [b])[0]) for a, b in pairs]
    return [(a[0], b[0]) for a, b in spellings if a and b]


def _headline(metrics: Mapping[str, Any]) -> dict[str, Any]:
    name = "accuracy" if "accuracy" in metrics else "spearman"
    return {name: metrics[name], "missing": metrics["missing"]}


def _indices(table: WordVectors, words: Sequence[str]) -> np.ndarray:
    indices = table.words.find(words)
    if (indices < 0).any():
        raise unknown_word(words[int(np.argmin(indices))], table)
    return indices


def _unknown(vectors: Embedder, pairs: Pairs) -> DataError:
    return unknown_word(
        next(word for pair in pairs for word in pair if not known_words(vectors, [word])[0]),
        vectors.vectors,
    )


def _changed(table: WordVectors, indices: np.ndarray, rows: np.ndarray, change: str) -> WordVectors:
    matrix = np.array(table.matrix)  # a copy: the matrix of the table may be a mapped file
    matrix[indices] = rows
    changed = WordVectors.of(
        table.words, matrix, table.counts, source=table.recorded("data", "memory")
    )
    changed.fit_info |= {change: len(indices)} | {
        key: n for key in ("neutralised", "equalised") if (n := table.recorded(key, 0))
    }
    return changed
