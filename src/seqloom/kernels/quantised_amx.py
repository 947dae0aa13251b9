"""Products of 8-bit matrices with rows of 16-bit numbers by the processor's matrix unit.

The tiles of `kernels/quantised` already lie as the unit reads them. Since every block of 32 weights has a scale of its own, the
sums of a block are stored and added up in float32. They are ready only after some 50 cycles, so while those of one pair of
blocks are computed, those of the pair before are added up.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from seqloom.kernels.amx import BYTE, REGISTER, SIZE, configure, instruct, release
from seqloom.kernels.intrinsics import FLOATS, WORDS, constant, halves

BLOCK, TILE = 32, 16
TOGETHER = 24  # rows at most, of which three registers hold the high and the low halves
FEWEST = 6  # rows, below which reading the weights takes longer than multiplying them
_WEIGHTS, _NUMBERS = REGISTER(6), REGISTER(7)  # before them the sums


@intrinsic
def _multiply_pair(context, weight, pair, x, row, column, rows, sums):
    """sums (2, 3 rows, 16) = those of two blocks: weights of the tiles from block 2 pair on, times
    x[row:row + 3 rows, column:column + 64]."""
    def code(context, builder, signature, arguments):
        weight, pair, x, row, column, rows, sums = (
            context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, arguments))

        def pointer(array, offset):
            return builder.gep(builder.bitcast(array.data, BYTE), [offset])

        stride = cgutils.unpack_tuple(builder, x.shape)[1]
        weights = pointer(weight, builder.mul(pair, SIZE(2 * BLOCK * TILE)))
        numbers = pointer(x, builder.add(builder.mul(row, stride), column))
        stored = pointer(sums, SIZE(0))
        for k in range(6):
            if k % 3 == 0:
                instruct(builder, "tileloadd64", _WEIGHTS, builder.gep(weights, [SIZE(k // 3 * BLOCK * TILE)]), SIZE(64))
            instruct(builder, "tilezero", REGISTER(k))
            group = builder.mul(builder.mul(rows, stride), SIZE(k % 3))
            instruct(builder, "tileloadd64", _NUMBERS,
                      builder.gep(numbers, [builder.add(group, SIZE(k // 3 * BLOCK))]), stride)
            instruct(builder, "tdpbssd", REGISTER(k), _NUMBERS, _WEIGHTS)
        for k in range(6):
            instruct(builder, "tilestored64", REGISTER(k), builder.gep(stored, [builder.mul(rows, SIZE(64 * k))]), SIZE(64))
        return context.get_dummy_value()

    one = types.intp
    return types.void(weight, one, x, one, one, one, sums), code


@intrinsic
def _add_pair(context, sums, rows, scale, pair, totals):
    """totals (n, 16) += sums of two blocks (2, 3 rows, 16), high and low halves, times the scales of the blocks."""
    def code(context, builder, signature, arguments):
        sums, rows, scale, pair, totals = (
            context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, arguments))
        n = cgutils.unpack_tuple(builder, totals.shape)[0]

        def pointer(array, offset, kind):
            return builder.bitcast(builder.gep(array.data, [offset]), kind.as_pointer())

        scales = [halves(builder, pointer(scale, builder.add(builder.mul(pair, SIZE(2 * TILE)), SIZE(TILE * k)),
                                          ir.VectorType(ir.IntType(16), TILE))) for k in (0, 1)]
        large = [builder.fmul(each, constant(FLOATS, 256.0)) for each in scales]
        with cgutils.for_range(builder, n, intp=SIZE) as loop:
            place = pointer(totals, builder.mul(loop.index, SIZE(TILE)), FLOATS)
            total = builder.load(place, align=4)
            for k in (0, 1):
                start = builder.add(loop.index, builder.mul(rows, SIZE(3 * k)))
                for factor, at in ((large[k], start), (scales[k], builder.add(start, n))):
                    value = builder.load(pointer(sums, builder.mul(at, SIZE(TILE)), WORDS), align=4)
                    change = builder.fmul(builder.sitofp(value, FLOATS), factor, flags=("contract",))
                    total = builder.fadd(total, change, flags=("contract",))
            builder.store(total, place, align=4)
        return context.get_dummy_value()

    one = types.intp
    return types.void(sums, one, scale, one, totals), code


# ---- products

@njit(nogil=True, cache=True)
def _sizes(rows):
    """Sums 0 to 5 and numbers 7 have so many rows; 6 are the weights of a block, 8 rows of four neighbours of 16."""
    shape = np.zeros(64, np.uint8)
    shape[0] = 1  # the only way to arrange them so far
    for k in range(8):
        shape[16 + 2 * k] = BLOCK if k == 7 else 64  # bytes of a row
        shape[48 + k] = 8 if k == 6 else rows
    return shape


@njit(nogil=True, cache=True)
def multiply_with_unit(weight, scale, x, x_scale, size, low, high, out):
    """As `quantised.multiply_tiles`, for 8-bit weights in an even number of blocks, and 16-bit numbers in groups of `size`
    rows."""
    rows, pairs = -(-2 * size // 3), scale.shape[1] // 2
    sums, totals = np.empty((2, 2, 3 * rows, TILE), np.int32), np.zeros((size, TILE), np.float32)
    configure(_sizes(rows))
    for first in range(0, len(out), size):
        for pair in range(low * pairs, high * pairs + 1):
            if pair < high * pairs:
                _multiply_pair(weight, pair, x, 2 * first, pair % pairs * 2 * BLOCK, rows, sums[pair % 2])
            if pair > low * pairs:
                _add_pair(sums[(pair - 1) % 2], rows, scale, pair - 1, totals)
                if pair % pairs == 0:
                    column = (pair // pairs - 1) * TILE
                    for i in range(min(size, len(out) - first)):
                        for j in range(TILE):
                            out[first + i, column + j] = totals[i, j] * x_scale[first + i, 0]
                    totals[:] = 0
    release()
