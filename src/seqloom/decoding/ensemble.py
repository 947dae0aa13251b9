"""Ensembles: a Stepper made of several Steppers; its state is the tuple of theirs.

`probability` takes the mean of their probabilities: a token that one member likes stays likely.
`log` takes the mean of their log-probabilities, renormalised (a geometric mean): a token must be
likely to all, and one that is impossible to a member is impossible. Members need equal
vocabularies, token for token; their sources may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from seqloom.decoding.beam import Attending
from seqloom.decoding.stepper import State, Stepper, prefill
from seqloom.errors import ConfigError

Mean = Literal["probability", "log"]


class Ensemble:
    """A Stepper of several; shows the mean of its members' attention if all of them show theirs."""

    def __init__(self, members: Sequence[Stepper], *, mean: Mean = "probability") -> None:
        if not members:
            raise ConfigError("an ensemble needs at least one model")
        if mean not in ("probability", "log"):
            raise ConfigError(f"the mean of an ensemble must be probability or log; got {mean!r}")
        self.members, self.mean = list(members), mean
        self.vocab_size, self.eos_id = members[0].vocab_size, members[0].eos_id
        for number, member in enumerate(self.members[1:], 2):
            _check_same_vocabulary(members[0], member, number)
        if all(isinstance(member, Attending) for member in self.members):
            self.attention = self._attention

    def start(self, n: int) -> tuple[State, np.ndarray]:
        return self._combine([member.start(n) for member in self.members])

    def step(self, state: State, ids: np.ndarray) -> tuple[State, np.ndarray]:
        return self._combine([member.step(part, ids) for member, part in zip(self.members, state)])

    def prefill(self, prompts: Sequence[np.ndarray]) -> tuple[State, np.ndarray]:
        """Let each member read the prompts in its own fastest way."""
        return self._combine([prefill(member, prompts) for member in self.members])

    def _combine(self, results: list[tuple[State, np.ndarray]]) -> tuple[State, np.ndarray]:
        states = tuple(state for state, _ in results)
        if len(results) == 1:
            return states, results[0][1]
        log_probs = np.stack([log_probs for _, log_probs in results])  # (M, n, V)
        mean = mean_of_probabilities if self.mean == "probability" else mean_of_logs
        return states, mean(log_probs)

    def _attention(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        attentions: list[tuple[np.ndarray, np.ndarray]] = [
            member.attention(part)  # type: ignore[attr-defined]
            for member, part in zip(self.members, state)
        ]
        weights, lengths = zip(*attentions)
        for number, member_lengths in enumerate(lengths[1:], 2):
            if not np.array_equal(lengths[0], member_lengths):
                raise ConfigError(
                    f"member {number} of the ensemble cuts sources into other tokens than the "
                    f"first, so their "
                    "attention has no mean; set coverage_penalty to 0"
                )
        longest = min(each.shape[1] for each in weights)  # what is beyond is padding
        return np.mean([each[:, :longest] for each in weights], axis=0), lengths[0]


def mean_of_probabilities(log_probs: np.ndarray) -> np.ndarray:
    """Return the log of the mean of probabilities, (n, V) from log-probabilities (M, n, V).

    >>> np.exp(mean_of_probabilities(np.log([[[0.5, 0.5]], [[0.1, 0.9]]]))).round(3).tolist()
    [[0.3, 0.7]]
    """
    top = log_probs.max(axis=0)
    shift = np.where(top == -np.inf, 0, top)  # NaN stays, to be refused
    with np.errstate(divide="ignore"):
        return np.log(np.exp(log_probs - shift).mean(axis=0)) + shift


def mean_of_logs(log_probs: np.ndarray) -> np.ndarray:
    """Return the log of the renormalised geometric mean of probabilities, (n, V) from
    log-probabilities (M, n, V).

    >>> np.exp(mean_of_logs(np.log([[[0.5, 0.5]], [[0.1, 0.9]]]))).round(3).tolist()
    [[0.25, 0.75]]
    """
    mean = log_probs.mean(axis=0)
    mean -= np.where(np.isneginf(top := mean.max(axis=1, keepdims=True)), 0, top)
    total: Any = np.exp(mean).sum(axis=1, keepdims=True)
    # a row where every token is impossible to some member stays -inf, to be refused
    return mean - np.log(np.where(total == 0, 1, total))


def _check_same_vocabulary(first: Stepper, member: Stepper, number: int) -> None:
    if member.vocab_size != first.vocab_size or member.eos_id != first.eos_id:
        raise ConfigError(
            f"member {number} of the ensemble has another vocabulary than the first ({member.vocab_size:,} "
            f"tokens and end symbol {member.eos_id}, not {first.vocab_size:,} and {first.eos_id}); "
            "fit all members with the same target tokenizer"
        )
