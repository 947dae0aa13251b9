"""Products with matrices of 8 or 4 bits a weight, for rows of numbers that are themselves rounded to 8 bits, or to 16.

Weights share a scale in blocks of 32 neighbours of a row, and so do the numbers that they are multiplied with (the idea of
llama.cpp's Q8_0 and Q4_1, https://github.com/ggml-org/ggml). Products within a block are sums of whole numbers, exact,
64 to an instruction where the processor has one for it (VNNI); scales are applied once a block, in float32.

Rows of weights lie in tiles of 16: 64 bytes are four neighbours of each of 16 rows, so that each lane of a vector belongs to
one row and nothing has to be summed across lanes. A byte of 4-bit weights holds two numbers: the low half that of one
of four neighbours, the high half that of the next four. The instruction takes unsigned weights and signed numbers, so 8-bit
weights get 128 added, which is taken off again as 128 times the sum of the numbers. Numbers of 16 bits are two of 8, high and
low: 256 times the products with the high ones and those with the low ones are added up, still exact.

    tiles of a matrix (R, K), T = ceil(R / 16), B = ceil(K / 32), what is beyond R and K is zero:
    weight    int8 (T, 8 B, 16, 4), or uint8 (T, 4 B, 16, 4) of 4 bits
    scale     float16 as uint16 (T, B, 16)
    minimum   the same, of 4 bits: a weight is scale * number + minimum
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from seqloom.kernels.intrinsics import BYTES, FLOATS, WORD, WORDS, add_dots, constant, halves, splat

BLOCK = 32  # neighbours that share a scale
TILE = 16  # rows that lie together
TOGETHER = 8  # rows of numbers for which a weight is loaded once
SPARE = 2  # rows after the last group of 16-bit numbers, which `kernels/quantised_amx` may read
ZERO = np.float32(0)
LARGEST, LARGEST_FINE = np.float32(127), np.float32(127 * 256 + 127)  # of 8 bits, and of 16 whose halves are signed
SMALLEST = np.float32(1e-36)  # below which a block is taken for zero, as its inverse would not be finite
ROUNDING = np.float32(1.5 * 2 ** 23)  # added to a small number it leaves the nearest whole number in the last bits
ROUNDING_BITS, MAGNITUDE, INFINITE = np.int32(0x4B400000), np.int32(0x7FFFFFFF), np.int32(0x7F800000)
NOT_A_NUMBER = np.float32(np.nan)
FAST = {"reassoc", "contract", "nsz"}  # as in kernels/decode

_FLOAT = ir.FloatType()


def _tile_product(rows, fine):
    """`tile(weight, scale, minimum, tile, x, x_scale, x_sum, first, size, out)`: out[first:first + rows, 16 of the tile], where
    rows beyond the last are the last one again; `fine`: x has 16 bits, in groups of `size` rows."""
    def code(context, builder, signature, arguments):
        four_bits = signature.args[0].dtype == types.uint8
        arrays = [context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
                  for kind, value in zip(signature.args, arguments)]
        weight, scale, minimum, tile, x, x_scale, x_sum, first, length, out = arrays
        size = ir.IntType(64)
        n_blocks, columns, stride = (cgutils.unpack_tuple(builder, array.shape)[1] for array in (scale, x, out))
        last = builder.sub(cgutils.unpack_tuple(builder, out.shape)[0], size(1))
        at = [first]
        for m in range(1, rows):
            place = builder.add(first, size(m))
            at.append(builder.select(builder.icmp_signed("<", place, last), place, last))
        numbers = [builder.add(row, first) for row in at] if fine else at  # groups have twice as many rows of numbers
        low = [builder.add(row, length) for row in numbers]
        sums = [cgutils.alloca_once_value(builder, constant(FLOATS, 0.0)) for _ in range(rows)]

        def pointer(array, offset, kind):
            return builder.bitcast(builder.gep(array.data, [offset]), kind.as_pointer())

        def load_weights(block):
            """The groups of four of a block, unsigned."""
            start = builder.mul(block, size(BLOCK * TILE // (2 if four_bits else 1)))
            for place in range(0, BLOCK * TILE // (2 if four_bits else 1), 64):
                both = builder.load(pointer(weight, builder.add(start, size(place)), BYTES), align=1)
                if four_bits:
                    yield builder.and_(both, constant(BYTES, 15))
                    yield builder.lshr(both, constant(BYTES, 4))
                else:
                    yield builder.xor(both, constant(BYTES, 128))

        def add_group(total, fours, row, index, place):
            """With four numbers of block `index` of a row, from `place` on."""
            offset = builder.add(builder.mul(row, columns), builder.add(builder.mul(index, size(BLOCK)), size(place)))
            return add_dots(builder, total, fours, splat(builder, builder.load(pointer(x, offset, WORD), align=1), WORDS))

        with cgutils.for_range(builder, n_blocks, intp=size) as loop:
            block = builder.add(builder.mul(tile, n_blocks), loop.index)
            scales = halves(builder, pointer(scale, builder.mul(block, size(TILE)), ir.VectorType(ir.IntType(16), TILE)))
            minima = halves(builder, pointer(minimum, builder.mul(block, size(TILE)),
                                              ir.VectorType(ir.IntType(16), TILE))) if four_bits else None
            places = [builder.add(builder.mul(row, n_blocks), loop.index) for row in at]  # of a block of numbers
            x_sums = [builder.load(builder.gep(x_sum.data, [place])) for place in places]
            totals = [constant(WORDS, 0) if four_bits else splat(builder, builder.mul(value, WORD(-128)), WORDS)
                      for value in x_sums]
            high = [constant(WORDS, 0)] * rows
            for group, fours in enumerate(load_weights(block)):
                for m, row in enumerate(numbers):
                    totals[m] = add_group(totals[m], fours, low[m] if fine else row, loop.index, 4 * group)
                    if fine:
                        high[m] = add_group(high[m], fours, row, loop.index, 4 * group)
            if fine:
                totals = [builder.add(total, builder.shl(value, constant(WORDS, 8))) for total, value in zip(totals, high)]
            for m, place in enumerate(places):
                factor = None if fine else builder.load(builder.gep(x_scale.data, [place]))
                both = scales if fine else builder.fmul(scales, splat(builder, factor, FLOATS))
                change = builder.fmul(builder.sitofp(totals[m], FLOATS), both, flags=("contract",))
                value = builder.fadd(builder.load(sums[m]), change, flags=("contract",))
                if four_bits:
                    shift = builder.sitofp(x_sums[m], _FLOAT)
                    shift = shift if fine else builder.fmul(factor, shift)
                    shifted = builder.fmul(minima, splat(builder, shift, FLOATS), flags=("contract",))
                    value = builder.fadd(value, shifted, flags=("contract",))
                builder.store(value, sums[m])
        for m, row in enumerate(at):
            offset = builder.add(builder.mul(row, stride), builder.mul(tile, size(TILE)))
            value = builder.load(sums[m])
            if fine:
                factor = builder.load(builder.gep(x_scale.data, [builder.mul(row, n_blocks)]))
                value = builder.fmul(value, splat(builder, factor, FLOATS))
            builder.store(value, pointer(out, offset, FLOATS), align=1)
        return context.get_dummy_value()

    @intrinsic
    def tile_product(context, weight, scale, minimum, tile, x, x_scale, x_sum, first, size, out):
        return types.void(weight, scale, minimum, types.intp, x, x_scale, x_sum, types.intp, types.intp, out), code

    return tile_product


_one, _several = _tile_product(1, False), _tile_product(TOGETHER, False)
_fine_5, _fine_6, _fine_7, _fine_8 = (_tile_product(rows, True) for rows in (5, 6, 7, TOGETHER))


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _factors(x, number):
    """What the numbers of a block are multiplied with to become whole numbers up to `number`, and what takes it back: NaN
    where one is not finite, so that a broken model is noticed.

    Magnitudes are compared by their bits: a loop of these uses vector units.
    """
    largest = np.int32(0)
    for j in range(len(x)):
        largest = max(largest, np.int32(np.float32(x[j]).view(np.int32) & MAGNITUDE))
    top = np.int32(largest).view(np.float32)
    return number / top if top > SMALLEST else ZERO, top / number if largest < INFINITE else NOT_A_NUMBER


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _nearest(x):
    """The nearest whole number, by its bits, for the same reason."""
    return np.int32(np.float32(x + ROUNDING).view(np.int32) - ROUNDING_BITS)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def round_rows(x, out, scale, total):
    """Rows (n, K) to whole numbers from -127 to 127, int8 (n, 32 B), with a scale (n, B) and the sum (n, B) of each block."""
    for row in range(len(x)):
        for block in range(scale.shape[1]):
            low, high = block * BLOCK, min(block * BLOCK + BLOCK, x.shape[1])
            part, numbers = x[row, low:high], out[row, low:low + BLOCK]
            factor, scale[row, block] = _factors(part, LARGEST)
            whole = np.int32(0)
            for j in range(len(part)):
                number = _nearest(part[j] * factor)
                numbers[j] = number
                whole = np.int32(whole + number)
            numbers[len(part):] = 0
            total[row, block] = whole


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def round_rows_finely(x, size, out, scale, total):
    """The same with whole numbers of 16 bits, in groups of `size` rows: the high halves of a group, then the low ones. All
    blocks of a row have the same scale, since 16 bits leave enough of small numbers beside large ones."""
    for row in range(len(x)):
        factor, unit = _factors(x[row], LARGEST_FINE)
        for block in range(scale.shape[1]):
            scale[row, block] = unit
        place = row // size * 2 * size + row % size
        upper, lower = out[place], out[place + size]
        for j in range(x.shape[1]):
            number = _nearest(x[row, j] * factor)
            above = np.int32((number + np.int32(128)) >> np.int32(8))
            upper[j], lower[j] = above, number - (above << np.int32(8))
        for j in range(x.shape[1], len(upper)):
            upper[j], lower[j] = 0, 0
        for block in range(total.shape[1]):
            whole = np.int32(0)
            for j in range(block * BLOCK, block * BLOCK + BLOCK):
                whole = np.int32(whole + (np.int32(upper[j]) << np.int32(8)) + np.int32(lower[j]))
            total[row, block] = whole


@njit(nogil=True, cache=True)
def multiply_tiles(weight, scale, minimum, x, x_scale, x_sum, size, low, high, out):
    """out (n, 16 T) = rows as `round_to` made them times the transpose of the tiles from `low` to `high`."""
    for tile in range(low, high):
        if size:
            for first in range(0, len(out), size):
                if size <= 5:
                    _fine_5(weight, scale, minimum, tile, x, x_scale, x_sum, first, size, out)
                elif size == 6:
                    _fine_6(weight, scale, minimum, tile, x, x_scale, x_sum, first, size, out)
                elif size == 7:
                    _fine_7(weight, scale, minimum, tile, x, x_scale, x_sum, first, size, out)
                else:
                    _fine_8(weight, scale, minimum, tile, x, x_scale, x_sum, first, size, out)
        elif len(out) == 1:
            _one(weight, scale, minimum, tile, x, x_scale, x_sum, 0, 0, out)
        else:
            for first in range(0, len(out), TOGETHER):
                _several(weight, scale, minimum, tile, x, x_scale, x_sum, first, 0, out)


@njit(nogil=True, cache=True)
def round_to(x, blocks, size, summed=True):
    """What `multiply_tiles` takes: numbers, scales and, if `summed`, sums of rows (n, K); of 16 bits in groups of `size` rows,
    of 8 if that is 0."""
    n = len(x)
    scales, sums = np.empty((n, blocks), np.float32), np.empty((n, blocks if summed else 0), np.int32)
    if size:
        numbers = np.empty((-(-n // size) * size * 2 + SPARE, blocks * BLOCK), np.int8)
        round_rows_finely(x, size, numbers, scales, sums)
    else:
        numbers = np.empty((n, blocks * BLOCK), np.int8)
        round_rows(x, numbers, scales, sums)
    return numbers, scales, sums


@njit(nogil=True, cache=True)
def product_quantised(weight, scale, minimum, x, size):
    """Rows (n, K) times the transpose of a matrix in tiles: a new array (n, 16 T). `size` as of `round_to`."""
    out = np.empty((len(x), len(scale) * TILE), np.float32)
    numbers, scales, sums = round_to(x, scale.shape[1], size)
    multiply_tiles(weight, scale, minimum, numbers, scales, sums, size, 0, len(scale), out)
    return out
