"""The kernels of word2vec and fastText against plain Python that draws the same random numbers."""

import heapq

import numpy as np
import pytest

from seqloom.kernels import word2vec as kernel
from seqloom.kernels.features import weighted_rows
from seqloom.models.word_vectors.reading import END, GONE
from seqloom.models.word_vectors.windows import (
    Bags,
    alias_table,
    huffman,
    keep_thresholds,
    make_outputs,
    rows,
    tables,
)

MASK = (1 << 64) - 1
COUNTS = np.array([40, 30, 22, 17, 9, 9, 5, 4, 2, 2, 1, 1])
V, D = len(COUNTS), 20


class Random:
    def __init__(self, seed):
        self.x = seed
        for _ in range(8):
            self()

    def __call__(self):
        x = self.x
        x ^= x >> 12
        x ^= (x << 25) & MASK
        x ^= x >> 27
        self.x = x
        return (x * 0x2545F4914F6CDD1D) & MASK


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def answers(h, Y, chosen, kind):
    """For each chosen output: its row, how far it is from what it should say, and its share of the loss."""
    scores = np.array([h @ Y[j] for j, _ in chosen])
    said = sigmoid(scores) if kind != kernel.ALL else np.exp(scores) / np.exp(scores).sum()
    return [
        (j, label - p, -np.log(p if label else 1 - p) if kind != kernel.ALL or label else 0.0)
        for (j, label), p in zip(chosen, said)
        if label >= 0
    ]


