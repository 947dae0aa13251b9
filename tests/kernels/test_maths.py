"""Each formula against its twin in float64, and rows that are not numbers."""

import numpy as np
import pytest

from seqloom.kernels import maths
from seqloom.kernels.parallel import TEAM
from tests.twins import maths as twin

NO_BIAS = np.empty(0, np.float32)
NEGATIVE_NAN = np.array([0xFFC00000], np.uint32).view(np.float32)[0]
NOT_FINITE = [np.float32(np.nan), NEGATIVE_NAN, np.float32(np.inf), np.float32(-np.inf)]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# ---- of one number

SPREAD = np.concatenate(
    [np.linspace(-60, 60, 4001), np.linspace(-1, 1, 801), [-87, 87, 1e-20, -1e-20, 0]]
).astype(np.float32)


def of_each(function, x):
    return np.array([function(value) for value in x], np.float64)


def test_exp():
    np.testing.assert_allclose(
        of_each(maths.exp, SPREAD), np.exp(SPREAD.astype(np.float64)), rtol=3e-7
    )
    assert 0 < maths.exp(np.float32(-1e9)) < 1e-37  # neither zero, which would be divided by, ...
    assert 1e38 < maths.exp(np.float32(1e9)) < np.inf  # ... nor infinite


@pytest.mark.parametrize(
    ("function", "expected", "tolerance"),
    [
        (maths.tanh, np.tanh, {"rtol": 4e-7, "atol": 0}),
        (maths.sigmoid, twin.sigmoid, {"rtol": 1e-6, "atol": 2e-7}),
        (maths.gelu, twin.gelu, {"rtol": 1e-6, "atol": 1e-6}),
        (maths.gelu_erf, twin.gelu_erf, {"rtol": 1e-6, "atol": 1e-6}),
    ],
    ids=["tanh", "sigmoid", "gelu", "gelu_erf"],
)
def test_functions_of_one_number(function, expected, tolerance):
    np.testing.assert_allclose(
        of_each(function, SPREAD), expected(SPREAD.astype(np.float64)), **tolerance
    )


def test_tanh_and_sigmoid_stay_within_their_bounds():
    for x in (1e3, 1e30, np.inf):
        assert [maths.tanh(np.float32(sign * x)) for sign in (1, -1)] == [1, -1]
        assert [maths.sigmoid(np.float32(sign * x)) for sign in (1, -1)] == [1, 0]
    assert np.abs(of_each(maths.tanh, np.linspace(8, 10, 2001, dtype=np.float32))).max() == 1


@pytest.mark.parametrize(
    "function", [maths.exp, maths.tanh, maths.sigmoid, maths.gelu, maths.gelu_erf]
)
def test_what_is_no_number_stays_that(function):
    assert np.isnan(function(np.float32(np.nan)))
    assert np.isnan(function(NEGATIVE_NAN))


def test_whole_numbers_have_the_order_of_their_floats():
    x = np.sort(np.append(normal(200), [np.inf, -np.inf, 0, 1e-40, -1e-40]).astype(np.float32))
    placed = [int(maths.in_order(bits)) for bits in x.view(np.int32)]
    assert placed == sorted(placed)
    assert [int(maths.in_order(np.int32(number))) for number in placed] == x.view(np.int32).tolist()


# ---- of rows

SIZES = [1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 100, 1000]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 7, 40])
def test_sums_of_two_under_a_function(n, kind):
    a, b, out = 3 * normal(n).astype(kind), normal(n, seed=1).astype(kind), np.empty(n, kind)
    tolerance = 1e-6 if kind is np.float32 else 1e-14
    both = a.astype(np.float64) + b
    for function, expected in ((maths.sigmoid_sum, twin.sigmoid), (maths.tanh_sum, np.tanh)):
        function(a, b, out)
        np.testing.assert_allclose(out, expected(both), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", SIZES)
def test_products_and_sums_of_vectors(n):
    a, b = normal(n), normal(n, seed=1)
    assert maths.dot(a, b) == pytest.approx(a.astype(np.float64) @ b, abs=1e-4)
    out = b.copy()
    maths.add_scaled(out, np.float32(0.3), a)
    np.testing.assert_allclose(out, b + 0.3 * a.astype(np.float64), atol=1e-6)
    rows = np.stack([a, b])
    maths.add_rows(rows, np.stack([b, a]))
    np.testing.assert_array_equal(rows, np.stack([a + b, a + b]))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0), (5, 0), (200, 0), (5, -90), (5, 90)])
