"""What numba has no name for, as instructions of LLVM, and what several steps need of them. All of it becomes part of the
kernel that uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic


def prefetch_at(builder: ir.IRBuilder, pointer: ir.Value) -> None:
    """For code of LLVM: the cache line there is asked for."""
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [byte, number, number, number]), "llvm.prefetch.p0i8")
    builder.call(function, [builder.bitcast(pointer, byte), number(0), number(3), number(1)])  # read, keep near, data


@intrinsic
def prefetch(context, table, row, column):
    """Ask for the cache line of table[row, column] (table[row] where it has one dimension) without waiting for it."""
    signature = types.void(table, row, column)

    def code(context, builder, signature, arguments):
        kind = signature.args[0]
        place = [context.cast(builder, value, of, types.intp) for value, of in zip(arguments[1:], signature.args[1:])]
        place = place[:kind.ndim]
        array = context.make_array(kind)(context, builder, arguments[0])
        prefetch_at(builder, cgutils.get_item_pointer(context, builder, kind, array, place))
        return context.get_dummy_value()

    return signature, code


@njit(nogil=True, cache=True)
def prefetch_row(table, row):
    """Ask for the whole of table[row], float32 of 16 to a cache line."""
    for column in range(0, table.shape[1], 16):
        prefetch(table, row, column)


@njit(nogil=True, cache=True)
def random_bits(state):
    """The next 64 of xorshift64* (Vigna 2016); `state` is an array of one uint64 that is not 0."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(0x2545F4914F6CDD1D)


@intrinsic
def trailing_zeros(context, number):
    """How many zero bits a number that is not zero ends with."""
    signature = types.uint64(types.uint64)

    def code(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return signature, code


# ---- functions of float32 that loops can compute with vector instructions

@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def exp(x):
    """e^x of a float32 to 1e-7; written out because the library's is a call that keeps loops from using vector units.

    e^x = 2^k e^r with whole k and |r| <= ln 2 / 2: a polynomial (Cephes) for e^r, and k put into the exponent bits.
    """
    x = min(max(x, np.float32(-87.0)), np.float32(88.0))
    k = np.floor(x * np.float32(1.4426950408889634) + np.float32(0.5))
    r = x - k * np.float32(0.693359375) + k * np.float32(2.12194440e-4)  # ln 2 in two parts
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + ONE
    return p * np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)


# x P(x^2) / Q(x^2), fitted to tanh on |x| <= 9.1 for the smallest largest relative error (2.3e-8; 3e-7 after
# rounding to float32). Beyond 9.1 tanh is 1 in float32. numba has no vector form of math.tanh.
EDGE = np.float32(9.1)
P0 = np.float32(0.9999999772199577)
P1 = np.float32(0.1337446318136119)
P2 = np.float32(0.0034877967696970457)
P3 = np.float32(2.0480954582865103e-05)
P4 = np.float32(1.3177212634831404e-08)
Q1 = np.float32(0.46707776968776)
Q2 = np.float32(0.02584733426414527)
Q3 = np.float32(0.00032728969126553036)
Q4 = np.float32(7.703916507557806e-07)
ONE = np.float32(1)


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy", inline="always")
def tanh32(x):
    """tanh in float32; a NaN stays one, since comparisons with it are false."""
    x = EDGE if x > EDGE else x
    x = -EDGE if x < -EDGE else x
    s = x * x
    p = (((P4 * s + P3) * s + P2) * s + P1) * s + P0
    q = (((Q4 * s + Q3) * s + Q2) * s + Q1) * s + ONE
    y = x * p / q
    y = ONE if y > ONE else y
    return -ONE if y < -ONE else y


# ---- loops over a few numbers of float32

@njit(nogil=True, cache=True, inline="always")
def in_order(bits):
    """The bits of a float32 as a whole number that is larger where the float32 is, and back: numba's loops find the largest of
    whole numbers, but not of floats, with vector units."""
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


FAST = {"reassoc", "contract", "nsz"}
ZERO = np.float32(0)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def dot(a, b):
    total = ZERO
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def add_scaled(out, share, x):
    for j in range(len(out)):
        out[j] += share * x[j]


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def softmax(scores):
    top = scores[0]
    for t in range(len(scores)):
        top = max(top, scores[t])
    total = ZERO
    for t in range(len(scores)):
        scores[t] = exp(scores[t] - top)
        total += scores[t]
    share = ONE / total
    for t in range(len(scores)):
        scores[t] *= share


# ---- vectors, for code of LLVM

WORD, BYTES, WORDS = ir.IntType(32), ir.VectorType(ir.IntType(8), 64), ir.VectorType(ir.IntType(32), 16)
FLOATS = ir.VectorType(ir.FloatType(), 16)


