"""fastText's model file (.bin, .ftz): read without fastText, plain and quantised, with and without
labels; as vectors, or as a seqloom model.

After a magic number and a version follow the options, the dictionary (words, then labels), the
input matrix and the output matrix. A word's vector is the mean of its own row and of the rows of
its character n-grams (none where `maxn` is 0, as for most classifiers). A quantised matrix holds a
code of 8 bits for each few dimensions and the 256 centroids of each, and separate codes for lengths
if these were normalised (Joulin et al. 2016, "FastText.zip"); pruning renumbers the n-grams it keeps.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.data.vector_files import FASTTEXT_MAGIC
from seqloom.errors import DataError, ModelError
from seqloom.models.word_vectors.configs import FastTextConfig
from seqloom.models.word_vectors.fasttext import FastText
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.text.vocabulary import padded

OPTIONS = (
    "dim",
    "ws",
    "epoch",
    "minCount",
    "neg",
    "wordNgrams",
    "loss",
    "model",
    "bucket",
    "minn",
    "maxn",
    "lrUpdateRate",
)
MODELS = {1: "cbow", 2: "skipgram", 3: "supervised"}
LOSSES = {1: "hs", 2: "ns", 3: "softmax", 4: "ova"}
CENTROIDS = 256
BLOCK = 1 << 16  # n-grams whose rows are fetched at once


@dataclass(frozen=True)
class Dense:
    values: np.ndarray  # (R, D), mapped; not aligned, so it is only ever indexed

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, places: np.ndarray) -> np.ndarray:
        return np.asarray(self.values[places], np.float32)


@dataclass(frozen=True)
class Quantised:
    """Codes (R, S) of centroids; with `norm_codes` lengths are coded separately."""

    codes: np.ndarray
    parts: list[np.ndarray]  # centroids for each of the S groups of dimensions: (256, its width)
    norm_codes: np.ndarray | None
    norms: np.ndarray | None  # (256,)

    def __len__(self) -> int:
        return len(self.codes)

    def rows(self, indices: np.ndarray) -> np.ndarray:
        vectors = np.concatenate(
            [part[self.codes[indices, s]] for s, part in enumerate(self.parts)], axis=1
        )  # (n, D)
        if self.norm_codes is not None and self.norms is not None:
            vectors = vectors * self.norms[self.norm_codes[indices]][:, None]
        return vectors


@dataclass(frozen=True)
class FastTextFile:
    """Everything that a fastText model file holds."""

    options: dict[str, Any]  # by fastText's names; model and loss as words
    words: list[bytes]
    labels: list[bytes]
    counts: np.ndarray  # of words and then of labels
    pruned: dict[int, int] | None  # of a pruned model: the row of each bucket of n-grams
    input: Dense | Quantised
    output: Dense | Quantised
    name: str

    def vectors(self) -> WordVectors:
        """Return the words with their vectors as fastText gives them, n-grams included."""
        spellings = [word.decode("utf-8", "surrogateescape") for word in self.words]
        try:
            vectors = WordVectors.of(
                spellings,
                self._compose(self.words, np.arange(len(self.words))),
                self.counts[: len(self.words)],
                source=self.name,
            )
        except DataError as error:
            raise DataError(f"{self.name}: {error}") from None
        vectors.maker = self.unseen if self.options["maxn"] > 0 else None
        return vectors

    def unseen(self, words: Sequence[str]) -> np.ndarray:
        """Return vectors (n, D) of words by their n-grams alone; zeros if there are none."""
        return self._compose([word.encode("utf-8", "surrogateescape") for word in words], None)

    def _compose(self, words: Sequence[bytes], word_rows: np.ndarray | None) -> np.ndarray:
        """Return the mean of each word's own row and those of its n-grams; float32 (n, D)."""
        rows, ends = self._ngrams(words)
        total = np.zeros((len(words), self.options["dim"]), np.float32)
        owners = np.repeat(np.arange(len(words)), np.diff(ends, prepend=0))
        count = np.bincount(owners, minlength=len(words))
        for low in range(0, len(rows), BLOCK):
            owners_here = owners[low : low + BLOCK]
            firsts = np.flatnonzero(np.diff(owners_here, prepend=-1))
            total[owners_here[firsts]] += np.add.reduceat(
                self.input.rows(rows[low : low + BLOCK]), firsts, axis=0
            )
        if word_rows is not None:
            for low in range(0, len(word_rows), BLOCK):
                total[low : low + BLOCK] += self.input.rows(word_rows[low : low + BLOCK])
            count = count + 1
        return total / np.maximum(count, 1)[:, None].astype(np.float32)

    def _ngrams(self, words: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the n-grams of all words, and how many there are up to each word; the end
        of a sentence has none.
        """
        from seqloom.kernels.features import ngram_buckets

        longest, buckets = self.options["maxn"], self.options["bucket"]
        if longest <= 0 or buckets <= 0 or not words:
            return np.zeros(0, np.int64), np.zeros(len(words), np.int64)
        arena, offsets = padded(b"".join(words)), np.zeros(len(words) + 1, np.int64)
        np.cumsum([len(word) for word in words], out=offsets[1:])
        rows, ends = ngram_buckets(arena, offsets, max(self.options["minn"], 1), longest, buckets)
        has_row = np.ones(len(rows), bool)
        if self.pruned is not None:
            table = np.full(buckets, -1, np.int64)
            table[list(self.pruned)] = list(self.pruned.values())
            rows = table[rows]
            has_row = rows >= 0
        ends = np.concatenate([[0], np.cumsum(has_row)])[ends]
        return rows[has_row] + len(self.words), ends


def read_fasttext(path: str | Path) -> FastTextFile:
    """Read a fastText model file; the large matrices stay memory-mapped."""
    source = Path(path)
    if not source.is_file() or not source.stat().st_size:
        raise DataError(f"{path}: {'is empty' if source.is_file() else 'no such file'}")
    reader = _Reader(source)
    if reader.take(4) != FASTTEXT_MAGIC:
        raise DataError(f"{path}: not a fastText model file")
    version = reader.numbers("<i")[0]
    if version not in (11, 12):
        raise DataError(
            f"{path}: a fastText model of version {version}; versions 11 and 12 can be read"
        )
    options: dict[str, Any] = dict(zip(OPTIONS, reader.numbers("<12i")))
    options["t"] = reader.numbers("<d")[0]
    if (
        options["model"] not in MODELS
        or options["loss"] not in LOSSES
        or not 0 < options["dim"] < 1 << 20
    ):
        raise DataError(f"{path}: damaged: its options make no sense {options}")
    if version == 11 and options["model"] == 3:
        options["maxn"] = (
            0  # older classifiers had no n-grams of characters, whatever the file says
        )
    options |= {"model": MODELS[options["model"]], "loss": LOSSES[options["loss"]]}
    size, n_words, n_labels, _, n_pruned = reader.numbers("<3i2q")
    if n_words < 0 or n_labels < 0 or n_words + n_labels != size:
        raise DataError(
            f"{path}: damaged: {n_words} words and {n_labels} labels do not make {size} entries"
        )
    spellings, counts, labels = reader.entries(size)
    if labels != [False] * n_words + [True] * n_labels:
        raise DataError(f"{path}: damaged: words and labels are mixed")
    pairs = np.frombuffer(reader.take(8 * max(n_pruned, 0)), "<i4").reshape(-1, 2).tolist()
    pruned = None if n_pruned < 0 else {a: b for a, b in pairs}
    quantised = reader.flag()
    inputs = reader.quantised() if quantised else reader.dense()
    outputs = reader.quantised() if reader.flag() and quantised else reader.dense()
    file = FastTextFile(
        options,
        spellings[:n_words],
        spellings[n_words:],
        counts,
        pruned,
        inputs,
        outputs,
        source.name,
    )
    _check(file, str(path))
    return file


def _check(file: FastTextFile, path: str) -> None:
    """Check that the input matrix has the rows of all n-grams."""
    ngrams = (
        file.options["bucket"] if file.pruned is None else max(file.pruned.values(), default=-1) + 1
    )
    needed = len(file.words) + (ngrams if file.options["maxn"] > 0 else 0)
    low = file.pruned is not None and any(
        not 0 <= a < file.options["bucket"] or b < 0 for a, b in file.pruned.items()
    )
    width = (
        file.input.rows(np.zeros(1, np.int64)).shape[1] if len(file.input) else file.options["dim"]
    )
    if len(file.input) < needed or low or width != file.options["dim"]:
        raise DataError(
            f"{path}: damaged: its input matrix is {len(file.input):,} x {width}, its options ask for "
            f"{needed:,} x {file.options['dim']}"
        )


def convert_fasttext(path: str | Path) -> FastText | WordVectors:
    """Return a `fasttext` model with all rows, which gives vectors to unseen words and learns further.

    It is words alone where the file has no n-grams, is a classifier or is quantised.
    """
    file = read_fasttext(path)
    words, o = file.vectors(), file.options
    nodes = max(len(words) - 1, 1) if o["loss"] == "hs" else len(words)
    ngrams = 0 < o["maxn"] >= o["minn"]
    whole = (
        isinstance(file.input, Dense)
        and isinstance(file.output, Dense)
        and len(file.output) >= nodes
    )
    if not ngrams or not whole or o["model"] == "supervised":
        words.maker = None
        if ngrams:
            what = (
                "a classifier"
                if o["model"] == "supervised"
                else "quantised or without an output matrix"
            )
            progress.say(
                f"{path}: {what}, so only the vectors of its {len(words):,} words are kept; ask "
                f"the file itself about "
                "other words"
            )
        return words
    config = FastTextConfig(
        dimensions=o["dim"],
        architecture="cbow" if o["model"] == "cbow" else "skip-gram",
        loss="softmax" if o["loss"] == "ova" else o["loss"],
        window=max(o["ws"], 1),
        negatives=max(o["neg"], 1),
        epochs=max(o["epoch"], 1),
        min_count=max(o["minCount"], 1),
        sample=min(max(o["t"], 0.0), 1.0),
        min_ngram=max(o["minn"], 1),
        max_ngram=o["maxn"],
        buckets=o["bucket"],
    )
    counts = file.counts[: len(words)]  # labels come behind
    arrays = {
        **words.words.arrays(),
        "counts": counts,
        "matrix": words.matrix,
        "input": _rows(file, len(words) + o["bucket"]),
        "buckets": np.arange(o["bucket"]),
        "output": file.output.rows(np.arange(nodes)),
    }
    info = words.fit_info | {"dimensions": o["dim"], "tokens": int(counts.sum())}
    try:
        return FastText.from_parts(config, {}, {}, arrays, info)
    except ModelError as error:
        raise DataError(f"{path}: {error}") from None


def _rows(file: FastTextFile, n: int) -> np.ndarray:
    matrix = np.empty((n, file.options["dim"]), np.float32)
    for low in range(0, n, 1 << 16):
        part = np.arange(low, min(low + (1 << 16), n))
        matrix[part] = file.input.rows(part)
    return matrix


class _Reader:
    """Takes one thing after the other from a mapped file; what is not there any more is a clear error."""

    def __init__(self, path: Path) -> None:
        self.path, self.at = path, 0
        with open(path, "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.data = np.frombuffer(self.map, np.uint8)

    def view(self, size: int) -> np.ndarray:
        if size < 0 or self.at + size > len(self.data):
            missing = (
                f"{self.at + size - len(self.data):,} bytes are missing"
                if size >= 0
                else "its sizes make no sense"
            )
            raise DataError(
                f"{self.path}: the file is cut off or damaged: {missing} beyond its end at {len(self.data):,}"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def take(self, size: int) -> bytes:
        return self.view(size).tobytes()

    def numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def flag(self) -> bool:
        return self.take(1) != b"\0"

    def entries(self, size: int) -> tuple[list[bytes], np.ndarray, list[bool]]:
        """Read the spelling up to a zero byte, count and kind of every dictionary entry."""
        spellings, counts, labels = [], [], []
        for k in range(size):
            end = self.map.find(b"\0", self.at)
            if end < 0 or end + 10 > len(self.map):
                raise DataError(
                    f"{self.path}: the file is cut off in its dictionary: {k:,} of {size:,} entries are there"
                )
            spellings.append(self.map[self.at : end])
            count, kind = struct.unpack_from("<qb", self.map, end + 1)
            counts.append(count)
            labels.append(kind == 1)
            self.at = end + 10
        return spellings, np.array(counts, np.int64), labels

    def dense(self) -> Dense:
        rows, width = self.numbers("<2q")
        if rows < 0 or width <= 0:
            raise DataError(f"{self.path}: damaged: a matrix of {rows} x {width}")
        return Dense(self.view(4 * rows * width).view("<f4").reshape(rows, width))

    def quantised(self) -> Quantised:
        normed = self.flag()
        rows, _, size = self.numbers("<2qi")
        codes = self.view(size)
        parts = self.parts()
        if size != rows * len(parts):
            raise DataError(
                f"{self.path}: damaged: {size:,} codes for {rows:,} rows of {len(parts)} codes each"
            )
        norm_codes = self.view(rows) if normed else None
        return Quantised(
            codes.reshape(rows, len(parts)),
            parts,
            norm_codes,
            self.parts()[0].ravel() if normed else None,
        )

    def parts(self) -> list[np.ndarray]:
        """Read what the codes of each stretch of dimensions stand for."""
        dim, count, width, last = self.numbers("<4i")
        if count <= 0 or (count - 1) * width + last != dim:
            raise DataError(
                f"{self.path}: damaged: {count} codes of {width} dimensions do not make {dim}"
            )
        values = np.frombuffer(self.take(4 * dim * CENTROIDS), "<f4")
        widths = [width] * (count - 1) + [last]
        row_offsets = np.cumsum([0, *widths]) * CENTROIDS
        return [values[low:high].reshape(CENTROIDS, -1) for low, high in pairwise(row_offsets)]
