"""How good a tagger is: accuracy of known and unknown words, F1 of spans, and its errors by kind.

Spans are counted as the conlleval script of the CoNLL shared tasks does (Tjong Kim Sang and
Buchholz 2000, "Introduction to the CoNLL-2000 Shared Task: Chunking"): one is right if its label
and both its ends are, and sequences of tags that the scheme does not allow are read leniently, so
that every prediction has spans. Intervals resample whole sentences.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from seqloom.data.spans import Scheme, Span, spans
from seqloom.data.tagging import Tagged
from seqloom.errors import DataError
from seqloom.metrics.bootstrap import interval
from seqloom.metrics.classification import (
    MAX_EXAMPLE_LENGTH,
    Evaluation,
    class_rows,
    confusion,
    kinds_of_errors,
    scores,
    some,
    with_unseen,
)

AROUND = 6  # words of an example on each side


def evaluate_tags(
    tagged: Tagged,
    predicted: Sequence[Sequence[str]],
    tags: Sequence[str],
    knows: Callable[[str], bool],
    *,
    samples: int,
    examples: int,
) -> Evaluation:
    """Compare predicted tags with those of `tagged`; `tags` are those of the model, `knows` tells
    words that it has seen.
    """
    lengths = _checked(tagged, predicted)  # (sentences,)
    words = list(chain.from_iterable(tagged.sentences))
    names, gold = with_unseen(tags, list(chain.from_iterable(tagged.tags)))
    at = {name: i for i, name in enumerate(names)}
    answers = list(chain.from_iterable(predicted))
    strange = sorted(set(answers) - set(tags))
    if strange:
        raise ValueError(f"predicted tags that are not among the model's: {some(strange)}")
    predicted_ids = np.fromiter((at[tag] for tag in answers), np.int64, len(answers))
    right = gold == predicted_ids
    familiar = {word: bool(knows(word)) for word in dict.fromkeys(words)}
    known = np.fromiter((familiar[word] for word in words), bool, len(words))
    correct = np.add.reduceat(right, np.cumsum(lengths) - lengths, dtype=np.int64)  # (sentences,)
    metrics: dict[str, Any] = {
        "accuracy": float(right.mean()),
        **({"accuracy_interval": interval(correct, lengths, samples=samples)} if samples else {}),
        "known_accuracy": float(right[known].mean()) if known.any() else None,
        "unknown_accuracy": float(right[~known].mean()) if not known.all() else None,
        "unknown_share": float(1 - known.mean()),
        "sentence_accuracy": float((correct == lengths).mean()),
    }
    rows = class_rows("tag", names, gold, predicted_ids)
    details: dict[str, Any] = {"tags": rows}
    notes = _notes(rows, names[len(tags) :])
    if tagged.scheme is not None:
        more, details["spans"] = _spans(tagged.tags, predicted, tagged.scheme, samples)
        metrics |= more
        if not more["spans"]:
            notes += ("there are no spans in this data; recall counts as 0",)
    metrics |= {"words": len(words), "sentences": len(lengths)}
    details |= {
        **confusion(names, gold, predicted_ids),
        "errors": _errors(names, gold, predicted_ids, words, np.cumsum(lengths), examples),
    }
    return metrics, details, notes


def span_counts(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: Scheme
) -> np.ndarray:
    """Return twice the right spans of each sentence, and the spans of both sides, int64 (n, 2): F1
    is the ratio of their sums.
    """
    rows = [
        (2 * len(wanted & had), len(wanted) + len(had))
        for wanted, had in _span_sets(gold, predicted, scheme)
    ]
    return np.array(rows, np.int64).reshape(-1, 2)


def _span_sets(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: Scheme
) -> Iterator[tuple[set[Span], set[Span]]]:
    return (
        (set(spans(truth, scheme)), set(spans(guess, scheme)))
        for truth, guess in zip(gold, predicted)
    )


def _spans(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: Scheme, samples: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Compute the span metrics, and a row for each label."""
    came: Counter[str] = Counter()
    predicted_spans: Counter[str] = Counter()
    both: Counter[str] = Counter()
    # Numerator and denominator of F1: twice the right spans, and the spans of both sides.
    sentences = np.zeros((2, len(gold)), dtype=np.int64)
    for i, (wanted, had) in enumerate(_span_sets(gold, predicted, scheme)):
        shared = wanted & had
        for counter, its in ((came, wanted), (predicted_spans, had), (both, shared)):
            counter.update(label for label, _, _ in its)
        sentences[:, i] = 2 * len(shared), len(wanted) + len(had)
    twice, sizes = sentences[:, sentences[1] > 0]  # a sentence without spans changes nothing
    total = scores(both.total(), came.total(), predicted_spans.total())
    ends = (
        interval(twice, sizes, samples=samples) if samples and len(sizes) else (math.nan, math.nan)
    )
    rows = [
        {"label": label, **scores(both[label], came[label], predicted_spans[label])}
        for label in sorted(came | predicted_spans)
    ]
    return {
        "span_precision": total["precision"],
        "span_recall": total["recall"],
        "span_f1": total["f1"],
        **({"span_f1_interval": ends} if samples else {}),
        "spans": total["support"],
    }, rows


