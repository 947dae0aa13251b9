"""Cells against their formulas in float64, their gradients against finite differences, and walks
against steps.
"""

import numpy as np
import pytest

from seqloom.kernels import recurrent
from seqloom.kernels.maths import HARD_SIGMOID, LEAKY_RELU, RELU, TANH
from seqloom.kernels.matmul import linear, pack
from seqloom.runtime.quantised import Quantised
from tests.kernels.test_attention import finite_differences
from tests.sharing import helped, shared_by
from tests.twins import recurrent as twin

NONE = np.empty(0, np.float32)
SIZES = [1, 5, 16, 33]
VARIED = recurrent.Formula(HARD_SIGMOID, LEAKY_RELU, clamp=0.5)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("normed", [False, True])
def test_lstm(size, normed):
    gates, from_h, c = normal(3, 4 * size), normal(3, 4 * size, seed=1), normal(3, size, seed=2)
    norm = (normal(size, seed=3), normal(size, seed=4)) if normed else (NONE, NONE)
    expected = twin.lstm(
        *(a.astype(np.float64) for a in (gates, from_h, c)), *(norm if normed else ())
    )
    h = np.full((3, size), np.nan, np.float32)
    recurrent.lstm_cell(gates, from_h, c, *norm, recurrent.PLAIN, h)
    for found, right in zip((gates, c, h), expected):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=5e-6)


@pytest.mark.parametrize("size", SIZES)
def test_variants_of_the_lstm(size):
    gates, from_h, c = normal(3, 4 * size), normal(3, 4 * size, seed=1), normal(3, size, seed=2)
    sums = (gates + from_h).astype(np.float64)
    hard, leaky = twin.ACTIVATIONS["hard-sigmoid"], twin.ACTIVATIONS["leaky-relu"]
    i, f, g, o = np.split(sums, 4, axis=1)
    expected = np.clip(hard(f) * c + hard(i) * leaky(g), -0.5, 0.5)
    h = np.full((3, size), np.nan, np.float32)
    recurrent.lstm_cell(gates, from_h, c, NONE, NONE, VARIED, h)
    np.testing.assert_allclose(c, expected, atol=1e-6)
    np.testing.assert_allclose(h, hard(o) * leaky(expected), atol=1e-6)
    assert np.abs(c).max() <= 0.5


def test_clamping_keeps_what_is_no_number():
    c = np.array([[np.nan, 3.0, -3.0]], np.float32)
    gates, h = np.full((1, 12), 9, np.float32), np.empty((1, 3), np.float32)
    recurrent.lstm_cell(gates, np.zeros((1, 12), np.float32), c, NONE, NONE, VARIED, h)
    assert np.isnan(c[0, 0])
    assert np.isnan(h[0, 0])
    assert c[0, 1:].tolist() == [0.5, 0.5]  # the candidate is 9


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_gru(size, keep, kind):
    from_x, from_h = normal(3, 3 * size).astype(kind), normal(3, 3 * size, seed=1).astype(kind)
    bias, before = normal(size, seed=2).astype(kind), normal(3, size, seed=3).astype(kind)
    gates, inner, after = (
        np.full(shape, np.nan, kind) for shape in ((3, 3 * size), (3, size), (3, size))
    )
    recurrent.gru_cell(from_x, from_h, bias, before, keep, gates, inner, after)
    expected = twin.gru(*(a.astype(np.float64) for a in (from_x, from_h, bias, before)), keep)
    tolerance = 2e-6 if kind is np.float32 else 1e-14
    for found, right in zip((gates, after), expected):
        np.testing.assert_allclose(found, right, atol=tolerance)
    np.testing.assert_allclose(inner, from_h[:, 2 * size :] + bias, atol=tolerance)


