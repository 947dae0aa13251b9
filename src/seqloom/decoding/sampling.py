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

import numpy as np

from seqloom import progress
from seqloom.config import MAX_INTEGER, MOST_SEED, Config, option
from seqloom.decoding.constraints import postpone_end, restrict
from seqloom.decoding.stepper import Stepper, check_log_probs, prefill, select

NUCLEUS = 256  # tokens that top-p sorts first; few distributions need more


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

    @property
    def plain(self) -> bool:
        """Return whether tokens are drawn from the model's own distribution."""
        return (
            self.temperature == 1
            and self.top_k is None
            and self.top_p is None
            and self.repetition_penalty == 1
        )


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
    generators = [
        np.random.default_rng((config.seed, number))
        for number in (range(n) if numbers is None else numbers)
    ]
    rows = np.arange(n)  # the rows that are still open
    state, log_probs = prefill(stepper, prompts)
    log_probs = restrict(log_probs, first_allowed)
    seen = _seen(prompts, stepper.vocab_size) if config.repetition_penalty != 1 else None
    for position in range(config.max_tokens):
        if position < config.min_tokens:
            log_probs = postpone_end(log_probs, stepper.eos_id)
        if config.plain:
            check_log_probs(log_probs)
        else:
            log_probs = filter_log_probs(log_probs, config, None if seen is None else seen[rows])
        ids = (
            _draw(log_probs, [generators[row] for row in rows])
            if config.temperature
            else log_probs.argmax(axis=1)
        )
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
        if seen is not None:
            seen[rows, ids] = True
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
    ids = top_indices(log_probs, k)
    top = np.full(log_probs.shape, -np.inf)
    np.put_along_axis(top, ids, np.take_along_axis(log_probs, ids, axis=1), axis=1)
    return normalize(top)


def keep_top_p(log_probs: np.ndarray, p: float) -> np.ndarray:
    """Keep the smallest set of likeliest tokens with total probability at least p; at least one token.

    >>> np.exp(keep_top_p(np.log([[0.2, 0.3, 0.5]]), 0.6)).round(3).tolist()
    [[0.0, 0.375, 0.625]]
    """
    if p >= 1:
        return normalize(log_probs)  # rounding of the sum must not cut the tail
    probs = np.exp(normalize(log_probs))
    for width in (NUCLEUS, log_probs.shape[1]):
        ids = top_indices(log_probs, width)
        best = np.take_along_axis(probs, ids, axis=1)
        before = np.cumsum(best, axis=1) - best  # the total probability of all likelier tokens
        if (before[:, -1] >= p).all():
            break
    nucleus = np.take_along_axis(log_probs, ids, axis=1)
    nucleus[:, 1:][before[:, 1:] >= p] = -np.inf
    result = np.full(log_probs.shape, -np.inf)
    np.put_along_axis(result, ids, nucleus, axis=1)
    return normalize(result)


def top_indices(values: np.ndarray, k: int) -> np.ndarray:
    """Return the indices of the k largest values of each row, largest first, ties by lowest index:
    int64 (n, k).

    >>> top_indices(np.array([[1.0, 3.0, 3.0, 2.0, 2.0]]), 3)
    array([[1, 2, 3]])
    """
    n, width = values.shape
    k = min(k, width)
    kth = np.partition(values, width - k, axis=1)[:, width - k, None]
    indices = np.empty((n, k), np.int64)
    for row in range(n):
        above = np.flatnonzero(values[row] > kth[row])
        equal = np.flatnonzero(values[row] == kth[row])[: k - len(above)]
        indices[row] = np.append(above, equal)
    order = np.argsort(-np.take_along_axis(values, indices, axis=1), axis=1, kind="stable")
    return np.take_along_axis(indices, order, axis=1)


def _draw(log_probs: np.ndarray, generators: list[np.random.Generator]) -> np.ndarray:
    """Draw one token per row by inverting the cumulative distribution; a token of probability zero
    is never drawn.
    """
    if log_probs.dtype == np.float32:  # the model's own, unfiltered
        from seqloom.kernels.sampling import draw

        return np.array(
            [draw(row, generator.random()) for row, generator in zip(log_probs, generators)],
            np.int64,
        )
    cumulative = np.cumsum(np.exp(log_probs), axis=1, dtype=np.float64)
    # below the total
    points = [row[-1] * generator.random() for row, generator in zip(cumulative, generators)]
    return np.array(
        [np.searchsorted(row, point, side="right") for row, point in zip(cumulative, points)]
    )


def _seen(prompts: Sequence[np.ndarray], vocab_size: int) -> np.ndarray:
    seen = np.zeros((len(prompts), vocab_size), bool)
    for row, prompt in enumerate(prompts):
        seen[row, np.asarray(prompt, np.int64)] = True
    return seen


LOOP_TOKENS, LOOP_TIMES, LONGEST_LOOP = 40, 4, 100


def until_loop(tokens: Iterator[int]) -> Iterator[int]:
    """Yield tokens until the last ones only repeat themselves, and say so: the same 1 to LONGEST_LOOP
    tokens at least LOOP_TIMES, LOOP_TOKENS in all.
    """
    drawn: list[int] = []
    for token in tokens:
        yield token
        drawn.append(token)
        for period in range(1, min(LONGEST_LOOP, len(drawn) // LOOP_TIMES) + 1):
            size = period * max(LOOP_TIMES, -(-LOOP_TOKENS // period))
            tail = drawn[-size:]
            if len(tail) == size and tail[period:] == tail[:-period]:
                progress.say(
                    f"the answer was cut off after {len(drawn):,} tokens: it only repeated itself; a higher "
                    f"repetition penalty, another temperature or another question may help"
                )
                return
