"""The output layer of a network that predicts tokens: a full softmax, or one that avoids the sum over
all tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.models.network.configs import SoftmaxName
from seqloom.nn.outputs import NCE, AdaptiveSoftmax, FullSoftmax, SampledSoftmax
from seqloom.runtime.outputs import cutoffs
from seqloom.training.devices import Tensors

Output = FullSoftmax | AdaptiveSoftmax


def summed_loss(output: Output, features: Tensor, batch: Tensors) -> Tensor:
    """Return the summed loss of a batch's targets (B, T), by mask and weights, from features (B, T, D)."""
    targets, weights = batch["targets"], batch.weights
    if weights is not None:  # of the first axes, for every target
        weights = weights.reshape(weights.shape + (1,) * (targets.ndim - weights.ndim)).expand(
            targets.shape
        )
    if batch.mask is not None:
        features, targets = features[batch.mask], targets[batch.mask]
        weights = None if weights is None else weights[batch.mask]
    features, targets = features.reshape(-1, features.shape[-1]), targets.reshape(-1)
    total = len(targets) if weights is None else weights.sum()
    if not total:  # one of several batches of an update may have no targets
        return features.sum() * 0.0
    return (
        output.loss(features, targets, weights=None if weights is None else weights.reshape(-1))
        * total
    )


def make_output(
    softmax: SoftmaxName,
    d_model: int,
    vocab_size: int,
    *,
    tied: nn.Embedding | None = None,
    counts: Tensor | None = None,
    samples: int = 1024,
    label_smoothing: float = 0.0,
    bias: bool = True,
) -> Output:
    """Make the output layer; `counts` (V,) of the training text set the noise distribution and the
    rare tokens; a restored network needs none.
    """
    if softmax == "full":
        return FullSoftmax(
            d_model, vocab_size, tied=tied, bias=bias, label_smoothing=label_smoothing
        )
    if softmax == "adaptive":
        order = (
            torch.arange(vocab_size)
            if counts is None
            else torch.argsort(counts, descending=True, stable=True)
        )
        return AdaptiveSoftmax(d_model, vocab_size, cutoffs(vocab_size), order=order)
    # flattened by the power of 0.75, so that rare words are drawn as well
    noise = None if counts is None else (counts.double() + 1) ** 0.75
    samples = min(samples, vocab_size)
    if softmax == "sampled":
        return SampledSoftmax(
            d_model, vocab_size, samples=samples, proposal=noise, tied=tied, bias=bias
        )
    return NCE(d_model, vocab_size, samples=samples, noise=noise, tied=tied, bias=bias)
