"""The same recurrences as `cells`, all steps at once and fast. Everything is time-major: x (T, B, D),
outputs (T, B, H).

The LSTM is torch's, which on a CPU is oneDNN's fused layer. Its second bias is zero, since we have
one. For GRU and plain RNN on a CPU torch records a dozen operations for each step, and sums the
weights' gradient step by step, so its GRU is slower than its LSTM. Here the loop is one operation
with its own backward pass: buffers are allocated once, a step is one product with W_h and one pass
over the gates (`kernels.recurrent`), and the gradient of W_h is one product over all steps. On a GPU
cuDNN does this.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seqloom.nn.cells import Cell, GRUCell, LSTMCell, RNNCell, State
from seqloom.nn.layers import aligned
from seqloom.nn.recording import recorded

REAL = (torch.float32, torch.float64)  # what the kernel is compiled for


def can_fuse(cell: Cell, x: Tensor) -> bool:
    """Return whether `run` supports this cell on this input."""
    if not cell.plain or x.shape[0] == 0 or x.shape[1] == 0 or x.dtype != cell.b.dtype:
        return False
    if isinstance(cell, GRUCell):
        ours = x.device.type == "cpu" and x.dtype in REAL and not recorded()
        return cell.reset == "after" and (ours or (_by_torch(x) and cell.update == "keep"))
    if cell.w_p is not None and (cell.d_out == cell.d_hidden or recorded()):
        # torch recognises a projection by its width, and this one has the hidden size; ONNX has none
        return False
    return isinstance(cell, LSTMCell | RNNCell)


def run(
    cell: Cell, x: Tensor, state: State, w_h: Tensor, lengths: Tensor | None = None
) -> tuple[Tensor, State]:
    """Return outputs (T, B, H) and the last state; w_h is the cell's own, or the same with entries
    dropped.

    With `lengths` (B) the state is that after each row's last step; outputs at padding are of no use.
    """
    if isinstance(cell, LSTMCell):
        return _lstm(cell, x, state, w_h, lengths)
    h = state[0]
    if _by_torch(x):
        outputs = _layer_of_torch(cell, x, h, w_h)
    elif isinstance(cell, GRUCell):
        assert cell.b_h is not None
        outputs = GRUSequence.apply(
            cell.project(x).to(h.dtype), h, w_h, cell.b_h, cell.update == "keep"
        )
    else:
        assert isinstance(cell, RNNCell)
        outputs = RNNSequence.apply(cell.project(x).to(h.dtype), h, w_h, cell.activation == "relu")
    # For these two h is the whole state, and padding comes after the end: it may be computed and
    # ignored.
    return outputs, (outputs[-1] if lengths is None else last_step(outputs, h, lengths),)


def last_step(outputs: Tensor, start: Tensor, lengths: Tensor) -> Tensor:
    """Return the output (B, H) of each row's last step; of an empty row, `start`."""
    rows = torch.arange(len(lengths), device=outputs.device)
    last = outputs[(lengths - 1).clamp(min=0), rows]
    return torch.where((lengths > 0).unsqueeze(1), last, start)


def _lstm(
    cell: LSTMCell, x: Tensor, state: State, w_h: Tensor, lengths: Tensor | None
) -> tuple[Tensor, State]:
    weights = [cell.w_x, w_h, cell.b, torch.zeros_like(cell.b)]
    if cell.w_p is not None:
        weights.append(cell.w_p)
    h, c = (leaf.unsqueeze(0).contiguous() for leaf in state)
    if lengths is None:
        with warnings.catch_warnings():
            # torch warns that oneDNN has no projections, and uses its own code
            warnings.filterwarnings("ignore", "LSTM with projections")
            outputs, h, c = torch._VF.lstm(
                x, (h, c), weights, True, 1, 0.0, cell.training, False, False
            )
        return outputs, (h[0], c[0])
    # c is not among the outputs, so it cannot be gathered at each row's end: torch's packed form
    # stops there itself.
    packed = pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)
    order, back = packed.sorted_indices, packed.unsorted_indices
    assert order is not None
    assert back is not None
    data, h, c = torch._VF.lstm(
        packed.data,
        packed.batch_sizes,
        (h[:, order], c[:, order]),
        weights,
        True,
        1,
        0.0,
        cell.training,
        False,
    )
    outputs, _ = pad_packed_sequence(packed._replace(data=data), total_length=len(x))
    return outputs, (h[0][back], c[0][back])


