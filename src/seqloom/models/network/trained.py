"""A network that has been trained: its weights by name, which are saved, and torch's module, built when first needed.

A model has one of these. Where only the weights are wanted, as for stepping, torch is never imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from seqloom import progress
from seqloom.arrays import Spec
from seqloom.errors import MissingExtra, ModelError
from seqloom.forks import torch_alone
from seqloom.runtime.declarations import Declarations, float_spec
from seqloom.runtime.quantised import QuantisedWeights, bits_of, quantised_specs

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
RANKS = "output.ranks"  # of the adaptive softmax: the place of each token among all by frequency


class TrainedNetwork:
    def __init__(self, name: str, build: Callable[[], Any]) -> None:
        """`name` of the model; `build` makes the module, whose weights are then replaced."""
        self.name, self.build = name, build
        self.weights: Mapping[str, np.ndarray] = {}
        self._module: Any = None
        self._runtime: Any = None
        self._device: torch.device | None = None  # where the module is put; None: the CPU

    def bound_to(self, build: Callable[[], Any]) -> TrainedNetwork:
        """The same weights for a copy of the model, which builds its own module and may be fitted apart."""
        other = TrainedNetwork(self.name, build)
        other.weights, other._device = self.weights, self._device
        return other

    @property
    def parameters(self) -> int:
        if isinstance(self.weights, QuantisedWeights):
            return self.weights.parameters
        return sum(array.size for array in self.weights.values())

    def arrays(self) -> dict[str, np.ndarray]:
        """As they are saved."""
        return (
            self.weights.arrays()
            if isinstance(self.weights, QuantisedWeights)
            else dict(self.weights)
        )

    @property
    def on_cpu(self) -> bool:
        """Whether nobody asked for another device."""
        return self._device is None or self._device.type == "cpu"

    def module(self) -> Any:
        """torch's, with these weights, ready for use."""
        if self._module is None:
            require_torch(self.name)
            import torch

            module = self.build()
            module.load_state_dict(
                {name: torch.from_numpy(np.array(array)) for name, array in self.weights.items()}
            )
            self._module = module.to(self._device).eval()
        return self._module

    def runtime(self, make: Callable[[Mapping[str, np.ndarray]], T]) -> T:
        """What runs these weights without torch, made when it is first needed; it must not change afterwards."""
        if self._runtime is None:
            self._runtime = make(self.weights)
        return self._runtime

    def to_device(self, device: str) -> None:
        """Let the module be there from now on."""
        require_torch(self.name)
        from seqloom.training.devices import find_device

        self._device = find_device(device)
        if self._module is not None:
            self._module.to(self._device)

    def keep(self, module: Any) -> None:
        """What was just trained."""
        self.weights = {
            name: weight.detach().cpu().numpy() for name, weight in module.state_dict().items()
        }
        self._module, self._runtime = module, None

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Weights from a file, which are what `array_specs` says."""
        if RANKS in arrays and not (np.bincount(arrays[RANKS]) == 1).all():
            raise ModelError("two tokens have the same rank by frequency: the file is damaged")
        self.weights, self._module, self._runtime = arrays, None, None


def array_specs(
    declared: Declarations, bits: int | None = None, exact: tuple[str, ...] = ()
) -> dict[str, Spec]:
    """What these weights must be in a file, with matrices of float32 or of so many bits, but for `exact` ones."""
    specs: dict[str, Spec] = {}
    for name, each in declared.items():
        own = bits_of(name, each, bits, exact) if bits else None
        specs |= quantised_specs(name, each.shape, own) if own else {name: float_spec(each)}
    return specs


def has_torch() -> bool:
    """Whether torch can be imported; models step without it."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


@cache
def say_stepping(name: str) -> None:
    """That a network scores text without torch, once a process."""
    progress.say(
        f"torch is not installed, so the {name} model reads the text token by token, which is slow: "
        "pip install 'seqloom[nn]'"
    )


def require_torch(name: str) -> None:
    if not has_torch():
        raise MissingExtra(
            f"the {name} model needs torch, which is not installed: pip install 'seqloom[nn]'"
        )
    torch_alone()
