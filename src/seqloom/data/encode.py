"""A corpus as one long array of ids, in memory or in a file that is mapped.

The file has raw little-endian numbers, and a small JSON file beside it says which tokenizer and text they
come from. While it grows it is called `<path>.partial`; `<path>.journal` records after every few blocks how
far it is valid, so a killed run resumes there and ends with the same bytes.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from seqloom import progress
from seqloom.data.corpus import Corpus
from seqloom.data.pieces import Block
from seqloom.directories import locked
from seqloom.errors import DataError
from seqloom.kernels.parallel import parallel_map
from seqloom.text.tokenizer import Tokenizer

Unit = Literal["line", "document", "stream"]

_BLOCK = 4 << 20  # bytes
# kinds whose tokens never cross a newline, and whether a newline is a token
_BY_LINES = {"whitespace": False, "word": False, "char": True, "byte": True}
_JOURNAL_EVERY = 8  # blocks


def encode_corpus(
    tokenizer: Tokenizer, corpus: Corpus, *, unit: Unit, path: Path | None = None
) -> np.ndarray:
    """Encode a corpus as flat ids (uint16 if the vocabulary allows it, else uint32) with `</s>` at
    the end of every unit.

    A unit is a line (the newline becomes `</s>`), a document, or the whole stream. With `path` the ids go to
    a file that a later call with the same tokenizer, text and unit uses again.
    """
    dtype = id_type(tokenizer)
    if path is not None:
        return _encode_to_file(tokenizer, corpus, unit, Path(path), dtype)
    return corpus.read_by(
        lambda: np.concatenate(
            [ids.astype(dtype) for ids in encoded_blocks(tokenizer, corpus, unit)]
        )
    )


def encoded_blocks(
    tokenizer: Tokenizer,
    corpus: Corpus,
    unit: Unit,
    *,
    skip: int = 0,
    end_stream: bool = True,
    label: str = "encoding",
) -> Iterator[np.ndarray]:
    """Yield the same ids (uint32) block by block, so that a text of any size can be worked on.

    `skip`: number of blocks at the beginning to leave out; `end_stream`: close a stream by `</s>`
    after its last block; `label`: the name of the progress bar.
    """

    def encode(block: Block) -> tuple[int, np.ndarray]:
        return len(block.data), encode_block(tokenizer, block, unit)

    blocks = corpus.blocks(tokenizer.cut, _BLOCK)
    with progress.task(label, corpus.n_bytes, "bytes") as bar:
        for block in islice(blocks, skip):
            bar.advance(len(block.data))
        for size, ids in parallel_map(encode, blocks):
            yield ids
            bar.advance(size)
    if unit == "stream" and end_stream:
        yield np.array([tokenizer.eos_id], np.uint32)


def encode_block(tokenizer: Tokenizer, block: Block, unit: Unit) -> np.ndarray:
    """Encode a block as uint32 ids with `</s>` at the end of each unit that ends in it; that of a stream is
    left to the caller.
    """
    eos = np.array([tokenizer.eos_id], np.uint32)
    if unit == "document" and block.ends:
        return _encode_documents(tokenizer, block, eos)
    ids = tokenizer.encode_block(block.data, unit == "line")
    if unit == "line" and block.ends_document and not block.data.endswith(b"\n"):
        ids = np.concatenate([ids, eos])
    return ids


def id_type(tokenizer: Tokenizer) -> np.dtype:
    """Return the type in which ids are kept: uint16 if the vocabulary allows it, else uint32."""
    return np.dtype("<u2" if tokenizer.vocab_size <= 1 << 16 else "<u4")


def _encode_documents(tokenizer: Tokenizer, block: Block, eos: np.ndarray) -> np.ndarray:
    """Encode the documents of a block separately, each followed by `</s>`."""
    if tokenizer.kind in _BY_LINES and tokenizer.normalizer is None and len(block.ends) > 1:
        return _encode_documents_by_lines(tokenizer, block)
    parts, low = [], 0
    for high in block.ends:
        parts += [tokenizer.encode_block(block.data[low:high], False), eos]
        low = high
    if low < len(block.data):
        parts.append(tokenizer.encode_block(block.data[low:], False))
    return np.concatenate(parts)


def _encode_documents_by_lines(tokenizer: Tokenizer, block: Block) -> np.ndarray:
    """Encode the documents of a block together: rows of a table, which all end with a newline, for
    tokenizers whose tokens never cross one.
    """
    ids = tokenizer.encode_block(block.data, True)
    newlines = np.flatnonzero(np.frombuffer(block.data, np.uint8) == ord("\n"))
    eos_positions = np.flatnonzero(ids == tokenizer.eos_id)  # one for each newline
    last = np.isin(newlines + 1, block.ends)
    if not _BY_LINES[tokenizer.kind]:
        return np.delete(ids, eos_positions[~last])
    ids[eos_positions] = tokenizer.encode_block(b"\n", False)[0]
    return np.insert(ids, eos_positions[last] + 1, tokenizer.eos_id)


def check_file(path: Path) -> None:
    """Refuse, before the work, a file that could not be written at the end."""
    if not path.absolute().parent.is_dir():
        raise DataError(f"{path}: there is no directory {path.parent}; make it first")
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: not a file; choose another name")
    with _writing(path):  # a trial, since permissions alone do not tell
        os.rmdir(tempfile.mkdtemp(prefix=".seqloom-", dir=path.absolute().parent))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Report any failure to write an auxiliary file as a failure to write `path`."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror or error})") from error


def _encode_to_file(
    tokenizer: Tokenizer, corpus: Corpus, unit: Unit, path: Path, dtype: np.dtype
) -> np.ndarray:
    check_file(path)
    with locked(
        path.with_name(path.name + ".lock"),
        lambda who: f"{path}: {who} is writing it; wait until it has ended, or choose another name",
    ):
        return _encode_alone(tokenizer, corpus, unit, path, dtype)


def _encode_alone(
    tokenizer: Tokenizer, corpus: Corpus, unit: Unit, path: Path, dtype: np.dtype
) -> np.ndarray:
    job = {
        "format_version": 1,
        "dtype": dtype.str,
        "tokenizer": tokenizer.fingerprint,
        "corpus": corpus.fingerprint,
        "unit": unit,
    }
    partial, journal, about = (
        path.with_name(path.name + end) for end in (".partial", ".journal", ".json")
    )
    done = _read_json(about)
    if (
        done is not None
        and path.is_file()
        and done == {**job, "count": path.stat().st_size // dtype.itemsize}
    ):
        return _map(path, dtype)
    blocks, count = _resume(_read_json(journal), job, partial, dtype)
    if not count:  # the journal is of another job, which must not mistake these ids for its own
        journal.unlink(missing_ok=True)
    with (
        _writing(path),
        _unfinished(path, partial, journal),
        open(partial, "r+b" if count else "wb") as file,
    ):
        file.truncate(count * dtype.itemsize)
        file.seek(0, os.SEEK_END)
        for ids in encoded_blocks(tokenizer, corpus, unit, skip=blocks, end_stream=False):
            file.write(ids.astype(dtype).tobytes())
            blocks, count = blocks + 1, count + len(ids)
            if blocks % _JOURNAL_EVERY == 0:
                _sync(file)
                _write_json(journal, {**job, "blocks": blocks, "count": count})
        if unit == "stream":  # the last </s> is no block that the journal counts
            file.write(np.array([tokenizer.eos_id], dtype).tobytes())
            count += 1
        _sync(file)
        about.unlink(missing_ok=True)  # never an old description beside a new array
        os.replace(partial, path)
        _write_json(about, {**job, "count": count})
        journal.unlink(missing_ok=True)
    return _map(path, dtype)


@contextmanager
def _unfinished(path: Path, partial: Path, journal: Path) -> Iterator[None]:
    """Add to the error of an interrupted run that it can be resumed; if it cannot, remove its file."""
    goes_on = f"progress is kept in {partial}; run the same command to resume"
    try:
        yield
    except BaseException as error:
        if not journal.exists():
            partial.unlink(missing_ok=True)
        elif isinstance(error, OSError):
            raise DataError(
                f"{path}: cannot be written ({error.strerror or error}); {goes_on}"
            ) from error
        elif isinstance(error, KeyboardInterrupt):
            raise type(error)(f"interrupted; {goes_on}") from None
        raise


def _resume(
    entry: dict[str, Any] | None, job: dict[str, Any], partial: Path, dtype: np.dtype
) -> tuple[int, int]:
    """Return the numbers of blocks and ids that an earlier run of the same job has safely written."""
    if entry is None or any(entry.get(key) != value for key, value in job.items()):
        return 0, 0
    if not partial.is_file() or partial.stat().st_size < entry["count"] * dtype.itemsize:
        return 0, 0
    return entry["blocks"], entry["count"]


def _map(path: Path, dtype: np.dtype) -> np.ndarray:
    return np.memmap(path, dtype, "c").view(np.ndarray)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _write_json(path: Path, value: dict[str, Any]) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    os.replace(temporary, path)
