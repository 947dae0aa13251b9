"""Constraints on the next token: a forced prefix, no end before a minimum length, tokens that are
never drawn, and subword healing. All change log-probabilities, never the search.

Healing continues a prompt that ends inside a token as if it had not been cut there. "The qui" is
tokenized with "qui" as a separate token, after which a model that has learnt " quick" as one token
almost never sees "ck". Healing removes the last word and follows all its spellings; the last token
of a spelling may reach beyond the prompt's end. The generated text then begins with bytes of the
prompt, which the caller skips.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seqloom.batching import pad
from seqloom.decoding.stepper import State, Stepper, check_scores, prefill, select
from seqloom.errors import ConfigError


def postpone_end(log_probs: np.ndarray, eos_id: int) -> np.ndarray:
    """Forbid the end symbol, except in rows where it is the only token left. Return a new array.

    >>> postpone_end(np.array([[-0.5, -1.0], [0.0, -np.inf]]), eos_id=0)
    array([[-inf,  -1.],
           [  0., -inf]])
    """
    return rule_out(log_probs.copy(), np.array([eos_id]))


class Prefixes:
    """Tokens that the output of each prompt must begin with; None or empty for no constraint.

    A forced token keeps the log-probability that the model gives it, so hypotheses are scored as if
    search had found them; a token that the model finds impossible counts as certain, since no other
    is allowed (as in `restrict`).
    """

    def __init__(
        self,
        prefixes: Sequence[np.ndarray | Sequence[int] | None],
        limits: np.ndarray,
        vocab_size: int,
        eos_id: int,
    ) -> None:
        if len(prefixes) != len(limits):
            raise ValueError(
                f"prefixes are given for {len(prefixes)} prompts, but there are {len(limits)}"
            )
        rows = [np.asarray(() if prefix is None else prefix, np.int64) for prefix in prefixes]
        for number, (row, limit) in enumerate(zip(rows, limits.tolist())):
            if row.size and not 0 <= row.min() <= row.max() < vocab_size:
                raise ValueError(f"prefix {number} has a token id outside 0..{vocab_size - 1}")
            if eos_id in row:
                raise ConfigError(
                    f"prefix {number} contains the end symbol, after which nothing follows; leave it out"
                )
            if len(row) >= limit:
                raise ConfigError(
                    f"prefix {number} has {len(row)} tokens, but the output may have {limit} with its end; "
                    "raise max_tokens or shorten the prefix"
                )
        self.ids, _ = pad(rows, -1)  # -1: free
        self.longest = self.ids.shape[1]

    def force(self, log_probs: np.ndarray, prompt: np.ndarray, position: int) -> np.ndarray:
        """Rule out all but the forced token at this position, in the rows of prompts (R,) that have
        one. Return a new array.
        """
        if position >= self.longest:
            return log_probs
        tokens = self.ids[prompt, position]
        rows = np.flatnonzero(tokens >= 0)
        if not rows.size:
            return log_probs
        tokens = tokens[rows]
        token_log_probs = log_probs[rows, tokens]
        forced = log_probs.copy()
        forced[rows] = -np.inf
        forced[rows, tokens] = np.where(token_log_probs == -np.inf, 0.0, token_log_probs)
        return forced


def rule_out(
    log_probs: np.ndarray, tokens: np.ndarray, rows: np.ndarray | None = None
) -> np.ndarray:
    """Forbid some tokens, except in rows (..., V) where nothing else is left; `rows` of (n, V): only in
    these. Return the same array.
    """
    from seqloom.kernels.sampling import rule_out_in

    for table in log_probs if log_probs.ndim == 3 else [np.atleast_2d(log_probs)]:
        rule_out_in(table, np.arange(len(table)) if rows is None else rows, tokens)
    return log_probs


class Without:
    """A stepper that never proposes some tokens, unless the model leaves nothing else."""

    def __init__(self, stepper: Stepper, tokens: Sequence[int]) -> None:
        self.inner, self.tokens = stepper, np.array(tokens, np.int64)
        self.vocab_size, self.eos_id = stepper.vocab_size, stepper.eos_id
        for name in ("prefill", "extend"):
            if hasattr(stepper, name):
                setattr(self, name, getattr(self, f"_{name}"))
        for name in ("branch", "attention"):
            if hasattr(stepper, name):
                setattr(self, name, getattr(stepper, name))

    def _mask(self, result: tuple[State, np.ndarray]) -> tuple[State, np.ndarray]:
        state, log_probs = result
        return state, rule_out(log_probs, self.tokens)

    def start(self, n: int) -> tuple[State, np.ndarray]:
        return self._mask(self.inner.start(n))

    def step(self, state: State, ids: np.ndarray) -> tuple[State, np.ndarray]:
        return self._mask(self.inner.step(state, ids))

    def _prefill(self, prompts: Sequence[np.ndarray]) -> tuple[State, np.ndarray]:
        return self._mask(self.inner.prefill(prompts))  # type: ignore[attr-defined]

    def _extend(self, state: State, ids: np.ndarray) -> tuple[list[State], np.ndarray]:
        return self._mask(self.inner.extend(state, ids))  # type: ignore[attr-defined]


# ---- healing


class PrefixIndex:
    """Finds the tokens that start with a given prefix of bytes; built once per tokenizer.

    `token_bytes[i]` are the bytes of token i; special tokens have none (b"") and are never returned.

    >>> index = PrefixIndex([b"", b"qui", b"q", b"quick", b"qu", b"r"])
    >>> index.starting_with(b"qu")
    array([1, 3, 4])
    """

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self.token_bytes = token_bytes
        spelling = [i for i in range(len(token_bytes)) if token_bytes[i]]
        spelling.sort(key=token_bytes.__getitem__)
        self._ids = np.array(spelling, np.int64)
        self._sorted = [token_bytes[i] for i in spelling]

    def starting_with(self, prefix: bytes) -> np.ndarray:
        """Return the ids of the tokens that start with `prefix`, ascending, int64 (k,)."""
        low = bisect_left(self._sorted, prefix)
        high = bisect_right(self._sorted, prefix, lo=low, key=lambda token: token[: len(prefix)])
        return np.sort(self._ids[low:high])

    def prefixes_of(self, text: bytes) -> list[int]:
        """Return the tokens that spell a beginning of the text, but not all of it.

        >>> PrefixIndex([b"qu", b"q", b"quick", b"u"]).prefixes_of(b"quick")
        [1, 0]
        """
        tokens = []
        for length in range(1, len(text)):
            at = bisect_left(self._sorted, text[:length])
            if at < len(self._sorted) and self._sorted[at] == text[:length]:
                tokens.append(int(self._ids[at]))
        return tokens


class HealedPrompt(NamedTuple):
    """One spelling of a prompt with the constraint that its last bytes are a prefix of the first
    generated token.
    """

    ids: np.ndarray
    allowed: np.ndarray | None = None  # for the first generated token; None: any
    dropped: bytes = b""  # bytes of the prompt with which the first generated token begins
    log_prob: float = 0.0  # of exactly this spelling, summed over all allowed tokens


def heal(
    stepper: Stepper,
    index: PrefixIndex,
    base: np.ndarray,
    text: bytes,
    width: int = 16,
    read: tuple[State, np.ndarray] | None = None,
) -> list[HealedPrompt]:
    """Return the spellings of `text` after the tokens of `base` whose last token may reach beyond
    its end, best first.

    A prompt can break off inside a word of several tokens (" l" + "or" where " lord" is one), so
    removing one token is not enough. All spellings of the text are followed, the `width` likeliest
    at a time; drawing one of them by its probability and then a token that it allows continues the
    prompt as the model would have. `read`: the state and log-probabilities of one row after `base`,
    where they are known; they stay valid.
    """
    healed: list[HealedPrompt] = []
    paths = [(np.asarray(base, np.int64), text, 0.0)]
    state, log_probs = prefill(stepper, [paths[0][0]]) if read is None else read
    while paths:
        further, rows, tokens = [], [], []
        for row, (ids, unspelled, cost) in enumerate(paths):
            allowed = index.starting_with(unspelled)
            if len(allowed):
                mass = float(np.logaddexp.reduce(log_probs[row, allowed].astype(np.float64)))
                healed.append(HealedPrompt(ids, allowed, unspelled, cost + mass))
            for token in index.prefixes_of(unspelled):
                tail = unspelled[len(index.token_bytes[token]) :]
                further.append((np.append(ids, token), tail, cost + float(log_probs[row, token])))
                rows.append(row)
                tokens.append(token)
        best = sorted(range(len(further)), key=lambda i: -further[i][2])[:width]
        paths = [further[i] for i in best]
        if paths:
            state, log_probs = stepper.step(
                select(state, np.array(rows)[best]), np.array(tokens, np.int64)[best]
            )
            check_scores(log_probs, exact=False)
    return sorted((c for c in healed if c.log_prob > -np.inf), key=lambda c: -c.log_prob)


def restrict(log_probs: np.ndarray, allowed: Sequence[np.ndarray | None] | None) -> np.ndarray:
    """Rule out (-inf) all but the allowed ids of each row; None allows everything. Not renormalised.

    Where the model finds all allowed tokens impossible they become equally likely, since another token
    would contradict the prompt.
    """
    if allowed is None:
        return log_probs
    if len(allowed) != len(log_probs):
        raise ValueError(
            f"first tokens are given for {len(allowed)} rows, but there are {len(log_probs)}"
        )
    restricted = log_probs.copy()
    for row, ids in enumerate(allowed):
        if ids is None:
            continue
        if len(ids) == 0:
            raise ValueError(f"row {row} allows no token at all")
        original = log_probs[row, ids]
        restricted[row] = -np.inf
        restricted[row, ids] = original if (original > -np.inf).any() else -np.log(len(ids))
    return restricted
