"""A stack of recurrent layers over any cell (`nn.recurrent` without torch), a step at a time or over
whole sequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from seqloom.encoder_table import StackNorm, find_cell, normed_boundaries, shrinking_widths
from seqloom.kernels.recurrent import walk_layer
from seqloom.runtime.cells import Cell, Sequences, State
from seqloom.runtime.weights import Weights
from seqloom.traces import Trace, within

# one for each layer; the leaves of the reverse direction follow those of the forward one
States = tuple[State, ...]


class RecurrentStack:
    """`n_layers` layers of a cell; `options` are the cell's own."""

    def __init__(
        self,
        weights: Weights,
        d_in: int,
        d_hidden: int,
        n_layers: int = 1,
        *,
        cell: str = "lstm",
        bidirectional: bool = False,
        d_projection: int | None = None,
        layer_norm: bool = False,
        residual: bool = False,
        learned_start: bool = False,
        norm: StackNorm = "none",
        shrink: float = 1.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        entry = find_cell(cell)
        make = entry.runtime_class()
        cell_options = entry.own_options(
            {"d_projection": d_projection, "state_norm": norm == "states", **(options or {})}
        )
        self.residual, self.bidirectional = residual, bidirectional
        hidden = shrinking_widths(d_hidden, n_layers, shrink)
        directions = 2 if bidirectional else 1
        widths = [d_in, *((d_projection or width) * directions for width in hidden)]
        self.d_out = widths[-1]
        self.norms = {
            i: Cell.take_norm(weights, f"norms.{i}", widths[i])
            for i in normed_boundaries(norm, n_layers)
        }
        self.layers: list[list[Cell]] = []  # the directions of each
        for i in range(n_layers):
            parts = [weights.within(f"layers.{i}")]
            parts += [parts[0].within("reverse")] if bidirectional else []
            self.layers.append(
                [
                    make(
                        part,
                        widths[i],
                        hidden[i],
                        layer_norm=layer_norm,
                        learned_start=learned_start,
                        **cell_options,
                    )
                    for part in parts
                ]
            )

    def start(self, n: int) -> States:
        """Return the states of n rows that have read nothing."""
        return tuple(
            tuple(leaf for cell in layer for leaf in cell.start(n)) for layer in self.layers
        )

    def normed(self, boundary: int, x: np.ndarray) -> np.ndarray:
        """Return the vectors that pass before layer `boundary`, normalised if there is a norm."""
        return self.norms[boundary](x.copy()) if boundary in self.norms else x

    def step(
        self, x: np.ndarray, states: States, trace: Trace | None = None
    ) -> tuple[np.ndarray, States]:
        """Return the vectors (n, H) of one more step of each row, from x (n, D), and the states after it."""
        x = self.normed(0, x)
        return self.step_gates(self.layers[0][0].project(x), states, trace, x)

    def step_gates(
        self,
        gates: np.ndarray,
        states: States,
        trace: Trace | None = None,
        x: np.ndarray | None = None,
    ) -> tuple[np.ndarray, States]:
        """Return the result of `step` from the input's part of the first layer's gates (n, G H); only
        a residual stack needs x as well.
        """
        after = []
        for i, (layer, state) in enumerate(zip(self.layers, states, strict=True)):
            cell, part = layer[0], None if trace is None else within(trace, f"layers.{i}")
            if i and x is not None:
                gates = cell.project(x)
            if part is not None and part.asks("from_x"):
                part.add("from_x", gates.copy())  # which a step may overwrite
            if part is not None and x is not None and part.asks("x"):
                part.add("x", x)
            state = cell.step(gates, state, part)
            out = state[0]
            x = x + out if self.residual and x is not None and x.shape == out.shape else out
            x = self.normed(i + 1, x) if self.norms else x
            if part is not None:
                for leaf, value in zip(cell.leaves, state):
                    part.add(leaf, value)
                part.add("out", x)
            after.append(state)
        assert x is not None, "a stack has layers"
        return x, tuple(after)

    def walk(
        self, x: np.ndarray, sequences: Sequences, trace: Trace | None = None
    ) -> tuple[np.ndarray, States]:
        """Return the vectors (N, d_out) of all steps of concatenated sequences, x (N, D), and the states
        after the last step of each.
        """
        after = []
        x = self.normed(0, x)
        for i, layer in enumerate(self.layers):
            if trace is not None and trace.asks(f"layers.{i}.x"):
                trace.add(f"layers.{i}.x", x)
            run = walk_plain if layer[0].plain else walk_by_cell
            out, leaves = run(layer, x, sequences, within(trace, f"layers.{i}"))
            x = self.normed(i + 1, x + out if self.residual and x.shape == out.shape else out)
            if trace is not None:
                trace.add(f"layers.{i}.out", x)
            after.append(tuple(leaves))
        return x, tuple(after)


def walk_by_cell(
    layer: list[Cell], x: np.ndarray, sequences: Sequences, trace: Trace | None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the vectors of all steps of a layer and its last states, one direction after the other."""
    outs: list[np.ndarray] = []
    leaves: list[np.ndarray] = []
    for direction, cell in enumerate(layer):
        part = within(trace, "reverse") if direction else trace
        start = cell.start(len(sequences.order))
        out, last = cell.walk(
            cell.project(x), sequences, start, reverse=bool(direction), trace=part
        )
        outs.append(out)
        leaves += last
    return outs[0] if len(outs) == 1 else np.concatenate(outs, axis=1), leaves


def walk_plain(
    layer: list[Cell], x: np.ndarray, sequences: Sequences, trace: Trace | None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the vectors of all steps of a layer and its last states, in one call."""
    cell, n, d = layer[0], len(sequences.order), layer[0].d_hidden
    parts = [within(trace, "reverse") if i else trace for i in range(len(layer))]
    directions = [cell.direction(x, n, part) for cell, part in zip(layer, parts)]
    out = np.empty((len(x), len(layer) * d), np.float32)
    walk_layer(cell.kind, cell.formula, *sequences, directions[0], directions[-1], out)
    for i, (direction, part) in enumerate(zip(directions, parts)):
        if part is not None:
            cell.add_to(part, direction, out[:, i * d : (i + 1) * d])
    return out, [
        leaf for direction in directions for leaf in (direction.h, direction.c)[: len(cell.leaves)]
    ]
