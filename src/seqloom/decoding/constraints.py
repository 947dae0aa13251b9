"""What may come next: a forced prefix, no end before a minimum length, and never some tokens. All
change log-probabilities, never the search.

A forced token keeps the log-probability that the model gives it, so hypotheses are scored as if
they had been found; one that the model finds impossible counts as certain, since nothing else may
stand there (as in `healing.restrict`).

Subword healing: a prompt that ends inside a token is continued as if it had not been cut there.

"The qui" is tokenized so that "qui" is a token of its own, after which a model that has learnt " quick"
as one token almost never sees "ck". Healing takes the last word back and follows all ways to spell it; the
last token of such a way may reach beyond the prompt's end. The text that is then generated begins with bytes
that were taken back, which the caller leaves out when showing it.
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
    open_ended = log_probs.copy()
    open_ended[:, eos_id] = -np.inf
    stuck = ~np.isfinite(open_ended.max(axis=1))
    open_ended[stuck] = log_probs[stuck]
    return open_ended


class Prefixes:
    """The tokens that the output of each prompt must begin with; None or nothing where it may begin
    as it likes.
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
        """Leave only the forced token at this position to the rows of prompts (R,) that have one.
        Return a new array.
        """
        if position >= self.longest:
            return log_probs
        tokens = self.ids[prompt, position]
        rows = np.flatnonzero(tokens >= 0)
        if not rows.size:
            return log_probs
        tokens = tokens[rows]
        kept = log_probs[rows, tokens]
        forced = log_probs.copy()
        forced[rows] = -np.inf
        forced[rows, tokens] = np.where(kept == -np.inf, 0.0, kept)
        return forced


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
        kept = log_probs[..., self.tokens]  # a copy
        log_probs[..., self.tokens] = -np.inf
        alone = np.isneginf(log_probs.max(axis=-1))
        log_probs[..., self.tokens] = np.where(alone[..., None], kept, -np.inf)
        return state, log_probs

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
    """Finds the tokens whose bytes start with a given prefix; made once for a tokenizer.

    `token_bytes[i]` is what token i spells; special tokens spell nothing (b"") and are never found.

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
    dropped: bytes = b""  # what the first generated token spells again of the prompt
    log_prob: float = 0.0  # of reaching exactly this spelling, all allowed tokens together


def heal(
    stepper: Stepper, index: PrefixIndex, base: np.ndarray, text: bytes, width: int = 16
) -> list[HealedPrompt]:
    """Return the spellings of `text` after the tokens of `base` whose last token may reach beyond
    its end, best first.

    A prompt can break off inside a word of several tokens (" l" + "or" where " lord" is one), so
    taking back one token is not enough. All ways to spell the text are followed, the `width`
    likeliest at a time; drawing one of them by its probability and then a token that it allows
    continues the prompt as the model would have.
    """
    healed: list[HealedPrompt] = []
    paths = [(np.asarray(base, np.int64), text, 0.0)]
    state, log_probs = prefill(stepper, [paths[0][0]])
    while paths:
        further, rows, tokens = [], [], []
        for row, (ids, rest, cost) in enumerate(paths):
            allowed = index.starting_with(rest)
            if len(allowed):
                mass = float(np.logaddexp.reduce(log_probs[row, allowed].astype(np.float64)))
                healed.append(HealedPrompt(ids, allowed, rest, cost + mass))
            for token in index.prefixes_of(rest):
                left = rest[len(index.token_bytes[token]) :]
                further.append((np.append(ids, token), left, cost + float(log_probs[row, token])))
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
        kept = log_probs[row, ids]
        restricted[row] = -np.inf
        restricted[row, ids] = kept if (kept > -np.inf).any() else -np.log(len(ids))
    return restricted
