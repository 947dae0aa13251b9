"""Products with matrices of 8 or 4 bits a weight, for rows of numbers that are themselves rounded to 8 bits.

Weights share a scale in blocks of 32 neighbours of a row, and so do the numbers that they are multiplied with (the idea of
llama.cpp's Q8_0 and Q4_1, https://github.com/ggml-org/ggml). Products within a block are sums of whole numbers, exact,
64 to an instruction where the processor has one for it (VNNI); scales are applied once a block, in float32.

Rows of weights lie in tiles of 16: 64 bytes are four neighbours of each of 16 rows, so that each lane of a vector belongs to
one row and nothing has to be summed across lanes. A byte of 4-bit weights holds two numbers: the low half that of one
of four neighbours, the high half that of the next four. The instruction takes unsigned weights and signed numbers, so 8-bit
weights get 128 added, which is taken off again as 128 times the sum of the numbers.

    tiles of a matrix (R, K), T = ceil(R / 16), B = ceil(K / 32), what is beyond R and K is zero:
    weight    int8 (T, 8 B, 16, 4), or uint8 (T, 4 B, 16, 4) of 4 bits
    scale     float16 as uint16 (T, B, 16)
    minimum   the same, of 4 bits: a weight is scale * number + minimum
"""

from __future__ import annotations

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

BLOCK = 32  # neighbours that share a scale
TILE = 16  # rows that lie together
TOGETHER = 8  # rows of numbers for which a weight is loaded once
ZERO, LARGEST = np.float32(0), np.float32(127)
SMALLEST = np.float32(1e-36)  # below which a block is taken for zero, as its inverse would not be finite
ROUNDING = np.float32(1.5 * 2 ** 23)  # added to a small number it leaves the nearest whole number in the last bits
ROUNDING_BITS, MAGNITUDE, INFINITE = np.int32(0x4B400000), np.int32(0x7FFFFFFF), np.int32(0x7F800000)
NOT_A_NUMBER = np.float32(np.nan)
FAST = {"reassoc", "contract", "nsz"}  # as in kernels/decode

_BYTE, _WORD, _FLOAT = ir.IntType(8), ir.IntType(32), ir.FloatType()
_BYTES, _WORDS, _FLOATS = ir.VectorType(_BYTE, 64), ir.VectorType(_WORD, TILE), ir.VectorType(_FLOAT, TILE)


def _has_vnni() -> bool:
    return bool(binding.get_host_cpu_features().get("avx512vnni"))


def _splat(builder, value, kind):
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _WORD(0))
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(_WORD, kind.count), None))


def _constant(kind, value):
    return ir.Constant(kind, [value] * kind.count)


def _add_dots(builder, total, weights, four):
    """total, 16 sums, plus the products of 16 x 4 unsigned bytes with four signed ones, which are the same for all 16."""
    if _has_vnni():
        whole = binding.llvm_version_info[0] < 21  # which has its bytes as words
        kind = _WORDS if whole else _BYTES
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_WORDS, [_WORDS, kind, kind]), "llvm.x86.avx512.vpdpbusd.512")
        return builder.call(function, [total, builder.bitcast(weights, kind), builder.bitcast(four, kind)])
    weights = builder.bitcast(weights, _WORDS)
    for i in range(4):
        weight = builder.and_(builder.lshr(weights, _constant(_WORDS, 8 * i)), _constant(_WORDS, 255))
        number = builder.ashr(builder.shl(four, _constant(_WORDS, 24 - 8 * i)), _constant(_WORDS, 24))
        total = builder.add(total, builder.mul(weight, number))
    return total


def _halves(builder, pointer):
    """16 float16 as float32; by their bits, since not every processor has an instruction. What is not finite is not met."""
    wide = builder.zext(builder.load(pointer, align=1), _WORDS)
    magnitude = builder.bitcast(builder.shl(builder.and_(wide, _constant(_WORDS, 0x7FFF)), _constant(_WORDS, 13)), _FLOATS)
    sign = builder.shl(builder.and_(wide, _constant(_WORDS, 0x8000)), _constant(_WORDS, 16))
    scaled = builder.bitcast(builder.fmul(magnitude, _constant(_FLOATS, 2.0 ** 112)), _WORDS)
    return builder.bitcast(builder.or_(scaled, sign), _FLOATS)


