"""What models of any task that are one network share: its weights by name, which are saved; torch's
module, built when first needed; fitting it with the training engine; quantising it.

Where only the weights are used, as for stepping, torch is never imported.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from seqloom import progress
from seqloom.arrays import Length, Spec
from seqloom.contracts import FitOptions
from seqloom.contracts.base import Model
from seqloom.contracts.saving import Kind, one_of, optional
from seqloom.contracts.starting import Origin
from seqloom.errors import ConfigError, MissingExtra, ModelError
from seqloom.forks import torch_alone
from seqloom.models.network.trying import estimate, sweep
from seqloom.runtime.declarations import Declarations, Shapes, float_spec, shapes_of
from seqloom.runtime.quantised import BITS, QuantisedWeights, bits_of, quantised_specs
from seqloom.runtime.weights import Recorder, Weights
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    import torch

    from seqloom.training.trainable import DelayedGroup, Trainable


T = TypeVar("T")
RANKS = "output.ranks"  # of the adaptive softmax: the rank of each token by frequency


class TrainedNetwork:
    def __init__(self, name: str, build: Callable[[], Any]) -> None:
        """Make a network without weights; `name` of the model; `build` makes a module, which then gets
        the trained weights.
        """
        self.name, self.build = name, build
        self.weights: Mapping[str, np.ndarray] = {}
        self._module: Any = None
        self._runtime: Any = None
        self._device: torch.device | None = None  # where the module is put; None: the CPU

    def bound_to(self, build: Callable[[], Any]) -> TrainedNetwork:
        """Return the same weights for a copy of the model, which builds its own module and may be
        fitted independently.
        """
        other = TrainedNetwork(self.name, build)
        other.weights, other._device = self.weights, self._device
        return other

    @property
    def parameters(self) -> int:
        if isinstance(self.weights, QuantisedWeights):
            return self.weights.parameters
        return sum(array.size for array in self.weights.values())

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays as they are saved."""
        return (
            self.weights.arrays()
            if isinstance(self.weights, QuantisedWeights)
            else dict(self.weights)
        )

    @property
    def on_cpu(self) -> bool:
        """Return whether it runs on the CPU: no other device was set."""
        return self._device is None or self._device.type == "cpu"

    def module(self) -> Any:
        """Return torch's module with these weights, ready for use."""
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
        """Return the network without torch, made when it is first needed; it must not change
        afterwards.
        """
        if self._runtime is None:
            self._runtime = make(self.weights)
        return self._runtime

    def to_device(self, device: str) -> None:
        """Put the module on this device from now on."""
        require_torch(self.name)
        from seqloom.training.devices import find_device

        self._device = find_device(device)
        if self._module is not None:
            self._module.to(self._device)

    def keep(self, module: Any) -> None:
        """Store a module that was just trained, and its weights."""
        self.weights = {
            name: weight.detach().cpu().numpy() for name, weight in module.state_dict().items()
        }
        self._module, self._runtime = module, None

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take weights from a file, which was checked against `array_specs`."""
        if RANKS in arrays and not (np.bincount(arrays[RANKS]) == 1).all():
            raise ModelError("two tokens have the same rank by frequency: the file is damaged")
        self.weights, self._module, self._runtime = arrays, None, None


def array_specs(
    declared: Declarations, bits: int | None = None, exact: tuple[str, ...] = ()
) -> dict[str, Spec]:
    """Return type and shape of these weights in a file, with matrices of float32 or of so many bits,
    except `exact` ones.
    """
    specs: dict[str, Spec] = {}
    for name, each in declared.items():
        own_bits = bits_of(name, each, bits, exact) if bits else None
        specs |= (
            quantised_specs(name, each.shape, own_bits) if own_bits else {name: float_spec(each)}
        )
    return specs


def has_torch() -> bool:
    """Return whether torch can be imported; models step without it."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


@cache
def say_stepping(name: str) -> None:
    """Print once per process that a network scores text without torch."""
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


# ---- fitting


def refuse_unused(name: str, train: TrainConfig | None, unused: Mapping[str, str]) -> None:
    """Refuse training options that have no effect on the model of that name; `unused`: by option, what
    to do instead.
    """
    for option, advice in unused.items():
        if (
            train is not None
            and getattr(train, option) != TrainConfig.__dataclass_fields__[option].default
        ):
            raise ConfigError(f"{option} has no effect on {name}: {advice}")


def check_held_out(config: TrainConfig) -> None:
    """Refuse options that need results on held-out data, where nothing is held out."""
    names = [name for name in ("patience", "evaluate_every") if getattr(config, name) is not None]
    names += ["schedule plateau"] if config.schedule == "plateau" else []
    if names:
        raise ConfigError(
            f"{' and '.join(names)} need held-out data, and none is held out; give valid=...",
            ("patience", "evaluate_every", "schedule"),
        )


def remark_frozen_vectors(start: Origin) -> None:
    """Print that pretrained vectors, frozen in the model to start from, are trained now."""
    if getattr(start.model.config, "pretrained_training", None) == "frozen":
        progress.say(
            "the pretrained vectors, which were frozen in the model to start from, are trained now; "
            "freeze=('*embedding.weight',) keeps them"
        )


def prepare(name: str, options: FitOptions) -> tuple[TrainConfig, torch.device]:
    """Return the training options and the device for the model of that name; refuse what this machine
    does not support.
    """
    require_torch(name)
    from seqloom.training.devices import check_precision, find_device

    config, device = options.train or TrainConfig(), find_device(options.device)
    check_precision(config, device)
    return config, device


