"""A stack of recurrent layers over any recurrent cell.

The state is a value: a tuple over layers of tuples of (B, H) tensors, batch first; in a bidirectional
layer the tensors of the reverse direction follow those of the forward one. With `lengths` padding
does not change the state and the outputs there are zero, so a row gives the same results as alone;
the reverse direction begins at the row's own end. With `final_state=False` there are outputs alone:
padding comes after a row's end and may then be computed and ignored, so that every cell runs all
steps at once, where the LSTM otherwise stops row by row.

Options: projections (Sak et al. 2014), layer norm (Ba et al. 2016), residual stacks (Prakash et al.
2016), a learned initial state, dropout between layers (Zaremba et al. 2014), one mask for a sequence
(Gal and Ghahramani 2016), weight drop (Merity et al. 2018), layer norm of inputs, between layers or
of outputs, layers that shrink. Layer norm inside cells, recurrent dropout, the GRU's reset before the
product and the variants of cells run step by step through `cells`; all else takes the fast paths in
`fused`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqloom.encoder_table import (
    CELL_NAMES,
    StackNorm,
    find_cell,
    normed_boundaries,
    shrinking_widths,
)
from seqloom.nn import fused
from seqloom.nn.cells import (
    Activation,
    Cell,
    Form,
    GateActivation,
    LSTMCell,
    RecurrentInit,
    Reset,
    State,
    Update,
)
from seqloom.nn.initialisation import initialise
from seqloom.nn.layers import MakeLinear, check_rate, draw_mask, locked_dropout, weight_drop
from seqloom.nn.recomputing import recomputes, run_layer
from seqloom.nn.recording import holds
from seqloom.traces import Trace, within

States = tuple[State, ...]  # one a layer
SEGMENT = 64  # steps that are recomputed at a time
CHOICES = {
    "activation": get_args(Activation),
    "gate_activation": get_args(GateActivation),
    "recurrence": get_args(Form),
    "reset": get_args(Reset),
    "update": get_args(Update),
    "recurrent_init": get_args(RecurrentInit),
}


class RecurrentStack(nn.Module):
    """`n_layers` recurrent layers: x (B, T, d_in) to (B, T, d_out) and the state after it.

    dropout works between layers, so with one layer it does nothing; weight_drop and
    recurrent_dropout work inside every layer, on W_h and on h. residual adds a layer's input to its
    output where their widths agree. norm: of what each layer reads, or of the last outputs; of the
    states it is the cells' own. shrink: the width of a layer as a share of the one before.
    """

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        n_layers: int = 1,
        *,
        cell: str = "lstm",
        activation: Activation = "tanh",
        reset: Reset = "after",
        update: Update = "keep",
        bidirectional: bool = False,
        d_projection: int | None = None,
        layer_norm: bool = False,
        residual: bool = False,
        learned_start: bool = False,
        norm: StackNorm = "none",
        shrink: float = 1.0,
        forget_bias: float = 1.0,
        dropout: float = 0.0,
        variational: bool = False,
        weight_drop: float = 0.0,
        recurrent_dropout: float = 0.0,
        options: Mapping[str, Any] | None = None,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        """Build the layers. `cell`: a name in `encoder_table`; `options`: further ones of the cell."""
        super().__init__()
        if min(d_in, d_hidden, n_layers) < 1:
            raise ValueError(
                f"d_in {d_in}, d_hidden {d_hidden} and n_layers {n_layers} must each be at least 1"
            )
        if d_projection is not None and (cell != "lstm" or d_projection < 1):
            raise ValueError(
                f"d_projection {d_projection}: only an LSTM has one (a GRU mixes h with its candidate, "
                "so both need one width), and it must be at least 1"
            )
        options = {
            "activation": activation,
            "reset": reset,
            "update": update,
            "forget_bias": forget_bias,
            "d_projection": d_projection,
            "state_norm": norm == "states",
            **(options or {}),
        }
        choices = {"cell": CELL_NAMES, "norm": get_args(StackNorm), **CHOICES}
        for name, value in {"cell": cell, "norm": norm, **options}.items():
            if name in choices and value not in choices[name]:
                known = ", ".join(choices[name])
                raise ValueError(f"{name} must be one of {known}; it is {value!r}")
        entry = find_cell(cell)
        if norm == "states" and "state_norm" not in entry.options:
            raise ValueError(f"norm states: the cell {cell} has no norm of its states")
        if n_layers == 1 and (norm == "between" or shrink != 1):
            name = "norm between" if norm == "between" else "shrink"
            raise ValueError(f"{name} has no effect with one layer; give n_layers 2 or more")
        cell_options = entry.own_options(options, training=True)
        hidden = shrinking_widths(d_hidden, n_layers, shrink)
        directions = 2 if bidirectional else 1
        widths = [d_in, *((d_projection or width) * directions for width in hidden)]

        def make(index: int) -> Cell:
            cell_module: Cell = entry.network_class()(
                widths[index],
                hidden[index],
                layer_norm=layer_norm,
                learned_start=learned_start,
                linear=linear,
                **cell_options,
            )
            return cell_module

        self.d_in, self.bidirectional = d_in, bidirectional
        self.d_out = widths[-1]
        if residual and all(before != after for before, after in pairwise(widths)):
            raise ValueError(
                "residual needs a layer whose input and output have one width; here the widths are "
                f"{', '.join(map(str, widths))}"
            )
        self.residual, self.variational, self.checkpoint = residual, variational, False
        self.dropout, self.weight_drop = (
            check_rate("dropout", dropout),
            check_rate("weight_drop", weight_drop),
        )
        self.recurrent_dropout = check_rate("recurrent_dropout", recurrent_dropout)
        self.layers = nn.ModuleList()
        for index in range(n_layers):
            layer = make(index)
            if bidirectional:
                layer.reverse = make(index)
            self.layers.append(layer)
        boundaries = normed_boundaries(norm, n_layers)
        self.norms = nn.ModuleDict({str(i): nn.LayerNorm(widths[i]) for i in boundaries})
        initialise(self)

    def start(self, n: int) -> States:
        """Return the initial state of n sequences."""
        return tuple(
            tuple(leaf for cell in _directions(layer) for leaf in cell.start(n))
            for layer in self.layers
        )

    def forward(
        self,
        x: Tensor,
        state: States | None = None,
        lengths: Tensor | None = None,
        *,
        final_state: bool = True,
        trace: Trace | None = None,
    ) -> tuple[Tensor, States]:
        """Run over x (B, T, d_in) with row lengths (B); return outputs (B, T, d_out) and the state
        after the last step.

        Without `final_state` that state is an empty tuple; with `lengths` this is faster. A trace gets the
        outputs (`layers.0.out`), and states and gates (`layers.0.h`, `layers.0.reverse.gates.f`), for which
        steps go one by one.
        """
        if x.dim() != 3 or x.shape[2] != self.d_in:
            raise ValueError(f"x must have the shape (B, T, {self.d_in}); it has {tuple(x.shape)}")
        inside = turn = None
        if lengths is not None:
            lengths = _checked(lengths, x)
            steps = torch.arange(x.shape[1], device=x.device).unsqueeze(1)  # (T, 1)
            inside = steps < lengths  # (T, B)
            turn = torch.where(inside, lengths - 1 - steps, steps) if self.bidirectional else None
        state = self.start(x.shape[0]) if state is None else state
        if len(state) != len(self.layers):
            raise ValueError(f"the state has {len(state)} layers, the stack {len(self.layers)}")

        def arranged(value: Tensor) -> Tensor:
            """Convert a traced (T, B, H) to (B, T, H), with zeros at padding."""
            return (
                value if inside is None else value.masked_fill(~inside.unsqueeze(2), 0.0)
            ).transpose(0, 1)

        x = x.transpose(0, 1).contiguous()  # (T, B, D): each step is one piece of memory
        x = self._normed(0, x)
        after = []
        for index, (layer, before) in enumerate(zip(self.layers, state)):
            assert isinstance(layer, Cell)
            if index and self.dropout > 0:
                x = self._drop(x)
            layer_trace = within(trace, f"layers.{index}", arranged)
            out, last = self._layer(
                layer, x, before, lengths if final_state else None, turn, layer_trace
            )
            if self.residual and x.shape[2] == out.shape[2]:
                out = out + x
            out = self._normed(index + 1, out)
            x = out if inside is None else out.masked_fill(~inside.unsqueeze(2), 0.0)
            after.append(last)
            if layer_trace is not None:
                layer_trace.add("out", x)
        return x.transpose(0, 1), tuple(after) if final_state else ()

    def _normed(self, boundary: int, x: Tensor) -> Tensor:
        """Return the vectors that pass before layer `boundary`, normalised if there is a norm."""
        return self.norms[str(boundary)](x) if str(boundary) in self.norms else x

    def _drop(self, x: Tensor) -> Tensor:
        if self.variational:
            return locked_dropout(x, self.dropout, self.training, time=0)
        return functional.dropout(x, self.dropout, self.training)

    def _layer(
        self,
        layer: Cell,
        x: Tensor,
        state: State,
        lengths: Tensor | None,
        turn: Tensor | None,
        trace: Trace | None,
    ) -> tuple[Tensor, State]:
        """Run one layer in its one or two directions; with `lengths` the state is that of each row's
        end.
        """
        if layer.reverse is None:
            return self._direction(layer, x, state, lengths, trace)
        half = len(layer.leaves)
        ahead, last = self._direction(layer, x, state[:half], lengths, trace)
        backwards = within(trace, "reverse", lambda value: _turned(value, turn))
        back, first = self._direction(
            layer.reverse, _turned(x, turn), state[half:], lengths, backwards
        )
        return torch.cat([ahead, _turned(back, turn)], 2), last + first

    def _direction(
        self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, trace: Trace | None
    ) -> tuple[Tensor, State]:
        w_h = weight_drop(cell.w_h, self.weight_drop, self.training)
        mask = None
        if self.training and self.recurrent_dropout > 0:
            # (B, H), drawn once for a pass
            mask = draw_mask(state[0].shape, self.recurrent_dropout, x)

        def run(x: Tensor, *state: Tensor, trace: Trace | None = None) -> tuple[Tensor, State]:
            if mask is not None or (trace is not None and trace.wants(*cell.traced)):
                return cell.walk(x, state, w_h, lengths=lengths, mask=mask, trace=trace)
            # torch packs no empty row
            packable = lengths is None or not isinstance(cell, LSTMCell) or holds(lengths > 0)
            if fused.can_fuse(cell, x) and packable:
                return fused.run(cell, x, state, w_h, lengths)
            return cell.walk(x, state, w_h, lengths=lengths)

        if lengths is not None or not recomputes(self, trace):
            return run_layer(self, run, x, *state, trace=trace)
        # Of long sequences only the states between segments are kept; dropped weights and masks are drawn
        # once for all.
        outputs = []
        for part in x.split(SEGMENT):
            out, state = run_layer(self, run, part, *state)
            outputs.append(out)
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs), state


def _directions(layer: nn.Module) -> list[Cell]:
    assert isinstance(layer, Cell)
    return [layer] if layer.reverse is None else [layer, layer.reverse]


class _Reorder(torch.autograd.Function):
    """x (T, B, D) with step order[t, b] of row b at t. Reversing is its own inverse, so the
    gradient goes the same way.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        steps, rows, width = x.shape
        flat = order * rows + torch.arange(rows, device=x.device)
        return (
            x.reshape(steps * rows, width).index_select(0, flat.flatten()).view(steps, rows, width)
        )

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None]:
        return _Reorder.apply(above, *ctx.saved_tensors), None


def _turned(x: Tensor, turn: Tensor | None) -> Tensor:
    """Return x (T, B, D) reversed; with `turn` (T, B) each row from its own end, without its padding."""
    if turn is None:
        return x.flip(0)
    turned: Tensor = _Reorder.apply(x, turn)
    return turned


def _checked(lengths: Tensor, x: Tensor) -> Tensor:
    if lengths.shape != x.shape[:1]:
        raise ValueError(
            f"lengths must have one entry a row, ({len(x)},); the shape is {tuple(lengths.shape)}"
        )
    if len(x) and not 0 <= int(lengths.min()) <= int(lengths.max()) <= x.shape[1]:
        raise ValueError(
            f"lengths must lie in 0..{x.shape[1]}; they go from {int(lengths.min())} to {int(lengths.max())}"
        )
    return lengths.to(x.device)
