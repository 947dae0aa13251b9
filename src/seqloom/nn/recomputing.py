"""Recomputation of activations (Chen et al. 2016): between the layers they are kept, inside a layer they
are computed again in the backward pass. Less memory, about a third more time, the same gradients.

A module that can do it has an attribute `checkpoint`, and calls its parts by `run_layer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def recompute(network: nn.Module) -> None:
    """Let all layers of a network that can do it compute their activations again."""
    able = [module for module in network.modules() if hasattr(module, "checkpoint")]
    if not able:
        raise ValueError(
            "recompute has no effect on this network, which has no layers between its inputs and its "
            "outputs; leave it out"
        )
    for module in able:
        module.checkpoint = True  # type: ignore[assignment]


def recomputes(module: nn.Module, trace: object = None) -> bool:
    """Return whether this pass through the module is to be computed again; not where it is traced."""
    return bool(module.checkpoint) and trace is None and torch.is_grad_enabled()


def run_layer(module: nn.Module, layer: Callable[..., Any], *inputs: Any, trace: Any = None) -> Any:
    """Return `layer(*inputs, trace)`, a part of `module`, and keep no more than its inputs if the
    module recomputes. Random numbers are drawn again as they were.
    """
    if recomputes(module, trace):
        return checkpoint(layer, *inputs, use_reentrant=False)
    return layer(*inputs, trace=trace)
