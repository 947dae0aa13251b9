"""The matrix unit of newer Intel processors (AMX): its instructions, and whether it may be used.

It has eight registers of up to 16 rows of 64 bytes, here called by their number; `configure` says how many rows and bytes each
has. One instruction adds the products of up to 16 rows of numbers with 16 rows of weights to 16 x 16 sums. The system must
allow a process to use the unit, as it has to keep more for each thread then.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_REQUEST, _TILE_DATA, _ARCH_PRCTL = 0x1023, 18, 158  # of Linux on x86-64


@cache
def available() -> bool:
    """Whether the processor has the unit and the system lets this process use it. To be asked before the first product."""
    features = binding.get_host_cpu_features()
    return (sys.platform == "linux" and all(map(features.get, ("amx-tile", "amx-int8", "amx-bf16", "avx512f")))
            and ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0)


# ---- the unit's instructions

REGISTER, SIZE, BYTE = ir.IntType(8), ir.IntType(64), ir.IntType(8).as_pointer()


def instruct(builder, name, *operands):
    """One of the unit's instructions, by LLVM's name; registers are numbers of 8 bits."""
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [operand.type for operand in operands]), f"llvm.x86.{name}")
    builder.call(function, operands)


@intrinsic
def configure(context, shape):
    """Take the sizes of the registers from 64 bytes (`_sizes`)."""
    def code(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        instruct(builder, "ldtilecfg", builder.bitcast(array.data, BYTE))
        return context.get_dummy_value()

    return types.void(shape), code


@intrinsic
def release(context):
    """Threads that do not use the registers are switched faster."""
    def code(context, builder, signature, arguments):
        instruct(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), code
