"""The tasks of the ladder of lags, and the training of one rung.

recall: the first token, one of eight, must be told after `lag` further tokens of eight others.
adding: the first number and a later one are marked; their sum is asked for at the end (Hochreiter and
Schmidhuber 1997). copying: three tokens must be written again `lag` steps after each was read, with blanks
between (Arjovsky et al. 2016).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from seqloom.encoder_table import find_encoder, has_cell
from seqloom.models.network.flow_net import begin
from seqloom.models.network.reach import SOLVED, WITHOUT_FORGETTING, Ended, Rung, Setting, Weights
from seqloom.nn.cells import Activation
from seqloom.nn.recurrent import RecurrentStack
from seqloom.training.batches import Batch, Batches, Cursor
from seqloom.training.config import TrainConfig
from seqloom.training.devices import Tensors
from seqloom.training.trainable import Criterion
from seqloom.training.update import Diverged, Updater

ROWS, HELD_OUT = 32, 256  # sequences of an update, and of an evaluation
EVALUATE_EVERY = 25  # updates
RATE = 3e-3
SYMBOLS, COPIED = 8, 3
ALWAYS_OPEN = 50.0  # bias of a forget gate with which it is exactly 1, and has no gradient
CHOICES = {"n_heads": 4, "window": 2}  # options of encoders that have them

Made = tuple[np.ndarray, np.ndarray]  # inputs (B, T, D) and answers at the last steps (B, A)


class Task(NamedTuple):
    """A task with a lag."""

    d_in: int
    d_out: int  # 1: the answers are numbers
    answers: int
    make: Callable[[np.random.Generator, int, int], Made]


def make_recall(rng: np.random.Generator, n: int, lag: int) -> Made:
    """Make n sequences whose first token is the answer."""
    ids = rng.integers(SYMBOLS, 2 * SYMBOLS, (n, lag + 1))
    ids[:, 0] -= SYMBOLS
    return np.eye(2 * SYMBOLS, dtype=np.float32)[ids], ids[:, :1]


def make_adding(rng: np.random.Generator, n: int, lag: int) -> Made:
    """Make n sequences of numbers in which the first one and a later one are marked; the answer is their
    sum, less its mean.
    """
    values, marks = rng.random((n, lag + 1)), np.zeros((n, lag + 1))
    marks[:, 0] = 1
    marks[np.arange(n), rng.integers(1, lag + 1, n)] = 1
    sums = (values * marks).sum(1, keepdims=True) - 1
    return np.stack([values - 0.5, marks], 2).astype(np.float32), sums.astype(np.float32)


def make_copying(rng: np.random.Generator, n: int, lag: int) -> Made:
    """Make n sequences of tokens, blanks and marks that ask for the tokens again."""
    tokens = rng.integers(0, SYMBOLS, (n, COPIED))
    ids = np.full((n, lag + COPIED), SYMBOLS)
    ids[:, :COPIED] = tokens
    ids[:, lag:] = SYMBOLS + 1
    return np.eye(SYMBOLS + 2, dtype=np.float32)[ids], tokens


TASKS = {
    "recall": Task(2 * SYMBOLS, SYMBOLS, 1, make_recall),
    "adding": Task(2, 1, 1, make_adding),
    "copying": Task(SYMBOLS + 2, SYMBOLS, COPIED, make_copying),
}


def make(setting: Setting, rng: np.random.Generator, n: int, lag: int) -> Made:
    """Make n sequences of a setting's task, with its noise on all that is read."""
    inputs, targets = TASKS[setting.task].make(rng, n, lag)
    if setting.noise:
        inputs += setting.noise * rng.standard_normal(inputs.shape, np.float32)
    return inputs, targets


def activations() -> tuple[str, ...]:
    """Return the activations that a plain RNN may have."""
    return get_args(Activation)