def splat(builder, value, kind):
    """A vector whose lanes all have this value."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, WORD(0))
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(WORD, kind.count), None))


def constant(kind, value):
    return ir.Constant(kind, [value] * kind.count)


def halves(builder, pointer):
    """16 float16 as float32; by their bits, since not every processor has an instruction. What is not finite is not met."""
    wide = builder.zext(builder.load(pointer, align=1), WORDS)
    magnitude = builder.bitcast(builder.shl(builder.and_(wide, constant(WORDS, 0x7FFF)), constant(WORDS, 13)), FLOATS)
    sign = builder.shl(builder.and_(wide, constant(WORDS, 0x8000)), constant(WORDS, 16))
    scaled = builder.bitcast(builder.fmul(magnitude, constant(FLOATS, 2.0 ** 112)), WORDS)
    return builder.bitcast(builder.or_(scaled, sign), FLOATS)


@intrinsic
def at_least(context, values, row, limit):
    """Which of the 64 numbers of values[row] are at least `limit`: a bit for each, of an uint64."""
    signature = types.uint64(values, row, types.float32)

    def code(context, builder, signature, arguments):
        kind, bits = signature.args[0], ir.IntType(64)
        array = context.make_array(kind)(context, builder, arguments[0])
        which = context.cast(builder, arguments[1], signature.args[1], types.intp)
        start = cgutils.get_item_pointer(context, builder, kind, array, [which, context.get_constant(types.intp, 0)])
        every, found = splat(builder, arguments[2], FLOATS), bits(0)
        for i in range(4):
            place = builder.bitcast(builder.gep(start, [bits(16 * i)]), FLOATS.as_pointer())
            above = builder.fcmp_ordered(">=", builder.load(place, align=4), every)
            some = builder.zext(builder.bitcast(above, ir.IntType(16)), bits)
            found = builder.or_(found, builder.shl(some, bits(16 * i)))
        return found

    return signature, code


# ---- products of float32

LANES = 16  # numbers of a vector


def product_piece(rows: int, vectors: int = 1, *, prefetching: bool = False) -> Callable[..., Any]:
    """`piece(a, row, b, start, step, steps, out, column, ahead)`: out[row:row + rows, column:column + 16 vectors] = the first
    `steps` numbers of these rows of a, times as many rows of 16 vectors numbers each, which lie in b `step` numbers apart,
    flat from `start` on. Rows beyond the last of a are the last one again.

    With `prefetching`, the numbers of b from `ahead` on are asked for meanwhile, 16 for each step.
    """
    def code(context, builder, signature, arguments):
        size, lanes = ir.IntType(64), ir.VectorType(ir.FloatType(), LANES)
        a, row, b, start, step, steps, out, column, ahead = (
            context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, arguments))
        last, width = cgutils.unpack_tuple(builder, a.shape)
        last, out_width = builder.sub(last, size(1)), cgutils.unpack_tuple(builder, out.shape)[1]
        places = [builder.add(row, size(i)) for i in range(rows)]
        places = [builder.select(builder.icmp_signed("<", place, last), place, last) for place in places]
        of_a = [builder.gep(a.data, [builder.mul(place, width)]) for place in places]
        sums = [[cgutils.alloca_once_value(builder, constant(lanes, 0.0)) for _ in range(vectors)] for _ in places]

        def pointer(array, offset, i):
            return builder.bitcast(builder.gep(array.data, [builder.add(offset, size(LANES * i))]), lanes.as_pointer())

        with cgutils.for_range(builder, steps, intp=size) as loop:
            if prefetching:
                prefetch_at(builder, builder.gep(b.data, [builder.add(ahead, builder.mul(loop.index, size(LANES)))]))
            place = builder.add(start, builder.mul(loop.index, step))
            values = [builder.load(pointer(b, place, i), align=4) for i in range(vectors)]
            for of_row, totals in zip(of_a, sums):
                factor = builder.load(builder.gep(of_row, [loop.index]))
                spread = splat(builder, factor, lanes)
                for value, total in zip(values, totals):
                    change = builder.fmul(spread, value, flags=("contract",))
                    builder.store(builder.fadd(builder.load(total), change, flags=("contract",)), total)
        for place, totals in zip(places, sums):
            offset = builder.add(builder.mul(place, out_width), column)
            for i, total in enumerate(totals):
                builder.store(builder.load(total), pointer(out, offset, i), align=4)
        return context.get_dummy_value()

    @intrinsic
    def piece(context, a, row, b, start, step, steps, out, column, ahead):
        one = types.intp
        return types.void(a, one, b, one, one, one, out, one, one), code

    return piece


# ---- products of 8-bit numbers

TOGETHER = 64  # rows


def has_vnni() -> bool:
    return bool(binding.get_host_cpu_features().get("avx512vnni"))


def add_dots(builder, total, weights, numbers):
    """total, 16 sums, plus those of the products of 16 x 4 unsigned bytes with as many signed ones."""
    if has_vnni():
        whole = binding.llvm_version_info[0] < 21  # which has its bytes as words
        kind = WORDS if whole else BYTES
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(WORDS, [WORDS, kind, kind]), "llvm.x86.avx512.vpdpbusd.512")
        return builder.call(function, [total, builder.bitcast(weights, kind), builder.bitcast(numbers, kind)])
    weights = builder.bitcast(weights, WORDS)
    for i in range(4):
        weight = builder.and_(builder.lshr(weights, constant(WORDS, 8 * i)), constant(WORDS, 255))
        number = builder.ashr(builder.shl(numbers, constant(WORDS, 24 - 8 * i)), constant(WORDS, 24))
        total = builder.add(total, builder.mul(weight, number))
    return total


@intrinsic
def product_of_row(context, weights, row, x):
    """The product of a row of numbers from 0 to 15 with x (128 K,) int8. The row is weights[row] (64 K,), two to a byte:
    the low halves of 64 bytes have the first 64 numbers of 128, the high halves the others."""
    signature = types.int32(weights, row, x)

    def code(context, builder, signature, arguments):
        zero, size = context.get_constant(types.intp, 0), ir.IntType(64)
        kind, array = signature.args[0], context.make_array(signature.args[0])(context, builder, arguments[0])
        which = context.cast(builder, arguments[1], signature.args[1], types.intp)
        first = cgutils.get_item_pointer(context, builder, kind, array, [which, zero])
        inputs = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        sums = [cgutils.alloca_once_value(builder, constant(WORDS, 0)) for _ in (0, 1)]
        vectors = builder.lshr(cgutils.unpack_tuple(builder, array.shape, 2)[1], size(6))
        with cgutils.for_range(builder, vectors, intp=size) as loop:
            at = builder.bitcast(builder.gep(first, [builder.mul(loop.index, size(64))]), BYTES.as_pointer())
            both = builder.load(at, align=1)
            halves = builder.and_(both, constant(BYTES, 15)), builder.lshr(both, constant(BYTES, 4))
            for i, (total, half) in enumerate(zip(sums, halves)):
                place = builder.gep(inputs, [builder.add(builder.mul(loop.index, size(128)), size(64 * i))])
                numbers = builder.load(builder.bitcast(place, WORDS.as_pointer()), align=1)
                builder.store(add_dots(builder, builder.load(total), half, numbers), total)
        every = builder.add(*map(builder.load, sums))
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(WORD, [WORDS]), "llvm.vector.reduce.add.v16i32")
        return builder.call(function, [every])

    return signature, code


@intrinsic
def products_of_64(context, weights, group, x, out):
    """out (64,) int32 = the products of 64 rows of numbers from 0 to 15 with x (8 K,) int8. The rows are weights[group]
    (K, 64, 4), two numbers to a byte: the first four of each row in the low halves of four bytes, the next four in the high."""
    signature = types.void(weights, group, x, out)

    def code(context, builder, signature, arguments):
        zero = context.get_constant(types.intp, 0)

        def pointer(i, *place):
            kind = signature.args[i]
            array = context.make_array(kind)(context, builder, arguments[i])
            return array, cgutils.get_item_pointer(context, builder, kind, array, place)

        which = context.cast(builder, arguments[1], signature.args[1], types.intp)
        array, first = pointer(0, which, zero, zero, zero)
        inputs = builder.bitcast(pointer(2, zero)[1], WORD.as_pointer())
        sums = [cgutils.alloca_once(builder, WORDS) for _ in range(TOGETHER // 8)]  # of low and of high halves
        for total in sums:
            builder.store(constant(WORDS, 0), total)
        with cgutils.for_range(builder, cgutils.unpack_tuple(builder, array.shape, 4)[1]) as loop:
            index, size = loop.index, loop.index.type
            fours = [splat(builder, builder.load(builder.gep(inputs, [builder.add(builder.mul(index, size(2)), size(half))]),
                                                 align=1), WORDS) for half in (0, 1)]
            for i in range(TOGETHER // 16):
                at = builder.gep(first, [builder.add(builder.mul(index, size(4 * TOGETHER)), size(64 * i))])
                both = builder.load(builder.bitcast(at, BYTES.as_pointer()), align=1)
                halves = builder.and_(both, constant(BYTES, 15)), builder.lshr(both, constant(BYTES, 4))
                for total, half, four in zip(sums[2 * i:], halves, fours):
                    builder.store(add_dots(builder, builder.load(total), half, four), total)
        for i in range(TOGETHER // 16):
            place = pointer(3, context.get_constant(types.intp, 16 * i))[1]
            value = builder.add(*map(builder.load, sums[2 * i:2 * i + 2]))
            builder.store(value, builder.bitcast(place, WORDS.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, code
