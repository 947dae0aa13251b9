"""Drafting: a quick model proposes several tokens, the model that is asked checks them all in one pass.

Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding", and Chen et al.
2023, "Accelerating Large Language Model Decoding with Speculative Sampling". A proposed token is
accepted with probability min(1, p / q), where p is what the checking model and q what the drafting
one would draw it with. The first that is not accepted is replaced by a draw from what p has more
than q, max(p - q, 0) normalised, and the proposals behind it are dropped. So every token is drawn
from p, whatever q is: a bad draft takes time and changes nothing else. p and q are what is drawn
from, after penalty, temperature, top-k and top-p. At temperature 0 both are certain of one token,
and the result is that of greedy search.

Each round reads the last token and its drafted successors with one `extend` of the checking
Stepper. Rows are drafted for one by one, because each accepts another number of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from seqloom.decoding.constraints import postpone_end, restrict
from seqloom.decoding.sampling import SamplingConfig, filter_log_probs
from seqloom.decoding.stepper import State, Stepper, branch, extend, prefill

DRAFTED = 4  # tokens that are proposed at a time


class Chance:
    """The random decisions for one text."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def draw(self, probs: np.ndarray) -> int:
        """Draw a token by its probability; probabilities need not sum to one, and one of probability
        zero is never drawn.
        """
        cumulative = np.cumsum(probs)
        return int(
            np.searchsorted(cumulative, cumulative[-1] * self._generator.random(), side="right")
        )

    def accepts(self, p: float, q: float) -> bool:
        """Return True with probability min(1, p / q)."""
        return self._generator.random() * q < p


class _Prefix:
    """What both distributions depend on besides the models: how long the text is, and which tokens it has."""

    def __init__(
        self, prompt: np.ndarray, config: SamplingConfig, vocab_size: int, eos_id: int
    ) -> None:
        self.config, self.eos_id, self.length = config, eos_id, 0
        self._seen: np.ndarray | None = None
        if config.repetition_penalty != 1:
            self._seen = np.zeros(vocab_size, bool)
            self._seen[prompt] = True

    def add(self, token: int) -> None:
        self.length += 1
        if self._seen is not None:
            self._seen[token] = True

    def law(self, log_probs: np.ndarray, ahead: Sequence[int] = ()) -> np.ndarray:
        """Return the probabilities (V,) that a token is drawn with after the prefix and the tokens
        `ahead` of it.
        """
        rows = log_probs[None]
        if self.length + len(ahead) < self.config.min_tokens:
            rows = postpone_end(rows, self.eos_id)
        seen = None
        if self._seen is not None:
            seen = self._seen[None].copy()
            seen[0, list(ahead)] = True
        filtered = filter_log_probs(rows, self.config, seen)[0]
        if self.config.temperature:
            return np.exp(filtered)
        law = np.zeros(len(filtered))
        law[filtered.argmax()] = 1
        return law


def draw_drafted(
    checker: Stepper,
    drafter: Stepper,
    prompt: np.ndarray,
    config: SamplingConfig,
    chance: Chance,
    *,
    drafted: int = DRAFTED,
    first_allowed: np.ndarray | None = None,
) -> Iterator[int]:
    """Yield the tokens that follow a prompt, up to the end symbol or `max_tokens`: drawn from
    `checker`, up to `drafted` at a time proposed by `drafter`. `first_allowed` as in
    `sampling.sample`.
    """
    prefix = _Prefix(prompt, config, checker.vocab_size, checker.eos_id)
    state, log_probs = prefill(checker, [prompt])
    token = chance.draw(prefix.law(restrict(log_probs, [first_allowed])[0]))
    drafting, unread = prefill(drafter, [prompt])[0], [token]
    prefix.add(token)
    yield token
    while token != checker.eos_id and prefix.length < config.max_tokens:
        most = min(drafted, config.max_tokens - prefix.length - 1)
        proposals, laws, before = _propose(drafter, drafting, unread, prefix, most, chance)
        states, found = extend(checker, state, np.array([[token, *proposals]], np.int64))
        tokens = _checked(found[0], proposals, laws, prefix, chance)
        state = states[len(tokens) - 1]
        read = max(
            min(len(tokens), len(before)) - 1, 0
        )  # proposals that the drafter has read, and that were accepted
        drafting, unread = before[read] if before else drafting, tokens[read:]
        for token in tokens:
            prefix.add(token)
            yield token
            if token == checker.eos_id:
                return


def _propose(
    drafter: Stepper, state: State, unread: list[int], prefix: _Prefix, most: int, chance: Chance
) -> tuple[list[int], list[np.ndarray], list[State]]:
    """Return at most `most` tokens, the distribution each was drawn from, and the states before
    each; the state is before `unread`.
    """
    proposals: list[int] = []
    laws: list[np.ndarray] = []
    before: list[State] = []
    while len(proposals) < most and drafter.eos_id not in proposals:
        for token in proposals[-1:] or unread:
            state, log_probs = drafter.step(branch(drafter, state), np.array([token], np.int64))
        laws.append(prefix.law(log_probs[0], proposals))
        before.append(state)
        proposals.append(chance.draw(laws[-1]))
    return proposals, laws, before


def _checked(
    found: np.ndarray,
    proposals: Sequence[int],
    laws: Sequence[np.ndarray],
    prefix: _Prefix,
    chance: Chance,
) -> list[int]:
    """Return the accepted proposals and one more token; `found` are log-probabilities (k, V) after
    none, one, ... of the proposals.
    """
    tokens: list[int] = []
    for log_probs, proposal, q in zip(
        found, proposals[: len(found) - 1], laws
    ):  # the others were not read
        p = prefix.law(log_probs, tokens)
        if not chance.accepts(float(p[proposal]), float(q[proposal])):
            more = np.maximum(p - q, 0)
            return [
                *tokens,
                chance.draw(more if more.any() else p),
            ]  # nothing is left only where rounding decided
        tokens.append(proposal)
    return [*tokens, chance.draw(prefix.law(found[len(tokens)], tokens))]
