"""What the discount of an n-gram model does: the same n-grams, counted once, with one discount after another.

Absolute discounting (Ney, Essen and Kneser 1994) subtracts D from each count, and what is saved goes to the
shorter context: a small D trusts what was seen, a large one what is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from seqloom.errors import ConfigError, DataError
from seqloom.models.language.counting import Levels, count_ngrams
from seqloom.models.language.estimation import GivenDiscount, build, smoothing_named
from seqloom.models.language.ngram import NGram
from seqloom.models.workspace import Workspace


class Discounted(NamedTuple):
    """A model with the n-grams of a text."""

    discount: (
        float | None
    )  # subtracted from every count; None: as the model's own smoothing chooses
    model: NGram


def discounted(model: NGram, ids: np.ndarray, discounts: Sequence[float]) -> Iterator[Discounted]:
    """Yield models of the order and with the tokenizer of this one that counted these ids (whole units): the
    first with its own smoothing, then one for each discount from above 0 to 1.
    """
    c, tokenizer = model.config, model.tokenizer
    own = smoothing_named(c.smoothing, c.k)
    if c.smoothing == "imported" or not own.chained:
        raise ConfigError(
            f"{c.smoothing} smoothing has no discount; fit a model with another, such as kneser-ney"
        )
    longest = int(np.diff(np.flatnonzero(ids == tokenizer.eos_id), prepend=-1).max(initial=0)) + 1
    if longest < c.order:
        raise DataError(
            f"the longest unit of the text that is counted has {longest} tokens with <s> and </s>, the "
            f"order is {c.order}; give more text"
        )
    counted = count_ngrams(ids, c.order, tokenizer.vocab_size, tokenizer.eos_id, Workspace())
    yield Discounted(None, _with(model, counted, own, c.smoothing))
    for discount in discounts:
        given = GivenDiscount(discount, own.adjusted)
        name = "kneser-ney" if own.adjusted else "absolute"
        yield Discounted(discount, _with(model, counted, given, name))


def _with(model: NGram, counted: Levels, smoothing: object, name: str) -> NGram:
    """Return a copy with other n-grams and another smoothing; nothing is pruned."""
    new = copy(model)
    new.config = replace(model.config, smoothing=name, prune=(), prune_entropy=0.0)
    new.trie, weights = build(counted, smoothing, (), Workspace())  # type: ignore[arg-type]
    table = {str(k): list(one.discounts) for k, one in enumerate(weights, 1)}
    new.fit_info = {**model.fit_info, "discounts": table}
    return new
