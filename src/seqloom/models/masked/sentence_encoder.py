"""Sentence vectors by an encoder of the BERT family (Reimers and Gurevych 2019, "Sentence-BERT").

The vector of a text is the mean of its tokens' vectors, the vector of its first mark, or the
largest value of each feature; divided by its length, so that dot products are cosines. Published
weights are converted (`interop/encoders`). On a CPU the network runs without torch (`runtime/bert`),
on other devices with it (`encoder_net`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from seqloom import progress
from seqloom.contracts import TextEmbedder
from seqloom.contracts.nearness import units
from seqloom.contracts.saving import Kind
from seqloom.errors import ConfigError
from seqloom.kernels.parallel import parallel_map
from seqloom.models.masked.configs import SentenceEncoderConfig
from seqloom.models.masked.inputs import (
    MARKS,
    Input,
    Marks,
    cut_to,
    groups,
    hidden_states,
    read_inputs,
    take_encoder,
    traced,
)
from seqloom.models.network.network import NetworkModel
from seqloom.runtime.bert import BertNet
from seqloom.runtime.weights import Weights
from seqloom.traces import Traced

if TYPE_CHECKING:
    import torch


class SentenceEncoder(NetworkModel, TextEmbedder):
    name = "sentence-encoder"
    learns_text = False
    config_class = SentenceEncoderConfig
    # with 8 bits the error would be 1.7 times as large
    exact: ClassVar[tuple[str, ...]] = ("attention.qkv.weight",)
    learnt_values: ClassVar[dict[str, Kind]] = {**MARKS, **NetworkModel.network_values}
    inputs_16_bit = True

    @property
    def marks(self) -> Marks:
        """Return the marks (special tokens) around its texts."""
        return Marks.of(self.learnt, self.tokenizer.vocab_size)

    @property
    def dimensions(self) -> int:
        return self.config.d_model

    def label(self) -> str:
        return f"sentence-encoder-{self.config.n_layers}x{self.config.d_model}{self.bits_label}"

    def summary(self) -> str:
        return f"{self.config.d_model} dimensions, {self.tokenizer.label()}"

    def build_fitted(self) -> torch.nn.Module:
        from seqloom.models.masked.encoder_net import build_encoder

        return build_encoder(self.config, self.tokenizer.vocab_size)

    def take_runtime(self, weights: Weights) -> BertNet:
        Marks.of(self.learnt, self.tokenizer.vocab_size)
        return take_encoder(weights, self.config, self.tokenizer.vocab_size)

    def fit(self, data: Any, **options: Any) -> Self:
        """Refuse: published weights are converted
        (`seqloom convert DIR OUT --task sentence-vectors`).
        """
        raise ConfigError(
            "sentence-encoder models are not trained here; convert published weights: "
            "seqloom convert DIR OUT --task sentence-vectors"
        )

    # ---- vectors

    def embed_texts(self, texts: list[str]) -> np.ndarray:
        inputs = self._inputs(texts)
        if not self.net.on_cpu:
            hidden = hidden_states(self.network(), inputs, self.marks.pad)
            vectors = np.concatenate([self._pooled(x, np.array([0, len(x)])) for x in hidden])
        else:
            network: BertNet = self.runtime()
            parts = parallel_map(
                lambda group: self._pooled(*read_inputs(network, group)), groups(inputs)
            )
            vectors = np.concatenate(list(parts))
        return units(vectors) if self.config.unit_length else vectors

    def _inputs(self, texts: Sequence[str]) -> list[Input]:
        marks, longest = self.marks, self.config.longest or self.config.context
        most = longest - marks.around(1)
        rows = [self.tokenizer.encode(text) for text in texts]
        if cut := sum(len(row) > most for row in rows):
            progress.say(
                f"{cut:,} of {len(rows):,} texts are longer than the {longest:,} tokens that this "
                f"{self.name} model "
                "reads; their ends are left out"
            )
        return [marks.join(cut_to((row,), most)) for row in rows]

    def trace(self, text: str, *patterns: str) -> Traced:
        """Return what the network computes while it reads a text: weights of attention and the vectors
        after each block (`seqloom.traces` has their names).

        `patterns`: the wanted names, such as `*.weights`; none: all.
        """
        self.check_fitted()
        return traced(self.runtime(), self._inputs([text])[0], self.tokenizer, patterns)

    def _pooled(self, x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Compute the vectors (B, D) of texts from those of their tokens (N, D); a text has marks, so
        none is empty.
        """
        starts, how = offsets[:-1], self.config.pooling
        if how == "cls":
            return x[starts]
        if how == "max":
            return np.maximum.reduceat(x, starts)
        return np.add.reduceat(x, starts) / np.diff(offsets)[:, None].astype(np.float32)
