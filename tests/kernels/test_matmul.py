"""Products of rows and a matrix are those of NumPy, for any number of rows and with the layout of
any processor.
"""

import numpy as np
import pytest
from numba import njit

from seqloom.kernels import matmul
from seqloom.kernels.matmul import LANES, WIDTH, linear, pack, product_piece
from seqloom.runtime.quantised import Quantised
from tests.sharing import shared_by


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.fixture
def kernel():
    """`linear` as kernels call it."""
    return njit(lambda matrix, x: linear(matrix, x))


SHAPES = [(1, 1), (64, 20), (70, 33), (7, 96), (3 * WIDTH, 5), (WIDTH + 1, 40), (5 * WIDTH - 3, 7)]


@pytest.mark.parametrize("n", [0, 1, 2, 5, 13, 40])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("biased", [False, True])
def test_matrices_of_any_shape_and_by_threads(shape, n, biased):
    weight, x, bias = normal(*shape), normal(n, shape[1], seed=1), normal(shape[0], seed=2)
    matrix = pack(weight, bias if biased else None)
    found = linear(matrix, x)
    assert found.shape == (n, shape[0])
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    expected = x.astype(np.float64) @ weight.T.astype(np.float64) + (bias if biased else 0)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    for threads in (2, 3):
        with shared_by(threads):
            np.testing.assert_array_equal(linear(matrix, x), found)


@pytest.mark.parametrize("n", [0, 1, 9])
def test_kernels_multiply_as_python_does(kernel, n):
    weight, x, bias = normal(70, 33), normal(n, 33, seed=1), normal(70, seed=2)
    quantised = [Quantised.of(weight, bits) for bits in (8, 4)]
    matrices = [
        pack(weight),
        pack(weight, bias),
        *(each.tiles() for each in quantised),
        *(each.tiles(bias, inputs_16_bit=True) for each in quantised),
    ]
    for matrix in matrices:
        np.testing.assert_array_equal(kernel(matrix, x), linear(matrix, x))


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("inputs_16_bit", [False, True])
@pytest.mark.parametrize("n", [0, 1, 9])
def test_quantised_matrices_have_the_same_name(bits, inputs_16_bit, n):
    weight, x, bias = normal(70, 96), normal(n, 96, seed=1), normal(70, seed=2)
    quantised = Quantised.of(weight, bits)
    matrix = quantised.tiles(bias, inputs_16_bit=inputs_16_bit)
    found = linear(matrix, x)
    assert found.shape == (n, 70)
    np.testing.assert_allclose(
        found, x @ quantised.floats().T + bias, atol=0.01 if inputs_16_bit else 0.5
    )
    with shared_by(2):
        np.testing.assert_array_equal(linear(matrix, x), found)
    np.testing.assert_array_equal(linear(matrix, np.asfortranarray(x)), found)


def test_rows_that_do_not_lie_side_by_side():
    weight, wide = normal(24, 8), normal(9, 32, seed=1)
    for x in (
        wide[:, :8],
        wide[:, ::4],
        np.asfortranarray(wide[:, :8]),
        wide[::-1, :8],
        wide.astype(np.float64)[:, :8],
    ):
        np.testing.assert_allclose(linear(pack(weight), x), x @ weight.T, atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        pack,
        lambda weight, bias: Quantised.of(weight, 8).tiles(bias),
        lambda weight, bias: Quantised.of(weight, 4).tiles(bias, inputs_16_bit=True),
    ],
    ids=["float32", "8 bits", "4 bits, 16 of the inputs"],
)
def test_a_row_is_multiplied_as_if_it_were_alone(make):
    """So that a text is read the same whichever others are beside it."""
    matrix, x = make(normal(331, 77), normal(331, seed=2)), normal(41, 77, seed=1)
    alone = np.concatenate([linear(matrix, x[i : i + 1]) for i in range(len(x))])
    for n in range(1, len(x) + 1):
        np.testing.assert_array_equal(linear(matrix, x[:n]), alone[:n])
        np.testing.assert_array_equal(linear(matrix, x[-n:]), alone[-n:])


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_what_is_not_finite_is_noticed_in_its_row_alone(broken):
    x = normal(14, 33)
    x[3, 5] = broken
    found = np.isfinite(linear(pack(normal(40, 33, seed=1)), x))
    assert not found[3].any()
    assert np.delete(found, 3, axis=0).all()


