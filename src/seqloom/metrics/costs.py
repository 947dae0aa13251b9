"""From the log-probabilities of a corpus's tokens to what its stretches cost, in bytes or in tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from seqloom.data.corpus import Corpus
from seqloom.metrics.segments import segment_ends, segment_sums
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
    corpus.read_through()  # which tells the size of compressed files too
    return (corpus.n_bytes or 0) + (corpus.open_lines if unit == "line" else 0)


class SegmentCosts:
    """Costs (nats) and weights of stretches of text, to resample: lines in bytes, or in tokens where bytes are lost."""

    def __init__(self, tokenizer: Tokenizer, unit: str, corpus: Corpus) -> None:
        self.tokenizer, self.unit = tokenizer, unit
        self.borders = _borders(corpus, unit) if tokenizer.lossless else np.zeros(0, np.int64)
        self.sums = np.zeros(len(self.borders))
        self.read = 0  # bytes, or tokens where bytes are lost
        self.parts: list[tuple[np.ndarray, np.ndarray]] = []
        self.open = False  # whether the last part goes on

    def add(self, ids: np.ndarray, log_probs: np.ndarray) -> None:
        """The next tokens."""
        if len(ids):
            add = self._add_bytes if self.tokenizer.lossless else self._add_tokens
            add(ids, -log_probs.astype(np.float64))

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        if self.tokenizer.lossless:
            return self.sums, np.diff(self.borders, prepend=0).astype(np.float64)
        costs, weights = (np.concatenate(part) for part in zip(*self.parts))
        return costs, weights

    def _add_bytes(self, ids: np.ndarray, costs: np.ndarray) -> None:
        ends = self.read + np.cumsum(token_widths(self.tokenizer, self.unit, ids))
        self.sums += segment_sums(costs, ends, self.borders, self.read)
        self.read = int(ends[-1])

    def _add_tokens(self, ids: np.ndarray, costs: np.ndarray) -> None:
        starts = np.append(0, np.flatnonzero(ids[:-1] == self.tokenizer.eos_id) + 1)
        if self.unit != "line":  # a single long unit has no spread
            starts = np.union1d(starts, np.arange(-self.read % BLOCK, len(ids), BLOCK))
        sums, weights = (
            np.add.reduceat(costs, starts),
            np.diff(starts, append=len(ids)).astype(np.float64),
        )
        if self.open and (self.unit == "line" or self.read % BLOCK):
            self.parts[-1][0][-1] += sums[0]
            self.parts[-1][1][-1] += weights[0]
            sums, weights = sums[1:], weights[1:]
        if len(sums):
            self.parts.append((sums, weights))
        self.read += len(ids)
        self.open = bool(ids[-1] != self.tokenizer.eos_id)


def segment_costs(
    tokenizer: Tokenizer, unit: str, corpus: Corpus, ids: np.ndarray, log_probs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same of a corpus whose tokens are all there."""
    costs = SegmentCosts(tokenizer, unit, corpus)
    costs.add(ids, log_probs)
    return costs.result()


def _borders(corpus: Corpus, unit: str) -> np.ndarray:
    total = corpus_bytes(corpus, unit)
    borders = segment_ends(_bytes(corpus, unit), total)
    if (
        len(borders) < FEW
    ):  # hardly any lines: stretches of a hundredth say at least something of the spread
        borders = segment_ends(
            _bytes(corpus, unit), total, block=max((corpus.n_bytes or 0) // 100, 1)
        )
    return borders


def _bytes(corpus: Corpus, unit: str) -> Iterator[bytes]:
    """The text that a model is charged for; with lines, also the newline that a document lacks at its end."""
    for document in corpus.documents:
        last = b"\n"
        for chunk in document.chunks():
            yield chunk
            last = chunk[-1:]
        if unit == "line" and last != b"\n":
            yield b"\n"
