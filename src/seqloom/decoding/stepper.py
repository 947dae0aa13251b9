"""The one thing that decoding knows about a model: a state that each token updates.

A Stepper's state is a value, a nested tuple of arrays (NumPy or torch) with the batch first. `step`
may reuse the memory of the state it is given, so a caller that needs a state twice copies it with
`select` first. Rows of unequal length are padded on the right and carry a `lengths` leaf, which lets
`join` put them side by side without knowing what the arrays mean. A Stepper is shared by threads; it
returns new arrays, which the caller may write to.

A decoder that attends to source sentences stores their encodings itself, and only the number of the
source as a leaf of the state: row i of `start(n)` belongs to source i, and `select` then copies small
integers instead of encodings. All searches keep rows in the order of the sources, those of one source
side by side, so that such a decoder can attend from all of them at once.

A Stepper may have further methods: faster ways than step by step (`prefill`, `extend`, `branch`,
`log_probs`; see the functions of these names), and `attention` (`beam.Attending`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from seqloom.batching import like_lengths
from seqloom.errors import ModelError

State = Any  # a nested tuple of arrays, batch first


class Stepper(Protocol):
    """What a language model, or a translator for given sources, shows to decoding."""

    vocab_size: int
    eos_id: int

    def start(self, n: int) -> tuple[State, np.ndarray]:
        """Return the state of n empty sequences, and the log-probabilities of their first token,
        float32 (n, V).
        """
        ...

    def step(self, state: State, ids: np.ndarray) -> tuple[State, np.ndarray]:
        """Append `ids`, int64 (n,), and return the new state and log-probabilities; the old state is
        spent.
        """
        ...


def sized(stepper: Any, vocab_size: int, eos_id: int) -> Stepper:
    """Return the Stepper; a `vocab_size` or `eos_id` it does not define is set to the tokenizer's."""
    for name, value in (("vocab_size", vocab_size), ("eos_id", eos_id)):
        if not hasattr(stepper, name):
            setattr(stepper, name, value)
    return stepper


def select(state: State, rows: np.ndarray) -> State:
    """Copy these rows of every leaf, in this order; a row may occur more than once or not at all.

    >>> select((np.array([1, 2, 3]), (np.array([[4.0], [5.0], [6.0]]),)), np.array([2, 2]))
    (array([3, 3]), (array([[6.],
           [6.]]),))
    """
    if isinstance(state, tuple):
        return _rebuild(state, [select(leaf, rows) for leaf in state])
    return state[np.ascontiguousarray(rows)]  # indexing by an array copies, in NumPy and in torch


def join(states: Sequence[State]) -> State:
    """Join the rows of several states; shorter leaves are padded with zeros on the right."""
    first = states[0]
    if isinstance(first, tuple):
        return _rebuild(first, [join(leaves) for leaves in zip(*states, strict=True)])
    rows = sum(len(leaf) for leaf in states)
    trailing = np.max([leaf.shape[1:] for leaf in states], axis=0).astype(int).tolist()
    shape = (rows, *trailing)
    joined = first.new_zeros(shape) if hasattr(first, "new_zeros") else np.zeros(shape, first.dtype)
    at = 0
    for leaf in states:
        joined[(slice(at, at + len(leaf)), *(slice(0, size) for size in leaf.shape[1:]))] = leaf
        at += len(leaf)
    return joined


def _rebuild(like: tuple[Any, ...], leaves: list[Any]) -> tuple[Any, ...]:
    """Return a tuple of the same kind, named or plain."""
    return type(like)(*leaves) if hasattr(like, "_fields") else tuple(leaves)


def prefill(stepper: Stepper, prompts: Sequence[np.ndarray]) -> tuple[State, np.ndarray]:
    """Return the state after each prompt and the log-probabilities of what follows, float32
    (n, V).

    A Stepper with a faster way (a Transformer reads a prompt in one pass) has a method `prefill(prompts)`.
    """
    prompts = _checked(prompts, stepper.vocab_size)
    faster = getattr(stepper, "prefill", None)
    if not any(len(prompt) for prompt in prompts):
        state, log_probs = stepper.start(len(prompts))
    else:
        state, log_probs = (
            faster(prompts) if faster is not None else prefill_by_steps(stepper, prompts)
        )
    return state, check_scores(log_probs, exact=False)


def prefill_by_steps(stepper: Stepper, prompts: Sequence[np.ndarray]) -> tuple[State, np.ndarray]:
    """Run `prefill` for any Stepper: all rows step together, and a row is set aside when its prompt
    ends.
    """
    n = len(prompts)
    state, log_probs = stepper.start(n)
    if n == 0:
        return state, log_probs
    lengths = np.array([len(prompt) for prompt in prompts])
    rows = np.arange(n)  # the prompts that are still being read
    result = np.empty((n, stepper.vocab_size), np.float32)
    aside: list[State] = []
    order: list[np.ndarray] = []
    for position in range(int(lengths.max()) + 1):
        ended = lengths[rows] == position
        if ended.any():
            result[rows[ended]] = log_probs[ended]
            order.append(rows[ended])
            if ended.all():
                aside.append(state)
                break
            aside.append(select(state, np.flatnonzero(ended)))
            state, rows = select(state, np.flatnonzero(~ended)), rows[~ended]
        ids = np.array([prompts[row][position] for row in rows.tolist()], np.int64)
        state, log_probs = stepper.step(state, ids)
    if len(aside) == 1:
        return aside[0], result
    return select(join(aside), np.argsort(np.concatenate(order))), result


