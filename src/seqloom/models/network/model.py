"""What models of any task share that are one network: its weights, where it runs, saving, idle options of training."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts.base import Model
from seqloom.contracts.learnt import Kind, one_of, optional
from seqloom.errors import ConfigError
from seqloom.models.network.fitting import check_idle
from seqloom.models.network.trained import TrainedNetwork, array_specs, has_torch, say_stepping
from seqloom.runtime.declarations import Declarations, Shapes, shapes_of
from seqloom.runtime.quantised import BITS, QuantisedWeights
from seqloom.runtime.weights import Recorder, Weights

if TYPE_CHECKING:
    import torch

    from seqloom.training.config import TrainConfig

    Mixin = Model
else:
    Mixin = object


class NetworkModel(Mixin):
    """Written before the contract: `class Bert(NetworkModel, MaskedModel)`."""

    exact: ClassVar[
        tuple[str, ...]
    ] = ()  # how names of matrices end that stay float32 in a quantised network
    fine: ClassVar[bool] = (
        False  # quantised, inputs of its matrices have 16 bits instead of 8, since their errors add up
    )
    network_values: ClassVar[dict[str, Kind]] = {
        "bits": optional(one_of(*BITS))
    }  # to be among `learnt_values`
    idle_train: ClassVar[
        dict[str, str]
    ] = {}  # options of training without effect on this network, and what to do instead

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.net = TrainedNetwork(self.name, self.build_fitted)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.net = self.net.bound_to(self.build_fitted)

    # ---- what a network writes

    @abstractmethod
    def build_fitted(self) -> torch.nn.Module:
        """The network of a fitted model; its weights are then replaced by those that were learnt."""

    @abstractmethod
    def take_runtime(self, weights: Weights) -> Any:
        """Take the same network without torch (`runtime/`) from weights; by what it takes the weights are declared."""

    # ---- what follows

    def declared(self) -> Declarations:
        """Return name, shape and role of each array that the network has."""
        recorder = Recorder()
        self.take_runtime(recorder)
        return recorder.declared

    def fitted_shapes(self) -> Shapes:
        """Return the shapes of its weights by name, without building it."""
        return shapes_of(self.declared())

    def runtime(self) -> Any:
        """Return the network without torch on the learnt weights, made once."""
        return self.net.runtime(lambda arrays: self.take_runtime(Weights(arrays, fine=self.fine)))

    @property
    def weights(self) -> Mapping[str, np.ndarray]:
        """By name, as float32; of a quantised network each is made when it is asked for."""
        return self.net.weights

    @property
    def bits(self) -> int | None:
        """Of a weight of its matrices, where it is quantised."""
        return self.learnt.get("bits")

    @property
    def bits_label(self) -> str:
        """What the label of a quantised network ends with."""
        return f"-{self.bits}bit" if self.bits else ""

    def quantised(self, bits: int) -> Self:
        """The same model with 8 or 4 bits a weight, on disk and in memory: smaller, faster on a CPU, a little less exact."""
        self.check_fitted()
        if bits not in BITS:
            raise ConfigError(f"bits is {bits!r}; it must be {' or '.join(map(str, BITS))}")
        if self.bits:
            raise ConfigError(
                f"this model has {self.bits} bits a weight already; quantise the model that it was made of"
            )
        other = copy.copy(self)
        other.learnt = {**self.learnt, "bits": bits}
        other.net.restore(QuantisedWeights.of(self.weights, self.declared(), bits, self.exact))
        return other

    @property
    def parameters(self) -> int:
        return self.net.parameters

    def network(self) -> Any:
        """The network with the learnt weights, ready for use."""
        return self.net.module()

    def _check_train(self, train: TrainConfig | None) -> None:
        check_idle(self.name, train, self.idle_train)

    def reads_by_steps(self) -> bool:
        """Tell whether it reads known text without torch; quantised weights stay as small in memory as they are."""
        if not self.bits and has_torch():
            return False
        if not self.bits:
            say_stepping(self.name)
        return True

    def to_device(self, device: str) -> bool:
        self.net.to_device(device)
        return True

    def arrays(self) -> dict[str, np.ndarray]:
        return self.net.arrays()

    def array_specs(self, length: Length) -> dict[str, Spec]:
        return array_specs(self.declared(), self.bits, self.exact)

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.net.restore(
            QuantisedWeights.from_file(arrays, self.declared(), self.bits, self.exact)
            if self.bits
            else arrays
        )
