"""Subword tokens: byte-pair encoding, unigram and WordPiece, trained and run by the tokenizers library.

BPE and unigram work on bytes written in GPT-2's alphabet of 256 printable characters (Radford et al. 2019),
all of which are always in the vocabulary, so any bytes can be spelled. Tokens do not cross the boundaries of
one of two rules: `gpt2` is the regular expression of that paper; with `space` no token has white space after
its first character, which joins punctuation to words and never merges two blanks.

`</s>` is the last id and unknown to the library: so no text, not even a literal `</s>`, can produce it. A
`tokenizer.json` from elsewhere keeps its ids and its end token. Its vocabulary may lack bytes that its
training text did not have; the library would silently drop them, so a text with such a byte is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seqloom.errors import DataError, ModelError
from seqloom.text.boundaries import (
    Cut,
    cut_before_letter,
    cut_before_space,
    cut_before_word,
    cut_nowhere,
    word_bounds,
)
from seqloom.text.coding import EOS, Located, to_bytes
from seqloom.text.subword_file import KINDS, panics_told, read_engine
from seqloom.text.vocabulary import distinct

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

FILE = "tokenizer.json"
PIECE = 1 << 16  # bytes that the library gets at a time
SPACE_RULE = r"\s?\S+|\s"

_END_TOKENS = ("<|endoftext|>", EOS, "<eos>", "[SEP]")
_NOT_UTF8 = re.compile("([\udc80-\udcff])")


def _alphabet() -> list[str]:
    """Return GPT-2's character for each byte: the same code point if visible, else one from U+0100 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(hidden)) for byte in range(256)]


ALPHABET = _alphabet()
# a character of the alphabet to that of its byte in Latin-1; what else is there has no byte
_TO_BYTES = {
    **dict.fromkeys(range(256), 0x100),
    **{ord(one): at for at, one in enumerate(ALPHABET)},
}


