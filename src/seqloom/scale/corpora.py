"""A corpus that workers read: cut into ranges where a cut changes nothing, and each range is read by one.

`SharedCorpus` stands where a `Corpus` is fitted on: a tokenizer that counts words asks it for the counts
(`token_counts`), and models that count ask for the ids, in files (`encode`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.arrays import read_arrays, write_arrays
from seqloom.data.corpus import Corpus
from seqloom.data.documents import Document
from seqloom.data.encode import encode_block, id_type
from seqloom.data.pieces import COMPRESSED, Block, blocks_of
from seqloom.data.tables import Content, Notes, Table, as_table
from seqloom.errors import ConfigError, DataError, EncodingError
from seqloom.places import place_of
from seqloom.scale.cluster import Cluster
from seqloom.scale.work import Stamp, Task
from seqloom.text.boundaries import Cut, cut_between_characters
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import TokenCounts, count_blocks

COUNTS = "words.safetensors"
IDS = "ids.bin"

_BLOCK = 4 << 20  # bytes that are encoded at a time
_LARGEST = 1 << 26  # bytes of a range, unless the number of ranges is given
_WINDOW = 1 << 16  # bytes before the end of a range in which a cut is looked for
_NEVER = 0


@dataclass(frozen=True)
class Range:
    """Bytes `start` to `stop` of a document; both None: all of it."""

    source: dict[str, Any]  # what `_opened` takes
    start: int | None
    stop: int | None
    last: bool  # whether the document ends with it

    @property
    def size(self) -> int:
        size: int = self.source["stamp"]["size"]
        return size if self.start is None or self.stop is None else self.stop - self.start


@dataclass(frozen=True)
class Encoded:
    """The ids of a range, in a file, and where units end in them."""

    path: str
    dtype: str
    tokens: int
    first: int  # tokens up to the first end of a unit; all where there is none
    longest: int  # unit that lies whole in it
    rest: int  # tokens after the last end
    units: int


class SharedCorpus(Corpus):
    """A corpus of files that workers read."""

    cluster: Cluster
    work: Path
    n_ranges: int | None

    @classmethod
    def of(
        cls, corpus: Corpus, cluster: Cluster, work: Path, ranges: int | None = None
    ) -> SharedCorpus:
        """Let workers read a corpus, cut into about so many ranges; refuse what is in no file."""
        shared = cls(corpus.candidates(), corpus.given_name)
        for document in shared.candidates():
            plain = document.rows.document if isinstance(document, Table) else document
            if plain.path is None or plain.open_file is not None or plain.pipe is not None:
                raise ConfigError(
                    f"a cluster reads files that all workers can open; {document.name} is none"
                )
        shared.cluster, shared.work, shared.n_ranges = cluster, work, ranges
        return shared

    def learn_contents(self) -> None:
        """Let workers read all documents once, for sizes and hashes, and to find those that are not text."""
        if all(document.content is not None for document in self.candidates()):
            return
        tasks = [
            Task(
                "seqloom.scale.corpora:read_content",
                {"source": source},
                source["name"],
                source["stamp"]["size"],
            )
            for source in map(_source, self.candidates())
        ]
        found = self.cluster.do(tasks, self.work, "reading", "bytes")
        self.take_contents(
            [
                EncodingError(one["misread"])
                if "misread" in one
                else Content(one["digest"], one["size"], one["closed"], np.zeros(0, np.int64))
                for one in found
            ]
        )

    def token_counts(self, tokenizer: Tokenizer) -> TokenCounts:
        """Count the words for a closed vocabulary."""
        self.learn_contents()
        options = {"kind": tokenizer.kind, "normalize": tokenizer.config.normalize}
        tasks = [
            Task(
                "seqloom.scale.corpora:count_words",
                {"where": asdict(one), "options": options},
                one.source["name"],
                one.size,
            )
            for one in self.ranges(tokenizer.cut)
        ]
        total = TokenCounts(tokenizer.kind)
        results = self.cluster.results(tasks, self.work, "counting tokens", "bytes")
        for task, _ in zip(tasks, results):
            total.merge(_read_counts(self.work / task.name / COUNTS, tokenizer.kind))
        return total

    def encode(self, tokenizer: Tokenizer, unit: Any) -> list[Encoded]:
        """Encode all ranges to files, in order; empty ones are left out."""
        self.learn_contents()
        folder = self.work / f"tokenizer-{tokenizer.fingerprint}"
        if not folder.exists():
            tokenizer.save(folder)
        ranges = self.ranges(tokenizer.cut)
        tasks = [
            Task(
                "seqloom.scale.corpora:encode_range",
                {
                    "where": asdict(one),
                    "tokenizer": str(folder),
                    "unit": unit,
                    "end": unit == "stream" and number == len(ranges) - 1,
                },
                one.source["name"],
                one.size,
            )
            for number, one in enumerate(ranges)
        ]
        found = self.cluster.do(tasks, self.work, "encoding", "bytes")
        dtype = id_type(tokenizer).str
        encoded = [
            Encoded(str(self.work / task.name / IDS), dtype, **values)
            for task, values in zip(tasks, found)
        ]
        return [one for one in encoded if one.tokens]

    def ranges(self, cut: Cut) -> list[Range]:
        """Cut all documents into ranges where `cut` allows it."""
        documents = [one for one in self.documents if one.content is None or one.content.size]
        total = sum(_source(document)["stamp"]["size"] for document in documents)
        count = self.n_ranges or max(self.cluster.size(), -(-total // _LARGEST))
        size = max(-(-total // count), 1)
        return [one for document in documents for one in _ranges_of(document, cut, size)]


def _source(document: Document | Table) -> dict[str, Any]:
    """Return plain values from which a worker opens a document."""
    column = document.column if isinstance(document, Table) else None
    plain = document.rows.document if isinstance(document, Table) else document
    assert plain.path is not None
    return {
        "name": plain.name,
        "encoding": plain.encoding,
        "column": column,
        "stamp": asdict(Stamp.of(plain.path)),
    }


def _ranges_of(document: Document | Table, cut: Cut, size: int) -> Iterator[Range]:
    source = _source(document)
    if (
        isinstance(document, Table)
        or document.encoding != "utf-8"
        or (document.path is not None and document.path.suffix in COMPRESSED)
    ):
        yield Range(source, None, None, True)
        return
    total, start = document.size() or 0, 0
    while start < total:
        stop = total
        if total - start > size + size // 8:  # not a small rest by itself
            stop = _cut_before(document, cut, start, start + size) or total
        yield Range(source, start, stop, stop == total)
        start = stop


def _cut_before(document: Document, cut: Cut, start: int, stop: int) -> int:
    """Return where the document may be cut, at `stop` or before; 0 if nowhere after `start`."""
    window = _WINDOW
    while True:
        low = max(stop - window, start)
        data = b"".join(document.part(low, stop).unchecked())
        data = data[: cut_between_characters(data, False)]
        if at := cut(data, False):
            return low + at
        if low == start:
            return _NEVER
        window *= 4


# ---- on workers


def _opened(source: dict[str, Any]) -> Document | Table:
    stamp = Stamp(**source["stamp"])
    stamp.check()
    document = Document(source["name"], place_of(stamp.path), encoding=source["encoding"])
    return document if source["column"] is None else as_table(document, source["column"])


def read_content(folder: Path, source: dict[str, Any]) -> dict[str, Any]:
    """Read a document to its end; return its hash and size, or why it is not text."""
    notes, document = Notes(), _opened(source)
    try:
        for piece in document.pieces():
            notes.add(piece)
    except EncodingError as error:
        return {"misread": str(error)}
    Stamp(**source["stamp"]).check()
    content = notes.content(document)
    return {"digest": content.digest, "size": content.size, "closed": bool(content.closed)}


def _blocks(where: dict[str, Any], cut: Callable[[bytes, bool], int]) -> Iterator[Block]:
    """Yield the blocks of a range; the document ends with the last of them only if the range says so."""
    document = _opened(where["source"])
    if where["start"] is not None:
        document = document.part(where["start"], where["stop"])
    for block in blocks_of(document.pieces(), cut, _BLOCK):
        if block.ends_document and not where["last"]:
            block = block._replace(ends_document=False, ends=())
        yield block
    Stamp(**where["source"]["stamp"]).check()


def count_words(folder: Path, where: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Count the words of a range."""
    tokenizer = Tokenizer(**options)
    normalizer = tokenizer.normalizer
    normalized = bytes if normalizer is None else normalizer.of_bytes
    blocks = (block.data for block in _blocks(where, tokenizer.cut))
    with progress.task("counting tokens") as bar:
        total = count_blocks(tokenizer.kind, blocks, normalized, bar)
    offsets = total.offsets[: total.n + 1]
    write_arrays(
        folder / COUNTS,
        {
            "bytes": total.arena[: offsets[-1]],
            "offsets": offsets,
            "counts": total.counts[: total.n],
        },
    )
    return {"words": total.n}


