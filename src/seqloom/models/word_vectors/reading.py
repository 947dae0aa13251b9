"""Text as indices into a list of words, as the trainers of vectors read it, and small helpers for
their matrices.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

import numpy as np

from seqloom.config import Unit
from seqloom.data.corpus import Corpus
from seqloom.data.documents import Document
from seqloom.data.encode import encoded_blocks
from seqloom.data.vector_files import vectors_instead_of_text
from seqloom.errors import ConfigError, DataError
from seqloom.models.word_vectors.words import Words
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import SPLITTERS

_LINE = 64  # bytes of a cache line


def aligned(n: int) -> np.ndarray:
    """Return n float32 zeros, the first at the start of a cache line."""
    room = np.zeros(n + _LINE // 4, np.float32)
    skip = -room.ctypes.data % _LINE // 4
    return room[skip : skip + n]


def combined(which: str, input: np.ndarray, output: np.ndarray) -> np.ndarray:
    """Return the matrix that is the embedding: input, output or their sum."""
    return {"input": input, "output": output}[which] if which != "sum" else input + output


# ---- reading

END, GONE = 0xFFFFFFFF, 0xFFFFFFFE  # the end of a unit; a word that is not in the list
BLOCK = 1 << 16  # ids that are checked at a time
IN_MEMORY = 2 << 30  # bytes of text; more is encoded into a mapped file


@dataclass(frozen=True)
class WordStream:
    """A text as indices into its list of words."""

    words: Words  # frequent ones first
    counts: np.ndarray  # int64 (V,)
    ids: np.ndarray  # uint32 (T,), with END and GONE

    @property
    def n_words(self) -> int:
        """Return the number of tokens of the text that are in the list."""
        return int(self.counts.sum())

    def has_neighbours(self) -> bool:
        """Return whether any unit has two words of the list."""
        last = np.array([END], np.uint32)
        for low in range(0, len(self.ids), BLOCK):
            block = self.ids[low : low + BLOCK]
            block = np.concatenate([last, block[block != GONE]])
            if ((block[1:] != END) & (block[:-1] != END)).any():
                return True
            last = block[-1:]
        return False


def check_text(corpus: Corpus) -> None:
    """Refuse files of finished vectors."""
    for document in corpus.documents:
        if isinstance(document, Document) and vectors_instead_of_text(document.head()):
            raise DataError(
                f"{document.name} holds vectors already; give running text to learn vectors from, "
                f"or make a model "
                "of it with `seqloom convert`"
            )


def read_words(
    corpus: Corpus, tokenizer: Tokenizer, unit: Unit, memory: int | None = None
) -> WordStream:
    """Read the text into memory or, if it is larger than `memory` bytes, into a temporary file."""
    from seqloom.kernels.sampling import place_and_count

    words = _words(tokenizer)
    if not len(words):
        size = tokenizer.config.vocab_size
        raise DataError(
            f"no word of {corpus.name} is seen {tokenizer.config.min_count} times or more"
            + (f" and among the first {size} with </s> and <unk>" if size else "")
            + "; give more text or a lower min_count"
            + (", or a larger vocab_size" if size else "")
        )
    first = tokenizer.vocab_size - len(words)
    table = np.concatenate([np.full(first, GONE), np.arange(len(words))]).astype(np.uint32)
    table[tokenizer.eos_id] = END
    totals = np.zeros(tokenizer.vocab_size, np.int64)
    blocks: list[np.ndarray] = []
    if corpus.n_bytes is None:  # compressed, and not read yet, since the tokenizer was given
        corpus.read_through()
    on_disk = (corpus.n_bytes or 0) > (IN_MEMORY if memory is None else memory)
    with tempfile.TemporaryFile(prefix="seqloom-ids-") as file:
        for block in encoded_blocks(tokenizer, corpus, unit, end_stream=False):
            place_and_count(block, table, totals)
            if on_disk:
                file.write(block.tobytes())
            else:
                blocks.append(block)
        if not totals[first:].any():
            raise DataError(
                f"none of the {len(words):,} words is in {corpus.name}; give text that has some of them"
            )
        if on_disk:
            file.flush()
            ids = np.memmap(file, np.uint32, "r").view(np.ndarray)
        else:
            ids = np.concatenate(blocks)
    return WordStream(words, totals[first:], ids)


def _words(tokenizer: Tokenizer) -> Words:
    """Return every word of the vocabulary in the order of ids; a literal <unk> is one of them, the
    special tokens are not.
    """
    if tokenizer.kind not in SPLITTERS:
        raise ConfigError(
            f"word vectors need words; tokenizer {tokenizer.kind!r} has none: use {', '.join(SPLITTERS)}"
        )
    arena, offsets = tokenizer.spellings()
    # Special tokens have no bytes and come first.
    return Words.from_bytes(arena, offsets[np.count_nonzero(np.diff(offsets) == 0) :])
