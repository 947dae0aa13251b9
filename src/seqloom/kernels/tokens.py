"""Splitting UTF-8 bytes into tokens, counting them and converting them to ids, without Python strings.

Three splitters; bytes that are not valid UTF-8 count as one character each:
  WHITESPACE  runs of bytes that are not ASCII white space
  WORD        runs of letters, marks and digits; other visible characters one by one
  CHAR        every code point
(Byte tokens need no kernel: the id is the byte.)

Spellings are in an arena: token k is `arena[offsets[k]:offsets[k + 1]]`. A table of `slots` (a power of
two, at most half full, -1 = empty) finds k from the spelling by open addressing; the bytes are compared
after every hit, so a collision cannot confuse two words.

Chunks of a few thousand tokens go through flat loops (offsets, hashes, look-up), each over all tokens of the
chunk: a function called for every token with arrays as arguments would pay for numba's reference counting
each time, and the look-ups of a chunk wait for memory together.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from seqloom.kernels import HASH_PRIME, HASH_SEED, PAD

WHITESPACE, WORD, CHAR = 0, 1, 2
SPACE, LETTER, DIGIT, IDEOGRAPH, SYMBOL, APOSTROPHE = 0, 1, 2, 3, 4, 5  # values of the class table

_NEWLINE = 10
_CHUNK = 4096
_SEED, _PRIME = np.uint64(HASH_SEED), np.uint64(HASH_PRIME)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(nogil=True, cache=True, inline="always")
def _is_space(byte):
    return byte == 32 or (byte >= 9 and byte <= 13)


@njit(nogil=True, cache=True)
def _decode(data, size, i):
    """Return the code point at `i` and the index after it; (-1, i + 1) where the bytes are not
    UTF-8.
    """
    first = np.int64(data[i])
    if first < 0x80:
        return first, i + 1
    extra = 1 if first < 0xE0 else (2 if first < 0xF0 else 3)
    if first < 0xC2 or first > 0xF4 or i + extra >= size:
        return -1, i + 1
    code = first & (0x3F >> extra)
    good = True
    for k in range(1, extra + 1):
        byte = np.int64(data[i + k])
        good = good and byte & 0xC0 == 0x80
        code = (code << 6) | (byte & 0x3F)
    if extra == 2:
        # not overlong, no surrogate
        good = good and code >= 0x800 and (code < 0xD800 or code >= 0xE000)
    elif extra == 3:
        good = good and code >= 0x10000 and code <= 0x10FFFF
    if not good:
        return -1, i + 1
    return code, i + extra + 1


@njit(nogil=True, cache=True)
def _class_at(data, size, i, classes):
    """Return the class of the character at `i` and the index after it."""
    code, after = _decode(data, size, i)
    kind = SYMBOL
    if code >= 0 and code < len(classes):
        kind = np.int64(classes[code])
    elif code >= 0x20000 and code < 0x40000:
        kind = IDEOGRAPH
    return kind, after


# Splitters: from byte i on, write starts and stops of up to len(starts) tokens; return (how many, next byte).
# With `newline_ends` a newline is a token of length zero, which marks the end of a unit.


@njit(nogil=True, cache=True)
def _split_whitespace(data, size, i, newline_ends, starts, stops):
    n = 0
    while n < len(starts):
        while i < size and _is_space(data[i]) and not (newline_ends and data[i] == _NEWLINE):
            i += 1
        if i == size:
            break
        starts[n] = i
        while i < size and not _is_space(data[i]):
            i += 1
        stops[n] = i
        if i == starts[n]:
            i += 1
        n += 1
    return n, i


@njit(nogil=True, cache=True)
def _split_words(data, size, i, newline_ends, classes, starts, stops):
    """Split text into words: an apostrophe between two letters belongs to the word; ideographs and
    kana are words of one character.
    """
    n = 0
    while i < size and n < len(starts):
        kind, after = _class_at(data, size, i, classes)
        if kind == SPACE:
            if newline_ends and data[i] == _NEWLINE:
                starts[n], stops[n] = i, i
                n += 1
            i = after
            continue
        starts[n] = i
        i = after
        while kind in (LETTER, DIGIT) and i < size:
            following, after = _class_at(data, size, i, classes)
            if following == APOSTROPHE and kind == LETTER and after < size:
                following, after = _class_at(data, size, after, classes)
                if following != LETTER:
                    break
            kind = following
            if kind in (LETTER, DIGIT):
                i = after
        stops[n] = i
        n += 1
    return n, i


@njit(nogil=True, cache=True)
def _split_chars(data, size, i, newline_ends, starts, stops):
    n = 0
    while i < size and n < len(starts):
        starts[n] = i
        _, i = _decode(data, size, i)
        stops[n] = starts[n] if newline_ends and data[starts[n]] == _NEWLINE else i
        n += 1
    return n, i


@njit(nogil=True, cache=True)
def split_tokens(data, size, i, splitter, newline_ends, classes, starts, stops):
    if splitter == WHITESPACE:
        return _split_whitespace(data, size, i, newline_ends, starts, stops)
    if splitter == WORD:
        return _split_words(data, size, i, newline_ends, classes, starts, stops)
    return _split_chars(data, size, i, newline_ends, starts, stops)


@njit(nogil=True, cache=True, inline="always")
def _load(data, i):
    """Return eight bytes from `i` as one number, lowest first; LLVM turns this into a single load."""
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


@njit(nogil=True, cache=True)
def _hash_all(data, starts, stops, hashes):
    for k in range(len(starts)):
        i, remaining = starts[k], stops[k] - starts[k]
        h = _SEED ^ (np.uint64(remaining) * _PRIME)
        while remaining > 0:
            word = _load(data, i)
            if remaining < 8:
                word &= _ALL >> np.uint64(64 - 8 * remaining)
            h = (h ^ word) * _PRIME
            h ^= h >> np.uint64(32)
            i += 8
            remaining -= 8
        hashes[k] = np.int64((h * _PRIME) >> np.uint64(32))


@njit(nogil=True, cache=True)
def _find_all(data, starts, stops, hashes, arena, offsets, slots, tokens):
    """Find the token of every spelling; if the table lacks it, -1 - (the free slot for it)."""
    mask = np.int64(len(slots) - 1)
    for k in range(len(starts)):
        start, length = starts[k], stops[k] - starts[k]
        slot = hashes[k] & mask
        token = np.int64(slots[slot])
        while token >= 0:
            i, j, remaining = start, offsets[token], length
            if offsets[token + 1] - j == length:
                while remaining > 0:
                    differ = _load(data, i) ^ _load(arena, j)
                    if remaining < 8:
                        differ &= _ALL >> np.uint64(64 - 8 * remaining)
                    if differ != np.uint64(0):
                        break
                    i += 8
                    j += 8
                    remaining -= 8
                if remaining <= 0:
                    break
            slot = (slot + 1) & mask
            token = np.int64(slots[slot])
        tokens[k] = token if token >= 0 else -1 - slot


@njit(nogil=True, cache=True)
def _add_all(data, starts, stops, hashes, amounts, tokens, arena, offsets, counts, slots, n):
    """Add the amounts to the counts, new spellings at the end; return (how many were added, n)."""
    for k in range(len(amounts)):
        token = tokens[k]
        if token < 0 and slots[-1 - token] >= 0:  # taken by an earlier token of this chunk
            _find_all(
                data,
                starts[k : k + 1],
                stops[k : k + 1],
                hashes[k : k + 1],
                arena,
                offsets,
                slots,
                tokens[k : k + 1],
            )
            token = tokens[k]
        if token < 0:
            at, length = offsets[n], stops[k] - starts[k]
            if n >= len(counts) or 2 * n >= len(slots) or at + length + PAD > len(arena):
                return k, n
            for j in range(length):
                arena[at + j] = data[starts[k] + j]
            offsets[n + 1] = at + length
            slots[-1 - token] = n
            token = n
            n += 1
        counts[token] += amounts[k]
    return len(amounts), n


@njit(nogil=True, cache=True)
def count_tokens(data, size, i, splitter, classes, arena, offsets, counts, slots, n):
    """Count from byte `i` on into a table that holds `n` spellings; return (next byte, n).

    Returns before the end of the data when the table is full: grow it and call again.
    """
    starts, stops = np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int64)
    hashes, tokens = np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int64)
    ones = np.ones(_CHUNK, np.int64)
    while i < size:
        m, i = split_tokens(data, size, i, splitter, np.bool_(False), classes, starts, stops)
        _hash_all(data, starts[:m], stops[:m], hashes)
        _find_all(data, starts[:m], stops[:m], hashes, arena, offsets, slots, tokens)
        done, n = _add_all(
            data, starts, stops, hashes, ones[:m], tokens, arena, offsets, counts, slots, n
        )
        if done < m:
            return starts[done], n
    return i, n


@njit(nogil=True, cache=True)
def merge_counts(
    other_arena, other_offsets, other_counts, first, last, arena, offsets, counts, slots, n
):
    """Add the spellings `first..last` of another table; return (next spelling, n), like
    `count_tokens`.
    """
    hashes, tokens = np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int64)
    while first < last:
        m = min(_CHUNK, last - first)
        starts, stops = other_offsets[first : first + m], other_offsets[first + 1 : first + m + 1]
        _hash_all(other_arena, starts, stops, hashes)
        _find_all(other_arena, starts, stops, hashes, arena, offsets, slots, tokens)
        amounts = other_counts[first : first + m]
        done, n = _add_all(
            other_arena, starts, stops, hashes, amounts, tokens, arena, offsets, counts, slots, n
        )
        first += done
        if done < m:
            break
    return first, n


@njit(nogil=True, cache=True)
def fill_slots(arena, offsets, first, last, slots):
    """Add the spellings `first..last` (all distinct) to an empty table."""
    hashes = np.empty(_CHUNK, np.int64)
    mask = np.int64(len(slots) - 1)
    for low in range(first, last, _CHUNK):
        m = min(_CHUNK, last - low)
        _hash_all(arena, offsets[low : low + m], offsets[low + 1 : low + m + 1], hashes)
        for k in range(m):
            slot = hashes[k] & mask
            while slots[slot] >= 0:
                slot = (slot + 1) & mask
            slots[slot] = low + k


@njit(nogil=True, cache=True)
def find_tokens(data, starts, stops, arena, offsets, slots, tokens):
    """Find the token of every spelling `data[start:stop]`, negative where the table lacks it."""
    hashes = np.empty(len(starts), np.int64)
    _hash_all(data, starts, stops, hashes)
    _find_all(data, starts, stops, hashes, arena, offsets, slots, tokens)


@njit(nogil=True, cache=True)
def encode_tokens(
    data, size, splitter, newline_ends, classes, arena, offsets, slots, unk_id, eos_id, ids
):
    """Write the ids of the data into `ids` (as long as the data) and return their number."""
    starts, stops = np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int64)
    hashes, tokens = np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int64)
    n, i = 0, np.int64(0)  # a literal zero would be compiled separately
    while i < size:
        m, i = split_tokens(data, size, i, splitter, newline_ends, classes, starts, stops)
        _hash_all(data, starts[:m], stops[:m], hashes)
        _find_all(data, starts[:m], stops[:m], hashes, arena, offsets, slots, tokens)
        for k in range(m):
            if stops[k] == starts[k]:
                ids[n + k] = eos_id
            else:
                ids[n + k] = tokens[k] if tokens[k] >= 0 else unk_id
        n += m
    return n
