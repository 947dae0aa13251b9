"""Dynamic evaluation (Krause et al. 2018, "Dynamic Evaluation of Neural Sequence Models"): learning
while being tested.

The text is scored window by window, and after each window, never before, the weights take one step
down the RMS-scaled gradient of what it cost. So the network follows the topic and the manner of the
text that it reads. All this happens to a copy of the weights; the model stays as it was, and every
evaluation begins with it.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, TrainingError, quoted
from seqloom.models.language.neural import Past, token_log_probs

if TYPE_CHECKING:
    import torch

    from seqloom.models.language.neural import NeuralLanguageModel

LR = 0.001
WINDOW = 32  # tokens between two steps; for gpt half its context
HOPELESS = 1000.0  # nats a token
TINY = 1e-12


class DynamicEvaluation:
    """One way to evaluate a model; `text_log_probs` as the model's own."""

    def __init__(
        self, model: NeuralLanguageModel, lr: float | None = None, window: int = WINDOW
    ) -> None:
        self.model, self.lr, self.window = model, LR if lr is None else lr, window
        if not 0 <= self.lr <= 1e6:
            raise ConfigError(f"dynamic_lr must be a number from 0 to 1e6; got {quoted(lr)}")

    def __str__(self) -> str:
        return f"rms,lr={self.lr:g},window={self.window}"

    def text_log_probs(self, ids: np.ndarray) -> np.ndarray:
        """Compute the log-probabilities of a text of units that `</s>` closes, one unit after the
        other.
        """
        return self.reading()(ids)

    def reading(self) -> DynamicReading:
        """Start on a text that comes in portions."""
        return DynamicReading(self)


class DynamicReading:
    """A copy of the network on its way through one text."""

    def __init__(self, how: DynamicEvaluation) -> None:
        self.model, self.lr, self.window = how.model, how.lr, how.window
        self.network = copy.deepcopy(self.model.network())
        self.learner, self.past, self.read = Learner(self.network, self.lr), Past(), 0

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        eos, out = self.model.tokenizer.eos_id, np.empty(len(ids), np.float32)
        ends = (
            np.array([len(ids)])
            if self.model.carry
            else np.union1d(np.flatnonzero(ids == eos) + 1, [len(ids)])
        )
        with progress.task("dynamic evaluation", len(ids), "tokens") as bar:
            for low, high in pairwise([0, *ends.tolist()]):
                self._sequence(ids[low:high], out[low:high], bar)
                if ids[high - 1] == eos and not self.model.carry:
                    self.past = Past()
        return out

    def _sequence(self, ids: np.ndarray, out: np.ndarray, bar: progress.Bar) -> None:
        """Score the next tokens of one sequence, then learn from them, window by window."""
        pieces = self.model.layers.flat_features(
            self.model, self.network, ids, np.array([len(ids)]), self.window, self.past
        )
        for places, features in pieces:
            out[places] = token_log_probs(self.network, features, ids[places])
            if not float(out[places].mean()) > -HOPELESS:  # also where it is NaN
                raise TrainingError(
                    f"dynamic evaluation diverged at token {self.read + int(places[0]):,}: "
                    f"try a lower dynamic_lr (now {self.lr:g})"
                )
            self.learner.step(features, ids[places])
            bar.advance(len(places))
        self.read += len(ids)


class Learner:
    """Steps of the network's weights along gradients that are divided by their usual size (RMS).

    Krause et al. take that size from the training text, which a saved model no longer has; here it
    is the mean over the windows so far. The mean over the whole tensor is added to it (in place of
    their constant): a weight that moves for the first time, as those of a rare word do, would else
    take a leap.
    """

    def __init__(self, network: Any, lr: float) -> None:
        import torch

        self.network, self.lr, self.steps = network, lr, 0
        self.squares = {
            name: torch.zeros_like(weight) for name, weight in network.named_parameters()
        }

    def step(self, features: torch.Tensor, targets: np.ndarray) -> None:
        """Take one step on the mean cost of the targets (N,) after features (N, D), whose graph is
        still there.
        """
        import torch
        import torch.nn.functional as F

        wanted = torch.from_numpy(targets.astype(np.int64)).to(features.device)
        loss = F.nll_loss(
            self.network.output.log_probs(features), wanted
        )  # exact, however the output layer was trained
        loss.backward()
        self.steps += 1
        with torch.no_grad():
            for name, weight in self.network.named_parameters():
                if weight.grad is None:
                    continue
                usual = (self.squares[name].addcmul_(weight.grad, weight.grad) / self.steps).sqrt_()
                weight.addcdiv_(weight.grad, usual.add_(usual.mean() + TINY), value=-self.lr)
                weight.grad = None