def branch(stepper: Stepper, state: State) -> State:
    """Return a state that can be stepped without changing the given one or its predecessors.

    A Stepper whose states stay valid anyway, as long as only one of them is stepped further, has a
    method `branch(state)`.
    """
    cheaper = getattr(stepper, "branch", None)
    return cheaper(state) if cheaper is not None else _copy(state)


def extend(stepper: Stepper, state: State, ids: np.ndarray) -> tuple[list[State], np.ndarray]:
    """Append `ids`, int64 (n, k); return the states after one, two, ... of them, and the
    log-probabilities float32 (n, k, V) of what follows each. The given state is spent, and only
    one of the new ones may be used further.

    A Stepper with a faster way (a Transformer reads several tokens in one pass) has a method
    `extend(state, ids)`; it may stop earlier, where the next token cannot be taken in together with
    those before it, but not before the first.
    """
    faster = getattr(stepper, "extend", None)
    states, log_probs = (
        faster(state, ids) if faster is not None else extend_by_steps(stepper, state, ids)
    )
    return states, check_scores(log_probs, exact=False)


def extend_by_steps(
    stepper: Stepper, state: State, ids: np.ndarray
) -> tuple[list[State], np.ndarray]:
    """Run `extend` for any Stepper."""
    states: list[State] = []
    all_log_probs = []
    for t in range(ids.shape[1]):
        state, log_probs = stepper.step(
            branch(stepper, state) if t else state, np.ascontiguousarray(ids[:, t])
        )
        states.append(state)
        all_log_probs.append(log_probs)
    return states, np.stack(all_log_probs, axis=1)


def _copy(state: State) -> State:
    if isinstance(state, tuple):
        return _rebuild(state, [_copy(leaf) for leaf in state])
    return state.clone() if hasattr(state, "clone") else state.copy()


