"""Products of a few rows: equal to NumPy's, and of each row as if it were alone where that is promised."""

from __future__ import annotations

import numpy as np
import pytest

from seqloom.kernels.translate import product, product_of_each


@pytest.mark.parametrize(("n", "rows", "size"), [(1, 1, 1), (3, 7, 5), (9, 64, 33), (17, 130, 256)])
@pytest.mark.parametrize("multiply", [product, product_of_each])
def test_products_are_those_of_numpy(multiply, n, rows, size):
    rng = np.random.default_rng(n)
    weight, x = rng.normal(size=(rows, size)).astype(np.float32), rng.normal(size=(n, size)).astype(np.float32)
    out = np.empty((n, rows), np.float32)
    multiply(weight, x, out)
    assert np.allclose(out, x.astype(np.float64) @ weight.T, rtol=1e-4, atol=1e-4)


def test_a_row_is_multiplied_as_if_it_were_alone():
    rng = np.random.default_rng(0)
    weight, x = rng.normal(size=(131, 77)).astype(np.float32), rng.normal(size=(23, 77)).astype(np.float32)
    together = np.empty((23, 131), np.float32)
    product_of_each(weight, x, together)
    for i in range(23):
        alone = np.empty((1, 131), np.float32)
        product_of_each(weight, x[i:i + 1].copy(), alone)
        assert np.array_equal(alone[0], together[i])