def test_softmax(n, scale, shift):
    x = (scale * normal(n) + shift).astype(np.float32)
    expected = twin.softmax(x.astype(np.float64))
    shares = x.copy()
    maths.softmax(shares)
    np.testing.assert_allclose(shares, expected, rtol=2e-5, atol=1e-7)
    assert shares.sum() == pytest.approx(1, abs=1e-5)
    raised = x.copy()
    inverse = maths.exp_row(raised)
    np.testing.assert_allclose(raised * inverse, expected, rtol=2e-5, atol=1e-7)
    assert raised.max() == 1


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0), (5, 0), (200, 0), (5, -90), (5, 90)])
def test_log_softmax(n, scale, shift):
    x, bias = (scale * normal(3, n) + shift).astype(np.float32), normal(n, seed=1)
    for given in (NO_BIAS, bias):
        found = x.copy()
        maths.log_softmax(found, given, TEAM)
        logits = x.astype(np.float64) + (given if len(given) else 0)
        shifted = logits - logits.max(axis=1, keepdims=True)
        expected = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(
            found, expected, rtol=1e-6, atol=1e-6 * max(scale, abs(shift), 1)
        )


def test_log_softmax_keeps_what_is_impossible():
    x = np.array([[0, -np.inf, 1]], np.float32)
    maths.log_softmax(x, NO_BIAS, TEAM)
    np.testing.assert_allclose(x, [[-1.3132617, -np.inf, -0.3132617]], rtol=1e-6)


def test_logits_that_float32_cannot_tell_apart_are_refused():
    x = np.array([[1e5, 1e5 - 1], [1, 2]], np.float32)
    maths.log_softmax(x, NO_BIAS, TEAM)
    assert np.isnan(x[0]).all()
    assert np.isfinite(x[1]).all()


@pytest.mark.parametrize("n", SIZES)
def test_norms(n):
    x, weight, bias = 3 * normal(4, n) + 1, normal(n, seed=1), normal(n, seed=2)
    epsilon = np.float32(1e-5)
    found = x.copy()
    maths.norm_rows(found, weight, bias, epsilon)
    expected = twin.layer_norm(x.astype(np.float64), weight, bias, epsilon)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    found = x.copy()
    maths.norm_rows(found, weight, NO_BIAS, epsilon)
    np.testing.assert_allclose(
        found, twin.rms_norm(x.astype(np.float64), weight, epsilon), rtol=1e-5, atol=1e-6
    )


def test_the_twins_cover_every_activation_function():
    assert (*twin.ACTIVATIONS, *twin.GATED) == maths.ACTIVATIONS
    assert maths.ACTIVATIONS[maths.GATED :] == tuple(twin.GATED)


@pytest.mark.parametrize("name", maths.ACTIVATIONS)
@pytest.mark.parametrize("n", [2, 14, 34, 128])
def test_activation_functions(name, n):
    x = 3 * normal(5, n)
    expected = twin.activate(x.astype(np.float64), name)
    found = maths.activate(x, maths.ACTIVATIONS.index(name))
    assert found.flags.c_contiguous
    assert (found is x) == (name in twin.ACTIVATIONS)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("d_head", [2, 6, 16, 64])