def _read_counts(path: Path, kind: str) -> TokenCounts:
    from seqloom.text.vocabulary import padded

    arrays, counts = read_arrays(path), TokenCounts(kind)
    counts.arena = padded(arrays["bytes"].tobytes())
    counts.offsets = np.array(arrays["offsets"])
    counts.counts = np.array(arrays["counts"])
    counts.n = len(counts.counts)
    return counts


@lru_cache(maxsize=4)
def _tokenizer_at(path: str) -> Tokenizer:
    return Tokenizer.load(path)


def encode_range(
    folder: Path, where: dict[str, Any], tokenizer: str, unit: Any, end: bool
) -> dict[str, Any]:
    """Write the ids of a range; `end`: the stream ends with it."""
    coder = _tokenizer_at(tokenizer)
    dtype, eos_id = id_type(coder), coder.eos_id
    tokens = units = longest = rest = 0
    first: int | None = None
    with open(folder / IDS, "wb") as file:
        for ids in _with_end(where, coder, unit, end):
            file.write(ids.astype(dtype).tobytes())
            ends = np.flatnonzero(ids == eos_id) + 1
            if len(ends):
                begun = rest + int(ends[0])  # the unit that an earlier block began
                if first is None:
                    first = begun
                else:
                    longest = max(longest, begun)
                longest = max(longest, int(np.diff(ends).max(initial=0)))
                rest, units = len(ids) - int(ends[-1]), units + len(ends)
            else:
                rest += len(ids)
            tokens += len(ids)
    return {
        "tokens": tokens,
        "first": tokens if first is None else first,
        "longest": longest,
        "rest": rest,
        "units": units,
    }


def _with_end(
    where: dict[str, Any], tokenizer: Tokenizer, unit: Any, end: bool
) -> Iterator[np.ndarray]:
    for block in _blocks(where, tokenizer.cut):
        yield encode_block(tokenizer, block, unit)
    if end:
        yield np.array([tokenizer.eos_id], np.uint32)


def ids_of(encoded: dict[str, Any]) -> np.ndarray:
    """Map the ids of a range from their file."""
    ids = np.memmap(encoded["path"], encoded["dtype"], "r").view(np.ndarray)
    if len(ids) != encoded["tokens"]:
        raise DataError(
            f"{encoded['path']} is not complete; remove the directory of partial results"
        )
    return ids
