"""What the recurrent layers of a network do while it is trained, read now and then from a few rows of
held-out data: how much of their gates is saturated, and how far back the gradient of a step reaches.

Nothing of the training depends on it: no random numbers are drawn, no gradient of a weight is kept. A value
of a sigmoid or tanh is saturated in the outermost tenth of its range on either side (Karpathy et al. 2016):
a gate below 0.1 is closed, one above 0.9 open; beyond 0.8 a tanh is saturated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.nn.recurrent import RecurrentStack
from seqloom.traces import Trace

ROWS, STEPS = 2, 33  # that are read, at most: each step costs as much as in decoding
DISTANCES = (2, 4, 6, 8, 12, 16, 24, 32)  # steps back, compared with one step
_LOW, _HIGH, _TANH = 0.1, 0.9, 0.8
_TANH_NAMES = ("g", "n", "h")  # of the candidate of an LSTM and a GRU, and of a plain RNN


@contextmanager
def keeping_inputs(network: nn.Module, *, wanted: bool = True) -> Iterator[dict[str, Tensor]]:
    """Keep a few rows of what each recurrent stack reads first while this is open, by its name; nothing
    unless it is `wanted`.
    """
    kept: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(stack: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            if name not in kept:
                lengths = args[2] if len(args) > 2 else named.get("lengths")
                rows = _few_rows(args[0] if args else named["x"], lengths)
                if rows.shape[1] > 1:
                    kept[name] = rows

        return hook

    hooks = [
        module.register_forward_pre_hook(keep(name), with_kwargs=True)
        for name, module in network.named_modules()
        if wanted and isinstance(module, RecurrentStack)
    ]
    try:
        yield kept
    finally:
        for each in hooks:
            each.remove()


def _few_rows(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return the longest rows of x (B, T, D), without padding; of a single long one several pieces."""
    if lengths is not None:
        longest = lengths.to(x.device).argsort(descending=True)[:ROWS]
        return x[longest, : min(int(lengths.to(x.device)[longest].min()), STEPS)]
    pieces = min(x.shape[1] // STEPS, ROWS)
    if x.shape[0] == 1 and pieces > 1:
        return x[0, : pieces * STEPS].reshape(pieces, STEPS, -1)
    return x[:ROWS, :STEPS]


def watch(network: nn.Module, kept: dict[str, Tensor]) -> dict[str, float]:
    """Return shares of closed, open and saturated values by gate, and by distance the gradient of the last
    step with respect to earlier inputs, as a share of that one step back.
    """
    found: dict[str, float] = {}
    for name, rows in kept.items():
        stack = network.get_submodule(name)
        assert isinstance(stack, RecurrentStack)
        trace = Trace("*gates.*", "*.h")
        with torch.enable_grad():
            x = rows.detach().clone().to(next(stack.parameters())).requires_grad_(True)
            outputs, _ = stack(x, trace=trace)
            if not stack.bidirectional:
                found |= _reach(name, x, outputs)
        for gate, values in trace.items():
            found |= _saturation(f"{name}.{gate}", values.detach(), stack)
    return {key: round(value, 6) for key, value in found.items()}


def _saturation(name: str, values: Tensor, stack: RecurrentStack) -> dict[str, float]:
    own = name.rpartition(".")[2]
    if own not in _TANH_NAMES:
        return {
            f"closed.{name}": float((values < _LOW).float().mean()),
            f"open.{name}": float((values > _HIGH).float().mean()),
        }
    first: Any = stack.layers[0]
    if own == "h" and (first.gate_names or getattr(first, "activation", "tanh") != "tanh"):
        return {}  # a state that went through a gate, or an activation without an end
    return {f"saturated.{name}": float((values.abs() > _TANH).float().mean())}


def _reach(name: str, x: Tensor, outputs: Tensor) -> dict[str, float]:
    """Return the norm of v' dh_T / dx_{T-d} by distance d, v of random signs; 1 at distance 1."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], outputs.shape[2])
    end = (outputs[:, -1] * torch.from_numpy(signs).to(outputs)).sum()
    (gradient,) = torch.autograd.grad(end, x)
    norms = gradient.norm(dim=2).mean(0)  # (T,)
    steps = len(norms) - 1
    one = float(norms[steps - 1])
    if not 0.0 < one < float("inf"):
        return {}
    return {
        f"reach.{name}.{d}": float(norms[steps - d]) / one for d in (1, *DISTANCES) if d <= steps
    }
