"""Attention against a query at a time in float64, and the same bits alone and in company."""

import numpy as np
import pytest

from seqloom.kernels import attention
from seqloom.kernels.attention import PAGE, attend_heads, copy_tokens, store_tokens
from seqloom.kernels.matmul import LANES
from seqloom.kernels.parallel import TEAM
from seqloom.kernels.transformer import Heads, Tokens
from tests.sharing import helped, shared_by
from tests.twins import attention as twin

LAYER, N_LAYERS = 1, 2
ENDLESS = 1 << 40
NO_WEIGHTS = np.empty((0, 0, 0), np.float32)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class Sequences:
    """Tokens in pages, the last of which, `counts` of each sequence, are new and have queries."""

    def __init__(self, lengths, counts, n_heads, n_keys, d_head, *, window=ENDLESS):
        self.lengths, self.counts = np.array(lengths, np.int64), np.array(counts, np.int64)
        self.heads = Heads(n_heads, d_head, n_keys * d_head, np.float32(d_head**-0.5), window)
        d_queries, d_keys = n_heads * d_head, n_keys * d_head
        self.all = [
            normal(length, d_queries + 2 * d_keys, seed=r) for r, length in enumerate(lengths)
        ]
        size = 2 * N_LAYERS * d_keys * PAGE + LANES
        self.memory = np.full(
            (len(lengths), -(-max(lengths) // PAGE) or 1, size), np.nan, np.float32
        )  # nobody may read these
        order = np.random.default_rng(0).permutation(self.memory.shape[0] * self.memory.shape[1])
        self.pages = (
            self.memory.ctypes.data + 4 * size * order.reshape(self.memory.shape[:2])
        ).astype(np.int64)
        for r, tokens in enumerate(self.all):  # at once, then the new ones again, in their place
            self.store(tokens, [r], [len(tokens)], [len(tokens)])
        self.x = np.concatenate([tokens[len(tokens) - n :] for tokens, n in zip(self.all, counts)])
        self.tokens = self.store(self.x, np.arange(len(lengths)), self.counts, self.lengths)

    def places(self, rows, counts, lengths):
        counts = np.array(counts, np.int64)
        return Tokens(
            self.pages[rows], np.cumsum(counts) - counts, counts, np.array(lengths, np.int64)
        )

    def store(self, x, rows, counts, lengths):
        tokens = self.places(rows, counts, lengths)
        store_tokens(
            x,
            self.heads.n_heads * self.heads.d_head,
            self.heads.d_keys,
            LAYER,
            tokens.pages,
            tokens.starts,
            tokens.counts,
            tokens.lengths,
        )
        return tokens

    def attend(
        self,
        x=None,
        tokens=None,
        *,
        causal=True,
        by_distance=None,
        relative=None,
        weights=NO_WEIGHTS,
    ):
        by_distance = (
            np.empty((self.heads.n_heads, 0), np.float32) if by_distance is None else by_distance
        )
        relative = np.empty((0, self.heads.d_head), np.float32) if relative is None else relative
        return attend_heads(
            TEAM,
            self.x if x is None else x,
            self.heads,
            LAYER,
            tokens or self.tokens,
            causal,
            by_distance,
            relative,
            weights,
        )

    def expected(self, *, causal=True, by_distance=None, relative=None):
        """What all see, and their shares, padded to the longest."""
        n_heads, d, d_keys = self.heads.n_heads, self.heads.d_head, self.heads.d_keys
        seen, shares = (
            np.zeros((len(self.x), n_heads * d)),
            np.zeros((len(self.x), n_heads, max(self.lengths))),
        )
        rows = iter(range(len(self.x)))
        for tokens, count in zip(self.all, self.counts):
            wide = tokens.astype(np.float64)
            for place in range(len(tokens) - count, len(tokens)):
                row = next(rows)
                for head in range(n_heads):
                    own = slice(head * d, head * d + d)
                    column = n_heads * d + head * d_keys // (n_heads * d) * d
                    keys, values = (
                        wide[:, column : column + d],
                        wide[:, column + d_keys : column + d_keys + d],
                    )
                    seen[row, own], shares[row, head, : len(tokens)] = twin.attend(
                        wide[place, own],
                        keys,
                        values,
                        place=place,
                        causal=causal,
                        window=self.heads.window,
                        scale=float(self.heads.scale),
                        distances=None if by_distance is None else by_distance[head],
                        relative=relative,
                    )
        return seen, shares


AROUND = [1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129]


def check(sequences, **given):
    weights = np.full(
        (len(sequences.x), sequences.heads.n_heads, max(sequences.lengths)), np.nan, np.float32
    )
    found = sequences.attend(**given, weights=weights)
    seen, shares = sequences.expected(**given)
    np.testing.assert_allclose(found, seen, atol=2e-5)
    for row, length in zip(range(len(weights)), np.repeat(sequences.lengths, sequences.counts)):
        np.testing.assert_allclose(weights[row, :, :length], shares[row, :, :length], atol=1e-5)
    np.testing.assert_array_equal(sequences.attend(**given), found)


@pytest.mark.parametrize("causal", [True, False])
def test_lengths_around_pages_and_vectors(causal):
    check(Sequences(AROUND, AROUND, 2, 2, 8), causal=causal)


@pytest.mark.parametrize("causal", [True, False])
def test_new_tokens_behind_old_ones(causal):
    check(Sequences([1, 64, 65, 90, 130, 200], [1, 1, 2, 70, 3, 65], 2, 2, 8), causal=causal)


@pytest.mark.parametrize("d_head", [1, 2, 7, 15, 16, 17, 24, 31, 33, 40, 48, 50, 63, 64])
def test_heads_of_any_width(d_head):
    check(Sequences([70, 3, 17], [5, 3, 1], 3, 3, d_head))


@pytest.mark.parametrize(("n_heads", "n_keys"), [(4, 1), (4, 2), (6, 3), (3, 1)])
def test_heads_that_share_keys(n_heads, n_keys):
    check(Sequences([70, 3, 17], [7, 3, 17], n_heads, n_keys, 12))


@pytest.mark.parametrize("window", [0, 1, 5, 63, 64, 65, 100])
def test_windows(window):
    check(Sequences([200, 3, 65, 130], [200, 3, 1, 70], 2, 2, 8, window=window))


@pytest.mark.parametrize("far", [1, 4, 300])
@pytest.mark.parametrize("causal", [True, False])
def test_scores_by_distance(causal, far):
    check(
        Sequences([70, 3, 17], [70, 3, 17], 2, 2, 8),
        causal=causal,
        by_distance=3 * normal(2, 2 * far - 1, seed=9),
    )


@pytest.mark.parametrize("known", [1, 4, 300])
def test_vectors_of_distances(known):
    check(Sequences([70, 3, 17, 130], [70, 3, 5, 1], 2, 2, 8), relative=normal(known, 8, seed=9))


def test_distances_of_both_kinds_within_a_window():
    check(
        Sequences([150, 3, 17], [150, 1, 5], 2, 1, 20, window=40),
        by_distance=normal(2, 21, seed=9),
        relative=normal(12, 20, seed=8),
    )


@pytest.mark.parametrize("causal", [True, False])
def test_sequences_without_new_tokens_and_without_any(causal):
    check(Sequences([5, 0, 20, 7], [5, 0, 0, 2], 2, 2, 8), causal=causal)
    nothing = Sequences([0, 0], [0, 0], 2, 2, 8)
    assert nothing.attend(causal=causal).shape == (0, 16)


def test_who_looks_at_nothing_sees_nothing():
    """As a decoder whose source is empty."""
    sequences = Sequences([5, 5], [5, 5], 2, 2, 8)
    tokens = Tokens(sequences.pages, np.array([0, 5]), np.array([5, 5]), np.array([0, 5]))
    weights = np.full((10, 2, 5), np.nan, np.float32)
    found = sequences.attend(tokens=tokens, causal=False, weights=weights)
    assert not found[:5].any()
    assert not weights[:5].any()
    np.testing.assert_allclose(found[5:], sequences.expected(causal=False)[0][5:], atol=1e-5)


OPTIONS = {
    "plain": {},
    "by_distance": {"by_distance": normal(4, 41, seed=9)},
    "relative": {"relative": normal(30, 20, seed=8)},
}


@pytest.mark.parametrize("window", [ENDLESS, 30])
@pytest.mark.parametrize("given", OPTIONS.values(), ids=OPTIONS)
def test_a_query_sees_the_same_alone_and_in_company(given, window):
    """To the bit: tokens that are read one by one, and a prompt; rows that other sequences stand beside."""
    sequences = Sequences([150, 3, 80, 64], [150, 3, 17, 2], 4, 2, 20, window=window)
    together = sequences.attend(**given)
    row = 0
    for r, (length, count) in enumerate(zip(sequences.lengths, sequences.counts)):
        for place in range(length - count, length):
            alone = sequences.attend(
                sequences.x[row : row + 1].copy(), sequences.places([r], [1], [place + 1]), **given
            )
            np.testing.assert_array_equal(alone[0], together[row])
            row += 1


def test_a_query_to_a_memory_sees_the_same_alone_and_in_company():
    sequences = Sequences([150, 3, 80, 64], [150, 3, 17, 2], 4, 2, 20)
    together = sequences.attend(causal=False)
    row = 0
    for r, (length, count) in enumerate(zip(sequences.lengths, sequences.counts)):
        for _ in range(count):
            alone = sequences.attend(
                sequences.x[row : row + 1].copy(),
                sequences.places([r], [1], [length]),
                causal=False,
            )
            np.testing.assert_array_equal(alone[0], together[row])
            row += 1


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("causal", [True, False])
def test_threads_share_the_heads(threads, causal):
    sequences = Sequences([70, 3], [70, 3], 5, 5, 8)
    alone, shared = np.empty((73, 5, 70), np.float32), np.empty((73, 5, 70), np.float32)
    with shared_by(1):
        expected = sequences.attend(causal=causal, weights=alone)
    with shared_by(threads):
        for found in helped(lambda: sequences.attend(causal=causal, weights=shared)):
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(shared[:70], alone[:70])


def test_copies_of_pages():
    sequences = Sequences([40, 40], [40, 40], 2, 1, 20)
    size, d_keys = sequences.memory.shape[2] - LANES, 20
    old, new = normal(size + LANES), np.full(size + LANES, np.nan, np.float32)
    copy_tokens(old.ctypes.data, new.ctypes.data, N_LAYERS, d_keys, 17)
    for layer in range(N_LAYERS):
        (keys, values), (new_keys, new_values) = (
            page[:size].reshape(N_LAYERS, 2, -1)[layer] for page in (old, new)
        )
        keys, new_keys = keys.reshape(d_keys, PAGE), new_keys.reshape(d_keys, PAGE)
        values, new_values = values.reshape(PAGE, d_keys), new_values.reshape(PAGE, d_keys)
        np.testing.assert_array_equal(new_keys[:, :17], keys[:, :17])
        np.testing.assert_array_equal(new_values[:17], values[:17])
        assert np.isnan(new_keys[:, 17:]).all()
        assert np.isnan(new_values[17:]).all()


def test_layers_of_a_page_do_not_overlap():
    """Keys are turned, (K, 64); values lie as they are, (64, K); one layer behind the other."""
    d_keys, page = 12, np.full(2 * 2 * 12 * PAGE + LANES, np.nan, np.float32)
    x = normal(5, 3 + 2 * d_keys)
    pages, start = np.array([[page.ctypes.data]], np.int64), np.array([0])
    store_tokens(x, 3, d_keys, 1, pages, start, np.array([5]), np.array([9]))
    first, second = page[:-LANES].reshape(2, 2, -1)
    assert np.isnan(first).all()
    np.testing.assert_array_equal(second[0].reshape(d_keys, PAGE)[:, 4:9], x[:, 3 : 3 + d_keys].T)
    np.testing.assert_array_equal(second[1].reshape(PAGE, d_keys)[4:9], x[:, 3 + d_keys :])
    assert np.isfinite(second).sum() == 2 * 5 * d_keys


@pytest.mark.parametrize("causal", [True, False])
def test_what_is_not_a_number_is_noticed_within_its_sequence(causal):
    sequences = Sequences([20, 20], [20, 20], 2, 2, 8)
    sequences.x[7, 16:] = np.nan
    sequences.store(sequences.x, [0, 1], [20, 20], [20, 20])
    broken = np.isnan(sequences.attend(causal=causal)).any(axis=1)
    assert broken[7 if causal else 0 : 20].all()
    assert not broken[20:].any()


# ---- additive attention


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_additive_scores(kind):
    queries, keys, energy = (
        3 * normal(*shape, seed=i).astype(kind)
        for i, shape in enumerate([(2, 4, 20), (2, 5, 20), (20,)])
    )
    scores = np.full((2, 4, 5), np.nan, kind)
    attention.additive_scores(queries, keys, energy, scores)
    expected = twin.additive_scores(*(a.astype(np.float64) for a in (queries, keys, energy)))
    np.testing.assert_allclose(scores, expected, atol=1e-4 if kind is np.float32 else 1e-12)


def test_gradients_of_additive_scores():
    arrays = [
        normal(*shape, seed=i).astype(np.float64)
        for i, shape in enumerate([(2, 3, 7), (2, 4, 7), (7,)])
    ]
    above = normal(2, 3, 4, seed=9).astype(np.float64)
    above[1, 2], above[0, 1, 3] = 0, 0
    gradients = [np.ones_like(array) for array in arrays]  # to which they are added
    attention.additive_scores_back(*arrays, above, *gradients)

    def loss():
        return (twin.additive_scores(*arrays) * above).sum()

    for array, gradient in zip(arrays, gradients):
        np.testing.assert_allclose(gradient - 1, finite_differences(loss, array), atol=1e-8)


def finite_differences(loss, array, step=1e-5):
    """The change of a loss by each number of an array, which is put back."""
    out = np.empty_like(array)
    for place in np.ndindex(array.shape):
        before = array[place]
        array[place] = before + step
        above = loss()
        array[place] = before - step
        out[place] = (above - loss()) / (2 * step)
        array[place] = before
    return out


@pytest.mark.parametrize("additive", [True, False])
@pytest.mark.parametrize("covers", [True, False])
def test_attention_to_a_memory(additive, covers):
    offsets, source = np.array([0, 4, 4, 11, 12]), np.array([2, 0, 1, 2, 3])
    queries, keys, vectors = normal(5, 20), normal(12, 20, seed=1), normal(12, 9, seed=2)
    none = np.empty(0, np.float32)
    energy, covered = (
        normal(20, seed=3) if additive else none,
        normal(20, seed=4) if covers else none,
    )
    coverage = np.abs(normal(5, 7, seed=5))
    before, out, weights = coverage.copy(), normal(5, 9, seed=6), np.zeros((5, 7), np.float32)
    start = out.copy()
    attention.attend_memory(
        queries,
        vectors,
        keys,
        offsets,
        source,
        energy,
        np.float32(0.3),
        covered,
        coverage,
        out,
        weights,
    )
    for row, s in enumerate(source):
        steps = slice(offsets[s], offsets[s + 1])
        n = steps.stop - steps.start
        seen, shares = twin.attend_memory(
            queries[row].astype(np.float64),
            vectors[steps],
            keys[steps],
            energy if additive else None,
            0.3,
            covered if covers else None,
            before[row, :n],
        )
        np.testing.assert_allclose(out[row] - start[row], seen, atol=1e-5)
        np.testing.assert_allclose(weights[row, :n], shares, atol=1e-6)
        np.testing.assert_allclose(
            coverage[row, :n] - before[row, :n], shares if covers else 0, atol=1e-6
        )
        assert not weights[row, n:].any()
        np.testing.assert_array_equal(coverage[row, n:], before[row, n:])


@pytest.mark.parametrize("additive", [True, False])
def test_a_row_sees_of_its_memory_the_same_alone_and_in_company(additive):
    offsets, source = np.array([0, 4, 11]), np.array([1, 0, 1])
    queries, keys, vectors = normal(3, 20), normal(11, 20, seed=1), normal(11, 9, seed=2)
    none, out = np.empty(0, np.float32), np.zeros((3, 9), np.float32)
    energy = normal(20, seed=3) if additive else none

    def attend(rows, out):
        attention.attend_memory(
            queries[rows],
            vectors,
            keys,
            offsets,
            source[rows],
            energy,
            np.float32(0.3),
            none,
            np.empty((len(out), 0), np.float32),
            out,
            np.zeros((len(out), 7), np.float32),
        )

    attend(slice(None), out)
    for row in range(3):
        alone = np.zeros((1, 9), np.float32)
        attend(slice(row, row + 1), alone)
        np.testing.assert_array_equal(alone[0], out[row])
