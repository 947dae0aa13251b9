"""A vector for every text: sentences of similar meaning have similar vectors (Reimers and Gurevych 2019).

Such a model writes `embed_texts` instead of `vectors`: it has no list of words, and every text has
a vector. From this come `embed`, `similarity`, `nearest` among given texts, `doesnt_match` and
`evaluate` on pairs with human ratings. What needs a list of words, such as an analogy, is
refused.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self

import numpy as np

from seqloom import progress
from seqloom.contracts.base import Model
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.nearness import cosines_of_pairs, least_alike, nearest_texts, portions
from seqloom.contracts.transforming import TextTransformer
from seqloom.contracts.word_vectors import (
    Among,
    Embedder,
    Unknown,
    checked,
    fit_corpus,
    make_signature,
)
from seqloom.data.corpus import Corpus, as_corpus
from seqloom.errors import ConfigError, DataError, ModelError, quoted
from seqloom.metrics import word_vectors as measures
from seqloom.metrics.result import Result, Signature
from seqloom.metrics.sentence_vectors import as_pairs

if TYPE_CHECKING:
    from seqloom.contracts.fitting import Train
    from seqloom.models.word_vectors.word_vectors import WordVectors


@Embedder.register  # for isinstance: it has the verbs of one, and shares none of its code
class TextEmbedder(TextTransformer, Model):
    """Texts as vectors; texts of similar meaning have similar vectors."""

    task: ClassVar[str] = "sentence vectors"
    public_names = "tokenizer dimensions embed nearest similarity doesnt_match evaluate"

    # ---- what a model writes

    @abstractmethod
    def embed_texts(self, texts: list[str]) -> np.ndarray:
        """Return the vectors float32 (n, D) of a few thousand texts at most, in their order; any text
        has one, the empty one too.
        """

    @property
    def dimensions(self) -> int:
        """Return how many numbers a vector has."""
        return int(self.embed("").shape[0])

    def fit_corpus(self, corpus: Corpus, options: FitOptions) -> None:
        """Learn from text."""
        raise ConfigError(f"{self.name} models do not learn from text")

    # ---- what follows

    def fit(
        self,
        data: Any,
        *,
        valid: Any = None,
        memory: int | str | None = None,
        train: Train = None,
        device: str | None = None,
        run: str | Path | None = None,
        start: str | Path | Model | None = None,
        **training: Any,
    ) -> Self:
        """Learn. `data`: a Corpus, a Path, the text itself, or a list, generator or column of
        units, which are texts.
        """
        fit_corpus(
            self,
            as_corpus(data),
            self.fit_options(memory, train, device, run, valid, start, training=training),
        )
        return self

    def summary(self) -> str:
        return f"{self.dimensions} dimensions"

    @property
    def vectors(self) -> WordVectors:
        """Refuse: there is no list of words."""
        self._refuse_words()

    def _refuse_words(self) -> NoReturn:
        raise ConfigError(
            f"{self.name} models have vectors of texts and no list of words; embed the texts in question, or "
            "take word vectors"
        )

    def knows(self, word: str) -> bool:
        """Return True: any text has a vector."""
        return True

    def rows(self, words: Sequence[str]) -> np.ndarray:
        return self.embed(words)

    def embed(self, text: str | Sequence[str], *, unknown: Unknown = "refuse") -> np.ndarray:
        """Return the vector (D,) of a text; (n, D) for a list. `unknown` is for word vectors: any text
        has a vector here.
        """
        self.check_fitted()
        if unknown != "refuse":
            raise ConfigError(f"{self.name} models have a vector for any text; leave unknown out")
        if isinstance(text, str):
            return self._embedded([text])[0]
        if not isinstance(text, Iterable):
            raise DataError(f"expected a text or a list of texts; got {quoted(text)}")
        texts = list(text)
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        vectors: np.ndarray | None = None
        at = 0
        with progress.task("embedding", len(texts), "texts") as bar:
            for group in portions(texts):
                part = self._embedded(group)
                if vectors is None:
                    vectors = np.empty((len(texts), part.shape[1]), np.float32)
                vectors[at : at + len(group)] = part
                at += len(group)
                bar.advance(len(group))
        assert vectors is not None
        return vectors

    def text_vectors(self, texts: list[str]) -> np.ndarray:
        return self._embedded(texts)

    def _embedded(self, texts: list[str]) -> np.ndarray:
        vectors = checked(np.asarray(self.embed_texts(texts), np.float32))
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ModelError(
                f"{self.name}.embed_texts must give an array ({len(texts)}, D); its shape is {vectors.shape}"
            )
        return vectors

    def nearest(
        self, query: Any, k: int = 10, *, among: Among = None, approximate: bool = False
    ) -> Any:
        """Find the k texts of `among` nearest to a text or a vector (D,), with their cosines; for a
        list or an array (n, D) a list, which takes hardly longer: `among`, any iterable of texts,
        is read once.

        Many searches among the same texts are faster if their vectors are kept:
        `WordVectors.of(texts, model.embed(texts))` searches, saves and loads them.
        """
        self.check_fitted()
        if approximate:
            raise ConfigError("approximate search is for word vectors; leave approximate out")
        if among is None or isinstance(among, int):
            raise ConfigError(
                f"{self.name} models have no list of words to search; give among, the texts that may be the "
                "answer (among=...)"
            )
        return nearest_texts(self.embed, query, k, among)

    def analogy(
        self,
        a: Any,
        b: Any,
        c: Any,
        k: int = 10,
        *,
        method: Literal["add", "mul"] = "add",
        among: int | None = None,
        approximate: bool = False,
    ) -> Any:
        """Refuse: there is no list of words to find the answer in."""
        self._refuse_words()

    def similarity(self, a: str | list[str], b: str | list[str]) -> Any:
        """Cosine of two texts; of two lists pair by pair, float64 (n,)."""
        return cosines_of_pairs(self.embed, a, b)

    def doesnt_match(self, words: list[str] | str) -> str:
        """The text that is least like the mean of all of them."""
        return least_alike(self.embed, words)

    def evaluate(
        self, data: Any, *, among: int | None = None, method: Literal["add", "mul"] = "add"
    ) -> Result:
        """Compute the rank correlation (Spearman) of cosines with the scores that people gave to pairs
        of texts.

        `data`: a Path (tab-separated; see `metrics.sentence_vectors`) or a list of (text, text, score).
        """
        self.check_fitted()
        pairs = as_pairs(data)
        metrics, details, notes = measures.evaluate_pairs(pairs, str, self.similarity)
        return Result(metrics, self.signature(pairs.fingerprint), notes, details)

    def outcomes(
        self, data: Any, *, among: int | None = None, method: Literal["add", "mul"] = "add"
    ) -> np.ndarray:
        """Return the cosine of each pair."""
        self.check_fitted()
        return measures.pair_cosines(as_pairs(data), str, self.similarity)

    def signature(self, data: str | None = None, **extras: Any) -> Signature:
        """Return everything that the model's results depend on."""
        return make_signature(self, data, extras)
