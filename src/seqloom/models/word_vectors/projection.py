"""Vectors in a plane, to be looked at: principal components or t-SNE, and the pictures' data.

Distances are those of directions (rows of length one), since nearness of words is cosine
throughout. Principal components keep what is far apart; t-SNE (van der Maaten and Hinton 2008, by
scikit-learn) keeps neighbours together and says nothing about distances between groups.
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
PERPLEXITY = 30.0  # of t-SNE, where there are words enough: about how many neighbours a word has


class Plane(NamedTuple):
    points: np.ndarray  # float64 (n, 2)
    explained: (
        tuple[float, float] | None
    )  # the share of the variance along each axis; None of t-SNE


def pca(matrix: np.ndarray) -> Plane:
    """Find the two directions along which rows (n, D) differ most; in each, the larger end is
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
    furthest = points[
        (size >= size.max(axis=0) * (1 - 1e-6)).argmax(axis=0), [0, 1]
    ]  # the first, whatever the rounding
    return Plane(points * np.where(furthest < 0, -1, 1) + 0.0, (float(shares[0]), float(shares[1])))


def tsne(matrix: np.ndarray, *, perplexity: float | None = None, seed: int = 0) -> Plane:
    """Find points whose neighbours are the neighbours of the rows (n, D)."""
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
    with threadpool_limits(1):  # for so few points its threads wait for each other most of the time
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
    named = groups if isinstance(groups, Mapping) else {"": groups}
    owner: dict[str, str] = {}
    for group, words in named.items():
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
    """Return the k nearest words of a word, each with its own nearest that are not there yet;
    similar ones stand side by side.
    """
    near = vectors.nearest(word, k, among=among)
    names = [name for name, _ in near]
    if not names:
        raise ConfigError("there is no other word; a neighbourhood needs at least two")
    around = pca(unit_rows(vectors.rows(names))).points  # (k, 2)
    turn = np.arctan2(around[:, 1], around[:, 0])
    taken = {word, *vectors.made_of([word])[0], *names}
    own: dict[str, list[tuple[str, float]]] = {name: [] for name in names}
    if further:
        for name, neighbours in zip(names, vectors.nearest(names, k + 3 * further, among=among)):
            fresh = [pair for pair in neighbours if pair[0] not in taken][:further]
            own[name] = fresh
            taken |= {other for other, _ in fresh}
    order = np.argsort(turn, kind="stable").tolist()
    return [Branch(names[i], near[i][1], own[names[i]]) for i in order]
