"""Vectors projected to a plane for charts: principal components or t-SNE, and the data of the charts.

Rows are divided by their length first, since similarity of words is the cosine throughout. Principal
components keep large distances; t-SNE (van der Maaten and Hinton 2008, by scikit-learn) keeps
neighbours together, and distances between groups mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from seqloom.charts.word_graph import Arrow, Branch
from seqloom.charts.word_map import Spot
from seqloom.contracts.word_vectors import Embedder
from seqloom.errors import ConfigError, MissingExtra
from seqloom.models.word_vectors.search import unit_rows

Method = Literal["pca", "tsne"]
PERPLEXITY = 30.0  # of t-SNE, if there are enough words: about the number of neighbours of a word


class Plane(NamedTuple):
    points: np.ndarray  # float64 (n, 2)
    explained: tuple[float, float] | None  # share of the variance along each axis; t-SNE: None


def pca(matrix: np.ndarray) -> Plane:
    """Project rows (n, D) on their first two principal components; the point furthest out on each is
    positive.

    >>> plane = pca(np.array([[0.0, 0.0, 3.0], [0.0, 0.0, -3.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]]))
    >>> plane.points.round(6).tolist()
    [[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    >>> [round(share, 6) for share in plane.explained]
    [0.9, 0.1]
    """
    rows = np.asarray(matrix, np.float64)
    rows = rows - rows.mean(axis=0)
    left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    points = np.zeros((len(rows), 2))
    shares = np.zeros(2)
    width = min(2, len(sizes))
    points[:, :width] = left[:, :width] * sizes[:width]
    if sizes[0] > 0:
        shares[:width] = sizes[:width] ** 2 / (sizes**2).sum()
    size = np.abs(points)
    # The first of equal ones, up to rounding.
    furthest = points[(size >= size.max(axis=0) * (1 - 1e-6)).argmax(axis=0), [0, 1]]
    return Plane(points * np.where(furthest < 0, -1, 1) + 0.0, (float(shares[0]), float(shares[1])))


def tsne(matrix: np.ndarray, *, perplexity: float | None = None, seed: int = 0) -> Plane:
    """Project rows (n, D) to points with the same neighbours."""
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise MissingExtra(
            "t-SNE needs scikit-learn; install it: pip install 'seqloom[maps]', or use method pca"
        ) from None
    rows = np.asarray(matrix, np.float64)
    if len(rows) < 4:
        raise ConfigError(f"t-SNE needs at least 4 words; got {len(rows)}")
    if perplexity is not None and not 1 <= perplexity < len(rows):
        raise ConfigError(
            f"perplexity must be between 1 and the number of words, {len(rows):,}; got {perplexity}"
        )
    near = min(PERPLEXITY, (len(rows) - 1) / 3) if perplexity is None else perplexity
    if np.ptp(rows, axis=0).max() == 0:
        return Plane(np.zeros((len(rows), 2)), None)
    with threadpool_limits(1):  # with few points its threads mostly wait for each other
        points = TSNE(2, perplexity=near, init="pca", random_state=seed).fit_transform(rows)
    return Plane(np.asarray(points, np.float64), None)


def map_words(
    vectors: Embedder,
    groups: Mapping[str, Sequence[str]] | Sequence[str],
    *,
    method: Method = "pca",
    perplexity: float | None = None,
    seed: int = 0,
) -> tuple[list[Spot], tuple[str, str]]:
    """Map words, or groups of words by name, to points, and return them with the axis titles."""
    if method not in ("pca", "tsne"):
        raise ConfigError(f"method must be one of pca, tsne; got {method!r}")
    by_group = groups if isinstance(groups, Mapping) else {"": groups}
    owner: dict[str, str] = {}
    for group, words in by_group.items():
        for word in words:
            owner.setdefault(word, group)
    if len(owner) < 2:
        raise ConfigError(f"a map needs at least 2 words; got {len(owner)}")
    rows = unit_rows(vectors.rows(list(owner)))
    plane = pca(rows) if method == "pca" else tsne(rows, perplexity=perplexity, seed=seed)
    spots = [
        Spot(word, x, y, group)
        for (word, group), (x, y) in zip(owner.items(), plane.points.tolist())
    ]
    return spots, titles(plane)


def titles(plane: Plane) -> tuple[str, str]:
    if plane.explained is None:
        return "", ""
    first, second = (f"{share:.0%}" for share in plane.explained)
    return f"first principal component, {first} of the variance", f"second, {second}"


def map_pairs(
    vectors: Embedder, pairs: Sequence[tuple[str, str]]
) -> tuple[list[Arrow], tuple[str, str]]:
    """Map pairs such as (man, king) to arrows in the plane of the principal components of all
    their words.
    """
    if len(pairs) < 2:
        raise ConfigError(
            f"an analogy is at least two pairs, such as man:king,woman:queen; got {len(pairs)}"
        )
    rows = unit_rows(vectors.rows([word for pair in pairs for word in pair]))
    plane = pca(rows)
    ends = plane.points.reshape(len(pairs), 2, 2).tolist()
    return [Arrow(*pair, *start, *end) for pair, (start, end) in zip(pairs, ends)], titles(plane)


def surroundings(
    vectors: Embedder, word: str, k: int = 12, further: int = 3, *, among: int | None = None
) -> list[Branch]:
    """Return the k nearest words of a word, each with its nearest that are not listed yet; similar ones
    are adjacent.
    """
    neighbours_of_word = vectors.nearest(word, k, among=among)
    names = [name for name, _ in neighbours_of_word]
    if not names:
        raise ConfigError("there is no other word; a neighbourhood needs at least two")
    points = pca(unit_rows(vectors.rows(names))).points  # (k, 2)
    angles = np.arctan2(points[:, 1], points[:, 0])
    used = {word, *vectors.made_of([word])[0], *names}
    further_words: dict[str, list[tuple[str, float]]] = {name: [] for name in names}
    if further:
        for name, neighbours in zip(names, vectors.nearest(names, k + 3 * further, among=among)):
            unused = [pair for pair in neighbours if pair[0] not in used][:further]
            further_words[name] = unused
            used |= {other for other, _ in unused}
    order = np.argsort(angles, kind="stable").tolist()
    return [Branch(names[i], neighbours_of_word[i][1], further_words[names[i]]) for i in order]
