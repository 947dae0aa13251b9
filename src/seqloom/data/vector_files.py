"""Whether a file holds word vectors, and in which form, from its first bytes; its name says nothing reliable.

word2vec          a line `words dimensions`, then `word number number ...` (fastText's .vec is the same)
word2vec-binary   the same first line, then `word`, a blank and float32 values; after each a newline, or none
glove             `word number number ...` without a first line; a word may have blanks in it
fasttext-bin      fastText's model file
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Literal, NamedTuple

Form = Literal["word2vec", "word2vec-binary", "glove", "fasttext-bin"]

HEAD = 1 << 16  # bytes that are enough to recognise a format
FASTTEXT_MAGIC = (793712314).to_bytes(4, "little")
BOM = b"\xef\xbb\xbf"  # written by some editors at the beginning of a text
CLEAR = 10  # so many numbers after every word are no accident

NAMES: dict[Form, str] = {
    "word2vec": "word vectors in word2vec's text format",
    "word2vec-binary": "word vectors in word2vec's binary format",
    "glove": "word vectors in GloVe's format",
    "fasttext-bin": "a fastText model",
}
BINARY = NAMES["word2vec-binary"], NAMES["fasttext-bin"]

_HEADER = re.compile(rb"[ \t]*(\d{1,12})[ \t]+(\d{1,7})[ \t]*\r?\n")
_NUMBER = re.compile(
    rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)


def file_head(path: Path) -> tuple[bytes, bool]:
    """Return the first bytes of a file, decompressed if gzipped, and whether it is."""
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    try:
        with (gzip.open if packed else open)(path, "rb") as file:
            return file.read(HEAD), packed
    except (OSError, EOFError, zlib.error):  # the reader of the format reports more
        return b"", packed


def is_number(field: bytes) -> bool:
    return _NUMBER.fullmatch(field) is not None


class Sniffed(NamedTuple):
    form: Form
    words: int | None  # as the first line says
    dimensions: int | None
    begins: int  # offset of the first word


def sniff_vectors(head: bytes, *, strict: bool = False) -> Sniffed | None:
    """Return what kind of word-vector file begins with these bytes; None if it is not one.

    Single lines may be wrong and are then reported by the reader; `strict`: none of the first may be.
    """
    sniffed = _sniff(head.removeprefix(BOM), strict)
    return sniffed and sniffed._replace(begins=sniffed.begins + len(BOM) * head.startswith(BOM))


def _sniff(head: bytes, strict: bool) -> Sniffed | None:
    if head.startswith(FASTTEXT_MAGIC):
        return Sniffed("fasttext-bin", None, None, 0)
    header = _HEADER.match(head)
    if header:
        words, dimensions, begins = int(header[1]), int(header[2]), header.end()
        form = _with_header(head[begins:], dimensions, strict)
        if form and words and dimensions:
            return Sniffed(form, words, dimensions, begins)
    dimensions = _numbers_behind(head, strict)
    return Sniffed("glove", None, dimensions, 0) if dimensions else None


def vectors_instead_of_text(head: bytes) -> str | None:
    """Return what to call a vector file given as text; None if it may well be text."""
    sniffed = sniff_vectors(head, strict=True)
    if sniffed is None:
        return None
    # few or whole numbers, or tabs: it may be text, or a table of numbers
    doubtful = sniffed.form in ("glove", "word2vec") and (
        (sniffed.dimensions or 0) < CLEAR
        or not _fractions(head)
        or b"\t" in head.partition(b"\n")[0]
    )
    return None if doubtful else NAMES[sniffed.form]


def _fractions(head: bytes) -> bool:
    """Return whether most fields have a decimal point; random walks on a graph, which are text, are lines of
    whole numbers.
    """
    fields = head.split()
    return 2 * sum(b"." in field for field in fields) > len(fields)


def _with_header(body: bytes, dimensions: int, strict: bool) -> Form | None:
    line, newline, _ = body.partition(b"\n")
    fields = line.split()
    if not newline and len(body) > HEAD // 2:
        fields = fields[:-1]  # cut in the middle
    complete = len(fields) > dimensions
    numbers = fields[-dimensions:] if complete else fields[1:]
    if numbers and (complete or not newline) and all(map(_NUMBER.fullmatch, numbers)):
        return "word2vec"
    if not strict and len(fields) > 2 and all(map(_NUMBER.fullmatch, fields[1:])):
        return "word2vec"  # of other dimensions than its first line says
    word, blank, values = body.lstrip(b"\n").partition(b" ")
    values = values[: 4 * dimensions]
    printable = all(32 <= byte < 127 or byte in b"\t\r\n" for byte in values)
    return (
        "word2vec-binary"
        if word and blank and len(word) < 10_000 and values and not printable
        else None
    )


def _numbers_behind(head: bytes, strict: bool) -> int:
    """Return how many numbers follow the word in most of the first lines; 0 for anything else."""
    lines = head.split(b"\n")
    complete = lines[:-1] if len(lines) > 2 else lines  # the last one may be cut
    rows = [fields for line in complete[:50] if (fields := line.split())]
    if not rows:
        return 0
    dimensions = Counter(map(len, rows)).most_common(1)[0][0] - 1
    good = sum(
        len(fields) > dimensions and all(map(_NUMBER.fullmatch, fields[-dimensions:]))
        for fields in rows
    )
    return (
        dimensions
        if dimensions >= 1 and (good == len(rows) if strict else 3 * good >= 2 * len(rows))
        else 0
    )
