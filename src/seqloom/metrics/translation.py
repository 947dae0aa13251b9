"""Translations against references: how good they are as a whole, and by the length of the source.

Lengths are counted in words, so that models with different tokens are compared on the same sentences; where most sources have
fewer than five words (dates, names) in characters, and of sources that are arrays in frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from seqloom.data.parallel_report import count_words
from seqloom.metrics.bleu import bleu
from seqloom.metrics.chrf import chrf
from seqloom.metrics.corpus_score import CorpusScore, exact_match
from seqloom.metrics.edits import character_error_rate, word_error_rate
from seqloom.metrics.rouge import rouge

SHARES = (
    0.2,
    0.4,
    0.6,
    0.8,
    0.95,
)  # of the pairs, by length of the source, at which bands end; the longest are few
FEWEST = 5  # pairs of a band
BY_LENGTH = ("bleu", "chrf", "exact_match")  # scores that are given by length
FEW_WORDS = 5  # of a source, below which characters are counted

Judgement = tuple[
    dict[str, Any], dict[str, Any], tuple[str, ...]
]  # metrics, details and notes, for a `Result`


def judge(
    hypotheses: list[str], references: list[str], sources: Sequence[Any], *, samples: int = 1000
) -> Judgement:
    """Metrics with intervals of BLEU and chrF, quality by length of the source, and how BLEU and chrF were computed.

    >>> said, meant, sources = ["ein Hund", "zwei Katzen"], ["ein Hund", "die Katzen"], ["a dog", "the cats"]
    >>> metrics, details, notes = judge(said, meant, sources, samples=0)
    >>> metrics["exact_match"], metrics["wer"], metrics["length_ratio"], details["lengths"][0]["length"]
    (0.5, 0.25, 1.0, '5-8 characters')
    >>> notes[0]
    'BLEU: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0'
    """
    scores = text_scores(hypotheses, references)
    metrics: dict[str, Any] = {}
    for name, score in scores.items():
        metrics[name] = score.value
        if samples and name in ("bleu", "chrf"):
            metrics[f"{name}_interval"] = score.interval(samples=samples)
    metrics |= {"length_ratio": scores["bleu"].details["length_ratio"], "pairs": len(references)}
    notes = tuple(f"{scores[name].name}: {scores[name].signature}" for name in ("bleu", "chrf"))
    return metrics, {"lengths": by_length(scores, *lengths_of(sources))}, notes


def text_scores(hypotheses: list[str], references: list[str]) -> dict[str, CorpusScore]:
    """All scores by the name of their metric."""
    return {
        "bleu": bleu(hypotheses, references),
        "chrf": chrf(hypotheses, references),
        "exact_match": exact_match(hypotheses, references),
        "wer": word_error_rate(hypotheses, references),
        "cer": character_error_rate(hypotheses, references),
        "rouge_l": rouge(hypotheses, references)["rougeL"],
    }


def lengths_of(sources: Sequence[Any]) -> tuple[np.ndarray, str]:
    """The length of each source, and in what.

    >>> lengths_of(["Sept 3, 1999", "may 1 2001"])[1], lengths_of([np.zeros((7, 2))])[0].tolist()
    ('characters', [7])
    """
    if not all(isinstance(source, str) for source in sources):
        return np.array([len(source) for source in sources]), "frames"
    words = np.array([count_words(source) for source in sources])
    if np.median(words) >= FEW_WORDS:
        return words, "words"
    return np.array([len(source) for source in sources]), "characters"


def by_length(
    scores: Mapping[str, CorpusScore], lengths: np.ndarray, unit: str
) -> list[dict[str, Any]]:
    """One row for each band of lengths, from short to long."""
    edges = sorted(
        {
            int(lengths.min()) - 1,
            *np.quantile(lengths, SHARES, method="lower").astype(int).tolist(),
            int(lengths.max()),
        }
    )
    rows = []
    for low, high in pairwise(_wide_enough(edges, lengths)):
        inside = (lengths > low) & (lengths <= high)
        names = f"{low + 1}-{high} {unit}" if high > low + 1 else f"{high} {unit}"
        rows.append(
            {
                "length": names,
                "mean_length": float(lengths[inside].mean()),
                "pairs": int(inside.sum()),
                **{name: scores[name].on(inside) for name in BY_LENGTH if name in scores},
            }
        )
    return rows


def _wide_enough(edges: list[int], lengths: np.ndarray) -> list[int]:
    """Without edges that would leave too few pairs in a band."""
    kept = edges[:1]
    for edge in edges[1:-1]:
        if (
            np.count_nonzero((lengths > kept[-1]) & (lengths <= edge)) >= FEWEST
            and np.count_nonzero(lengths > edge) >= FEWEST
        ):
            kept.append(edge)
    return [*kept, edges[-1]]
