"""Products with matrices of 8 or 4 bits per weight, for inputs that are rounded to 8 or 16 bits.

Blocks of 32 neighbouring weights of a row share a scale, and so do the inputs that they are multiplied with
(the idea of llama.cpp's Q8_0 and Q4_1, https://github.com/ggml-org/ggml). Products within a block are sums of
integers, exact, 64 to an instruction where the processor has one for it (VNNI); scales are applied once per
block, in float32.

Rows of weights are arranged in tiles of 16: 64 bytes are four neighbours of each of 16 rows, so that each
lane of a vector belongs to one row and nothing is summed across lanes. A byte of 4-bit weights holds two
numbers: the low half one of four neighbours, the high half one of the next four. The instruction takes
unsigned weights and signed inputs, so 128 is added to 8-bit weights and subtracted again as 128 times the
sum of the inputs. Inputs of 16 bits are split into high and low bytes: 256 times the products with the high
ones plus those with the low ones, still exact.

    tiles of a matrix (R, K), T = ceil(R / 16), B = ceil(K / 32), padded with zeros:
    weight    int8 (T, 8 B, 16, 4), or uint8 (T, 4 B, 16, 4) of 4 bits
    scale     float16 as uint16 (T, B, 16)
    minimum   the same, of 4 bits: a weight is scale * number + minimum
"""

from __future__ import annotations

import copyreg
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from seqloom.kernels.intrinsics import BYTES, FLOATS, WORD, WORDS, add_dots, constant, halves, splat
from seqloom.kernels.maths import FUSED, ZERO
from seqloom.kernels.parallel import TEAM
from seqloom.kernels.team import do_parts, product_work, share, without_team

BLOCK = 32  # neighbours that share a scale
TILE = 16  # rows of a tile
MANY, SOME = 8, 4  # rows of inputs for which a weight is loaded once
# of 8 bits, and of 16 with signed halves
LARGEST, LARGEST_FINE = np.float32(127), np.float32(127 * 256 + 127)
SMALLEST = np.float32(1e-36)  # below it a block counts as zero, as its inverse would not be finite
# added to a small number it leaves the nearest integer in the last bits
ROUNDING = np.float32(1.5 * 2**23)
ROUNDING_BITS, MAGNITUDE, INFINITE = (
    np.int32(0x4B400000),
    np.int32(0x7FFFFFFF),
    np.int32(0x7F800000),
)
NOT_A_NUMBER = np.float32(np.nan)

_FLOAT = ir.FloatType()


class Tiles(NamedTuple):
    """A matrix (R, K) as kernels read it."""

    weight: np.ndarray
    scale: np.ndarray
    minimum: np.ndarray
    bias: np.ndarray  # float32 (16 T,), or empty
    rows: int  # R
    # inputs have 16 bits instead of 8, for networks in which errors add up
    inputs_16_bit: bool
    team: np.ndarray = TEAM  # threads that may share the product


copyreg.pickle(Tiles, without_team)


class TilesJob(NamedTuple):
    """A product that threads share, tile by tile; the inputs are the result of `round_inputs`."""

    matrix: Tiles
    numbers: np.ndarray
    scales: np.ndarray
    sums: np.ndarray
    out: np.ndarray


