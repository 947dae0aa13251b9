"""Products of the few dozen rows that are the tokens of a text with matrices of float32.

For so few rows much of the time is that of reading the weights, each of which is used only once a row. Here they lie in the
order in which they are read (the panels of Goto and van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication"),
and while one panel is multiplied the next is fetched.

    panels of a matrix (R, K), P = ceil(R / WIDTH), what is beyond R is zero: float32 (P, K, WIDTH)
"""

from __future__ import annotations

from llvmlite import binding
from numba import njit

from seqloom.kernels.intrinsics import LANES, product_piece

WIDE = bool(binding.get_host_cpu_features().get("avx512f"))  # 32 registers of 16 numbers; else as many as 16 of 8 hold
VECTORS, MANY, SOME, FEW = (2, 12, 8, 4) if WIDE else (1, 6, 4, 2)  # of a panel; rows at a time
WIDTH = VECTORS * LANES

_many, _some, _few = (product_piece(rows, VECTORS, prefetching=True) for rows in (MANY, SOME, FEW))


@njit(nogil=True, cache=True)
def multiply_panels(panels, x, low, high, out):
    """out (n, P WIDTH) = rows x (n, K) times the transpose of the panels from `low` to `high`."""
    n, steps = x.shape
    size = steps * WIDTH
    for panel in range(low, high):
        start, column = panel * size, panel * WIDTH
        ahead = start + size if panel + 1 < len(panels) else start
        row = part = 0
        while row < n:
            share = ahead + part % VECTORS * (size // VECTORS)  # of the next panel
            part += 1
            if n - row > SOME:
                _many(x, row, panels, start, WIDTH, steps, out, column, share)
                row += MANY
            elif n - row > FEW:
                _some(x, row, panels, start, WIDTH, steps, out, column, share)
                row += SOME
            else:
                _few(x, row, panels, start, WIDTH, steps, out, column, share)
                row += FEW
