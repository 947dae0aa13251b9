"""Products with quantised weights: the same as those of the numbers that they stand for, on every kind of processor."""

import numpy as np
import pytest
from numba import njit

from seqloom.kernels import quantised
from seqloom.kernels.quantised import multiply_tiles, product_quantised, round_rows
from seqloom.models.network.quantised import Quantised
from tests.twins import quantised as twin


def made(rows, columns, bits, n):
    rng = np.random.default_rng(rows + n)
    matrix = Quantised.of(rng.normal(size=(rows, columns)).astype(np.float32), bits)
    return matrix, rng.normal(size=(n, columns)).astype(np.float32)


def product(kernel, matrix, x):
    n, (tiles, blocks, _) = len(x), matrix.scale.shape
    numbers, total = np.empty((n, 32 * blocks), np.int8), np.empty((n, blocks), np.int32)
    scale, out = np.empty((n, blocks), np.float32), np.full((n, 16 * tiles), np.nan, np.float32)
    round_rows(x, numbers, scale, total)
    kernel(matrix.weight, *matrix.halves, numbers, scale, total, 0, tiles, out)
    return out[:, :len(matrix)]


@pytest.fixture(scope="module", params=["this processor", "any processor"])
def kernel(request):
    """Also as it is compiled where there is no instruction for it."""
    if request.param == "this processor":
        return multiply_tiles
    patch = pytest.MonkeyPatch()
    patch.setattr(quantised, "_has_vnni", lambda: False)
    plain = njit(multiply_tiles.py_func)
    for bits in (8, 4):
        product(plain, *made(16, 32, bits, 1))
    patch.undo()
    assert not any("vpdpbusd" in code for code in plain.inspect_asm().values())
    return plain


@pytest.mark.parametrize("n", [1, 2, 8, 11])
@pytest.mark.parametrize(("rows", "columns"), [(16, 32), (33, 70), (5, 8)])
@pytest.mark.parametrize("bits", [8, 4])
def test_product(kernel, bits, rows, columns, n):
    matrix, x = made(rows, columns, bits, n)
    numbers, scales, _ = twin.rounded(x)
    x64 = (numbers * np.repeat(scales, 32, axis=1))[:, :columns]
    weights = twin.floats(matrix.shape, matrix.weight, matrix.scale, matrix.minimum)
    found = product(kernel, matrix, x)
    assert np.allclose(found, x64 @ weights.T, rtol=1e-5, atol=1e-5)
    assert np.allclose(product_quantised(matrix.weight, *matrix.halves, x)[:, :rows], found, rtol=1e-6, atol=1e-6)
    assert np.array_equal(matrix._shared(x)[:, :rows], matrix(x))
    assert np.allclose(matrix.floats(), weights, rtol=1e-6, atol=1e-6)
    assert np.array_equal(matrix[np.array([rows - 1, 0])], matrix.floats()[[rows - 1, 0]])


def test_the_largest_numbers_do_not_overflow(kernel):
    for sign in (1, -1):
        matrix = Quantised.of(np.full((16, 64), sign, np.float32), 8)
        assert np.allclose(product(kernel, matrix, np.full((1, 64), 1, np.float32)), 64 * sign, rtol=1e-3)
        assert np.allclose(product(kernel, matrix, np.full((1, 64), -1, np.float32)), -64 * sign, rtol=1e-3)


def test_rounding():
    x = np.random.default_rng(0).normal(size=(3, 70)).astype(np.float32)
    x[1, 32:64] = 0
    x[2, 64:] *= 1e-30
    numbers, scale, total = np.empty((3, 96), np.int8), np.empty((3, 3), np.float32), np.empty((3, 3), np.int32)
    round_rows(x, numbers, scale, total)
    expected, scales, sums = twin.rounded(x)
    assert np.array_equal(numbers, expected)
    assert np.allclose(scale, scales, rtol=1e-6)
    assert np.array_equal(total, sums)


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_noticed(broken):
    x = np.ones((1, 40), np.float32)
    x[0, 35] = broken
    assert not np.isfinite(Quantised.of(np.ones((16, 40), np.float32), 8)(x)).any()


def test_small_and_negative_scales_are_read_as_numpy_reads_them():
    """A scale of other programs may be negative or below the smallest normal float16."""
    matrix, x = made(16, 32, 8, 1)
    scale = np.array([-1.5, 6e-8, -3e-6, 65504] * 4, np.float16).reshape(1, 1, 16)
    changed = Quantised(matrix.shape, matrix.weight, scale, matrix.minimum)
    ratio = changed(x) / matrix(x)
    assert np.allclose(ratio, scale[:, 0].astype(np.float64) / matrix.scale[:, 0].astype(np.float64), rtol=1e-4)
