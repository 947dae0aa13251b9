"""Text to ids and back: one class in front of every kind of token.

`byte` needs no training and can spell anything. `whitespace`, `word` and `char` are closed vocabularies
(`vocabulary.py`), with `<unk>` for what was not seen. `bpe` (Sennrich et al. 2016, on bytes as in GPT-2),
`unigram` (Kudo 2018) and `wordpiece` (Schuster and Nakajima 2012) are trained by the tokenizers library
(`subword.py`); the first two can spell any bytes. `normalize` names what is done to the text before it is cut into
tokens (`normalize.py`). `lossless` says whether decoding gives back every byte.

    >>> tokenizer = Tokenizer(kind="whitespace").fit(["the cat sat", "the cat"])
    >>> tokenizer.encode("the dog sat").tolist()
    [3, 1, 4]
    >>> tokenizer.decode([3, 2, 4])
    'the cat sat'
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np

from seqloom import directories, progress
from seqloom.config import make
from seqloom.errors import ConfigError, DataError, ModelError, NotFitted
from seqloom.text.boundaries import cut_before_word
from seqloom.text.coding import ByteCoder, Coder, text_blocks, to_bytes
from seqloom.text.normalize import Normalizer, NormalizerConfig
from seqloom.text.tokenizer_config import TokenizerConfig
from seqloom.text.vocabulary import CUTS, SPLITTERS, TokenCounts, Vocabulary, read_list

if TYPE_CHECKING:
    from seqloom.text.subword import Subword

SETTINGS_FILE = "seqloom_tokenizer.json"
WHAT = "a saved tokenizer"

_MODEL_FILE = "config.json"  # of a saved model
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
        self._fitted = self._fit_vocabulary(data) if self.config.kind in SPLITTERS else self._fit_subwords(data)
        return self

    def _fit_vocabulary(self, data: Any) -> Vocabulary:
        from seqloom.kernels.parallel import parallel_map

        config = self.config
        if config.vocab_file is not None:
            return Vocabulary.build(config.kind, read_list(Path(config.vocab_file), config.kind))
        total = TokenCounts(config.kind)

        def count(block: bytes) -> tuple[int, TokenCounts]:
            return len(block), TokenCounts(config.kind).add(self._normalized(block))

        with progress.task("counting tokens", getattr(data, "n_bytes", None), "bytes") as bar:
            for size, counts in parallel_map(count, text_blocks(data, self.cut, _BLOCK)):
                total.merge(counts)
                bar.advance(size)
        return Vocabulary.from_counts(total, config.min_count, config.vocab_size)

    @classmethod
    def from_tokens(cls, tokens: list[str], kind: Literal["whitespace", "word", "char"] = "whitespace", *,
                    normalize: str = "none") -> Tokenizer:
        """A tokenizer whose vocabulary is this list, in this order, behind the specials."""
        tokenizer = cls(kind=kind, normalize=normalize)
        tokenizer._fitted = Vocabulary.build(kind, [to_bytes(token) for token in tokens])
        return tokenizer

    def extended(self, spellings: list[bytes]) -> Tokenizer:
        """The same with these words of a closed vocabulary in front of its own, each once."""
        coder = self._vocabulary()
        own = [coder.spelling(token) for token in range(coder.size) if coder.spelling(token)]
        made = Tokenizer(self.config)
        made._fitted = Vocabulary.build(coder.kind, list(dict.fromkeys([*spellings, *own])))
        return made

    def _vocabulary(self) -> Vocabulary:
        if not isinstance(self._coder, Vocabulary):
            raise ConfigError(f"only the kinds {', '.join(SPLITTERS)} have a list of words; this is {self.kind!r}")
        return self._coder

    @classmethod
    def whole_words(cls, data: Any, *, vocab_size: int, min_count: int = 1) -> Tokenizer:
        """Words with the blank before them, and all others spelled in bytes: a word tokenizer that loses nothing."""
        tokenizer = cls(kind="bpe", vocab_size=vocab_size, min_count=min_count)
        tokenizer._fitted = tokenizer._fit_subwords(data, "words")
        return tokenizer

    def _fit_subwords(self, data: Any, kind: str | None = None) -> Coder:
        from seqloom.text.subword import PIECE
        from seqloom.text.subword_training import train

        config = self.config
        with progress.task("training the tokenizer", getattr(data, "n_bytes", None), "bytes") as bar:
            return train(kind or config.kind, map(self._normalized, text_blocks(data, self.cut, PIECE)),
                         config.vocab_size or _SUBWORD_SIZE, config.min_count, config.boundary, bar)

    def encode(self, text: str | bytes, *, newline_ends: bool = False) -> np.ndarray:
        """int64 ids. With `newline_ends` every newline becomes the end of a unit; none is added at the end."""
        return self.encode_block(to_bytes(text), newline_ends).astype(np.int64)

    def encode_block(self, data: bytes, newline_ends: bool) -> np.ndarray:
        """uint32 ids of UTF-8 bytes: what `data/encode.py` runs over the blocks of a corpus."""
        return self._coder.encode(self._normalized(data), newline_ends)

    def _normalized(self, data: bytes) -> bytes:
        return data if self.normalizer is None else self.normalizer.of_bytes(data)

    def decode(self, ids: Iterable[int] | np.ndarray, *, newline_ends: bool = False) -> str:
        """Text of the ids; bytes that are not UTF-8 show as U+FFFD."""
        return self.decode_bytes(ids, newline_ends=newline_ends).decode("utf-8", "replace")

    def decode_bytes(self, ids: Iterable[int] | np.ndarray, *, newline_ends: bool = False) -> bytes:
        """The bytes of the ids. Ends of units are left out or, with `newline_ends`, become newlines."""
        values = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), np.int64).ravel()
        if len(values) and not (values.min() >= 0 and values.max() < self.vocab_size):
            bad = values[(values < 0) | (values >= self.vocab_size)][0]
            raise DataError(f"id {bad} is not in the vocabulary of {self.vocab_size} tokens")
        ends = np.flatnonzero(values == self.eos_id)
        units = [self._coder.decode(unit[unit != self.eos_id].tolist()) for unit in np.split(values, ends)]
        return b"\n".join(units) if newline_ends else self.joiner.join(unit for unit in units if unit)

    def cut(self, data: bytes, final: bool) -> int:
        """The last index where the bytes may be cut so that both sides encode as they do together; 0 if none."""
        if self.normalizer is not None:
            return self.normalizer.cut(data, final, blanks_count=self.kind not in ("whitespace", "word", "wordpiece"))
        cut = CUTS.get(self.kind, cut_before_word) if self._fitted is None else self._fitted.cut
        return cut(data, final)

    @property
    def _coder(self) -> Coder:
        if self._fitted is None:
            raise NotFitted(f"this {self.kind} tokenizer has no vocabulary yet; call fit(data) first")
        return self._fitted

    @property
    def kind(self) -> str:
        return self.config.kind

    @property
    def vocab_size(self) -> int:
        """How many ids there are, `</s>` and `<unk>` among them."""
        return self._coder.size

    @property
    def eos_id(self) -> int:
        return self._coder.eos_id

    @property
    def unk_id(self) -> int | None:
        return self._coder.unk_id

    @property
    def lossless(self) -> bool:
        """Whether `decode_bytes(encode(data)) == data` for any bytes; some vocabularies refuse bytes that they lack."""
        return self.normalizer is None and self._coder.lossless

    def loses(self) -> str:
        """Why it is not lossless, as half a sentence."""
        if self.normalizer is not None:
            return f"preprocessing ({self.normalizer.config.label()}) changes the text"
        published = "of this vocabulary normalises the text or adds white space"  # no vocabulary of ours does
        changes = {"bpe": published, "unigram": published, "char": "maps unseen characters to <unk>"}
        return f"{self.kind!r} {changes.get(self.kind, 'maps unseen words to <unk> or drops white space')} (use byte or bpe)"

    @property
    def joiner(self) -> bytes:
        """What `decode` puts between tokens."""
        return self._coder.joiner

    @property
    def has_oov(self) -> bool:
        """Whether text can have unknown words; not where the text's own word `<unk>` stands for them."""
        return self.unk_id is not None and not self.token_bytes(self.unk_id)

    @property
    def subword(self) -> bool:
        """Whether a word may be cut into several tokens, so that a prompt can end inside one."""
        return self.kind in ("bpe", "unigram", "wordpiece")

    def label(self) -> str:
        """A short name for signatures."""
        closed = "" if self.unk_id is None or self.has_oov else "-closed"
        normalized = "" if self.normalizer is None else f"+{self.normalizer.config.label()}"
        kind = getattr(self._coder, "label", self.kind)
        return f"{kind}-{self.vocab_size}{closed}{normalized}"

    def piece(self, id: int, *, before: bool) -> bytes:
        """What a token adds to a text; `before`: something without white space at its end stands there already."""
        return self._coder.piece(self._check_id(id), before)

    def token(self, id: int) -> str:
        """What a token looks like, with escapes where it is not whole characters."""
        return self._coder.name(self._check_id(id))

    def token_bytes(self, id: int) -> bytes:
        """The bytes that a token stands for; none for `</s>` and `<unk>`."""
        return self._coder.spelling(self._check_id(id))

    def spellings(self) -> tuple[np.ndarray, np.ndarray]:
        """The bytes of all tokens of a closed vocabulary behind one another, uint8 with some spare, and their offsets (V + 1);
        none for the specials, which come first."""
        coder = self._vocabulary()
        return coder.arena, coder.offsets

    def id(self, token: str | bytes) -> int | None:
        """The id of a token, or None. A literal `</s>` in the vocabulary goes before the special one."""
        return self._coder.find(to_bytes(token))

    @cached_property
    def byte_lengths(self) -> np.ndarray:
        """int32 (V): how many bytes each token stands for; 0 for the specials."""
        return self._coder.lengths()

    def derived(self, name: str, make: Callable[[], T]) -> T:
        """What follows from the vocabulary alone and takes long for a large one: made at the first call, then kept."""
        if name not in self._derived:
            self._derived[name] = make()
        return self._derived[name]

    def _check_id(self, id: int) -> int:
        if not 0 <= id < self.vocab_size:
            raise DataError(f"id {id} is not in the vocabulary of {self.vocab_size} tokens")
        return int(id)

    @cached_property
    def fingerprint(self) -> str:
        """A short hash of everything that decides the ids."""
        digest = hashlib.sha256()
        recipe = () if self.normalizer is None else (self.normalizer.config.recipe().encode(),)
        for part in (*self._coder.content(), *recipe):
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.fingerprint == other.fingerprint

    __hash__ = None  # type: ignore[assignment]

    def settings(self) -> dict[str, Any]:
        """Plain values that, with the files of `write_files`, give the tokenizer back."""
        recipe = NormalizerConfig.from_recipe(self.config.normalize).recipe()
        return {**self.config.to_dict(), "normalize": recipe, "eos": getattr(self._coder, "eos", None)}

    def write_files(self, directory: Path) -> None:
        """Write the vocabulary into a directory (of a saved model)."""
        self._coder.write(directory)

    @classmethod
    def read_files(cls, directory: Path, settings: dict[str, Any]) -> Tokenizer:
        """The tokenizer whose vocabulary was written by `write_files`."""
        if not isinstance(settings, dict):
            raise ModelError(f"{directory}: the settings of its tokenizer are of type {type(settings).__name__}; save it again")
        values = dict(settings)
        eos = values.pop("eos", None)
        tokenizer = cls(TokenizerConfig.from_dict(values))
        if tokenizer.kind in SPLITTERS:
            tokenizer._fitted = Vocabulary.read(directory, tokenizer.kind)
        elif tokenizer.kind != "byte":
            from seqloom.text import subword

            tokenizer._fitted = coder = subword.Subword.read(directory / subword.FILE, eos)
            if coder.kind != tokenizer.kind:
                raise ModelError(f"{directory / subword.FILE}: a {coder.kind} tokenizer where a {tokenizer.kind} one should be")
        return tokenizer

    def save(self, directory: str | Path) -> None:
        """Write the tokenizer alone, whole or not at all; a saved model contains its own."""
        text = json.dumps({"format_version": 1, **self.settings()}, indent=2)
        with directories.writing(directory, WHAT, _replaceable) as folder:
            self.write_files(folder)
            (folder / SETTINGS_FILE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """A directory written by `save`, the one of a saved model, or anybody's `tokenizer.json`."""
        place = Path(path)
        if (place / SETTINGS_FILE).is_file():
            settings = _read_settings(place / SETTINGS_FILE)
            if settings.pop("format_version", None) != 1:
                raise ModelError(f"{place / SETTINGS_FILE}: written by a newer seqloom; upgrade to read it")
            return cls.read_files(place, settings)
        if (place / _MODEL_FILE).is_file():
            model = _read_settings(place / _MODEL_FILE)
            named = model.get("tokenizers")
            of_text = named.get("text") if isinstance(named, dict) else model.get("tokenizer")  # the latter: of format 1
            if of_text is not None:
                return cls.read_files(place, of_text)
        file = place / "tokenizer.json" if place.is_dir() else place
        if not file.is_file():
            raise ModelError(f"{path}: no tokenizer here; expected {SETTINGS_FILE} or tokenizer.json")
        from seqloom.text import subword

        return cls.of_subwords(subword.Subword.read_foreign(file))

    @classmethod
    def of_subwords(cls, coder: Subword) -> Tokenizer:
        """One with the vocabulary of another program."""
        tokenizer = cls(kind=coder.kind)
        tokenizer._fitted = coder
        return tokenizer


def check_target(directory: str | Path) -> None:
    """Refuse, before the work, a place where a tokenizer could not be saved."""
    directories.check_target(directory, WHAT, _replaceable)


def _replaceable(target: Path) -> bool:
    """An empty directory, or one with a saved tokenizer alone."""
    if not target.is_dir():
        return False
    names = {p.name for p in target.iterdir() if not p.name.startswith("tokenizer.")} - {".DS_Store"}
    return names <= {SETTINGS_FILE} and (SETTINGS_FILE in names or not any(target.iterdir()))


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        settings = None
    if not isinstance(settings, dict):
        raise ModelError(f"{path}: damaged; save the tokenizer again")
    return settings
