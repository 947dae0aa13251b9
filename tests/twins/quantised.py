"""Quantised matrices one number at a time, as docs/format.md describes them."""

import numpy as np

LARGEST_FINE = 32639  # of numbers of 16 bits whose halves are signed: 127 * 256 + 127


def rounded(x, most=127):
    """Rows (n, K) in whole numbers up to `most`, as `kernels.quantised` has them: numbers (n, 32
    B), scales (n, B), sums. A scale is that of a block with 8 bits, of a row with 16.
    """
    n, columns = x.shape
    blocks = -(-columns // 32)
    numbers, scales, sums = (
        np.zeros((n, blocks * 32), np.int64),
        np.zeros((n, blocks)),
        np.zeros((n, blocks), np.int32),
    )
    for row in range(n):
        for block in range(blocks):
            part = x[row, block * 32 : block * 32 + 32].astype(np.float64)
            largest = max(
                abs(value) for value in (part if most == 127 else x[row].astype(np.float64))
            )
            scales[row, block] = largest / most
            for j, value in enumerate(part):
                numbers[row, block * 32 + j] = round(value / largest * most) if largest else 0
                sums[row, block] += numbers[row, block * 32 + j]
    return numbers, scales, sums


def floats(shape, weight, scale, minimum):
    """The matrix (R, K) in tiles, float64."""
    out = np.empty(shape)
    for r in range(shape[0]):
        for k in range(shape[1]):
            tile, lane, block = r // 16, r % 16, k // 32
            if weight.dtype == np.int8:
                out[r, k] = float(weight[tile, k // 4, lane, k % 4]) * float(
                    scale[tile, block, lane]
                )
            else:
                byte = int(weight[tile, k // 8, lane, k % 4])
                number = byte >> 4 if k % 8 >= 4 else byte & 15
                out[r, k] = number * float(scale[tile, block, lane]) + float(
                    minimum[tile, block, lane]
                )
    return out
