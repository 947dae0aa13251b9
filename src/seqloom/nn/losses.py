"""Cross-entropy of a linear softmax layer that never holds more than a chunk of its logits.

With V words and N tokens the usual pair of a Linear and a cross-entropy writes N x V logits, their log-softmax and
their gradient to memory, and reads each again. Here the rows are taken a chunk at a time, small enough to stay in
the processor's cache, and while a chunk is there everything that needs it is done: softmax, loss, and the three
gradients, in the forward pass, since the gradient of a loss that is the last step is known up to one factor. (The
same observation as in Wijmans et al. 2024, "Cut Your Losses in Large-Vocabulary Language Models".)

With e = exp(logits - max) and s = 1 / sum(e) the softmax is s e, row by row. It is never written: s goes into the
narrow matrices, dX = s (e W) - W[target] and dW = e' (s X) - scatter(X), so a chunk is only exponentiated in place.
Label smoothing likewise costs no pass over the chunk: the mean logit of a row is x . mean(W) + mean(b).
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seqloom.nn.alignment import aligned_empty

CHUNK_BYTES = 32 << 20  # of logits at a time: a common size of the last cache; products of fewer rows are slower
CHUNK_ROWS = 256  # at least, for the same reason, however large the vocabulary
BLOCK_ROWS = 4096  # of dW at a time, where its own rows are not aligned

Grads = tuple[Tensor | None, Tensor | None, Tensor | None]


def linear_cross_entropy(features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *,
                         label_smoothing: float = 0.0, chunk: int | None = None,
                         reduction: Literal["mean", "sum", "none"] = "mean") -> Tensor:
    """-log softmax(features weight' + bias)[targets] in nats, as F.cross_entropy(F.linear(...)) to rounding.

    features (N, D), weight (V, D), bias (V) or None, targets (N,). `chunk` is how many rows are held at a time. "mean"
    and "sum" carry gradients; "none" gives one number a token, (N,), and carries none.
    """
    _check(features, weight, targets, label_smoothing, chunk)
    features = features.to(weight.dtype)  # half precision ends here: the sums over V are made in the weights' precision
    if reduction == "none":
        with torch.no_grad():
            return _run(features, weight, bias, targets, label_smoothing, chunk, (False, False, False))[0]
    total: Tensor = _LinearCrossEntropy.apply(features, weight, bias, targets, label_smoothing, chunk, reduction)
    return total


def linear_log_probs(features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """Natural-log probability of each target, (N,); no gradient."""
    return linear_cross_entropy(features, weight, bias, targets, reduction="none").neg_()


def _check(features: Tensor, weight: Tensor, targets: Tensor, label_smoothing: float, chunk: int | None) -> None:
    if features.ndim != 2 or targets.shape != features.shape[:1] or features.shape[1] != weight.shape[1]:
        raise ValueError(f"features {tuple(features.shape)}, weight {tuple(weight.shape)} and targets {tuple(targets.shape)} "
                         f"must be (N, D), (V, D) and (N,)")
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"label_smoothing is {label_smoothing}; it must be at least 0 and below 1")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk is {chunk}; it must be at least one row")
    if len(targets) == 0:
        raise ValueError("no tokens: a mean over nothing has no value")


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, label_smoothing: float,
                chunk: int | None, reduction: str) -> Tensor:
        ctx.save_for_backward(features, weight, bias, targets)
        ctx.options = label_smoothing, chunk
        ctx.scale = 1.0 / len(targets) if reduction == "mean" else 1.0
        losses, ctx.grads = _run(features, weight, bias, targets, label_smoothing, chunk, ctx.needs_input_grad[:3], ctx.scale)
        return losses.sum(dtype=torch.float64).mul_(ctx.scale).to(losses.dtype)  # in float64: N may be large

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # Given away rather than kept: the engine then takes dW itself as .grad, where it would copy what is shared.
        grads, ctx.grads = ctx.grads, None
        if grads is None:  # a second backward pass over a retained graph
            features, weight, bias, targets = ctx.saved_tensors
            smoothing, chunk = ctx.options
            grads = _run(features, weight, bias, targets, smoothing, chunk, ctx.needs_input_grad[:3], ctx.scale)[1]
        if grad.device.type != "cpu" or grad.item() != 1.0:
            for part in grads:
                if part is not None:
                    part.mul_(grad)
        return (*grads, None, None, None, None)


def _run(features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, label_smoothing: float, chunk: int | None,
         needed: tuple[bool, bool, bool], scale: float = 1.0) -> tuple[Tensor, Grads]:
    """The loss of each token (N,), and the gradients of `scale` times their sum."""
    n, vocab_size = len(features), len(weight)
    rows = chunk or max(CHUNK_ROWS, CHUNK_BYTES // (vocab_size * weight.element_size()))
    rows = -(-n // -(-n // rows))  # as many chunks, all of one size
    buffer = aligned_empty(features, rows, vocab_size)
    losses = features.new_empty(n)
    d_features = torch.empty_like(features) if needed[0] else None
    d_weight = torch.empty_like(weight, memory_format=torch.contiguous_format) if needed[1] else None
    d_bias = torch.zeros_like(bias) if bias is not None and needed[2] else None
    for start in range(0, n, rows):
        part = slice(start, min(start + rows, n))
        x, y = features[part], targets[part]  # (C, D), (C,)
        e = buffer[: len(x)]  # (C, V), first the logits
        if bias is None:
            torch.mm(x, weight.t(), out=e)
        else:
            torch.addmm(bias, x, weight.t(), out=e)
        top = e.amax(1, keepdim=True)
        target = e.gather(1, y[:, None])
        total = e.sub_(top).exp_().sum(1, keepdim=True)  # (C, 1)
        losses[part] = ((top - target) + total.log())[:, 0]
        if label_smoothing:
            mean = x @ weight.mean(0) + (0.0 if bias is None else bias.mean())
            losses[part] += label_smoothing * (target[:, 0] - mean)
        if not any(needed):
            continue
        s = scale / total
        if d_features is not None:
            torch.mm(e, weight, out=d_features[part]).mul_(s)
        if d_weight is not None:
            _add_product(d_weight, e, aligned_empty(x, *x.shape).copy_(x).mul_(s), first=start == 0)
        if d_bias is not None:
            d_bias.addmv_(e.t(), s[:, 0])
    grads = d_features, d_weight, d_bias
    _subtract_truth(features, weight, targets, label_smoothing, scale, grads)
    return losses, grads


def _add_product(total: Tensor, e: Tensor, x: Tensor, *, first: bool) -> None:
    """total (V, D) += e' x, or = for the first chunk; e (C, V), x (C, D)."""
    vocab_size, width = total.shape
    if width % 8 == 0:
        total.addmm_(e.t(), x, beta=0.0 if first else 1.0)
        return
    block = aligned_empty(x, min(BLOCK_ROWS, vocab_size), width)
    for low in range(0, vocab_size, BLOCK_ROWS):
        part = total[low : low + BLOCK_ROWS]
        product = torch.mm(e[:, low : low + BLOCK_ROWS].t(), x, out=block[: len(part)])
        _ = part.copy_(product) if first else part.add_(product)


def _subtract_truth(features: Tensor, weight: Tensor, targets: Tensor, label_smoothing: float, scale: float,
                    grads: Grads) -> None:
    """What the softmax's gradient lacks: minus the target's share, and minus what smoothing gives to every word."""
    d_features, d_weight, d_bias = grads
    share, rest = scale * (1.0 - label_smoothing), scale * label_smoothing / len(weight)
    if d_features is not None:
        d_features.sub_(weight[targets], alpha=share)
    if d_weight is not None:
        d_weight.index_add_(0, targets, features, alpha=-share)
    if d_bias is not None:
        d_bias.index_add_(0, targets, d_bias.new_ones(()).expand(len(targets)), alpha=-share)
    if label_smoothing:
        if d_features is not None:
            d_features.sub_(weight.sum(0), alpha=rest)
        if d_weight is not None:
            d_weight.sub_(features.sum(0), alpha=rest)
        if d_bias is not None:
            d_bias.sub_(rest * len(targets))
