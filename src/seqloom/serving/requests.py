"""What the decoding thread is asked for, and what becomes of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from seqloom.decoding.generation import PromptPlan
from seqloom.decoding.sampling import Drawing, SamplingConfig
from seqloom.decoding.spelling import Speller
from seqloom.decoding.stepper import State


class Full(Exception):
    """As many requests wait as may."""


class TokenScore(NamedTuple):
    """A token of the answer, or of a prompt that is repeated, and what the model thought of it."""

    token: int
    log_prob: float | None  # None: of the first token of a prompt
    top: list[tuple[int, float]]  # the likeliest tokens at its place


class Event(NamedTuple):
    """What happened to one text of a request."""

    number: int  # of the text, of the n that were asked for
    text: str
    scores: list[TokenScore]
    finish: str | None  # "stop", "length", or None while it goes on


@dataclass(eq=False)
class Request:
    """What is to be written, and what has been."""

    prompt: str | np.ndarray  # a text, or token ids
    config: SamplingConfig
    notify: Callable[[Request], None]  # called in the decoding thread when there are new `events`
    n: int = 1
    write: bool = True  # false: the prompt is only read
    stop: Sequence[str] = ()
    top: int | None = None  # log-probabilities are wanted, with those of so many likeliest tokens
    echo: bool = False  # also of the prompt
    ends: frozenset[int] = frozenset()  # tokens that end an answer besides `</s>`
    cut_loops: bool = False  # end a text that only repeats itself
    streamed: bool = False  # `notify` for every piece, not only at the end
    deadline: float = float("inf")  # by the engine's clock
    group: object = None  # what was asked for together has the same; None: alone
    cancelled: bool = False  # by whoever asked
    error: Exception | None = None
    events: deque[Event] = field(default_factory=deque)
    open: int = 0  # texts that are not finished
    prompt_tokens: int = 0
    drawn_tokens: int = 0
    arrived: float = 0.0
    first_drawn: float | None = None  # when the first token was drawn

    @property
    def key(self) -> object:
        """Return what is the same for all that was asked for together."""
        return self.group or self

    @property
    def done(self) -> bool:
        """Return whether nothing more will happen."""
        return self.error is not None or self.open == 0


class Row:
    """One sequence: tokens that it has yet to read, and how it goes on after them."""

    def __init__(self, request: Request, pending: np.ndarray) -> None:
        self.request, self.pending = request, pending
        self.plan: PromptPlan | None = None  # of a prompt whose last word is still to be spelled
        self.units: deque[np.ndarray] = deque()  # further lines of a prompt, each a new sequence
        self.whole = pending  # all tokens of the prompt
        self.drawing: Drawing | None = None  # None while the prompt is read
        self.speller: Speller | None = None
        self.index = 0
        self.scores: list[TokenScore] = []
        self.text: list[str] = []  # that is sent at the end
        self.drawn: list[int] = []  # to see whether they only repeat themselves
        self.first = True  # no token was read
        self.over = False  # all is written
        # of a text that waits though its prompt is read: what it begins with, (1,) and (1, V)
        self.begun: tuple[State, np.ndarray] | None = None

    @property
    def n_texts(self) -> int:
        """Return how many texts come of it."""
        return self.request.n if self.drawing is None else 1

    @property
    def scored(self) -> bool:
        """Return whether the log-probabilities of the prompt are wanted; then it is read as it is."""
        return self.request.echo and self.request.top is not None
