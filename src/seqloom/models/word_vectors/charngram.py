"""charngram: word vectors from spelling alone (Hashimoto et al. 2017, "A Joint Many-Task Model").

A word consists of its character n-grams only, so words with similar spellings have similar vectors,
however rare they are, and every word has one. The n-grams are learnt from windows as in word2vec.
The vector of a word is their sum; their mean; a mean with weights log(1 + words / words with the
n-gram), larger for rare n-grams; or a mean with learnt weights (attention: the softmax of one number
for each n-gram).
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
