"""The slices of an evaluation: by length, by class, by the share of unknown words, or by columns of the data.

Which slices there are depends on the model (which words it knows, how long its training examples
were) and on the data; the numbers of each slice are those of `metrics/slices`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from seqloom.contracts.base import Model
from seqloom.data.classification import Labelled
from seqloom.data.examples import extent
from seqloom.data.tagging import Tagged
from seqloom.errors import ConfigError, suggest_known
from seqloom.metrics.classification import with_unseen
from seqloom.metrics.slices import (
    BUILT_IN,
    CLASS,
    LENGTH,
    UNKNOWN,
    Slicing,
    as_names,
    by_length,
    by_name,
    by_number,
    slice_row,
    slice_rows,
    worst_first,
)
from seqloom.metrics.tagging import span_counts
from seqloom.text.tokenizer import Tokenizer

Rows = list[dict[str, Any]]


def slices_of_labelled(
    model: Model,
    data: Labelled,
    names: Sequence[str],
    gold: np.ndarray,
    predicted: np.ndarray,
    slice_by: str | Sequence[str],
    samples: int,
    *,
    multi_label: bool,
) -> Rows:
    """Score slices of labelled data. `gold` and `predicted`: whether an example is, and is predicted to be,
    of each of the classes with these names, bool (n, C).
    """
    right = np.stack([(gold == predicted).all(axis=1), np.ones(len(gold))], axis=1)
    outcomes = {"accuracy": right}
    if multi_label:
        both = np.stack(
            [2 * (gold & predicted).sum(axis=1), gold.sum(axis=1) + predicted.sum(axis=1)], axis=1
        )
        outcomes = {"exact_match": right, "micro_f1": both.astype(np.float64)}

    def macro_f1(rows: np.ndarray) -> dict[str, float]:
        twice, both = (
            2 * (gold[rows] & predicted[rows]).sum(axis=0),
            gold[rows].sum(axis=0) + predicted[rows].sum(axis=0),
        )
        return {} if multi_label else {"macro_f1": float((twice[both > 0] / both[both > 0]).mean())}

    found: Rows = []
    for by in as_names(slice_by):
        if by == CLASS:
            found += [
                slice_row(
                    CLASS,
                    name,
                    {key: values[gold[:, c]] for key, values in outcomes.items()},
                    samples,
                )
                for c, name in enumerate(names)
                if gold[:, c].any()
            ]
            continue
        slicing = _slicing(
            model, by, data.examples, data.columns, lambda: unknown_shares(model, data.examples)
        )
        found += slice_rows(slicing, outcomes, samples=samples, more=macro_f1)
    return worst_first(found, next(iter(outcomes)))


def slices_of_tagged(
    model: Model,
    data: Tagged,
    predicted: list[list[str]],
    knows: Callable[[str], bool] | None,
    slice_by: str | Sequence[str],
    samples: int,
) -> Rows:
    """Score sentences by length and by the share of unknown words, and words by tag. `knows`: None
    if the model cannot tell.
    """
    non_empty = [i for i, words in enumerate(data.sentences) if words]
    data, predicted = data.part(non_empty), [predicted[i] for i in non_empty]
    outcomes = {"accuracy": _right_words(data.tags, predicted)}
    if data.scheme is not None:
        outcomes["span_f1"] = span_counts(data.tags, predicted, data.scheme).astype(np.float64)
    rows: Rows = []
    for by in as_names(slice_by):
        if by == CLASS:
            rows += _by_tag(data, predicted, samples)
            continue
        slicing = _slicing(
            model, by, data.sentences, {}, lambda: _unknown_words(data.sentences, knows)
        )
        rows += slice_rows(slicing, outcomes, samples=samples)
    return worst_first(rows, next(reversed(outcomes)))


def unknown_shares(model: Model, texts: Sequence[Any]) -> np.ndarray | None:
    """Return the share of the tokens of each text that are unknown to the model, (n,); None where
    it has no unknown ones.
    """
    tokenizer = next(iter(model.tokenizers.values()), None) if len(model.tokenizers) == 1 else None
    if (
        tokenizer is None
        or tokenizer.unk_id is None
        or not all(isinstance(text, str) for text in texts)
    ):
        return None
    return np.array([_unknown_share(tokenizer, text) for text in texts])


def _unknown_share(tokenizer: Tokenizer, text: str) -> float:
    ids = tokenizer.encode(text)
    return float((ids == tokenizer.unk_id).mean()) if len(ids) else 0.0


def _slicing(
    model: Model,
    by: str,
    examples: Sequence[Any],
    columns: Mapping[str, list[str]],
    unknown: Callable[[], np.ndarray | None],
) -> Slicing:
    if by == LENGTH:
        unit = (
            "characters"
            if isinstance(examples[0], (str, tuple))
            else "words"
            if isinstance(examples[0], list)
            else "steps"
        )
        return by_length(unit, np.array(list(map(extent, examples))), model.recorded("lengths", {}))
    if by == UNKNOWN:
        shares = unknown()
        if shares is None:
            raise ConfigError(
                f"slice_by {UNKNOWN}: this {model.name} model cannot tell which words it does not know"
            )
        return by_number("unknown words", shares, "{:.0%}".format)
    if by not in columns:
        raise ConfigError(
            f"slice_by {by!r}: there is no such column{suggest_known(by, [*BUILT_IN, *columns])}"
        )
    return by_name(by, columns[by])


def _right_words(tags: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> np.ndarray:
    """Count the right words and all words of each sentence."""
    rows = [
        (sum(a == b for a, b in zip(truth, guess)), len(truth))
        for truth, guess in zip(tags, predicted)
    ]
    return np.array(rows, np.float64).reshape(-1, 2)


def _by_tag(data: Tagged, predicted: list[list[str]], samples: int) -> Rows:
    """Make a slice for each tag: the right words of each sentence that has it, and all that have
    it.
    """
    names, gold = with_unseen(data.tagset, [tag for tags in data.tags for tag in tags])
    right = np.array(
        [a == b for tags, guess in zip(data.tags, predicted) for a, b in zip(tags, guess)]
    )
    sentence = np.repeat(np.arange(len(data)), [len(tags) for tags in data.tags])
    rows = []
    for index, name in enumerate(names):
        inside = gold == index
        sums = np.stack(
            [np.bincount(sentence[inside], weights) for weights in (right[inside], None)], axis=1
        )
        sums = sums[sums[:, 1] > 0]
        rows.append(
            slice_row("tag", name, {"accuracy": sums}, samples) | {"size": int(sums[:, 1].sum())}
        )
    return rows


def _unknown_words(
    sentences: Sequence[Sequence[str]], knows: Callable[[str], bool] | None
) -> np.ndarray | None:
    if knows is None:
        return None
    unknown = {word: not knows(word) for word in {word for words in sentences for word in words}}
    return np.array([np.mean([unknown[word] for word in words]) for words in sentences])
