"""How much the gradient differs between batches, which says how large a batch is worth it.

Of a batch much smaller than the noise scale (McCandlish et al. 2018, "An Empirical Model of
Large-Batch Training"), twice the rows need half the steps; of a much larger one as many steps as
before. It rises while the loss falls, so it is measured with trained weights.
"""

from __future__ import annotations

import math

import torch

from seqloom.training.devices import on_device
from seqloom.training.update import Updater, detached, leading

BATCHES = 32  # whose gradients are compared


def noise_scale(updater: Updater, batches: int = BATCHES) -> float:
    """Return the simple noise scale in rows: the sum of the variances of one row's gradient, divided by
    the square of the mean gradient; infinite where the mean cannot be told from nothing.

    The mean of the squares of n gradients exceeds the square of their mean by (1 - 1/n) times the
    variance of one.
    """
    weights = [p for p in updater.network.parameters() if p.requires_grad]
    total = [torch.zeros_like(p) for p in weights]
    squares, rows = 0.0, 0
    carried = updater.carried[0] if updater.shards.count == 1 else None  # that of all rows
    for _ in range(batches):
        batch = updater.task.batches.batch(updater.cursor)
        before = None if batch.fresh else leading(carried, batch.rows)
        tensors = on_device(batch, updater.device)
        loss, state = updater.task.loss(updater.network, tensors, before)
        gradients = torch.autograd.grad(loss / batch.count, weights, allow_unused=True)
        for sum_of, gradient in zip(total, gradients):
            if gradient is not None:
                sum_of.add_(gradient)
                squares += float(gradient.square().sum()) / batches
        carried, updater.cursor = detached(state), batch.following
        rows += batch.rows
    mean_square = sum(float((one / batches).square().sum()) for one in total)
    variance = (squares - mean_square) * batches / (batches - 1)
    signal = mean_square - variance / batches
    return rows / batches * variance / signal if signal > 0 else math.inf