def _tile_product(rows):
    """`tile(weight, scale, minimum, tile, x, x_scale, x_sum, first, out)`: out[first:first + rows, 16 of the tile], where rows
    beyond the last of x are the last one again."""
    def code(context, builder, signature, arguments):
        four_bits = signature.args[0].dtype == types.uint8
        arrays = [context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
                  for kind, value in zip(signature.args, arguments)]
        weight, scale, minimum, tile, x, x_scale, x_sum, first, out = arrays
        size = ir.IntType(64)
        n_blocks, columns, stride = (cgutils.unpack_tuple(builder, array.shape)[1] for array in (scale, x, out))
        last = builder.sub(cgutils.unpack_tuple(builder, x.shape)[0], size(1))
        at = [first]
        for m in range(1, rows):
            place = builder.add(first, size(m))
            at.append(builder.select(builder.icmp_signed("<", place, last), place, last))
        sums = [cgutils.alloca_once_value(builder, _constant(_FLOATS, 0.0)) for _ in range(rows)]

        def pointer(array, offset, kind):
            return builder.bitcast(builder.gep(array.data, [offset]), kind.as_pointer())

        with cgutils.for_range(builder, n_blocks, intp=size) as loop:
            block = builder.add(builder.mul(tile, n_blocks), loop.index)
            scales = _halves(builder, pointer(scale, builder.mul(block, size(TILE)), ir.VectorType(ir.IntType(16), TILE)))
            minima = _halves(builder, pointer(minimum, builder.mul(block, size(TILE)),
                                              ir.VectorType(ir.IntType(16), TILE))) if four_bits else None
            places = [builder.add(builder.mul(row, n_blocks), loop.index) for row in at]  # of a block of numbers
            x_sums = [builder.load(builder.gep(x_sum.data, [place])) for place in places]
            totals = [_constant(_WORDS, 0) if four_bits else _splat(builder, builder.mul(value, _WORD(-128)), _WORDS)
                      for value in x_sums]
            weights = None
            for group in range(BLOCK // 4):
                if four_bits:
                    if group % 2 == 0:
                        offset = builder.add(builder.mul(block, size(BLOCK * TILE // 2)), size(group // 2 * 64))
                        pairs = builder.load(pointer(weight, offset, _BYTES), align=1)
                        weights = builder.and_(pairs, _constant(_BYTES, 15))
                    else:
                        weights = builder.lshr(pairs, _constant(_BYTES, 4))
                else:
                    offset = builder.add(builder.mul(block, size(BLOCK * TILE)), size(group * 64))
                    weights = builder.xor(builder.load(pointer(weight, offset, _BYTES), align=1), _constant(_BYTES, 128))
                for m, row in enumerate(at):
                    offset = builder.add(builder.mul(row, columns),
                                         builder.add(builder.mul(loop.index, size(BLOCK)), size(4 * group)))
                    four = _splat(builder, builder.load(pointer(x, offset, _WORD), align=1), _WORDS)
                    totals[m] = _add_dots(builder, totals[m], weights, four)
            for m, place in enumerate(places):
                factor = builder.load(builder.gep(x_scale.data, [place]))
                both = builder.fmul(scales, _splat(builder, factor, _FLOATS))
                change = builder.fmul(builder.sitofp(totals[m], _FLOATS), both, flags=("contract",))
                value = builder.fadd(builder.load(sums[m]), change, flags=("contract",))
                if four_bits:
                    shift = builder.fmul(factor, builder.sitofp(x_sums[m], _FLOAT))
                    shifted = builder.fmul(minima, _splat(builder, shift, _FLOATS), flags=("contract",))
                    value = builder.fadd(value, shifted, flags=("contract",))
                builder.store(value, sums[m])
        for m, row in enumerate(at):
            offset = builder.add(builder.mul(row, stride), builder.mul(tile, size(TILE)))
            builder.store(builder.load(sums[m]), pointer(out, offset, _FLOATS), align=1)
        return context.get_dummy_value()

    @intrinsic
    def tile_product(context, weight, scale, minimum, tile, x, x_scale, x_sum, first, out):
        return types.void(weight, scale, minimum, types.intp, x, x_scale, x_sum, types.intp, out), code

    return tile_product


_one, _several = _tile_product(1), _tile_product(TOGETHER)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def round_rows(x, out, scale, total):
    """Rows (n, K) to whole numbers from -127 to 127, int8 (n, 32 B), with a scale (n, B) and the sum (n, B) of each block.

    Where a number is not finite the scale is NaN, so a broken model is noticed. Magnitudes are compared, and numbers rounded,
    by their bits: loops of these use vector units.
    """
    for row in range(len(x)):
        for block in range(scale.shape[1]):
            low, high = block * BLOCK, min(block * BLOCK + BLOCK, x.shape[1])
            largest = np.int32(0)
            for j in range(low, high):
                largest = max(largest, np.int32(np.float32(x[row, j]).view(np.int32) & MAGNITUDE))
            top = np.int32(largest).view(np.float32)
            factor = LARGEST / top if top > SMALLEST else ZERO
            whole = np.int32(0)
            for j in range(low, high):
                number = np.int32(np.float32(x[row, j] * factor + ROUNDING).view(np.int32) - ROUNDING_BITS)  # the nearest
                out[row, j] = number
                whole = np.int32(whole + number)
            out[row, high:low + BLOCK] = 0
            total[row, block] = whole
            scale[row, block] = top / LARGEST if largest < INFINITE else NOT_A_NUMBER


@njit(nogil=True, cache=True)
def multiply_tiles(weight, scale, minimum, x, x_scale, x_sum, low, high, out):
    """out (n, 16 T) = rows (n, 32 B), as `round_rows` makes them, times the transpose of the tiles from `low` to `high`."""
    for tile in range(low, high):
        if len(x) == 1:
            _one(weight, scale, minimum, tile, x, x_scale, x_sum, 0, out)
        else:
            for first in range(0, len(x), TOGETHER):
                _several(weight, scale, minimum, tile, x, x_scale, x_sum, first, out)


@njit(nogil=True, cache=True)
def product_quantised(weight, scale, minimum, x):
    """Rows (n, K) times the transpose of a matrix in tiles: a new array (n, 16 T)."""
    n, blocks = len(x), scale.shape[1]
    numbers, scales = np.empty((n, blocks * BLOCK), np.int8), np.empty((n, blocks), np.float32)
    sums, out = np.empty((n, blocks), np.int32), np.empty((n, len(scale) * TILE), np.float32)
    round_rows(x, numbers, scales, sums)
    multiply_tiles(weight, scale, minimum, numbers, scales, sums, 0, len(scale), out)
    return out
