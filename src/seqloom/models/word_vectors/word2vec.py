"""word2vec: a word is known by the company it keeps (Mikolov et al. 2013, "Efficient Estimation of
Word Representations" and "Distributed Representations of Words and Phrases").

Skip-gram: every neighbour predicts the word in the middle (which is the same as the middle
predicting its neighbours, over the whole text, and the way the authors' program does it). CBOW: the
mean of the neighbours predicts it. What the noise words are is decided once for a window, not for
each pair, so that the arithmetic is small matrix products.
"""

from __future__ import annotations

from seqloom.contracts.word_vectors import Embedder
from seqloom.models.word_vectors.configs import Word2VecConfig
from seqloom.models.word_vectors.trained import TrainedVectors


class Word2Vec(TrainedVectors, Embedder):
    name = "word2vec"
    config_class = Word2VecConfig
