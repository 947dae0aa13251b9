"""Beam search: the sequences that a model finds most likely, many prompts at a time.

The score of a hypothesis is its log-probability divided by a power of its length (Wu et al. 2016,
"Google's Neural Machine Translation System", section 7): length ** penalty (`simple`) or ((5 +
length) / 6) ** penalty (`gnmt`), plus a coverage penalty if asked for (`Coverage`). A length
penalty of 0 is the bare log-probability, which in wide beams favours ever shorter outputs; 1 with
`simple` is the mean per token.

Each step takes the `beams` best continuations of a prompt by log-probability; equal ones by
position in the beam, then by token id. Those that end leave the beam and the others go on, to be
refilled at the next step; so one beam is greedy search (`greedy` finds the same without scores). A
prompt is settled, and its rows are no longer computed, when it has `nbest` results and no open
hypothesis can still beat the worst of them. Log-probabilities only fall, divisors only grow with
the length and the coverage penalty is at most zero, so the score of an open hypothesis can reach at
most its log-probability divided by the divisor of the longest output: stopping early loses nothing.
A tighter length limit settles a prompt earlier. The step is a kernel (`kernels/beam`): with a
vocabulary of thousands the search must not cost more than the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from seqloom.batching import there
from seqloom.config import MAX_INTEGER, option
from seqloom.decoding.configs import BeamOptions
from seqloom.decoding.constraints import Prefixes, postpone_end, restrict
from seqloom.decoding.stepper import ABOVE_ONE, State, Stepper, check_log_probs, prefill, select
from seqloom.errors import ConfigError

# least attention credited to a source token, so that one without any does not make all scores -inf
MIN_ATTENTION = 1e-9


@runtime_checkable
class Attending(Protocol):
    """A Stepper that shows its attention; one that has none simply lacks the method."""

    def attention(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Return the attention weights (n, S) behind the log-probabilities that came with this state,
        and each row's source length (n,).

        S is the same at every step; weights beyond a row's length are ignored.
        """
        ...


class Coverage:
    """Attention that the sources of open hypotheses have received so far, for the coverage penalty:
    hypotheses that leave parts of the source unattended score lower.

    Wu et al. 2016, equation 14: with p_ij, how much attention the j-th target token pays to the
    i-th source token,

        coverage(X, Y) = penalty * sum over i of log(min(sum over j of p_ij, 1))

    It is zero where each source token received at least 1 in total, and it can only rise as a
    hypothesis grows; therefore beam search may ignore it when it bounds the score of an open
    hypothesis. The end symbol is a target token here.
    """

    def __init__(self, stepper: Any, penalty: float) -> None:
        if not isinstance(stepper, Attending):
            raise ConfigError(
                "coverage_penalty needs the attention to the source, which this model does not have; "
                "set coverage_penalty to 0"
            )
        self.stepper, self.penalty = stepper, penalty
        self.sums: np.ndarray | None = None  # (R, S) float64

    def follow(self, state: State, rows: np.ndarray) -> np.ndarray:
        """Add the attention for the next token of each hypothesis, which continues one of the
        earlier `rows` (R,); returns the penalties (R,) of those that end with that token.
        """
        weights, lengths = self.stepper.attention(state)
        weights = np.asarray(weights, np.float64)
        self.sums = weights if self.sums is None else self.sums[rows] + weights
        return self.penalty * log_coverage(self.sums, np.asarray(lengths))


