"""The classifier over bags of features against plain Python and NumPy in double precision."""

from itertools import pairwise

import numpy as np
import pytest

from seqloom.kernels import bag_classifier, vector_search
from seqloom.kernels import features as bag_features
from seqloom.models.word_vectors.windows import huffman

END, UNKNOWN = bag_features.END, bag_features.UNKNOWN
NONE = np.zeros(0, np.int64)


def features(ids, longest=1, words=100, buckets=1000, spelled=NONE, ends=NONE):
    ids = np.array(ids, np.int32)
    out, row_offsets = (
        np.empty(len(ids) * longest + len(spelled), np.uint32),
        np.zeros(np.sum(ids == END) + 1, np.int64),
    )
    n = bag_features.list_bag_features(
        ids, 0, longest, words, buckets, spelled, ends, out, row_offsets
    )
    return [out[a:b].tolist() for a, b in pairwise(row_offsets)], n


# ---- features


def test_words_and_the_end_are_features():
    assert features([5, 7, END, END, UNKNOWN, 5, END]) == ([[5, 7, 0], [0], [5, 0]], 6)


def test_the_same_ngram_has_the_same_bucket_and_others_have_others():
    (first, second, third), _ = features(
        [5, 7, 9, END, 7, 9, END, 9, 7, END], longest=3, buckets=10**6
    )
    grams = {
        "5 7": first[1],
        "5 7 9": first[2],
        "7 9": first[4],
        "7 9 end": first[5],
        "9 end": first[7],
    }
    assert [f for f in first if f < 100] == [5, 7, 9, 0]
    assert len(first) == 4 + 3 + 2
    assert second == [7, grams["7 9"], grams["7 9 end"], 9, grams["9 end"], 0]
    assert third[1] not in grams.values()  # the order counts
    assert len(set(grams.values())) == 5
    assert all(100 <= f < 10**6 + 100 for f in grams.values())


def test_ngrams_do_not_reach_over_unknown_words_or_into_the_next_text():
    (first, second), _ = features([5, UNKNOWN, 7, END, 9, END], longest=4)
    (alone,), _ = features([7, END], longest=4)
    assert first == [5, *alone]
    assert second[0] == 9
    assert len(second) == 3


def test_buckets_are_filled_evenly():
    draw = np.random.default_rng(0)
    ids = np.append(draw.integers(1, 5000, 40_000), END)
    (found,), _ = features(ids, longest=2, words=5000, buckets=64)
    counts = np.bincount(np.array([f - 5000 for f in found if f >= 5000]), minlength=64)
    assert len(counts) == 64
    assert abs(counts / counts.mean() - 1).max() < 0.2


def test_character_ngrams_stand_behind_their_word():
    spelled, ends = np.array([3, 4, 8]), np.array([2, 3, 3])
    (found,), _ = features([5, UNKNOWN, END], words=10, spelled=spelled, ends=ends)
    assert found == [5, 13, 14, 18, 0]