# ---- as compiled for registers of either width

LAYOUTS = {"wide": (2, 12, 8, 4, 4, 4), "narrow": (1, 6, 4, 2, 2, 2)}


@pytest.fixture(scope="module", params=LAYOUTS)
def layout(request):
    """The width of a panel, the kernel of panels and that of blocks as they are compiled for it."""
    vectors, many, some, few, block_rows, widest = LAYOUTS[request.param]
    patch, width = pytest.MonkeyPatch(), vectors * LANES
    constants = {
        "VECTORS": vectors,
        "MANY": many,
        "SOME": some,
        "FEW": few,
        "WIDTH": width,
        "BLOCK_ROWS": block_rows,
        "WIDEST": widest,
    }
    pieces = {
        f"_{name}": product_piece(rows, vectors, prefetching=True)
        for name, rows in (("many", many), ("some", some), ("few", few))
    }
    pieces |= {"_one": product_piece(1, vectors)}
    pieces |= {f"_rows_{n}": product_piece(block_rows, n, adding=True) for n in (4, 2, 1)}
    for name, value in (constants | pieces).items():
        assert hasattr(matmul, name), name
        patch.setattr(matmul, name, value)
    panels, block = njit(matmul.multiply_panels.py_func), njit(matmul.add_block.py_func)
    one = np.zeros((1, width), np.float32)
    panels(one[None], one[0], np.zeros((1, 1), np.float32), 0, 1, one)
    block(one, 1, 0, one[0], 0, LANES, 1, one, 0, 1)
    patch.undo()
    return width, panels, block


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 9, 12, 13, 21, 40])
@pytest.mark.parametrize("n_panels", [1, 4, 7])
def test_panels_of_any_layout(layout, n, n_panels):
    width, kernel, _ = layout
    rows, part = n_panels * width, max(n_panels - 2, 1)
    weight, x, bias = normal(rows, 37), normal(n, 37, seed=1), normal(rows, seed=2)
    laid = np.ascontiguousarray(weight.reshape(n_panels, width, 37).swapaxes(1, 2))
    out = np.full((n, rows), np.nan, np.float32)
    kernel(laid, bias, x, 0, part, out)
    assert np.isnan(out[:, part * width :]).all()
    kernel(laid, bias, x, part, n_panels, out)
    np.testing.assert_allclose(out, x @ weight.T + bias, atol=1e-4)
    kernel(laid, bias, x[-1:], 0, n_panels, alone := np.empty((1, rows), np.float32))
    np.testing.assert_array_equal(out[-1:], alone)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("columns", [1, 15, 16, 17, 32, 33, 49, 64, 70])
@pytest.mark.parametrize(("steps", "skip", "step"), [(1, 0, 70), (20, 3, 80), (0, 0, 70)])
def test_blocks_are_added(layout, rows, columns, steps, skip, step):
    """What is beyond the columns, up to whole vectors, and beyond the rows, may be anything."""
    block = layout[2]
    a, b, before = (
        normal(8, 30),
        normal(5 + 30 * step + LANES, seed=1),
        normal(8, 3 + 80 + LANES, seed=2),
    )
    out = before.copy()
    block(a, rows, skip, b, 5, step, steps, out, 3, columns)
    taken = (
        np.stack([b[5 + step * i :][:columns] for i in range(steps)])
        if steps
        else np.zeros((0, columns))
    )
    expected = (
        before[:rows, 3 : 3 + columns] + a[:rows, skip : skip + steps].astype(np.float64) @ taken
    )
    np.testing.assert_allclose(out[:rows, 3 : 3 + columns], expected, atol=1e-5)
    room = 3 + -(-columns // LANES) * LANES
    np.testing.assert_array_equal(out[:, :3], before[:, :3])
    np.testing.assert_array_equal(out[:, room:], before[:, room:])
    alone = before.copy()
    block(a[rows - 1 : rows].copy(), 1, skip, b, 5, step, steps, alone[rows - 1 : rows], 3, columns)
    np.testing.assert_array_equal(out[rows - 1, 3 : 3 + columns], alone[rows - 1, 3 : 3 + columns])