class Subword:
    """Ids by a `tokenizers.Tokenizer`; `eos` names its end token, or None adds one after its last id."""

    def __init__(self, engine: Engine, eos: str | None) -> None:
        self.engine, self.eos = engine, eos
        engine.no_truncation()
        engine.no_padding()
        engine.encode_special_tokens = True  # special tokens written in a text are text
        self._spec = _description(engine)
        self.kind: Literal["bpe", "wordpiece", "unigram"] = _kind(self._spec)
        self._ids = engine.get_vocab()
        size = max(self._ids.values(), default=-1) + 1
        self.size = size if eos is not None else size + 1
        self.eos_id = size if eos is None else self._ids[eos]
        model = self._spec["model"]
        words_only = self.kind == "bpe" and bool(model.get("ignore_merges")) and not model["merges"]
        self.label = "wordbyte" if words_only else self.kind  # whole words, or else bytes
        self.unk_id = (
            model.get("unk_id") if "unk_id" in model else self._ids.get(model.get("unk_token"))
        )
        self._byte_level = any(part["type"] == "ByteLevel" for part in _parts(self._spec))
        # an added token may look like a byte of the alphabet, but is a character
        added = {token["id"] for token in self._spec["added_tokens"]}
        lacking = bytes(
            byte
            for byte, character in enumerate(ALPHABET)
            if self._ids.get(character, -1) in {-1, *added}
        )
        self._lacking = lacking if self._byte_level and self.unk_id is None else b""
        self.lossless = (
            self._byte_level and lacking == self._lacking and _keeps_everything(self._spec)
        )
        self.joiner = b" " if self.kind == "wordpiece" else b""
        self._cut = _cut_rule(self._spec)

    def cut(self, data: bytes, final: bool) -> int:
        return self._cut(data, final)

    def encode(self, data: bytes, newline_ends: bool) -> np.ndarray:
        """Encode text as uint32 ids. A long text repeats its words, so each distinct one is encoded once."""
        self._refuse_lacking(data)
        if len(data) <= PIECE or self._cut is not cut_before_word:
            units = self._encode_each(data.split(b"\n") if newline_ends else [data])
            return np.array([i for unit in units for i in (self.eos_id, *unit)][1:], np.uint32)
        stretches, indices = distinct(
            data, word_bounds(np.frombuffer(data, np.uint8), newline_ends)
        )
        encoded = self._encode_each(stretches)
        if newline_ends and b"\n" in stretches:
            encoded[stretches.index(b"\n")] = [self.eos_id]
        lengths = np.array([len(ids) for ids in encoded])
        flat = np.fromiter(chain.from_iterable(encoded), np.uint32)
        starts, sizes = (np.cumsum(lengths) - lengths)[indices], lengths[indices]
        shifts = starts - (np.cumsum(sizes) - sizes)
        return flat[np.repeat(shifts, sizes) + np.arange(sizes.sum())]

    def _refuse_lacking(self, data: bytes) -> None:
        if self._lacking and len(data.translate(None, self._lacking)) < len(data):
            byte = next(byte for byte in data if byte in self._lacking)
            raise DataError(
                f"the text has the byte 0x{byte:02x}, for which this vocabulary has no token; remove it"
            )

    def locate(self, text: str) -> Located:
        self._refuse_lacking(to_bytes(text))
        with panics_told("its tokenizer cannot take this text apart"):
            found = self.engine.encode(text, add_special_tokens=False)
        places = np.array(found.offsets, np.int64).reshape(-1, 2)
        return Located(np.array(found.ids, np.int64), places[:, 0], places[:, 1])

    def _encode_each(self, texts: list[bytes]) -> list[list[int]]:
        """Encode each text by itself, in pieces that the library encodes in parallel."""
        plan = [
            [step for piece in self._pieces(text) for step in self._decoded(piece)]
            for text in texts
        ]
        with panics_told("its tokenizer cannot take this text apart"):
            batch = iter(
                self.engine.encode_batch_fast(
                    [step for steps in plan for step in steps if isinstance(step, str)],
                    add_special_tokens=False,
                )
            )
        return [
            [i for step in steps for i in (next(batch).ids if isinstance(step, str) else (step,))]
            for steps in plan
        ]

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        at, size = 0, PIECE
        while len(data) - at > size:
            length = self._cut(data[at : at + size], False)
            if length:
                yield data[at : at + length]
            at, size = at + length, PIECE if length else 2 * size
        if at < len(data):
            yield data[at:]

    def _decoded(self, piece: bytes) -> Iterator[str | int]:
        """Yield the text of a piece; bytes that are not UTF-8 become the ids of single bytes, or
        U+FFFD.
        """
        try:
            yield piece.decode("utf-8")
        except UnicodeDecodeError:
            if not self.lossless:
                yield piece.decode("utf-8", "replace")
                return
            for part in _NOT_UTF8.split(piece.decode("utf-8", "surrogateescape")):
                if _NOT_UTF8.match(part):
                    yield self._ids[ALPHABET[ord(part) - 0xDC00]]
                elif part:
                    yield part

    def decode(self, ids: list[int]) -> bytes:
        if self._byte_level:
            return b"".join(self._spellings[i] for i in ids)
        if self.kind != "wordpiece":
            with panics_told("its tokenizer cannot put these tokens together"):
                return self.engine.decode(ids).encode("utf-8")
        return b"".join(self.piece(i, before=True) for i in ids).removeprefix(b" ")

    def piece(self, token: int, before: bool) -> bytes:
        special = not self._spellings[token] and token != self.unk_id
        if self.kind != "wordpiece" or special:
            return self._spellings[token]
        name = self.name(token)
        if name.startswith("##"):
            return name[2:].encode("utf-8")
        return (b" " if before else b"") + name.encode("utf-8")

    def pieces(self) -> list[bytes]:
        """Return what each token adds inside a text."""
        if self.kind != "wordpiece":
            return self._spellings
        return [self.piece(i, True) if one else b"" for i, one in enumerate(self._spellings)]

    def lengths(self) -> np.ndarray:
        return np.array([len(spelling) for spelling in self._spellings], np.int32)

    @cached_property
    def _spellings(self) -> list[bytes]:
        spellings = [b""] * self.size
        specials = {token["id"] for token in self._spec["added_tokens"] if token["special"]} | {
            self.unk_id
        }
        # added tokens are spelled as they are, not in the alphabet
        added = {token["id"] for token in self._spec["added_tokens"]}
        for token, i in self._ids.items():
            if i not in specials and i != self.eos_id:
                spellings[i] = token.encode("utf-8") if i in added else self._spell(token)
        return spellings

    def _spell(self, token: str) -> bytes:
        if self._byte_level:
            try:
                return token.translate(_TO_BYTES).encode("latin-1")
            except UnicodeEncodeError:
                return token.encode("utf-8")  # outside the alphabet: no text produces it
        if self.kind == "wordpiece":
            return token.removeprefix("##").encode("utf-8")
        # SentencePiece writes single bytes so, and ▁ for a space
        if re.fullmatch("<0x[0-9A-F]{2}>", token):
            return bytes([int(token[3:5], 16)])
        return token.replace("▁", " ").encode("utf-8")

    def spelling(self, token: int) -> bytes:
        return self._spellings[token]

    def find(self, spelling: bytes) -> int | None:
        plain = spelling.decode("utf-8", "replace")
        token = "".join(ALPHABET[byte] for byte in spelling) if self._byte_level else plain
        return self._ids.get(
            token, self._ids.get(plain, self.eos_id if plain == (self.eos or EOS) else None)
        )

    def name(self, token: int) -> str:
        if token == self.eos_id:
            return self.eos or EOS
        if self._byte_level and self._spellings[token]:
            return self._spellings[token].decode("utf-8", "backslashreplace")
        return self.engine.id_to_token(token) or ""

    def added(self, token: str) -> dict[str, Any] | None:
        """Return the entry of an added token (lstrip, special and others); None if it is not one."""
        return next(
            (entry for entry in self._spec["added_tokens"] if entry["content"] == token), None
        )

    def finding(self, token: str) -> Subword:
        """Return a copy that finds one added token in a text, while the other special ones stay text."""
        from tokenizers import Tokenizer as Engine

        added = [
            {**entry, "special": entry["special"] and entry["content"] != token}
            for entry in self._spec["added_tokens"]
        ]
        spec = {**json.loads(self.engine.to_str()), "added_tokens": added}
        return Subword(Engine.from_str(json.dumps(spec)), self.eos)

    def content(self) -> Iterable[bytes]:
        return (self.engine.to_str().encode("utf-8"), (self.eos or "").encode("utf-8"))

    def write(self, directory: Path) -> None:
        (directory / FILE).write_text(self.engine.to_str(pretty=True), encoding="utf-8")

    @classmethod
    def read(cls, path: Path, eos: str | None) -> Subword:
        """Read the `tokenizer.json` of a saved tokenizer with the saved name of its end token."""
        engine = read_engine(path)
        if eos is not None and (not isinstance(eos, str) or engine.token_to_id(eos) is None):
            raise ModelError(
                f"{path}: the end token {eos!r:.40} is missing; save the tokenizer again"
            )
        return cls(engine, eos)

    @classmethod
    def read_foreign(cls, path: Path) -> Subword:
        """Read anybody's `tokenizer.json`; its end token is the first of the usual names that it has."""
        engine = read_engine(path)
        known = (name for name in _END_TOKENS if engine.token_to_id(name) is not None)
        return cls(engine, next(known, None))


