"""Which vectors are nearest to a query, approximately: a graph of neighbours instead of a look at every row.

Hierarchical navigable small worlds (Malkov and Yashunin 2018), by usearch: every row is joined with rows near it, and a
search walks from row to row towards the query. What it finds gets its cosine from the matrix, so the numbers are those of
the exact search; what it may do is miss a neighbour. A query for which it finds too few is answered exactly. The rows are
not copied; the links take about 300 bytes a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, MissingExtra
from seqloom.models.vectors.search import BATCH, Index, unit_rows

LINKS = 16  # of a row to others, M of the paper; twice as many on the ground
WIDE_BUILD = 128  # candidates kept while a row is joined, efConstruction of the paper
WIDE_SEARCH = 128  # candidates kept while searching, ef of the paper
STEP = 1024  # rows that are joined between two signs of life
SMALL_PART = 8  # of fewer than one row in so many, exact search is the faster one


class Graph:
    """Approximately nearest rows of a matrix; asked as the exact Index is, which it also needs."""

    def __init__(self, exact: Index, threads: int = 1) -> None:
        if threads < 1:
            raise ConfigError(f"threads must be at least 1; got {threads}")
        try:
            from usearch.index import Index as Links
        except ImportError:
            raise MissingExtra(
                "approximate search needs usearch; install it: pip install 'seqloom[approximate]', or search "
                "exactly, which is the default"
            ) from None
        self.exact = exact  # keeps the matrix alive, of which usearch has the addresses
        matrix = exact.matrix
        self._links = Links(
            ndim=matrix.shape[1],
            metric="cos",
            dtype="f32",
            connectivity=LINKS,
            expansion_add=WIDE_BUILD,
            expansion_search=WIDE_SEARCH,
            enable_key_lookups=False,
        )
        with progress.task("joining neighbours", total=len(matrix), unit="words") as bar:
            for low, high in _runs(
                exact.inverse > 0
            ):  # a row of zeros is nobody's neighbour, and would be a dead end
                for start in range(low, high, STEP):
                    rows = np.arange(start, min(start + STEP, high), dtype=np.uint64)
                    self._links.add(
                        rows, matrix[start : start + len(rows)], copy=False, threads=threads
                    )
                    bar.advance(len(rows))

    def nearest(
        self, queries: np.ndarray, k: int, among: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows and cosines (n, k) as of Index.nearest, of which a few may be missed for the next best."""
        size = len(self.exact.matrix)
        limit = size if among is None else min(among, size)
        if limit * SMALL_PART < size or not len(self._links):
            return self.exact.nearest(queries, k, among)
        queries, k = unit_rows(queries), min(k, limit)
        rows, scores = (
            np.empty((len(queries), k), np.int64),
            np.empty((len(queries), k), np.float32),
        )
        for low in range(0, len(queries), BATCH):
            part = slice(low, low + BATCH)
            rows[part], scores[part] = self._search(queries[part], k, limit)
        short = ~np.isfinite(scores).all(axis=1) | ~queries.any(
            axis=1
        )  # too few were found, or there is no direction
        if short.any():
            rows[short], scores[short] = self.exact.nearest(queries[short], k, among)
        return rows, scores

    def _search(self, queries: np.ndarray, k: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best of what the graph offers below `limit`; row V and a cosine of -inf where it offers fewer."""
        from seqloom.kernels.parallel import thread_count

        size = len(self.exact.matrix)
        offered = (
            k if limit == size else 2 * -(-k * size // limit)
        )  # twice what the part would hold by its share
        matches: Any = self._links.search(queries, min(offered, size), threads=thread_count())
        keys = np.atleast_2d(
            matches.keys
        )  # for a single query it gives one row, cut to what it found
        counts = matches.counts if len(queries) > 1 else np.array([matches.keys.size])
        there = np.arange(keys.shape[1]) < counts[:, None]
        rows = np.full((len(queries), max(keys.shape[1], k)), size, np.int64)
        rows[:, : keys.shape[1]][there] = keys[there]
        rows[rows >= limit] = size
        near = np.minimum(rows, size - 1)
        scores = (
            np.matmul(self.exact.matrix[near], queries[:, :, None])[:, :, 0]
            * self.exact.inverse[near]
        )  # (n, offered)
        scores[rows == size] = -np.inf
        order = np.lexsort((rows, -scores), axis=1)[:, :k]
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def _runs(kept: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and last but one of every stretch of kept rows."""
    edges = np.flatnonzero(np.diff(kept, prepend=False, append=False))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist())
