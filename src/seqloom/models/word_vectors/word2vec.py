"""word2vec: word vectors that predict the words around them (Mikolov et al. 2013, "Efficient Estimation of
Word Representations" and "Distributed Representations of Words and Phrases").

Skip-gram: every neighbour predicts the word in the middle (over a whole text the same as the middle
predicting its neighbours, and as in the authors' program). CBOW: the mean of the neighbours predicts
it. Noise words are drawn once per window, not per pair, so that the arithmetic is small matrix
products.
"""

from __future__ import annotations

from seqloom.contracts.word_vectors import Embedder
from seqloom.models.word_vectors.configs import Word2VecConfig
from seqloom.models.word_vectors.trained import TrainedVectors


class Word2Vec(TrainedVectors, Embedder):
    name = "word2vec"
    config_class = Word2VecConfig
