"""Cross-entropy of a linear softmax layer that never holds more than a chunk of its logits.

With V words and N tokens the usual pair of a Linear and a cross-entropy writes N x V logits, their
log-softmax and their gradient to memory, and reads each again. Here the rows are taken a chunk at a
time, small enough to stay in the processor's cache, and while a chunk is there everything that
needs it is done: softmax, loss, and the three gradients, in the forward pass, since the gradient of
a loss that is the last step is known up to one factor. (The same observation as in Wijmans et al.
2024, "Cut Your Losses in Large-Vocabulary Language Models".)

With e = exp(logits - max) and s = 1 / sum(e) the softmax is s e, row by row. It is never written: s
goes into the narrow matrices, dX = s (e W) - W[target] and dW = e' (s X) - scatter(X), so a chunk
is only exponentiated in place. Label smoothing likewise costs no pass over the chunk: the mean
logit of a row is x . mean(W) + mean(b).

The target of a token is a word, or a distribution q over all words (soft targets). Then a chunk becomes in
place sum(q) softmax - q, the gradient of its logits. Each token may have a weight; a mask is weights of zero
and one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seqloom.nn.layers import aligned_empty

CHUNK_BYTES = (
    32 << 20
)  # of logits at a time: a common size of the last cache; products of fewer rows are slower
CHUNK_ROWS = 256  # at least, for the same reason, however large the vocabulary
BLOCK_ROWS = 4096  # of dW at a time, where its own rows are not aligned

Grads = tuple[Tensor | None, Tensor | None, Tensor | None]
SoftTargets = Callable[
    [int, int], Tensor
]  # the distributions of tokens `low` to `high`, (high - low, V)


def linear_cross_entropy(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor | SoftTargets,
    *,
    weights: Tensor | None = None,
    label_smoothing: float = 0.0,
    chunk: int | None = None,
    reduction: Literal["mean", "sum", "none"] = "mean",
) -> Tensor:
    """Return -log softmax(features weight' + bias)[targets] in nats, as F.cross_entropy(F.linear(...)) does.

    features (N, D), weight (V, D), bias (V) or None. targets: words (N,), distributions over words (N, V), or
    a function that gives the distributions of some rows, so that these need not be held at once either.
    `weights` (N,): how much each token counts; a mean is divided by their sum. `chunk` is how many rows are
    held at a time. "mean" and "sum" carry gradients, but none to targets and weights; "none" gives one number
    a token, (N,), and carries none.
    """
    if weights is not None:
        weights = weights.detach().to(weight.dtype)
    asked = _Asked(targets, weights, label_smoothing, chunk)
    _check(features, weight, asked)
    features = features.to(
        weight.dtype
    )  # half precision ends here: the sums over V are made in the weights' precision
    if reduction == "none":
        with torch.no_grad():
            return _run(features, weight, bias, asked, (False, False, False))[0]
    total: Tensor = _LinearCrossEntropy.apply(features, weight, bias, asked, reduction)
    return total


def linear_log_probs(
    features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> Tensor:
    """Return the natural-log probability of each target, (N,); no gradient."""
    return linear_cross_entropy(features, weight, bias, targets, reduction="none").neg_()


@dataclass(frozen=True)
class _Asked:
    """What the features are held against."""

    targets: Tensor | SoftTargets
    weights: Tensor | None
    label_smoothing: float
    chunk: int | None

    @property
    def soft(self) -> bool:
        return not isinstance(self.targets, Tensor) or self.targets.ndim == 2

    def distributions(self, low: int, high: int, like: Tensor) -> Tensor:
        """Return those of the tokens from `low` to `high`, in the type and shape of `like`."""
        targets = self.targets
        rows = targets[low:high] if isinstance(targets, Tensor) else targets(low, high)
        if rows.shape != like.shape:
            raise ValueError(
                f"soft targets of tokens {low} to {high} are {tuple(rows.shape)}; they must be "
                f"{tuple(like.shape)}"
            )
        return rows.detach().to(like.dtype)

    def total_weight(self, n: int) -> float:
        """Return what a sum over n tokens is divided by to be a mean."""
        if self.weights is None:
            return n
        total = float(self.weights.sum(dtype=torch.float64))
        if not total:
            raise ValueError("the weights of all tokens are zero: a mean over nothing has no value")
        return total


def _check(features: Tensor, weight: Tensor, asked: _Asked) -> None:
    n, targets = len(features), asked.targets
    fits = features.ndim == 2 and features.shape[1] == weight.shape[1]
    if isinstance(targets, Tensor):
        shaped = targets.shape in ((n,), (n, len(weight)))
        fits = fits and shaped and targets.is_floating_point() == asked.soft
    if not fits or (asked.weights is not None and asked.weights.shape != (n,)):
        given = {
            "features": features,
            "weight": weight,
            "targets": targets,
            "weights": asked.weights,
        }
        shown = ", ".join(
            f"{name} {tuple(x.shape)}" for name, x in given.items() if isinstance(x, Tensor)
        )
        raise ValueError(
            f"{shown} must be features (N, D), weight (V, D), targets (N,) whole numbers or "
            "(N, V) shares, and weights (N,)"
        )
    if not 0.0 <= asked.label_smoothing < 1.0:
        raise ValueError(
            f"label_smoothing is {asked.label_smoothing}; it must be at least 0 and below 1"
        )
    if asked.chunk is not None and asked.chunk < 1:
        raise ValueError(f"chunk is {asked.chunk}; it must be at least one row")
    if n == 0:
        raise ValueError("no tokens: a mean over nothing has no value")


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        asked: _Asked,
        reduction: str,
    ) -> Tensor:
        ctx.save_for_backward(features, weight, bias)
        ctx.asked = asked
        ctx.scale = 1.0 / asked.total_weight(len(features)) if reduction == "mean" else 1.0
        losses, ctx.grads = _run(features, weight, bias, asked, ctx.needs_input_grad[:3], ctx.scale)
        return (
            losses.sum(dtype=torch.float64).mul_(ctx.scale).to(losses.dtype)
        )  # in float64: N may be large

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # Given away rather than kept: the engine then takes dW itself as .grad, where it would copy
        # what is shared.
        grads, ctx.grads = ctx.grads, None
        if grads is None:  # a second backward pass over a retained graph
            features, weight, bias = ctx.saved_tensors
            grads = _run(features, weight, bias, ctx.asked, ctx.needs_input_grad[:3], ctx.scale)[1]
        if grad.device.type != "cpu" or grad.item() != 1.0:
            for part in grads:
                if part is not None:
                    part.mul_(grad)
        return (*grads, None, None)


def _run(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    asked: _Asked,
    needed: tuple[bool, bool, bool],
    scale: float = 1.0,
) -> tuple[Tensor, Grads]:
    """Return the loss of each token (N,), and the gradients of `scale` times their sum."""
    n, vocab_size = len(features), len(weight)
    rows = asked.chunk or max(CHUNK_ROWS, CHUNK_BYTES // (vocab_size * weight.element_size()))
    rows = -(-n // -(-n // rows))  # as many chunks, all of one size
    buffer = aligned_empty(features, rows, vocab_size)
    losses = features.new_empty(n)
    d_features = torch.empty_like(features) if needed[0] else None
    d_weight = (
        torch.empty_like(weight, memory_format=torch.contiguous_format) if needed[1] else None
    )
    d_bias = torch.zeros_like(bias) if bias is not None and needed[2] else None
    for start in range(0, n, rows):
        part = slice(start, min(start + rows, n))
        x = features[part]  # (C, D)
        e = buffer[: len(x)]  # (C, V), first the logits
        if bias is None:
            torch.mm(x, weight.t(), out=e)
        else:
            torch.addmm(bias, x, weight.t(), out=e)
        if asked.soft:
            total, losses[part] = _soft_chunk(e, asked, part, any(needed))
        else:
            total, losses[part] = _hard_chunk(e, x, weight, bias, asked, part)
        s = scale / total
        if asked.weights is not None:
            losses[part] *= asked.weights[part]
            s *= asked.weights[part, None]
        if not any(needed):
            continue
        if d_features is not None:
            torch.mm(e, weight, out=d_features[part]).mul_(s)
        if d_weight is not None:
            _add_product(d_weight, e, aligned_empty(x, *x.shape).copy_(x).mul_(s), first=start == 0)
        if d_bias is not None:
            d_bias.addmv_(e.t(), s[:, 0])
    grads = d_features, d_weight, d_bias
    if not asked.soft:
        _subtract_truth(features, weight, asked, scale, grads)
    return losses, grads


def _hard_chunk(
    e: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, asked: _Asked, part: slice
) -> tuple[Tensor, Tensor]:
    """Turn logits into exponentials; return what rows are divided by to be a softmax (C, 1), and losses
    (C,)."""
    assert isinstance(asked.targets, Tensor)
    top = e.amax(1, keepdim=True)
    target = e.gather(1, asked.targets[part, None])
    total = e.sub_(top).exp_().sum(1, keepdim=True)  # (C, 1)
    losses = ((top - target) + total.log())[:, 0]
    if asked.label_smoothing:
        mean = x @ weight.mean(0) + (0.0 if bias is None else bias.mean())
        losses += asked.label_smoothing * (target[:, 0] - mean)
    return total, losses


def _soft_chunk(e: Tensor, asked: _Asked, part: slice, gradients: bool) -> tuple[Tensor, Tensor]:
    """Turn logits into the gradients of their losses, if wanted; return their divisor, one, and the
    losses."""
    q = asked.distributions(part.start, part.stop, e)
    smoothing, mass = asked.label_smoothing, q.sum(1, keepdim=True)  # of a distribution 1
    target = torch.linalg.vecdot(q, e)[:, None]
    if smoothing:
        target = (1.0 - smoothing) * target + smoothing * mass * e.mean(1, keepdim=True)
    top = e.amax(1, keepdim=True)
    total = e.sub_(top).exp_().sum(1, keepdim=True)
    losses = (mass * (top + total.log()) - target)[:, 0]
    if gradients:
        e.mul_(mass / total).sub_(q, alpha=1.0 - smoothing)
        if smoothing:
            e.sub_(mass * (smoothing / e.shape[1]))
    return torch.ones_like(mass), losses


def _add_product(total: Tensor, e: Tensor, x: Tensor, *, first: bool) -> None:
    """Add e' x to total (V, D), or set it for the first chunk; e (C, V), x (C, D)."""
    vocab_size, width = total.shape
    if width % 8 == 0:
        total.addmm_(e.t(), x, beta=0.0 if first else 1.0)
        return
    block = aligned_empty(x, min(BLOCK_ROWS, vocab_size), width)
    for low in range(0, vocab_size, BLOCK_ROWS):
        part = total[low : low + BLOCK_ROWS]
        product = torch.mm(e[:, low : low + BLOCK_ROWS].t(), x, out=block[: len(part)])
        _ = part.copy_(product) if first else part.add_(product)


def _subtract_truth(
    features: Tensor, weight: Tensor, asked: _Asked, scale: float, grads: Grads
) -> None:
    """Subtract what the softmax's gradient lacks: the target's share, and what smoothing gives to all
    words."""
    assert isinstance(asked.targets, Tensor)
    d_features, d_weight, d_bias = grads
    targets, weights, smoothing = asked.targets, asked.weights, asked.label_smoothing
    share, rest = scale * (1.0 - smoothing), scale * smoothing / len(weight)
    if d_features is not None:
        d_features.sub_(_weighted(weight[targets], weights), alpha=share)
    if d_weight is not None:
        d_weight.index_add_(0, targets, _weighted(features, weights), alpha=-share)
    if d_bias is not None:
        each = d_bias.new_ones(()).expand(len(targets)) if weights is None else weights
        d_bias.index_add_(0, targets, each, alpha=-share)
    if smoothing:
        if d_features is not None:
            d_features.sub_(_weighted(weight.sum(0).expand_as(features), weights), alpha=rest)
        if d_weight is not None:
            d_weight.sub_(_weighted(features, weights).sum(0), alpha=rest)
        if d_bias is not None:
            d_bias.sub_(rest * (len(targets) if weights is None else float(weights.sum())))


def _weighted(rows: Tensor, weights: Tensor | None) -> Tensor:
    return rows if weights is None else rows * weights[:, None]
