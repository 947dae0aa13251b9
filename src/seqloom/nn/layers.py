"""Factories of linear layers (the argument `linear=` of networks), aligned matrices, and dropout.

A factory is called as `linear(d_in, d_out, bias=...)` and returns an `nn.Linear`; the network initialises
and saves its `weight` and `bias` under its own names. A factory may add something, such as the small
matrices of an adapter (LoRA, Hu et al. 2022): as a parametrisation of the weight
(torch.nn.utils.parametrize), or as parameters with a `forward` of its own.

Ordinary dropout draws a mask for every step; on a recurrent state that noise adds up over time. Gal
and Ghahramani (2016) draw one mask for a sequence instead (variational dropout), and drop word types
rather than single tokens; Merity et al. (2018) drop entries of the recurrent matrix (weight drop,
after DropConnect, Wan et al. 2013), which leaves the fast recurrence unchanged. Masks are drawn in
every forward pass; the remaining entries are scaled by 1 / (1 - p), so inference needs no change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.utils import parametrize

MakeLinear = Callable[..., nn.Linear]  # (d_in, d_out, bias=...)


def original(module: nn.Module, name: str = "weight") -> nn.Parameter:
    """Return the parameter that is initialised and saved, without its parametrisation."""
    if parametrize.is_parametrized(module, name):
        return module.get_parameter(f"parametrizations.{name}.original")
    return module.get_parameter(name)


def own_weights(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the parameters by their names with `nn.Linear`, without those that a factory adds."""
    if isinstance(module, nn.Linear):
        names = ["weight"] if module.bias is None else ["weight", "bias"]
        yield from ((prefix + name, original(module, name)) for name in names)
        return
    for name, parameter in module.named_parameters(recurse=False):
        yield prefix + name, parameter
    for name, child in module.named_children():
        if name == "parametrizations":
            yield from (
                (prefix + inner, original(module, inner)) for inner, _ in child.named_children()
            )
        else:
            yield from own_weights(child, f"{prefix}{name}.")


def linear_rows(linear: nn.Linear, x: Tensor, rows: slice) -> Tensor:
    """Compute some of the outputs of a linear layer, (..., d_in) to (..., rows)."""
    if _computes_by_itself(linear):
        return linear(x)[..., rows]
    return F.linear(x, linear.weight[rows], None if linear.bias is None else linear.bias[rows])


def register_matrix(cell: nn.Module, name: str, linear: MakeLinear, d_in: int, d_out: int) -> None:
    """Give a cell the parameter `name` (d_out, d_in), parametrised as the weight of a layer of `linear`.

    Recurrent cells have matrices, not layers, since fused kernels read them. So a layer with its own
    `forward`, which would never be called, is refused.
    """
    if linear is nn.Linear:  # which would draw values that are not used
        cell.register_parameter(name, nn.Parameter(torch.empty(d_out, d_in)))
        return
    layer = linear(d_in, d_out, bias=False)
    parametrised = parametrize.is_parametrized(layer, "weight")
    if not parametrised and _computes_by_itself(layer):
        raise ValueError(
            f"a recurrent cell takes the matrix of a {type(layer).__name__} and would never call "
            "its forward; make what it adds a parametrisation (torch.nn.utils.parametrize)"
        )
    cell.register_parameter(name, original(layer))
    if parametrised:
        for step in layer.get_submodule("parametrizations.weight").children():
            parametrize.register_parametrization(cell, name, step)


def _computes_by_itself(linear: nn.Linear) -> bool:
    """Return whether the layer has its own `forward`."""
    return type(linear).forward is not nn.Linear.forward


# ---- alignment

ALIGNED = 16  # floats; with rows at other addresses a product is up to 40 % slower on a CPU


def aligned_empty(like: Tensor, rows: int, columns: int) -> Tensor:
    """Return an uninitialised tensor (rows, columns), each row at an aligned address."""
    return like.new_empty(rows, -(-columns // ALIGNED) * ALIGNED)[:, :columns]


def aligned(matrix: Tensor) -> Tensor:
    """Return the same matrix, copied where its rows are not aligned."""
    if matrix.device.type != "cpu" or matrix.stride(0) % 8 == 0:
        return matrix
    return aligned_empty(matrix, *matrix.shape).copy_(matrix)


# ---- dropout


def check_rate(name: str, p: float) -> float:
    """Return p, or raise an error that names it."""
    if not 0.0 <= p < 1.0:
        raise ValueError(f"{name} must be at least 0 and below 1; it is {p}")
    return float(p)


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Set each entry of x to zero with probability p, independently; divide the others by 1 - p.

    On a CPU torch takes longer to draw a mask than to compute a small Transformer's layer; there the
    mask comes from a kernel (`kernels.sampling`) with a seed from torch's random state.
    """
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return functional.dropout(x, p)
    dropped: Tensor = _Dropout.apply(x, p, int(torch.empty((), dtype=torch.int64).random_()))
    return dropped


class _Dropout(torch.autograd.Function):
    """The gradient has the same mask, drawn again from the seed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int) -> Tensor:
        ctx.p, ctx.seed = p, seed
        return _dropped(x, p, seed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _dropped(grad, ctx.p, ctx.seed), None, None


def _dropped(x: Tensor, p: float, seed: int) -> Tensor:
    from seqloom.kernels.sampling import drop

    x = x.detach().contiguous()
    out = torch.empty_like(x)
    flat = x.view(-1).numpy()
    drop(
        flat,
        np.uint64(seed),
        np.uint64(round(p * 2**32)),
        flat.dtype.type(1 / (1 - p)),
        out.view(-1).numpy(),
    )
    return out


def draw_mask(shape: Sequence[int], p: float, like: Tensor) -> Tensor:
    """Sample zeros with probability p, else 1 / (1 - p), of the type and on the device of `like`."""
    return like.new_empty(tuple(shape)).bernoulli_(1.0 - p).div_(1.0 - p)


def locked_dropout(x: Tensor, p: float, training: bool = True, *, time: int = 1) -> Tensor:
    """Drop the same entries of x at every step of its axis `time`."""
    if not training or p == 0.0:
        return x
    shape = list(x.shape)
    shape[time] = 1
    return x * draw_mask(shape, p, x)  # (B, T, D) * (B, 1, D)


def weight_drop(weight: Tensor, p: float, training: bool = True) -> Tensor:
    """Return a matrix with entries dropped, drawn once a pass for every step of the sequence."""
    return functional.dropout(weight, p, training) if p > 0.0 else weight


def word_dropout(embedding: nn.Embedding, ids: Tensor, p: float) -> Tensor:
    """Return vectors of `ids` (B, T) as (B, T, E), where whole word types are zero: a dropped word
    is dropped wherever it occurs.
    """
    vectors: Tensor = embedding(ids)  # (B, T, E)
    if p == 0.0:
        return vectors
    # (V)
    mask = draw_mask((embedding.num_embeddings,), check_rate("word dropout", p), embedding.weight)
    # equal to masking rows of the table, without a copy of it
    return vectors * mask[ids].unsqueeze(-1)


class VariationalDropout(nn.Module):
    """One mask for a sequence: the same entries of x (B, T, D) are dropped at every step."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = check_rate("dropout", p)

    def forward(self, x: Tensor) -> Tensor:
        return locked_dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
