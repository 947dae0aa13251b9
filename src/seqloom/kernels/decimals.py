"""Decimal numbers and the lines of word-vector files, read from bytes.

A number is an integer of up to 18 digits times a power of ten, in double precision, then rounded to
single: the nearest float32, except that within about 1e-8 of the middle between two it may be the other
one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_TENS = 10.0 ** np.arange(23)  # exact in double precision
_MAX_DIGITS = 18  # that fit an integer of 64 bits
_BEYOND = 400  # a power of ten that takes any number of 18 digits to zero or infinity
_NEWLINE, _RETURN, _SPACE, _TAB = 10, 13, 32, 9


@njit(nogil=True, cache=True)
def _spells_infinity(data, i, size):
    """Return the index of the byte after `inf` or `infinity` (in any case) at `i`, or -1."""
    name = b"infinity"
    n = 0
    while n < 8 and i + n < size and (data[i + n] | 32) == name[n]:
        n += 1
    return i + n if n == 8 or n == 3 else -1


@njit(nogil=True, cache=True)
def parse_numbers(data, i, size, out):
    """Read the numbers of a line from byte `i` on, each after blanks, into `out`; return the index
    where the next line begins.

    -1 if the line has anything else, or fewer or more numbers. The end of the data ends a line.
    """
    for n in range(len(out)):
        start = i
        while i < size and (data[i] == _SPACE or data[i] == _TAB):
            i += 1
        if i >= size or i == start:
            return -1
        negative = data[i] == 45
        if negative or data[i] == 43:
            i += 1
        mantissa, digits, power, any_digit = np.uint64(0), 0, 0, False
        after_point = 0  # 1 after the decimal point: each digit lowers the power of ten
        while i < size:
            digit = np.int64(data[i]) - 48
            if digit >= 0 and digit <= 9:
                any_digit = True
                if digits < _MAX_DIGITS:
                    mantissa = mantissa * np.uint64(10) + np.uint64(digit)
                    power -= after_point
                    if mantissa:
                        digits += 1
                else:
                    power += 1 - after_point
            elif digit == -2 and after_point == 0:  # the point
                after_point = 1
            else:
                break
            i += 1
        value = np.float64(mantissa)
        if not any_digit:
            if after_point == 1:
                return -1
            stop = _spells_infinity(data, i, size)
            if stop > 0:
                value, i = np.inf, stop
            elif (
                i + 3 <= size
                and (data[i] | 32) == 110
                and (data[i + 1] | 32) == 97
                and (data[i + 2] | 32) == 110
            ):
                value = np.nan
                i += 3
            else:
                return -1
        elif i < size and (data[i] | 32) == 101:
            i += 1
            down = i < size and data[i] == 45
            if i < size and (down or data[i] == 43):
                i += 1
            first, exponent = i, 0
            while i < size and data[i] >= 48 and data[i] <= 57:
                exponent = min(exponent * 10 + np.int64(data[i]) - 48, 100_000_000)
                i += 1
            if i == first:
                return -1
            power += -exponent if down else exponent
        if power != 0 and mantissa:
            power = min(max(power, -_BEYOND), _BEYOND)
            while power < -22:
                value /= 1e22
                power += 22
            while power > 22:
                value *= 1e22
                power -= 22
            value = value / _TENS[-power] if power < 0 else value * _TENS[power]
        out[n] = -value if negative else value
    while i < size and (data[i] == _SPACE or data[i] == _TAB or data[i] == _RETURN):
        i += 1
    if i >= size:
        return size
    return i + 1 if data[i] == _NEWLINE else -1


@njit(nogil=True, cache=True)
def parse_vectors(data, i, size, matrix, starts, stops):
    """Read lines `word number ... number` from byte `i` on; the bytes of each word are
    `data[start:stop]`.

    A word with blanks is everything before the last numbers of its line. Return (rows read, the byte
    after them); stops before a line that is not of this form.
    """
    width = matrix.shape[1]
    for n in range(len(matrix)):
        if i >= size:
            return n, i
        stop = i
        while (
            stop < size and data[stop] != _SPACE and data[stop] != _TAB and data[stop] != _NEWLINE
        ):
            stop += 1
        after = parse_numbers(data, stop, size, matrix[n]) if stop > i else -1
        if after < 0:
            end = stop
            while end < size and data[end] != _NEWLINE:
                end += 1
            stop = end
            while stop > i and data[stop - 1] <= _SPACE:
                stop -= 1
            for n_left in range(width - 1, -1, -1):  # over the last numbers, from the end
                while stop > i and data[stop - 1] != _SPACE and data[stop - 1] != _TAB:
                    stop -= 1
                if n_left:
                    while stop > i and (data[stop - 1] == _SPACE or data[stop - 1] == _TAB):
                        stop -= 1
            stop -= 1  # one blank ends the word; any others belong to it
            if stop <= i:
                return n, i
            after = parse_numbers(data, stop, size, matrix[n])
            if after < 0:
                return n, i
        starts[n], stops[n] = i, stop
        i = after
    return len(matrix), i


@njit(nogil=True, cache=True)
def parse_binary_vectors(data, i, size, raw, starts, stops):
    """Read records `word blank bytes`, with or without newlines before the word, into `raw`: the
    matrix as bytes (V, 4 D).

    Return (rows read, the byte after them); stops before a record that the end of the data cuts off.
    """
    width = raw.shape[1]
    for n in range(len(raw)):
        begin = i
        while begin < size and data[begin] == _NEWLINE:
            begin += 1
        stop = begin
        while stop < size and data[stop] != _SPACE:
            stop += 1
        if stop + 1 + width > size or stop == begin:
            return n, i
        for j in range(width):
            raw[n, j] = data[stop + 1 + j]
        starts[n], stops[n] = begin, stop
        i = stop + 1 + width
    return len(raw), i


@njit(nogil=True, cache=True)
def gather_words(data, starts, stops, offsets, arena):
    """Concatenate the bytes of all words; offsets[k] is where word k begins in `arena`."""
    for k in range(len(starts)):
        at = offsets[k]
        for j in range(starts[k], stops[k]):
            arena[at] = data[j]
            at += 1
