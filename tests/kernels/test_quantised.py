"""Products with quantised weights: the same as those of the numbers that they stand for, on every
kind of processor.
"""

import numpy as np
import pytest
from numba import njit

from seqloom.kernels import intrinsics
from seqloom.kernels.matmul import linear
from seqloom.kernels.quantised import linear_tiles, multiply_tiles, round_inputs
from seqloom.runtime.quantised import Quantised
from tests.sharing import shared_by
from tests.twins import quantised as twin


def made(rows, columns, bits, n):
    rng = np.random.default_rng(rows + n)
    matrix = Quantised.of(rng.normal(size=(rows, columns)).astype(np.float32), bits)
    return matrix, rng.normal(size=(n, columns)).astype(np.float32)


def product(kernel, tiles, x):
    out = np.full((len(x), 16 * len(tiles.scale)), np.nan, np.float32)
    kernel(
        tiles, *round_inputs(x, tiles.scale.shape[1], tiles.inputs_16_bit), 0, len(tiles.scale), out
    )
    return out[:, : tiles.rows]


def rounded(x, inputs_16_bit):
    """As `round_inputs` does it, with the halves of 16 bits put together."""
    numbers, scale, total = round_inputs(x, -(-x.shape[1] // 32), inputs_16_bit)
    assert numbers.dtype == np.int8
    if not inputs_16_bit:
        return numbers.astype(np.int64), scale, total
    return 256 * numbers[::2].astype(np.int64) + numbers[1::2], scale, total


@pytest.fixture(scope="module", params=["this processor", "any processor"])
def kernel(request):
    """Also as it is compiled where there is no instruction for it."""
    if request.param == "this processor":
        return multiply_tiles
    patch = pytest.MonkeyPatch()
    patch.setattr(intrinsics, "has_vnni", lambda: False)
    plain = njit(multiply_tiles.py_func)
    for bits in (8, 4):
        matrix, x = made(16, 32, bits, 1)
        product(plain, matrix.tiles(), x)
    patch.undo()
    assert not any("vpdpbusd" in code for code in plain.inspect_asm().values())
    return plain


@pytest.mark.parametrize("n", [1, 2, 4, 5, 8, 9, 11, 21])
@pytest.mark.parametrize(("rows", "columns"), [(16, 32), (33, 70), (5, 8)])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("inputs_16_bit", [False, True])
def test_product(kernel, inputs_16_bit, bits, rows, columns, n):
    matrix, x = made(rows, columns, bits, n)
    numbers, scales, _ = rounded(x, inputs_16_bit)
    x64 = (numbers * np.repeat(scales.astype(np.float64), 32, axis=1))[:, :columns]
    weights = twin.floats(matrix.shape, matrix.weight, matrix.scale, matrix.minimum)
    tiles = matrix.tiles(inputs_16_bit=inputs_16_bit)
    found = product(kernel, tiles, x)
    np.testing.assert_allclose(found, x64 @ weights.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(linear_tiles(*tiles, x), found)
    np.testing.assert_array_equal(linear(tiles, x), found)
    with shared_by(2):
        np.testing.assert_array_equal(linear(tiles, x), found)
    np.testing.assert_allclose(matrix.floats(), weights, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(matrix[np.array([rows - 1, 0])], matrix.floats()[[rows - 1, 0]])


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("inputs_16_bit", [False, True])
def test_a_part_of_the_tiles_is_written_alone(kernel, bits, inputs_16_bit):
    matrix, x = made(70, 40, bits, 6)
    bias = np.random.default_rng(1).normal(size=70).astype(np.float32)
    tiles = matrix.tiles(bias, inputs_16_bit=inputs_16_bit)
    out = np.full((6, 80), np.nan, np.float32)
    kernel(tiles, *round_inputs(x, 2, inputs_16_bit), 1, 3, out)
    assert np.isnan(out[:, :16]).all()
    assert np.isnan(out[:, 48:]).all()
    np.testing.assert_array_equal(out[:, 16:48], linear(tiles, x)[:, 16:48])
    np.testing.assert_allclose(
        linear(tiles, x), linear(matrix.tiles(inputs_16_bit=inputs_16_bit), x) + bias, atol=1e-6
    )


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("inputs_16_bit", [False, True])
def test_a_row_is_multiplied_as_if_it_were_alone(kernel, bits, inputs_16_bit):
    matrix, x = made(40, 70, bits, 23)
    tiles = matrix.tiles(inputs_16_bit=inputs_16_bit)
    alone = np.concatenate([product(kernel, tiles, x[i : i + 1]) for i in range(len(x))])
    for n in range(1, len(x) + 1):
        np.testing.assert_array_equal(product(kernel, tiles, x[:n]), alone[:n])


@pytest.mark.parametrize("inputs_16_bit", [False, True])
def test_the_largest_numbers_do_not_overflow(kernel, inputs_16_bit):
    for sign in (1, -1):
        tiles = Quantised.of(np.full((16, 64), sign, np.float32), 8).tiles(
            inputs_16_bit=inputs_16_bit
        )
        for n in (1, 8):
            for x in (1, -1):
                found = product(kernel, tiles, np.full((n, 64), x, np.float32))
                np.testing.assert_allclose(found, 64 * sign * x, rtol=1e-3)


@pytest.mark.parametrize("inputs_16_bit", [False, True])
def test_rounding(inputs_16_bit):
    x = np.random.default_rng(0).normal(size=(3, 70)).astype(np.float32)
    x[1, 32:64] = 0
    x[2, 64:] *= 1e-30
    numbers, scale, total = rounded(x, inputs_16_bit)
    expected, scales, sums = twin.rounded(x, twin.LARGEST_FINE if inputs_16_bit else 127)
    assert (
        np.abs(numbers - expected).max() <= inputs_16_bit
    )  # among so many numbers float32 may choose the neighbour
    assert (numbers == expected).mean() > 0.98
    np.testing.assert_allclose(scale, scales, rtol=1e-6)
    np.testing.assert_array_equal(total, numbers.reshape(3, 3, 32).sum(axis=2))
    assert inputs_16_bit or np.array_equal(total, sums)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("inputs_16_bit", [False, True])
def test_no_rows_have_no_products(bits, inputs_16_bit):
    matrix, x = made(33, 70, bits, 0)
    assert linear(matrix.tiles(inputs_16_bit=inputs_16_bit), x).shape == (0, 33)


def test_16_bits_are_hardly_rounded():
    """Of a row in which one number stands out, which 8 bits leave few steps to its neighbours."""
    matrix, x = made(48, 96, 8, 3)
    x[:, 5] = 40
    exact = x @ matrix.floats().T
    coarse, inputs_16_bit = (
        np.abs(linear(matrix.tiles(inputs_16_bit=inputs_16_bit), x) - exact).max()
        for inputs_16_bit in (False, True)
    )
    assert inputs_16_bit < 0.01 < 100 * inputs_16_bit < coarse


@pytest.mark.parametrize("n", [1, 8])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("inputs_16_bit", [False, True])
def test_what_is_not_finite_is_noticed_in_its_row_alone(broken, n, inputs_16_bit):
    x = np.ones((n + 1, 40), np.float32)
    x[:n, 35] = broken
    found = linear(
        Quantised.of(np.ones((16, 40), np.float32), 8).tiles(inputs_16_bit=inputs_16_bit), x
    )
    assert not np.isfinite(found[:n]).any()
    np.testing.assert_allclose(found[n], 40, rtol=1e-2)


def test_small_and_negative_scales_are_read_as_numpy_reads_them():
    """A scale of other programs may be negative or below the smallest normal float16."""
    matrix, x = made(16, 32, 8, 1)
    scale = np.array([-1.5, 6e-8, -3e-6, 65504] * 4, np.float16).reshape(1, 1, 16)
    changed = Quantised(matrix.shape, matrix.weight, scale, matrix.minimum)
    ratio = linear(changed.tiles(), x) / linear(matrix.tiles(), x)
    expected = scale[:, 0].astype(np.float64) / matrix.scale[:, 0].astype(np.float64)
    np.testing.assert_allclose(ratio, expected, rtol=1e-4)