def _tile_product(rows, inputs_16_bit):
    """Make `tile(weight, scale, minimum, tile, x, x_scale, x_sum, first, out)`: out[first:first + rows, 16 of
    the tile], where rows beyond the last repeat it; `inputs_16_bit`: x has 16 bits, the high halves of a row
    before the low ones.
    """

    def code(context, builder, signature, arguments):
        four_bits = signature.args[0].dtype == types.uint8
        arrays = [
            context.make_array(kind)(context, builder, value)
            if isinstance(kind, types.Array)
            else value
            for kind, value in zip(signature.args, arguments)
        ]
        weight, scale, minimum, tile, x, x_scale, x_sum, first, out = arrays
        size = ir.IntType(64)
        n_blocks, columns, stride = (
            cgutils.unpack_tuple(builder, array.shape)[1] for array in (scale, x, out)
        )
        last = builder.sub(cgutils.unpack_tuple(builder, out.shape)[0], size(1))
        at = [first]
        for m in range(1, rows):
            index = builder.add(first, size(m))
            at.append(builder.select(builder.icmp_signed("<", index, last), index, last))
        numbers = [builder.mul(row, size(2)) for row in at] if inputs_16_bit else at
        low = [builder.add(row, size(1)) for row in numbers]
        sums = [cgutils.alloca_once_value(builder, constant(FLOATS, 0.0)) for _ in range(rows)]

        def pointer(array, offset, kind):
            return builder.bitcast(builder.gep(array.data, [offset]), kind.as_pointer())

        def load_weights(block):
            """Yield the groups of four weights of a block, unsigned."""
            start = builder.mul(block, size(BLOCK * TILE // (2 if four_bits else 1)))
            for offset in range(0, BLOCK * TILE // (2 if four_bits else 1), 64):
                packed = builder.load(
                    pointer(weight, builder.add(start, size(offset)), BYTES), align=1
                )
                if four_bits:
                    yield builder.and_(packed, constant(BYTES, 15))
                    yield builder.lshr(packed, constant(BYTES, 4))
                else:
                    yield builder.xor(packed, constant(BYTES, 128))

        def add_group(total, fours, row, index, column):
            """Add the products with four numbers of block `index` of a row, from `column` on."""
            offset = builder.add(
                builder.mul(row, columns),
                builder.add(builder.mul(index, size(BLOCK)), size(column)),
            )
            return add_dots(
                builder,
                total,
                fours,
                splat(builder, builder.load(pointer(x, offset, WORD), align=1), WORDS),
            )

        with cgutils.for_range(builder, n_blocks, intp=size) as loop:
            block = builder.add(builder.mul(tile, n_blocks), loop.index)
            scales = halves(
                builder,
                pointer(scale, builder.mul(block, size(TILE)), ir.VectorType(ir.IntType(16), TILE)),
            )
            minima = (
                halves(
                    builder,
                    pointer(
                        minimum, builder.mul(block, size(TILE)), ir.VectorType(ir.IntType(16), TILE)
                    ),
                )
                if four_bits
                else None
            )
            # of a block of numbers
            block_indices = [builder.add(builder.mul(row, n_blocks), loop.index) for row in at]
            x_sums = [builder.load(builder.gep(x_sum.data, [index])) for index in block_indices]
            totals = [
                constant(WORDS, 0)
                if four_bits
                else splat(builder, builder.mul(value, WORD(-128)), WORDS)
                for value in x_sums
            ]
            high = [constant(WORDS, 0)] * rows
            for group, fours in enumerate(load_weights(block)):
                for m, row in enumerate(numbers):
                    totals[m] = add_group(
                        totals[m], fours, low[m] if inputs_16_bit else row, loop.index, 4 * group
                    )
                    if inputs_16_bit:
                        high[m] = add_group(high[m], fours, row, loop.index, 4 * group)
            if inputs_16_bit:
                totals = [
                    builder.add(total, builder.shl(value, constant(WORDS, 8)))
                    for total, value in zip(totals, high)
                ]
            for m, index in enumerate(block_indices):
                factor = None if inputs_16_bit else builder.load(builder.gep(x_scale.data, [index]))
                factors = (
                    scales
                    if inputs_16_bit
                    else builder.fmul(scales, splat(builder, factor, FLOATS))
                )
                change = builder.fmul(
                    builder.sitofp(totals[m], FLOATS), factors, flags=("contract",)
                )
                value = builder.fadd(builder.load(sums[m]), change, flags=("contract",))
                if four_bits:
                    shift = builder.sitofp(x_sums[m], _FLOAT)
                    shift = shift if inputs_16_bit else builder.fmul(factor, shift)
                    shifted = builder.fmul(
                        minima, splat(builder, shift, FLOATS), flags=("contract",)
                    )
                    value = builder.fadd(value, shifted, flags=("contract",))
                builder.store(value, sums[m])
        for m, row in enumerate(at):
            offset = builder.add(builder.mul(row, stride), builder.mul(tile, size(TILE)))
            value = builder.load(sums[m])
            if inputs_16_bit:
                factor = builder.load(builder.gep(x_scale.data, [builder.mul(row, n_blocks)]))
                value = builder.fmul(value, splat(builder, factor, FLOATS))
            builder.store(value, pointer(out, offset, FLOATS), align=1)
        return context.get_dummy_value()

    @intrinsic
    def tile_product(context, weight, scale, minimum, tile, x, x_scale, x_sum, first, out):
        return types.void(
            weight, scale, minimum, types.intp, x, x_scale, x_sum, types.intp, out
        ), code

    return tile_product


_one, _some, _many = (_tile_product(rows, False) for rows in (1, SOME, MANY))
_fine_one, _fine_some, _fine_many = (_tile_product(rows, True) for rows in (1, SOME, MANY))


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def _factors(x, number):
    """Return the factor that scales a block to integers up to `number`, and its inverse: NaN if a value is
    not finite, so that a broken model is noticed.

    Magnitudes are compared by their bits: such a loop uses vector units.
    """
    largest = np.int32(0)
    for j in range(len(x)):
        largest = max(largest, np.int32(np.float32(x[j]).view(np.int32) & MAGNITUDE))
    top = np.int32(largest).view(np.float32)
    return (
        number / top if top > SMALLEST else ZERO,
        top / number if largest < INFINITE else NOT_A_NUMBER,
    )


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def _nearest(x):
    """Return the nearest integer, by its bits, for the same reason."""
    return np.int32(np.float32(x + ROUNDING).view(np.int32) - ROUNDING_BITS)


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def round_rows(x, out, scale, total):
    """Round rows (n, K) to integers from -127 to 127, int8 (n, 32 B), with a scale (n, B) and the sum
    (n, B) of each block.
    """
    for row in range(len(x)):
        for block in range(scale.shape[1]):
            low, high = block * BLOCK, min(block * BLOCK + BLOCK, x.shape[1])
            part, numbers = x[row, low:high], out[row, low : low + BLOCK]
            factor, scale[row, block] = _factors(part, LARGEST)
            block_sum = np.int32(0)
            for j in range(len(part)):
                number = _nearest(part[j] * factor)
                numbers[j] = number
                block_sum = np.int32(block_sum + number)
            numbers[len(part) :] = 0
            total[row, block] = block_sum


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def round_rows_finely(x, out, scale, total):
    """Round rows to integers of 16 bits: the high halves of a row, then its low ones, int8 (2 n, 32 B).

    All blocks of a row have the same scale, since 16 bits are precise enough for small numbers beside large
    ones.
    """
    for row in range(len(x)):
        factor, unit = _factors(x[row], LARGEST_FINE)
        for block in range(scale.shape[1]):
            scale[row, block] = unit
        upper, lower = out[2 * row], out[2 * row + 1]
        for j in range(x.shape[1]):
            number = _nearest(x[row, j] * factor)
            above = np.int32((number + np.int32(128)) >> np.int32(8))
            upper[j], lower[j] = above, number - (above << np.int32(8))
        for j in range(x.shape[1], len(upper)):
            upper[j], lower[j] = 0, 0
        for block in range(total.shape[1]):
            block_sum = np.int32(0)
            for j in range(block * BLOCK, block * BLOCK + BLOCK):
                block_sum = np.int32(
                    block_sum + (np.int32(upper[j]) << np.int32(8)) + np.int32(lower[j])
                )
            total[row, block] = block_sum


@njit(nogil=True, cache=True)
def round_inputs(x, blocks, inputs_16_bit):
    """Return numbers, scales and sums of rows (n, K), as `multiply_tiles` takes them."""
    n = len(x)
    scales, sums = np.empty((n, blocks), np.float32), np.empty((n, blocks), np.int32)
    numbers = np.empty((2 * n if inputs_16_bit else n, blocks * BLOCK), np.int8)
    if inputs_16_bit:
        round_rows_finely(x, numbers, scales, sums)
    else:
        round_rows(x, numbers, scales, sums)
    return numbers, scales, sums


@njit(nogil=True, cache=True)
def multiply_tiles(matrix, x, x_scale, x_sum, low, high, out):
    """Write the rows that `round_inputs` returned times the transpose of the tiles from `low` to `high`
    to out (n, 16 T).
    """
    weight, scale, minimum, n = matrix.weight, matrix.scale, matrix.minimum, len(out)
    for tile in range(low, high):
        row = 0
        while row < n:
            left = n - row
            if matrix.inputs_16_bit:
                if left > SOME:
                    _fine_many(weight, scale, minimum, tile, x, x_scale, x_sum, row, out)
                elif left > 1:
                    _fine_some(weight, scale, minimum, tile, x, x_scale, x_sum, row, out)
                else:
                    _fine_one(weight, scale, minimum, tile, x, x_scale, x_sum, row, out)
            elif left > SOME:
                _many(weight, scale, minimum, tile, x, x_scale, x_sum, row, out)
            elif left > 1:
                _some(weight, scale, minimum, tile, x, x_scale, x_sum, row, out)
            else:
                _one(weight, scale, minimum, tile, x, x_scale, x_sum, row, out)
            row += MANY if left > SOME else SOME if left > 1 else 1
    if len(matrix.bias) > 0:
        for row in range(n):
            for j in range(low * TILE, high * TILE):
                out[row, j] += matrix.bias[j]


@overload(do_parts)
def _do_tiles(job, low, high):
    def run(job, low, high):
        multiply_tiles(job.matrix, job.numbers, job.scales, job.sums, low, high, job.out)

    return run if job.instance_class is TilesJob else None


@njit(nogil=True, cache=True)
def linear_tiles(weight, scale, minimum, bias, rows, inputs_16_bit, team, x):
    """Return rows x (n, K) times the transpose of a matrix in tiles, plus its bias: a new array (n, R)."""
    tiles, blocks, _ = scale.shape
    out = np.empty((len(x), tiles * TILE), np.float32)
    numbers, scales, sums = round_inputs(x, blocks, inputs_16_bit)
    matrix = Tiles(weight, scale, minimum, bias, rows, inputs_16_bit, team)
    work = product_work(weight.size // 4, len(x))  # four are multiplied at once
    share(team, TilesJob(matrix, numbers, scales, sums, out), tiles, work)
    return out if out.shape[1] == rows else out[:, :rows].copy()
