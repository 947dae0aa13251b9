"""Optimisers by name, their state as named arrays, and averages of the weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from seqloom.training.config import TrainConfig

_EXPONENTIAL = 0.999
_MOMENTUM = 0.95  # of Muon


Orthogonal = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]


def make_optimizer(
    config: TrainConfig,
    network: nn.Module,
    delayed: Sequence[Collection[str]] = (),
    make_orthogonal: Orthogonal | None = None,
) -> torch.optim.Optimizer:
    """Make the optimizer; weight decay applies to matrices only, not to biases and gains of norms.

    Parameters with `delayed` names are in separate groups, numbered by `delayed` from 1 on; 0: the others.
    `make_orthogonal`: what several processes do instead of `orthogonal`.
    """
    numbers = {name: number for number, names in enumerate(delayed, 1) for name in names}
    hidden = hidden_matrices(network) if config.rule == "muon" else set()
    kinds: dict[tuple[int, bool, bool], list[nn.Parameter]] = {}
    for name, p in network.named_parameters():
        if p.requires_grad:
            kinds.setdefault((numbers.get(name, 0), p.dim() < 2, name in hidden), []).append(p)
    groups: list[dict[str, Any]] = [
        {
            "params": kinds[kind],
            "weight_decay": 0.0 if kind[1] else config.weight_decay,
            "delayed": kind[0],
            "muon": kind[2],
        }
        for kind in sorted(kinds)
    ]
    lr = config.rate
    if config.rule == "muon":
        muon = Muon(groups, lr=lr, betas=(0.9, 0.99), fused=True)
        muon.make_orthogonal = make_orthogonal
        return muon
    if config.rule == "adamw":
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.99), fused=True)
    if config.rule == "adam":
        return torch.optim.Adam(groups, lr=lr, betas=(0.9, 0.999), fused=True)
    if config.rule == "rmsprop":
        return torch.optim.RMSprop(groups, lr=lr, foreach=True)
    return torch.optim.SGD(
        groups, lr=lr, momentum=0.9 if config.rule == "momentum" else 0.0, foreach=True
    )


def hidden_matrices(network: nn.Module) -> set[str]:
    """Return the names of the hidden matrices: neither embeddings nor the output layer."""
    tables = {
        f"{name}.weight"
        for name, module in network.named_modules()
        if isinstance(module, nn.Embedding)
    }
    return {
        name
        for name, p in network.named_parameters()
        if p.dim() == 2 and name not in tables and "output" not in name.split(".")
    }


class Muon(torch.optim.AdamW):
    """Muon (Jordan et al. 2024) for the groups marked `muon`, AdamW for the others, at one learning
    rate for both.

    The update of a matrix is its momentum with all singular values made about equal, scaled to the
    size of AdamW's update (Liu et al. 2025). torch's own Muon computes in bfloat16, which is twenty
    times slower than float32 on CPUs without it.
    """

    make_orthogonal: Orthogonal | None = None  # None: `orthogonal`

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            matrices = [p for p in group["params"] if p.grad is not None] if group["muon"] else []
            momenta = [self._direction(p) for p in matrices]
            directions = (self.make_orthogonal or orthogonal)(momenta)
            for p, direction in zip(matrices, directions):
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(direction, alpha=-group["lr"] * 0.2 * max(p.shape) ** 0.5)
                p.grad = None  # so that AdamW skips it
        return super().step(closure)

    def _direction(self, p: torch.Tensor) -> torch.Tensor:
        """Return the gradient with momentum (Nesterov)."""
        state = self.state[p]
        if not state:
            # AdamW expects a step
            state |= {"momentum_buffer": torch.zeros_like(p), "step": torch.zeros(())}
        momentum = state["momentum_buffer"]
        assert p.grad is not None
        momentum.lerp_(p.grad, 1 - _MOMENTUM)
        return p.grad.lerp(momentum, _MOMENTUM)


def orthogonal(matrices: Sequence[torch.Tensor], rounds: int = 5) -> list[torch.Tensor]:
    """Return U V' of each matrix U S V', up to singular values between 0.7 and 1.2: Newton-Schulz
    iterations of degree five.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    wide = [m.T if m.size(0) > m.size(1) else m for m in matrices]
    out: dict[int, torch.Tensor] = {}
    for shape in dict.fromkeys(m.shape for m in wide):  # those of one shape as a batch
        indices = [i for i, m in enumerate(wide) if m.shape == shape]
        x = torch.stack([wide[i] for i in indices])
        x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
        for _ in range(rounds):
            gram = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        out |= dict(zip(indices, x))
    return [out[i].T if m.size(0) > m.size(1) else out[i] for i, m in enumerate(matrices)]


def optimizer_arrays(optimizer: torch.optim.Optimizer) -> dict[str, np.ndarray]:
    """Return the state of the optimizer as arrays with names `number of the parameter.name`."""
    state = optimizer.state_dict()["state"]
    return {
        f"{number}.{name}": value.detach().cpu().numpy()
        for number, values in state.items()
        for name, value in values.items()
        if isinstance(value, torch.Tensor)
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, arrays: dict[str, np.ndarray]) -> None:
    state_dict = optimizer.state_dict()
    state: dict[int, dict[str, Any]] = {}
    for key, array in arrays.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = torch.from_numpy(np.array(array))
    state_dict["state"] = state
    optimizer.load_state_dict(state_dict)


class Average:
    """A running mean of the weights (Polyak and Juditsky 1992), in which gradient noise cancels."""

    def __init__(self, config: TrainConfig, network: nn.Module) -> None:
        self.kind = "tail" if config.rule == "asgd" else config.average
        self.network, self.count = network, 0
        self.mean: dict[str, torch.Tensor] = {}

    @torch.no_grad()
    def update(self, in_tail: bool) -> None:
        """Update the mean after an update; `in_tail`: whether it is one of the last, which `tail` counts."""
        if self.kind == "none" or (self.kind == "tail" and not in_tail):
            return
        weights = {
            name: w for name, w in self.network.state_dict().items() if w.is_floating_point()
        }
        if not self.mean:
            self.mean = {name: w.detach().clone() for name, w in weights.items()}
            self.count = 1
            return
        self.count += 1
        share = 1 / self.count if self.kind == "tail" else max(1 - _EXPONENTIAL, 1 / self.count)
        torch._foreach_lerp_([self.mean[name] for name in weights], list(weights.values()), share)

    def weights(self) -> dict[str, torch.Tensor]:
        """Return the weights to evaluate and save: the mean, once there is one."""
        return {**self.network.state_dict(), **self.mean}