NEWER_OPTIONS = ("enough", "decay_steps", "planned_steps", "batch_growth")


def train_network(
    task: Trainable,
    config: TrainConfig,
    device: torch.device,
    *,
    run: Path | None,
    facts: Mapping[str, Any],
    groups: Sequence[DelayedGroup] = (),
    start: Origin | None = None,
) -> tuple[torch.nn.Module, dict[str, Any]]:
    """Return the trained network, and its part of the model's record.

    `run`: the directory of checkpoints; a run with different `facts` (model, options, data) is not
    continued. `groups`: weights that learn later or more slowly; `start`: the model that it starts
    from.
    """
    from seqloom.training.asking import ESTIMATE, NOISE
    from seqloom.training.checkpoint import Run
    from seqloom.training.loop import train

    if start is not None:
        remark_frozen_vectors(start)
    if ESTIMATE:
        from seqloom.training.estimate import Estimated, estimate

        initial = None if start is None else start.weights
        raise Estimated(estimate(task, config, device, groups, initial))
    # What says nothing is left out where earlier versions did not have it: their runs can be continued.
    options = {
        key: value
        for key, value in config.to_dict().items()
        # shards may be left out when a run is resumed, which keeps them
        if key not in ("tensorboard", "shards")
        and value != []
        and (value or key not in NEWER_OPTIONS)
    }
    options |= {"optimizer": config.rule, "schedule": config.curve}
    run_facts = {**facts, **({} if start is None else {"start": start.digest}), "train": options}
    report = train(
        task,
        config,
        device=device,
        run=Run(run) if run else None,
        facts=run_facts,
        groups=groups,
        initial=None if start is None else start.weights,
    )
    if NOISE:
        from seqloom.training.noise import noise_scale
        from seqloom.training.update import Updater

        found = {name: w.cpu().numpy() for name, w in report.network.state_dict().items()}
        updater = Updater(task, config, device, groups, found)
        report.facts["noise_scale"] = noise_scale(updater)
    # as in a loaded network: weights that were frozen in training are weights like others
    report.network.requires_grad_(True)
    cut = {"shards": report.facts["shards"]} if "shards" in report.facts else {}
    record = {
        "train": options | {"steps": report.facts["steps"]} | cut,
        **report.facts,
        f"valid_{task.criterion.name}": report.valid,
        "best_step": report.best_step,
    }
    return report.network, record | ({} if start is None else start.record)


def train_model(
    model: Any,
    task: Trainable,
    config: TrainConfig,
    device: torch.device,
    options: FitOptions,
    groups: Sequence[DelayedGroup] = (),
    **facts: Any,
) -> None:
    """Train the network of a model and store it and its record there; `facts` besides model, options
    and data.
    """
    facts |= {
        "model": model.name,
        "config": model.config.to_dict(),
        "data": model.fit_info["data_hash"],
    }
    network, record = train_network(
        task, config, device, run=options.run, facts=facts, groups=groups, start=options.start
    )
    model.net.keep(network)
    model.fit_info |= record


# ---- model

if TYPE_CHECKING:
    import torch

    from seqloom.training.config import TrainConfig

    Mixin = Model
else:
    Mixin = object


class NetworkModel(Mixin):
    """A mixin, written before the contract: `class Bert(NetworkModel, MaskedModel)`."""

    estimate, sweep = estimate, sweep
    public_names = "estimate sweep to_device quantised weights"
    # endings of the names of matrices that stay float32 in a quantised network
    exact: ClassVar[tuple[str, ...]] = ()
    # quantised, inputs of its matrices have 16 bits instead of 8, since their errors add up
    inputs_16_bit: ClassVar[bool] = False
    # to be among `learnt_values`
    network_values: ClassVar[dict[str, Kind]] = {"bits": optional(one_of(*BITS))}
    # training options without effect on this network, and what to do instead
    unused_training_options: ClassVar[dict[str, str]] = {}

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.net = TrainedNetwork(self.name, self.build_fitted)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.net = self.net.bound_to(self.build_fitted)

    # ---- what a network writes

    @abstractmethod
    def build_fitted(self) -> torch.nn.Module:
        """Build the network of a fitted model; its weights are then replaced by those that were
        learnt.
        """

    @abstractmethod
    def take_runtime(self, weights: Weights) -> Any:
        """Take the same network without torch (`runtime/`) from weights; the arrays that it takes are
        the declared ones.
        """

    # ---- what follows from these

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
        return self.net.runtime(
            lambda arrays: self.take_runtime(Weights(arrays, inputs_16_bit=self.inputs_16_bit))
        )

    @property
    def weights(self) -> Mapping[str, np.ndarray]:
        """Return the weights by name, as float32; those of a quantised network are computed on access."""
        return self.net.weights

    @property
    def bits(self) -> int | None:
        """Return the bits per weight of its matrices, None if it is not quantised."""
        return self.learnt.get("bits")

    @property
    def bits_label(self) -> str:
        """Return the ending of the label of a quantised network, else nothing."""
        return f"-{self.bits}bit" if self.bits else ""

    def quantised(self, bits: int) -> Self:
        """Return this model with 8 or 4 bits per weight, on disk and in memory: smaller, faster on a
        CPU, a little less exact.
        """
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
        """Return the network with the learnt weights, ready for use."""
        return self.net.module()

    def _check_train(self, train: TrainConfig | None) -> None:
        refuse_unused(self.name, train, self.unused_training_options)

    def reads_by_steps(self) -> bool:
        """Return whether it reads given text without torch: where torch is missing, or the weights are
        quantised, which torch would expand in memory.
        """
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