def log_coverage(sums: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the sum of log(min(attention, 1)) over the source tokens of each row, (n,) from
    (n, S).

    >>> log_coverage(np.array([[1.5, 0.5, 0.0]]), np.array([2])).round(4).tolist()
    [-0.6931]
    """
    return np.where(
        there(lengths, sums.shape[1]), np.log(np.clip(sums, MIN_ATTENTION, 1.0)), 0.0
    ).sum(axis=1)


# ---- beam

NO_COVERAGE = np.empty(0)


@dataclass(frozen=True, kw_only=True)
class BeamConfig(BeamOptions):
    """How to search for the best output."""

    nbest: int = option(
        1,
        "number of best outputs to return, at most the number of beams",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    max_tokens: int = option(
        100,
        "maximum number of tokens to generate, including the end symbol",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    min_tokens: int = option(
        0, "minimum number of tokens before the end symbol", minimum=0, maximum=MAX_INTEGER
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nbest > self.beams:
            raise ConfigError(
                f"nbest {self.nbest} is more than the {self.beams} beams; set beams to at least {self.nbest}"
            )

    def divisor(self, length: int) -> float:
        """Return the divisor of the log-probability of an output of this length, end symbol included.

        >>> gnmt = BeamConfig(length_penalty=1, length_normalization="gnmt")
        >>> BeamConfig(length_penalty=1).divisor(7), gnmt.divisor(7)
        (7.0, 2.0)
        """
        base = (5 + length) / 6 if self.length_normalization == "gnmt" else float(length)
        return float(base**self.length_penalty)


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A continuation of a prompt, without the prompt and without the end symbol."""

    ids: np.ndarray  # int64; begins with the forced prefix, if there is one
    log_prob: float  # natural log, the end symbol included
    score: float  # log_prob / divisor(length) + coverage penalty, the end symbol counted
    finished: bool  # False where max_tokens or a limit cut it off


class BeamStep(NamedTuple):
    """Input and choice of a step, for `watch`; R open hypotheses before it, of all prompts."""

    state: State  # of the R hypotheses; the search goes on to change it
    log_probs: np.ndarray  # (R, V) of their next token
    prompt: np.ndarray  # (R,) the prompt each continues
    log_prob: np.ndarray  # (R,) of their tokens so far
    coverage: np.ndarray  # (R,) penalties if they end now; empty without a coverage penalty
    rows: np.ndarray  # of each hypothesis that is open now: which of the R it continues,
    tokens: np.ndarray  # and with which token


def beam_search(
    stepper: Stepper,
    prompts: Sequence[np.ndarray],
    config: BeamConfig | None = None,
    *,
    limits: Sequence[int] | np.ndarray | None = None,
    prefixes: Sequence[np.ndarray | Sequence[int] | None] | None = None,
    first_allowed: Sequence[np.ndarray | None] | None = None,
    watch: Callable[[BeamStep], None] | None = None,
    **options: Any,
) -> list[list[Hypothesis]]:
    """Return the best continuations of each prompt, at most `nbest` of them, best first.

    `options` are those of `BeamConfig` and override those of `config`. `limits` are a `max_tokens`
    for each prompt where that is smaller. A prompt is only read; a prefix is the forced beginning
    of the output: its tokens are part of ids, length and scores, but nothing is searched there.
    `first_allowed` as in `sampling.sample`. `watch` is called after every step.
    """
    if config is None or options:
        config = BeamConfig.from_dict({**(config.to_dict() if config else {}), **options})
    if not prompts:
        return []
    lengths = _limits(config.max_tokens, limits, len(prompts))
    forced = (
        None
        if prefixes is None
        else Prefixes(prefixes, lengths, stepper.vocab_size, stepper.eos_id)
    )
    coverage = Coverage(stepper, config.coverage_penalty) if config.coverage_penalty else None
    state, log_probs = prefill(stepper, prompts)
    log_probs = restrict(log_probs, first_allowed)
    beam = _Beam(config, lengths, stepper.eos_id)
    for position in count():
        if position < config.min_tokens:
            log_probs = postpone_end(log_probs, stepper.eos_id)
        if forced is not None:
            log_probs = forced.force(log_probs, beam.prompt, position)
        penalties = NO_COVERAGE if coverage is None else coverage.follow(state, beam.rows)
        before = beam.prompt, beam.log_prob
        moved = beam.extend(log_probs, penalties)
        if watch is not None:
            watch(BeamStep(state, log_probs, *before, penalties, beam.rows, beam.tokens))
        if not beam.prompt.size:
            break
        if moved:  # copied only then, since `step` may write into a state
            state = select(state, beam.rows)
        state, log_probs = stepper.step(state, beam.tokens.copy())
    return beam.hypotheses()


class _Beam:
    """Open hypotheses of the prompts that are not settled, the choices of every step, and the results.

    A result is stored as length, row and last token: that row of the previous beam, then that token.
    """

    def __init__(self, config: BeamConfig, limits: np.ndarray, eos_id: int) -> None:
        from seqloom.kernels.beam import advance

        n = len(limits)
        self.advance = advance
        self.config, self.limits, self.eos_id = config, limits, eos_id
        self.largest_divisors = largest_divisors(config, limits)
        # (R,) of each open hypothesis: its prompt, the row it continues, last token, log-probability
        self.prompt = self.rows = np.arange(n)
        self.tokens = np.empty(0, np.int64)
        self.log_prob = np.zeros(n)
        self.chosen: list[tuple[np.ndarray, np.ndarray]] = []  # tokens and rows of each step
        nbest = config.nbest
        self.results = (
            np.zeros(n, np.int64),
            np.empty((n, nbest)),
            np.empty((n, nbest)),
            np.empty((n, nbest, 3), np.int64),
        )

    def extend(self, log_probs: np.ndarray, coverage: np.ndarray) -> bool:
        """Add one token, given the log-probabilities (R, V) of each row's next token; return whether
        rows moved.
        """
        k = min(self.config.beams, log_probs.size)
        size = min(len(self.prompt) * k, log_probs.size)
        log_prob, ids = out = np.empty(size), np.empty((3, size), np.int64)
        length = len(self.chosen) + 1
        n_open, moved = self.advance(
            log_probs,
            self.prompt,
            self.log_prob,
            coverage,
            k,
            self.eos_id,
            ABOVE_ONE,
            length,
            self.config.divisor(length),
            self.limits,
            self.largest_divisors,
            self.results,
            out,
        )
        if n_open < 0:
            check_log_probs(log_probs)
        self.log_prob = log_prob[:n_open]
        self.prompt, self.rows, self.tokens = ids[:, :n_open]
        self.chosen.append((self.tokens, self.rows))
        return bool(moved)

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Return the results of each prompt, best first."""
        from seqloom.kernels.beam import trace

        counts, scores, log_probs, origins = self.results
        tokens, rows = (np.concatenate(arrays) for arrays in zip(*self.chosen))
        lengths = np.where(there(counts, origins.shape[1]), origins[:, :, 0], 0)
        ids = np.empty(lengths.sum(), np.int64)
        trace(
            tokens,
            rows,
            np.cumsum([0, *(len(step) for step, _ in self.chosen)]),
            counts,
            origins,
            ids,
        )
        ends = lengths.cumsum().reshape(lengths.shape)
        finished = origins[:, :, 2] == self.eos_id
        columns = [
            array.tolist()
            for array in (counts, ends - lengths, ends - finished, log_probs, scores, finished)
        ]
        return [
            [
                Hypothesis(ids[start:end].copy(), *scores)
                for start, end, *scores in list(zip(*results))[:n_results]
            ]
            for n_results, *results in zip(*columns)
        ]


def largest_divisors(config: BeamConfig, limits: np.ndarray) -> np.ndarray:
    """Return the divisor of the longest output of each prompt, (n,): the score of an open
    hypothesis divided by it is the best it can reach.
    """
    return np.array([config.divisor(limit) for limit in limits.tolist()])


def _limits(max_tokens: int, limits: Sequence[int] | np.ndarray | None, n: int) -> np.ndarray:
    """Return the longest output length of each prompt, int64 (n,)."""
    if limits is None:
        return np.full(n, max_tokens, np.int64)
    if len(limits) != n:
        raise ValueError(f"limits are given for {len(limits)} prompts, but there are {n}")
    if min(limits) < 1:
        raise ConfigError(f"the limit of an output must be at least 1 token; got {min(limits)}")
    return np.minimum(np.asarray(limits, np.int64), max_tokens)


# ---- greedy


def greedy(stepper: Stepper, n: int, max_tokens: int) -> list[tuple[np.ndarray, bool]]:
    """Return the tokens of n sequences, without the end symbol, and whether each reached it: the
    likeliest token at every step, as beam search with one beam finds them, without its bookkeeping.
    """
    from seqloom.kernels.beam import all_usable

    if not n:
        return []
    outputs: list[list[int]] = [[] for _ in range(n)]
    ended = [False] * n
    state, log_probs = stepper.start(n)
    rows = list(range(n))  # that have not ended
    for length in range(1, max_tokens + 1):
        ids = log_probs.argmax(axis=1)
        if not all_usable(log_probs, ids, ABOVE_ONE):
            check_log_probs(log_probs)
        chosen = ids.tolist()
        for row, token in zip(rows, chosen):
            ended[row] = token == stepper.eos_id
            if not ended[row]:
                outputs[row].append(token)
        if length == max_tokens:
            break
        if stepper.eos_id in chosen:
            still_open = np.flatnonzero(ids != stepper.eos_id)
            if not len(still_open):
                break
            state, ids = select(state, still_open), ids[still_open]
            rows = [rows[i] for i in still_open.tolist()]
        state, log_probs = stepper.step(state, ids)
    return [(np.array(tokens, np.int64), end) for tokens, end in zip(outputs, ended)]


# ---- forced


def forced_log_probs(
    stepper: Stepper, targets: list[np.ndarray], *, greedy: bool = False
) -> list[np.ndarray]:
    """Return the log-probability of each token of row i's target, by stepping through it; rows whose
    target has ended are dropped.

    `greedy`: each token is scored after the model's own likeliest tokens instead of the target's.
    Where these end first, so does the row: its result has as many tokens as they have, the end
    symbol included.
    """
    lengths = np.array([len(target) for target in targets], np.int64)
    out = [np.empty(length, np.float32) for length in lengths.tolist()]
    state, log_probs = stepper.start(len(targets))
    rows = np.arange(len(targets))
    for t in range(int(lengths.max(initial=0))):
        if not (unfinished := lengths[rows] > t).all():
            still_open = np.flatnonzero(unfinished)
            state, log_probs = select(state, still_open), log_probs[still_open]
            rows = rows[still_open]
        ids = np.array([targets[row][t] for row in rows.tolist()], np.int64)
        for row, log_prob in zip(rows.tolist(), log_probs[np.arange(len(rows)), ids].tolist()):
            out[row][t] = log_prob
        if greedy:
            ids = log_probs.argmax(axis=1)
            lengths[rows[ids == stepper.eos_id]] = t + 1
        if t + 1 >= lengths.max():
            break
        state, log_probs = stepper.step(state, ids)
    return [log_probs[:length] for log_probs, length in zip(out, lengths.tolist())]
