"""Products with quantised weights: the same as those of the numbers that they stand for, on every kind of processor."""

import numpy as np
import pytest
from numba import njit

from seqloom.kernels import amx, intrinsics
from seqloom.kernels.quantised import multiply_tiles, product_quantised, round_to
from seqloom.kernels.quantised_amx import multiply_with_unit
from seqloom.models.network import quantised
from seqloom.models.network.quantised import Quantised
from tests.twins import quantised as twin


def made(rows, columns, bits, n):
    rng = np.random.default_rng(rows + n)
    matrix = Quantised.of(rng.normal(size=(rows, columns)).astype(np.float32), bits)
    return matrix, rng.normal(size=(n, columns)).astype(np.float32)


def size_of_groups(n, fine):
    return -(-n // -(-n // 8)) if fine else 0


def product(kernel, matrix, x):
    tiles, blocks, _ = matrix.scale.shape
    out = np.full((len(x), 16 * tiles), np.nan, np.float32)
    size = size_of_groups(len(x), matrix.fine)
    kernel(matrix.weight, *matrix.halves, *round_to(x, blocks, size), size, 0, tiles, out)
    return out[:, :len(matrix)]


def rounded(x, fine):
    """As `round_to` does it, with the halves of 16 bits put together."""
    n, blocks = len(x), -(-x.shape[1] // 32)
    size = size_of_groups(n, fine)
    numbers, scale, total = round_to(x, blocks, size)
    if not fine:
        return numbers.astype(np.int64), scale, total
    places = np.array([row // size * 2 * size + row % size for row in range(n)])
    return 256 * numbers[places].astype(np.int64) + numbers[places + size], scale, total


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
def test_product(monkeypatch, kernel, fine, bits, rows, columns, n):
    matrix, x = made(rows, columns, bits, n)
    matrix = matrix.finely() if fine else matrix
    numbers, scales, _ = rounded(x, fine)
    x64 = (numbers * np.repeat(scales.astype(np.float64), 32, axis=1))[:, :columns]
    weights = twin.floats(matrix.shape, matrix.weight, matrix.scale, matrix.minimum)
    found = product(kernel, matrix, x)
    assert np.allclose(found, x64 @ weights.T, rtol=1e-5, atol=1e-5)
    size = size_of_groups(n, fine)
    assert np.allclose(product_quantised(matrix.weight, *matrix.halves, x, size)[:, :rows], found, rtol=1e-6, atol=1e-6)
    monkeypatch.setattr(amx, "available", lambda: False)
    assert np.array_equal(matrix(x), found)
    monkeypatch.setattr(quantised, "SPLIT", 0)  # by several threads
    assert np.array_equal(matrix(x), found)
    assert np.allclose(matrix.floats(), weights, rtol=1e-6, atol=1e-6)
    assert np.array_equal(matrix[np.array([rows - 1, 0])], matrix.floats()[[rows - 1, 0]])


@pytest.mark.skipif(not amx.available(), reason="this processor has no matrix unit")
@pytest.mark.parametrize("n", [6, 7, 21, 24, 25, 48, 70])
@pytest.mark.parametrize(("rows", "columns"), [(16, 64), (33, 120), (96, 384)])
def test_the_matrix_unit_gives_the_same(monkeypatch, rows, columns, n):
    used = []
    monkeypatch.setattr(quantised, "multiply_with_unit", lambda *given: used.append(multiply_with_unit(*given)))
    matrix, x = made(rows, columns, 8, n)
    matrix = matrix.finely()
    found = matrix(x)
    assert used
    assert np.allclose(found, product(multiply_tiles, matrix, x), rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(quantised, "SPLIT", 0)  # by several threads
    assert np.array_equal(matrix(x), found)


@pytest.mark.parametrize(("n", "columns", "bits", "fine"), [
    (5, 64, 8, True), (8, 96, 8, True), (8, 64, 4, True), (8, 64, 8, False)])
def test_the_matrix_unit_is_left_alone_where_it_does_not_fit(monkeypatch, n, columns, bits, fine):
    monkeypatch.setattr(amx, "available", lambda: True)
    monkeypatch.setattr(quantised, "multiply_with_unit", None)
    matrix, x = made(16, columns, bits, n)
    assert np.isfinite((matrix.finely() if fine else matrix)(x)).all()


@pytest.mark.parametrize("fine", [False, True])
def test_the_largest_numbers_do_not_overflow(kernel, fine):
    for sign in (1, -1):
        matrix = Quantised.of(np.full((16, 64), sign, np.float32), 8)
        matrix = matrix.finely() if fine else matrix
        assert np.allclose(product(kernel, matrix, np.full((1, 64), 1, np.float32)), 64 * sign, rtol=1e-3)
        assert np.allclose(matrix(np.full((8, 64), 1, np.float32)), 64 * sign, rtol=1e-3)
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


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("fine", [False, True])
def test_no_rows_have_no_products(bits, fine):
    matrix, x = made(33, 70, bits, 0)
    assert (matrix.finely() if fine else matrix)(x).shape == (0, 33)


def test_16_bits_are_hardly_rounded():
    """Of a row in which one number stands out, which 8 bits leave few steps to its neighbours."""
    matrix, x = made(48, 96, 8, 3)
    x[:, 5] = 40
    exact = x @ matrix.floats().T
    coarse, fine = (np.abs(each(x) - exact).max() for each in (matrix, matrix.finely()))
    assert fine < 0.01 < 100 * fine < coarse


@pytest.mark.parametrize("n", [1, 8])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_noticed(broken, n):
    x = np.ones((n, 40), np.float32)
    x[:, 35] = broken
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
