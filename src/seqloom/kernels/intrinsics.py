"""What numba has no name for, as instructions of LLVM, and what several steps need of them. All of it becomes part of the
kernel that uses it."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def prefetch(context, table, row, column):
    """Ask for the cache line of table[row, column] (table[row] where it has one dimension) without waiting for it."""
    signature = types.void(table, row, column)

    def code(context, builder, signature, arguments):
        kind = signature.args[0]
        place = [context.cast(builder, value, of, types.intp) for value, of in zip(arguments[1:], signature.args[1:])]
        place = place[:kind.ndim]
        array = context.make_array(kind)(context, builder, arguments[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        pointer = builder.bitcast(cgutils.get_item_pointer(context, builder, kind, array, place), byte)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, number, number, number]), "llvm.prefetch.p0i8")
        builder.call(function, [pointer, number(0), number(3), number(1)])  # read, keep near, data
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
