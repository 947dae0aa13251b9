"""The output layer of a network that predicts tokens: over all of them, or one of the ways around their sum."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.models.network.configs import SoftmaxName
from seqloom.nn.outputs import NCE, AdaptiveSoftmax, FullSoftmax, SampledSoftmax
from seqloom.runtime.outputs import cutoffs

Output = FullSoftmax | AdaptiveSoftmax


def make_output(softmax: SoftmaxName, d_model: int, vocab_size: int, *, tied: nn.Embedding | None = None,
                counts: Tensor | None = None, samples: int = 1024, label_smoothing: float = 0.0, bias: bool = True) -> Output:
    """`counts` (V,) of the training text shape what is drawn and which tokens are rare; a restored network needs none."""
    if softmax == "full":
        return FullSoftmax(d_model, vocab_size, tied=tied, bias=bias, label_smoothing=label_smoothing)
    if softmax == "adaptive":
        order = torch.arange(vocab_size) if counts is None else torch.argsort(counts, descending=True, stable=True)
        return AdaptiveSoftmax(d_model, vocab_size, cutoffs(vocab_size), order=order)
    noise = None if counts is None else (counts.double() + 1) ** 0.75  # tamed, as rare words must be met as well
    samples = min(samples, vocab_size)
    if softmax == "sampled":
        return SampledSoftmax(d_model, vocab_size, samples=samples, proposal=noise, tied=tied, bias=bias)
    return NCE(d_model, vocab_size, samples=samples, noise=noise, tied=tied, bias=bias)