class LagNet(nn.Module):
    """An encoder and a linear layer that answers at the last steps."""

    def __init__(self, setting: Setting, task: Task) -> None:
        super().__init__()
        name = "lstm" if setting.encoder == WITHOUT_FORGETTING else setting.encoder
        self.answers = task.answers
        self.encoder: Any
        if has_cell(name):
            self.encoder = RecurrentStack(
                task.d_in, setting.hidden, cell=name, options={"activation": setting.activation}
            )
        else:
            self.encoder = find_encoder(name).make_network(
                task.d_in, setting.hidden, 1, CHOICES, dropout=0.0
            )
        open_gate = setting.encoder == WITHOUT_FORGETTING
        begin(
            self.encoder,
            start=setting.start,
            forget_bias=ALWAYS_OPEN if open_gate else setting.forget_bias,
        )
        self.output = nn.Linear(self.encoder.d_out, task.d_out)

    def forward(self, x: Tensor) -> Tensor:
        """Return the answers (B, A, d_out) to x (B, T, D)."""
        out = self.encoder(x)
        vectors = out[0] if isinstance(out, tuple) else out
        answers: Tensor = self.output(vectors[:, -self.answers :])
        return answers


class NewBatches:
    """Batches that are made when they are asked for, so that none comes twice."""

    def __init__(self, setting: Setting, lag: int) -> None:
        self.setting, self.lag = setting, lag

    def batch(self, cursor: Cursor) -> Batch:
        """Return the batch of an update."""
        rng = np.random.default_rng([self.setting.seed, self.lag, 1, cursor[1]])
        inputs, targets = make(self.setting, rng, ROWS, self.lag)
        return Batch({"inputs": inputs, "targets": targets}, (0, cursor[1] + 1))

    def length(self, cursor: Cursor) -> int:
        """Return the number of updates."""
        return self.setting.updates

    def share(self, cursor: Cursor) -> float:
        """Return the share of the updates that is done."""
        return cursor[1] / self.setting.updates


class LagTraining:
    """One rung as the training engine sees it; every batch is new."""

    criterion, counted, unit = Criterion("score", higher_is_better=True), "answers", "loss"

    def __init__(self, setting: Setting, lag: int) -> None:
        self.setting, self.lag, self.task = setting, lag, TASKS[setting.task]
        self.batches: Batches = NewBatches(setting, lag)

    def build(self) -> nn.Module:
        return LagNet(self.setting, self.task)

    def loss(self, network: Any, batch: Tensors, state: Any) -> tuple[Tensor, None]:
        answers, targets = network(batch["inputs"]), batch["targets"]
        if self.task.d_out == 1:
            return functional.mse_loss(answers[..., 0], targets, reduction="sum"), None
        return functional.cross_entropy(
            answers.flatten(0, 1), targets.flatten(), reduction="sum"
        ), None

    def evaluate(self, network: Any) -> float:
        """Return the accuracy, or the explained share of the variance, on sequences of their own."""
        rng = np.random.default_rng([self.setting.seed, self.lag, 0])
        inputs, targets = make(self.setting, rng, HELD_OUT, self.lag)
        with torch.inference_mode():
            answers = network(torch.from_numpy(inputs)).numpy()
        if self.task.d_out == 1:
            errors = np.square(answers[..., 0] - targets).mean()
            return float(1 - errors / targets.var())
        return float((answers.argmax(-1) == targets).mean())

    def readings(self, value: float, held_out: bool) -> dict[str, float]:
        return {}


def learn(
    setting: Setting,
    lag: int,
    until: float,
    weights: Weights = None,
    begun: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Rung, Weights]:
    """Train one setting at one lag, from these weights, of which so many updates were made at this lag, until
    it is learned, or the updates or the time are over; return the rung and the weights.
    """
    if clock() >= until:
        return Rung(lag, 0.0, begun, "time"), weights
    task = LagTraining(setting, lag)
    config = TrainConfig(
        optimizer="adam",
        lr=RATE,
        weight_decay=0.0,
        clip="norm" if setting.clip else "none",
        seed=setting.seed,
    )
    score, step, ended = 0.0, begun, "updates"
    with torch.random.fork_rng(devices=[]):
        updater = Updater(task, config, torch.device("cpu"), initial=weights)
        updater.cursor = (0, begun)  # no batch comes twice
        while step < setting.updates and ended == "updates":
            try:
                updater.update(step, setting.updates, RATE)
            except Diverged:
                return Rung(lag, score, step, "diverged"), None
            step += 1
            if clock() >= until:
                ended = "time"
            if step % EVALUATE_EVERY == 0 or ended == "time":
                score = task.evaluate(updater.network)
                ended = "learned" if score >= SOLVED else ended
    state = updater.network.state_dict()
    return Rung(lag, score, step, cast("Ended", ended)), {n: w.numpy() for n, w in state.items()}
