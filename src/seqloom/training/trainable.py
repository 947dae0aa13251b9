"""What the training loop needs of a model: its network, batches, loss and criterion (`Trainable`); and
the learning rate as a function of the step (`Schedule`, `DelayedGroup`), so that a resumed run
continues exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from torch import Tensor, nn

    from seqloom.training.batches import Batches
    from seqloom.training.devices import Tensors


class Criterion(NamedTuple):
    """The metric on held-out data (nats, F1, BLEU, mean squared error), and which direction is better."""

    name: str = "nats"
    higher_is_better: bool = False

    def cost(self, value: float) -> float:
        """Return the value with a sign such that less is better."""
        return -value if self.higher_is_better else value


class Trainable(Protocol):
    """What is trained, and how it is evaluated. A task may also have

    - `frozen_network`: a second module that its loss calls, such as a teacher or a reference. The loop moves
      it to the device of the first, in eval mode and without gradients, and never changes, saves or
      checkpoints it; a run is only continued with the same one. Ask it inside `torch.no_grad()`.
    - `enough_epochs`, `evaluations`: how long to train and how often to evaluate where nothing is said.
    - `chosen`: options of the model that were chosen by the time given, and are needed to repeat the run.
    """

    batches: Batches
    criterion: Criterion
    counted: str  # what `Batch.count` counts: tokens, words, values
    unit: str  # of the loss: nats, squared error

    def build(self) -> nn.Module:
        """Build the network with its initial weights, from torch's random state."""
        ...

    def loss(self, network: Any, batch: Tensors, state: Any) -> tuple[Tensor, Any]:
        """Return the sum of the losses of the targets, each by its weight, and the state to carry on
        (None: nothing is carried).

        The caller divides it by the count of all batches of an update, which may be of unequal size.
        """
        ...

    def evaluate(self, network: Any) -> float | None:
        """Return the criterion on held-out data; None if nothing is held out."""
        ...

    def readings(self, value: float, held_out: bool) -> dict[str, float]:
        """Convert the mean loss, or the criterion on held-out data, to other units for the log."""
        ...


# ---- schedules


DECAY = 0.5  # share of all steps in which the rate of wsd falls
TAIL = (
    0.75  # share of the steps after which the mean of the weights begins, where there is no decay
)
_LOWEST = 0.02  # of the peak, at the end of cosine and wsd


class Schedule:
    """The learning rate by step. Warm-up begins at 1 / warm-up, not at zero: a first step with rate
    zero would be lost. Noam is Vaswani et al. 2017, section 5.3, scaled to reach the given rate at the
    end of its warm-up. Only `plateau` depends on results, which are in its `state`.

    `plan`: when the rate of wsd falls, as pairs of steps; the list may grow while the run goes on (`Pace`).
    """

    def __init__(
        self, config: TrainConfig, steps: int, plan: list[tuple[int, int]] | None = None
    ) -> None:
        self.config, self.steps = config, steps
        shares_of = config.planned_steps or steps
        self.warmup = _count(config.warmup, shares_of)
        self.every = max(_count(config.decay_every, shares_of), 1)
        self.tail = int(TAIL * shares_of)
        self.plan = self._decay_at_the_end() if plan is None else plan
        self.factor, self.best, self.waited = 1.0, math.inf, 0  # of plateau

    def rate(self, step: int) -> float:
        """Return the learning rate of update number `step`, counted from 0."""
        c = self.config
        if c.curve == "noam":
            warmup = max(self.warmup, 1)
            return c.rate * min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))
        if step < self.warmup:
            return c.rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(self.steps - self.warmup, 1)
        if c.curve == "linear":
            return c.rate * (1 - done)
        if c.curve == "cosine":
            return c.rate * _above_lowest((1 + math.cos(math.pi * min(done, 1.0))) / 2)
        if c.curve == "step":
            return c.rate * c.decay ** ((step - self.warmup) // self.every)
        if c.curve == "wsd":
            return c.rate * _above_lowest(self._decayed(step))
        return c.rate * self.factor

    def averages(self, step: int) -> bool:
        """Return whether update number `step` belongs to the tail, of which `average` may take the mean."""
        if self.config.curve == "wsd":
            return bool(self.plan) and step >= self.plan[0][0]
        return step >= self.tail

    def _decay_at_the_end(self) -> list[tuple[int, int]]:
        falls = self.config.falls()
        if falls:
            return falls
        length = self.config.decay_steps or round(DECAY * self.steps)
        return [(max(self.steps - length, 0), self.steps)]

    def _decayed(self, step: int) -> float:
        """Return what is left of the rate, 1 to 0: each plan leads from where the one before it was left."""
        share = 1.0
        plan = [(begin, end) for begin, end in self.plan if begin <= step]
        for (begin, end), (stop, _) in zip(plan, [*plan[1:], (step, step)]):
            share *= max(1 - (stop - begin) / max(end - begin, 1), 0.0)
        return share

    def evaluated(self, loss: float) -> None:
        """Take a held-out loss into account: two evaluations without gain lower the rate of `plateau`."""
        if loss < self.best:
            self.best, self.waited = loss, 0
            return
        self.waited += 1
        if self.waited >= 2:
            self.factor, self.waited = self.factor * self.config.decay, 0

    def state(self) -> dict[str, Any]:
        return {
            "factor": self.factor,
            "best": None if math.isinf(self.best) else self.best,
            "waited": self.waited,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.factor, self.waited = state["factor"], state["waited"]
        self.best = math.inf if state["best"] is None else state["best"]


@dataclass(frozen=True)
class DelayedGroup:
    """Weights that learn later than the rest, or at a different rate, by patterns of names (fnmatch).

    For `frozen_for` (a share of the steps, a number of them if above 1, or infinity), or only for this
    `fraction` of it, they do not change by a bit and have no gradient; then their learning rate rises over as
    many steps to `lr_scale` times that of the rest.
    """

    patterns: tuple[str, ...]
    frozen_for: float = 0.0
    lr_scale: float = 1.0
    fraction: float = 1.0

    def share(self, step: int, steps: int) -> float:
        """Return the factor of their learning rate in update number `step` of `steps`, counted from 0."""
        if math.isinf(self.frozen_for):
            return 0.0
        wait = round(_count(self.frozen_for, steps) * self.fraction)
        return self.lr_scale * (min(max((step - wait + 1) / wait, 0.0), 1.0) if wait else 1.0)


def _above_lowest(share: float) -> float:
    return _LOWEST + (1 - _LOWEST) * share


def _count(share: float, steps: int) -> int:
    return round(share) if share > 1 else round(share * steps)