def stepper_log_probs(stepper: Stepper, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the log-probability of each token of sequences of these lengths; a Stepper with a
    faster way has a method `log_probs`.
    """
    faster = getattr(stepper, "log_probs", None)
    return log_probs_by_steps(stepper, ids, lengths) if faster is None else faster(ids, lengths)


def log_probs_by_steps(
    stepper: Stepper, ids: np.ndarray, lengths: np.ndarray, batch: int = 64
) -> np.ndarray:
    """Return the log-probability of each token by stepping through it; units of similar length are
    batched.

    Only for a Stepper whose rows all begin alike.
    """
    out = np.empty(len(ids), np.float32)
    for at, log_probs in rows_by_steps(stepper, ids, lengths, batch):
        out[at] = log_probs[np.arange(len(at)), ids[at].astype(np.int64)]
    return out


def rows_by_steps(
    stepper: Stepper, ids: np.ndarray, lengths: np.ndarray, batch: int = 64
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield positions in `ids` (n,), and the log-probabilities (n, V) of all tokens there; units of
    similar length are batched.
    """
    starts = np.cumsum(lengths) - lengths
    for group in like_lengths(lengths, rows=batch):
        state, log_probs = stepper.start(len(group))
        rows = len(group)
        for t in range(int(lengths[group[0]])):
            still = int(np.count_nonzero(lengths[group] > t))
            if still < rows:
                state, log_probs, rows = select(state, np.arange(still)), log_probs[:still], still
            at = starts[group[:rows]] + t
            yield at, log_probs
            if t + 1 < int(lengths[group[0]]):
                state, log_probs = stepper.step(state, ids[at].astype(np.int64))


def _checked(prompts: Sequence[np.ndarray], vocab_size: int) -> list[np.ndarray]:
    arrays = [np.asarray(prompt, dtype=np.int64) for prompt in prompts]
    for row, ids in enumerate(arrays):
        if ids.ndim != 1:
            raise ValueError(
                f"prompt {row} must be a row of token ids; it has {ids.ndim} dimensions"
            )
        if ids.size and not 0 <= ids.min() <= ids.max() < vocab_size:
            raise ValueError(f"prompt {row} has a token id outside 0..{vocab_size - 1}")
    return arrays


# ---- sanity: a damaged file may pass every check of its tables and still give nonsense; better an
# error of one line than text drawn from it

ABOVE_ONE = 1e-2  # how far a log-probability may lie above zero, or a sum off one, by rounding

_ADVICE = "the model is damaged or its training diverged; fit it again"


def check_log_probs(log_probs: np.ndarray) -> None:
    """Refuse rows (n, V) from which nothing can be chosen: NaN, above one, or no token with a
    probability above zero.
    """
    top = log_probs.max(axis=1)  # NaN if one is
    broken = np.flatnonzero(~(np.isfinite(top) & (top <= ABOVE_ONE)))
    if broken.size:
        raise ModelError(
            f"the model gave no usable probability in row {broken[0]}: all are zero, or one is not "
            f"a probability; " + _ADVICE
        )


def check_sums(sums: np.ndarray) -> None:
    """Refuse distributions whose probabilities do not sum to one; `sums` of each (n,)."""
    if not (np.abs(sums - 1) <= ABOVE_ONE).all():
        raise ModelError(f"the model gave probabilities that do not sum to one; {_ADVICE}")


def check_table(log_probs: object, n: int, classes: int) -> np.ndarray:
    """Check a classifier's log-probabilities; return them as an array (n, C) of floats."""
    table = np.asarray(log_probs, np.float64)
    if table.shape != (n, classes):
        raise ModelError(
            f"class_log_probs gave an array of shape {table.shape}; it must be ({n}, {classes}): a "
            f"row for each "
            "example, a column for each class"
        )
    return table


def check_scores(log_probs: np.ndarray, *, exact: bool = True) -> np.ndarray:
    """Return the log-probabilities, of tokens or classes, if none is NaN or of a probability above
    one.

    `exact` false: they may be above one, as in a file of another program that does not sum to one.
    """
    top = float(log_probs.max(initial=-np.inf))
    if np.isnan(top) or (exact and top > ABOVE_ONE):
        raise ModelError(f"the model gave an invalid probability ({_ADVICE})")
    return log_probs


# ---- contexts

Following = Callable[[np.ndarray], Any]  # a context, int64 (T,), to log-probabilities (V,)


class ContextStepper:
    """The Stepper of a model that is a function (`next_log_probs`): the tokens so far in, the
    log-probabilities of the next one out.

    A context begins with `</s>`, as if the previous sequence had just ended, and holds the last
    `size` tokens if the model sees no more. The state is the context of each row, padded on the
    right, and its length.
    """

    def __init__(
        self, following: Following, vocab_size: int, eos_id: int, size: int | None
    ) -> None:
        self.following, self.vocab_size, self.eos_id, self.size = (
            following,
            vocab_size,
            eos_id,
            size,
        )

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        ids = np.full((n, 0 if self.size == 0 else 1), self.eos_id, np.int64)
        return self._result(ids, np.full(n, ids.shape[1], np.int64))

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        old, lengths = state
        if self.size == 0:
            return self._result(old, lengths)
        rows = np.arange(len(old))
        longer = np.zeros((len(old), int(lengths.max(initial=0)) + 1), np.int64)
        longer[:, : old.shape[1]] = old[:, : longer.shape[1]]
        longer[rows, lengths] = ids
        lengths = lengths + 1
        if self.size is not None and longer.shape[1] > self.size:
            # rows that are too long lose their first token
            over = lengths > self.size
            longer[over, :-1] = longer[over, 1:]
            longer, lengths = longer[:, : self.size], np.minimum(lengths, self.size)
        return self._result(longer, lengths)

    def _result(self, ids: np.ndarray, lengths: np.ndarray) -> tuple[Any, np.ndarray]:
        log_probs = np.empty((len(ids), self.vocab_size), np.float32)
        for i, length in enumerate(lengths.tolist()):
            log_probs[i] = _row(self.following(ids[i, :length].copy()), self.vocab_size)
        return (ids, lengths), log_probs

    def log_probs(self, ids: np.ndarray, lengths: np.ndarray, skip: int = 0) -> np.ndarray:
        """Return the log-probability of each token of sequences of these lengths except the first
        `skip`, float32; no state is copied.
        """
        out = np.empty(len(ids), np.float32)
        begin = 0
        for length in lengths.tolist():
            sequence = np.empty(length + 1, np.int64)
            sequence[0], sequence[1:] = self.eos_id, ids[begin : begin + length]
            sequence.setflags(write=False)
            for t in range(max(skip - begin, 0), length):
                context = sequence[(0 if self.size is None else max(t + 1 - self.size, 0)) : t + 1]
                out[begin + t] = _row(self.following(context), self.vocab_size)[sequence[t + 1]]
            begin += length
        return out[skip:]

    def continued(
        self, ids: np.ndarray, before: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-probabilities of the next part of one sequence after all tokens `before`,
        and the tokens so far, for the next call.
        """
        so_far = ids if before is None else np.concatenate([before, ids])
        return self.log_probs(so_far, np.array([len(so_far)]), len(so_far) - len(ids)), so_far


def _row(log_probs: Any, vocab_size: int) -> np.ndarray:
    row = np.asarray(log_probs)
    if row.shape != (vocab_size,):
        raise ModelError(
            f"next_log_probs gave an array of shape {row.shape}; it must be ({vocab_size},), "
            "a log-probability for each token of the vocabulary"
        )
    return row
