"""Drafting: a fast model proposes several tokens, which the model itself checks in one pass.

Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding", and Chen et al.
2023, "Accelerating Large Language Model Decoding with Speculative Sampling". A proposed token is
accepted with probability min(1, p / q), where p is its probability under the checking model and q
under the drafting one, both after penalty, temperature, top-k and top-p. The first that is not
accepted is replaced by a draw from max(p - q, 0), normalised, and the proposals after it are
dropped. So every token is drawn from p, whatever q is: a bad draft costs time and changes nothing
else. At temperature 0 both are certain of one token, and the result is that of greedy search.

Each round reads the last token and its drafted successors with one `extend` of the checking
Stepper. Rows are drafted one by one, because each accepts a different number of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from seqloom.decoding.constraints import postpone_end, restrict
from seqloom.decoding.sampling import SamplingConfig, filter_log_probs
from seqloom.decoding.stepper import State, Stepper, branch, extend, prefill

DRAFTED = 4  # tokens proposed at a time


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
    """What both distributions depend on besides the models: the length of the text and its tokens."""

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
        """Return the probabilities (V,) of drawing each token after the prefix and the tokens `ahead`
        that follow it.
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
        n_proposals = min(drafted, config.max_tokens - prefix.length - 1)
        proposals, laws, before = _propose(drafter, drafting, unread, prefix, n_proposals, chance)
        states, log_probs = extend(checker, state, np.array([[token, *proposals]], np.int64))
        tokens = _checked(log_probs[0], proposals, laws, prefix, chance)
        state = states[len(tokens) - 1]
        # accepted proposals that the drafter has read
        read = max(min(len(tokens), len(before)) - 1, 0)
        drafting, unread = before[read] if before else drafting, tokens[read:]
        for token in tokens:
            prefix.add(token)
            yield token
            if token == checker.eos_id:
                return


def _propose(
    drafter: Stepper, state: State, unread: list[int], prefix: _Prefix, n: int, chance: Chance
) -> tuple[list[int], list[np.ndarray], list[State]]:
    """Return at most n tokens, the distribution each was drawn from, and the state before each;
    `state` has not read the tokens `unread`.
    """
    proposals: list[int] = []
    laws: list[np.ndarray] = []
    before: list[State] = []
    while len(proposals) < n and drafter.eos_id not in proposals:
        for token in proposals[-1:] or unread:
            state, log_probs = drafter.step(branch(drafter, state), np.array([token], np.int64))
        laws.append(prefix.law(log_probs[0], proposals))
        before.append(state)
        proposals.append(chance.draw(laws[-1]))
    return proposals, laws, before


def _checked(
    log_probs: np.ndarray,
    proposals: Sequence[int],
    laws: Sequence[np.ndarray],
    prefix: _Prefix,
    chance: Chance,
) -> list[int]:
    """Return the accepted proposals and one more token; `log_probs` (k, V) are those after none,
    one, ... of the proposals.
    """
    tokens: list[int] = []
    n_read = len(log_probs) - 1  # `extend` may stop early
    for row, proposal, q in zip(log_probs, proposals[:n_read], laws):
        p = prefix.law(row, tokens)
        if not chance.accepts(float(p[proposal]), float(q[proposal])):
            excess = np.maximum(p - q, 0)  # all zero only by rounding
            return [*tokens, chance.draw(excess if excess.any() else p)]
        tokens.append(proposal)
    return [*tokens, chance.draw(prefix.law(log_probs[len(tokens)], tokens))]