def _by_torch(x: Tensor) -> bool:
    """Return whether torch's own layer runs a GRU or plain RNN: cuDNN's, or one that it records."""
    return x.is_cuda or recorded()


def _layer_of_torch(cell: Cell, x: Tensor, h: Tensor, w_h: Tensor) -> Tensor:
    second = torch.zeros_like(cell.b)
    walk = torch._VF.gru
    if isinstance(cell, GRUCell):
        assert cell.b_h is not None
        second = torch.cat([second[: 2 * cell.d_hidden], cell.b_h])
    elif isinstance(cell, RNNCell):
        walk = torch._VF.rnn_tanh if cell.activation == "tanh" else torch._VF.rnn_relu
    outputs: Tensor = walk(
        x,
        h.unsqueeze(0).contiguous(),
        [cell.w_x, w_h, cell.b, second],
        True,
        1,
        0.0,
        cell.training,
        False,
        False,
    )[0]
    return outputs


class GRUSequence(torch.autograd.Function):
    """(T, B, 3H) projected input and a first h (B, H) to all h (T, B, H)."""

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, start: Tensor, w_h: Tensor, b_h: Tensor, keep: bool
    ) -> Tensor:
        from seqloom.kernels.recurrent import gru_cell

        steps, rows, _ = projected.shape
        d = start.shape[1]
        projected = projected.contiguous()
        states = projected.new_empty(steps + 1, rows, d)
        states[0] = start
        gates, inner = torch.empty_like(projected), projected.new_empty(steps, rows, d)
        matrix = aligned(w_h)  # it is read at every step
        product, turned = projected.new_empty(rows, 3 * d), matrix.t()
        # views of the same memory
        seen = [
            tensor.detach().numpy() for tensor in (projected, product, b_h, states, gates, inner)
        ]
        x, p, b, h, g, q = seen
        for t in range(steps):
            torch.mm(states[t], turned, out=product)
            gru_cell(x[t], p, b, h[t], keep, g[t], q[t], h[t + 1])
        ctx.save_for_backward(gates, inner, states, matrix)
        ctx.keep = keep
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        from seqloom.kernels.recurrent import gru_cell_back

        gates, inner, states, w_h = ctx.saved_tensors
        steps, rows, d = inner.shape
        above = above.contiguous()
        d_projected, d_product = torch.empty_like(gates), torch.empty_like(gates)
        carried = inner.new_zeros(rows, d)
        g, q, h, up, dh, dx, dp = (
            x.numpy() for x in (gates, inner, states, above, carried, d_projected, d_product)
        )
        for t in range(steps - 1, -1, -1):
            gru_cell_back(g[t], q[t], h[t], up[t], ctx.keep, dh, dx[t], dp[t])
            carried.addmm_(d_product[t], w_h)
        d_w = d_product.view(-1, 3 * d).t() @ states[:-1].view(-1, d)
        return d_projected, carried, d_w, d_product[..., 2 * d :].sum((0, 1)), None


class RNNSequence(torch.autograd.Function):
    """(T, B, H) projected input and a first h (B, H) to all h (T, B, H)."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, start: Tensor, w_h: Tensor, relu: bool) -> Tensor:
        states = projected.new_empty(len(projected) + 1, *start.shape)
        states[0] = start
        turned = w_h.t()
        for t in range(len(projected)):
            h = torch.addmm(projected[t], states[t], turned, out=states[t + 1])
            if relu:
                h.relu_()
            else:
                h.tanh_()
        ctx.save_for_backward(states, w_h)
        ctx.relu = relu
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        states, w_h = ctx.saved_tensors
        h = states[1:]
        slope = (h > 0).to(h.dtype) if ctx.relu else 1 - h * h  # of the activation, for all steps
        d_projected = torch.empty_like(slope)
        carried = torch.zeros_like(states[0])
        for t in range(len(h) - 1, -1, -1):
            torch.mul(carried.add_(above[t]), slope[t], out=d_projected[t])
            torch.mm(d_projected[t], w_h, out=carried)
        d = h.shape[2]
        return d_projected, carried, d_projected.view(-1, d).t() @ states[:-1].view(-1, d), None
