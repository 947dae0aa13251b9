"""`encoder_steps` with the layer that guesses hidden tokens: `nn.bert.MaskedHead` without torch, on the same weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from seqloom.kernels.decode import norm_rows
from seqloom.models.encode.configs import BertConfig
from seqloom.models.encode.encoder_steps import ACTIVATE, Affine, EncoderSteps, Norm
from seqloom.models.encode.inputs import Input, Marks
from seqloom.models.network.quantised import Quantised
from seqloom.models.network.step_weights import Softmax, Weights
from seqloom.text.masks import HIDDEN


class MaskedSteps(EncoderSteps):
    def __init__(self, config: BertConfig, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__(config, arrays)
        self.head = MaskedHead(config, Weights(arrays, eight_bit=False)) if config.head else None

    def guess(self, inputs: Sequence[Input], marks: Marks) -> list[np.ndarray]:
        """For each text the log-probabilities of all tokens at each of its hidden places, float32 (places, V)."""
        assert self.head is not None, "this network has no head that guesses tokens"
        x, borders = self.read([marks.hide(one) for one in inputs])
        hidden = np.flatnonzero(np.concatenate([one.ids for one in inputs]) == HIDDEN)
        return np.split(self.head.log_probs(x[hidden]), np.searchsorted(hidden, borders[1:-1]))


class MaskedHead:
    def __init__(self, config: BertConfig, weights: Weights) -> None:
        self.epsilon, self.activate = np.float32(config.norm_epsilon), ACTIVATE[config.head_activation or config.activation]
        self.dense, self.norm = Affine.of(weights, "head.dense"), Norm.of(weights, "head.norm")
        name = "embedding.weight" if config.tied else "head.output.weight"
        matrix = weights.matrix(name)
        self.output = Softmax(matrix.finely() if isinstance(matrix, Quantised) else matrix, weights.vector("head.bias"))

    def log_probs(self, hidden: np.ndarray) -> np.ndarray:
        """Of what may stand where these vectors (n, D) are, float32 (n, V)."""
        x = self.activate(self.dense.matrix(hidden), self.dense.bias)
        norm_rows(x, *self.norm, x, self.epsilon)
        return self.output.log_probs(x)
