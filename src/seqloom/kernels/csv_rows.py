"""One column of comma- or tab-separated rows, straight from the bytes to a buffer of text.

Comma-separated rows follow RFC 4180: a field that begins with a quote ends at the next single one, two
quotes stand for one, and a row ends with \\n, \\r\\n or \\r outside quotes. Quotes inside a plain field are
text. Tab-separated rows know no quotes at all: a field is what stands between tabs, and a row ends with \\n
or \\r\\n. Blank lines are no rows.

Texts are written one after the other, each closed by a newline if it does not end with one. A row that the
data breaks off in is left for the next call, unless this is the last one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FINE, RAGGED, OPEN_QUOTE, AFTER_QUOTE = 0, 1, 2, 3  # status
EMPTY, BLANK = 0, 1  # tallies: rows without text, blank lines

_QUOTE, _NEWLINE, _RETURN = 0x22, 10, 13
_MORE, _END = -1, -2  # instead of an index: the data ends too early


@njit(nogil=True, cache=True)
def _quoted_field(data, i, size, out, o, write):
    """A field whose opening quote is at `i`: (index after its closing quote or `_MORE`, end in `out`)."""
    i += 1
    while i < size:
        byte = data[i]
        if byte == _QUOTE:
            if i + 1 == size:
                return _END, o  # the closing quote, or half of two
            if data[i + 1] != _QUOTE:
                return i + 1, o
            i += 1
        if write:
            out[o] = byte
            o += 1
        i += 1
    return _MORE, o


@njit(nogil=True, cache=True)
def _plain_field(data, i, size, separator, quotes, out, o, write):
    """A field that begins at `i`: (index of the separator or line end after it, or `size`; end in `out`)."""
    while i < size:
        byte = data[i]
        if byte in (separator, _NEWLINE) or (byte == _RETURN and quotes):
            break
        if write:
            out[o] = byte
            o += 1
        i += 1
    return i, o


@njit(nogil=True, cache=True)
def _read_row(data, i, size, final, separator, quotes, wanted, out, o):
    """One row from `i` on: (status, index after its line end or `_MORE`, how many fields, end in `out`)."""
    fields = 0
    while True:
        write = fields == wanted
        if quotes and i < size and data[i] == _QUOTE:
            i, o = _quoted_field(data, i, size, out, o, write)
            if i < 0 and not final:
                return FINE, _MORE, fields, o
            if i == _MORE:
                return OPEN_QUOTE, i, fields, o
            i = size if i == _END else i
        else:
            i, o = _plain_field(data, i, size, separator, quotes, out, o, write)
        fields += 1
        if i < size and data[i] == separator:
            i += 1
            continue
        if i == size:
            return FINE, (size if final else _MORE), fields, o
        if data[i] == _NEWLINE:
            if write and not quotes and o > 0 and data[i - 1] == _RETURN:
                o -= 1
            return FINE, i + 1, fields, o
        if data[i] != _RETURN:
            return AFTER_QUOTE, i, fields, o
        if i + 1 == size and not final:
            return FINE, _MORE, fields, o
        return FINE, (i + 2 if i + 1 < size and data[i + 1] == _NEWLINE else i + 1), fields, o


@njit(nogil=True, cache=True)
def read_rows(data, size, final, separator, quotes, wanted, width, first, out, ends, rows, tallies):
    """Column `wanted` of the rows in `data[:size]`, all of `width` fields, but not of rows before number `first`.

    Returns (status, texts, bytes written, rows, bytes of whole rows, fields of the row that is wrong). Text t
    ends at `ends[t]` in `out` and is of row `rows[t]`, counted from 0; `tallies` is added to.
    """
    i, o, n, row = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while i < size:
        if data[i] == _NEWLINE or (data[i] == _RETURN and quotes) or (
                data[i] == _RETURN and i + 1 < size and data[i + 1] == _NEWLINE):
            if data[i] == _NEWLINE:
                tallies[BLANK] += 1
            i += 1
            continue
        begin = o
        status, after, fields, o = _read_row(data, i, size, final, separator, quotes, wanted, out, o)
        if status == FINE and after < 0:
            o = begin
            break
        if status == FINE and fields != width:
            status = RAGGED
        if status != FINE:
            return status, n, begin, row, i, fields
        i = after
        if row < first:
            o = begin
        elif o == begin:
            tallies[EMPTY] += 1
        else:
            if out[o - 1] != _NEWLINE:
                out[o] = _NEWLINE
                o += 1
            ends[n], rows[n] = o, row
            n += 1
        row += 1
    return FINE, n, o, row, i, 0
