"""Cross-entropy of a linear softmax layer, with no more than a chunk of its logits in memory.

With V words and N tokens the usual pair of a Linear and a cross-entropy writes N x V logits, their
log-softmax and their gradient to memory, and reads each again. Here the rows are computed in chunks
that stay in the processor's cache, each with softmax, loss and the three gradients. These are
computed in the forward pass, since the gradient of a final loss is known up to one factor (Wijmans
et al. 2024, "Cut Your Losses in Large-Vocabulary Language Models").

With e = exp(logits - max) and s = 1 / sum(e) the softmax is s e, row by row. It is never written: s
goes into the narrow matrices, dX = s (e W) - W[target] and dW = e' (s X) - scatter(X), so a chunk
is only exponentiated in place. Nor does label smoothing need a pass over the chunk: the mean logit
of a row is x . mean(W) + mean(b). With soft targets, a distribution q over all words, a chunk becomes
sum(q) softmax - q in place, the gradient of its logits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seqloom.nn.layers import aligned_empty

# of logits at a time: a common size of the last-level cache; products of fewer rows are slower
CHUNK_BYTES = 32 << 20
CHUNK_ROWS = 256  # at least, for the same reason, however large the vocabulary
BLOCK_ROWS = 4096  # of dW at a time, where its rows are not aligned

Grads = tuple[Tensor | None, Tensor | None, Tensor | None]
# distributions of tokens `low` to `high`, (high - low, V)
SoftTargets = Callable[[int, int], Tensor]


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
    a function that gives the distributions of some rows, so that not all are in memory either. `weights`
    (N,) of the tokens; a mask is weights of zero and one; a mean is divided by their sum. `chunk`: rows in
    memory at a time. "mean" and "sum" have gradients, but not for targets and weights; "none" gives one
    number for each token, (N,), without gradients.
    """
    if weights is not None:
        weights = weights.detach().to(weight.dtype)
    objective = _Objective(targets, weights, label_smoothing, chunk)
    _check(features, weight, objective)
    # from half precision: the sums over V are made in the precision of the weights
    features = features.to(weight.dtype)
    if reduction == "none":
        with torch.no_grad():
            return _run(features, weight, bias, objective, (False, False, False))[0]
    total: Tensor = _LinearCrossEntropy.apply(features, weight, bias, objective, reduction)
    return total


