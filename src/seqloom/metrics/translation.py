"""Translations against references: chrF, ROUGE and error rates, as a whole and by the length of the source.

Lengths are counted in words, so that models with different tokens are compared on the same
sentences; where most sources have fewer than five words (dates, names) in characters, and of
sources that are arrays in frames. BLEU is in `text_scores`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from seqloom.data.translation_report import count_words
from seqloom.errors import MissingExtra
from seqloom.metrics.text_scores import (
    SACREBLEU,
    CorpusScore,
    Overlap,
    Symbols,
    bleu,
    characters,
    check_texts,
    exact_match,
    mean_of,
    ngram_overlap,
    numbered,
)

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
    """Compute chrF from 0 to 100 against one reference each, as sacrebleu does.

    Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation": precision and recall of
    character n-grams of one to six characters, averaged over the orders, with recall weighted twice
    (chrF2). White space does not count, so it needs no tokenisation and suits rich morphology and
    scripts without spaces. With `word_order=2` it is chrF++ (Popović 2017), which adds word n-grams.

    >>> score = chrf(["the cat sat on the mat"], ["the cat sat on a mat"])
    >>> round(score.value, 4), score.signature
    (72.0848, 'nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0')
    """
    check_texts(hypotheses, references)
    sides = [
        [text.lower() if lowercase else text for text in side] for side in (hypotheses, references)
    ]
    ours, theirs = (characters(["".join(text.split()) for text in side]) for side in sides)
    overlaps = [ngram_overlap(ours, theirs, ORDERS)]
    if word_order:
        ours, theirs = numbered(*([_words_and_marks(text) for text in side] for side in sides))
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
    """Compute chrF from sums (..., 3 orders): n-grams of hypotheses, of references, and shared
    ones, of each order.
    """
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
    """Return the statistics of each sentence; n-grams of an order that the reference is too short
    for are not held against it.
    """
    hypotheses = np.where(overlap.in_references > 0, overlap.in_hypotheses, 0)
    columns = np.stack([hypotheses, overlap.in_references, overlap.shared], axis=-1)
    return columns.reshape(len(hypotheses), -1).astype(np.float64)


def _words_and_marks(text: str) -> list[str]:
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


# ---- rouge

_WORD = re.compile(r"[a-z0-9]+")
_SHORT = 3  # letters of words that are never stemmed


def rouge(
    hypotheses: Sequence[str], references: Sequence[str], *, stem: bool = False
) -> dict[str, CorpusScore]:
    """Compute `rouge1`, `rouge2` and `rougeL` from 0 to 1, as the package rouge-score does; `stem`:
    compare words by their stems, as NLTK's stemmer gives them.

    Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries": F-measures of shared words,
    shared pairs of words, and the longest common subsequence of words, each averaged over the texts.
    Words are runs of a-z and 0-9 in lower case, so letters outside ASCII separate words, and in Chinese
    there is nothing to count: chrF suits those better. Details: precision and recall, averaged in the
    same way.

    >>> scores = rouge(["the cat sat"], ["the cat was sat on"])
    >>> {name: round(score.value, 4) for name, score in scores.items()}
    {'rouge1': 0.75, 'rouge2': 0.3333, 'rougeL': 0.75}
    """
    check_texts(hypotheses, references)
    sides = [[_WORD.findall(text.lower()) for text in side] for side in (hypotheses, references)]
    if stem:
        sides = [[[_stemmed(word) for word in words] for words in side] for side in sides]
    ours, theirs = numbered(*sides)
    overlap = ngram_overlap(ours, theirs, 2)
    signature = f"stem:{'yes' if stem else 'no'}"
    scores = {
        f"rouge{n + 1}": _score(
            f"ROUGE-{n + 1}",
            overlap.shared[:, n],
            overlap.in_hypotheses[:, n],
            overlap.in_references[:, n],
            signature,
        )
        for n in range(2)
    }
    return scores | {
        "rougeL": _score(
            "ROUGE-L", common_subsequences(ours, theirs), ours.lengths, theirs.lengths, signature
        )
    }


def common_subsequences(first: Symbols, second: Symbols) -> np.ndarray:
    """Return the length of the longest common subsequence of each pair of sentences."""
    from seqloom.kernels.alignment import common_lengths

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


# ---- edits

_BLANKS = re.compile(r"\s\s+")


def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> CorpusScore:
    """Compute the word error rate, as the package jiwer does; details: substitutions, deletions,
    insertions, hits.

    The fewest substitutions, deletions and insertions that turn the references into the hypotheses
    (Levenshtein 1966), over the words of the references: 0 is best, and above 1 there are more edits
    than words. Words are what blanks separate, with their case and punctuation.

    >>> score = word_error_rate(["the cat sat down"], ["a cat sat"])
    >>> round(score.value, 4), score.details
    (0.6667, {'substitutions': 1, 'deletions': 0, 'insertions': 1, 'hits': 2})
    """
    check_texts(hypotheses, references)
    return _error_rate(
        "WER",
        *numbered(
            *([_blank_separated(text) for text in side] for side in (hypotheses, references))
        ),
    )


def character_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> CorpusScore:
    """Compute the same of characters, as jiwer does; blanks count too, except those around a text."""
    check_texts(hypotheses, references)
    return _error_rate(
        "CER", *(characters([text.strip() for text in side]) for side in (hypotheses, references))
    )


def error_rate_of(sums: np.ndarray) -> np.ndarray:
    """Compute the error rate from sums (..., 4): substitutions, deletions, insertions and length
    of the references. If that is 0, each insertion counts as 1.
    """
    return sums[..., :3].sum(axis=-1) / np.maximum(sums[..., 3], 1)


def _error_rate(name: str, hypotheses: Symbols, references: Symbols) -> CorpusScore:
    from seqloom.kernels.alignment import edit_counts

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


def _blank_separated(text: str) -> list[str]:
    """Between blanks; a single tab or other white space stays inside a word, as jiwer has it."""
    return [word for word in _BLANKS.sub(" ", text).strip().split(" ") if word]


# ---- translation

# Shares of the pairs, by length of the source, at which bands end; the longest are few.
SHARES = (0.2, 0.4, 0.6, 0.8, 0.95)
MIN_PAIRS = 5  # pairs of a band
BY_LENGTH = ("bleu", "chrf", "exact_match")  # scores that are given by length
FEW_WORDS = 5  # of a source, below which characters are counted

# Metrics, details and notes, for a `Result`.
Evaluation = tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]


def evaluate_translations(
    hypotheses: list[str], references: list[str], sources: Sequence[Any], *, samples: int = 1000
) -> Evaluation:
    """Return metrics with intervals of BLEU and chrF, quality by length of the source, and how BLEU and
    chrF were computed.

    >>> said, meant, sources = ["ein Hund", "zwei Katzen"], ["ein Hund", "die Katzen"], ["a dog", "the cats"]
    >>> metrics, details, notes = evaluate_translations(said, meant, sources, samples=0)
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
    """Compute all scores, by the name of their metric."""
    return {
        "bleu": bleu(hypotheses, references),
        "chrf": chrf(hypotheses, references),
        "exact_match": exact_match(hypotheses, references),
        "wer": word_error_rate(hypotheses, references),
        "cer": character_error_rate(hypotheses, references),
        "rouge_l": rouge(hypotheses, references)["rougeL"],
    }


def lengths_of(sources: Sequence[Any]) -> tuple[np.ndarray, str]:
    """Return the length of each source, and its unit.

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
    """Return one row for each band of lengths, from short to long."""
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
    """Return the edges without those that would leave too few pairs in a band."""
    bounds = edges[:1]
    for edge in edges[1:-1]:
        if (
            np.count_nonzero((lengths > bounds[-1]) & (lengths <= edge)) >= MIN_PAIRS
            and np.count_nonzero(lengths > edge) >= MIN_PAIRS
        ):
            bounds.append(edge)
    return [*bounds, edges[-1]]
