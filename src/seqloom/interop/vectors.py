"""Word vectors in other programs' files: word2vec (text and binary), GloVe, fastText's .vec, and
its .bin to read.

The format is recognised by content (`data/vector_files.py`). Text is parsed by a kernel, one part of the
file per thread; seqloom's format (`WordVectors.save`) needs no parsing.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from seqloom import progress, storage
from seqloom.data.pieces import unpacked
from seqloom.data.vector_files import HEAD, Sniffed, is_number, sniff_vectors
from seqloom.directories import writing_file
from seqloom.errors import ConfigError, DataError
from seqloom.forks import needs_threads
from seqloom.interop.fasttext import read_fasttext
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.models.word_vectors.words import Words

WriteForm = Literal["word2vec", "word2vec-binary", "glove", "fasttext"]

PIECE = 16 << 20  # bytes of text that one thread parses
ROWS = 20_000  # that are written at once

_FOREIGN = {
    b"\x80": "a pickle, as gensim's save() writes it; opening one can run code: in gensim, write "
    "it once more with "
    "save_word2vec_format(path, binary=True)",
    b"PK": "a zip archive; unpack it and give the file inside",
    b"\x93NUMPY": "a NumPy array without words; give WordVectors.of(words, array)",
    b"\x89HDF": "an HDF5 file, which seqloom does not read",
}


def read_vectors(path: str | Path) -> WordVectors:
    """Read word vectors from a file, plain or gzipped, or from a directory that seqloom saved.

    A word that stands twice keeps its first vector, as in gensim. Vectors that are not finite are refused.
    """
    source = Path(path)
    if source.is_dir():
        return open_vectors(source).vectors
    if not source.is_file():
        raise DataError(f"{path}: no such file")
    data = _bytes(source)
    sniffed = sniff_vectors(data[:HEAD].tobytes())
    if sniffed is None:
        _refuse(str(path), data[:8].tobytes())
    if sniffed.form == "fasttext-bin":
        if source.stat().st_size != len(data):
            raise DataError(
                f"{path}: a gzipped fastText model, which cannot be memory-mapped; unpack it first"
            )
        return read_fasttext(source).vectors()
    if sniffed.form == "word2vec-binary":
        return _read_binary(data, sniffed, str(path))
    return _read_text(data, sniffed, str(path))


def open_vectors(path: str | Path) -> Any:
    """Return the embedder in a directory that seqloom saved, or the vectors of a file."""
    if not Path(path).is_dir():
        return read_vectors(path)
    model = storage.load(path)
    if not hasattr(model, "vectors"):
        raise DataError(f"{path} holds a {model.task}, not word vectors")
    return model


def _bytes(path: Path) -> np.ndarray:
    """Map the file, or return its decompressed content; writable, so that one compiled kernel
    serves both.
    """
    try:
        with open(path, "rb") as file:
            if file.read(2) == b"\x1f\x8b":
                data = bytearray()
                for piece in unpacked(path, str(path), ".gz", 1 << 20):
                    data += piece
                return np.frombuffer(data, np.uint8)
            if not path.stat().st_size:
                raise DataError(f"{path} is empty")
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: cannot be read or damaged ({error}); get a complete copy of the file"
        ) from None


def _refuse(name: str, head: bytes) -> NoReturn:
    for mark, what in _FOREIGN.items():
        if head.startswith(mark):
            raise DataError(f"{name}: {what}")
    raise DataError(
        f"{name}: not a file of word vectors: neither lines of a word and numbers nor a known binary format"
    )


# ---- text


def _unknown_behind(data: np.ndarray, size: int) -> bool:
    """Return whether the file ends with a vector of <unk>, which GloVe's program writes last and
    does not count.
    """
    return (
        data[max(0, size - (1 << 20)) : size].tobytes().rpartition(b"\n")[2].startswith(b"<unk> ")
    )


def _read_text(data: np.ndarray, sniffed: Sniffed, name: str) -> WordVectors:
    from seqloom.kernels.decimals import parse_vectors
    from seqloom.kernels.parallel import parallel_map

    width = sniffed.dimensions or 0
    size = _without_end(data)
    pieces = _pieces(data, sniffed.begins, size)
    lines = list(
        parallel_map(lambda piece: int(np.count_nonzero(data[piece[0] : piece[1]] == 10)), pieces)
    )
    lines[-1] += 1  # the last line has no newline any more
    rows = np.concatenate([[0], np.cumsum(lines)])
    total = int(rows[-1])
    if sniffed.words is not None and total not in (
        sniffed.words,
        sniffed.words + _unknown_behind(data, size),
    ):
        what = (
            "the file is cut off"
            if total < sniffed.words
            else "there is something behind the vectors"
        )
        raise DataError(
            f"{name}: the first line says {sniffed.words:,} words, but {total:,} lines follow; {what}"
        )
    matrix = np.empty((total, width), np.float32)
    starts, stops = np.empty(total, np.int64), np.empty(total, np.int64)

    def parse(i: int) -> tuple[int, int]:
        part = slice(int(rows[i]), int(rows[i + 1]))
        done, at = parse_vectors(
            data, pieces[i][0], pieces[i][1], matrix[part], starts[part], stops[part]
        )
        return done, at

    with progress.task("reading vectors", total, "words") as bar:
        for i, (done, at) in enumerate(parallel_map(parse, range(len(pieces)))):
            bar.advance(done)
            if done < lines[i]:
                number = int(rows[i]) + done + 1 + (sniffed.words is not None)
                shown = (
                    data[at : at + 200]
                    .tobytes()
                    .partition(b"\n")[0]
                    .decode("utf-8", "backslashreplace")
                )
                raise DataError(
                    f"{name}, line {number:,}: expected a word and {width} numbers; got {shown[:60]!r}"
                )
    return _finish(data, starts, stops, matrix, sniffed, name)


def _check_blanks(arena: np.ndarray, offsets: np.ndarray, sniffed: Sniffed, name: str) -> None:
    """Check words of several parts that end in a number: each may be a phrase (route 66), or a
    line with too many numbers; few are reported, many are refused.
    """
    blanks = np.flatnonzero(arena[: offsets[-1]] == 32)
    several = np.unique(np.searchsorted(offsets, blanks, side="right") - 1).tolist()
    words = [(i, arena[offsets[i] : offsets[i + 1]].tobytes()) for i in several]
    doubtful = [
        (i + 1 + (sniffed.words is not None), word)
        for i, word in words
        if is_number(word.rsplit(b" ", 1)[1])
    ]
    if doubtful:
        line, word = doubtful[0]
        said = (
            f"{name}, line {line:,}: {word.decode('utf-8', 'backslashreplace')!r} stands before "
            f"{sniffed.dimensions} numbers"
        )
        if 2 * len(doubtful) > len(offsets) - 1:
            raise DataError(
                f"{said}; most lines have more, so the dimensions are not what the file says or seems to say"
            )
        progress.say(
            f"{said} and was taken as one word"
            + (f", {len(doubtful) - 1:,} more like it" if doubtful[1:] else "")
        )


def _without_end(data: np.ndarray) -> int:
    """Return the size without blanks and newlines at the end."""
    size = len(data)
    while size and data[size - 1] in (9, 10, 13, 32):
        size -= 1
    return size


def _pieces(data: np.ndarray, start: int, size: int) -> list[tuple[int, int]]:
    """Return stretches of about PIECE bytes that end with a line."""
    pieces = []
    while start < size:
        stop = min(start + PIECE, size)
        while stop < size and data[stop - 1] != 10:
            ahead = np.flatnonzero(data[stop : min(stop + HEAD, size)] == 10)
            stop = stop + int(ahead[0]) + 1 if len(ahead) else min(stop + HEAD, size)
        pieces.append((start, stop))
        start = stop
    return pieces


# ---- binary


def _read_binary(data: np.ndarray, sniffed: Sniffed, name: str) -> WordVectors:
    from seqloom.kernels.decimals import parse_binary_vectors

    total, width = sniffed.words or 0, sniffed.dimensions or 0
    min_bytes = total * (4 * width + 2)
    if len(data) - sniffed.begins < min_bytes - 1:
        raise DataError(
            f"{name}: the file is cut off: {total:,} words of {width} dimensions take at least "
            f"{sniffed.begins + min_bytes:,} bytes, it has {len(data):,}"
        )
    matrix = np.empty((total, width), "<f4")
    starts, stops = np.empty(total, np.int64), np.empty(total, np.int64)
    done, at = parse_binary_vectors(
        data, sniffed.begins, len(data), matrix.view(np.uint8), starts, stops
    )
    if done < total:
        raise DataError(
            f"{name}: the file is cut off: the first line says {total:,} words, it holds {done:,}"
        )
    if _without_end(data[at:]):
        raise DataError(
            f"{name}: {len(data) - at:,} bytes follow the {total:,} words that the first line names; "
            "the file is damaged or not what it says"
        )
    return _finish(data, starts, stops, matrix.astype(np.float32, copy=False), sniffed, name)


def _finish(
    data: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    matrix: np.ndarray,
    sniffed: Sniffed,
    name: str,
) -> WordVectors:
    """Join words and matrix; later vectors of a word that was there already are left out."""
    from seqloom.kernels import PAD
    from seqloom.kernels.decimals import gather_words

    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(stops - starts, out=offsets[1:])
    arena = np.zeros(int(offsets[-1]) + PAD, np.uint8)
    gather_words(data, starts, stops, offsets, arena)
    if sniffed.form != "word2vec-binary":
        _check_blanks(arena, offsets, sniffed, name)
    words = Words.from_bytes(arena, offsets)
    again = words.repeated()
    if len(again):
        progress.say(
            f"{name}: skipped {len(again):,} repeated word{'s' * (len(again) > 1)}, such as "
            f"{words[int(again[0])]!r}; the first vector of each was kept"
        )
        kept = np.setdiff1d(np.arange(len(words)), again)
        words, matrix = words.take(kept), matrix[kept]
    try:
        return WordVectors.of(words, matrix, source=Path(name).name)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


# ---- writing


def write_vectors(vectors: WordVectors, path: str | Path, form: WriteForm = "word2vec") -> None:
    """Write all words: word2vec's text (the default) or binary form, GloVe's, or fastText's .vec.

    Numbers in text are the shortest that read back to the same float32.
    """
    if form not in ("word2vec", "word2vec-binary", "glove", "fasttext"):
        raise ConfigError(
            f"form must be one of word2vec, word2vec-binary, glove, fasttext; got {form!r}"
        )
    vectors.check_fitted()
    _check_words(vectors.words, form)
    with (
        writing_file(path, DataError) as partial,
        open(partial, "wb") as file,
        progress.task("writing vectors", len(vectors), "words") as bar,
    ):
        if form != "glove":
            file.write(f"{len(vectors)} {vectors.dimensions}\n".encode())
        for start in range(0, len(vectors), ROWS):
            stop = min(start + ROWS, len(vectors))
            file.writelines(
                _binary_lines(vectors, start, stop)
                if form == "word2vec-binary"
                else _text_lines(vectors, start, stop, b" \n" if form == "fasttext" else b"\n")
            )
            bar.advance(stop - start)


def _check_words(words: Words, form: WriteForm) -> None:
    """Refuse a word that the form cannot hold, as it would come back as another one."""
    from seqloom.kernels import PAD

    arena = words.arena[: len(words.arena) - PAD]
    ends = {10: "a newline", 32: "a space", 9: "a tab"} if form != "glove" else {10: "a newline"}
    for byte, what in ends.items():
        places = np.flatnonzero(arena == byte)
        if len(places):
            word = words[int(np.searchsorted(words.offsets, places[0], side="right")) - 1]
            hint = "; the format glove allows it" if byte != 10 else ""
            raise DataError(
                f"the word {word!r} contains {what}, which ends a word in the format {form}{hint}"
            )
    if len(empty := np.flatnonzero(np.diff(words.offsets) == 0)):
        raise DataError(
            f"word {empty[0]} is empty, which no file of vectors can hold; leave it out (subset)"
        )


def _binary_lines(vectors: WordVectors, start: int, stop: int) -> Iterator[bytes]:
    raw = vectors.matrix[start:stop].astype("<f4", copy=False)
    return (
        b"%b %b\n" % (vectors.words.spelling(i), row.tobytes()) for i, row in enumerate(raw, start)
    )


def _text_lines(vectors: WordVectors, start: int, stop: int, end: bytes) -> Iterator[bytes]:
    matrix = vectors.matrix[start:stop]
    try:
        import polars
    except ImportError:  # the same digits, the fewest that tell a number apart, ten times as slowly
        lines = [" ".join(row) for row in matrix.astype("U24").tolist()]
    else:
        needs_threads("polars")
        lines = (
            polars.from_numpy(matrix)
            .write_csv(None, include_header=False, separator=" ")
            .splitlines()
        )
    return (
        b"%b %b%b" % (vectors.words.spelling(i), line.encode(), end)
        for i, line in enumerate(lines, start)
    )
