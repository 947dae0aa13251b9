"""Product quantisation of the rows of a classifier (Joulin et al. 2016, "FastText.zip", section 3).

A row is its length times a direction; the direction is cut into pairs of dimensions, and each pair is the number, 8 bits, of
the nearest of 256 centroids that k-means finds for it. Lengths are 256 centroids of their own. So a row of D numbers takes
D / 2 + 1 bytes instead of 4 D.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seqloom import progress
from seqloom.arrays import Spec

CENTROIDS = 256
CODES = "codes", "centroids", "norm_codes", "norms"
_SAMPLE = 1 << 14  # rows that the centroids are learnt from
_ITERATIONS = 15
_ROWS = 1 << 16  # rows that are coded together


@dataclass(frozen=True)
class Codes:
    """Row r is norms[norm_codes[r]] times the centroids of its codes one behind the other."""

    codes: np.ndarray  # uint8 (R, S)
    centroids: np.ndarray  # float32 (S, 256, 2)
    norm_codes: np.ndarray  # uint8 (R,)
    norms: np.ndarray  # float32 (256,)

    def __len__(self) -> int:
        return len(self.codes)

    def rows(self, places: np.ndarray) -> np.ndarray:
        """float32 (n, 2 S)."""
        parts = self.centroids[np.arange(self.codes.shape[1]), self.codes[places]]  # (n, S, 2)
        return parts.reshape(len(places), -1) * self.norms[self.norm_codes[places]][:, None]

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in CODES}


def code_specs(rows: int, dimensions: int) -> dict[str, Spec]:
    """What the arrays of saved codes must be."""
    parts = -(-dimensions // 2)
    return {
        "codes": Spec("uint8", (rows, parts)),
        "centroids": Spec("float32", (parts, CENTROIDS, 2)),
        "norm_codes": Spec("uint8", (rows,)),
        "norms": Spec("float32", (CENTROIDS,)),
    }


def quantise(matrix: np.ndarray, seed: int = 0) -> Codes:
    """The codes of a matrix (R, D), float32; an odd D gets a dimension of zeros."""
    from seqloom.kernels.parallel import chunk_bounds, parallel_map, parallel_run
    from seqloom.kernels.vector_search import nearest

    n, width = matrix.shape
    parts = -(-width // 2)
    draw = np.random.default_rng(seed)
    sample = np.sort(draw.choice(n, min(n, _SAMPLE), replace=False))
    lengths = np.sqrt(np.einsum("rd,rd->r", matrix, matrix))  # (R,)
    norms = _learn(
        np.stack([lengths[sample], np.zeros_like(lengths[sample])], axis=1),
        np.random.default_rng([seed, parts]),
    )
    some = _directions(matrix[sample], lengths[sample], parts)
    codes, norm_codes = np.empty((n, parts), np.uint8), np.empty(n, np.uint8)

    def centroids_of(part: int) -> np.ndarray:
        return _learn(np.ascontiguousarray(some[:, part]), np.random.default_rng([seed, part]))

    with progress.task("quantising", parts + n, "rows") as bar:
        by_part = []
        for one in parallel_map(centroids_of, range(parts)):
            by_part.append(one)
            bar.advance()
        centroids = np.stack(by_part)  # (S, 256, 2)

        def code(bounds: tuple[int, int]) -> None:
            low, high = bounds
            points = _directions(matrix[low:high], lengths[low:high], parts)
            column = np.empty(high - low, np.uint8)
            for part in range(parts):
                nearest(np.ascontiguousarray(points[:, part]), centroids[part], column)
                codes[low:high, part] = column
            nearest(
                np.stack([lengths[low:high], np.zeros(high - low, np.float32)], axis=1),
                norms,
                column,
            )
            norm_codes[low:high] = column
            bar.advance(high - low)

        parallel_run(code, chunk_bounds(n, _ROWS))
    return Codes(codes, centroids, norm_codes, np.ascontiguousarray(norms[:, 0]))


def _directions(rows: np.ndarray, lengths: np.ndarray, parts: int) -> np.ndarray:
    """Rows of length 1 as pairs of dimensions, (n, S, 2)."""
    made = np.zeros((len(rows), 2 * parts), np.float32)
    np.divide(rows, lengths[:, None], out=made[:, : rows.shape[1]], where=lengths[:, None] > 0)
    return made.reshape(len(rows), parts, 2)


def _learn(points: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """256 centroids of points (n, 2)."""
    from seqloom.kernels.vector_search import improve, nearest

    centroids = points[draw.choice(len(points), CENTROIDS, replace=len(points) < CENTROIDS)].copy()
    codes = np.empty(len(points), np.uint8)
    for _ in range(_ITERATIONS):
        nearest(points, centroids, codes)
        improve(points, codes, centroids)
    return centroids
