"""What all embedders share, whatever they embed: cosines of pairs, and the texts of a list that are
nearest to a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from seqloom import batching
from seqloom.errors import ConfigError, DataError, quoted

Neighbours = list[tuple[str, float]]  # texts and their cosines, the nearest first
Embed = Callable[[str | list[str]], np.ndarray]  # a text to its vector (D,), texts to theirs (n, D)

# Texts that are embedded at a time, which limits the vectors in memory, and their characters.
TEXTS_PER_BATCH, CHARACTERS_PER_BATCH = 4096, 1 << 22


def portions(texts: Iterable[str]) -> Iterator[list[str]]:
    """Return neighbouring texts, so many at a time that memory depends neither on their number nor
    on their length.
    """

    def length(text: str) -> int:
        if not isinstance(text, str):
            raise DataError(f"expected texts; got {quoted(text)}")
        return len(text)

    return batching.portions(texts, CHARACTERS_PER_BATCH, TEXTS_PER_BATCH, length)


def units(vectors: np.ndarray) -> np.ndarray:
    """Return the rows (n, D) scaled to length one; zeros stay zeros."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-30)


def cosines_of_pairs(embed: Embed, a: str | list[str], b: str | list[str]) -> Any:
    """Return the cosine of two texts; of two lists pair by pair, float64 (n,)."""
    first, second = ([x] if isinstance(x, str) else list(x) for x in (a, b))
    if len(first) != len(second):
        raise ConfigError(
            f"similarity compares pairs; {len(first)} on one side, {len(second)} on the other"
        )
    left, right = (np.atleast_2d(embed(x)).astype(np.float64) for x in (a, b))
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines = np.einsum("ij,ij->i", left, right) / np.where(lengths > 0, lengths, 1)
    return float(cosines[0]) if isinstance(a, str) and isinstance(b, str) else cosines


def least_alike(embed: Embed, words: list[str] | str) -> str:
    """Return the word, or text, that is least like the mean of all of them."""
    names = words.split() if isinstance(words, str) else list(words)
    if len(names) < 3:
        raise ConfigError(f"doesnt_match needs at least three words; got {len(names)}")
    directions = units(embed(names))
    return names[int((directions @ directions.mean(axis=0)).argmin())]


def nearest_texts(
    embed: Embed, query: str | list[str] | np.ndarray, k: int, among: Iterable[str]
) -> Any:
    """Find the k texts of `among` with the largest cosine to a text or a vector (D,); for a list
    or an array (n, D) a list.

    `among` may be any iterable, such as the lines of a file; only the best are kept. Of equal ones
    the first come first.
    """
    if k < 1:
        raise ConfigError(f"k must be at least 1; got {k}")
    if isinstance(among, str):
        raise DataError(f"among takes a list of texts; got {quoted(among)}")
    single = isinstance(query, str) or (isinstance(query, np.ndarray) and query.ndim == 1)
    queries = units(
        np.atleast_2d(query if isinstance(query, np.ndarray) else embed(query)).astype(np.float32)
    )  # (n, D)
    best: list[Neighbours] = [[] for _ in queries]
    for group in portions(among):
        cosines = queries @ units(embed(group)).T  # (n, texts)
        for row, neighbours in enumerate(best):
            top = np.argsort(-cosines[row], kind="stable")[:k].tolist()
            neighbours += [(group[i], float(cosines[row, i])) for i in top]
            neighbours.sort(key=lambda pair: -pair[1])  # which is stable
            del neighbours[k:]
    return best[0] if single else best
