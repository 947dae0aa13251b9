"""word2vec: a word is known by the company it keeps (Mikolov et al. 2013, "Efficient Estimation of Word Representations" and
"Distributed Representations of Words and Phrases").

Skip-gram: every neighbour predicts the word in the middle (which is the same as the middle predicting its neighbours, over
the whole text, and the way the authors' program does it). CBOW: the mean of the neighbours predicts it. What the noise words
are is decided once for a window, not for each pair, so that the arithmetic is small matrix products.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.config import Config
from seqloom.contracts.base import Fitting
from seqloom.models.vectors.configs import Word2VecConfig
from seqloom.models.vectors.trained import TrainedVectors, TrainingText
from seqloom.models.vectors.windows import KINDS, NO_WEIGHTS, Bags, output_rows, random_rows, train_windows
from seqloom.models.vectors.words import Words


class Word2Vec(TrainedVectors):
    name = "word2vec"
    config_class: ClassVar[type[Config]] = Word2VecConfig

    def label(self) -> str:
        kind = "sg" if self.config.architecture == "skip-gram" else "cbow"
        return f"{self.name}-{kind}-{self.config.loss}{self.config.dimensions}"

    # ---- learning

    def _learn(self, text: TrainingText, how: Fitting, earlier: Self | None, facts: dict[str, Any]) -> None:
        c, words = self.config, text.stream.words
        bags, buckets = self._bags(words)
        inputs = random_rows(len(words) * self.own_rows + len(buckets), c.dimensions, c.seed)
        outputs = output_rows(c, len(words))
        if earlier is not None:
            self._copy_vectors(earlier, text.places, bags, buckets, inputs, outputs)
        losses = train_windows(text.stream, bags, inputs, outputs, text.counts, c, run=how.run, facts=facts)
        self.input, self.output = inputs[:, :c.dimensions].copy(), outputs[:, :c.dimensions].copy()
        self._finish(bags, buckets)
        self.fit_info["losses"] = losses

    def _bags(self, words: Words) -> tuple[Bags, np.ndarray]:
        """The rows of each word, and which n-grams have rows too."""
        size, own = len(words), KINDS.index("own")
        return Bags(np.arange(1, size + 1), np.arange(size, dtype=np.int32), 1, own, NO_WEIGHTS), np.zeros(0, np.int64)

    def _finish(self, bags: Bags, buckets: np.ndarray) -> None:
        """What else there is to make of the rows that were learnt."""

    def _copy_vectors(self, earlier: Self, places: np.ndarray, bags: Bags, buckets: np.ndarray, inputs: np.ndarray,
                   outputs: np.ndarray) -> None:
        """What the earlier model knows, its words now standing in `places`."""
        inputs[places, :self.config.dimensions] = earlier.input[:len(places)]
        self._take_outputs(earlier, places, outputs)

    def _take_outputs(self, earlier: Self, places: np.ndarray, outputs: np.ndarray) -> None:
        """A tree begins anew, since it has other nodes."""
        width = self.config.dimensions
        if self.config.loss != "hs" and earlier.config.loss != "hs":
            outputs[places, :width] = earlier.output

    # ---- what it learnt

    @property
    def parameters(self) -> int:
        return self.input.size + self.output.size if self.fitted else 0

    def array_specs(self, length: Length) -> dict[str, Spec]:
        specs, size = super().array_specs(length), length("offsets") - 1
        nodes = max(size - 1, 1) if self.config.loss == "hs" else size
        return specs | {"output": Spec("float32", (nodes, self.config.dimensions))}
