"""The tokenizer files of a directory of transformers, each as the values of a tokenizer.json.

`vocab.txt` is WordPiece (Schuster and Nakajima 2012), `vocab.json` with `merges.txt` byte-level BPE
(Radford et al. 2019), `spiece.model`, `tokenizer.model` or (XLM-RoBERTa) `sentencepiece.bpe.model`
SentencePiece. Marian has a SentencePiece model for each side and one list of ids.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from seqloom.errors import DataError, quoted
from seqloom.interop.hugging_face import ModelDirectory, read_json, read_text
from seqloom.interop.sentencepiece import (
    CONTROL,
    NEVER,
    UNKNOWN,
    Piece,
    SentencePieces,
    read_sentencepiece,
    sentencepiece_spec,
)
from seqloom.interop.values import Values
from seqloom.text.subword_lists import (
    Spec,
    added_token,
    byte_level,
    byte_level_spec,
    ids_of,
    numbered,
    word_piece_spec,
)

TOKENIZER, SETTINGS, ADDED = "tokenizer.json", "tokenizer_config.json", "added_tokens.json"
WORDS, VOCABULARY, MERGES, PIECES = (
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model"),
)
# for targets with another tokenizer than sources; only seqloom reads it
TARGET_TOKENIZER = "target_tokenizer.json"
SIDES = {"source": "source.spm", "target": "target.spm"}  # of Marian
EXTRA_IDS = 100  # marks of T5 behind its pieces, unless its settings say another number
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def read_spec(directory: ModelDirectory, side: str = "source") -> Spec:
    """Read the files of a tokenizer, each checked before it is used. `side` matters only for Marian
    and for a target tokenizer of ours.
    """
    path = directory.path
    if side == "target" and (path / TARGET_TOKENIZER).is_file():
        return _tokenizer_json(path / TARGET_TOKENIZER)
    if (path / TOKENIZER).is_file():
        return _tokenizer_json(path / TOKENIZER)
    if (path / SIDES["source"]).is_file():
        return _with_added(directory, _marian(directory, side))
    if (path / VOCABULARY).is_file() and (path / MERGES).is_file():
        return _with_added(directory, _byte_level(directory))
    for name in PIECES:
        if (path / name).is_file():
            return _with_added(directory, _sentencepiece(directory, path / name))
    if (path / WORDS).is_file():
        return _with_added(directory, _word_piece(directory))
    directory.fail(
        f"there is no tokenizer in it; expected {TOKENIZER}, {VOCABULARY} with {MERGES}, {WORDS} "
        f"or {PIECES[0]}"
    )


def read_values(path: Path) -> Values:
    """Read the values of a file that may be missing."""
    return Values(str(path), read_json(path) if path.is_file() else {})


def content(named: Any) -> Any:
    """Return a token that is written as a text or as a text with flags."""
    return named.get("content") if isinstance(named, dict) else named


def _tokenizer_json(path: Path) -> Spec:
    """Read a tokenizer.json, checking only what is needed here; `text/subword_file` checks all of it."""
    spec = read_json(path)
    model, added = spec.get("model"), spec.setdefault("added_tokens", [])
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    pairs = isinstance(vocabulary, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
        for pair in vocabulary
    )
    good = pairs or (
        isinstance(vocabulary, dict) and all(type(i) is int for i in vocabulary.values())
    )
    good = (
        good
        and isinstance(added, list)
        and all(
            isinstance(token, dict)
            and isinstance(token.get("content"), str)
            and type(token.get("id")) is int
            for token in added
        )
    )
    steps = spec.get("pre_tokenizer")
    inner = steps.get("pretokenizers", []) if isinstance(steps, dict) else []
    good = good and (steps is None or isinstance(steps, dict)) and isinstance(inner, list)
    if not good or not (vocabulary or added):
        raise DataError(f"{path}: has no model with a vocabulary; get a complete copy of the file")
    return spec


def _word_piece(directory: ModelDirectory) -> Spec:
    path = directory.path / WORDS
    ids = numbered(_lines(path), str(path))
    settings = read_values(directory.path / SETTINGS)
    accents = (
        None
        if settings.values.get("strip_accents") is None
        else settings.flag("strip_accents", False)
    )
    unknown = content(settings.values.get("unk_token", "[UNK]"))
    if unknown not in ids:
        raise DataError(f"{path}: has no token {quoted(unknown)} for unknown words")
    return word_piece_spec(
        ids,
        unknown,
        lowercase=settings.flag("do_lower_case", True),
        strip_accents=accents,
        chinese_apart=settings.flag("tokenize_chinese_chars", True),
    )


def _byte_level(directory: ModelDirectory) -> Spec:
    merges = [
        line for line in _lines(directory.path / MERGES) if line and not line.startswith("#version")
    ]
    blank = read_values(directory.path / SETTINGS).flag("add_prefix_space", False)
    return byte_level_spec(
        _ids(directory.path / VOCABULARY), merges, [byte_level(blank_first=blank)]
    )


def _sentencepiece(directory: ModelDirectory, path: Path) -> Spec:
    model, family = read_sentencepiece(path), directory.text("model_type")
    settings = read_values(directory.path / SETTINGS)
    if settings.values.get("add_prefix_space") is not None:
        model = replace(model, blank_first=settings.flag("add_prefix_space", True))
    before: list[Spec] = []
    if family in ("t5", "mt5"):
        extra = settings.integer("extra_ids", 0, 10_000, EXTRA_IDS)
        have = {piece.text for piece in model.pieces}
        model = replace(
            model,
            pieces=[
                *model.pieces,
                *(
                    Piece(name, 0.0, CONTROL)
                    for i in reversed(range(extra))
                    if (name := f"<extra_id_{i}>") not in have
                ),
            ],
        )
    if family == "xlm-roberta":
        model = _as_fairseq(model)
    if family == "albert":
        before = _albert_steps(settings)
        model = replace(
            model,
            pieces=[  # "2009," is to be a number and a comma
                piece._replace(score=piece.score - 100)
                if piece.text[-1:] == "," and piece.text[-2:-1].isdigit()
                else piece
                for piece in model.pieces
            ],
        )
    return sentencepiece_spec(model, str(path), before)


def _as_fairseq(model: SentencePieces) -> SentencePieces:
    """Return the pieces by the ids that fairseq gave them: four marks first, those of the file
    behind, the mask last.
    """
    marks = [Piece(name, 0.0, CONTROL) for name in ("<s>", "<pad>", "</s>")]
    own = [piece for piece in model.pieces if piece.kind not in (CONTROL, UNKNOWN)]
    pieces = [*marks, Piece("<unk>", 0.0, UNKNOWN), *own, Piece("<mask>", 0.0, CONTROL)]
    return replace(model, pieces=pieces, unknown=len(marks))


def _albert_steps(settings: Values) -> list[Spec]:
    steps: list[Spec] = [
        {"type": "Replace", "pattern": {"String": quotes}, "content": '"'}
        for quotes in ("``", "''")
    ]
    if not settings.flag("keep_accents", False):
        steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if settings.flag("do_lower_case", True):
        steps.append({"type": "Lowercase"})
    return steps


def _marian(directory: ModelDirectory, side: str) -> Spec:
    """Return the pieces of one side with the ids that both sides share; pieces of the other side
    are never found in a text.
    """
    path = directory.path / SIDES[side]
    if not path.is_file():
        directory.fail(f"it has no {SIDES[side]}")
    if read_values(directory.path / SETTINGS).flag("separate_vocabs", False):
        directory.fail(
            "its two sides have vocabularies of their own (separate_vocabs), which is not supported"
        )
    model, ids = read_sentencepiece(path), _ids(directory.path / VOCABULARY)
    if sorted(ids.values()) != list(range(len(ids))):
        raise DataError(
            f"{directory.path / VOCABULARY}: its ids do not go from 0 to {len(ids) - 1:,}"
        )
    unknown = content(read_values(directory.path / SETTINGS).values.get("unk_token", "<unk>"))
    if unknown not in ids:
        raise DataError(
            f"{directory.path / VOCABULARY}: has no token {quoted(unknown)} for what is unknown"
        )
    pieces_by_text = {piece.text: piece for piece in model.pieces}
    pieces = [
        pieces_by_text.get(token, Piece(token, NEVER)) for token in sorted(ids, key=ids.__getitem__)
    ]
    pieces[ids[unknown]] = Piece(unknown, 0.0, UNKNOWN)
    spec = sentencepiece_spec(
        SentencePieces(
            pieces,
            model.unigram,
            ids[unknown],
            model.byte_fallback,
            model.charsmap,
            model.blank_first,
            model.blanks_joined,
        ),
        str(path),
    )
    languages = [
        token for token in ids if token.startswith(">>") and token.endswith("<<")
    ]  # a text may begin with one
    spec["added_tokens"] += [added_token(ids[token], token, special=False) for token in languages]
    return spec


def _with_added(directory: ModelDirectory, spec: Spec) -> Spec:
    """Add the tokens of added_tokens.json and of tokenizer_config.json, which also has their flags."""
    ids = ids_of(spec)
    added = {token["id"]: token for token in spec["added_tokens"]}
    if (directory.path / ADDED).is_file():
        added |= {
            i: added_token(i, token, special=False)
            for token, i in _ids(directory.path / ADDED).items()
        }
    settings = read_values(directory.path / SETTINGS)
    decoder = settings.values.get("added_tokens_decoder", {})
    if not isinstance(decoder, dict):
        settings.lacks("added_tokens_decoder", decoder, "a table of ids and tokens")
    for i, entry in decoder.items():
        token = content(entry)
        if not i.isdecimal() or not isinstance(entry, dict) or not isinstance(token, str):
            settings.fail(f"added_tokens_decoder: {quoted(i)} is no id of a token")
        added[int(i)] = added_token(
            int(i), token, **{name: bool(entry.get(name, False)) for name in _FLAGS}
        )
    for i, entry in added.items():
        if ids.get(entry["content"], i) != i:
            directory.fail(
                f"the added token {quoted(entry['content'])} has the ids {ids[entry['content']]} and {i}"
            )
    spec["added_tokens"] = [added[i] for i in sorted(added)]
    return spec


def _ids(path: Path) -> dict[str, int]:
    values = read_json(path)
    if not values or not all(type(i) is int for i in values.values()):
        raise DataError(f"{path}: must hold tokens and their ids")
    return values


def _lines(path: Path) -> list[str]:
    return read_text(path).removesuffix("\n").split("\n")
