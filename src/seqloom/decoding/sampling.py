"""Drawing the next token: greedy, temperature, top-k, top-p and the repetition penalty.

- top-p, or nucleus sampling: Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration",
  section 3.1
- top-k: Fan et al. 2018, "Hierarchical Neural Story Generation", section 5.2
- repetition penalty: Keskar et al. 2019, "CTRL", section 4.1; there it divides scores above zero, here it
  multiplies log-probabilities, which have one sign, so it always lowers them

The order is penalty, temperature, top-k, top-p; each step renormalises, so the next one sees
probabilities. Every row of a batch draws from its own generator: the output of a row depends on the
seed and on its number, never on its neighbours or on when they end. A caller that puts rows into
batches gives their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.config import MAX_INTEGER, MOST_SEED, Config, option
from seqloom.decoding.constraints import restrict, rule_out
from seqloom.decoding.stepper import Stepper, check_log_probs, prefill, select

UNIFORMS = 32  # random numbers of a row that are drawn in one call


@dataclass(frozen=True, kw_only=True)
class SamplingConfig(Config):
    """How to draw text from a model."""

    max_tokens: int = option(
        100,
        "maximum number of tokens to generate, including the end symbol",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    min_tokens: int = option(
        0, "minimum number of tokens before the end symbol", minimum=0, maximum=MAX_INTEGER
    )
    allow_eos: bool = option(
        False,
        "models trained on one stream: allow the end symbol (other models always do)",
        negatable=False,
    )
    temperature: float = option(
        1.0, "below 1 less random, above 1 more random, 0 greedy", minimum=0.0, maximum=100.0
    )
    top_k: int | None = option(
        None, "sample from the k most likely tokens only", minimum=1, maximum=MAX_INTEGER
    )
    top_p: float | None = option(
        None,
        "sample from the smallest set of tokens with this total probability",
        minimum=0.0,
        maximum=1.0,
    )
    repetition_penalty: float = option(
        1.0, "above 1 makes repeated tokens less likely", minimum=0.01, maximum=100.0
    )
    seed: int = option(0, "random seed", minimum=0, maximum=MOST_SEED)


class Drawing:
    """How the next tokens of one row are drawn: its options, its random numbers, what it has drawn."""

    __slots__ = (
        *("_generator", "_uniforms", "allowed", "config"),
        *("endless", "forbidden", "position", "seen"),
    )

    def __init__(
        self,
        config: SamplingConfig,
        number: int,
        prompt: np.ndarray,
        vocab_size: int,
        *,
        allowed: np.ndarray | None = None,
        forbidden: np.ndarray | None = None,
        endless: bool = False,
    ) -> None:
        """Set up a row. `number` seeds its generator together with `seed`; `allowed`: the ids that may
        come first; `forbidden`: those that are drawn, and with `endless` the end symbol, only where
        nothing else is possible.
        """
        self.config, self.allowed, self.position = config, allowed, 0
        self.forbidden, self.endless = forbidden, endless
        self._generator = np.random.default_rng((config.seed, number))
        self._uniforms: list[float] = []  # that were drawn in advance, the next one last
        self.seen: np.ndarray | None = None
        if config.repetition_penalty != 1:
            self.seen = np.zeros(vocab_size, bool)
            self.seen[np.asarray(prompt, np.int64)] = True

    def uniform(self) -> float:
        """Return the next random number of the unit interval."""
        if not self._uniforms:  # many at a time, as a call takes longer than a number
            self._uniforms = self._generator.random(UNIFORMS).tolist()[::-1]
        return self._uniforms.pop()

    @property
    def postpones(self) -> bool:
        """Return whether the end symbol is to be drawn only where nothing else is possible."""
        return self.endless or self.position < self.config.min_tokens


def reshape(rows: Sequence[Drawing], log_probs: np.ndarray, eos_id: int) -> None:
    """Change log-probabilities (n, V) to those that each row draws from, before temperature and
    filters.
    """
    forbidden = [row.forbidden for row in rows]
    if all(tokens is forbidden[0] for tokens in forbidden):  # one call for all
        if forbidden[0] is not None:
            rule_out(log_probs, forbidden[0])
    else:
        for at, tokens in enumerate(forbidden):
            if tokens is not None:
                rule_out(log_probs[at], tokens)
    for at, row in enumerate(rows):
        if row.position == 0 and row.allowed is not None:
            log_probs[at] = restrict(log_probs[at : at + 1], [row.allowed])[0]
    if postponing := [at for at, row in enumerate(rows) if row.postpones]:
        rule_out(log_probs, np.array([eos_id]), np.array(postponing))
    for at, row in enumerate(rows):
        if row.seen is not None:
            penalised = apply_repetition_penalty(
                log_probs[at : at + 1], row.seen[None], row.config.repetition_penalty
            )
            log_probs[at] = penalised[0]


def draw_next(
    rows: Sequence[Drawing], log_probs: np.ndarray, eos_id: int, uniforms: np.ndarray | None = None
) -> np.ndarray:
    """Draw the next token of each row, int64 (n,), from log-probabilities (n, V) that were checked, which
    may be changed; `uniforms`: points of the unit interval instead of random ones.
    """
    from seqloom.kernels.parallel import TEAM
    from seqloom.kernels.sampling import draw_rows

    reshape(rows, log_probs, eos_id)
    if uniforms is None:
        # a greedy row draws no numbers, as nothing depends on them
        uniforms = np.array([row.uniform() if row.config.temperature else 0.0 for row in rows])
    configs = [row.config for row in rows]
    ids = draw_rows(
        np.asarray(log_probs, np.float32),
        np.array([config.temperature for config in configs], np.float64),
        np.array([config.top_k or 0 for config in configs], np.int64),
        np.array([1.0 if config.top_p is None else config.top_p for config in configs], np.float64),
        uniforms,
        TEAM,
    )
    for row, token in zip(rows, ids.tolist()):
        row.position += 1
        if row.seen is not None:
            row.seen[token] = True
    return ids


def sample(
    stepper: Stepper,
    prompts: Sequence[np.ndarray],
    config: SamplingConfig,
    *,
    first_allowed: Sequence[np.ndarray | None] | None = None,
    numbers: Sequence[int] | None = None,
) -> Iterator[np.ndarray]:
    """Continue each prompt; yield the next ids of all rows, int64 (n,), as soon as they are known.

    A row that ends yields `eos_id` once and -1 from then on. The stream stops when all rows have
    ended or after `max_tokens`. `first_allowed[row]` lists the ids that may come first in that row
    (see `constraints`). `numbers[row]` seeds the row's generator together with `seed`; by default it
    is the row's index in the batch.
    """
    n = len(prompts)
    if n == 0:
        return
    first_allowed = [None] * n if first_allowed is None else first_allowed
    if len(first_allowed) != n:
        raise ValueError(f"first tokens are given for {len(first_allowed)} rows, but there are {n}")
    drawings = [
        Drawing(config, number, prompt, stepper.vocab_size, allowed=allowed)
        for number, prompt, allowed in zip(
            range(n) if numbers is None else numbers, prompts, first_allowed
        )
    ]
    rows = np.arange(n)  # the rows that are still open
    state, log_probs = prefill(stepper, prompts)
    for position in range(config.max_tokens):
        check_log_probs(log_probs)
        ids = draw_next([drawings[row] for row in rows.tolist()], log_probs, stepper.eos_id)
        result = np.full(n, -1, np.int64)
        result[rows] = ids
        yield result
        going_on = ids != stepper.eos_id
        if position + 1 == config.max_tokens or not going_on.any():
            return
        if not going_on.all():
            state, rows, ids = (
                select(state, np.flatnonzero(going_on)),
                rows[going_on],
                ids[going_on],
            )
        state, log_probs = stepper.step(state, ids)


def filter_log_probs(
    log_probs: np.ndarray, config: SamplingConfig, seen: np.ndarray | None = None
) -> np.ndarray:
    """Return the distribution to draw from, float64 (n, V): the model's, after everything the config
    asks for.

    `seen`, bool (n, V), marks the tokens of the prompt and of what was generated.
    """
    check_log_probs(log_probs)
    log_probs = log_probs.astype(np.float64)
    if seen is not None and config.repetition_penalty != 1:
        log_probs = apply_repetition_penalty(log_probs, seen, config.repetition_penalty)
    if config.temperature == 0:
        return normalize(log_probs)  # the likeliest token passes every filter below
    log_probs = apply_temperature(log_probs, config.temperature)
    if config.top_k is not None:
        log_probs = keep_top_k(log_probs, config.top_k)
    if config.top_p is not None:
        log_probs = keep_top_p(log_probs, config.top_p)
    return log_probs


def normalize(log_probs: np.ndarray) -> np.ndarray:
    """Shift each row so that its probabilities sum to one; a row of zeros (-inf) stays as it is."""
    top = log_probs.max(axis=1, keepdims=True)
    shifted = log_probs - np.where(np.isfinite(top), top, 0.0)
    total = np.exp(shifted).sum(axis=1, keepdims=True)
    return shifted - np.log(np.where(total > 0, total, 1.0))


def apply_repetition_penalty(log_probs: np.ndarray, seen: np.ndarray, penalty: float) -> np.ndarray:
    """Multiply the log-probabilities of seen tokens: above 1 they become less likely.

    >>> half = np.log([[0.5, 0.5]])
    >>> np.exp(apply_repetition_penalty(half, np.array([[True, False]]), 2.0)).round(3).tolist()
    [[0.333, 0.667]]
    """
    return normalize(np.where(seen, np.minimum(log_probs, 0.0) * penalty, log_probs))


def apply_temperature(log_probs: np.ndarray, temperature: float) -> np.ndarray:
    """Divide by a temperature above zero.

    >>> np.exp(apply_temperature(np.log([[0.8, 0.2]]), 0.5)).round(3).tolist()
    [[0.941, 0.059]]
    """
    top = log_probs.max(axis=1, keepdims=True)
    # the largest becomes 0, which no division overflows
    shifted = log_probs - np.where(np.isfinite(top), top, 0.0)
    with np.errstate(over="ignore"):
        return normalize(shifted / temperature)


def keep_top_k(log_probs: np.ndarray, k: int) -> np.ndarray:
    """Keep the k likeliest tokens of each row; of equal ones at the threshold those with the lowest ids.

    >>> np.exp(keep_top_k(np.log([[0.2, 0.3, 0.5]]), 2)).round(3).tolist()
    [[0.0, 0.375, 0.625]]
    """
    return _nucleus(log_probs, k, 1.0)


def keep_top_p(log_probs: np.ndarray, p: float) -> np.ndarray:
    """Keep the smallest set of likeliest tokens with total probability at least p; at least one token.

    >>> np.exp(keep_top_p(np.log([[0.2, 0.3, 0.5]]), 0.6)).round(3).tolist()
    [[0.0, 0.375, 0.625]]
    """
    if p >= 1:
        return normalize(log_probs)  # rounding of the sum must not cut the tail
    return _nucleus(log_probs, 0, p)


def _nucleus(log_probs: np.ndarray, top_k: int, top_p: float) -> np.ndarray:
    """Return the distribution over what remains of each row; a row of zeros (-inf) stays as it is."""
    from seqloom.kernels.sampling import nucleus

    result = np.full(log_probs.shape, -np.inf)
    for row in np.flatnonzero(np.isfinite(log_probs.max(axis=1))).tolist():
        weights = nucleus(log_probs[row], 1.0, top_k, top_p)
        kept = np.flatnonzero(weights)
        result[row, kept] = np.log(weights[kept] / weights.sum())
    return result


def top_indices(values: np.ndarray, k: int) -> np.ndarray:
    """Return the indices of the k largest values of each row, largest first, ties by lowest index:
    int64 (n, k).

    >>> top_indices(np.array([[1.0, 3.0, 3.0, 2.0, 2.0]]), 3)
    array([[1, 2, 3]])
    """
    from seqloom.kernels.sampling import largest

    indices = np.empty((len(values), min(k, values.shape[1])), np.int64)
    for row, row_values in enumerate(values):
        indices[row] = largest(row_values, k)
    return indices


# Defaults of an answer: small models wander at the temperature 1 of `generate`, and repeat themselves at 0.
ANSWER: dict[str, Any] = {"max_tokens": 500, "temperature": 0.2, "repetition_penalty": 1.1}

LOOP_TOKENS, LOOP_TIMES, LONGEST_LOOP = 40, 4, 100


def repeats(drawn: Sequence[int]) -> bool:
    """Return whether the last tokens only repeat themselves: the same 1 to LONGEST_LOOP tokens at least
    LOOP_TIMES, LOOP_TOKENS in all.
    """
    for period in range(1, min(LONGEST_LOOP, len(drawn) // LOOP_TIMES) + 1):
        size = period * max(LOOP_TIMES, -(-LOOP_TOKENS // period))
        # most tokens differ from the one a period before, and nothing more needs to be looked at
        if len(drawn) >= size and drawn[-1] == drawn[-1 - period]:
            tail = drawn[-size:]
            if tail[period:] == tail[:-period]:
                return True
    return False


def until_loop(tokens: Iterator[int]) -> Iterator[int]:
    """Yield tokens until the last ones only repeat themselves, and say so."""
    drawn: list[int] = []
    for token in tokens:
        yield token
        drawn.append(token)
        if repeats(drawn):
            progress.say(
                f"the answer was cut off after {len(drawn):,} tokens: it only repeated itself; a higher "
                f"repetition penalty, another temperature or another question may help"
            )
            return
