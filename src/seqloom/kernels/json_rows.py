"""One field of every line of JSON Lines, straight from the bytes to a buffer of text.

A line is checked against the whole grammar (RFC 8259; NaN and Infinity pass, as Python writes them) and
nothing but the wanted field is copied. The field is a path of steps: a key inside an object, a number
inside an array. `matched` counts how many of the open containers, from the outermost, lie on the path, so
a key has to be compared only where the container around it is the innermost and on the path.

Texts are written one after the other, each closed by a newline if it does not end with one; escapes only
shrink, so the output never needs more room than the input. Half a surrogate pair has no UTF-8 and becomes
U+FFFD. Skipping inside strings looks at eight bytes at a time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FINE, SYNTAX, NOT_TEXT, DEEP = 0, 1, 2, 3  # status
EMPTY, ABSENT, BLANK, HALVES = 0, 1, 2, 3  # tallies: rows without text, without the field, blank lines; U+FFFD written

MOST_DEEP = 1024  # containers inside each other
PAD = 8  # bytes that the output needs beyond the size of the input

_ONES, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _SLASHES, _BLANKS = _ONES * np.uint64(0x22), _ONES * np.uint64(0x5C), _ONES * np.uint64(0x20)
_PLACES = np.uint64(0x0001020304050607)
_QUOTE, _SLASH, _NEWLINE = 0x22, 0x5C, 10
_WORDS = np.frombuffer(b"InfinityNaNtruefalsenull", np.uint8)
_WORD_ENDS = np.array([0, 8, 11, 15, 20, 24])
_VALUE, _KEY, _AFTER = 0, 1, 2  # what must come next; _AFTER: a comma or the end of the container
_NO_FIELD, _NULL, _TEXT, _BLANK = 0, 1, 2, 3  # what a line held


@njit(nogil=True, cache=True, forceinline=True)
def _load(data, i):
    """Eight bytes from `i` as one number, lowest first; LLVM turns this into a single load."""
    j = np.uintp(i)  # an unsigned index needs no test for negative values
    word = np.uint64(data[j])
    word |= np.uint64(data[j + np.uintp(1)]) << np.uint64(8)
    word |= np.uint64(data[j + np.uintp(2)]) << np.uint64(16)
    word |= np.uint64(data[j + np.uintp(3)]) << np.uint64(24)
    word |= np.uint64(data[j + np.uintp(4)]) << np.uint64(32)
    word |= np.uint64(data[j + np.uintp(5)]) << np.uint64(40)
    word |= np.uint64(data[j + np.uintp(6)]) << np.uint64(48)
    word |= np.uint64(data[j + np.uintp(7)]) << np.uint64(56)
    return word


@njit(nogil=True, cache=True, forceinline=True)
def _plain_bytes(word):
    """How many of the eight bytes come before the first quote, backslash or control character."""
    quotes, slashes = word ^ _QUOTES, word ^ _SLASHES
    found = ((quotes - _ONES) & ~quotes) | ((slashes - _ONES) & ~slashes) | ((word - _BLANKS) & ~word)
    found &= _HIGH
    if found == np.uint64(0):
        return np.int64(8)
    lowest = (found & (~found + np.uint64(1))) >> np.uint64(7)  # borrows only move up, so the lowest mark is true
    return np.int64((lowest * _PLACES) >> np.uint64(56))


@njit(nogil=True, cache=True, forceinline=True)
def _skip_string(data, i, size):
    """The index after the closing quote of a string whose inside begins at `i`; -1 - index of what is wrong."""
    while True:
        n = np.int64(8)
        while n == 8 and i + 8 <= size:
            n = _plain_bytes(_load(data, i))
            i += n
        while i < size and data[i] != _QUOTE and data[i] != _SLASH and data[i] >= 32:
            i += 1
        if i >= size or data[i] < 32:
            return -1 - i
        if data[i] == _QUOTE:
            return i + 1
        code, _, after = _escape(data, i, size)
        if code < 0:
            return -1 - i
        i = after


@njit(nogil=True, cache=True)
def _hex(data, i, size):
    """The four hexadecimal digits at `i` as a number, or -1."""
    if i + 4 > size:
        return -1
    code = 0
    for k in range(4):
        byte = np.int64(data[i + k])
        if byte >= 48 and byte <= 57:
            digit = byte - 48
        elif (byte | 32) >= 97 and (byte | 32) <= 102:
            digit = (byte | 32) - 87
        else:
            return -1
        code = 16 * code + digit
    return code


@njit(nogil=True, cache=True)
def _escape(data, i, size):
    """The backslash at `i`: (code point or -1, whether it was half a pair, index after it)."""
    if i + 1 >= size:
        return -1, False, i
    byte = data[i + 1]
    if byte == 117:  # u
        code = _hex(data, i + 2, size)
        if code < 0xD800 or code > 0xDFFF:
            return code, False, i + 6
        if code < 0xDC00 and i + 7 < size and data[i + 6] == _SLASH and data[i + 7] == 117:
            low = _hex(data, i + 8, size)
            if low >= 0xDC00 and low <= 0xDFFF:
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), False, i + 12
        return 0xFFFD, True, i + 6
    code = -1
    if byte in (_QUOTE, _SLASH, 47):
        code = np.int64(byte)
    elif byte == 110:
        code = 10
    elif byte == 116:
        code = 9
    elif byte == 114:
        code = 13
    elif byte == 98:
        code = 8
    elif byte == 102:
        code = 12
    return code, False, i + 2


@njit(nogil=True, cache=True, forceinline=True)
def _copy_string(data, i, size, out, o, tallies):
    """Like `_skip_string`, and writes the text to `out` from `o` on; returns (index after it, end in `out`)."""
    while True:
        n = np.int64(8)
        while n == 8 and i + 8 <= size:
            word = _load(data, i)
            at = np.uintp(o)
            for k in range(8):
                out[at + np.uintp(k)] = np.uint8((word >> np.uint64(8 * k)) & np.uint64(255))
            n = _plain_bytes(word)
            i += n
            o += n
        while i < size and data[i] != _QUOTE and data[i] != _SLASH and data[i] >= 32:
            out[o] = data[i]
            i += 1
            o += 1
        if i >= size or data[i] < 32:
            return -1 - i, o
        if data[i] == _QUOTE:
            return i + 1, o
        code, half, after = _escape(data, i, size)
        if code < 0:
            return -1 - i, o
        i = after
        tallies[HALVES] += half
        if code < 0x80:
            out[o] = code
            o += 1
            continue
        extra = 1 if code < 0x800 else (2 if code < 0x10000 else 3)
        out[o] = ((0xFF00 >> (extra + 1)) & 0xFF) | (code >> (6 * extra))
        for k in range(1, extra + 1):
            out[o + k] = 0x80 | ((code >> (6 * (extra - k))) & 0x3F)
        o += extra + 1


@njit(nogil=True, cache=True)
def _skip_digits(data, i, size):
    while i < size and data[i] >= 48 and data[i] <= 57:
        i += 1
    return i


@njit(nogil=True, cache=True)
def _skip_number(data, i, size):
    """The index after the digits, fraction and exponent at `i`, or -1."""
    after = _skip_digits(data, i, size)
    if data[i] == 48 and after > i + 1:  # no leading zeros
        return -1
    if after < size and data[after] == 46:
        first, after = after + 1, _skip_digits(data, after + 1, size)
        if after == first:
            return -1
    if after < size and (data[after] | 32) == 101:  # e
        first = after + 1
        if first < size and (data[first] == 43 or data[first] == 45):
            first += 1
        after = _skip_digits(data, first, size)
        if after == first:
            return -1
    return after


@njit(nogil=True, cache=True)
def _skip_scalar(data, i, size):
    """The index after a number, true, false, null, NaN or Infinity at `i`, or -1."""
    signed = data[i] == 45
    i += signed
    if i < size and data[i] >= 48 and data[i] <= 57:
        return _skip_number(data, i, size)
    for w in range(1 if signed else 5):  # Infinity may have a sign
        start, length = _WORD_ENDS[w], _WORD_ENDS[w + 1] - _WORD_ENDS[w]
        same = i + length <= size
        for k in range(length if same else 0):
            same = same and data[i + k] == _WORDS[start + k]
        if same:
            return i + length
    return -1


@njit(nogil=True, cache=True, forceinline=True)
def _skip_blanks(data, i, size):
    while i < size and (data[i] == 32 or data[i] == 9 or data[i] == 13):
        i += 1
    return i


@njit(nogil=True, cache=True, forceinline=True)
def _read_key(data, i, size, step, keys, key_ends, out, o, tallies):
    """The key and colon at `i`: (index after them or -1 - index of what is wrong, whether it is that step's key).

    The key is unescaped into the free part of `out`; a step of -1 is no key's.
    """
    if data[i] != _QUOTE:
        return -1 - i, False
    same = False
    if step < 0:
        i = _skip_string(data, i + 1, size)
    else:
        i, stop = _copy_string(data, i + 1, size, out, o, tallies)
        first = key_ends[step]
        same = stop - o == key_ends[step + 1] - first
        for k in range(stop - o if same else 0):
            same = same and out[o + k] == keys[first + k]
    if i < 0:
        return i, False
    i = _skip_blanks(data, i, size)
    return (i + 1 if i < size and data[i] == 58 else -1 - i), same


@njit(nogil=True, cache=True)
def _read_line(data, i, size, keys, key_ends, numbers, closers, indices, out, o, tallies):
    """One line from `i` on: (status, index of its newline or of what is wrong, end in `out`, what the field was)."""
    begin, field, depth, matched = o, _NO_FIELD, 0, 0
    expect, fresh, on_path = _VALUE, True, True
    while True:
        i = _skip_blanks(data, i, size)
        byte = data[i] if i < size else np.uint8(_NEWLINE)
        if byte == _NEWLINE:
            break
        if depth > 0 and byte == closers[depth - 1] and (fresh or expect == _AFTER):
            depth -= 1
            matched = min(matched, depth)
            i, expect, fresh = i + 1, _AFTER, False
        elif expect == _AFTER:
            if depth == 0 or byte != 44:
                return SYNTAX, i, o, field
            indices[depth - 1] += 1
            i, expect = i + 1, _KEY if closers[depth - 1] == 125 else _VALUE
        elif expect == _KEY:
            step = depth - 1 if matched == depth else -1
            after, on_path = _read_key(data, i, size, step, keys, key_ends, out, o, tallies)
            if after < 0:
                return SYNTAX, -1 - after, o, field
            i, expect, fresh = after, _VALUE, False
        else:
            if depth > 0 and closers[depth - 1] == 93:
                on_path = matched == depth and indices[depth - 1] == numbers[depth - 1]
            if on_path and depth > 0:
                o, field = begin, _NO_FIELD  # of two equal keys the last one counts
            wanted = on_path and depth == len(numbers)
            expect, fresh = _AFTER, False
            after = i
            if byte == _QUOTE and wanted:
                after, o = _copy_string(data, i + 1, size, out, o, tallies)
                field = _TEXT
            elif byte == _QUOTE:
                after = _skip_string(data, i + 1, size)
            elif byte == 123 or byte == 91:  # { or [
                if wanted or depth == MOST_DEEP:
                    return (NOT_TEXT if wanted else DEEP), i, o, field
                closers[depth], indices[depth] = byte + 2, 0
                depth += 1
                matched = depth if on_path else matched
                expect, fresh = _KEY if byte == 123 else _VALUE, True
                after = i + 1
            else:
                after = _skip_scalar(data, i, size)
                if wanted and after >= 0:
                    if byte != 110:  # null
                        return NOT_TEXT, i, o, field
                    field = _NULL
            if after < 0:
                return SYNTAX, (-1 - after if byte == _QUOTE else i), o, field
            i = after
    if expect == _AFTER and depth == 0:
        return FINE, i, o, field
    return (FINE if depth == 0 and fresh else SYNTAX), i, o, _BLANK


@njit(nogil=True, cache=True)
def read_rows(data, size, keys, key_ends, numbers, out, ends, rows, tallies):
    """The field of all lines in `data[:size]`; returns (status, texts, bytes written, line, index of what is wrong).

    Step k of the path is `keys[key_ends[k]:key_ends[k + 1]]` or, inside an array, `numbers[k]` (-1 if it is none).
    Text t ends at `ends[t]` in `out` and stands on line `rows[t]`, counted from 0; `tallies` is added to.
    """
    closers, indices = np.empty(MOST_DEEP, np.uint8), np.empty(MOST_DEEP, np.int64)
    i, o, n, line = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while i < size:
        begin = o
        status, i, o, field = _read_line(data, i, size, keys, key_ends, numbers, closers, indices, out, o, tallies)
        if status != FINE:
            return status, n, o, line, i
        if field == _BLANK:
            tallies[BLANK] += 1
        elif field == _NO_FIELD:
            tallies[ABSENT] += 1
        elif o == begin:
            tallies[EMPTY] += 1
        else:
            if out[o - 1] != _NEWLINE:
                out[o] = _NEWLINE
                o += 1
            ends[n], rows[n] = o, line
            n += 1
        i += 1
        line += 1
    return FINE, n, o, line, i
