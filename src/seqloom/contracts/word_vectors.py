"""A vector for every word.

An embedder writes `vectors`: its words and their matrix as a WordVectors. One that can also make
vectors for words that it never saw, such as fastText, writes `unseen` too. From these come
`nearest`, `analogy`, `similarity`, `doesnt_match`, `embed` and `evaluate`. `str` in, one answer
out; a list in, a list out. Nearness is cosine throughout.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args, overload

import numpy as np

from seqloom.arrays import MAX_WEIGHT
from seqloom.contracts.base import Model
from seqloom.contracts.fitting import FitOptions, data_record
from seqloom.contracts.nearness import Neighbours, cosines_of_pairs, least_alike, nearest_texts
from seqloom.contracts.transforming import TextTransformer
from seqloom.data.corpus import Corpus, as_corpus
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.metrics import word_vectors as measures
from seqloom.metrics.result import Result, Signature
from seqloom.text.vocabulary import SPLITTERS, split

if TYPE_CHECKING:
    from seqloom.contracts.fitting import Train
    from seqloom.models.word_vectors.word_vectors import WordVectors
    from seqloom.storage import Saved

Unknown = Literal["refuse", "skip", "mean"]
# What `nearest` looks through: the first so many words, these texts, or all words.
Among = int | Iterable[str] | None


class Embedder(TextTransformer, Model):
    """Words as vectors; related words have similar vectors."""

    task: ClassVar[str] = "word vectors"
    public_names = "tokenizer vectors embed nearest analogy similarity doesnt_match knows evaluate"

    # ---- what a model writes

    @property
    @abstractmethod
    def vectors(self) -> WordVectors:
        """Return its words and their vectors."""

    def unseen(self, words: list[str]) -> np.ndarray | None:
        """Return vectors (n, D) of out-of-vocabulary words; None: the model has none for them."""
        return None

    def fit_corpus(self, corpus: Corpus, options: FitOptions) -> None:
        """Learn from text."""
        raise ConfigError(f"{self.name} models do not learn from text")

    # ---- fitting

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
        """Learn. `data`: a Corpus, a Path, the text itself, or a list, generator or column of units, which
        are texts or lists of words.

        `start`: of a network, a saved model of the same kind whose weights training starts from; word vectors
        have an option of that name.
        """
        fit_corpus(
            self,
            as_corpus(data),
            self.fit_options(memory, train, device, run, valid, start, training=training),
        )
        return self

    @property
    def parameters(self) -> int:
        return int(self.vectors.matrix.size) if self.fitted else 0

    def summary(self) -> str:
        size, width = self.vectors.matrix.shape
        return f"{size:,} words, {width} dimensions"

    @classmethod
    def restore(cls, saved: Saved) -> Self:
        for tokenizer in saved.tokenizers.values():
            if tokenizer.kind not in SPLITTERS:
                raise ModelError(
                    f"its tokenizer is of kind {tokenizer.kind!r}, which makes no words: the file is damaged"
                )
        return super().restore(saved)

    # ---- vectors of words and texts

    def _spelled(self, words: Sequence[str]) -> list[str]:
        """Return words of the list as they are, others normalized like the text: a lower-case model
        knows King too.
        """
        normalize = self.tokenizer.normalizer if self.tokenizers else None
        if normalize is None:
            return list(words)
        return [
            word if index >= 0 else normalize(word) or word
            for word, index in zip(words, self.vectors.words.find(words).tolist())
        ]

    def _parts(self, text: str) -> list[str]:
        """Split a text that is spelled already into words, as the tokenizer of the model does."""
        kind = self.tokenizer.kind if self.tokenizers else "whitespace"
        return text.split() if kind == "whitespace" else split(text, kind)

    def made_of(self, texts: Sequence[str]) -> list[list[str]]:
        """Return each text as the model spells it, and its words, which are excluded from answers
        about it.
        """
        return [[text, *self._parts(text)] for text in self._spelled(texts)]

    def knows(self, word: str) -> bool:
        """Return whether there is a vector for this word."""
        (word,) = self._spelled([word])
        return word in self.vectors.words or self.unseen([word]) is not None

    def rows(self, words: Sequence[str]) -> np.ndarray:
        """Return the vector of each word, float32 (n, D); a word without one is an error that names
        its neighbours.
        """
        self.check_fitted()
        return self._rows(self._spelled(words))

    def _rows(self, words: list[str]) -> np.ndarray:
        table = self.vectors
        indices = table.words.find(words)
        rows = table.matrix[np.maximum(indices, 0)]  # (n, D)
        missing = np.flatnonzero(indices < 0)
        if len(missing):
            composed = self.unseen([words[i] for i in missing.tolist()])
            if composed is None:
                raise unknown_word(words[int(missing[0])], table)
            rows[missing] = composed
        return checked(rows)

    def __getitem__(self, word: str | Sequence[str]) -> np.ndarray:
        """Return the vector (D,) of a word, or (n, D) of a list."""
        return self.rows([word])[0] if isinstance(word, str) else self.rows(word)

    def __contains__(self, word: object) -> bool:
        return word in self.vectors.words

    def embed(self, text: str | Sequence[str], *, unknown: Unknown = "refuse") -> np.ndarray:
        """Return the vector (D,) of a word, or of a phrase as the mean of its words; (n, D) for a
        list.

        `unknown`: what a word without a vector is: an error, left out of its phrase (zeros where
        nothing is left), or the mean of all vectors.
        """
        self.check_fitted()
        if unknown not in (choices := get_args(Unknown)):
            raise ConfigError(f"unknown must be one of {', '.join(choices)}; got {unknown!r}")
        if isinstance(text, str):
            index = self.vectors.words.place(self._spelled([text])[0])
            return (
                checked(self.vectors.matrix[index].copy())
                if index >= 0
                else self.embed([text], unknown=unknown)[0]
            )
        table, texts = self.vectors, self._spelled(text)
        phrases = [
            [t] if k >= 0 else self._parts(t) or [t]
            for t, k in zip(texts, table.words.find(texts).tolist())
        ]
        words = [word for phrase in phrases for word in phrase]
        if unknown == "refuse":
            try:
                flat = self._rows(words)
            except DataError as error:
                raise DataError(
                    f"{error}; unknown='skip' or unknown='mean' goes on without it"
                ) from None
        else:
            known = [
                k >= 0 or self.unseen([word]) is not None
                for word, k in zip(words, table.words.find(words).tolist())
            ]
            flat = np.full(
                (len(words), table.matrix.shape[1]),
                table.mean if unknown == "mean" else 0,
                np.float32,
            )
            flat[known] = self._rows([word for word, is_known in zip(words, known) if is_known])
            if unknown == "skip":
                flags = iter(known)
                phrases = [[word for word in phrase if next(flags)] for phrase in phrases]
                flat = flat[known]
        sums = np.zeros((len(phrases), table.matrix.shape[1]), np.float32)
        owners = np.repeat(np.arange(len(phrases)), [len(phrase) for phrase in phrases])
        np.add.at(sums, owners, flat)
        counts = np.maximum(np.bincount(owners, minlength=len(phrases)), 1)[:, None]
        return sums / counts.astype(np.float32)

    def text_vectors(self, texts: list[str]) -> np.ndarray:
        return self.embed(texts, unknown="skip")

    # ---- the verbs

    @overload
    def nearest(
        self, query: str, k: int = 10, *, among: Among = None, approximate: bool = False
    ) -> Neighbours: ...
    @overload
    def nearest(
        self, query: list[str], k: int = 10, *, among: Among = None, approximate: bool = False
    ) -> list[Neighbours]: ...
    @overload
    def nearest(
        self, query: np.ndarray, k: int = 10, *, among: Among = None, approximate: bool = False
    ) -> Any: ...
    def nearest(
        self,
        query: str | list[str] | np.ndarray,
        k: int = 10,
        *,
        among: Among = None,
        approximate: bool = False,
    ) -> Any:
        """Find the k words nearest to a word, a phrase or a vector (D,), excluding the query words.

        A list of words or an array (n, D) is answered together, which is several times faster.
        `among`: only the first so many words count; files and trained models have the frequent ones
        first. Or the words and phrases themselves, any number of them; the query may be
        one.

        `approximate`: walk a graph of neighbours instead of looking at every word (`pip install
        'seqloom[approximate]'`). It is built at the first call and stays in memory. It finds 98 of
        100 neighbours, and pays late: among 60,000 words of 50 dimensions exact search is faster;
        among 400,000 the graph takes minutes to build and is then two to four times as fast one by
        one, no faster for a list. It is for millions of words and many single questions.
        """
        self.check_fitted()
        if among is not None and not isinstance(among, int):
            return nearest_texts(self.embed, query, k, among)
        if isinstance(query, str) and not approximate:
            (word,) = self._spelled([query])
            index = self.vectors.words.place(word) if self._parts(word) == [word] else -1
            if index >= 0:
                return self.vectors.search_from(index, k, among)
        if isinstance(query, np.ndarray):
            vectors, single = np.atleast_2d(query), query.ndim == 1
            excluded: list[list[str]] = [[] for _ in vectors]
        else:
            single = isinstance(query, str)
            texts = [query] if isinstance(query, str) else list(query)
            vectors, excluded = np.atleast_2d(self.embed(query)), self.made_of(texts)
            for i in np.flatnonzero(~vectors.any(axis=1)).tolist():
                if (self.vectors.words.find(excluded[i]) < 0).all():
                    raise DataError(
                        f"{texts[i]!r} has no neighbours: it shares no n-gram with any known word"
                    )
        neighbours = self.vectors.search(vectors, k, excluded, among, approximate)
        return neighbours[0] if single else neighbours

    @overload
    def analogy(
        self,
        a: str,
        b: str,
        c: str,
        k: int = 10,
        *,
        method: Literal["add", "mul"] = "add",
        among: int | None = None,
        approximate: bool = False,
    ) -> Neighbours: ...
    @overload
    def analogy(
        self,
        a: list[str],
        b: list[str],
        c: list[str],
        k: int = 10,
        *,
        method: Literal["add", "mul"] = "add",
        among: int | None = None,
        approximate: bool = False,
    ) -> list[Neighbours]: ...
    def analogy(
        self,
        a: str | list[str],
        b: str | list[str],
        c: str | list[str],
        k: int = 10,
        *,
        method: Literal["add", "mul"] = "add",
        among: int | None = None,
        approximate: bool = False,
    ) -> Any:
        """Find the words that are to c as b is to a. The three words (or phrases) are never the
        answer.

        `add` (Mikolov et al. 2013): nearest to b - a + c, each of length one. `mul` (Levy and
        Goldberg 2014): the largest cos(b) cos(c) / cos(a), so that one large cosine cannot decide
        alone. `approximate`: as of `nearest`; for `add` only.
        """
        if isinstance(a, str) or isinstance(b, str) or isinstance(c, str):
            if not (isinstance(a, str) and isinstance(b, str) and isinstance(c, str)):
                raise ConfigError("an analogy takes three words or three lists of equal length")
            return self.analogy(
                [a], [b], [c], k, method=method, among=among, approximate=approximate
            )[0]
        if not len(a) == len(b) == len(c):
            raise ConfigError(
                f"an analogy takes three lists of equal length; these have {len(a)}, {len(b)} and {len(c)}"
            )
        if method not in ("add", "mul"):
            raise ConfigError(f"method must be one of add, mul; got {method!r}")
        if approximate and method == "mul":
            raise ConfigError(
                "approximate search does not support the method mul; use add, or leave approximate out"
            )
        three = self.embed([*a, *b, *c]).reshape(3, len(a), -1)  # (3, n, D)
        three = three / np.maximum(np.linalg.norm(three, axis=2, keepdims=True), 1e-30)
        excluded = [
            [word for words in self.made_of(texts) for word in words] for texts in zip(a, b, c)
        ]
        if method == "mul":
            return self.vectors.search_products(three, k, excluded, among)
        return self.vectors.search(three[1] - three[0] + three[2], k, excluded, among, approximate)

    @overload
    def similarity(self, a: str, b: str) -> float: ...
    @overload
    def similarity(self, a: list[str], b: list[str]) -> np.ndarray: ...
    def similarity(self, a: str | list[str], b: str | list[str]) -> float | np.ndarray:
        """Return the cosine of two words or phrases; of two lists pair by pair, float64 (n,)."""
        return cosines_of_pairs(self.embed, a, b)

    def doesnt_match(self, words: list[str] | str) -> str:
        """Return the word that is least like the mean of all of them."""
        return least_alike(self.embed, words)

    def evaluate(
        self, data: Any, *, among: int | None = 30_000, method: Literal["add", "mul"] = "add"
    ) -> Result:
        """Compute accuracy on analogies, by section, or rank correlation with human similarity scores
        (Spearman).

        `data`: a file, or Questions of `metrics.word_vectors`; the form of its lines says which of
        the two it holds. Analogies are answered among the first `among` words; similarities use all.
        """
        self.check_fitted()
        questions = measures.as_questions(data)
        if questions.kind == "similarity":
            metrics, details, notes = measures.evaluate_pairs(
                questions, self._known_spelling, self.similarity
            )
            return Result(metrics, self.signature(questions.fingerprint), notes, details)
        metrics, details, notes = measures.evaluate_analogies(
            questions, *self._asking(among, method)
        )
        return Result(
            metrics,
            self.signature(questions.fingerprint, among=among, method=method),
            notes,
            details,
        )

    def outcomes(
        self, data: Any, *, among: int | None = 30_000, method: Literal["add", "mul"] = "add"
    ) -> np.ndarray:
        """Return the result of each question: 1 for a right analogy and 0 for a wrong one, or the
        cosine of a pair; NaN where a word has no vector.
        """
        self.check_fitted()
        questions = measures.as_questions(data)
        if questions.kind == "similarity":
            return measures.pair_cosines(questions, self._known_spelling, self.similarity)
        return measures.analogy_outcomes(questions, *self._asking(among, method))

    def _known_spelling(self, word: str) -> str | None:
        return word if self.knows(word) else None

    def _asking(
        self, among: int | None, method: Literal["add", "mul"]
    ) -> tuple[measures.Spell, measures.Answer]:
        """Return functions that spell words and answer analogies among the first words."""
        words, limit = self.vectors.words, len(self.vectors.words) if among is None else among
        return (
            lambda w: form if 0 <= words.find([form := self._spelled([w])[0]])[0] < limit else None,
            lambda a, b, c: [
                best[0][0] if best else ""
                for best in self.analogy(a, b, c, 1, method=method, among=among)
            ],
        )

    def signature(self, data: str | None = None, **extras: Any) -> Signature:
        """Return everything that the model's results depend on."""
        return make_signature(self, data, extras)


