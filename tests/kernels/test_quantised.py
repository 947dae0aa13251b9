"""Products with quantised weights: the same as those of the numbers that they stand for, on every kind of processor."""

import numpy as np
import pytest
from numba import njit

from seqloom.kernels import intrinsics
from seqloom.kernels.quantised import multiply_tiles, product_quantised, round_to
from seqloom.models.network.quantised import Quantised
from tests.twins import quantised as twin


def made(rows, columns, bits, n):
    rng = np.random.default_rng(rows + n)
    matrix = Quantised.of(rng.normal(size=(rows, columns)).astype(np.float32), bits)
    return matrix, rng.normal(size=(n, columns)).astype(np.float32)


def product(kernel, matrix, x):
    tiles, blocks, _ = matrix.scale.shape
    out = np.full((len(x), 16 * tiles), np.nan, np.float32)
    kernel(matrix.weight, *matrix.halves, *round_to(x, blocks, matrix.fine), 0, tiles, out)
    return out[:, :len(matrix)]


def rounded(x, fine):
    """As `round_to` does it, with the halves of 16 bits put together."""
    n, blocks = len(x), -(-x.shape[1] // 32)
    numbers, scale, total = round_to(x, blocks, fine)
    halves = numbers.reshape(n, blocks, -1, 32).astype(np.int64)
    return (256 * halves[:, :, 0] + halves[:, :, 1] if fine else halves[:, :, 0]).reshape(n, -1), scale, total


@pytest.fixture(scope="module", params=["this processor", "any processor"])
def kernel(request):
    """Also as it is compiled where there is no instruction for it."""
    if request.param == "this processor":
        return multiply_tiles
    patch = pytest.MonkeyPatch()
    patch.setattr(intrinsics, "has_vnni", lambda: False)
    plain = njit(multiply_tiles.py_func)
    for bits in (8, 4):
        product(plain, *made(16, 32, bits, 1))
    patch.undo()
    assert not any("vpdpbusd" in code for code in plain.inspect_asm().values())
    return plain


@pytest.mark.parametrize("n", [1, 2, 8, 9, 11, 21])
@pytest.mark.parametrize(("rows", "columns"), [(16, 32), (33, 70), (5, 8)])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("fine", [False, True])
def test_product(kernel, fine, bits, rows, columns, n):
    matrix, x = made(rows, columns, bits, n)
    matrix = matrix.finely() if fine else matrix
    numbers, scales, _ = rounded(x, fine)
    x64 = (numbers * np.repeat(scales.astype(np.float64), 32, axis=1))[:, :columns]
    weights = twin.floats(matrix.shape, matrix.weight, matrix.scale, matrix.minimum)
    found = product(kernel, matrix, x)
    assert np.allclose(found, x64 @ weights.T, rtol=1e-5, atol=1e-5)
    assert np.allclose(product_quantised(matrix.weight, *matrix.halves, x, fine)[:, :rows], found, rtol=1e-6, atol=1e-6)
    assert np.array_equal(matrix._shared(x)[:, :rows], matrix(x))
    assert np.allclose(matrix.floats(), weights, rtol=1e-6, atol=1e-6)
    assert np.array_equal(matrix[np.array([rows - 1, 0])], matrix.floats()[[rows - 1, 0]])


@pytest.mark.parametrize("fine", [False, True])
def test_the_largest_numbers_do_not_overflow(kernel, fine):
    for sign in (1, -1):
        matrix = Quantised.of(np.full((16, 64), sign, np.float32), 8)
        matrix = matrix.finely() if fine else matrix
        assert np.allclose(product(kernel, matrix, np.full((1, 64), 1, np.float32)), 64 * sign, rtol=1e-3)
        assert np.allclose(product(kernel, matrix, np.full((1, 64), -1, np.float32)), -64 * sign, rtol=1e-3)


@pytest.mark.parametrize("fine", [False, True])
def test_rounding(fine):
    x = np.random.default_rng(0).normal(size=(3, 70)).astype(np.float32)
    x[1, 32:64] = 0
    x[2, 64:] *= 1e-30
    numbers, scale, total = rounded(x, fine)
    expected, scales, sums = twin.rounded(x, twin.LARGEST_FINE if fine else 127)
    assert np.abs(numbers - expected).max() <= fine  # among so many numbers float32 may choose the neighbour
    assert (numbers == expected).mean() > 0.98
    assert np.allclose(scale, scales, rtol=1e-6)
    assert np.array_equal(total, numbers.reshape(3, 3, 32).sum(axis=2))
    assert fine or np.array_equal(total, sums)


def test_16_bits_are_hardly_rounded():
    """Of a row in which one number stands out, which 8 bits leave few steps to its neighbours."""
    matrix, x = made(48, 96, 8, 3)
    x[:, 5] = 40
    exact = x @ matrix.floats().T
    coarse, fine = (np.abs(each(x) - exact).max() for each in (matrix, matrix.finely()))
    assert fine < 0.01 < 100 * fine < coarse


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_noticed(broken):
    x = np.ones((1, 40), np.float32)
    x[0, 35] = broken
    matrix = Quantised.of(np.ones((16, 40), np.float32), 8)
    assert not np.isfinite(matrix(x)).any()
    assert not np.isfinite(matrix.finely()(x)).any()


def test_small_and_negative_scales_are_read_as_numpy_reads_them():
    """A scale of other programs may be negative or below the smallest normal float16."""
    matrix, x = made(16, 32, 8, 1)
    scale = np.array([-1.5, 6e-8, -3e-6, 65504] * 4, np.float16).reshape(1, 1, 16)
    changed = Quantised(matrix.shape, matrix.weight, scale, matrix.minimum)
    ratio = changed(x) / matrix(x)
    assert np.allclose(ratio, scale[:, 0].astype(np.float64) / matrix.scale[:, 0].astype(np.float64), rtol=1e-4)
