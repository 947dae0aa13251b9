"""Pieces of LLVM against NumPy, also as they are compiled where the processor has no instruction for them."""

import numpy as np
import pytest
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from seqloom.kernels import intrinsics
from seqloom.kernels.intrinsics import (
    add_dots,
    dot_rows,
    halves,
    prefetch,
    prefetch_row,
    random_bits,
    sum_row,
    trailing_zeros,
)

RNG = np.random.default_rng(0)


def of_vectors(make):
    """A compiled function whose arguments are arrays; `make` gets a builder and their pointers."""

    def code(context, builder, signature, arguments):
        make(
            builder,
            *(
                context.make_array(kind)(context, builder, value).data
                for kind, value in zip(signature.args, arguments)
            ),
        )
        return context.get_dummy_value()

    @intrinsic
    def run(context, a, b, c):
        return types.void(a, b, c), code

    return njit(lambda a, b, c: run(a, b, c))


@pytest.mark.parametrize("vnni", [True, False])
def test_sums_of_products_of_bytes(monkeypatch, vnni):
    if not vnni:
        monkeypatch.setattr(intrinsics, "has_vnni", lambda: False)

    def make(builder, total, weights, numbers):
        at = builder.bitcast(total, ir.VectorType(ir.IntType(32), 16).as_pointer())
        given = [
            builder.load(builder.bitcast(pointer, kind.as_pointer()), align=1)
            for pointer, kind in ((weights, intrinsics.BYTES), (numbers, intrinsics.WORDS))
        ]
        builder.store(add_dots(builder, builder.load(at, align=4), *given), at, align=4)

    kernel = of_vectors(make)
    weights, numbers = (
        RNG.integers(0, 256, 64).astype(np.uint8),
        RNG.integers(-128, 128, 64).astype(np.int8),
    )
    for w, x in ((weights, numbers), (np.full(64, 255, np.uint8), np.full(64, -128, np.int8))):
        total = np.arange(16, dtype=np.int32)
        kernel(total, w, x)
        products = (w.astype(int) * x).reshape(16, 4).sum(axis=1)
        np.testing.assert_array_equal(total, np.arange(16) + products)


def test_halves_become_floats():
    def make(builder, bits, out, unused):
        words = builder.bitcast(bits, ir.VectorType(ir.IntType(16), 16).as_pointer())
        builder.store(
            halves(builder, words), builder.bitcast(out, intrinsics.FLOATS.as_pointer()), align=4
        )

    kernel, out = of_vectors(make), np.empty(16, np.float32)
    every = np.arange(1 << 16, dtype=np.uint16)
    finite = every[np.isfinite(every.view(np.float16))].reshape(-1, 16)
    for bits in finite:
        kernel(bits, out, out)
        np.testing.assert_array_equal(out, bits.view(np.float16).astype(np.float32))


def test_random_bits_are_those_of_xorshift():
    state, x, word = np.array([12345], np.uint64), 12345, (1 << 64) - 1
    for _ in range(50):
        x ^= x >> 12
        x ^= x << 25 & word
        x ^= x >> 27
        assert int(random_bits(state)) == x * 0x2545F4914F6CDD1D & word
        assert int(state[0]) == x


def test_zeros_that_a_number_ends_with():
    kernel = njit(lambda number: trailing_zeros(number))
    for number in (1, 2, 40, 1 << 63, (1 << 64) - 1):
        assert kernel(np.uint64(number)) == (number & -number).bit_length() - 1


def test_asking_for_memory_changes_nothing():
    table = RNG.normal(size=(5, 40)).astype(np.float32)
    before = table.copy()
    njit(lambda table, row, column: prefetch(table, row, column))(table, 2, 3)
    prefetch_row(table, 4)
    np.testing.assert_array_equal(table, before)


def in_lanes(x):
    """The sum of an array in the order of `sum_row`: four vectors of 16 at a time, one, then number
    by number.
    """
    sums, at = np.zeros((4, 16), x.dtype), 0
    for many in (4, 1):
        while at + 16 * many <= len(x):
            sums[:many] += x[at : at + 16 * many].reshape(many, 16)
            at += 16 * many
    lanes = sums[0] + sums[1] + sums[2] + sums[3]
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    total = lanes[0]
    for number in x[at:]:
        total += number
    return total


@pytest.mark.parametrize("liberties", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sums_have_one_order(kind, liberties):
    """Also in a function that lets LLVM reorder all sums, and of a part of a larger array."""

    def summed(x):
        return sum_row(x[1, 2:])

    def product(x, shift):
        return dot_rows(x[1, 2:], x[0, 2:], shift)

    summed, product = (njit(function, fastmath=liberties) for function in (summed, product))
    for length in range(200):
        x = RNG.normal(size=(2, length + 2)).astype(kind)
        assert summed(x) == in_lanes(x[1, 2:])
        wanted = ((x[0, 2:] - 0.25).astype(float) * (x[1, 2:] - 0.25)).sum()
        assert product(x, kind(0.25)) == pytest.approx(
            wanted, abs=1e-4 if kind is np.float32 else 1e-12
        )
        whole = np.rint(
            8 * x
        )  # whose products are exact, whether or not they are rounded before they are added
        assert product(whole, kind(0)) == in_lanes(whole[0, 2:] * whole[1, 2:])
