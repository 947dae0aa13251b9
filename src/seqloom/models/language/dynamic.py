"""Dynamic evaluation (Krause et al. 2018, "Dynamic Evaluation of Neural Sequence Models"): the network
learns from the test text after scoring it.

The text is scored window by window, and after each window, never before, the weights take one step
along the RMS-scaled gradient of its loss. So the network adapts to topic and style of the text. Only
a copy of the weights changes, and every evaluation starts from the model.
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
HOPELESS = 1000.0  # nats per token
TINY = 1e-12


class DynamicEvaluation:
    """Evaluates a model dynamically, by the same `text_log_probs` and `reading` as the model."""

    def __init__(
        self, model: NeuralLanguageModel, lr: float | None = None, window: int = WINDOW
    ) -> None:
        self.model, self.lr, self.window = model, LR if lr is None else lr, window
        if not 0 <= self.lr <= 1e6:
            raise ConfigError(f"dynamic_lr must be a number from 0 to 1e6; got {quoted(lr)}")

    def __str__(self) -> str:
        return f"rms,lr={self.lr:g},window={self.window}"

    def text_log_probs(self, ids: np.ndarray) -> np.ndarray:
        """Compute the log-probabilities of a text, unit by unit; each unit ends in `</s>`."""
        return self.reading()(ids)

    def reading(self) -> DynamicReading:
        """Start on a text that comes in portions."""
        return DynamicReading(self)


class DynamicReading:
    """A copy of the network that reads one text."""

    def __init__(self, evaluation: DynamicEvaluation) -> None:
        self.model, self.lr, self.window = evaluation.model, evaluation.lr, evaluation.window
        self.network = copy.deepcopy(self.model.network())
        self.learner, self.past, self.read = Learner(self.network, self.lr), Past(), 0

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        eos, log_probs = self.model.tokenizer.eos_id, np.empty(len(ids), np.float32)
        ends = (
            np.array([len(ids)])
            if self.model.carry
            else np.union1d(np.flatnonzero(ids == eos) + 1, [len(ids)])
        )
        with progress.task("dynamic evaluation", len(ids), "tokens") as bar:
            for low, high in pairwise([0, *ends.tolist()]):
                self._sequence(ids[low:high], log_probs[low:high], bar)
                if ids[high - 1] == eos and not self.model.carry:
                    self.past = Past()
        return log_probs

    def _sequence(self, ids: np.ndarray, log_probs: np.ndarray, bar: progress.Bar) -> None:
        """Score the next tokens of one sequence, then learn from them, window by window."""
        windows = self.model.layers.flat_features(
            self.model, self.network, ids, np.array([len(ids)]), self.window, self.past
        )
        for positions, features in windows:
            log_probs[positions] = token_log_probs(self.network, features, ids[positions])
            if not float(log_probs[positions].mean()) > -HOPELESS:  # also where it is NaN
                raise TrainingError(
                    f"dynamic evaluation diverged at token {self.read + int(positions[0]):,}: "
                    f"try a lower dynamic_lr (now {self.lr:g})"
                )
            self.learner.step(features, ids[positions])
            bar.advance(len(positions))
        self.read += len(ids)


class Learner:
    """Updates the weights of a network along gradients divided by their root mean square (RMS).

    Krause et al. compute the RMS on the training text, which a saved model no longer has; here it is
    that of the windows so far. Its mean over the tensor is added (instead of their constant):
    otherwise a weight that changes for the first time, as those of a rare word, would change far too
    much.
    """

    def __init__(self, network: Any, lr: float) -> None:
        import torch

        self.network, self.lr, self.steps = network, lr, 0
        self.squares = {
            name: torch.zeros_like(weight) for name, weight in network.named_parameters()
        }

    def step(self, features: torch.Tensor, targets: np.ndarray) -> None:
        """Take one step on the mean loss of the targets (N,) after features (N, D), which still have
        their graph.
        """
        import torch
        import torch.nn.functional as F

        target_ids = torch.from_numpy(targets.astype(np.int64)).to(features.device)
        # Exact log-probabilities, even if the output layer was trained by sampling.
        loss = F.nll_loss(self.network.output.log_probs(features), target_ids)
        loss.backward()
        self.steps += 1
        with torch.no_grad():
            for name, weight in self.network.named_parameters():
                if weight.grad is None:
                    continue
                rms = (self.squares[name].addcmul_(weight.grad, weight.grad) / self.steps).sqrt_()
                weight.addcdiv_(weight.grad, rms.add_(rms.mean() + TINY), value=-self.lr)
                weight.grad = None
