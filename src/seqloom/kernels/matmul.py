"""Products of rows of float32 with a matrix, plus a bias: `linear(matrix, x)`.

The weights are packed in panels, float32 (P, K, WIDTH) for a matrix (R, K) with P = ceil(R / WIDTH), padded
with zeros, in the order in which they are read (Goto and van de Geijn 2008, "Anatomy of High-Performance
Matrix Multiplication"): for few rows, reading the weights takes most of the time, and while one panel is
multiplied the next is prefetched. Each sum is made in the order of its K terms, however many rows there are,
so a row's product does not depend on the rows beside it, to the bit. `linear` also multiplies quantised
matrices (`kernels/quantised`); threads share a large product (`kernels/team`).
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from seqloom.arrays import aligned
from seqloom.kernels.intrinsics import constant, prefetch_at, splat
from seqloom.kernels.parallel import TEAM, WANTED, call_helpers
from seqloom.kernels.quantised import Tiles, linear_tiles, multiply_tiles, round_inputs
from seqloom.kernels.team import do_parts, product_work, share, without_team

LANES = 16  # numbers of a vector
# 32 registers of 16 numbers; otherwise sizes are chosen for 16 registers of 8
WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
VECTORS, MANY, SOME, FEW = (2, 12, 8, 4) if WIDE else (1, 6, 4, 2)  # of a panel; rows at a time
WIDTH = VECTORS * LANES
NO_BIAS = np.empty(0, np.float32)


class Panels(NamedTuple):
    """A matrix (R, K) as kernels read it."""

    panels: np.ndarray  # float32 (P, K, WIDTH)
    bias: np.ndarray  # float32 (P WIDTH,), or empty
    rows: int  # R
    team: np.ndarray = TEAM  # threads that may share the product


copyreg.pickle(Panels, without_team)


class PanelsJob(NamedTuple):
    """A product that threads share, panel by panel."""

    panels: np.ndarray
    bias: np.ndarray
    x: np.ndarray
    out: np.ndarray


def pack(weight: np.ndarray, bias: np.ndarray | None = None) -> Panels:
    """Return a matrix (R, K) in panels."""
    rows, columns = weight.shape
    room = -(-rows // WIDTH) * WIDTH
    padded = np.zeros((room, columns), np.float32)
    padded[:rows] = weight
    full = NO_BIAS
    if bias is not None and len(bias):
        full = np.zeros(room, np.float32)
        full[:rows] = bias
    return Panels(aligned(padded.reshape(-1, WIDTH, columns).swapaxes(1, 2)), full, rows)


# ---- pieces of a product that stay in registers


def product_piece(
    rows: int, vectors: int = 1, *, prefetching: bool = False, adding: bool = False
) -> Callable[..., Any]:
    """Make `piece(a, row, skip, b, start, step, steps, out, column, ahead)`.

    out[row:row + rows, column:column + 16 vectors] = a[row:row + rows, skip:skip + steps] times `steps` rows
    of b, each of 16 `vectors` numbers, flat from `start` on and `step` numbers apart. Rows beyond the end of
    a repeat its last row.

    With `prefetching`, the numbers of b from `ahead` on are prefetched, 16 for each step; with `adding` the
    product is added to out.
    """

    def code(context, builder, signature, arguments):
        assert all(kind.layout == "C" for kind in signature.args if isinstance(kind, types.Array))
        size, lanes = ir.IntType(64), ir.VectorType(ir.FloatType(), LANES)
        a, row, skip, b, start, step, steps, out, column, ahead = (
            context.make_array(kind)(context, builder, value)
            if isinstance(kind, types.Array)
            else value
            for kind, value in zip(signature.args, arguments)
        )
        last, width = cgutils.unpack_tuple(builder, a.shape)
        last, out_width = builder.sub(last, size(1)), cgutils.unpack_tuple(builder, out.shape)[1]
        of_rows = [builder.add(row, size(i)) for i in range(rows)]
        of_rows = [
            builder.select(builder.icmp_signed("<", number, last), number, last)
            for number in of_rows
        ]
        of_a = [
            builder.gep(a.data, [builder.add(builder.mul(number, width), skip)])
            for number in of_rows
        ]
        of_b = builder.gep(b.data, [start])

        def vector(pointer, offset):
            return builder.bitcast(builder.gep(pointer, [offset]), lanes.as_pointer())

        columns = [size(LANES * i) for i in range(vectors)]
        of_out = [
            builder.gep(out.data, [builder.add(builder.mul(number, out_width), column)])
            for number in of_rows
        ]
        sums = [[cgutils.alloca_once(builder, lanes) for _ in columns] for _ in of_rows]
        for pointer, totals in zip(of_out, sums):
            for offset, total in zip(columns, totals):
                first = (
                    builder.load(vector(pointer, offset), align=4)
                    if adding
                    else constant(lanes, 0.0)
                )
                builder.store(first, total)
        with cgutils.for_range(builder, steps, intp=size) as loop:
            if prefetching:
                prefetch_at(
                    builder,
                    builder.gep(b.data, [builder.add(ahead, builder.mul(loop.index, size(LANES)))]),
                )
            offset = builder.mul(loop.index, step)
            values = [
                builder.load(vector(of_b, builder.add(offset, column)), align=4)
                for column in columns
            ]
            for of_row, totals in zip(of_a, sums):
                factor = splat(builder, builder.load(builder.gep(of_row, [loop.index])), lanes)
                for value, total in zip(values, totals):
                    change = builder.fmul(factor, value, flags=("contract",))
                    builder.store(
                        builder.fadd(builder.load(total), change, flags=("contract",)), total
                    )
        for pointer, totals in zip(of_out, sums):
            for offset, total in zip(columns, totals):
                builder.store(builder.load(total), vector(pointer, offset), align=4)
        return context.get_dummy_value()

    @intrinsic
    def piece(context, a, row, skip, b, start, step, steps, out, column, ahead):
        integer = types.intp
        return types.void(
            a, integer, integer, b, integer, integer, integer, out, integer, integer
        ), code

    return piece


_many, _some, _few = (product_piece(rows, VECTORS, prefetching=True) for rows in (MANY, SOME, FEW))
_one = product_piece(1, VECTORS)


@njit(nogil=True, cache=True)
def multiply_panels(panels, bias, x, low, high, out):
    """Write rows x (n, K) times the transpose of the panels from `low` to `high`, plus their bias,
    to out (n, P WIDTH).
    """
    n, steps = x.shape
    size = steps * WIDTH
    if n == 1:
        for panel in range(low, high):
            _one(x, 0, 0, panels, panel * size, WIDTH, steps, out, panel * WIDTH, 0)
    else:
        for panel in range(low, high):
            start, column = panel * size, panel * WIDTH
            ahead = start + size if panel + 1 < len(panels) else start
            row = part = 0
            while row < n:
                share = ahead + part % VECTORS * (size // VECTORS)  # of the next panel
                part += 1
                if n - row > SOME:
                    _many(x, row, 0, panels, start, WIDTH, steps, out, column, share)
                    row += MANY
                elif n - row > FEW:
                    _some(x, row, 0, panels, start, WIDTH, steps, out, column, share)
                    row += SOME
                else:
                    _few(x, row, 0, panels, start, WIDTH, steps, out, column, share)
                    row += FEW
    if len(bias) > 0:
        for row in range(n):
            for j in range(low * WIDTH, high * WIDTH):
                out[row, j] += bias[j]


@overload(do_parts)
def _do_panels(job, low, high):
    def run(job, low, high):
        multiply_panels(job.panels, job.bias, job.x, low, high, job.out)

    return run if job.instance_class is PanelsJob else None


@njit(nogil=True, cache=True)
def linear_panels(panels, bias, rows, team, x):
    """Return rows x (n, K) times the transpose of a matrix in panels, plus its bias: a new array (n, R)."""
    out = np.empty((len(x), len(panels) * WIDTH), np.float32)
    share(team, PanelsJob(panels, bias, x, out), len(panels), product_work(panels.size, len(x)))
    return out if out.shape[1] == rows else out[:, :rows].copy()


def linear(matrix: Any, x: np.ndarray) -> np.ndarray:
    """Return rows x (n, K) times the transpose of a matrix (R, K), plus its bias: a new array (n, R)."""
    x = np.ascontiguousarray(x, np.float32)  # the kernels support no other layout
    product: Any = linear_tiles if isinstance(matrix, Tiles) else linear_panels
    out: np.ndarray = product(
        *matrix, x
    )  # numba dispatches on arrays faster than on tuples of them
    if TEAM[WANTED]:
        call_helpers()
    return out


@overload(linear)
def _linear_in_kernels(matrix, x):
    if getattr(matrix, "instance_class", None) is Panels:
        return lambda matrix, x: linear_panels(
            matrix.panels, matrix.bias, matrix.rows, matrix.team, x
        )
    return lambda matrix, x: linear_tiles(
        matrix.weight,
        matrix.scale,
        matrix.minimum,
        matrix.bias,
        matrix.rows,
        matrix.inputs_16_bit,
        matrix.team,
        x,
    )


def linear_into(matrix: Any, x: np.ndarray, out: np.ndarray) -> None:
    """Write the result of `linear` to out, in kernels, by this thread alone; out must have room for
    whole panels or tiles.
    """
    out[:, : matrix.rows] = linear(matrix, x)


@overload(linear_into)
def _linear_into_in_kernels(matrix, x, out):
    def panels(matrix, x, out):
        multiply_panels(matrix.panels, matrix.bias, x, 0, len(matrix.panels), out)

    def tiles(matrix, x, out):
        numbers, scales, sums = round_inputs(x, matrix.scale.shape[1], matrix.inputs_16_bit)
        multiply_tiles(matrix, numbers, scales, sums, 0, len(matrix.scale), out)

    return panels if matrix.instance_class is Panels else tiles


# ---- small products of temporary arrays, as in attention

# rows, and vectors of a row, of which the sums stay in registers
BLOCK_ROWS, WIDEST = (4, 4) if WIDE else (2, 2)
_row_4, _row_2, _row_1 = (product_piece(1, vectors, adding=True) for vectors in (4, 2, 1))
_rows_4, _rows_2, _rows_1 = (
    product_piece(BLOCK_ROWS, vectors, adding=True) for vectors in (4, 2, 1)
)


@njit(nogil=True, cache=True)
def add_block(a, rows, skip, b, start, step, steps, out, column, columns):
    """Add a[:rows, skip:skip + steps] times b to out[:rows, column:column + columns], with `columns`
    rounded up to whole vectors.

    b has `steps` rows, `step` numbers apart, flat from `start` on; b and out are followed by space for a
    vector.
    """
    done = 0
    while done < columns:
        left = columns - done
        vectors = 4 if WIDEST == 4 and left > 3 * LANES else 2 if left > LANES else 1
        first, at = start + done, column + done
        row = 0
        while row < rows:
            if rows - row == 1:
                if vectors == 4:
                    _row_4(a, row, skip, b, first, step, steps, out, at, 0)
                elif vectors == 2:
                    _row_2(a, row, skip, b, first, step, steps, out, at, 0)
                else:
                    _row_1(a, row, skip, b, first, step, steps, out, at, 0)
                row += 1
            else:
                if vectors == 4:
                    _rows_4(a, row, skip, b, first, step, steps, out, at, 0)
                elif vectors == 2:
                    _rows_2(a, row, skip, b, first, step, steps, out, at, 0)
                else:
                    _rows_1(a, row, skip, b, first, step, steps, out, at, 0)
                row += BLOCK_ROWS
        done += vectors * LANES
