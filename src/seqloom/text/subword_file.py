"""A stranger's `tokenizer.json`, checked before the tokenizers library reads it.

The library trusts its files: an id of four billion makes tables of that size, and a merge that does not
fit its vocabulary ends in a Rust panic with a trace on the screen. So a file is validated first.
"""

from __future__ import annotations

import base64
import json
import math
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.directories import read_small_file
from seqloom.errors import ModelError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

KINDS = {"BPE": "bpe", "WordPiece": "wordpiece", "Unigram": "unigram"}
MOST_PIECES = (
    1 << 23
)  # characters of all unigram pieces; their trie takes a hundred times as many bytes
MOST_CHARACTERS = 1000  # of a word for WordPiece, which takes cubic time
SPARE_IDS = 1000  # unused ids that are allowed, besides as many as there are tokens
MOST_GROWTH = 128  # characters that steps may make of one, or put before a text
MOST_STEPS = 2000  # with the characters that they write

_Pairs = list[tuple[str, Any]]


class _Fault(ValueError):
    """What is wrong with a file, as half a sentence."""


def read_engine(path: Path) -> Engine:
    """Read the library's tokenizer from a file, or raise a ModelError that says what is wrong with
    the file.
    """
    fault = f"{path}: not a tokenizer.json that can be read"
    try:
        text = read_small_file(path).decode("utf-8")
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ModelError(f"{fault} ({error})") from None
    return make_engine(text, fault)


def make_engine(text: str, fault: str) -> Engine:
    """Make the library's tokenizer from the text of a tokenizer.json; `fault` is what an error
    begins with.
    """
    from tokenizers import Tokenizer as Engine

    try:
        _check(json.loads(text, object_pairs_hook=_once))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{fault} ({error})") from None
    with panics_told(fault):
        return Engine.from_str(text)


@contextmanager
def panics_told(what: str) -> Iterator[None]:
    """Turn what the library raises, a bare Exception or a Rust panic, into a ModelError of one line."""
    try:
        yield
    except (MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"{what} ({' '.join(str(error).split())})") from None


def _once(pairs: _Pairs) -> dict[str, Any]:
    """Refuse an object with a repeated name, which two parsers may read differently."""
    values = dict(pairs)
    _need(len(values) == len(pairs), "a name appears twice in one object")
    return values


def _need(good: bool, fault: str) -> None:
    if not good:
        raise _Fault(fault)


def _check(spec: Any) -> None:
    model = spec.get("model") if isinstance(spec, dict) else None
    _need(isinstance(model, dict), "it has no model")
    assert isinstance(model, dict)
    _check_charsmaps(spec.get("normalizer"))
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        steps = list(_steps(spec.get(part)))
        size = sum(1 + len(_text(step.get("content"))) for step in steps)
        _need(size <= MOST_STEPS, f"the steps of its {part} are too many or write too much")
        growth = _growth(steps)
        _need(
            growth <= MOST_GROWTH,
            f"its {part} may make {growth:,.0f} characters of one; it can be at most {MOST_GROWTH}",
        )
    kind = model.get("type") or _told_by_parts(model)
    _need(isinstance(kind, str), "the type of its model is not a name")
    if kind not in KINDS:  # `subword` reports that
        return
    vocabulary = model.get("vocab")
    ids = _unigram_ids(model, vocabulary) if kind == "Unigram" else _ids(vocabulary)
    _check_size(ids, spec.get("added_tokens"))
    for name in ("continuing_subword_prefix", "end_of_word_suffix", "unk_token"):
        _need(isinstance(model.get(name, ""), str | None), f"{name} is not text")
    if kind == "BPE":
        unknown = model.get("unk_token")
        _need(unknown is None or unknown in ids, "unk_token is not in its vocabulary")
        _check_merges(model.get("merges"), ids, model.get("continuing_subword_prefix") or "")
    if kind == "WordPiece":
        _need(model.get("unk_token", "[UNK]") in ids, "unk_token is not in its vocabulary")
        most = model.get("max_input_chars_per_word", 100)
        _need(
            type(most) is int and 0 < most <= MOST_CHARACTERS,
            f"max_input_chars_per_word is {most!r:.20}; it can be at most {MOST_CHARACTERS:,}",
        )


def _told_by_parts(model: dict[str, Any]) -> str:
    """Infer the type of a model that does not name it from its fields."""
    if isinstance(model.get("vocab"), list):
        return "Unigram"
    return (
        "BPE"
        if "merges" in model
        else "WordPiece"
        if "max_input_chars_per_word" in model
        else "WordLevel"
    )


def _check_charsmaps(normalizer: Any) -> None:
    """Check SentencePiece's tables of normalisation, also in nested steps: the length of a trie, the trie,
    and texts.
    """
    for inner in (
        normalizer.values()
        if isinstance(normalizer, dict)
        else normalizer
        if isinstance(normalizer, list)
        else ()
    ):
        _check_charsmaps(inner)
    if isinstance(normalizer, dict) and normalizer.get("type") == "Precompiled":
        table = normalizer.get("precompiled_charsmap")
        blob = base64.b64decode(table) if isinstance(table, str) else b""
        size = int.from_bytes(blob[:4], "little")
        _need(0 < size <= len(blob) - 4 and size % 4 == 0, "its precompiled_charsmap is cut off")
        blob[4 + size :].decode("utf-8")


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """Yield the steps of a normaliser, pre-tokenizer or decoder, those of inner sequences too."""
    for step in part if isinstance(part, list) else [part]:
        if isinstance(step, dict):
            yield step
            for name in ("normalizers", "pretokenizers", "decoders"):
                yield from _steps(step.get(name))