def _errors(
    names: Sequence[str],
    gold: np.ndarray,
    predicted: np.ndarray,
    words: Sequence[str],
    stops: np.ndarray,
    examples: int,
) -> list[dict[str, Any]]:
    """Return the kinds of errors; examples are of different words, those wrong most often first,
    each where it first came.
    """
    kinds = []
    for is_tag, predicted_tag, positions in kinds_of_errors(gold, predicted):
        first: dict[str, int] = {}
        often: Counter[str] = Counter()
        for position in positions.tolist():
            first.setdefault(words[position], position)
            often[words[position]] += 1
        kinds.append(
            {
                "gold": names[is_tag],
                "predicted": names[predicted_tag],
                "count": len(positions),
                "examples": [
                    {"text": _marked(words, first[word], stops), "word": word, "count": count}
                    for word, count in often.most_common(examples)
                ],
            }
        )
    return kinds


def _marked(words: Sequence[str], position: int, stops: np.ndarray) -> str:
    """Return the word in brackets with its neighbours, as many as fit into an example.

    >>> _marked(["Yes", ".", "The", "old", "man", "the", "boats", "."], 3, np.array([2, 8]))
    'The [old] man the boats .'
    """
    sentence = int(np.searchsorted(stops, position, side="right"))
    first, last = (int(stops[sentence - 1]) if sentence else 0), int(stops[sentence])
    for around in range(AROUND, -1, -1):
        start, stop = max(position - around, first), min(position + around + 1, last)
        line = " ".join(
            [*words[start:position], f"[{words[position]}]", *words[position + 1 : stop]]
        )
        if len(line) <= MAX_EXAMPLE_LENGTH:
            break
    return ("… " if start > first else "") + line + (" …" if stop < last else "")


def _notes(rows: Sequence[dict[str, Any]], unseen: Sequence[str]) -> tuple[str, ...]:
    never = [
        row["tag"]
        for row in rows
        if row["support"] and not row["predicted"] and row["tag"] not in unseen
    ]
    notes = []
    if unseen:
        words = sum(row["support"] for row in rows if row["tag"] in unseen)
        notes.append(
            f"tags that the model never saw: {some(unseen)}; their words ({words:,}) count as wrong"
        )
    if never:
        notes.append(f"never predicted: {some(never)}; their precision counts as 0")
    return tuple(notes)


def _checked(tagged: Tagged, predicted: Sequence[Sequence[str]]) -> np.ndarray:
    """Check the predictions and return how many words the sentences have, leaving out those
    without words.
    """
    if len(tagged.sentences) != len(predicted):
        raise ValueError(f"{len(tagged.sentences)} sentences, but predictions for {len(predicted)}")
    for i, (words, gold, guess) in enumerate(zip(tagged.sentences, tagged.tags, predicted)):
        if not len(words) == len(gold) == len(guess):
            raise ValueError(
                f"sentence {i + 1} has {len(words)} words and {len(gold)} tags, but {len(guess)} "
                f"were predicted"
            )
    lengths = np.array([len(words) for words in tagged.sentences if words], dtype=np.int64)
    if not len(lengths):
        raise DataError("no words to evaluate on: the tagged data is empty")
    return lengths
