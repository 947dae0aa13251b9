"""Search for the vectors nearest to a query by cosine: exact (`Index`), or approximate by a graph of
neighbours (`Graph`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, DataError, MissingExtra
from seqloom.kernels.parallel import chunk_bounds, thread_count

Share = Callable[[tuple[int, int]], tuple[np.ndarray, np.ndarray]]  # the best of these rows

SHARE = 1 << 14  # rows that a thread searches at least
BATCH = 256  # queries that are searched together
GROUP = 64  # queries of one matrix product
STEP = 1024  # rows, about, that are scored and sifted at a time
# Multiplications up to which OpenBLAS stays in one thread; its threads would compete with ours.
ONE_THREAD_PRODUCT = 1 << 18
MIN_BATCHED_QUERIES = 4  # fewer queries than this are faster one by one
# Numbers of a matrix up to which one product for a few queries is faster than sifting.
SMALL = 1 << 22


class Index:
    """Exact nearest rows of a matrix (V, D).

    A single query is compared with rows of eight bits first (`kernels/vector_search.py`), many by
    matrix products of blocks that stay in the cache. Besides the matrix this takes one byte for each
    of its numbers, made when first needed; the matrix is not copied, so it may be memory-mapped.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        from seqloom.kernels.vector_search import measure_rows

        self.matrix = matrix
        self.inverse = np.empty(len(matrix), np.float32)  # 1 / length, 0 for a row of zeros
        if (bad := measure_rows(matrix, self.inverse)) >= 0:
            raise DataError(f"row {bad} has a value that is not a finite number")
        self._threads: ThreadPoolExecutor | None = None
        self._process: int | None = None  # that owns the threads
        self._small: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_threads": None, "_process": None}  # copies make their own

    def nearest(
        self, queries: np.ndarray, k: int, among: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and cosines (n, k) of the k best for each query (n, D) among the first `among`
        rows, best first, ties by row.
        """
        limit = len(self.matrix) if among is None else min(among, len(self.matrix))
        k = min(k, limit)
        queries = unit_rows(queries)
        rows, scores = (
            np.empty((len(queries), k), np.int64),
            np.empty((len(queries), k), np.float32),
        )
        for batch in _batches(len(queries)) if k else ():
            rows[batch], scores[batch] = self._search(queries[batch], k, limit)
        return rows, scores

    def nearest_to_row(
        self, row: int, k: int, among: int | None = None
    ) -> tuple[list[int], list[float]]:
        """Find the nearest to one row of the matrix; written for speed, since among few rows Python takes
        as long as the product.
        """
        limit = len(self.matrix) if among is None else min(among, len(self.matrix))
        wide, k = self.matrix[row].astype(np.float64), min(k, limit)
        query = (wide / (math.sqrt(wide.dot(wide)) or 1.0)).astype(np.float32)[None]
        if limit * self.matrix.shape[1] > SMALL:
            rows, best = self._search(query, k, limit)
            return rows[0].tolist(), best[0].tolist()
        best, rows = np.full((1, k), -np.inf, np.float32), np.full((1, k), limit, np.int64)
        self._in_one_product(query, 0, limit, best, rows)
        ranked = sorted(zip((-best[0]).tolist(), rows[0].tolist()))
        return [index for _, index in ranked], [-score for score, _ in ranked]

    def _search(self, queries: np.ndarray, k: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the best of each share of the rows, and merge them."""
        if len(queries) >= MIN_BATCHED_QUERIES:
            search_rows = self._together
        elif limit * self.matrix.shape[1] <= SMALL:
            search_rows = self._in_one_product
        else:
            search_rows = self._one_by_one
            self._shrunk()  # before threads begin

        def search_share(bounds: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
            best = np.full((len(queries), k), -np.inf, np.float32)
            # Rows beyond the last, in case there are fewer than k.
            rows = np.full(best.shape, len(self.matrix), np.int64)
            search_rows(queries, *bounds, best, rows)
            return rows, best

        one_thread = limit <= SHARE or search_rows == self._in_one_product
        size = limit if one_thread else max(-(-limit // thread_count()), SHARE)
        shares = self._at_once(search_share, chunk_bounds(limit, size))
        rows, best = (
            shares[0]
            if len(shares) == 1
            else (np.concatenate(column, axis=1) for column in zip(*shares))
        )
        order = np.lexsort((rows, -best), axis=1)[:, :k]
        query = np.arange(len(queries))[:, None]
        return rows[query, order], best[query, order]

    def _at_once(
        self, share: Share, bounds: list[tuple[int, int]]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Run the first share in this thread and the others in a thread pool that is kept, since a single
        query is answered before new threads would have started.
        """
        first_bounds, *other_bounds = bounds
        # A forked child has none of its parent's threads.
        if other_bounds and self._process != os.getpid():
            self._threads, self._process = (
                ThreadPoolExecutor(max(thread_count() - 1, len(other_bounds))),
                os.getpid(),
            )
        waiting = (
            [self._threads.submit(share, bound) for bound in other_bounds]
            if self._threads is not None and other_bounds
            else []
        )
        return [share(first_bounds), *(future.result() for future in waiting)]

    def _one_by_one(
        self, queries: np.ndarray, low: int, high: int, best: np.ndarray, rows: np.ndarray
    ) -> None:
        from seqloom.kernels.vector_search import search_one

        small, scales, rests = self._shrunk()
        for query, scores, found_rows in zip(queries, best, rows):
            search_one(
                self.matrix,
                self.inverse,
                small,
                scales,
                rests,
                low,
                high,
                query,
                scores,
                found_rows,
            )

    def _in_one_product(
        self, queries: np.ndarray, low: int, high: int, best: np.ndarray, rows: np.ndarray
    ) -> None:
        from seqloom.kernels.vector_search import sift_block

        sift_block((queries @ self.matrix[low:high].T)[None, None], self.inverse, low, best, rows)

    def _together(
        self, queries: np.ndarray, low: int, high: int, best: np.ndarray, rows: np.ndarray
    ) -> None:
        from seqloom.kernels.vector_search import sift_block

        group, width = min(GROUP, len(queries)), self.matrix.shape[1]
        grouped = queries.reshape(1, -1, group, width)
        # Rows of one matrix product.
        size = max(1, min(ONE_THREAD_PRODUCT // (group * width), STEP))
        step = max(STEP // size, 1) * size
        buffer = np.empty((step // size, *grouped.shape[1:3], size), np.float32)
        for start in range(low, high, step):
            stop = min(start + step, high)
            full_end = start + (stop - start) // size * size
            for begin, end, n_rows in (
                (start, full_end, size),
                (full_end, stop, stop - full_end),
            ):
                if begin < end:
                    block = (
                        self.matrix[begin:end].reshape(-1, 1, n_rows, width).transpose(0, 1, 3, 2)
                    )
                    scores = buffer[: len(block)] if n_rows == size else None
                    sift_block(
                        np.matmul(grouped, block, out=scores), self.inverse, begin, best, rows
                    )  # (B, G, Q, R)

    def _shrunk(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from seqloom.kernels.vector_search import LANES, shrink_rows

        if self._small is None:
            size, width = self.matrix.shape
            small = np.zeros((size, -(-width // LANES) * LANES), np.int8)
            scales, rests = np.empty(size, np.float32), np.empty(size, np.float32)
            shrink_rows(self.matrix, self.inverse, small, scales, rests)
            self._small = small, scales, rests
        return self._small

    def cosines(self, queries: np.ndarray, limit: int) -> np.ndarray:
        """Compute all cosines (n, limit) of a few queries."""
        return (unit_rows(queries) @ self.matrix[:limit].T) * self.inverse[:limit]


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Return each row divided by its length, as a new float32 array; a row of zeros stays."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    return (vectors / np.where(lengths > 0, lengths, 1)[:, None]).astype(np.float32)


def _batches(n: int) -> list[slice]:
    """Split queries into batches: full groups, then the rest."""
    grouped = n // GROUP * GROUP
    return [slice(low, min(low + BATCH, grouped)) for low in range(0, grouped, BATCH)] + (
        [slice(grouped, n)] if grouped < n else []
    )


# ---- approximate

LINKS = 16  # of a row to others, M of the paper; twice as many on the lowest layer
WIDE_BUILD = 128  # candidates while a row is added, efConstruction of the paper
WIDE_SEARCH = 128  # candidates while searching, ef of the paper
SMALL_PART = 8  # among less than 1 / SMALL_PART of the rows, exact search is faster


class Graph:
    """Approximately nearest rows of a matrix, with the interface of the exact Index, which it needs.

    Hierarchical navigable small worlds (Malkov and Yashunin 2018), by usearch: every row is linked to
    rows near it, and a search walks from row to row towards the query. Cosines are computed from the
    matrix, so they are those of the exact search, but a neighbour may be missed. A query with too few
    results is answered exactly. The rows are not copied; the links take about 300 bytes per row.
    """

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
        self.exact = exact  # keeps the matrix alive, to which usearch has pointers
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
            # A row of zeros is no neighbour of any row, and would be a dead end.
            for low, high in _runs(exact.inverse > 0):
                for start in range(low, high, STEP):
                    rows = np.arange(start, min(start + STEP, high), dtype=np.uint64)
                    self._links.add(
                        rows, matrix[start : start + len(rows)], copy=False, threads=threads
                    )
                    bar.advance(len(rows))

    def nearest(
        self, queries: np.ndarray, k: int, among: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and cosines (n, k) as Index.nearest does; a few of the best may be missed."""
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
            batch = slice(low, low + BATCH)
            rows[batch], scores[batch] = self._search(queries[batch], k, limit)
        # Too few results, or a query of zeros.
        incomplete = ~np.isfinite(scores).all(axis=1) | ~queries.any(axis=1)
        if incomplete.any():
            rows[incomplete], scores[incomplete] = self.exact.nearest(queries[incomplete], k, among)
        return rows, scores

    def _search(self, queries: np.ndarray, k: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best results of the graph below `limit`; row V and a cosine of -inf where there are
        fewer.
        """
        from seqloom.kernels.parallel import thread_count

        size = len(self.exact.matrix)
        # Of these about 2 k are expected below the limit.
        n_candidates = k if limit == size else 2 * -(-k * size // limit)
        matches: Any = self._links.search(queries, min(n_candidates, size), threads=thread_count())
        keys = np.atleast_2d(matches.keys)  # for a single query: one row, without padding
        counts = matches.counts if len(queries) > 1 else np.array([matches.keys.size])
        offered_mask = np.arange(keys.shape[1]) < counts[:, None]
        rows = np.full((len(queries), max(keys.shape[1], k)), size, np.int64)
        rows[:, : keys.shape[1]][offered_mask] = keys[offered_mask]
        rows[rows >= limit] = size
        safe_rows = np.minimum(rows, size - 1)
        scores = (
            np.matmul(self.exact.matrix[safe_rows], queries[:, :, None])[:, :, 0]
            * self.exact.inverse[safe_rows]
        )  # (n, offered)
        scores[rows == size] = -np.inf
        order = np.lexsort((rows, -scores), axis=1)[:, :k]
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def _runs(mask: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the start and end (exclusive) of every run of true values."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist())
