"""word2vec: a word is known by the company it keeps (Mikolov et al. 2013, "Efficient Estimation of Word Representations" and
"Distributed Representations of Words and Phrases").

Skip-gram: every neighbour predicts the word in the middle (which is the same as the middle predicting its neighbours, over
the whole text, and the way the authors' program does it). CBOW: the mean of the neighbours predicts it. What the noise words
are is decided once for a window, not for each pair, so that the arithmetic is small matrix products.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from seqloom import storage
from seqloom.config import Config
from seqloom.contracts.base import Fitting
from seqloom.contracts.embedder import Embedder
from seqloom.data.corpus import Corpus, as_corpus
from seqloom.errors import ConfigError, ModelError
from seqloom.models.vectors.configs import Word2VecConfig
from seqloom.models.vectors.matrices import combined
from seqloom.models.vectors.reading import read_words
from seqloom.models.vectors.windows import KINDS, NO_WEIGHTS, Bags, output_rows, random_rows, train_windows
from seqloom.models.vectors.word_vectors import WordVectors
from seqloom.models.vectors.words import Words


class Word2Vec(Embedder):
    name = "word2vec"
    config_class: ClassVar[type[Config]] = Word2VecConfig
    resumable = True
    own_rows: ClassVar[bool] = True  # every word has a row of `input`
    words: Words
    counts: np.ndarray  # int64 (V,)
    input: np.ndarray  # float32 (V, D); fastText: more rows, for n-grams
    output: np.ndarray  # float32 (V, D), or (V - 1, D) for the nodes of a tree

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._vectors: WordVectors | None = None

    def label(self) -> str:
        kind = "sg" if self.config.architecture == "skip-gram" else "cbow"
        return f"{self.name}-{kind}-{self.config.loss}{self.config.dimensions}"

    # ---- learning

    def fit_corpus(self, corpus: Corpus, how: Fitting) -> None:
        self._learn(corpus, how, self._earlier())

    def partial_fit(self, data: Any, *, memory: int | str | None = None, run: str | Path | None = None) -> Self:
        """Learn further from new text: known words go on from where they are, new ones are added, none is forgotten.

        Broken off, the model stays what it was.
        """
        corpus = as_corpus(data)
        before = self.fit_info
        self.fit_info = {"data": corpus.name, "data_hash": corpus.fingerprint[:16], "bytes": corpus.n_bytes}
        try:
            self._learn(corpus, self.told(memory, None, None, run), self if before else self._earlier(), before)
        except BaseException:
            self.fit_info = before
            raise
        return self

    def _earlier(self) -> Self | None:
        """The saved model that this one begins from."""
        if self.config.start is None:
            return None
        found = storage.load(self.config.start)
        if type(found) is not type(self):
            raise ConfigError(f"start must be a saved {self.name} model; {self.config.start} is {found.name}")
        return found

    def _learn(self, corpus: Corpus, how: Fitting, earlier: Self | None, told: dict[str, Any] | None = None) -> None:
        c = self.config
        tokenizer = self._make_tokenizer(corpus)
        if earlier is not None:
            self._check_like(earlier)
            tokenizer = tokenizer.extended([earlier.words.spelling(i) for i in range(len(earlier.words))])
        stream = read_words(corpus, tokenizer, c.unit, how.memory)
        words, counts = stream.words, stream.counts
        bags, buckets = self._bags(words)
        inputs = random_rows(len(words) * self.own_rows + len(buckets), c.dimensions, c.seed)
        outputs = output_rows(c, len(words))
        if earlier is not None:
            places = words.find(earlier.words[:])
            counts = counts.copy()
            counts[places] += earlier.counts
            self._take_over(earlier, places, bags, buckets, inputs, outputs)
        facts = {"model": self.name, "config": c.to_dict(), "data": self.fit_info["data_hash"], "words": len(words),
                 "start": (told or earlier.fit_info)["data_hash"] if earlier is not None else None}
        losses = train_windows(stream, bags, inputs, outputs, counts, c, run=how.run, facts=facts)
        self.tokenizer, self.words, self.counts, self._vectors = tokenizer, words, counts, None
        self.input, self.output = inputs[:, :c.dimensions].copy(), outputs[:, :c.dimensions].copy()
        self._finish(bags, buckets)
        self.fit_info |= {"words": len(words), "tokens": stream.n_words, "dimensions": c.dimensions, "losses": losses}
        if earlier is not None:
            self.fit_info["start"] = facts["start"]

    def _bags(self, words: Words) -> tuple[Bags, np.ndarray]:
        """The rows of each word, and which n-grams have rows too."""
        size, own = len(words), KINDS.index("own")
        return Bags(np.arange(1, size + 1), np.arange(size, dtype=np.int32), 1, own, NO_WEIGHTS), np.zeros(0, np.int64)

    def _finish(self, bags: Bags, buckets: np.ndarray) -> None:
        """What else there is to make of the rows that were learnt."""

    def _check_like(self, earlier: Self) -> None:
        """Refuse to go on from what has another shape."""
        self._check_same(earlier, ("dimensions", "tokenizer", "normalize"))

    def _check_same(self, earlier: Self, names: tuple[str, ...]) -> None:
        mine, other = self.config, earlier.config
        for name in names:
            if getattr(mine, name) != getattr(other, name):
                raise ConfigError(f"{name} is {getattr(mine, name)}, but the model to go on from has {getattr(other, name)}; "
                                  "give the same")

    def _take_over(self, earlier: Self, places: np.ndarray, bags: Bags, buckets: np.ndarray, inputs: np.ndarray,
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

    def _matrix(self) -> np.ndarray:
        return combined(self.config.vectors, self.input, self.output)

    @property
    def vectors(self) -> WordVectors:
        self.check_fitted()
        if self._vectors is None:
            self._vectors = WordVectors.of(self.words, self._matrix(), self.counts, source=self.fit_info["data"])
        return self._vectors

    @property
    def parameters(self) -> int:
        return self.input.size + self.output.size if self.fit_info else 0

    def arrays(self) -> dict[str, np.ndarray]:
        return {**self.words.arrays(), "counts": self.counts, "input": self.input, "output": self.output}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.words, self.counts = Words.restore(arrays), arrays["counts"]
        self.input, self.output = arrays["input"], arrays["output"]
        size, width = len(self.words), self.config.dimensions
        nodes = max(size - 1, 1) if self.config.loss == "hs" else size
        good = self.counts.shape == (size,) and self.output.shape == (nodes, width)
        good = good and self.input.ndim == 2 and self.input.shape[1] == width
        if not (good and self.input.dtype == self.output.dtype == np.float32):
            raise ModelError("the tables of its vectors contradict each other; save the model again")
