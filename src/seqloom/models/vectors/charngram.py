"""charngram: word vectors from spelling alone (Hashimoto et al. 2017, "A Joint Many-Task Model").

A word is nothing but its character n-grams, so words that are spelled alike have vectors alike, however rare they are, and
every word has one. The n-grams learn by the windows of word2vec. How they become one vector is a choice: their sum; their
mean; a mean in which n-grams that few words have count more, by log(1 + words / words with it); or a mean in which each
n-gram has learnt how much it counts (attention: the softmax of one number for each n-gram).
"""

from __future__ import annotations

import numpy as np

from seqloom.errors import ConfigError
from seqloom.models.vectors.configs import CharNgramConfig
from seqloom.models.vectors.fasttext import FastText
from seqloom.models.vectors.windows import NO_WEIGHTS, Bags
from seqloom.models.vectors.words import Words


class CharNgram(FastText):
    name = "charngram"
    config_class = CharNgramConfig
    own_rows = False
    marks_alone = True
    fixed_options = (*FastText.fixed_options, "aggregate")

    @property
    def _aggregate(self) -> str:
        return self.config.aggregate

    def _bags(self, words: Words) -> tuple[Bags, np.ndarray]:
        bags, buckets = super()._bags(words)
        if not len(buckets):
            raise ConfigError(f"no word has an n-gram of {self.config.min_ngram} characters or more; lower min_ngram "
                              "(--min-ngram)")
        return bags, buckets

    def _first_weights(self, rows: np.ndarray, n_words: int, n_buckets: int) -> np.ndarray:
        if self._aggregate == "attention":
            return np.zeros(n_buckets, np.float32)
        if self._aggregate == "weighted":
            seen = np.bincount(rows, minlength=n_buckets)
            return np.log(np.log1p(n_words / np.maximum(seen, 1))).astype(np.float32)
        return NO_WEIGHTS
