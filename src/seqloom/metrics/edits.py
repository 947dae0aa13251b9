"""Word and character error rates, as the package jiwer computes them.

The fewest substitutions, deletions and insertions that turn the references into the hypotheses (Levenshtein 1966), over the
words or characters of the references: 0 is best, and above 1 there are more edits than words. Words are what blanks separate,
with their case and punctuation.

    >>> score = word_error_rate(["the cat sat down"], ["a cat sat"])
    >>> round(score.value, 4), score.details
    (0.6667, {'substitutions': 1, 'deletions': 0, 'insertions': 1, 'hits': 2})
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from seqloom.metrics.corpus_score import CorpusScore, check_texts
from seqloom.metrics.ngram_overlap import Symbols, characters, numbered

_BLANKS = re.compile(r"\s\s+")


def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> CorpusScore:
    """WER from 0; details: substitutions, deletions, insertions, hits."""
    check_texts(hypotheses, references)
    return _error_rate(
        "WER", *numbered(*([_words(text) for text in side] for side in (hypotheses, references)))
    )


def character_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> CorpusScore:
    """CER from 0: the same of characters, blanks included but for those around a text."""
    check_texts(hypotheses, references)
    return _error_rate(
        "CER", *(characters([text.strip() for text in side]) for side in (hypotheses, references))
    )


def error_rate_of(sums: np.ndarray) -> np.ndarray:
    """Of sums (..., 4): substitutions, deletions, insertions and length of the references. If that is 0, each insertion
    counts as 1."""
    return sums[..., :3].sum(axis=-1) / np.maximum(sums[..., 3], 1)


def _error_rate(name: str, hypotheses: Symbols, references: Symbols) -> CorpusScore:
    from seqloom.kernels.edits import edit_counts

    counts = np.zeros((len(references.ends) - 1, 3), np.int64)
    longest = int(hypotheses.lengths.max(initial=0))
    edit_counts(references.ids, references.ends, hypotheses.ids, hypotheses.ends, longest, counts)
    statistics = np.column_stack([counts, references.lengths]).astype(np.float64)
    substitutions, deletions, insertions, length = map(int, statistics.sum(axis=0))
    return CorpusScore(
        name,
        statistics,
        error_rate_of,
        higher_is_better=False,
        details={
            "substitutions": substitutions,
            "deletions": deletions,
            "insertions": insertions,
            "hits": length - substitutions - deletions,
        },
    )


def _words(text: str) -> list[str]:
    """Between blanks; a single tab or other white space stays inside a word, as jiwer has it."""
    return [word for word in _BLANKS.sub(" ", text).strip().split(" ") if word]
