"""chrF of a corpus against one reference each, as sacrebleu computes it.

Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation": precision and recall of character n-grams of one
to six characters, averaged over the orders, with recall weighted twice (chrF2). White space does not count, so it needs no
tokenisation and suits rich morphology and scripts without spaces. With `word_order=2` it is chrF++ (Popović 2017), which adds
word n-grams.

    >>> score = chrf(["the cat sat on the mat"], ["the cat sat on a mat"])
    >>> round(score.value, 4), score.signature
    (72.0848, 'nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0')
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqloom.metrics.bleu import SACREBLEU
from seqloom.metrics.corpus_score import CorpusScore, check_texts
from seqloom.metrics.ngram_overlap import Overlap, characters, ngram_overlap, numbered

ORDERS = 6
RECALL = 4  # weight of recall against precision: beta = 2, squared

_MARKS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def chrf(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    word_order: int = 0,
    lowercase: bool = False,
) -> CorpusScore:
    """chrF from 0 to 100; chrF++ with `word_order=2`."""
    check_texts(hypotheses, references)
    sides = [
        [text.lower() if lowercase else text for text in side] for side in (hypotheses, references)
    ]
    ours, theirs = (characters(["".join(text.split()) for text in side]) for side in sides)
    overlaps = [ngram_overlap(ours, theirs, ORDERS)]
    if word_order:
        ours, theirs = numbered(*([_words(text) for text in side] for side in sides))
        overlaps.append(ngram_overlap(ours, theirs, word_order))
    signature = (
        f"nrefs:1|case:{'lc' if lowercase else 'mixed'}|eff:yes|nc:{ORDERS}|nw:{word_order}|space:no|"
        f"version:{SACREBLEU}"
    )
    return CorpusScore(
        "chrF2" + "+" * word_order,
        np.concatenate([_rows(overlap) for overlap in overlaps], axis=1),
        chrf_of,
        signature,
    )


def chrf_of(sums: np.ndarray) -> np.ndarray:
    """chrF of sums (..., 3 orders): n-grams of hypotheses, of references, and shared ones, of each order."""
    by_order = sums.reshape(*sums.shape[:-1], -1, 3)
    hypotheses, references, shared = (by_order[..., k] for k in range(3))
    used = (hypotheses > 0) & (references > 0)
    orders = np.maximum(used.sum(axis=-1), 1)
    precision, recall = (
        np.where(used, shared / np.maximum(of, 1), 0.0).sum(axis=-1) / orders
        for of in (hypotheses, references)
    )
    weighted = RECALL * precision + recall
    return 100.0 * (1 + RECALL) * precision * recall / np.where(weighted > 0, weighted, 1.0)


def _rows(overlap: Overlap) -> np.ndarray:
    """Statistics of each sentence; n-grams of an order that the reference is too short for are not held against it."""
    hypotheses = np.where(overlap.in_references > 0, overlap.in_hypotheses, 0)
    columns = np.stack([hypotheses, overlap.in_references, overlap.shared], axis=-1)
    return columns.reshape(len(hypotheses), -1).astype(np.float64)


def _words(text: str) -> list[str]:
    """Words with one mark at their end, or else at their beginning, as a word of its own."""
    words: list[str] = []
    for word in text.split():
        cut = (
            0
            if len(word) == 1
            else len(word) - 1
            if word[-1] in _MARKS
            else 1
            if word[0] in _MARKS
            else 0
        )
        words += [word[:cut], word[cut:]] if cut else [word]
    return words
