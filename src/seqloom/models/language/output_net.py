"""The output layer that a config asks for."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.models.language.neural_configs import NetworkConfig
from seqloom.models.language.shapes import cutoffs
from seqloom.nn.outputs import NCE, AdaptiveSoftmax, FullSoftmax, SampledSoftmax

Output = FullSoftmax | AdaptiveSoftmax


def make_output(config: NetworkConfig, d_model: int, vocab_size: int, tied: nn.Embedding | None,
                counts: Tensor | None, bias: bool = True) -> Output:
    """`counts` (V,) of the training text shape what is drawn and which tokens are rare; a restored network needs none."""
    if config.softmax == "full":
        return FullSoftmax(d_model, vocab_size, tied=tied, bias=bias, label_smoothing=config.label_smoothing)
    if config.softmax == "adaptive":
        order = torch.arange(vocab_size) if counts is None else torch.argsort(counts, descending=True, stable=True)
        return AdaptiveSoftmax(d_model, vocab_size, cutoffs(vocab_size), order=order)
    noise = None if counts is None else (counts.double() + 1) ** 0.75  # tamed, as rare words must be met as well
    samples = min(config.samples, vocab_size)
    if config.softmax == "sampled":
        return SampledSoftmax(d_model, vocab_size, samples=samples, proposal=noise, tied=tied, bias=bias)
    return NCE(d_model, vocab_size, samples=samples, noise=noise, tied=tied, bias=bias)
