"""Many short texts scored together: one call of the tokenizer and one of the model for a batch of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from seqloom.text.coding import to_bytes

if TYPE_CHECKING:
    from seqloom.contracts.language import LanguageModel

_ONE = np.zeros(1, np.int64)  # where a single text begins


def score_batch(model: LanguageModel, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Token log-probabilities of all these texts, float32, and where each text begins in them.

    It is called for a single short text too, so it takes care not to do more than it must.
    """
    tokenizer = model.tokenizer
    if model.unit != "line":
        encoded = [model.encode(text)[0] for text in texts]
        ids, ends = np.concatenate(encoded), np.cumsum([len(e) for e in encoded])
        starts = _starts(ends)
        return model.sequence_log_probs(ids, ends - starts), starts
    joined = "\n".join(texts) + "\n"
    one_line_each = joined.count("\n") == len(texts)
    if not one_line_each:
        joined = "\n".join([text.removesuffix("\n") for text in texts]) + "\n"
    ids = tokenizer.encode_block(to_bytes(joined), newline_ends=True)
    if one_line_each and len(texts) == 1:
        return model.sequence_log_probs(ids, np.array([len(ids)])), _ONE
    ends = np.flatnonzero(ids == tokenizer.eos_id) + 1  # of the lines
    starts = _starts(ends)
    lengths = ends - starts
    if not one_line_each:
        ends = ends[
            np.cumsum([1 + text.removesuffix("\n").count("\n") for text in texts]) - 1
        ]  # of the texts
        starts = _starts(ends)
    return model.sequence_log_probs(ids, ends - starts if model.carry else lengths), starts


def sums(scored: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The score of each text from those of its tokens."""
    log_probs, starts = scored
    return np.add.reduceat(log_probs, starts, dtype=np.float64)


def _starts(ends: np.ndarray) -> np.ndarray:
    """Where stretches begin that follow one another and end there."""
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1]
    return starts