def _description(engine: Engine) -> dict[str, Any]:
    """Return the spec of a tokenizer; of its vocabulary, which comes last and is long, and its merges
    only whether there are any.
    """
    text: str = engine.to_str()
    head, found, tail = text.partition(',"vocab":')
    if not found:
        whole: dict[str, Any] = json.loads(text)
        return whole
    spec: dict[str, Any] = json.loads(head + "}}")
    spec["model"]["merges"] = not tail.endswith('"merges":[]}}')
    return spec


def _kind(spec: dict[str, Any]) -> Literal["bpe", "wordpiece", "unigram"]:
    kind = spec["model"].get("type", "BPE")
    if kind not in KINDS:
        raise ModelError(
            f"a tokenizer.json with a {kind} model cannot be used; its kind must be {', '.join(KINDS)} "
            "(for a list of words use kind='whitespace' with vocab_file)"
        )
    return KINDS[kind]  # type: ignore[return-value]


def _parts(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the pre-tokenizer as a list of steps."""
    pre_tokenizer = spec["pre_tokenizer"]
    if pre_tokenizer is None:
        return []
    return (
        pre_tokenizer["pretokenizers"] if pre_tokenizer["type"] == "Sequence" else [pre_tokenizer]
    )


def _untouched(spec: dict[str, Any]) -> bool:
    """Return whether text reaches the pre-tokenizer unchanged: no normaliser, no added tokens split off."""
    return spec["normalizer"] is None and _only_specials_added(spec)


def _only_specials_added(spec: dict[str, Any]) -> bool:
    return all(token["special"] for token in spec["added_tokens"])


def _keeps_everything(spec: dict[str, Any]) -> bool:
    """Return whether no step drops or adds a character, as added tokens with lstrip or rstrip do."""
    return (
        spec["normalizer"] is None
        and not any(token["lstrip"] or token["rstrip"] for token in spec["added_tokens"])
        and all(
            (part["type"] == "ByteLevel" and not part["add_prefix_space"])
            or (part["type"] == "Split" and part["behavior"] != "Removed")
            or part["type"] == "Digits"
            for part in _parts(spec)
        )
    )


def _cut_rule(spec: dict[str, Any]) -> Cut:
    parts = _parts(spec)
    last = parts[-1] if parts else {"type": None}
    if last["type"] == "ByteLevel" and not last["add_prefix_space"] and _untouched(spec):
        rules = [part.get("pattern", {}).get("Regex") for part in parts[:-1]]
        if [part["type"] for part in parts[:-1]] == ["Digits"] and last.get("use_regex", True):
            return cut_before_letter
        if rules == ([] if last.get("use_regex", True) else [SPACE_RULE]):
            return cut_before_word
    known_normalizer = (spec["normalizer"] or {"type": "BertNormalizer"})[
        "type"
    ] == "BertNormalizer"
    bert = [part["type"] for part in parts] == ["BertPreTokenizer"]
    return (
        cut_before_space
        if bert and known_normalizer and _only_specials_added(spec)
        else cut_nowhere
    )
