"""Finished words and vectors: the result of every static embedder, and of reading files of vectors.

WordVectors.of(words, matrix)          from Python
seqloom.load(directory)                our format, memory-mapped, so that any size opens at once
interop.vectors.read_vectors(path)     word2vec, GloVe and fastText files
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from seqloom import progress
from seqloom.arrays import Length, Spec
from seqloom.contracts.nearness import Neighbours
from seqloom.contracts.saving import Kind, positive
from seqloom.contracts.word_vectors import Embedder, unknown_word
from seqloom.errors import ConfigError, DataError, MissingExtra
from seqloom.models.word_vectors.configs import WordVectorsConfig
from seqloom.models.word_vectors.search import Graph, Index, unit_rows
from seqloom.models.word_vectors.words import Words
from seqloom.text.vocabulary import spelling_specs

if TYPE_CHECKING:
    from seqloom.contracts.fitting import Train

EPSILON = 0.001  # keeps the denominator of 3CosMul above zero; the value of its authors


class WordVectors(Embedder):
    name = "vectors"
    learns_text = False
    public_names = "of words matrix counts dimensions subset clusters index"
    config_class = WordVectorsConfig
    learnt_values: ClassVar[dict[str, Kind]] = {"dimensions": positive}
    words: Words
    matrix: np.ndarray  # float32 (V, D)
    counts: np.ndarray | None  # occurrences of each word, if known

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._index: Index | None = None
        self._graph: Graph | None = None
        self._mean: np.ndarray | None = None
        # Makes vectors of other words, if the file has n-grams; not saved.
        self.maker: Callable[[list[str]], np.ndarray] | None = None

    # ---- making

    @classmethod
    def of(
        cls, words: Iterable[str], matrix: Any, counts: Any = None, *, source: str = "memory"
    ) -> WordVectors:
        """Return word vectors of distinct words and a matrix (V, D)."""
        try:
            rows = np.asarray(matrix)
        except ValueError:
            raise DataError(
                "vectors are a matrix: one row a word, all of the same length"
            ) from None
        if rows.ndim != 2:
            raise DataError(
                f"vectors are a matrix of one row a word; got {rows.ndim} dimensions, shape {rows.shape}"
            )
        if not np.issubdtype(rows.dtype, np.number) or np.iscomplexobj(rows):
            raise DataError(f"vectors are real numbers; got {rows.dtype}")
        table = words if isinstance(words, Words) else Words.of(words)
        with np.errstate(over="ignore"):  # what overflows is refused below
            rows = np.ascontiguousarray(rows, np.float32)
        vectors = cls()._take(table, rows, None if counts is None else np.asarray(counts, np.int64))
        vectors.index()  # refuses what is not finite
        vectors.learnt, vectors.fitted = {"dimensions": rows.shape[1]}, True
        vectors.fit_info = {"data": source, "data_hash": vectors._digest(), "words": len(table)}
        return vectors

    def _take(self, words: Words, matrix: np.ndarray, counts: np.ndarray | None) -> Self:
        if len(words) != len(matrix):
            raise DataError(
                f"{len(words):,} words and {len(matrix):,} vectors: there must be one vector for each word"
            )
        if not matrix.size:
            raise DataError(
                f"there are no vectors: {len(words):,} words of {matrix.shape[1]} dimensions"
            )
        if counts is not None and counts.shape != (len(words),):
            raise DataError(
                f"{len(words):,} words and {counts.size:,} counts: there must be one count for each word"
            )
        self.words, self.matrix, self.counts = words, matrix, counts
        self._index, self._graph, self._mean = None, None, None
        return self

    def _digest(self) -> str:
        """Return the hash that names these vectors in a signature."""
        digest = hashlib.sha256()
        for array in (self.words.arena, self.words.offsets, self.matrix):
            digest.update(array.data)
        return digest.hexdigest()[:16]

    def fit(
        self,
        data: Any,
        *,
        valid: Any = None,
        memory: int | str | None = None,
        train: Train = None,
        device: str | None = None,
        run: str | Path | None = None,
        start: Any = None,
        **training: Any,
    ) -> Self:
        """Take finished vectors: a pair (words, matrix)."""
        self.fit_options(memory, train, device, run, valid, start, training)
        if not isinstance(data, tuple) or len(data) != 2:
            raise ConfigError(
                "finished vectors are made from a pair (words, matrix); fit word2vec, glove or "
                "fasttext to learn "
                "vectors from text, or read a file of vectors with seqloom.interop.vectors.read_vectors"
            )
        vectors = WordVectors.of(*data)
        self.learnt, self.fit_info, self.fitted = vectors.learnt, vectors.fit_info, True
        return self._take(vectors.words, vectors.matrix, vectors.counts)

    # ---- what it is

    @property
    def vectors(self) -> WordVectors:
        return self

    def unseen(self, words: list[str]) -> np.ndarray | None:
        return None if self.maker is None else self.maker(words)

    @property
    def dimensions(self) -> int:
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    @property
    def mean(self) -> np.ndarray:
        """Return the mean of all vectors (D,): a guess for words that have none."""
        if self._mean is None:
            self._mean = self.matrix.mean(axis=0, dtype=np.float64).astype(np.float32)
        return self._mean

    def index(self) -> Index:
        """Return the index for exact search, made when it is first needed."""
        if self._index is None:
            try:
                self._index = Index(self.matrix)
            except DataError:
                with np.errstate(over="ignore", invalid="ignore"):
                    bad = int(np.flatnonzero(~np.isfinite(np.square(self.matrix).sum(axis=1)))[0])
                problem = (
                    "is too long"
                    if np.isfinite(self.matrix[bad]).all()
                    else "has a value that is not a finite number"
                )
                raise DataError(
                    f"the vector of {self.words[bad]!r} (row {bad}) {problem}; leave the word out or train "
                    "again"
                ) from None
        return self._index

    def approximate_index(self, threads: int = 1) -> Graph:
        """Return the graph for approximate search, made when it is first needed and kept in memory.

        With more `threads` it is built faster, but it and a few results differ from run to run.
        """
        if self._graph is None:
            self._graph = Graph(self.index(), threads)
        return self._graph

    # ---- searching; the verbs are those of every embedder

    def search(
        self,
        queries: np.ndarray,
        k: int,
        asked: Sequence[Sequence[str]],
        among: int | None = None,
        approximate: bool = False,
    ) -> list[Neighbours]:
        """Find the k words nearest to each vector (n, D), without those in `asked`."""
        self._check_query(queries, k, among)
        excluded = [{self.words.place(word) for word in set(words)} for words in asked]
        spare = max((len(rows) for rows in excluded), default=0)
        index = self.approximate_index() if approximate else self.index()
        nearest, scores = index.nearest(queries, k + spare, among)
        return [
            self._named(rows.tolist(), cosines.tolist(), left_out, k)
            for rows, cosines, left_out in zip(nearest, scores, excluded)
        ]

    def search_from(self, place: int, k: int, among: int | None) -> Neighbours:
        """Find the k words nearest to the one at index `place`."""
        self._check_numbers(k, among)
        return self._named(*self.index().nearest_to_row(place, k + 1, among), {place}, k)

    def search_products(
        self, three: np.ndarray, k: int, asked: Sequence[Sequence[str]], among: int | None
    ) -> list[Neighbours]:
        """Find the best words by 3CosMul for (a, b, c) as (3, n, D): with cosines mapped to 0..1, those of
        b and c multiplied, divided by that of a.
        """
        self._check_query(three.reshape(-1, three.shape[-1]), k, among)
        limit = len(self) if among is None else min(among, len(self))
        answers = []
        for a, b, c, words in zip(*three, asked):
            cosines = (self.index().cosines(np.stack([a, b, c]), limit) + 1) / 2  # (3, limit)
            scores = cosines[1] * cosines[2] / (cosines[0] + EPSILON)
            left_out = set(self.words.find(words).tolist())
            top = min(k + len(left_out), limit)
            rows = np.argpartition(-scores, top - 1)[:top]
            rows = rows[np.lexsort((rows, -scores[rows]))]
            answers.append(self._named(rows.tolist(), scores[rows].tolist(), left_out, k))
        return answers

    def _named(
        self, rows: list[int], scores: list[float], left_out: set[int], k: int
    ) -> Neighbours:
        neighbours = [(i, score) for i, score in zip(rows, scores) if i not in left_out][:k]
        return list(
            zip(self.words.named(i for i, _ in neighbours), (score for _, score in neighbours))
        )

    def _check_query(self, queries: np.ndarray, k: int, among: int | None) -> None:
        self.check_fitted()
        if queries.ndim != 2 or queries.shape[1] != self.dimensions:
            raise DataError(
                f"a query has {queries.shape[-1]} dimensions, these vectors have {self.dimensions}"
            )
        self._check_numbers(k, among)
        if not np.isfinite(queries).all():
            raise DataError("a query has a value that is not a finite number")

    def _check_numbers(self, k: int, among: int | None) -> None:
        if k < 1 or (among is not None and among < 1):
            raise ConfigError(
                f"{'k' if k < 1 else 'among'} must be at least 1; got {k if k < 1 else among}"
            )

    # ---- other things to do with them

    def subset(
        self, words: Iterable[str] | int, *, missing: Literal["refuse", "skip"] = "refuse"
    ) -> WordVectors:
        """Return a copy with these words in this order, or with the first words if a number is given."""
        self.check_fitted()
        if isinstance(words, int):
            indices = np.arange(min(words, len(self)))
        else:
            chosen = list(dict.fromkeys(words))
            indices = self.words.find(chosen)
            if missing == "refuse" and (indices < 0).any():
                raise unknown_word(chosen[int(np.argmin(indices))], self)
            indices = indices[indices >= 0]
        counts = None if self.counts is None else self.counts[indices]
        source = f"part of {self.recorded('data', 'memory')}"
        return WordVectors.of(self.words.take(indices), self.matrix[indices], counts, source=source)

    def clusters(
        self, n: int, words: Sequence[str] | int | None = None, *, seed: int = 0
    ) -> list[list[str]]:
        """Split words into n groups by k-means on unit vectors, the largest group first, in each the word
        nearest to its centre first.

        `words`: these, or the first so many; all 400,000 of a large file take a while.
        """
        try:
            from sklearn.cluster import KMeans
            from sklearn.exceptions import ConvergenceWarning
        except ImportError:
            raise MissingExtra(
                "clusters need scikit-learn; install it: pip install 'seqloom[maps]'"
            ) from None
        vectors = self if words is None else self.subset(words)
        if not 1 <= n <= len(vectors):
            raise ConfigError(
                f"n must be between 1 and the number of words, {len(vectors):,}; got {n}"
            )
        units = unit_rows(vectors.matrix)
        with warnings.catch_warnings():
            # Fewer distinct vectors than groups: there are fewer groups.
            warnings.simplefilter("ignore", ConvergenceWarning)
            kmeans = KMeans(n, n_init=3, random_state=seed).fit(units)
        distances = np.linalg.norm(units - kmeans.cluster_centers_[kmeans.labels_], axis=1)
        order = np.lexsort((distances, kmeans.labels_))
        groups = [
            g
            for g in np.split(order, np.cumsum(np.bincount(kmeans.labels_, minlength=n))[:-1])
            if len(g)
        ]
        return [
            [vectors.words[i] for i in group.tolist()]
            for group in sorted(groups, key=lambda group: (-len(group), group[0]))
        ]

    # ---- on disk

    def save(self, directory: str | Path) -> None:
        super().save(directory)
        if self.maker is not None:
            progress.say(
                f"{directory}: words alone; `seqloom convert` makes a model of a fastText file "
                f"with its n-grams"
            )

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            **self.words.arrays(),
            "matrix": self.matrix,
            **({} if self.counts is None else {"counts": self.counts}),
        }

    def array_specs(self, length: Length) -> dict[str, Spec]:
        size = length("offsets") - 1
        return {
            **spelling_specs(length),
            "matrix": Spec("float32", (size, self.learnt["dimensions"])),
            "counts": Spec("int64", (size,), low=0, optional=True),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self._take(Words.restore(arrays), arrays["matrix"], arrays.get("counts"))
