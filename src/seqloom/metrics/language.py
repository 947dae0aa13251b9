"""The cost of a text, from the log-probability of each token: perplexity and its relatives, for a whole
text and for the segments in which models are compared and resampled.

All of them measure the cross-entropy of the model against the text that came, -(1/N) sum ln q(w_i | past),
never the entropy of the model's own output: a model that is sure and wrong has a high perplexity.
Out-of-vocabulary tokens are counted (`perplexity`) or left out of both the sum and the number
(`perplexity_without_oov`), as KenLM's `query` prints them. A token of probability zero makes the
perplexity infinite; how many there are is a number of its own, and none is dropped.

Models cut the same text into different tokens, so they are compared on segments of its bytes. A token
counts for the segment in which it starts; a token without bytes of its own (an end symbol) counts for the
segment of the byte before it, which it ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from seqloom.data.corpus import Corpus
from seqloom.errors import DataError
from seqloom.text.tokenizer import Tokenizer

MAX_SEGMENTS = 5000  # segments; more would not make an interval better, only slower
LONG = 20  # a line is cut when it is longer than this many blocks


def segment_sums(
    token_nats: np.ndarray,
    token_end_byte: np.ndarray,
    segment_end_byte: np.ndarray,
    first_byte: int = 0,
) -> np.ndarray:
    """Return the sum over the tokens of each segment, float64; offsets count from the start of the
    text.

    `first_byte`: where the first token starts, of tokens from the middle of a text.

    >>> segment_sums(np.array([1.0, 2.0, 4.0]), np.array([3, 6, 8]), np.array([4, 8]))
    array([3., 4.])
    """
    ends, bounds = np.asarray(token_end_byte, np.int64), np.asarray(segment_end_byte, np.int64)
    if len(token_nats) != len(ends):
        raise ValueError(f"{len(token_nats)} costs for {len(ends)} tokens")
    if (np.diff(ends, prepend=first_byte) < 0).any() or (np.diff(bounds, prepend=0) <= 0).any():
        raise ValueError("token ends must not fall, and segment ends must rise")
    starts = np.concatenate([[first_byte], ends[:-1]]) if len(ends) else ends
    starts = np.where(starts == ends, np.maximum(ends - 1, 0), starts)
    # Segment s holds the bytes bounds[s-1]..bounds[s]-1.
    owner = np.searchsorted(bounds, starts, side="right")
    if len(owner) and owner[-1] >= len(bounds):
        raise ValueError(f"a token starts at byte {starts[-1]}, after the end of the last segment")
    return np.bincount(owner, weights=np.asarray(token_nats, np.float64), minlength=len(bounds))


def line_segments(data: bytes, *, minimum: int = 1, block: int = 1000) -> np.ndarray:
    r"""Find where segments end: after lines, int64, rising, the last one at the end of the text.

    A line of more than 20 blocks is cut into blocks, so that text without lines has segments too. Then
    neighbours are joined until each has at least `minimum` bytes and there are not more than 5000.

    >>> line_segments(b"one\ntwo\nthree").tolist()
    [4, 8, 13]
    >>> line_segments(b"one\ntwo\nthree", minimum=5).tolist()
    [8, 13]
    """
    return segment_ends([data], len(data), minimum=minimum, block=block)


def segment_ends(
    chunks: Iterable[bytes], total: int, *, minimum: int = 1, block: int = 1000
) -> np.ndarray:
    """Find the `line_segments` of a text of `total` bytes that comes in chunks."""
    if minimum < 1 or block < 1:
        raise ValueError(f"minimum and block must be at least 1; got {minimum} and {block}")
    if not total:
        return np.zeros(0, np.int64)
    minimum = max(minimum, -(-total // MAX_SEGMENTS))
    chosen: list[int] = []
    read = begin = at = (
        0  # bytes; where the line that is being read begins; where the last segment ends
    )
    for chunk in chunks:
        ends = read + 1 + np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
        read += len(chunk)
        if read == total and (not len(ends) or ends[-1] != total):
            ends = np.append(ends, total)
        if not len(ends):
            continue
        candidates, begin = _cut_long(begin, ends, block), int(ends[-1])
        while (index := int(np.searchsorted(candidates, at + minimum))) < len(candidates):
            # Neighbours are joined until a segment has the minimum.
            at = int(candidates[index])
            chosen.append(at)
    return np.array([*chosen[:-1], total], np.int64)  # the rest of the text joins the last segment


def _cut_long(begin: int, ends: np.ndarray, block: int) -> np.ndarray:
    """Add ends inside long lines, `block` bytes apart; the last block of a line may be up to twice
    as long.
    """
    starts = np.concatenate([[begin], ends[:-1]])
    long = np.flatnonzero(ends - starts > LONG * block)
    inside = [np.arange(starts[i] + block, ends[i] - block + 1, block) for i in long]
    return np.sort(np.concatenate([ends, *inside]))


# ---- costs

MIN_SEGMENTS = 20  # segments
BLOCK = 500  # tokens that are resampled together where bytes are lost and units are long


def unit_lengths(ids: np.ndarray, eos_id: int) -> np.ndarray:
    """Return how many tokens each unit has, its `</s>` included; what comes after the last one is
    a unit that is still open.

    >>> unit_lengths(np.array([5, 0, 0, 3, 4, 0, 7]), eos_id=0).tolist()
    [2, 1, 3, 1]
    """
    ends = np.flatnonzero(ids == eos_id) + 1
    if len(ids) > (ends[-1] if len(ends) else 0):
        ends = np.append(ends, len(ids))
    return np.diff(ends, prepend=0)


def token_widths(tokenizer: Tokenizer, unit: str, ids: np.ndarray) -> np.ndarray:
    """Return how many bytes of text each token stands for, int64; with lines, `</s>` is the
    newline.
    """
    widths = tokenizer.byte_lengths[ids].astype(np.int64)
    if unit == "line":
        widths[ids == tokenizer.eos_id] = 1
    return widths


def corpus_bytes(corpus: Corpus, unit: str) -> int:
    """Count the bytes that a model is charged for: with lines, also a newline that a document
    lacks at its end.
    """
    corpus.read_through()  # which tells the size of compressed files too
    return (corpus.n_bytes or 0) + (corpus.open_lines if unit == "line" else 0)


class SegmentCosts:
    """Costs (nats) and weights of stretches of text, to resample: lines in bytes, or in tokens
    where bytes are lost.
    """

    def __init__(self, tokenizer: Tokenizer, unit: str, corpus: Corpus) -> None:
        self.tokenizer, self.unit = tokenizer, unit
        self.bounds = _segment_bounds(corpus, unit) if tokenizer.lossless else np.zeros(0, np.int64)
        self.sums = np.zeros(len(self.bounds))
        self.read = 0  # bytes, or tokens where bytes are lost
        self.parts: list[tuple[np.ndarray, np.ndarray]] = []
        self.open = False  # whether the last part goes on

    def add(self, ids: np.ndarray, log_probs: np.ndarray) -> None:
        """Add the next tokens."""
        if len(ids):
            add = self._add_bytes if self.tokenizer.lossless else self._add_tokens
            add(ids, -log_probs.astype(np.float64))

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        if self.tokenizer.lossless:
            return self.sums, np.diff(self.bounds, prepend=0).astype(np.float64)
        costs, weights = (np.concatenate(part) for part in zip(*self.parts))
        return costs, weights

    def _add_bytes(self, ids: np.ndarray, costs: np.ndarray) -> None:
        ends = self.read + np.cumsum(token_widths(self.tokenizer, self.unit, ids))
        self.sums += segment_sums(costs, ends, self.bounds, self.read)
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
    """Compute the costs and weights of the segments of a corpus from all its tokens at once."""
    costs = SegmentCosts(tokenizer, unit, corpus)
    costs.add(ids, log_probs)
    return costs.result()


def _segment_bounds(corpus: Corpus, unit: str) -> np.ndarray:
    total = corpus_bytes(corpus, unit)
    bounds = segment_ends(_bytes(corpus, unit), total)
    if len(bounds) < MIN_SEGMENTS:
        # Hardly any lines: stretches of a hundredth say at least something of the spread.
        bounds = segment_ends(
            _bytes(corpus, unit), total, block=max((corpus.n_bytes or 0) // 100, 1)
        )
    return bounds


def _bytes(corpus: Corpus, unit: str) -> Iterator[bytes]:
    """Yield the text that a model is charged for; with lines, also the newline that a document
    lacks at its end.
    """
    for document in corpus.documents:
        last = b"\n"
        for chunk in document.chunks():
            yield chunk
            last = chunk[-1:]
        if unit == "line" and last != b"\n":
            yield b"\n"


# ---- likelihood

SLACK = 1e-3  # how far float32 arithmetic may lift a log-probability above zero


def nats(log_probs: np.ndarray) -> float:
    """Return the cost of the text, -sum ln q, in natural-log units.

    >>> nats(np.log([0.5, 0.25])) / math.log(2)
    3.0
    """
    return 0.0 - float(_checked(log_probs).sum())  # pairwise, in float64


def bits_per_token(log_probs: np.ndarray) -> float:
    """Return the mean cost of a token in bits: log2 of the perplexity.

    >>> bits_per_token(np.log([0.5, 0.25]))
    1.5
    """
    return nats(log_probs) / _positive(len(log_probs), "tokens") / math.log(2)


def bits_per_byte(log_probs: np.ndarray, n_bytes: int) -> float:
    """Return the cost of the text in bits per byte, which does not depend on the tokens.

    >>> bits_per_byte(np.log([1 / 256] * 4), n_bytes=4)
    8.0
    """
    return nats(log_probs) / math.log(2) / _positive(n_bytes, "bytes")


def perplexity(log_probs: np.ndarray) -> float:
    """Return exp of the mean cost: between how many equally likely tokens the model would have to
    choose.

    >>> round(perplexity(np.log([1 / 7] * 5)), 6)  # uniform over seven
    7.0
    >>> round(perplexity(np.log([0.01, 0.01])), 6)  # sure of something else
    100.0
    """
    return _exp(nats(log_probs), _positive(len(log_probs), "tokens"))


def perplexity_without_oov(log_probs: np.ndarray, is_oov: np.ndarray) -> float | None:
    """Return the perplexity of the tokens that are in the vocabulary; None if there are none.

    >>> round(perplexity_without_oov(np.log([0.5, 0.5, 1e-9]), np.array([False, False, True])), 6)
    2.0
    """
    values, oov = np.asarray(log_probs), np.asarray(is_oov, dtype=bool)
    if values.shape != oov.shape:
        raise ValueError(
            f"{values.size} log-probabilities, but {oov.size} marks of out-of-vocabulary tokens"
        )
    return None if oov.all() else perplexity(values[~oov])


def zero_tokens(log_probs: np.ndarray) -> int:
    """Count the tokens that the model held to be impossible.

    >>> zero_tokens(np.array([-1.0, -np.inf]))
    1
    """
    return int(np.count_nonzero(np.isneginf(log_probs)))


@dataclass
class Tally:
    """The sums behind all of them, of a text that is scored in portions."""

    nats: float = 0.0
    tokens: int = 0
    known_nats: float = 0.0  # without out-of-vocabulary tokens
    oov_tokens: int = 0
    zero_tokens: int = 0

    def add(self, log_probs: np.ndarray, is_oov: np.ndarray | None) -> None:
        """Add the next tokens; `is_oov` is None for a tokenizer that can spell everything."""
        cost = nats(log_probs)
        self.nats += cost
        self.tokens += len(log_probs)
        self.zero_tokens += zero_tokens(log_probs)
        if is_oov is None or not is_oov.any():
            self.known_nats += cost
        else:
            self.known_nats += nats(np.asarray(log_probs)[~is_oov])
            self.oov_tokens += int(is_oov.sum())

    @property
    def perplexity(self) -> float:
        return _exp(self.nats, _positive(self.tokens, "tokens"))

    def summary(self, n_bytes: int) -> dict[str, float | int | None]:
        """Return all of the above by name, for a `Result`."""
        known = self.tokens - self.oov_tokens
        return {
            "bits_per_byte": self.nats / math.log(2) / _positive(n_bytes, "bytes"),
            "bits_per_token": self.nats / _positive(self.tokens, "tokens") / math.log(2),
            "perplexity": self.perplexity,
            "perplexity_without_oov": _exp(self.known_nats, known) if known else None,
            "nats": self.nats,
            "tokens": self.tokens,
            "oov_tokens": self.oov_tokens,
            "zero_tokens": self.zero_tokens,
            "bytes": n_bytes,
        }


def summarize(
    log_probs: np.ndarray, is_oov: np.ndarray | None, n_bytes: int
) -> dict[str, float | int | None]:
    """Return all metrics by name, from all tokens at once."""
    tally = Tally()
    tally.add(log_probs, None if is_oov is None else np.asarray(is_oov, dtype=bool))
    return tally.summary(n_bytes)


def _exp(nats: float, count: int) -> float:
    mean = nats / count
    return math.exp(mean) if mean < 700 else math.inf  # exp overflows soon after


def _positive(count: int, what: str) -> int:
    if count <= 0:
        raise DataError(f"there are no {what} to divide by: the text is empty")
    return count


def _checked(log_probs: np.ndarray) -> np.ndarray:
    values = np.asarray(log_probs, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(
            f"expected one log-probability for each token; got an array of shape {values.shape}"
        )
    if np.isnan(values).any() or (values > SLACK).any():
        raise ValueError(
            "a log-probability is NaN or above zero: the model is broken, not the text"
        )
    return values
