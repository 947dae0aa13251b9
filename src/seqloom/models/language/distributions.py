"""What a language model expects at every position of a known text: the whole distribution, not only the
probability of the token that stands there.

A network of torch reads the text at once, a model that sees a few tokens back reads many stretches of it side
by side, and any other takes one step for each position of its longest unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from seqloom.contracts import LanguageModel
from seqloom.decoding.stepper import rows_by_steps

MOST_VALUES = 1 << 23  # log-probabilities that are held at a time
STRETCH, SHORT_CONTEXT = 64, 16  # tokens of a stretch, and of a context that may be read twice


def distributions(
    model: LanguageModel, ids: np.ndarray, lengths: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield positions in `ids` (n,) and the natural-log probabilities (n, V) of all tokens there, for
    sequences of `lengths` tokens; each position comes once, in any order.
    """
    ids, lengths = np.asarray(ids, np.int64), np.asarray(lengths)
    at_once = max(MOST_VALUES // model.tokenizer.vocab_size, 1)
    network: Any = model
    if hasattr(model, "layers") and not network.reads_by_steps():
        yield from _by_network(network, ids, lengths, at_once)
        return
    batch = max(min(at_once, 64), 1)
    if model.context is None or model.context > SHORT_CONTEXT:
        yield from rows_by_steps(model.stepper(), ids, lengths, batch)
        return
    positions, sizes, again = _stretches(lengths, model.context)
    for at, log_probs in rows_by_steps(model.stepper(), ids[positions], sizes, batch):
        new = ~again[at]
        if new.any():
            yield positions[at[new]], log_probs[new]


def _stretches(lengths: np.ndarray, context: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divide sequences into stretches that begin with the `context` tokens before them: the positions of
    all, how many each has, and which are only read again.
    """
    positions, sizes, again = [], [], []
    for begin, length in zip((np.cumsum(lengths) - lengths).tolist(), lengths.tolist()):
        for low in range(0, length, STRETCH):
            first, high = max(low - context, 0), min(low + STRETCH, length)
            positions.append(begin + np.arange(first, high))
            again.append(np.arange(first, high) < low)
            sizes.append(high - first)
    if not positions:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool)
    return np.concatenate(positions), np.array(sizes), np.concatenate(again)


def _by_network(
    model: Any, ids: np.ndarray, lengths: np.ndarray, at_once: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the same by a network of torch, which reads all tokens of a sequence together."""
    import torch

    network = model.network()
    with torch.inference_mode():
        for positions, features in model.layers.flat_features(model, network, ids, lengths):
            for low in range(0, len(positions), at_once):
                part = features[low : low + at_once]
                yield (
                    positions[low : low + at_once],
                    network.output.log_probs(part).float().cpu().numpy(),
                )
