"""Perplexity and its relatives, from the log-probability of each token.

All of them measure the cross-entropy of the model against the text that came, -(1/N) sum ln q(w_i | past),
never the entropy of the model's own output: a model that is sure and wrong has a high perplexity.

Two conventions are made explicit. Out-of-vocabulary tokens are counted (`perplexity`) or left out of both
the sum and the number (`perplexity_without_oov`), as KenLM's `query` prints them. A token of probability
zero makes the perplexity infinite; how many there are is a number of its own, and none is dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from seqloom.errors import DataError

SLACK = 1e-3  # how far float32 arithmetic may lift a log-probability above zero


def nats(log_probs: np.ndarray) -> float:
    """The cost of the text, -sum ln q, in natural-log units.

    >>> nats(np.log([0.5, 0.25])) / math.log(2)
    3.0
    """
    return 0.0 - float(_checked(log_probs).sum())  # pairwise, in float64


def bits_per_token(log_probs: np.ndarray) -> float:
    """The mean cost of a token in bits: log2 of the perplexity.

    >>> bits_per_token(np.log([0.5, 0.25]))
    1.5
    """
    return nats(log_probs) / _positive(len(log_probs), "tokens") / math.log(2)


def bits_per_byte(log_probs: np.ndarray, n_bytes: int) -> float:
    """The cost of the text in bits for each of its bytes, which does not depend on the tokens.

    >>> bits_per_byte(np.log([1 / 256] * 4), n_bytes=4)
    8.0
    """
    return nats(log_probs) / math.log(2) / _positive(n_bytes, "bytes")


def perplexity(log_probs: np.ndarray) -> float:
    """exp of the mean cost: between how many equally likely tokens the model would have to choose.

    >>> round(perplexity(np.log([1 / 7] * 5)), 6)  # uniform over seven
    7.0
    >>> round(perplexity(np.log([0.01, 0.01])), 6)  # sure of something else
    100.0
    """
    return _exp(nats(log_probs), _positive(len(log_probs), "tokens"))


def perplexity_without_oov(log_probs: np.ndarray, is_oov: np.ndarray) -> float | None:
    """The perplexity of the tokens that are in the vocabulary; None if there are none.

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
    """How many tokens the model held to be impossible.

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
        """The next tokens; `is_oov` is None for a tokenizer that can spell everything."""
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
        """All of the above by name, for a `Result`."""
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
    """The same of tokens that are all there."""
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