def test_rows_are_ranks_of_the_marked_numbers():
    draw = np.random.default_rng(1)
    numbers = np.unique(draw.integers(0, 5000, 900)).astype(np.uint32)
    bits, ranks = np.zeros(5000 // 64 + 1, np.uint64), np.zeros(5000 // 64 + 1, np.int32)
    bag_features.mark(numbers, bits)
    assert bag_features.rank(bits, ranks) == len(numbers)
    again = np.empty(len(numbers), np.uint32)
    bag_features.marked(bits, again)
    assert (again == numbers).all()
    asked = draw.integers(0, 5000, 3000).astype(np.uint32)
    row_offsets = np.array([0, 10, 10, 1500, 3000])
    rows = np.empty(3000, np.int32)
    n = bag_features.find_rows(asked, row_offsets, bits, ranks, rows)
    known = np.isin(asked, numbers)
    assert (rows[:n] == np.searchsorted(numbers, asked[known])).all()
    assert row_offsets.tolist() == [0, *(known[:b].sum() for b in (10, 10, 1500, 3000))]


# ---- learning


def problem(classes, seed=0, texts=40, rows=30, width=16):
    draw = np.random.default_rng(seed)
    row_offsets = np.concatenate([[0], np.cumsum(draw.integers(1, 12, texts))])
    made = draw.integers(0, rows, row_offsets[-1]).astype(np.int32)
    labels = draw.integers(0, classes, texts).astype(np.int32)
    return made, row_offsets, labels, draw.normal(size=(rows, width)).astype(np.float32), draw


def log_probs(h, Y, tree):
    """Of all classes, in double precision; with a tree by multiplying along the ways."""
    if not len(tree[0]):
        s = Y @ h
        return s - s.max() - np.log(np.exp(s - s.max()).sum())
    ends, nodes, turns = tree
    low, found = 0, []
    for end in ends:
        p = 1 / (1 + np.exp(-(Y[nodes[low:end]] @ h)))
        found.append(np.log(np.where(turns[low:end] == 1, p, 1 - p)).sum())
        low = end
    return np.array(found)


def plain_train(order, rows, row_offsets, labels, X, Y, tree, first, last):
    """The same descent, one text after the other, with the gradient by central differences of the loss."""
    X, Y, loss = X.astype(np.float64), Y.astype(np.float64), 0.0
    for i, doc in enumerate(order):
        rate, mine = (
            first + (last - first) * i / len(order),
            rows[row_offsets[doc] : row_offsets[doc + 1]],
        )
        h = X[mine].mean(axis=0)
        loss -= log_probs(h, Y, tree)[labels[doc]]
        dh = differences(lambda v, Y=Y, label=labels[doc]: -log_probs(v, Y, tree)[label], h)
        dY = differences(
            lambda v, h=h, label=labels[doc]: -log_probs(h, v.reshape(-1, len(h)), tree)[label],
            Y.ravel(),
        )
        np.add.at(X, mine, -rate * dh / len(mine))
        Y -= rate * dY.reshape(Y.shape)
    return loss, X, Y


def differences(function, at, step=1e-5):
    found = np.empty_like(at)
    for i in range(len(at)):
        up, down = at.copy(), at.copy()
        up[i] += step
        down[i] -= step
        found[i] = (function(up) - function(down)) / (2 * step)
    return found


@pytest.mark.parametrize(("classes", "with_tree"), [(2, False), (5, False), (2, True), (5, True)])
def test_training_follows_the_gradient(classes, with_tree):
    rows, row_offsets, labels, X, draw = problem(classes)
    tree = huffman(np.bincount(labels, minlength=classes) if with_tree else np.zeros(0, np.int64))
    Y = draw.normal(size=(classes - with_tree, X.shape[1])).astype(np.float32)
    order = draw.permutation(len(labels))
    loss, wantedX, wantedY = plain_train(order, rows, row_offsets, labels, X, Y, tree, 0.5, 0.1)
    found, n = bag_classifier.train(order, rows, row_offsets, labels, X, Y, *tree, 0.5, 0.1)
    assert n == len(order)
    assert found == pytest.approx(loss, rel=1e-5)
    assert abs(X - wantedX).max() < 2e-5
    assert abs(Y - wantedY).max() < 2e-5


@pytest.mark.parametrize("width", [16, 7])
def test_scores_are_the_products_with_the_mean(width):
    rows, row_offsets, _, X, draw = problem(3, width=width)
    row_offsets = np.insert(row_offsets, 3, row_offsets[3])  # a text without features
    Y = draw.normal(size=(3, width)).astype(np.float32)
    out = np.empty((len(row_offsets) - 1, 3))
    bag_classifier.score(rows, row_offsets, X, Y, out)
    wanted = [
        Y.astype(float) @ X[rows[a:b]].astype(float).mean(axis=0) if b > a else np.zeros(3)
        for a, b in pairwise(row_offsets)
    ]
    assert abs(out - wanted).max() < 1e-5
    assert not out[3].any()


def test_the_ways_of_a_tree_sum_to_one():
    tree = huffman(np.array([5, 1, 9, 3, 3, 8]))
    draw = np.random.default_rng(2)
    scores = draw.normal(size=(20, 5)) * 10
    out = np.empty((20, 6))
    bag_classifier.tree_log_probs(scores, *tree, out)
    assert abs(np.exp(out).sum(axis=1) - 1).max() < 1e-12
    wanted = [log_probs(np.ones(1), row[:, None], tree) for row in scores]
    assert abs(out - wanted).max() < 1e-6


def test_first_vectors_are_even_and_do_not_depend_on_how_rows_are_cut():
    whole = np.zeros((2000, 48), np.float32)
    bag_classifier.fill_random(whole, 40, 0, np.uint64(3))
    parts = np.zeros_like(whole)
    for low in (0, 700):
        bag_classifier.fill_random(parts[low : low + 1300], 40, low, np.uint64(3))
    assert (whole == parts).all()
    used = whole[:, :40] * 40
    assert abs(used).max() <= 1
    assert abs(used.mean()) < 0.01
    assert used.std() == pytest.approx(3**-0.5, rel=0.01)
    assert abs(np.corrcoef(used.T) - np.eye(40)).max() < 0.12
    assert not whole[:, 40:].any()


# ---- centroids


def test_the_nearest_centroid_is_found():
    draw = np.random.default_rng(4)
    points, places = (
        draw.normal(size=(500, 2)).astype(np.float32),
        draw.normal(size=(256, 2)).astype(np.float32),
    )
    codes = np.empty(500, np.uint8)
    apart = vector_search.nearest(points, places, codes)
    distances = ((points[:, None] - places) ** 2).sum(axis=2)
    assert (distances[np.arange(500), codes] <= distances.min(axis=1) + 1e-5).all()
    assert apart == pytest.approx(distances.min(axis=1).sum(), rel=1e-3)


def test_centroids_move_to_their_points_and_none_stays_idle():
    points = np.array([[0, 0], [0, 2], [9, 9], [9, 9.5]], np.float32)
    places = np.array([[0, 1], [500, 500], [9, 9]], np.float32)
    codes = np.empty(4, np.uint8)
    vector_search.nearest(points, places, codes)
    assert codes.tolist() == [0, 0, 2, 2]
    vector_search.improve(points, codes, places)
    assert places[0].tolist() == [0, 1]
    assert places[2].tolist() == [9, 9.25]
    assert places[1].tolist() in points.tolist()