def linear_log_probs(
    features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> Tensor:
    """Return the natural-log probability of each target, (N,); no gradient."""
    return linear_cross_entropy(features, weight, bias, targets, reduction="none").neg_()


@dataclass(frozen=True)
class _Objective:
    """Targets of the loss, their weights, and options."""

    targets: Tensor | SoftTargets
    weights: Tensor | None
    label_smoothing: float
    chunk: int | None

    @property
    def soft(self) -> bool:
        return not isinstance(self.targets, Tensor) or self.targets.ndim == 2

    def distributions(self, low: int, high: int, like: Tensor) -> Tensor:
        """Return the distributions of tokens `low` to `high`, checked to have the shape of `like`."""
        targets = self.targets
        rows = targets[low:high] if isinstance(targets, Tensor) else targets(low, high)
        if rows.shape != like.shape:
            raise ValueError(
                f"soft targets of tokens {low} to {high} are {tuple(rows.shape)}; they must be "
                f"{tuple(like.shape)}"
            )
        return rows.detach().to(like.dtype)

    def total_weight(self, n: int) -> float:
        """Return the divisor of a mean over n tokens."""
        if self.weights is None:
            return n
        total = float(self.weights.sum(dtype=torch.float64))
        if not total:
            raise ValueError("the weights of all tokens are zero: a mean over nothing has no value")
        return total


def _check(features: Tensor, weight: Tensor, objective: _Objective) -> None:
    n, targets = len(features), objective.targets
    fits = features.ndim == 2 and features.shape[1] == weight.shape[1]
    if isinstance(targets, Tensor):
        shaped = targets.shape in ((n,), (n, len(weight)))
        fits = fits and shaped and targets.is_floating_point() == objective.soft
    if not fits or (objective.weights is not None and objective.weights.shape != (n,)):
        tensors = {
            "features": features,
            "weight": weight,
            "targets": targets,
            "weights": objective.weights,
        }
        shown = ", ".join(
            f"{name} {tuple(x.shape)}" for name, x in tensors.items() if isinstance(x, Tensor)
        )
        raise ValueError(
            f"{shown} must be features (N, D), weight (V, D), targets (N,) whole numbers or "
            "(N, V) shares, and weights (N,)"
        )
    if not 0.0 <= objective.label_smoothing < 1.0:
        raise ValueError(
            f"label_smoothing is {objective.label_smoothing}; it must be at least 0 and below 1"
        )
    if objective.chunk is not None and objective.chunk < 1:
        raise ValueError(f"chunk is {objective.chunk}; it must be at least one row")
    if n == 0:
        raise ValueError("no tokens: a mean over nothing has no value")


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        objective: _Objective,
        reduction: str,
    ) -> Tensor:
        ctx.save_for_backward(features, weight, bias)
        ctx.objective = objective
        ctx.scale = 1.0 / objective.total_weight(len(features)) if reduction == "mean" else 1.0
        losses, ctx.grads = _run(
            features, weight, bias, objective, ctx.needs_input_grad[:3], ctx.scale
        )
        # in float64: N may be large
        return losses.sum(dtype=torch.float64).mul_(ctx.scale).to(losses.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # Not kept in ctx: the engine then takes dW itself as .grad, where it would copy a shared one.
        grads, ctx.grads = ctx.grads, None
        if grads is None:  # a second backward pass over a retained graph
            features, weight, bias = ctx.saved_tensors
            grads = _run(
                features, weight, bias, ctx.objective, ctx.needs_input_grad[:3], ctx.scale
            )[1]
        if grad.device.type != "cpu" or grad.item() != 1.0:
            for part in grads:
                if part is not None:
                    part.mul_(grad)
        return (*grads, None, None)


def _run(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    objective: _Objective,
    needed: tuple[bool, bool, bool],
    scale: float = 1.0,
) -> tuple[Tensor, Grads]:
    """Return the loss of each token (N,), and the gradients of `scale` times their sum."""
    n, vocab_size = len(features), len(weight)
    rows = objective.chunk or max(CHUNK_ROWS, CHUNK_BYTES // (vocab_size * weight.element_size()))
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
        if objective.soft:
            total, losses[part] = _soft_chunk(e, objective, part, any(needed))
        else:
            total, losses[part] = _hard_chunk(e, x, weight, bias, objective, part)
        s = scale / total
        if objective.weights is not None:
            losses[part] *= objective.weights[part]
            s *= objective.weights[part, None]
        if not any(needed):
            continue
        if d_features is not None:
            torch.mm(e, weight, out=d_features[part]).mul_(s)
        if d_weight is not None:
            _add_product(d_weight, e, aligned_empty(x, *x.shape).copy_(x).mul_(s), first=start == 0)
        if d_bias is not None:
            d_bias.addmv_(e.t(), s[:, 0])
    grads = d_features, d_weight, d_bias
    if not objective.soft:
        _subtract_truth(features, weight, objective, scale, grads)
    return losses, grads


def _hard_chunk(
    e: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, objective: _Objective, part: slice
) -> tuple[Tensor, Tensor]:
    """Turn logits into exponentials; return the divisors that make rows a softmax (C, 1), and losses (C,)."""
    assert isinstance(objective.targets, Tensor)
    top = e.amax(1, keepdim=True)
    target = e.gather(1, objective.targets[part, None])
    total = e.sub_(top).exp_().sum(1, keepdim=True)  # (C, 1)
    losses = ((top - target) + total.log())[:, 0]
    if objective.label_smoothing:
        mean = x @ weight.mean(0) + (0.0 if bias is None else bias.mean())
        losses += objective.label_smoothing * (target[:, 0] - mean)
    return total, losses


def _soft_chunk(
    e: Tensor, objective: _Objective, part: slice, gradients: bool
) -> tuple[Tensor, Tensor]:
    """Turn logits into the gradients of their losses, if needed; return their divisor, one, and the
    losses."""
    q = objective.distributions(part.start, part.stop, e)
    smoothing, mass = objective.label_smoothing, q.sum(1, keepdim=True)  # of a distribution 1
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
    features: Tensor, weight: Tensor, objective: _Objective, scale: float, grads: Grads
) -> None:
    """Subtract from the softmax's gradient the target's share, and the share that smoothing gives to all
    words."""
    assert isinstance(objective.targets, Tensor)
    d_features, d_weight, d_bias = grads
    targets, weights, smoothing = objective.targets, objective.weights, objective.label_smoothing
    target_share, smoothing_share = scale * (1.0 - smoothing), scale * smoothing / len(weight)
    if d_features is not None:
        d_features.sub_(_weighted(weight[targets], weights), alpha=target_share)
    if d_weight is not None:
        d_weight.index_add_(0, targets, _weighted(features, weights), alpha=-target_share)
    if d_bias is not None:
        each = d_bias.new_ones(()).expand(len(targets)) if weights is None else weights
        d_bias.index_add_(0, targets, each, alpha=-target_share)
    if smoothing:
        if d_features is not None:
            d_features.sub_(
                _weighted(weight.sum(0).expand_as(features), weights), alpha=smoothing_share
            )
        if d_weight is not None:
            d_weight.sub_(_weighted(features, weights).sum(0), alpha=smoothing_share)
        if d_bias is not None:
            d_bias.sub_(
                smoothing_share * (len(targets) if weights is None else float(weights.sum()))
            )


def _weighted(rows: Tensor, weights: Tensor | None) -> Tensor:
    return rows if weights is None else rows * weights[:, None]
