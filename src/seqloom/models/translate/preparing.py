"""Before the training of a translator: pairs that are held out, tokenizers of its texts, and pairs that are too long."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom import progress
from seqloom.data.examples import hashed_order
from seqloom.data.translation import Parallel, undivided
from seqloom.errors import DataError
from seqloom.models.translate.pairs import EncodedPairs
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.tokenizer_directory import choose_tokenizer

HELD_OUT, MOST_HELD_OUT = (
    0.05,
    1000,
)  # share of the pairs that is kept for evaluation, and how many at most
FEWEST = 50  # pairs, below which nothing is held out
SUBWORDS = ("bpe", "unigram", "wordpiece")


def hold_out(data: Parallel, valid: Parallel | None) -> tuple[Parallel, Parallel | None]:
    """Training and held-out pairs: as given, or a few in hashed order, equal sources together unless they are labels."""
    if valid is not None and len(valid):
        return data, valid
    if len(data) < FEWEST:
        return data, None
    order, may_begin = hashed_order(undivided(data))
    wanted = len(order) - min(round(len(order) * HELD_OUT), MOST_HELD_OUT)
    cut = next((i for i in range(wanted, len(order)) if may_begin[i]), len(order))
    if cut == len(order):
        return data, None
    progress.say(
        f"holding out {len(order) - cut:,} of {len(order):,} pairs to choose the best weights; --valid gives others"
    )
    return data.part(np.sort(order[:cut])), data.part(np.sort(order[cut:]))


def short_enough(pairs: EncodedPairs, max_length: int) -> EncodedPairs:
    """Return the pairs that are trained on."""
    sources, targets, name = pairs.sources.lengths, pairs.targets.lengths, pairs.data.name
    if not sources.min():
        raise DataError(
            f"source {int(sources.argmin()) + 1} of {name} has no steps; leave this pair out"
        )
    short = np.flatnonzero(np.maximum(sources, targets) <= max_length)
    if not len(short):
        raise DataError(
            f"all pairs of {name} are longer than max_length {max_length}; give a larger one"
        )
    if len(short) == len(sources):
        return pairs
    progress.say(
        f"{len(sources) - len(short):,} of {len(sources):,} pairs have more than {max_length} tokens and are "
        "left out; --max-length sets this"
    )
    return pairs.part(short)


def subword_size(characters: int) -> int:
    """How many subwords suit a text: four times the text has twice as many, and each is seen often enough to be learnt.

    >>> subword_size(2_000_000)
    4000
    """
    return int(min(max(4000 * (characters / 2e6) ** 0.5, 500), 16_000))


def make_tokenizer(kind: str, texts: list[str], c: Any) -> Tokenizer:
    """Fitted on the texts, or a saved one."""
    size = c.vocab_size or (subword_size(sum(map(len, texts))) if kind in SUBWORDS else None)
    return choose_tokenizer(kind, texts, vocab_size=size, min_count=c.min_count, marks=c.marks)