@pytest.mark.parametrize("keep", [False, True])
def test_gradients_of_the_gru(keep):
    """Of a loss that sees the new h twice: as this step's output, and through later steps."""
    size, rows = 4, 3
    from_x, from_h, before = (
        normal(*shape, seed=i).astype(np.float64)
        for i, shape in enumerate([(rows, 3 * size), (rows, 3 * size), (rows, size)])
    )
    bias, above, later = (
        normal(*shape, seed=5 + i).astype(np.float64)
        for i, shape in enumerate([(size,), (rows, size), (rows, size)])
    )

    def loss():
        return (twin.gru(from_x, from_h, bias, before, keep)[1] * (above + later)).sum()

    gates, inner, after = (
        np.empty(shape) for shape in ((rows, 3 * size), (rows, size), (rows, size))
    )
    recurrent.gru_cell(from_x, from_h, bias, before, keep, gates, inner, after)
    carried, d_from_x, d_from_h = (
        later.copy(),
        np.full_like(from_x, np.nan),
        np.full_like(from_h, np.nan),
    )
    recurrent.gru_cell_back(gates, inner, before, above, keep, carried, d_from_x, d_from_h)
    for array, gradient in ((before, carried), (from_x, d_from_x), (from_h, d_from_h)):
        np.testing.assert_allclose(gradient, finite_differences(loss, array), atol=1e-8)
    np.testing.assert_allclose(
        d_from_h[:, 2 * size :].sum(axis=0), finite_differences(loss, bias), atol=1e-8
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keep", [False, True])
def test_gru_whose_reset_comes_before_the_product(size, keep):
    from_x, from_h = normal(3, 3 * size), normal(3, 2 * size, seed=1)
    h, weight = normal(3, size, seed=2), normal(size, size, seed=3)
    gates, reset = (
        np.full((3, 2 * size), np.nan, np.float32),
        np.full((3, size), np.nan, np.float32),
    )
    recurrent.gru_reset(from_x[:, : 2 * size], from_h, h, recurrent.PLAIN, gates, reset)
    candidate, out = np.full((3, size), np.nan, np.float32), np.full((3, size), np.nan, np.float32)
    from_reset = reset @ weight.T
    recurrent.gru_update(
        from_x[:, 2 * size :], from_reset, gates, h, keep, recurrent.PLAIN, candidate, out
    )
    expected = twin.gru_reset_before(
        *(a.astype(np.float64) for a in (from_x, from_h, h, weight)), keep
    )
    for found, right in zip((gates, candidate, out), expected):
        np.testing.assert_allclose(found, right, atol=1e-5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("normed", [False, True])
def test_rnn(size, relu, normed):
    from_x, from_h = normal(3, size), normal(3, size, seed=1)
    norm = (normal(size, seed=3), normal(size, seed=4)) if normed else (NONE, NONE)
    out = np.full((3, size), np.nan, np.float32)
    recurrent.rnn_cell(from_x, from_h, *norm, RELU if relu else TANH, out)
    expected = twin.rnn(
        from_x.astype(np.float64), from_h.astype(np.float64), relu, *(norm if normed else ())
    )
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=5e-6)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_what_is_not_finite_is_noticed_in_its_row_alone(broken):
    """An infinite sum of gates is not: sigmoid and tanh end at one."""
    size = 20
    c = normal(3, size)
    c[1, 7] = broken
    gates, from_h, h = (
        normal(3, 4 * size),
        normal(3, 4 * size, seed=1),
        np.empty((3, size), np.float32),
    )
    recurrent.lstm_cell(gates, from_h, c, NONE, NONE, recurrent.PLAIN, h)
    assert not np.isfinite(c[1, 7])
    assert np.isfinite(c[[0, 2]]).all()
    before = normal(3, size)
    before[1, 7] = broken
    gates, inner, after = (np.empty((3, width), np.float32) for width in (3 * size, size, size))
    recurrent.gru_cell(
        normal(3, 3 * size), normal(3, 3 * size), normal(size), before, True, gates, inner, after
    )
    assert not np.isfinite(after[1, 7])
    assert np.isfinite(after[[0, 2]]).all()
    out = np.empty((3, size), np.float32)
    from_x = normal(3, size)
    from_x[1, 7] = broken
    recurrent.rnn_cell(from_x, normal(3, size), NONE, NONE, RELU, out)
    assert not np.isfinite(out[1, 7])
    assert np.isfinite(out[[0, 2]]).all()


def test_rows_that_are_no_numbers_stay_that():
    size = 20
    for kind, width in ((recurrent.LSTM, 4), (recurrent.GRU, 3), (recurrent.RNN, 1)):
        projected = normal(6, width * size)
        projected[1] = np.nan
        h, c, out = (
            np.zeros((2, size), np.float32),
            np.zeros((2, size), np.float32),
            np.empty((6, size), np.float32),
        )
        direction = recurrent.Direction(
            projected, pack(normal(width * size, size)), np.zeros(size, np.float32), h, c
        )
        recurrent.walk_layer(
            kind, recurrent.PLAIN, np.array([0, 3, 6]), np.array([0, 1]), direction, direction, out
        )
        assert np.isfinite(out).all(axis=1).tolist() == [True, False, False, True, True, True]


# ---- whole sequences

KINDS = {
    "rnn": recurrent.RNN,
    "lstm": recurrent.LSTM,
    "lstm varied": recurrent.LSTM,
    "gru": recurrent.GRU,
}
GATES = {"rnn": 1, "lstm": 4, "lstm varied": 4, "gru": 3}
FORMULAS = {
    "rnn": recurrent.Formula(values=RELU),
    "lstm": recurrent.PLAIN,
    "lstm varied": VARIED,
    "gru": recurrent.PLAIN,
}


def step(name, projected, w_h, b_h, formula, h, c):
    """One step of one sequence, as a decoder goes: new h and c, all (1, ...)."""
    from_h = linear(w_h, h)
    h, c, from_x = h.copy(), c.copy(), projected.copy()
    if name.startswith("lstm"):
        recurrent.lstm_cell(from_x, from_h, c, NONE, NONE, formula, h)
    elif name == "gru":
        gates, inner, after = np.empty_like(from_x), np.empty_like(h), np.empty_like(h)
        recurrent.gru_cell(from_x, from_h, b_h, h, True, gates, inner, after)
        h = after
    else:
        recurrent.rnn_cell(from_x, from_h, NONE, NONE, formula.values, h)
    return h, c


@pytest.mark.parametrize("weights", ["float32", "8 bits", "4 bits"])
@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("size", [5, 33])
def test_walks_are_steps_to_the_bit(name, size, both_ways, weights):
    """Whichever sequences are beside one, and whoever walks in the other direction."""
    lengths = np.array([4, 0, 9, 1, 4, 12])
    offsets, order = np.concatenate([[0], np.cumsum(lengths)]), np.argsort(-lengths, kind="stable")
    n, total, width = len(lengths), int(lengths.sum()), GATES[name] * size
    firsts = [(normal(n, size, seed=3 + seed), normal(n, size, seed=4 + seed)) for seed in (0, 10)]

    def directions():
        for seed, (h, c) in zip((0, 10), firsts):
            matrix, b_h = normal(width, size, seed=1 + seed), normal(size, seed=2 + seed)
            w_h = (
                pack(matrix)
                if weights == "float32"
                else Quantised.of(matrix, int(weights[0])).tiles()
            )
            yield recurrent.Direction(normal(total, width, seed=seed), w_h, b_h, h.copy(), c.copy())

    def walked():
        out = np.full((total, (1 + both_ways) * size), np.nan, np.float32)
        forward, backward = directions()
        last = backward if both_ways else forward
        recurrent.walk_layer(KINDS[name], FORMULAS[name], offsets, order, forward, last, out)
        return out, forward, backward

    with shared_by(2):
        found = list(helped(walked)) if both_ways else [walked()]
    for out, *walkers in found[-3:]:
        for reverse, (walker, (first_h, first_c)) in enumerate(
            zip(walkers[: 1 + both_ways], firsts)
        ):
            for s in range(n):
                own_h, own_c = first_h[s : s + 1], first_c[s : s + 1]
                steps = range(offsets[s], offsets[s + 1])
                for place in reversed(steps) if reverse else steps:
                    own_h, own_c = step(
                        name,
                        walker.projected[place : place + 1],
                        walker.w_h,
                        walker.b_h,
                        FORMULAS[name],
                        own_h,
                        own_c,
                    )
                    np.testing.assert_array_equal(out[place, reverse * size :][:size], own_h[0])
                np.testing.assert_array_equal(walker.h[s], own_h[0])
                if name.startswith("lstm"):
                    np.testing.assert_array_equal(walker.c[s], own_c[0])


def test_where_the_steps_of_sequences_lie():
    offsets, order, places = np.array([0, 2, 2, 7]), np.array([2, 0, 1]), np.empty(3, np.int64)
    found = []
    for reverse in (False, True):
        for t in range(6):
            n = recurrent.step_rows(offsets, order, t, reverse, places)
            found.append(places[:n].tolist())
    assert found == [[2, 0], [3, 1], [4], [5], [6], [], [6, 1], [5, 0], [4], [3], [2], []]
