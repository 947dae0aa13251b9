"""Instructions of LLVM that numba does not offer: prefetching, random bits, vectors, sums in a fixed
order, sums of products of bytes.
"""

from __future__ import annotations

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic


def prefetch_at(builder: ir.IRBuilder, pointer: ir.Value) -> None:
    """Emit LLVM code that prefetches the cache line at a pointer."""
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.VoidType(), [byte, number, number, number]),
        "llvm.prefetch.p0i8",
    )
    # read, keep near, data
    builder.call(function, [builder.bitcast(pointer, byte), number(0), number(3), number(1)])


@intrinsic
def prefetch(context, table, row, column):
    """Prefetch the cache line of table[row, column] (table[row] if it has one dimension)."""
    signature = types.void(table, row, column)

    def code(context, builder, signature, arguments):
        kind = signature.args[0]
        indices = [
            context.cast(builder, value, of, types.intp)
            for value, of in zip(arguments[1:], signature.args[1:])
        ]
        indices = indices[: kind.ndim]
        array = context.make_array(kind)(context, builder, arguments[0])
        prefetch_at(builder, cgutils.get_item_pointer(context, builder, kind, array, indices))
        return context.get_dummy_value()

    return signature, code


@njit(nogil=True, cache=True)
def prefetch_row(table, row):
    """Prefetch all of table[row], float32, 16 to a cache line."""
    for column in range(0, table.shape[1], 16):
        prefetch(table, row, column)


@njit(nogil=True, cache=True)
def random_bits(state):
    """Return the next 64 bits of xorshift64* (Vigna 2016); `state` is an array of one uint64 that
    is not 0.
    """
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(0x2545F4914F6CDD1D)


@intrinsic
def trailing_zeros(context, number):
    """Count the trailing zero bits of a number that is not zero."""
    signature = types.uint64(types.uint64)

    def code(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return signature, code


# ---- vectors, for code of LLVM

WORD, BYTES, WORDS = (
    ir.IntType(32),
    ir.VectorType(ir.IntType(8), 64),
    ir.VectorType(ir.IntType(32), 16),
)
FLOATS = ir.VectorType(ir.FloatType(), 16)


def splat(builder, value, kind):
    """Return a vector with this value in all lanes."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, WORD(0))
    return builder.shuffle_vector(
        first, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(WORD, kind.count), None)
    )


def constant(kind, value):
    return ir.Constant(kind, [value] * kind.count)


def halves(builder, pointer):
    """Convert 16 float16 to float32 by their bits, since not every processor has an instruction.
    Values that are not finite do not occur.
    """
    wide = builder.zext(builder.load(pointer, align=1), WORDS)
    magnitude = builder.bitcast(
        builder.shl(builder.and_(wide, constant(WORDS, 0x7FFF)), constant(WORDS, 13)), FLOATS
    )
    sign = builder.shl(builder.and_(wide, constant(WORDS, 0x8000)), constant(WORDS, 16))
    scaled = builder.bitcast(builder.fmul(magnitude, constant(FLOATS, 2.0**112)), WORDS)
    return builder.bitcast(builder.or_(scaled, sign), FLOATS)


# ---- sums in a fixed order
#
# Where LLVM may reorder a sum to use vectors, it does so differently wherever the loop is inlined, and sums
# of the same numbers then differ in the last bit. numba gives the fast-math flags of a function to all its
# instructions that have none, so here each instruction has one.

SUMS = 4  # vectors of sums, so that one addition need not wait for the previous one
FUSED = ("contract",)  # a product and a sum may be one instruction


def _sum_lanes(builder, vector):
    """Return the sum of a vector's lanes, adding halves until one is left."""
    while (half := vector.type.count // 2) > 0:
        lanes = [
            ir.Constant(ir.VectorType(WORD, half), list(range(at, at + half))) for at in (0, half)
        ]
        undefined = ir.Constant(vector.type, ir.Undefined)
        low, high = (builder.shuffle_vector(vector, undefined, part) for part in lanes)
        vector = builder.fadd(low, high, flags=FUSED)
    return builder.extract_element(vector, WORD(0))


def _ordered_sum(term):
    """Return code that sums `term(builder, values, shift)` over the indices of arrays of equal length;
    the last argument is the shift.
    """

    def code(context, builder, signature, arguments):
        size, number = ir.IntType(64), context.get_value_type(signature.return_type)
        lanes, width = ir.VectorType(number, 16), context.get_abi_sizeof(number)
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[:-1], arguments[:-1])
        ]
        shift, length = arguments[-1], cgutils.unpack_tuple(builder, arrays[0].shape)[0]
        shifts = splat(builder, shift, lanes)
        sums = [cgutils.alloca_once_value(builder, constant(lanes, 0.0)) for _ in range(SUMS)]

        def load(array, index, kind):
            pointer = builder.bitcast(builder.gep(array.data, [index]), kind.as_pointer())
            return builder.load(pointer, align=width)

        def add(total, index, kind, shift):
            value = term(builder, [load(array, index, kind) for array in arrays], shift)
            builder.store(builder.fadd(builder.load(total), value, flags=FUSED), total)

        begin = size(0)
        for many in (SUMS, 1):
            step = size(16 * many)
            end = builder.sub(length, builder.srem(length, step))
            with cgutils.for_range_slice(builder, begin, end, step, size) as (index, _):
                for i in range(many):
                    add(sums[i], builder.add(index, size(16 * i)), lanes, shifts)
            begin = end
        first, *others = (builder.load(total) for total in sums)
        for other in others:
            first = builder.fadd(first, other, flags=FUSED)
        total = cgutils.alloca_once_value(builder, _sum_lanes(builder, first))
        with cgutils.for_range_slice(builder, begin, length, size(1), size) as (index, _):
            add(total, index, number, shift)
        return builder.load(total)

    return code


