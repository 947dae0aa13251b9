"""How a change of a recurrent state, and of a loss, passes through time: Jacobians of any cell, step by step.

    J_t = d s_t / d s_{t-1}            s: all of a cell's state, h and for an LSTM also c
    d s_t / d s_k = J_t J_{t-1} .. J_{k+1}

Everything is computed in float64, since gradients of float32 end at 1e-45. The inputs of a layer are
held: a state of a layer above never changes those of one below, so this is the whole derivative.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
    forget: np.ndarray | None = None  # (T, H): forget gates, where there are such
    recurrent: np.ndarray | None = None  # (G, H, H): the blocks of W_h, where each is square
    loss: np.ndarray = field(
        default_factory=lambda: np.zeros((0, 0))
    )  # (T, S): dL/ds_t, whole loss
    last_loss: np.ndarray = field(
        default_factory=lambda: np.zeros((0, 0))
    )  # that of the last token


def read_language_model(
    model: Any, inputs: np.ndarray, targets: np.ndarray
) -> tuple[list[LayerFlow], np.ndarray]:
    """Return the layers of a recurrent language model while it reads `inputs` (T,), with the gradients of
    the loss by their states, and the nats of each target (T,).
    """
    network = copy.deepcopy(model.network()).double().requires_grad_(False).eval()
    x = network.embedding(torch.from_numpy(inputs.astype(np.int64)))  # (T, D)
    out, walks = _unroll(network.recurrent, x)
    features = out if network.bridge is None else network.bridge(out)
    answers = torch.from_numpy(targets.astype(np.int64))[:, None]
    nats = -network.output.log_probs(features).gather(1, answers)[:, 0]
    states = [walk.change for walk in walks]
    whole = torch.autograd.grad(nats.sum(), states, retain_graph=True)
    last = torch.autograd.grad(nats[-1], states)
    flows = [walk.flow() for walk in walks]
    for flow, all_tokens, last_token in zip(flows, whole, last):
        flow.loss, flow.last_loss = all_tokens.numpy(), last_token.numpy()
    return flows, nats.detach().numpy()


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
) -> LayerFlow:
    """Return a cell with initial weights while it reads Gaussian noise; W_h is multiplied by `gain`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        stack = RecurrentStack(width, width, cell=cell).double()
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
            cell.forget_bias = forget_bias
        initialise(cell, recurrent="orthogonal" if start == "identity" else start)  # type: ignore[arg-type]
        if not cell.reads_state:
            continue
        w_h = original(cell, "w_h")
        if start == "identity":
            for block in w_h.chunk(cell.gates):
                nn.init.eye_(block)
        w_h *= gain


# ---- one layer


class _Walk:
    """A cell that was led through a sequence step by step, with what is needed of each step."""

    def __init__(self, name: str, cell: Cell, projected: Tensor, change: Tensor) -> None:
        self.name, self.cell, self.projected = name, cell, projected
        self.change = change  # (T, S) zeros added to the states, by which a loss is differentiated
        self.before: list[Tensor] = []  # (S,) the state before each step
        self.forget: list[Tensor] = []
        bounds = np.cumsum([0, *cell.widths]).tolist()
        self.leaves = {
            leaf: slice(low, high) for leaf, low, high in zip(cell.leaves, bounds, bounds[1:])
        }

    def split(self, state: Tensor) -> tuple[Tensor, ...]:
        return tuple(state[None, part] for part in self.leaves.values())

    def step(self, state: Tensor, projected: Tensor) -> Tensor:
        """Return the flat state (S,) after one step."""
        after = self.cell.step(projected[None], self.split(state), self.cell.w_h, None)
        return torch.cat([leaf[0] for leaf in after])

    def run(self) -> Tensor:
        """Walk through all steps; return h (T, H)."""
        state = torch.cat([leaf[0] for leaf in self.cell.start(1)])
        outputs, h = [], self.leaves["h"]
        for projected, change in zip(self.projected, self.change):
            self.before.append(state.detach())
            trace = Trace("gates.f")
            after = self.cell.step(projected[None], self.split(state), self.cell.w_h, None, trace)
            self.forget += [gate[0].detach() for gate in trace.values()]
            state = torch.cat([leaf[0] for leaf in after]) + change
            outputs.append(state[h])
        return torch.stack(outputs)

    def flow(self) -> LayerFlow:
        before, projected = torch.stack(self.before), self.projected.detach()
        jacobian = torch.func.vmap(torch.func.jacrev(self.step))

        def jacobians(low: int, high: int) -> np.ndarray:
            found: np.ndarray = jacobian(before[low:high], projected[low:high]).detach().numpy()
            return found

        forget = torch.stack(self.forget).numpy() if self.forget and "c" in self.leaves else None
        return LayerFlow(self.name, self.leaves, len(before), jacobians, forget, self._blocks())

    def _blocks(self) -> np.ndarray | None:
        rows, width = self.cell.w_h.shape if self.cell.reads_state else (0, 1)
        if rows != self.cell.gates * width:
            return None
        blocks: np.ndarray = self.cell.w_h.detach().numpy()
        return blocks.reshape(self.cell.gates, width, width)


def _unroll(stack: RecurrentStack, x: Tensor) -> tuple[Tensor, list[_Walk]]:
    """Lead x (T, D) through a stack; return its output (T, H) and the walk of each layer and direction."""
    walks: list[_Walk] = []
    for name, directions in _layers(stack):
        outputs = []
        for number, cell in enumerate(directions):
            projected = cell.project(x.flip(0) if number else x)
            change = x.new_zeros(len(x), sum(cell.widths), requires_grad=True)
            walk = _Walk(f"{name}.reverse" if number else name, cell, projected, change)
            out = walk.run()
            outputs.append(out.flip(0) if number else out)
            walks.append(walk)
        out = torch.cat(outputs, 1)
        x = out + x if stack.residual and x.shape == out.shape else out
    return x, walks


def _layers(stack: RecurrentStack) -> Iterator[tuple[str, list[Cell]]]:
    for index, layer in enumerate(stack.layers):
        assert isinstance(layer, Cell)
        yield f"layers.{index}", [layer] if layer.reverse is None else [layer, layer.reverse]
