"""How many n-grams two lists of sentences share, sentence by sentence.

>>> hypotheses, references = numbered([["a", "b", "a"]], [["a", "a", "b"]])
>>> overlap = ngram_overlap(hypotheses, references, 2)
>>> overlap.shared.tolist(), overlap.in_hypotheses.tolist()
([[3, 1]], [[3, 2]])
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np


class Symbols(NamedTuple):
    """Sentences as numbers, one after the other."""

    ids: np.ndarray  # int64
    ends: np.ndarray  # (sentences + 1,) of the sentences, 0 first

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.ends)


class Overlap(NamedTuple):
    """Counts of n-grams of each sentence, int64 (sentences, orders)."""

    shared: np.ndarray  # as often as in the one where there are fewer
    in_hypotheses: np.ndarray
    in_references: np.ndarray


def numbered(*sides: Sequence[Sequence[str]]) -> list[Symbols]:
    """Words as numbers, the same in all sides."""
    known: dict[str, int] = {}
    made = []
    for sentences in sides:
        words = list(chain.from_iterable(sentences))
        for word in dict.fromkeys(words):
            known.setdefault(word, len(known))
        made.append(
            Symbols(
                np.fromiter(map(known.__getitem__, words), np.int64, len(words)), _ends(sentences)
            )
        )
    return made


def characters(texts: Sequence[str]) -> Symbols:
    """Characters as their code points."""
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    return Symbols(points.astype(np.int64), _ends(texts))


def ngram_overlap(hypotheses: Symbols, references: Symbols, orders: int) -> Overlap:
    """Counts for n-grams of 1 to `orders` symbols.

    An n-gram is numbered, sentence by sentence, as the pair of the (n-1)-gram that it begins with and its last symbol; those
    that only one side has cannot become shared ones and are dropped.
    """
    n_sentences, split = len(hypotheses.ends) - 1, len(hypotheses.ids)
    symbols = _ranked(np.concatenate([hypotheses.ids, references.ids]))[1]
    width = int(symbols.max(initial=0)) + 1
    every = np.concatenate([hypotheses.lengths, references.lengths])
    sentence = np.repeat(np.tile(np.arange(n_sentences), 2), every)
    stops = np.repeat(np.cumsum(every), every)
    starts, grams = np.arange(len(symbols)), sentence
    shared = np.zeros((n_sentences, orders), np.int64)
    for n in range(orders):
        inside = starts + n < stops[starts]
        starts, grams = starts[inside], grams[inside]
        if not len(starts):
            break
        some, grams = _ranked(grams * width + symbols[starts + n])
        left = starts < split
        fewer = np.minimum(
            np.bincount(grams[left], minlength=len(some)),
            np.bincount(grams[~left], minlength=len(some)),
        )
        shared[:, n] = np.bincount(sentence[starts[some]], fewer, n_sentences)
        both = fewer[grams] > 0
        starts, grams = starts[both], grams[both]
    fewer_by = np.arange(orders)
    return Overlap(
        shared,
        *(np.maximum(side.lengths[:, None] - fewer_by, 0) for side in (hypotheses, references)),
    )


def _ranked(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of one of each of the different keys, and the rank of every key among them; faster than `np.unique`."""
    order = np.argsort(keys)
    new = np.diff(keys[order], prepend=-1) != 0
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.cumsum(new) - 1
    return order[new], ranks


def _ends(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    return np.concatenate(
        [[0], np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)))]
    )
