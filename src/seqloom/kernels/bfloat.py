"""Products of matrices of bfloat16 with rows of float32 by the matrix unit of `kernels/amx`.

A bfloat16 is the upper half of a float32: the same range, 8 significant bits. Rows are the sums of two of them, which leaves 16
bits, so that only the rounding of the weights is noticed. The unit adds up in float32.

    tiles of a matrix (R, K), T = 2 ceil(R / 32), S = ceil(K / 32), what is beyond R and K is zero:
    weight    bfloat16 as uint16 (T, 16 S, 16, 2): of 16 rows two neighbours each
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from seqloom.kernels.amx import BYTE, REGISTER, SIZE, configure, instruct, release

STEP, TILE = 32, 16  # numbers of a row that are multiplied at a time; rows of weights that lie together
TOGETHER = 32  # rows at most, in two registers
_HALF, _UPPER, _NOT_A_NUMBER = np.uint32(0x7FFF), np.uint32(16), np.uint16(0x7FC0)


@njit(nogil=True, cache=True)
def to_bfloat(x):
    """The nearest bfloat16 of a float32, of two that are as near the even one, as uint16."""
    bits = np.float32(x).view(np.uint32)
    rounded = np.uint32(bits + _HALF + ((bits >> _UPPER) & np.uint32(1)))
    return np.uint16(rounded >> _UPPER) if x == x else _NOT_A_NUMBER


@njit(nogil=True, cache=True)
def from_bfloat(x):
    return np.uint32(np.uint32(x) << _UPPER).view(np.float32)


@njit(nogil=True, cache=True)
def rounded_bits(weight):
    """A matrix of float32 in bfloat16."""
    out = np.empty(weight.shape, np.uint16)
    for row in range(len(weight)):
        for j in range(weight.shape[1]):
            out[row, j] = to_bfloat(weight[row, j])
    return out


def from_bits(bits):
    """And back."""
    return (bits.astype(np.uint32) << _UPPER).view(np.float32)


@intrinsic
def _multiply_two(context, weight, tile, x, row, rows, steps, out):
    """out[row:row + 2 rows, 32 of two tiles] = x (2, n, K), larger and smaller parts, times the tiles from `tile` on."""
    def code(context, builder, signature, arguments):
        weight, tile, x, row, rows, steps, out = (
            context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, arguments))
        _, n, columns = cgutils.unpack_tuple(builder, x.shape)
        width = cgutils.unpack_tuple(builder, out.shape)[1]

        def pointer(array, *offset):
            total = offset[0]
            for more in offset[1:]:
                total = builder.add(total, more)
            return builder.gep(builder.bitcast(array.data, BYTE), [total])

        stride, size = builder.mul(columns, SIZE(2)), builder.mul(steps, SIZE(2 * STEP * TILE))  # bytes: of a row, a tile
        groups = [builder.mul(builder.add(row, builder.mul(rows, SIZE(group))), stride) for group in (0, 1)]
        parts = [SIZE(0), builder.mul(n, stride)]
        start = builder.mul(tile, size)
        for k in range(4):
            instruct(builder, "tilezero", REGISTER(k))
        with cgutils.for_range(builder, steps, intp=SIZE) as loop:
            place, column = builder.mul(loop.index, SIZE(2 * STEP * TILE)), builder.mul(loop.index, SIZE(2 * STEP))
            instruct(builder, "tileloadd64", REGISTER(4), pointer(weight, start, place), SIZE(64))
            instruct(builder, "tileloadd64", REGISTER(5), pointer(weight, start, size, place), SIZE(64))
            for part in parts:
                for group, begin in enumerate(groups):
                    numbers = REGISTER(6 + group)
                    instruct(builder, "tileloadd64", numbers, pointer(x, part, begin, column), stride)
                    for which in (0, 1):
                        instruct(builder, "tdpbf16ps", REGISTER(2 * group + which), numbers, REGISTER(4 + which))
        for group in (0, 1):
            at = builder.mul(builder.mul(builder.add(row, builder.mul(rows, SIZE(group))), width), SIZE(4))
            for which in (0, 1):
                column = builder.mul(builder.add(tile, SIZE(which)), SIZE(4 * TILE))
                instruct(builder, "tilestored64", REGISTER(2 * group + which), pointer(out, at, column),
                         builder.mul(width, SIZE(4)))
        return context.get_dummy_value()

    one = types.intp
    return types.void(weight, one, x, one, one, one, out), code


@njit(nogil=True, cache=True)
def _sizes(rows):
    """Sums 0 to 3 and numbers 6 and 7 have so many rows; 4 and 5 are weights, 16 rows of two neighbours of 16."""
    shape = np.zeros(64, np.uint8)
    shape[0] = 1
    for k in range(8):
        shape[16 + 2 * k] = 64  # bytes of a row
        shape[48 + k] = 16 if k == 4 or k == 5 else rows
    return shape


@njit(nogil=True, cache=True)
def split_rows(x, size, steps):
    """Rows (n, K) as sums of two bfloat16: uint16 (2, n', 32 S), where n' is a multiple of `size`; what is beyond is zero."""
    n, columns = x.shape
    parts = np.empty((2, -(-n // size) * size, steps * STEP), np.uint16)
    for row in range(n):
        large, small = parts[0, row], parts[1, row]
        for j in range(columns):
            large[j] = to_bfloat(x[row, j])
            small[j] = to_bfloat(x[row, j] - from_bfloat(large[j]))
        for j in range(columns, steps * STEP):
            large[j], small[j] = 0, 0
    parts[:, n:] = 0
    return parts


@njit(nogil=True, cache=True)
def multiply_bfloat(weight, x, size, low, high, out):
    """out (n', 16 T) = rows as `split_rows` made them times the transpose of two tiles each, from pair `low` to `high`."""
    configure(_sizes(size // 2))
    for pair in range(low, high):
        for first in range(0, x.shape[1], size):
            _multiply_two(weight, 2 * pair, x, first, size // 2, x.shape[2] // STEP, out)
    release()


def bfloat_tiles(weight):
    """A matrix (R, K) of float32 as the kernel reads it."""
    rows, columns = weight.shape
    tiles, steps = 2 * -(-rows // (2 * TILE)), -(-columns // STEP)
    padded = np.zeros((tiles * TILE, steps * STEP), np.uint16)
    padded[:rows, :columns] = rounded_bits(weight)
    return np.ascontiguousarray(padded.reshape(tiles, TILE, steps * STEP // 2, 2).swapaxes(1, 2))
