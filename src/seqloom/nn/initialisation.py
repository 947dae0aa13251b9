"""Initial values of weights.

Xavier (Glorot and Bengio 2010) keeps the variance of signals and gradients through tanh layers, He
(2015) through relu; an orthogonal recurrent matrix (Saxe et al. 2014) keeps the length of a state
through time; GPT-2 scales down the matrices that write into a residual stream, so that its variance
does not grow with depth.

A gate matrix (G H, D) is a stack of G matrices (H, D), and is filled block by block: as one matrix
its fan-out would be wrong, and its blocks would not be orthogonal. The forget gate's bias of 1 (Gers
et al. 2000; Jozefowicz et al. 2015) is set once; torch's two biases, both set, would make it 2.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from seqloom.nn.cells import Cell, GRUCell, LSTMCell
from seqloom.nn.layers import original

Method = Literal["xavier", "he", "orthogonal", "uniform"]


@torch.no_grad()
def xavier(weight: Tensor, blocks: int = 1, generator: Generator | None = None) -> Tensor:
    """Sample from a uniform distribution with variance 2 / (fan_in + fan_out)."""
    for block in weight.chunk(blocks):
        nn.init.xavier_uniform_(block, generator=generator)
    return weight


@torch.no_grad()
def he(weight: Tensor, blocks: int = 1, generator: Generator | None = None) -> Tensor:
    """Sample from a normal distribution with variance 2 / fan_in; blocks do not change fan_in."""
    return nn.init.normal_(weight, std=math.sqrt(2 / weight.shape[1]), generator=generator)


@torch.no_grad()
def orthogonal(weight: Tensor, blocks: int = 1, generator: Generator | None = None) -> Tensor:
    """Make each block's rows or columns, whichever are fewer, orthonormal."""
    for block in weight.chunk(blocks):
        nn.init.orthogonal_(block, generator=generator)
    return weight


@torch.no_grad()
def uniform(
    weight: Tensor, blocks: int = 1, generator: Generator | None = None, *, limit: float = 0.1
) -> Tensor:
    """Sample uniformly between -limit and limit (Zaremba et al. 2014)."""
    return nn.init.uniform_(weight, -limit, limit, generator=generator)


@torch.no_grad()
def scaled_residual(
    weight: Tensor, n_layers: float, std: float = 0.02, generator: Generator | None = None
) -> Tensor:
    """Sample from a normal distribution with std / sqrt(2 n_layers): each of n_layers blocks
    writes twice into the residual stream (GPT-2).
    """
    return nn.init.normal_(weight, std=std / math.sqrt(2 * n_layers), generator=generator)


@torch.no_grad()
def identity(weight: Tensor, blocks: int = 1, generator: Generator | None = None) -> Tensor:
    """Make each block the identity: with relu a state stays as it is (Le, Jaitly and Hinton 2015)."""
    for block in weight.chunk(blocks):
        nn.init.eye_(block)
    return weight


@torch.no_grad()
def normal(weight: Tensor, blocks: int = 1, generator: Generator | None = None) -> Tensor:
    """Sample from a normal distribution with variance 1 / fan_in; blocks do not change fan_in."""
    return nn.init.normal_(weight, std=weight.shape[1] ** -0.5, generator=generator)


RECURRENT = {"identity": identity, "normal": normal}  # `recurrent_init` of a cell, if not the usual
METHODS = {"xavier": xavier, "he": he, "orthogonal": orthogonal, "uniform": uniform}


@torch.no_grad()
def initialise(
    module: nn.Module,
    *,
    weights: Method = "xavier",
    recurrent: Method = "orthogonal",
    generator: Generator | None = None,
) -> None:
    """Fill the recurrent cells, linear layers and layer norms below `module`; biases are zero, the
    forget gate's 1.

    Embeddings are left alone: the right size depends on whether they are tied to the output.
    """
    fill = METHODS[weights]
    for part in module.modules():
        if isinstance(part, Cell):
            fill(original(part, "w_x"), part.gates, generator)
            if part.reads_state:
                # a cell may ask for another start than that of all
                start = RECURRENT.get(part.recurrent_init, METHODS[recurrent])
                start(original(part, "w_h"), part.gates, generator)
            if part.w_p is not None:
                fill(part.w_p, 1, generator)
            _biases(part)
        elif isinstance(part, nn.Linear):
            fill(original(part), 1, generator)
            if part.bias is not None:
                part.bias.zero_()
        elif isinstance(part, nn.LayerNorm):
            part.reset_parameters()


def _biases(cell: Cell) -> None:
    cell.b.zero_()
    if isinstance(cell, LSTMCell):
        cell.b[cell.d_hidden : 2 * cell.d_hidden] = cell.forget_bias  # i, f, g, o: the second block
    if isinstance(cell, GRUCell) and cell.b_h is not None:
        cell.b_h.zero_()
    for leaf in cell.leaves:
        start = getattr(cell, f"start_{leaf}")
        if start is not None:
            start.zero_()