def turns(n, free):
    """Which word is in the middle, step by step; None: there is none. Else runs from several places
    in turn.
    """
    if not free:
        return list(range(n))
    apart = -(-n // (kernel.CURSORS * kernel.RUN)) * kernel.RUN
    order = [
        p * apart + r + i
        for r in range(0, apart, kernel.RUN)
        for p in range(kernel.CURSORS)
        for i in range(kernel.RUN)
    ]
    return [c if c < n else None for c in order]


def slow(ids, cbow, bags, X, Y, outputs, keep, window, shrink, rate, seed):
    """One pass by the definition, in float64: all of a window is computed, then all of it moves."""
    draw, loss, examples = Random(seed), 0.0, 0
    kept = [
        -1 if w == END else w
        for w in ids.tolist()
        if w == END or (w != GONE and draw() >> 32 <= keep[w])
    ]

    def choose(word):
        if outputs.kind == kernel.TREE:
            low, high = (outputs.ends[word - 1] if word else 0), outputs.ends[word]
            return list(zip(outputs.nodes[low:high].tolist(), outputs.turns[low:high].tolist()))
        found = [(word, 1)]
        for _ in range(outputs.negatives):
            r = draw()
            k = ((r & 0xFFFFFFFF) * len(outputs.cut)) >> 32
            k = k if r >> 32 <= outputs.cut[k] else int(outputs.alias[k])
            found.append((k, -1 if k == word else 0))
        return found

    turned = not cbow and bags.kind != kernel.OWN  # a word made of n-grams predicts its neighbours
    places = [
        bags.rows[(bags.ends[w - 1] if w else 0) : bags.ends[w]] for w in range(len(bags.ends))
    ]
    order = [
        c if c is not None and kept[c] >= 0 else None
        for c in turns(len(kept), turned or bags.kind == kernel.OWN)
    ]
    following = None
    for c, then in zip([None, *order], [*order, None]):
        chosen = following
        if outputs.kind != kernel.ALL and not turned and then is not None:
            following = choose(kept[then])
        if c is None:
            continue
        word = kept[c]
        reach = 1 + (draw() >> 33) % window if shrink else window
        near = []
        for direction in (-1, 1):
            p = c + direction
            while abs(p - c) <= reach and 0 <= p < len(kept) and kept[p] >= 0:
                near.append(kept[p])
                p += direction
        if not near:
            continue
        if turned:
            move = np.zeros(D)
            for w in near:
                h = X[places[word]].mean(axis=0) + move
                chosen = (
                    [(j, int(j == w)) for j in range(len(Y))]
                    if outputs.kind == kernel.ALL
                    else choose(w)
                )
                for j, step, lost in answers(h, Y, chosen, outputs.kind):
                    loss += lost
                    move += rate * step * Y[j]
                    Y[j] += rate * step * h
                examples += 1
            X[places[word]] += move
            continue
        hidden = [X[places[w]].mean(axis=0) for w in near]
        hidden = [np.mean(hidden, axis=0)] if cbow else hidden
        if outputs.kind == kernel.ALL:
            chosen = [(j, int(j == word)) for j in range(len(Y))]
        moves, ymoves = [np.zeros(D) for _ in hidden], np.zeros_like(Y)
        for h, move in zip(hidden, moves):
            for j, step, lost in answers(h, Y, chosen, outputs.kind):
                loss += lost
                move += (
                    rate * step * (Y[j] + (ymoves[j] if cbow else 0))
                )  # CBOW sees noise that is drawn twice
                ymoves[j] += rate * step * h
            examples += 1
        for w, move in zip(near, moves * len(near) if cbow else moves):
            X[places[w]] += move
        Y += ymoves
    return loss, examples


def outputs_of(loss):
    return make_outputs(COUNTS, loss, 4, 0.75)


NONE = np.zeros(0, np.float32)
WORDS = Bags(np.arange(1, V + 1), np.arange(V, dtype=np.int32), 1, kernel.OWN, NONE)


def grams(kind):
    """Every word has three rows that no other word has, the first row of each with more weight."""
    bag = np.stack([np.arange(V), V + np.arange(V), 2 * V + np.arange(V)], axis=1)
    weights = (
        np.repeat(np.array([0.5, 0, -0.2], np.float32), V)
        if kind in (kernel.WEIGHTED, kernel.ATTENTION)
        else NONE
    )
    return Bags(3 * np.arange(1, V + 1), bag.reshape(-1).astype(np.int32), 3, kind, weights)


def far_apart(n, seed, distance):
    """A text in which no word comes again within `distance`, with ends and words that are not in the list."""
    random, text = np.random.default_rng(seed), []
    while len(text) < n:
        word = int(random.integers(V))
        if word not in text[-distance:]:
            text.append(word)
        if random.random() < 0.08:
            text.append(END if random.random() < 0.5 else GONE)
    return np.array(text, np.uint32)


@pytest.mark.parametrize("bags", [WORDS, grams(kernel.MEAN)], ids=["words", "n-grams"])
@pytest.mark.parametrize("shrink", [True, False], ids=["shrinking", "fixed"])
@pytest.mark.parametrize("loss", ["ns", "hs", "softmax"])
@pytest.mark.parametrize("cbow", [False, True], ids=["skip-gram", "cbow"])
def test_a_pass_is_what_the_definition_says(cbow, loss, shrink, bags):
    random = np.random.default_rng(5)
    X, Y = rows(len(bags.rows), D), rows(V - 1 if loss == "hs" else V, D)
    X[:, :D], Y[:, :D] = random.normal(0, 0.4, (len(X), D)), random.normal(0, 0.4, (len(Y), D))
    X2, Y2 = X[:, :D].astype(np.float64), Y[:, :D].astype(np.float64)
    ids, keep, outputs = far_apart(450, 3, 8), keep_thresholds(COUNTS, 0.1), outputs_of(loss)
    rate = (
        0.003 if loss == "softmax" and not cbow else 0.05
    )  # softmax moves after each neighbour, not after each window
    found = kernel.train(
        ids, cbow, X, bags, Y, outputs, keep, 2, shrink, np.float32(rate), np.uint64(77), *tables()
    )
    expected = slow(ids, cbow, bags, X2, Y2, outputs, keep, 2, shrink, rate, 77)
    assert found[1] == expected[1] > 50
    assert found[0] == pytest.approx(expected[0], rel=2e-3 if rate == 0.003 else 1e-5)
    tolerance = 2e-3 if rate == 0.003 else 2e-5
    assert np.abs(X[:, :D] - X2).max() < tolerance
    assert np.abs(Y[:, :D] - Y2).max() < tolerance
    assert np.abs(X2 - X2.mean()).max() > 0.5  # it did move
    assert (X[:, D:] == 0).all()
    assert (Y[:, D:] == 0).all()


@pytest.mark.parametrize("loss", ["ns", "hs", "softmax"])
def test_moves_are_the_slope_of_the_loss(loss):
    """Finite differences of the loss of one CBOW window, through the kernel itself."""
    random = np.random.default_rng(1)
    X, Y = rows(V, D), rows(V - 1 if loss == "hs" else V, D)
    X[:, :D], Y[:, :D] = random.normal(0, 0.5, (V, D)), random.normal(0, 0.5, (len(Y), D))
    ids, outputs, keep = (
        np.array([1, 5, 2], np.uint32),
        outputs_of(loss),
        keep_thresholds(COUNTS, 0),
    )

    def run(X, Y, rate):
        return kernel.train(
            ids,
            True,
            X,
            WORDS,
            Y,
            outputs,
            keep,
            1,
            False,
            np.float32(rate),
            np.uint64(3),
            *tables(),
        )[0]

    X2, Y2 = X.copy(), Y.copy()
    run(X2, Y2, 1e-3)
    for table, moved in ((X, X2), (Y, Y2)):
        for w, d in random.integers(0, (len(Y), D), (40, 2)):
            kept, slopes = table[w, d], []
            for step in (0.05, -0.05):
                table[w, d] = kept + np.float32(step)
                slopes.append(run(X.copy(), Y.copy(), 0))
            table[w, d] = kept
            share = (
                0.5 if table is X and w in (1, 2) else 1.0
            )  # 5 predicts alone; of a mean each moves twice its slope
            slope = -(slopes[0] - slopes[1]) / 0.1
            assert (moved[w, d] - kept) / 1e-3 == pytest.approx(
                slope / share, abs=0.02 + 0.05 * abs(slope)
            )


def test_a_number_that_is_none_shows_in_the_loss():
    X, Y = rows(V, D), rows(V, D)
    X[3] = np.nan
    found = kernel.train(
        np.array([3, 4], np.uint32),
        False,
        X,
        WORDS,
        Y,
        outputs_of("ns"),
        keep_thresholds(COUNTS, 0),
        1,
        True,
        np.float32(0.1),
        np.uint64(1),
        *tables(),
    )
    assert np.isnan(found[0])


def test_noise_is_drawn_by_count_to_the_power():
    for exponent in (0.75, 1.0, 0.0, -0.5):
        alias, cut = alias_table(COUNTS, exponent)
        shares = np.zeros(V)
        for k in range(V):
            here = (int(cut[k]) + 1) / 2**32
            shares[k] += here / V
            shares[alias[k]] += (1 - here) / V
        assert shares == pytest.approx(COUNTS**exponent / (COUNTS**exponent).sum(), abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_the_tree_is_huffmans(seed):
    counts = np.random.default_rng(seed).integers(1, 60, 2 + 7 * seed)
    ends, nodes, turns = huffman(counts)
    ways = [
        tuple(zip(nodes[low:high].tolist(), turns[low:high].tolist()))
        for low, high in zip([0, *ends[:-1]], ends)
    ]
    assert len({tuple(turn for _, turn in way) for way in ways}) == len(counts)
    assert (
        sum(2.0 ** -len(way) for way in ways) == 1.0
    )  # a whole tree, in which no word stands on the way to another
    assert {way[0][0] for way in ways} == {0}
    assert {node for way in ways for node, _ in way} == set(range(len(counts) - 1))
    heap, cost = counts.tolist(), 0
    heapq.heapify(heap)
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        cost += both
        heapq.heappush(heap, both)
    assert sum(count * len(way) for count, way in zip(counts.tolist(), ways)) == cost


def test_how_much_of_a_frequent_word_is_read():
    keep = keep_thresholds(COUNTS, 0.01) / (2**32 - 1)
    f = COUNTS / COUNTS.sum()
    assert keep == pytest.approx(np.minimum(np.sqrt(0.01 / f) + 0.01 / f, 1), abs=1e-9)
    assert (keep_thresholds(COUNTS, 0) == 2**32 - 1).all()


@pytest.mark.parametrize("width", [1, 5])
def test_rows_with_weights(width):
    table = np.random.default_rng(0).normal(size=(9, width)).astype(np.float32)
    out, shares = np.empty((3, width), np.float32), np.array([0.5, 2, 1, 1, -1], np.float32)
    weighted_rows(table, np.array([2, 2, 5]), np.array([1, 4, 0, 8, 8], np.int32), shares, out)
    assert out == pytest.approx(
        np.stack([0.5 * table[1] + 2 * table[4], np.zeros(width), table[0]]), abs=1e-6
    )


@pytest.mark.parametrize(
    "kind", [kernel.SUM, kernel.WEIGHTED, kernel.ATTENTION], ids=["sum", "weighted", "attention"]
)
def test_the_rows_of_a_word_move_along_their_slopes(kind):
    """One neighbour predicts one word; its vector is made of three rows, each with its share."""
    random, bags = np.random.default_rng(2), grams(kind)
    X, Y = rows(3 * V, D), rows(V, D)
    X[:, :D], Y[:, :D] = random.normal(0, 0.5, (3 * V, D)), random.normal(0, 0.5, (V, D))
    before, weights = X.copy(), bags.weights.copy()
    ids, outputs, keep, rate = (
        np.array([1, 5], np.uint32),
        outputs_of("softmax"),
        keep_thresholds(COUNTS, 0),
        1e-3,
    )

    def loss_of(X, weights):  # of 5 from 1, and of 1 from 5
        total = 0.0
        for near, word in ((1, 5), (5, 1)):
            places = [near, V + near, 2 * V + near]
            shares = (
                np.ones(3)
                if kind == kernel.SUM
                else np.exp(weights[places]) / np.exp(weights[places]).sum()
            )
            scores = Y[:, :D].astype(np.float64) @ (shares @ X[places, :D].astype(np.float64))
            total -= scores[word] - np.log(np.exp(scores).sum())
        return total

    first = loss_of(X, weights.astype(np.float64))
    found = kernel.train(
        ids,
        False,
        X,
        bags,
        Y.copy(),
        outputs,
        keep,
        1,
        False,
        np.float32(rate),
        np.uint64(3),
        *tables(),
    )
    assert found[0] == pytest.approx(first, rel=1e-3)
    for row in (1, V + 1, 2 * V + 5):
        factor = (
            1 / 3 if kind == kernel.SUM else 3.0
        )  # a mean of n rows moves as far as it should if its rows move n times
        for d in (0, 7, D - 1):
            moved = before.astype(np.float64)
            moved[row, d] += 1e-4
            slope = (first - loss_of(moved, weights.astype(np.float64))) / 1e-4
            assert (X[row, d] - before[row, d]) / rate == pytest.approx(
                factor * slope, rel=0.03, abs=2e-3
            )
        if kind == kernel.ATTENTION:
            moved = weights.astype(np.float64)
            moved[row] += 1e-4
            slope = (first - loss_of(before, moved)) / 1e-4
            assert (bags.weights[row] - weights[row]) / rate == pytest.approx(
                slope, rel=0.03, abs=2e-3
            )
    assert kind == kernel.ATTENTION or (bags.weights == weights).all()
