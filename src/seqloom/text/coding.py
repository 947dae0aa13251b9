"""The interface behind every kind of tokenizer (`Coder`), its input as bytes, the byte kind, and marks.

Marks are tokens that no text produces, such as [MASK], [CLS] or the roles of a chat; models are trained with
them between the tokens of texts. Some are declared when a tokenizer is fitted (`marks` of its config), some
are the special tokens of published vocabularies, and every tokenizer has `</s>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from seqloom.errors import DataError
from seqloom.text.boundaries import Cut
from seqloom.text.file_names import refuse_file

if TYPE_CHECKING:
    from seqloom.text.tokenizer import Tokenizer

EOS, UNK = "</s>", "<unk>"


class Located(NamedTuple):
    """The tokens of a text, and where they stand in it; tokens of the parts of one character share it."""

    ids: np.ndarray  # int64 (T,)
    starts: np.ndarray  # int64 (T,): of its first character
    stops: np.ndarray  # int64 (T,): after its last one


def characters_of(data: bytes) -> np.ndarray:
    """Return the number of the character that each byte of UTF-8 belongs to, and at the end their number."""
    begins = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    return np.concatenate([np.cumsum(begins) - 1, [int(begins.sum())]])


class Coder(Protocol):
    """What a kind of tokenizer implements; `Tokenizer` adds the public methods."""

    @property
    def size(self) -> int: ...
    @property
    def eos_id(self) -> int: ...
    @property
    def unk_id(self) -> int | None: ...
    @property
    def lossless(self) -> bool: ...
    @property
    def joiner(self) -> bytes: ...

    def cut(self, data: bytes, final: bool) -> int: ...
    def encode(self, data: bytes, newline_ends: bool) -> np.ndarray: ...  # uint32
    # the ids of a text, newlines being text, and the characters of each: from, and up to
    def locate(self, text: str) -> Located: ...
    def decode(self, ids: list[int]) -> bytes: ...  # without ends of units
    # the bytes that a token adds to a text; `before`: after text without white space at its end
    def piece(self, token: int, before: bool) -> bytes: ...
    def spelling(self, token: int) -> bytes: ...  # none for specials
    def lengths(self) -> np.ndarray: ...
    def find(self, spelling: bytes) -> int | None: ...
    def name(self, token: int) -> str: ...
    def content(self) -> Iterable[bytes]: ...  # everything that decides the ids
    def write(self, directory: Path) -> None: ...


class ByteCoder:
    """Ids 0 to 255 are the bytes, 256 ends a unit."""

    size, eos_id, unk_id = 257, 256, None
    lossless, joiner = True, b""

    def cut(self, data: bytes, final: bool) -> int:
        return len(data)

    def encode(self, data: bytes, newline_ends: bool) -> np.ndarray:
        ids = np.frombuffer(data, np.uint8).astype(np.uint32)
        if newline_ends:
            ids[ids == ord("\n")] = self.eos_id
        return ids

    def locate(self, text: str) -> Located:
        data = to_bytes(text)
        places = characters_of(data)[:-1]
        return Located(self.encode(data, False).astype(np.int64), places, places + 1)

    def decode(self, ids: list[int]) -> bytes:
        return bytes(ids)

    def piece(self, token: int, before: bool) -> bytes:
        return self.spelling(token)

    def spelling(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else b""

    def lengths(self) -> np.ndarray:
        return np.array([1] * 256 + [0], np.int32)

    def find(self, spelling: bytes) -> int | None:
        return spelling[0] if len(spelling) == 1 else {EOS.encode(): self.eos_id}.get(spelling)

    def name(self, token: int) -> str:
        return EOS if token == self.eos_id else bytes([token]).decode("utf-8", "backslashreplace")

    def content(self) -> Iterable[bytes]:
        return (b"byte",)

    def write(self, directory: Path) -> None:
        pass


def to_bytes(text: str | bytes) -> bytes:
    """Encode text as UTF-8; refuse lone surrogates, which cannot be encoded."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        hint = (
            "; a text that is a list of words is joined with blanks first"
            if isinstance(text, (list, tuple))
            else ""
        )
        raise DataError(f"expected text, got {type(text).__name__}{hint}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"character {error.start} of the text is half of a surrogate pair "
            f"(U+{ord(text[error.start]):04X}) and not a character; decode the text correctly"
        ) from None


def text_blocks(data: Any, cut: Cut, size: int) -> Iterator[bytes]:
    """Yield the bytes of a corpus, a text or a list of texts, in blocks of about `size`."""
    if hasattr(data, "blocks"):
        return (block.data for block in data.blocks(cut, size))
    if isinstance(data, str):
        refuse_file(data)
        return iter([to_bytes(data)])
    if isinstance(data, Iterator):
        raise DataError(
            f"a {type(data).__name__} can be read only once; give a list of texts, or a corpus "
            "from seqloom.read(path)"
        )
    if not isinstance(data, Iterable) or isinstance(data, (bytes, dict)):
        raise DataError(f"expected a text, a list of texts or a corpus, got {type(data).__name__}")
    return _join(data, size)


def _join(texts: Iterable[str], size: int) -> Iterator[bytes]:
    waiting: list[bytes] = []
    length = 0
    for text in texts:
        waiting.append(to_bytes(text) + b"\n")
        length += len(waiting[-1])
        if length >= size:
            yield b"".join(waiting)
            waiting, length = [], 0
    yield b"".join(waiting)


def to_spelling(word: str) -> bytes:
    """Return the bytes of a word; bytes that are not UTF-8 are lone surrogates in Python's strings."""
    try:
        return word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return word.encode("utf-8", "surrogatepass")


def from_spelling(spelling: bytes) -> str:
    return spelling.decode("utf-8", "surrogateescape")


# ---- marks


def find_marks(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the ids of all marks by name: tokens without bytes, apart from the unknown one."""
    marks = {}
    for token in range(tokenizer.vocab_size):
        if token == tokenizer.unk_id or tokenizer.token_bytes(token):
            continue
        name = tokenizer.token(token)
        if name.strip():  # the ids of a published vocabulary may have gaps
            marks[name] = token
    return marks


def with_mark_names(tokenizer: Tokenizer, ids: np.ndarray, newline_ends: bool) -> bytes:
    """Decode with the names of marks among the text; with `newline_ends` the ends of units become
    newlines instead.

    >>> from seqloom.text.tokenizer import Tokenizer
    >>> tokenizer = Tokenizer(kind="whitespace", marks=["[MASK]"]).fit("the cat sat")
    >>> tokenizer.decode([4, 5, 3, 0], marks=True)
    'the [MASK] sat </s>'
    """
    if not newline_ends:
        return _named_unit(tokenizer, ids.tolist())
    units = np.split(ids, np.flatnonzero(ids == tokenizer.eos_id))
    return b"\n".join(
        _named_unit(tokenizer, unit[unit != tokenizer.eos_id].tolist()) for unit in units
    )


def _named_unit(tokenizer: Tokenizer, ids: list[int]) -> bytes:
    """Decode the tokens before the first mark as usual, then append pieces and names of marks."""
    names = {token: name.encode() for name, token in tokenizer.marks.items()}
    first = next((position for position, token in enumerate(ids) if token in names), len(ids))
    parts = [tokenizer.decode_bytes(ids[:first])]
    for token in ids[first:]:
        before = len(parts) > 1 or bool(parts[0])
        joiner = tokenizer.joiner if before else b""
        parts.append(
            joiner + names[token] if token in names else tokenizer.piece(token, before=before)
        )
    return b"".join(parts)
