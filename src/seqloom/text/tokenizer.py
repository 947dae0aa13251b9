"""Text to ids and back: one class in front of every kind of token.

`byte` needs no training and can spell anything. `whitespace`, `word` and `char` are closed
vocabularies (`vocabulary.py`), with `<unk>` for what was not seen. `bpe` (Sennrich et al. 2016, on
bytes as in GPT-2), `unigram` (Kudo 2018) and `wordpiece` (Schuster and Nakajima 2012) are trained
by the tokenizers library (`subword.py`); the first two can spell any bytes. `normalize` names what
is done to the text before it is cut into tokens (`normalize.py`). `lossless` says whether decoding
gives back every byte. `marks` are tokens for other uses than text, such as [MASK] or the roles of a
chat: their ids come after all others, no text produces them, and they are no text when decoded.

    >>> tokenizer = Tokenizer(kind="whitespace").fit(["the cat sat", "the cat"])
    >>> tokenizer.encode("the dog sat").tolist()
    [3, 1, 4]
    >>> tokenizer.decode([3, 2, 4])
    'the cat sat'
    >>> marked = Tokenizer(kind="byte", marks=["[MASK]"])
    >>> marked.mark_id("[MASK]"), marked.vocab_size, marked.encode("[MASK]").tolist()
    (257, 258, [91, 77, 65, 83, 75, 93])
    >>> marked.decode([97, 257]), marked.decode([97, 257], marks=True)
    ('a', 'a[MASK]')
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np

from seqloom import progress
from seqloom.config import make
from seqloom.errors import ConfigError, DataError, NotFitted, quoted, suggest
from seqloom.text.boundaries import cut_before_word
from seqloom.text.coding import (
    ByteCoder,
    Coder,
    Located,
    find_marks,
    text_blocks,
    to_bytes,
    with_mark_names,
)
from seqloom.text.normalize import Normalizer, NormalizerConfig
from seqloom.text.tokenizer_config import TokenizerConfig
from seqloom.text.vocabulary import CUTS, SPLITTERS, Vocabulary, count_blocks, read_list

if TYPE_CHECKING:
    from seqloom.text.subword import Subword


_SUBWORD_SIZE = 8000
_BLOCK = 4 << 20
T = TypeVar("T")


class Tokenizer:
    """Ids for text. `byte` is ready at once; other kinds learn their vocabulary in `fit`."""

    def __init__(self, config: TokenizerConfig | None = None, **options: Any) -> None:
        self.config = make(TokenizerConfig, config, options)
        self._fitted: Coder | None = ByteCoder() if self.config.kind == "byte" else None
        normalizer = Normalizer(self.config.normalize)
        self.normalizer = None if normalizer.identity else normalizer
        self._derived: dict[str, Any] = {}

    def fit(self, data: Any) -> Self:
        """Learn the vocabulary from a corpus, a text, or a list (any restartable iterable) of texts."""
        for cached in ("fingerprint", "byte_lengths"):
            self.__dict__.pop(cached, None)
        self._derived = {}
        if self.config.kind == "byte":
            return self
        self._fitted = (
            self._fit_vocabulary(data)
            if self.config.kind in SPLITTERS
            else self._fit_subwords(data)
        )
        return self

    def _fit_vocabulary(self, data: Any) -> Vocabulary:
        config = self.config
        if config.vocab_file is not None:
            return Vocabulary.build(config.kind, read_list(Path(config.vocab_file), config.kind))
        with progress.task("counting tokens", getattr(data, "n_bytes", None), "bytes") as bar:
            total = (
                data.token_counts(self)  # of a corpus that workers read
                if hasattr(data, "token_counts")
                else count_blocks(
                    config.kind, text_blocks(data, self.cut, _BLOCK), self._normalized, bar
                )
            )
        return Vocabulary.from_counts(total, config.min_count, config.vocab_size)

    @classmethod
    def from_tokens(
        cls,
        tokens: list[str],
        kind: Literal["whitespace", "word", "char"] = "whitespace",
        *,
        normalize: str = "none",
    ) -> Tokenizer:
        """Make a tokenizer whose vocabulary is this list, in this order, after the special tokens."""
        tokenizer = cls(kind=kind, normalize=normalize)
        tokenizer._fitted = Vocabulary.build(kind, [to_bytes(token) for token in tokens])
        return tokenizer

    def extended(self, spellings: list[bytes]) -> Tokenizer:
        """Return a copy with these words before those of its closed vocabulary, without duplicates."""
        coder = self._vocabulary()
        own_spellings = [
            coder.spelling(token) for token in range(coder.size) if coder.spelling(token)
        ]
        tokenizer = Tokenizer(self.config)
        tokenizer._fitted = Vocabulary.build(
            coder.kind, list(dict.fromkeys([*spellings, *own_spellings]))
        )
        return tokenizer

    def without_marks(self) -> Tokenizer:
        """Return a copy without the declared marks, for models that have no use for them."""
        if not self.config.marks:
            return self
        tokenizer = Tokenizer(replace(self.config, marks=()))
        tokenizer._fitted = self._fitted
        return tokenizer

    def _vocabulary(self) -> Vocabulary:
        if not isinstance(self._coder, Vocabulary):
            raise ConfigError(
                f"only the kinds {', '.join(SPLITTERS)} have a list of words; this is {self.kind!r}"
            )
        return self._coder

    @classmethod
    def whole_words(cls, data: Any, *, vocab_size: int, min_count: int = 1) -> Tokenizer:
        """Fit a lossless word tokenizer: words include the blank before them, and others are spelled in
        bytes.
        """
        tokenizer = cls(kind="bpe", vocab_size=vocab_size, min_count=min_count)
        tokenizer._fitted = tokenizer._fit_subwords(data, "words")
        return tokenizer

    def _fit_subwords(self, data: Any, kind: str | None = None) -> Coder:
        from seqloom.text.subword import PIECE
        from seqloom.text.subword_training import train

        config = self.config
        with progress.task(
            "training the tokenizer", getattr(data, "n_bytes", None), "bytes"
        ) as bar:
            return train(
                kind or config.kind,
                map(self._normalized, text_blocks(data, self.cut, PIECE)),
                config.vocab_size or _SUBWORD_SIZE,
                config.min_count,
                config.boundary,
                bar,
            )

    def encode(self, text: str | bytes, *, newline_ends: bool = False) -> np.ndarray:
        """Encode text as int64 ids. With `newline_ends` every newline becomes the end of a unit; none
        is added at the end.
        """
        return self.encode_block(to_bytes(text), newline_ends).astype(np.int64)

    def encode_block(self, data: bytes, newline_ends: bool) -> np.ndarray:
        """Encode UTF-8 bytes as uint32 ids: what `data/encode.py` runs over the blocks of a corpus."""
        return self._coder.encode(self._normalized(data), newline_ends)

    def locate(self, text: str) -> Located:
        """Encode a text, and say which of its characters each token is made of.

        >>> ids, starts, stops = Tokenizer(kind="word").fit("It is so.").locate("It is  so.")
        >>> list(zip(starts.tolist(), stops.tolist()))
        [(0, 2), (3, 5), (7, 9), (9, 10)]
        """
        if self.normalizer is None:
            return self._coder.locate(text)
        if self.normalizer.config.recipe() != "case=lower":
            raise ConfigError(
                f"with normalize {self.normalizer.config.label()} tokens have no place in the text "
                "as it was given; leave normalize out, or give case=lower"
            )
        found = self._coder.locate(self.normalizer(text))
        # a few capitals become two characters
        sizes = {one: len(self.normalizer(one)) for one in set(text)}
        origin = np.repeat(np.arange(len(text)), [sizes[one] for one in text])
        stops = np.concatenate([[0], origin + 1])[found.stops]
        return Located(found.ids, np.concatenate([origin, [len(text)]])[found.starts], stops)

    def _normalized(self, data: bytes) -> bytes:
        return data if self.normalizer is None else self.normalizer.of_bytes(data)

    def decode(
        self, ids: Iterable[int] | np.ndarray, *, newline_ends: bool = False, marks: bool = False
    ) -> str:
        """Decode ids to text; bytes that are not UTF-8 show as U+FFFD. `marks`: with the names of
        tokens that are no text.
        """
        return self.decode_bytes(ids, newline_ends=newline_ends, marks=marks).decode(
            "utf-8", "replace"
        )

    def decode_bytes(
        self, ids: Iterable[int] | np.ndarray, *, newline_ends: bool = False, marks: bool = False
    ) -> bytes:
        """Decode ids to bytes. Ends of units are left out or, with `newline_ends`, become newlines.
        Marks are left out or, with `marks`, shown by name, and so are ends that do not become
        newlines.
        """
        values = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), np.int64).ravel()
        if len(values) and not (values.min() >= 0 and values.max() < self.vocab_size):
            bad = values[(values < 0) | (values >= self.vocab_size)][0]
            raise DataError(f"id {bad} is not in the vocabulary of {self.vocab_size} tokens")
        if marks:
            return with_mark_names(self, values, newline_ends)
        text = values[values < self._coder.size]
        ends = np.flatnonzero(text == self.eos_id)
        units = [
            self._coder.decode(unit[unit != self.eos_id].tolist()) for unit in np.split(text, ends)
        ]
        return (
            b"\n".join(units) if newline_ends else self.joiner.join(unit for unit in units if unit)
        )

    def cut(self, data: bytes, final: bool) -> int:
        """Return the last index where the bytes may be cut so that both sides encode as they do
        together; 0 if none.
        """
        if self.normalizer is not None:
            return self.normalizer.cut(
                data, final, blanks_count=self.kind not in ("whitespace", "word", "wordpiece")
            )
        cut = CUTS.get(self.kind, cut_before_word) if self._fitted is None else self._fitted.cut
        return cut(data, final)

    @property
    def _coder(self) -> Coder:
        if self._fitted is None:
            raise NotFitted(
                f"this {self.kind} tokenizer has no vocabulary yet; call fit(data) first"
            )
        return self._fitted

    @property
    def kind(self) -> str:
        return self.config.kind

    @property
    def vocab_size(self) -> int:
        """Return how many ids there are, including those of `</s>`, `<unk>` and marks."""
        return self._coder.size + len(self.config.marks)

    @property
    def eos_id(self) -> int:
        return self._coder.eos_id

    @property
    def unk_id(self) -> int | None:
        return self._coder.unk_id

    @property
    def lossless(self) -> bool:
        """Return whether `decode_bytes(encode(data)) == data` for any bytes; some vocabularies refuse
        bytes that they lack.
        """
        return self.normalizer is None and self._coder.lossless

    def loses(self) -> str:
        """Say why the tokenizer is not lossless, as half a sentence."""
        if self.normalizer is not None:
            return f"preprocessing ({self.normalizer.config.label()}) changes the text"
        # vocabularies trained here are lossless
        published = "of this vocabulary normalises the text or adds white space"
        changes = {
            "bpe": published,
            "unigram": published,
            "char": "maps unseen characters to <unk>",
        }
        usual = "maps unseen words to <unk> or drops white space"
        return f"{self.kind!r} {changes.get(self.kind, usual)} (use byte or bpe)"

    @property
    def joiner(self) -> bytes:
        """Return what `decode` puts between tokens."""
        return self._coder.joiner

    @property
    def has_oov(self) -> bool:
        """Return whether text can have unknown words; not if `<unk>` is itself a word of the text."""
        return self.unk_id is not None and not self.token_bytes(self.unk_id)

    @property
    def subword(self) -> bool:
        """Return whether a word may be cut into several tokens, so that a prompt can end inside one."""
        return self.kind in ("bpe", "unigram", "wordpiece")

    def label(self) -> str:
        """Return a short name for signatures."""
        closed = "" if self.unk_id is None or self.has_oov else "-closed"
        normalized = "" if self.normalizer is None else f"+{self.normalizer.config.label()}"
        kind = getattr(self._coder, "label", self.kind)
        return f"{kind}-{self.vocab_size}{closed}{normalized}"

    def piece(self, id: int, *, before: bool) -> bytes:
        """Return the bytes that a token adds to a text; `before`: after text without white space at its
        end.
        """
        return b"" if self._is_declared(id) else self._coder.piece(int(id), before)

    def token(self, id: int) -> str:
        """Return what a token looks like, with escapes where it is not whole characters."""
        if self._is_declared(id):
            return self.config.marks[id - self._coder.size]
        return self._coder.name(int(id))

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes that a token stands for; none for `</s>`, `<unk>` and marks."""
        return b"" if self._is_declared(id) else self._coder.spelling(int(id))

    def pieces(self) -> list[bytes]:
        """Return what each token adds inside a text (`piece`); none for the special tokens and marks."""
        coder, marks = self._coder, [b""] * len(self.config.marks)
        if hasattr(coder, "pieces"):
            return [*coder.pieces(), *marks]
        inside = (coder.piece(i, True) if coder.spelling(i) else b"" for i in range(coder.size))
        return [*inside, *marks]

    def spellings(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the bytes of all tokens of a closed vocabulary one after another, uint8 with some
        spare, and their offsets (V + 1); none for the special tokens, which come first. Marks,
        which come last, are not among them.
        """
        coder = self._vocabulary()
        return coder.arena, coder.offsets

    def id(self, token: str | bytes) -> int | None:
        """Return the id of a token, or None. A literal `</s>` or [MASK] in the vocabulary takes precedence
        over the special token.
        """
        spelling = to_bytes(token)
        token_id = self._coder.find(spelling)
        if token_id is None:
            return next((i for i in self.declared_ids if self.token(i).encode() == spelling), None)
        return token_id

    @property
    def marks(self) -> dict[str, int]:
        """Return the tokens that no text produces, by name: `</s>`, declared marks, special tokens of
        published vocabularies.
        """
        return self.derived("marks", lambda: find_marks(self))

    def mark_id(self, mark: str) -> int:
        """Return the id of a token that no text produces."""
        if mark not in self.marks:
            raise ConfigError(
                f"this tokenizer has no mark {quoted(mark)}; marks are declared when it is fitted (marks)"
                f"{suggest(mark, self.marks)}"
            )
        return self.marks[mark]

    @property
    def declared_ids(self) -> range:
        """Return the ids of the marks that were declared when it was fitted."""
        return range(self._coder.size, self.vocab_size)

    @cached_property
    def byte_lengths(self) -> np.ndarray:
        """Return how many bytes each token stands for, int32 (V); 0 for the special tokens and marks."""
        lengths = self._coder.lengths()
        return np.concatenate([lengths, np.zeros(len(self.config.marks), lengths.dtype)])

    def derived(self, name: str, make: Callable[[], T]) -> T:
        """Return a value that depends on the vocabulary alone, computed by `make` at the first call and
        cached.
        """
        if name not in self._derived:
            self._derived[name] = make()
        return self._derived[name]

    def _is_declared(self, id: int) -> bool:
        """Return whether the id is a declared mark; refuse an id that does not exist."""
        if not 0 <= id < self.vocab_size:
            raise DataError(f"id {id} is not in the vocabulary of {self.vocab_size} tokens")
        return id >= self._coder.size

    @cached_property
    def fingerprint(self) -> str:
        """Return a short hash of everything that decides the ids."""
        digest = hashlib.sha256()
        recipe = () if self.normalizer is None else (self.normalizer.config.recipe().encode(),)
        marks = (b"marks " + json.dumps(self.config.marks).encode(),) if self.config.marks else ()
        for part in (*self._coder.content(), *recipe, *marks):
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.fingerprint == other.fingerprint

    __hash__ = None  # type: ignore[assignment]

    def settings(self) -> dict[str, Any]:
        """Return plain values that, with the files of `write_files`, give the tokenizer back."""
        recipe = NormalizerConfig.from_recipe(self.config.normalize).recipe()
        return {
            **self.config.to_dict(),
            "normalize": recipe,
            "eos": getattr(self._coder, "eos", None),
        }

    def write_files(self, directory: Path) -> None:
        """Write the vocabulary into a directory (of a saved model)."""
        self._coder.write(directory)

    @classmethod
    def read_files(cls, directory: Path, settings: dict[str, Any]) -> Tokenizer:
        """Read the tokenizer whose vocabulary was written by `write_files`."""
        from seqloom.text.tokenizer_directory import read_files

        return read_files(directory, settings)

    def save(self, directory: str | Path) -> None:
        """Write the tokenizer alone, whole or not at all; a saved model contains its own."""
        from seqloom.text.tokenizer_directory import save

        save(self, directory)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Load a directory written by `save`, the one of a saved model, or anybody's `tokenizer.json`."""
        from seqloom.text.tokenizer_directory import load

        return load(Path(path))

    @classmethod
    def of_subwords(cls, coder: Subword) -> Tokenizer:
        """Make a tokenizer with the vocabulary of another program."""
        tokenizer = cls(kind=coder.kind)
        tokenizer._fitted = coder
        return tokenizer
