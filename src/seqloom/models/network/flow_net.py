"""How a change of a recurrent state, and of a loss, passes through time: Jacobians of any cell, step by step.

    J_t = d s_t / d s_{t-1}            s: all of a cell's state, h and for an LSTM also c
    d s_t / d s_k = J_t J_{t-1} .. J_{k+1}

Everything is computed in float64, since gradients of float32 end at 1e-45. The inputs of a layer are
held: a state of a layer above never changes those of one below, so this is the whole derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.nn.cells import Cell
from seqloom.nn.initialisation import initialise
from seqloom.nn.layers import original
from seqloom.nn.recurrent import RecurrentStack
from seqloom.traces import Trace


@dataclass
class LayerFlow:
    """One direction of one layer on its way through a sequence."""

    name: str
    leaves: dict[str, slice]  # where h and c stand in the state
    steps: int
    # (low, high) to (high - low, S, S): of the state after each of these steps by the state before it
    jacobians: Callable[[int, int], np.ndarray]
    states: np.ndarray  # (T, S): before each step
    forget: np.ndarray | None = None  # (T, H): forget gates, where there are such
    recurrent: np.ndarray | None = None  # (G, H, H): the blocks of W_h, where each is square


def drive_fresh_cell(
    cell: str,
    *,
    width: int,
    steps: int,
    start: str = "orthogonal",
    gain: float = 1.0,
    forget_bias: float = 1.0,
    noise: float = 1.0,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> LayerFlow:
    """Return a cell with initial weights while it reads Gaussian noise; W_h is multiplied by `gain`.
    `options`: those of the cell, such as its activation.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        stack = RecurrentStack(width, width, cell=cell, options=options).double()
        begin(stack, start=start, gain=gain, forget_bias=forget_bias)
        x = noise * torch.randn(steps, width, dtype=torch.float64)
    stack.requires_grad_(False).eval()
    return _unroll(stack, x)[1][0].flow()


@torch.no_grad()
def begin(
    network: nn.Module, *, start: str = "orthogonal", gain: float = 1.0, forget_bias: float = 1.0
) -> None:
    """Give the recurrent cells of a network their initial weights: W_h by that method, times `gain`, or the
    identity; forget gates, where there are such, that bias.
    """
    for cell in network.modules():
        if not isinstance(cell, Cell):
            continue
        if hasattr(cell, "forget_bias"):
            setattr(cell, "forget_bias", forget_bias)  # noqa: B010 - not all cells have it
        initialise(cell)
        if not cell.reads_state:
            continue
        w_h = original(cell, "w_h")
        for block in w_h.chunk(cell.gates):
            if start == "identity":
                nn.init.eye_(block)
            elif start == "normal":
                nn.init.normal_(block, std=block.shape[1] ** -0.5)
        w_h.mul_(gain)


# ---- one layer


class Walk:
    """A cell that was led through a sequence step by step, with what is needed of each step."""

    def __init__(self, name: str, cell: Cell, projected: Tensor, change: Tensor) -> None:
        self.name, self.cell, self.projected = name, cell, projected
        self.change = change  # (T, S) zeros added to the states, by which a loss is differentiated
        self.before: list[Tensor] = []  # (S,) the state before each step
        self.forget: list[Tensor] = []
        bounds = np.cumsum([0, *cell.widths]).tolist()
        self.leaves = {leaf: slice(*ends) for leaf, ends in zip(cell.leaves, pairwise(bounds))}

    def split(self, states: Tensor) -> tuple[Tensor, ...]:
        """Return h, and what else there is, of states (n, S)."""
        return tuple(states[:, part] for part in self.leaves.values())

    def jacobians(self, low: int, high: int) -> np.ndarray:
        """Return d s_t / d s_{t-1} of some steps, (high - low, S, S).

        Each state stands in S rows of a batch; the gradient of output i of row i is row i of the Jacobian.
        """
        steps, size = high - low, self.change.shape[1]
        states = torch.stack(self.before[low:high]).repeat_interleave(size, 0).requires_grad_(True)
        projected = self.projected[low:high].detach().repeat_interleave(size, 0)
        after = torch.cat(self.cell.step(projected, self.split(states), self.cell.w_h, None), 1)
        chosen = after.view(steps, size, size).diagonal(dim1=1, dim2=2).sum()
        rows = torch.autograd.grad(chosen, states)[0]
        return rows.view(steps, size, size).numpy()

    def run(self, first: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Walk through all steps from a state, each leaf (1, H); return h (T, H) and the last state."""
        state = torch.cat([leaf[0] for leaf in first])
        outputs, h = [], self.leaves["h"]
        for projected, change in zip(self.projected, self.change):
            self.before.append(state.detach())
            trace = Trace("gates.f")
            after = self.cell.step(
                projected[None], self.split(state[None]), self.cell.w_h, None, trace
            )
            self.forget += [gate[0].detach() for gate in trace.values()]
            state = torch.cat([leaf[0] for leaf in after]) + change
            outputs.append(state[h])
        return torch.stack(outputs), self.split(state[None])

    def flow(self) -> LayerFlow:
        """Return what was found out on the way."""
        states = torch.stack(self.before).numpy()
        forget = torch.stack(self.forget).numpy() if self.forget and "c" in self.leaves else None
        return LayerFlow(
            self.name, self.leaves, len(self.before), self.jacobians, states, forget, self._blocks()
        )

    def _blocks(self) -> np.ndarray | None:
        rows, width = self.cell.w_h.shape if self.cell.reads_state else (0, 1)
        if rows != self.cell.gates * width:
            return None
        blocks: np.ndarray = self.cell.w_h.detach().numpy()
        return blocks.reshape(self.cell.gates, width, width)


def follow(stack: RecurrentStack, place: str) -> list[Walk]:
    """Lead the cells of a stack step by step from now on, where it reads one row; return the walks of its
    layers and directions, which are there after it has read. `place`: the name of the stack.

    The stack runs as ever, with norms and residuals between its layers.
    """
    usual, names, walks = stack._direction, dict(_named_cells(stack, place)), list[Walk]()

    def direction(
        cell: Cell, x: Tensor, state: Any, lengths: Any = None, trace: Any = None
    ) -> tuple[Tensor, Any]:
        if x.shape[1] != 1:
            return usual(cell, x, state, lengths, trace)
        projected = cell.project(x)[:, 0]  # (T, G H)
        change = x.new_zeros(len(x), sum(cell.widths), requires_grad=True)
        walk = Walk(names[cell], cell, projected, change)
        walks.append(walk)
        out, last = walk.run(state)
        return out[:, None], last

    stack._direction = direction  # type: ignore[method-assign]
    return walks


def _unroll(stack: RecurrentStack, x: Tensor) -> tuple[Tensor, list[Walk]]:
    """Lead x (T, D) through a stack; return its output (T, H) and the walk of each layer and direction."""
    walks = follow(stack, "")
    out, _ = stack(x[None])
    return out[0], walks


def _named_cells(stack: RecurrentStack, place: str) -> Iterator[tuple[Cell, str]]:
    for index, layer in enumerate(stack.layers):
        assert isinstance(layer, Cell)
        name = f"{place}.layers.{index}".removeprefix(".")
        yield layer, name
        if layer.reverse is not None:
            yield layer.reverse, f"{name}.reverse"
