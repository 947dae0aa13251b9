"""charngram: word vectors from spelling alone (Hashimoto et al. 2017, "A Joint Many-Task Model").

A word is nothing but its character n-grams, so words that are spelled alike have vectors alike,
however rare they are, and every word has one. The n-grams learn by the windows of word2vec. How
they become one vector is a choice: their sum; their mean; a mean in which n-grams that few words
have count more, by log(1 + words / words with it); or a mean in which each n-gram has learnt how
much it counts (attention: the softmax of one number for each n-gram).
"""

from __future__ import annotations

from seqloom.contracts.word_vectors import Embedder
from seqloom.models.word_vectors.configs import CharNgramConfig
from seqloom.models.word_vectors.fasttext import SHAPES, NgramRows
from seqloom.models.word_vectors.trained import TrainedVectors


class CharNgram(TrainedVectors, Embedder):
    name = "charngram"
    config_class = CharNgramConfig
    fixed_options = (*SHAPES, "aggregate")

    def _new_layout(self) -> NgramRows:
        return NgramRows(self.config, own=False, aggregate=self.config.aggregate, marks_alone=True)