@intrinsic
def sum_row(context, x):
    """Return the sum of an array of floats, the same wherever it is compiled."""

    def code(context, builder, signature, arguments):
        zero = ir.Constant(context.get_value_type(x.dtype), 0.0)
        total = _ordered_sum(lambda builder, values, shift: values[0])
        return total(context, builder, x.dtype(x, x.dtype), [*arguments, zero])

    return x.dtype(x), code


@intrinsic
def dot_rows(context, a, b, shift):
    """Return the sum of (a - shift)(b - shift) of two arrays of floats, the same wherever it is
    compiled.
    """

    def term(builder, values, shift):
        return builder.fmul(
            *(builder.fsub(value, shift, flags=FUSED) for value in values), flags=FUSED
        )

    return a.dtype(a, b, a.dtype), _ordered_sum(term)


# ---- products of 8-bit numbers


def has_vnni() -> bool:
    return bool(binding.get_host_cpu_features().get("avx512vnni"))


def add_dots(builder, total, weights, numbers):
    """Add to total, 16 sums, the sums of the products of 16 x 4 unsigned bytes with as many signed ones."""
    if has_vnni():
        as_words = binding.llvm_version_info[0] < 21  # older versions take the bytes as words
        kind = WORDS if as_words else BYTES
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(WORDS, [WORDS, kind, kind]),
            "llvm.x86.avx512.vpdpbusd.512",
        )
        return builder.call(
            function, [total, builder.bitcast(weights, kind), builder.bitcast(numbers, kind)]
        )
    weights = builder.bitcast(weights, WORDS)
    for i in range(4):
        weight = builder.and_(builder.lshr(weights, constant(WORDS, 8 * i)), constant(WORDS, 255))
        number = builder.ashr(
            builder.shl(numbers, constant(WORDS, 24 - 8 * i)), constant(WORDS, 24)
        )
        total = builder.add(total, builder.mul(weight, number))
    return total