def _growth(steps: list[dict[str, Any]]) -> float:
    """Return how many characters at most steps make of one, or put before a text. What Unicode's
    forms make of the text itself does not count, as it is little and happens once.
    """
    contents = {x for step in steps for x in _text(step.get("content"))}
    # how many come of a character, of one that is not named, and of none; from the last step on
    grown: dict[str, float] = {}
    others, before = 1.0, 0.0

    def total(text: str) -> float:
        return sum(grown.get(x, others) for x in text)

    for step in reversed(steps):
        kind, content, pattern = step.get("type"), _text(step.get("content")), step.get("pattern")
        literal = _text(pattern.get("String") if isinstance(pattern, dict) else pattern)
        if kind == "Prepend":
            before += total(_text(step.get("prepend")))
        elif kind == "Replace" and literal:
            made = total(content) / len(literal)
            grown |= {x: max(grown.get(x, others), made) for x in literal}
        elif kind == "Replace":  # a regular expression may match between any two characters
            made = total(content)
            grown = {x: size + made for x, size in grown.items()}
            others, before = others + made, before + made
        elif kind in ("Precompiled", "ByteLevel"):
            most = max(others, *grown.values(), 0.0)
            table = _text(step.get("precompiled_charsmap"))
            others = most * (_longest_entry(table) if kind == "Precompiled" else 2)
            grown = {}
        elif kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
            grown |= {x: total(_changed(kind, x)) for x in contents}
    return max(others, before, *grown.values())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _changed(form: str, text: str) -> str:
    return text.lower() if form == "Lowercase" else unicodedata.normalize(form, text)  # type: ignore[arg-type]


def _longest_entry(table: str) -> int:
    """Return the length of the longest text in a table of SentencePiece, which end in zeros."""
    blob = base64.b64decode(table)
    texts = blob[4 + int.from_bytes(blob[:4], "little") :]
    return max(map(len, texts.decode("utf-8").split("\0")))


def _ids(vocabulary: Any) -> dict[str, int]:
    _need(isinstance(vocabulary, dict), "its vocabulary is not a table of tokens and ids")
    _need(all(type(i) is int for i in vocabulary.values()), "an id is not a whole number")
    _need(len(set(vocabulary.values())) == len(vocabulary), "two tokens have one id")
    return vocabulary


def _unigram_ids(model: dict[str, Any], vocabulary: Any) -> dict[str, int]:
    _need(
        isinstance(vocabulary, list)
        and all(
            isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
            for pair in vocabulary
        ),
        "its vocabulary is not a list of pieces and scores",
    )
    _need(
        all(type(score) in (int, float) and math.isfinite(score) for _, score in vocabulary),
        "a score is not a finite number",
    )
    _need(
        sum(len(piece) for piece, _ in vocabulary) <= MOST_PIECES,
        f"its pieces have more than {MOST_PIECES:,} characters",
    )
    unknown = model.get("unk_id")
    _need(
        unknown is None or (type(unknown) is int and 0 <= unknown < len(vocabulary)),
        "unk_id is not in its vocabulary",
    )
    ids = {piece: i for i, (piece, _) in enumerate(vocabulary)}
    _need(len(ids) == len(vocabulary), "a piece appears twice in its vocabulary")
    return ids


def _check_size(ids: dict[str, int], added: Any) -> None:
    """Check that the ids are not too large: tables have a row for every id up to the last."""
    added = [] if added is None else added
    _need(
        isinstance(added, list)
        and all(
            isinstance(token, dict)
            and isinstance(token.get("content"), str)
            and type(token.get("id")) is int
            for token in added
        ),
        "added_tokens is not a list of tokens with id and content",
    )
    every = [*ids.values(), *(token["id"] for token in added)]
    _need(len({*ids, *(token["content"] for token in added)}) > 1, "its vocabulary is empty")
    most = 2 * len(every) + SPARE_IDS
    _need(
        min(every) >= 0 and max(every) < most,
        f"the ids of {len(every):,} tokens go from {min(every)} to {max(every)}",
    )


def _check_merges(merges: Any, ids: dict[str, int], prefix: str) -> None:
    """Check that both parts of a merge and their result are tokens; with a prefix for continuing subwords,
    the second part must have it.
    """
    _need(isinstance(merges, list), "its merges are not a list")
    for merge in merges:  # of which there are many: messages are written where one is wrong
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if isinstance(merge, str) and merge.startswith("#version"):
            continue
        if (
            not isinstance(parts, list)
            or len(parts) != 2
            or not isinstance(parts[0], str)
            or not isinstance(parts[1], str)
        ):
            raise _Fault(f"{merge!r:.40} is not a pair of tokens to merge")
        first, second = parts
        if (
            first not in ids
            or second not in ids
            or not second.startswith(prefix)
            or first + second[len(prefix) :] not in ids
        ):
            raise _Fault(f"the merge of {first!r:.40} and {second!r:.40} is not in its vocabulary")
