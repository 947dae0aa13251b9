"""From the log-probabilities of a corpus's tokens to what its stretches cost, in bytes or in tokens."""

from __future__ import annotations

import numpy as np

from seqloom.data.corpus import Corpus
from seqloom.metrics.segments import line_segments, segment_sums
from seqloom.text.tokenizer import Tokenizer

FEW = 20  # segments
BLOCK = 500  # tokens that are resampled together where bytes are lost and units are long


def unit_lengths(ids: np.ndarray, eos_id: int) -> np.ndarray:
    """How many tokens each unit has, its `</s>` included; what comes after the last one is a unit that is still open.

    >>> unit_lengths(np.array([5, 0, 0, 3, 4, 0, 7]), eos_id=0).tolist()
    [2, 1, 3, 1]
    """
    ends = np.flatnonzero(ids == eos_id) + 1
    if len(ids) > (ends[-1] if len(ends) else 0):
        ends = np.append(ends, len(ids))
    return np.diff(ends, prepend=0)


def token_widths(tokenizer: Tokenizer, unit: str, ids: np.ndarray) -> np.ndarray:
    """The bytes of text that each token stands for, int64; with lines `</s>` is the newline."""
    widths = tokenizer.byte_lengths[ids].astype(np.int64)
    if unit == "line":
        widths[ids == tokenizer.eos_id] = 1
    return widths


def corpus_bytes(corpus: Corpus, unit: str) -> int:
    """The bytes that a model is charged for: with lines, a newline that a document lacks at its end is paid for too."""
    _ = corpus.fingerprint  # reading it once tells the size of compressed files too
    return (corpus.n_bytes or 0) + (corpus.open_lines if unit == "line" else 0)


def segment_costs(tokenizer: Tokenizer, unit: str, corpus: Corpus, ids: np.ndarray,
                  log_probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Costs (nats) and weights of stretches of text, to resample: lines in bytes, or in tokens where bytes are lost."""
    costs = -log_probs.astype(np.float64)
    if not tokenizer.lossless:
        lengths = unit_lengths(ids, tokenizer.eos_id)
        starts = np.cumsum(lengths) - lengths
        if unit != "line":  # a single long unit has no spread
            starts = np.union1d(starts, np.arange(0, len(ids), BLOCK))
        return np.add.reduceat(costs, starts), np.diff(starts, append=len(ids)).astype(np.float64)
    widths = token_widths(tokenizer, unit, ids)
    data = b"".join(line.encode() + b"\n" for line in corpus.lines()) if unit == "line" else corpus.text().encode()
    borders = line_segments(data)
    if len(borders) < FEW:  # hardly any lines: stretches of a hundredth say at least something of the spread
        borders = line_segments(data, block=max((corpus.n_bytes or 0) // 100, 1))
    return segment_sums(costs, np.cumsum(widths), borders), np.diff(borders, prepend=0).astype(np.float64)
