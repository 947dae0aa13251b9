"""How a run of so many minutes ends in time, on a machine that gets busier or quieter while it runs.

The learning rate rises, stays, and falls (warm-up, stable, decay: Hu et al. 2024, MiniCPM). Only the
fall needs to know the end, so the end is decided late: after every step the time that is left says how
many more would fit, and when those are DECAY of the whole, the decay begins. If the machine then changes
so much that the run would end early or late, the rate falls from where it is to the end that is now
expected.

What is decided this way is a list of pairs of steps, which repeats the run without a clock. Durations
are part of the checkpoint, so a run that goes on has the time that it had left.
"""

from __future__ import annotations

import math
from typing import Any

from seqloom.training.trainable import DECAY

TOLERANCE = 0.03  # of the time: so much early or late is in time
# How far back the duration of a step is measured: a share of the time, but not fewer steps than these.
_MEMORY, _MEMORY_STEPS = 0.03, 20


class Pace:
    """Decides from durations when the learning rate falls, and when the run ends.

    `seconds`: the time given; `evaluate_every`: steps between two evaluations; `decays`: whether the
    schedule has a decay at all.
    """

    def __init__(self, seconds: float, evaluate_every: int, decays: bool = True) -> None:
        self.seconds, self.evaluate_every, self.decays = seconds, evaluate_every, decays
        self.spent = 0.0
        self.evaluation = 0.0  # seconds of the last one
        self.plan: list[
            tuple[int, int]
        ] = []  # from which step on the rate falls, towards which end
        self._time, self._steps = 0.0, 0.0  # of the last steps, older ones counting less

    def evaluated(self, seconds: float) -> None:
        """Count an evaluation; there will be more like it, one of them at the end."""
        self.evaluation = seconds
        self.spent += seconds

    def stepped(self, step: int, seconds: float) -> None:
        """Count the step after which `step` are done; begin the decay, or change its end, if it is time."""
        self.spent += seconds
        kept = math.exp(-min(seconds / (_MEMORY * self.seconds), 1 / _MEMORY_STEPS))
        self._time, self._steps = self._time * kept + seconds, self._steps * kept + 1
        if not self.decays:
            return
        more = self.left / self._seconds_per_step()
        if not self.plan:
            begins = more * (1 - DECAY) <= DECAY * step
        else:
            drift = (self.plan[-1][1] - step - more) * self._seconds_per_step()
            begins = abs(drift) > TOLERANCE * self.seconds
        if begins:
            self.plan.append((step, step + max(round(more), 0)))

    @property
    def left(self) -> float:
        """Return the seconds that are left for steps, before the last evaluation."""
        return self.seconds - self.evaluation - self.spent

    def ends(self, step: int) -> bool:
        """Return whether the run ends after so many steps."""
        return step >= self.plan[-1][1] if self.plan else self.left <= 0

    def _seconds_per_step(self) -> float:
        step = self._time / self._steps + self.evaluation / self.evaluate_every
        return max(step, 1e-9)

    def state(self) -> dict[str, Any]:
        """Return all that a later decision depends on."""
        return {
            "spent": self.spent,
            "evaluation": self.evaluation,
            "plan": self.plan,
            "recent": [self._time, self._steps],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.spent, self.evaluation = state["spent"], state["evaluation"]
        self.plan = [(begin, end) for begin, end in state["plan"]]
        self._time, self._steps = state["recent"]
