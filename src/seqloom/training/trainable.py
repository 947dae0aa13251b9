"""What the training loop needs to know of a model: its network, its batches, its loss, and what it is judged by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn

    from seqloom.training.batches import Batches
    from seqloom.training.devices import Tensors


class Criterion(NamedTuple):
    """What is measured on held-out data, and which way is better: nats, F1, BLEU, mean squared error."""

    name: str = "nats"
    higher_is_better: bool = False

    def cost(self, value: float) -> float:
        """The value as something of which less is better."""
        return -value if self.higher_is_better else value


class Trainable(Protocol):
    """What is trained, and how it is judged. A task may also have

    - `frozen_network`: a second module that its loss asks, such as a teacher or a reference. The loop moves
      it to the device of the first, in eval mode and without gradients, and never changes, saves or
      checkpoints it; a run is only continued with the same one. Ask it inside `torch.no_grad()`.
    - `enough_epochs`, `evaluations`: how long to train and how often to evaluate where nothing is said.
    """

    batches: Batches
    criterion: Criterion
    counted: str  # what `Batch.count` counts: tokens, words, values
    unit: str  # of the loss: nats, squared error

    def build(self) -> nn.Module:
        """The network with its initial weights, from torch's random state."""
        ...

    def loss(self, network: Any, batch: Tensors, state: Any) -> tuple[Tensor, Any]:
        """The sum of the losses of the targets, each by its weight, and the state to carry on (None: nothing is carried).

        Whoever asks divides it by the count of all batches of an update: batches may be of unequal size.
        """
        ...

    def evaluate(self, network: Any) -> float | None:
        """The criterion on held-out data; None where there is none."""
        ...

    def readings(self, value: float, held_out: bool) -> dict[str, float]:
        """The same in other units, for the log: of the mean loss, or of the criterion on held-out data."""
        ...
