"""ROUGE-1, ROUGE-2 and ROUGE-L against one reference each, as the package rouge-score computes them.

Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries": F-measures of shared words, shared pairs of words, and
the longest common subsequence of words, each averaged over the texts. Words are runs of a-z and 0-9 in lower case, so
letters outside ASCII separate words, and in Chinese there is nothing to count: chrF suits those better.

    >>> scores = rouge(["the cat sat"], ["the cat was sat on"])
    >>> {name: round(score.value, 4) for name, score in scores.items()}
    {'rouge1': 0.75, 'rouge2': 0.3333, 'rougeL': 0.75}
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from seqloom.errors import MissingExtra
from seqloom.metrics.corpus_score import CorpusScore, check_texts, mean_of
from seqloom.metrics.ngram_overlap import Symbols, ngram_overlap, numbered

_WORD = re.compile(r"[a-z0-9]+")
_SHORT = 3  # letters of words that are never stemmed


def rouge(
    hypotheses: Sequence[str], references: Sequence[str], *, stem: bool = False
) -> dict[str, CorpusScore]:
    """`rouge1`, `rouge2` and `rougeL` from 0 to 1; `stem`: words by their stems, by the stemmer of NLTK.

    Details: precision and recall, averaged in the same way.
    """
    check_texts(hypotheses, references)
    sides = [[_WORD.findall(text.lower()) for text in side] for side in (hypotheses, references)]
    if stem:
        sides = [[[_stemmed(word) for word in words] for words in side] for side in sides]
    ours, theirs = numbered(*sides)
    overlap = ngram_overlap(ours, theirs, 2)
    signature = f"stem:{'yes' if stem else 'no'}"
    made = {
        f"rouge{n + 1}": _score(
            f"ROUGE-{n + 1}",
            overlap.shared[:, n],
            overlap.in_hypotheses[:, n],
            overlap.in_references[:, n],
            signature,
        )
        for n in range(2)
    }
    return made | {
        "rougeL": _score(
            "ROUGE-L", common_subsequences(ours, theirs), ours.lengths, theirs.lengths, signature
        )
    }


def common_subsequences(first: Symbols, second: Symbols) -> np.ndarray:
    """The length of the longest common subsequence of each pair of sentences."""
    from seqloom.kernels.edits import common_lengths

    lengths = np.zeros(len(first.ends) - 1, np.int64)
    common_lengths(
        first.ids, first.ends, second.ids, second.ends, int(second.lengths.max(initial=0)), lengths
    )
    return lengths


def _score(
    name: str,
    shared: np.ndarray,
    in_hypotheses: np.ndarray,
    in_references: np.ndarray,
    signature: str,
) -> CorpusScore:
    precision, recall = shared / np.maximum(in_hypotheses, 1), shared / np.maximum(in_references, 1)
    f_measure = np.where(
        shared > 0, 2 * precision * recall / np.where(shared > 0, precision + recall, 1.0), 0.0
    )
    return CorpusScore(
        name,
        np.column_stack([f_measure, np.ones(len(shared))]),
        mean_of,
        signature,
        details={"precision": float(precision.mean()), "recall": float(recall.mean())},
    )


@lru_cache(maxsize=1 << 16)
def _stemmed(word: str) -> str:
    return word if len(word) <= _SHORT else _stemmer().stem(word)


@lru_cache(maxsize=1)
def _stemmer():  # type: ignore[no-untyped-def]  # NLTK has no types
    try:
        from nltk.stem.porter import PorterStemmer
    except ImportError:
        raise MissingExtra("ROUGE with stems needs nltk; pip install 'seqloom[lang]'") from None
    return PorterStemmer()
