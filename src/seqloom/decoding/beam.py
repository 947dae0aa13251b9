"""Beam search: the sequences that a model finds most likely, many prompts at a time.

The score of a hypothesis is its log-probability divided by a power of its length (Wu et al. 2016, "Google's Neural Machine
Translation System", section 7): length ** penalty (`simple`) or ((5 + length) / 6) ** penalty (`gnmt`), plus a coverage penalty
if asked for (`coverage`). A length penalty of 0 is the bare log-probability, which in wide beams favours ever shorter outputs;
1 with `simple` is the mean per token.

Each step takes the `beams` best continuations of a prompt by log-probability; equal ones by position in the beam, then by
token id. Those that end leave the beam and the others go on, to be refilled at the next step; so one beam is greedy search. A
prompt is settled, and its rows are computed no more, when it has `nbest` results and no open hypothesis can still beat the
worst of them. Log-probabilities only fall, divisors only grow with the length and the coverage penalty is at most zero, so an
open hypothesis can reach at most what it has now, divided by the divisor of the longest output; the search that stops early
therefore finds what the full search would. The tighter the limit on the length, the earlier that is known.

The step itself is a kernel (`kernels/beam`): with a vocabulary of thousands the search must not cost more than the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from seqloom.config import MOST, option
from seqloom.decoding.beam_options import BeamOptions
from seqloom.decoding.constraints import Prefixes, postpone_end
from seqloom.decoding.coverage import Coverage
from seqloom.decoding.healing import restrict
from seqloom.decoding.sanity import ABOVE_ONE, check_log_probs
from seqloom.decoding.stepper import State, Stepper, prefill, select
from seqloom.errors import ConfigError

NO_COVERAGE = np.empty(0)


@dataclass(frozen=True, kw_only=True)
class BeamConfig(BeamOptions):
    """How to search for the best output."""

    nbest: int = option(
        1, "number of best outputs to return, at most the number of beams", minimum=1, maximum=MOST
    )
    max_tokens: int = option(
        100,
        "maximum number of tokens to generate, including the end symbol",
        minimum=1,
        maximum=MOST,
    )
    min_tokens: int = option(
        0, "minimum number of tokens before the end symbol", minimum=0, maximum=MOST
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nbest > self.beams:
            raise ConfigError(
                f"nbest {self.nbest} is more than the {self.beams} beams; set beams to at least {self.nbest}"
            )

    def divisor(self, length: int) -> float:
        """What the log-probability of an output of this length, end symbol included, is divided by.

        >>> BeamConfig(length_penalty=1).divisor(7), BeamConfig(length_penalty=1, length_normalization="gnmt").divisor(7)
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
    """What a step saw and chose, for who watches a search; R open hypotheses before it, of all prompts."""

    state: State  # of the R hypotheses; the search goes on to change it
    log_probs: np.ndarray  # (R, V) of their next token
    prompt: np.ndarray  # (R,) whose they are
    log_prob: np.ndarray  # (R,) of what they have so far
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
    """The best continuations of each prompt, at most `nbest` of them, best first.

    `options` are those of `BeamConfig` and override those of `config`. `limits` are a `max_tokens` for each prompt where that
    is smaller. A prompt is only read; a prefix is the forced beginning of the output: its tokens are part of ids, length and
    scores, but nothing is searched there. `first_allowed` as in `sampling.sample`. `watch` is called after every step.
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
    """The open hypotheses of the prompts that are not settled, what every step chose, and the results.

    A result is kept as length, row and last token: it continues that row of the beam before with that token.
    """

    def __init__(self, config: BeamConfig, limits: np.ndarray, eos_id: int) -> None:
        from seqloom.kernels.beam import advance

        n = len(limits)
        self.advance = advance
        self.config, self.limits, self.eos_id = config, limits, eos_id
        self.largest_divisors = largest_divisors(config, limits)
        self.prompt = self.rows = np.arange(
            n
        )  # (R,) of each open hypothesis: its prompt, the row that it continues,
        self.tokens = np.empty(0, np.int64)  # its last token,
        self.log_prob = np.zeros(n)  # its log-probability
        self.chosen: list[tuple[np.ndarray, np.ndarray]] = []  # tokens and rows of each step
        nbest = config.nbest
        self.results = (
            np.zeros(n, np.int64),
            np.empty((n, nbest)),
            np.empty((n, nbest)),
            np.empty((n, nbest, 3), np.int64),
        )

    def extend(self, log_probs: np.ndarray, coverage: np.ndarray) -> bool:
        """One token further, with the log-probabilities (R, V) of what follows each row; returns whether rows moved."""
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
        """The results of each prompt, best first."""
        from seqloom.kernels.beam import trace

        counts, scores, log_probs, origins = self.results
        tokens, rows = (np.concatenate(arrays) for arrays in zip(*self.chosen))
        lengths = np.where(np.arange(origins.shape[1]) < counts[:, None], origins[:, :, 0], 0)
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
                Hypothesis(ids[start:end].copy(), *rest)
                for start, end, *rest in list(zip(*results))[:n_found]
            ]
            for n_found, *results in zip(*columns)
        ]


def largest_divisors(config: BeamConfig, limits: np.ndarray) -> np.ndarray:
    """The divisor of the longest output of each prompt, (n,): what an open hypothesis has now over that is all it can reach."""
    return np.array([config.divisor(limit) for limit in limits.tolist()])


def _limits(max_tokens: int, limits: Sequence[int] | np.ndarray | None, n: int) -> np.ndarray:
    """The longest output of each prompt, int64 (n,)."""
    if limits is None:
        return np.full(n, max_tokens, np.int64)
    if len(limits) != n:
        raise ValueError(f"limits are given for {len(limits)} prompts, but there are {n}")
    if min(limits) < 1:
        raise ConfigError(f"the limit of an output must be at least 1 token; got {min(limits)}")
    return np.minimum(np.asarray(limits, np.int64), max_tokens)