def fit_corpus(model: Any, corpus: Corpus, options: FitOptions) -> None:
    """Let an embedder of words or texts learn, and note what from."""
    with model.learning(options):
        model.fit_corpus(corpus, options)
        # The record comes from the reading of the text.
        model.fit_info = {**data_record(corpus), **model.fit_info}


def make_signature(model: Model, data: str | None, extras: dict[str, Any]) -> Signature:
    """Return everything that the results of an embedder depend on."""
    return Signature(
        model=model.label(),
        tokenizer=model.tokenizer_label(),
        data=data[:8] if data else None,
        extras={**model.training_extras(), **extras},
    )


def checked(vectors: np.ndarray) -> np.ndarray:
    """Check that the vectors are finite and return them: a large file is not read through when it
    is opened.
    """
    if not (np.abs(vectors) <= MAX_WEIGHT).all():
        raise ModelError(
            "a vector has a value that is not a number or is far too large: the model is damaged; "
            "get it again"
        )
    return vectors


def unknown_word(word: str, table: WordVectors) -> DataError:
    """Return the error for a word that is not there."""
    near = table.words.near(word)
    return DataError(
        f"no vector for {word!r}"
        + (
            f"; did you mean {' or '.join(map(repr, near))}?"
            if near
            else f"; there are {len(table.words):,} words"
        )
    )
