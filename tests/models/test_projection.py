"""Planes and the data of pictures: against numpy's eigenvectors and scikit-learn, and what stands
beside what.
"""

import sys

import numpy as np
import pytest

from seqloom.errors import ConfigError, DataError, MissingExtra
from seqloom.models.word_vectors.projection import map_pairs, map_words, pca, surroundings, tsne
from seqloom.models.word_vectors.word_vectors import WordVectors


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(4)
    centres = 4 * rng.normal(size=(3, 8))
    words = [f"{name}{i}" for name in ("fruit", "tool", "land") for i in range(12)]
    return WordVectors.of(words, np.repeat(centres, 12, axis=0) + rng.normal(size=(36, 8)))


def test_pca_is_that_of_the_covariance():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 6)) * [5, 3, 1, 1, 1, 1] + 7
    plane = pca(rows)
    values, lines = np.linalg.eigh(np.cov(rows.T))
    wanted = (rows - rows.mean(axis=0)) @ lines[:, ::-1][:, :2]
    assert np.abs(plane.points) == pytest.approx(np.abs(wanted), abs=1e-9)
    assert plane.explained == pytest.approx(values[::-1][:2] / values.sum(), abs=1e-12)
    assert (pca(rows).points == plane.points).all()
    assert pca(rows[:1]).points.tolist() == [[0, 0]]
    assert pca(rows[:, :1]).points[:, 1].tolist() == [0] * 50


def test_pca_agrees_with_scikit_learn(vectors):
    found = (
        pytest.importorskip("sklearn.decomposition").PCA(2).fit(vectors.matrix.astype(np.float64))
    )
    mine = pca(vectors.matrix)
    assert np.abs(mine.points) == pytest.approx(
        np.abs(found.transform(vectors.matrix.astype(np.float64))), abs=1e-6
    )
    assert mine.explained == pytest.approx(found.explained_variance_ratio_, abs=1e-9)


def test_tsne_keeps_groups_together_and_repeats(vectors):
    pytest.importorskip("sklearn")
    spots, titles = map_words(vectors, list(vectors.words), method="tsne", seed=3)
    points = np.array([(s.x, s.y) for s in spots]).reshape(3, 12, 2)
    middle = points.mean(axis=1)
    within = np.linalg.norm(points - middle[:, None], axis=2).max()
    between = min(np.linalg.norm(middle[i] - middle[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    assert between > within
    assert titles == ("", "")
    again, _ = map_words(vectors, list(vectors.words), method="tsne", seed=3)
    assert again == spots


def test_maps_know_their_groups_and_compare_directions(vectors):
    spots, titles = map_words(vectors, {"a": ["fruit1", "fruit2"], "b": ["tool1", "fruit1"]})
    assert [(s.word, s.group) for s in spots] == [("fruit1", "a"), ("fruit2", "a"), ("tool1", "b")]
    assert "of the variance" in titles[0]
    longer = WordVectors.of(
        vectors.words, vectors.matrix * np.arange(1, 37)[:, None]
    )  # lengths do not matter
    words = list(vectors.words)
    assert [s.x for s in map_words(longer, words)[0]] == pytest.approx(
        [s.x for s in map_words(vectors, words)[0]], abs=1e-5
    )


def test_pairs_of_a_true_analogy_are_equal_arrows():
    """c + a and c + b with a, b at right angles to every c: all of one length, so that directions
    keep the difference.
    """
    rng = np.random.default_rng(2)
    rows = np.zeros((5, 2, 9))
    bases = rng.normal(size=(5, 7))
    rows[:, :, 2:] = (bases / np.linalg.norm(bases, axis=1, keepdims=True))[:, None]
    rows[:, 0, 0] = rows[:, 1, 1] = 2
    table = WordVectors.of([f"{k}{i}" for i in range(5) for k in "ab"], rows.reshape(10, 9))
    arrows, _ = map_pairs(table, [(f"a{i}", f"b{i}") for i in range(5)])
    moves = np.array([(a.x2 - a.x, a.y2 - a.y) for a in arrows])
    assert moves == pytest.approx(np.tile(moves[:1], (5, 1)), abs=1e-6)
    assert np.linalg.norm(moves[0]) > 0.5
    assert [(a.start, a.end) for a in arrows][:2] == [("a0", "b0"), ("a1", "b1")]


def test_surroundings_hold_each_word_once(vectors):
    found = surroundings(vectors, "fruit3", 5, 2)
    assert {b.word for b in found} == {word for word, _ in vectors.nearest("fruit3", 5)}
    every = [b.word for b in found] + [word for b in found for word, _ in b.further]
    assert len(every) == len(set(every))
    assert "fruit3" not in every
    for b in found:
        assert b.cosine == pytest.approx(vectors.similarity("fruit3", b.word), abs=1e-6)
        for word, cosine in b.further:
            assert cosine == pytest.approx(vectors.similarity(b.word, word), abs=1e-6)
    assert all(not b.further for b in surroundings(vectors, "fruit3", 5, 0))


def test_refused(vectors, monkeypatch):
    with pytest.raises(ConfigError, match="at least 2 words; got 1"):
        map_words(vectors, ["fruit1", "fruit1"])
    with pytest.raises(ConfigError, match="method must be one of pca, tsne"):
        map_words(vectors, ["fruit1", "tool1"], method="umap")
    with pytest.raises(DataError, match="no vector for 'fruiit1'; did you mean 'fruit1'"):
        map_words(vectors, ["fruiit1", "tool1"])
    with pytest.raises(ConfigError, match="at least two pairs"):
        map_pairs(vectors, [("fruit1", "tool1")])
    if "sklearn" in sys.modules:
        with pytest.raises(ConfigError, match="at least 4 words; got 3"):
            map_words(vectors, ["fruit1", "fruit2", "tool1"], method="tsne")
        with pytest.raises(ConfigError, match="perplexity"):
            tsne(vectors.matrix, perplexity=36)
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(MissingExtra, match=r"seqloom\[maps\]"):
        tsne(vectors.matrix)
