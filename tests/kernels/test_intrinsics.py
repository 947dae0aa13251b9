"""Pieces of LLVM against NumPy, also as they are compiled where the processor has no instruction for them."""

import numpy as np
import pytest
from numba import njit

from seqloom.kernels import intrinsics
from seqloom.kernels.intrinsics import at_least, product_of_row, products_of_64

RNG = np.random.default_rng(0)


@pytest.fixture(params=["this processor", "any processor"])
def processor(request, monkeypatch):
    if request.param == "any processor":
        monkeypatch.setattr(intrinsics, "has_vnni", lambda: False)


@pytest.mark.parametrize("vectors", [1, 2, 3])
def test_product_of_a_row_of_4_bit_numbers(processor, vectors):
    numbers = RNG.integers(0, 16, (5, vectors, 2, 64)).astype(np.uint8)
    x = RNG.integers(-127, 128, 128 * vectors).astype(np.int8)
    rows = (numbers[:, :, 0] | numbers[:, :, 1] << 4).reshape(5, -1)
    kernel = njit(lambda rows, row, x: product_of_row(rows, row, x))
    wanted = numbers.reshape(5, -1).astype(int) @ x
    assert [kernel(rows, row, x) for row in range(5)] == wanted.tolist()
    extreme = np.full_like(rows, 255), np.full(128 * vectors, -127, np.int8)
    assert kernel(extreme[0], 0, extreme[1]) == -127 * 15 * 128 * vectors


@pytest.mark.parametrize("eights", [1, 2, 5])
def test_products_of_64_rows_of_4_bit_numbers(processor, eights):
    numbers = RNG.integers(0, 16, (3, 64, eights, 2, 4)).astype(np.uint8)
    x = RNG.integers(-127, 128, 8 * eights).astype(np.int8)
    groups = np.ascontiguousarray((numbers[:, :, :, 0] | numbers[:, :, :, 1] << 4).swapaxes(1, 2))
    kernel, out = njit(lambda groups, group, x, out: products_of_64(groups, group, x, out)), np.empty(64, np.int32)
    for group in range(3):
        kernel(groups, group, x, out)
        assert np.array_equal(out, numbers[group].reshape(64, -1).astype(int) @ x)


def test_which_numbers_are_at_least_a_limit():
    values = RNG.normal(size=(4, 64)).astype(np.float32)
    values[1, 5], values[2, 7], values[3] = np.nan, np.inf, 0.5
    kernel = njit(lambda values, row, limit: at_least(values, row, limit))
    for row in range(4):
        found = kernel(values, row, np.float32(0.5))
        assert [bool(found >> i & 1) for i in range(64)] == (values[row] >= 0.5).tolist()
