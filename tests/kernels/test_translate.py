"""Products of a few rows: equal to NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from seqloom.kernels.translate import product


@pytest.mark.parametrize(("n", "rows", "size"), [(1, 1, 1), (3, 7, 5), (9, 64, 33), (17, 130, 256)])
def test_products_are_those_of_numpy(n, rows, size):
    rng = np.random.default_rng(n)
    weight, x = rng.normal(size=(rows, size)).astype(np.float32), rng.normal(size=(n, size)).astype(np.float32)
    out = np.empty((n, rows), np.float32)
    product(weight, x, out)
    assert np.allclose(out, x.astype(np.float64) @ weight.T, rtol=1e-4, atol=1e-4)
