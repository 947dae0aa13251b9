"""What `linear=` takes: who makes the linear layers of a network. `nn.Linear`, or what adds something to it.

A maker is called as `linear(d_in, d_out, bias=...)` and gives an `nn.Linear`, whose `weight` and `bias` the
network initialises and saves under its own names. What it adds, such as the small matrices of an adapter
(LoRA, Hu et al. 2022), is its own affair: a parametrisation of the weight (torch.nn.utils.parametrize), or
parameters and a `forward` of its own.

Recurrent cells hold matrices, not layers, since fused kernels read them. A cell takes the matrix of the layer
that is made for it, with the parametrisations of its weight; a `forward` would never be called there and is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

MakeLinear = Callable[..., nn.Linear]  # (d_in, d_out, bias=...)


def original(module: nn.Module, name: str = "weight") -> nn.Parameter:
    """Return the parameter that is initialised and saved, not what a parametrisation makes of it."""
    if parametrize.is_parametrized(module, name):
        return module.get_parameter(f"parametrizations.{name}.original")
    return module.get_parameter(name)


def own_weights(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the parameters by the names that they have with `nn.Linear`, without what other makers add."""
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
    """Give a cell the parameter `name` (d_out, d_in), parametrised as the weight of what `linear` makes."""
    if linear is nn.Linear:  # which would draw values that are not used
        cell.register_parameter(name, nn.Parameter(torch.empty(d_out, d_in)))
        return
    made = linear(d_in, d_out, bias=False)
    parametrised = parametrize.is_parametrized(made, "weight")
    if not parametrised and _computes_by_itself(made):
        raise ValueError(
            f"a recurrent cell takes the matrix of a {type(made).__name__} and would never call "
            "its forward; make what it adds a parametrisation (torch.nn.utils.parametrize)"
        )
    cell.register_parameter(name, original(made))
    if parametrised:
        for step in made.get_submodule("parametrizations.weight").children():
            parametrize.register_parametrization(cell, name, step)


def _computes_by_itself(linear: nn.Linear) -> bool:
    """Tell whether its result is more than the product with its weight."""
    return type(linear).forward is not nn.Linear.forward