def test_rotary_positions(d_head):
    angles = np.random.default_rng(0).uniform(-10, 10, (20, d_head // 2))
    x, positions = normal(7, 3 * d_head + 5), np.array([0, 19, 3, 3, 7, 1, 0])
    expected = twin.rotate(x.astype(np.float64), positions, 3, angles)
    maths.rotate(
        x, positions, 3, np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    )
    np.testing.assert_allclose(x, expected, atol=2e-6)


def test_maxima_of_filters_over_characters():
    vectors, filters, bias = normal(9, 5), normal(6, 15, seed=1), normal(6, seed=2)
    ids, lengths = np.random.default_rng(0).integers(1, 9, (4, 7)), np.array([7, 1, 0, 3])
    ids[np.arange(7) >= lengths[:, None]] = 1 << 40  # what is beyond a word must not be read
    taps = np.stack([vectors @ part.T for part in np.split(filters, 3, axis=1)])
    out = np.full((4, 6), np.nan, np.float32)
    maths.character_maxima(ids, lengths, taps, bias, out)
    for word, length, maxima in zip(ids, lengths, out):
        padded = np.zeros((length + 2, 5), np.float32)
        padded[1:-1] = vectors[word[:length]]
        places = [filters @ padded[i : i + 3].ravel() + bias for i in range(length)]
        np.testing.assert_allclose(maxima, np.max(places, 0) if length else np.zeros(6), atol=1e-5)


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_maxima_over_something_broken_are_no_numbers(broken):
    taps, out = normal(3, 5, 40), np.empty((2, 40), np.float32)
    taps[:, 4] = np.nan
    ids = np.array([[1, 2, 3], [1, 2, 3]])
    ids[0, broken] = 4
    maths.character_maxima(ids, np.array([3, 3]), taps, normal(40), out)
    assert np.isnan(out[0]).all()
    assert np.isfinite(out[1]).all()


# ---- a row is what it is whatever stands beside it, and what is broken is noticed

ROW_BY_ROW = {
    "log_softmax": lambda x: maths.log_softmax(x, NO_BIAS, TEAM),
    "layer": lambda x: maths.norm_rows(
        x, np.ones(x.shape[1], np.float32), np.ones(x.shape[1], np.float32), np.float32(1e-5)
    ),
    "rms": lambda x: maths.norm_rows(x, np.ones(x.shape[1], np.float32), NO_BIAS, np.float32(1e-5)),
    **{
        name: lambda x, kind=kind: maths.activate(x, kind)
        for kind, name in enumerate(maths.ACTIVATIONS)
    },
}


@pytest.mark.parametrize("name", ROW_BY_ROW)
@pytest.mark.parametrize("n", [2, 18, 66])
def test_rows_do_not_see_each_other(name, n):
    x = normal(6, n)
    together = x.copy()
    result = ROW_BY_ROW[name](together)
    together = together if result is None else result
    for i in range(len(x)):
        alone = x[i : i + 1].copy()
        result = ROW_BY_ROW[name](alone)
        np.testing.assert_array_equal((alone if result is None else result)[0], together[i])


@pytest.mark.parametrize("broken", NOT_FINITE)
@pytest.mark.parametrize("name", ["layer", "rms", "log_softmax"])
@pytest.mark.parametrize("n", [3, 16, 70])
def test_rows_with_something_broken_are_noticed(name, n, broken):
    x = normal(3, n)
    x[1, n // 2] = broken
    ROW_BY_ROW[name](x)
    assert not np.isfinite(x[1]).all()
    assert np.isfinite(x[[0, 2]]).all()


@pytest.mark.parametrize("broken", NOT_FINITE[:3])
@pytest.mark.parametrize("n", [3, 16, 70])
def test_shares_of_something_broken_are_no_numbers(n, broken):
    x = normal(n)
    x[n // 2] = broken
    maths.softmax(x)
    assert np.isnan(x).all()


@pytest.mark.parametrize("broken", NOT_FINITE[:2])
@pytest.mark.parametrize("name", maths.ACTIVATIONS)
@pytest.mark.parametrize("n", [4, 64])
def test_activation_functions_keep_what_is_no_number(name, n, broken):
    x = normal(2, n)
    x[1, 1] = broken
    found = maths.activate(x, maths.ACTIVATIONS.index(name))
    assert np.isnan(found[1, 1])
    assert np.isfinite(found).sum() == found.size - 1
