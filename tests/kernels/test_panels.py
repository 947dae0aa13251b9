"""Products by panels are those of NumPy, for any number of rows and with the layout of any processor."""

import numpy as np
import pytest
from numba import njit

from seqloom.kernels import panels
from seqloom.kernels.intrinsics import LANES, product_piece
from seqloom.models.network import step_weights
from seqloom.models.network.step_weights import Panels


@pytest.fixture(scope="module", params=[(2, 12, 8, 4), (1, 6, 4, 2)], ids=["wide", "narrow"])
def layout(request):
    """The width of a panel, and the kernel as it is compiled for it."""
    vectors, *rows = request.param
    patch = pytest.MonkeyPatch()
    for name, value in zip(("VECTORS", "MANY", "SOME", "FEW", "WIDTH"), (vectors, *rows, vectors * LANES)):
        patch.setattr(panels, name, value)
    for name, count in zip(("_many", "_some", "_few"), rows):
        patch.setattr(panels, name, product_piece(count, vectors, prefetching=True))
    kernel = njit(panels.multiply_panels.py_func)
    kernel(*(np.zeros(shape, np.float32) for shape in ((1, 1, vectors * LANES), (1, 1))), 0, 1,
           np.empty((1, vectors * LANES), np.float32))
    patch.undo()
    return vectors * LANES, kernel


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 9, 12, 13, 21, 40])
def test_product(layout, n):
    width, kernel = layout
    rng = np.random.default_rng(n)
    weight, x = (rng.normal(size=shape).astype(np.float32) for shape in ((3 * width, 37), (n, 37)))
    laid = np.ascontiguousarray(weight.reshape(3, width, 37).swapaxes(1, 2))
    out = np.full((n, 3 * width), np.nan, np.float32)
    kernel(laid, x, 0, 2, out)
    assert np.isnan(out[:, 2 * width:]).all()
    kernel(laid, x, 2, 3, out)
    np.testing.assert_allclose(out, x @ weight.T, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (64, 20), (70, 33), (7, 96)])
def test_matrices_of_any_shape_and_by_threads(shape, monkeypatch):
    rng = np.random.default_rng(0)
    weight, x = rng.normal(size=shape).astype(np.float32), rng.normal(size=(5, shape[1])).astype(np.float32)
    matrix = Panels(weight)
    found = matrix(x)
    assert found.flags.c_contiguous
    assert len(matrix) == shape[0]
    np.testing.assert_allclose(found, x @ weight.T, atol=1e-4)
    monkeypatch.setattr(step_weights, "SPLIT", 0)
    monkeypatch.setenv("SEQLOOM_THREADS", "2")
    assert np.array_equal(matrix(x), found)


def test_rows_that_do_not_lie_side_by_side():
    rng = np.random.default_rng(0)
    weight, wide = rng.normal(size=(24, 8)).astype(np.float32), rng.normal(size=(9, 32)).astype(np.float32)
    for x in (wide[:, :8], wide[:, ::4], np.asfortranarray(wide[:, :8])):
        assert np.allclose(Panels(weight)(x), x @ weight.T, atol=1e-5)


def test_a_row_is_multiplied_as_if_it_were_alone():
    """So that a text is read the same whichever others are beside it."""
    rng = np.random.default_rng(0)
    matrix, x = Panels(rng.normal(size=(131, 77)).astype(np.float32)), rng.normal(size=(23, 77)).astype(np.float32)
    together = matrix(x)
    for i in range(23):
        assert np.array_equal(matrix(x[i:i + 1])[0], together[i])
