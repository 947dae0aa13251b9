"""The tokenizer of a directory of transformers, whichever files it lies in, and the tokens that have a role in its texts.

Every form is brought into that of `tokenizer.json`, the one that the tokenizers library reads and `text/subword_file` checks:
`vocab.txt` is WordPiece (Schuster and Nakajima 2012), `vocab.json` with `merges.txt` byte-level BPE (Radford et al. 2019). No
text produces a token that has a role: what looks like one is encoded as the characters that it consists of.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from seqloom.errors import DataError, quoted
from seqloom.interop.hugging_face import ModelDirectory, read_json
from seqloom.interop.values import Values
from seqloom.text.subword import Subword
from seqloom.text.subword_file import MOST_BYTES, make_engine
from seqloom.text.tokenizer import Tokenizer

TOKENIZER, SETTINGS, MAP, ADDED = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
WORDS, VOCABULARY, MERGES = "vocab.txt", "vocab.json", "merges.txt"
ROLES = ("bos", "eos", "unk", "pad", "cls", "sep", "mask")
SPARE = 8  # a padded embedding has a multiple of so many rows
PADDED = ("t5", "mt5", "llama")  # families whose published embeddings have rows that no token uses

_BERT = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
_ROBERTA = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
_LLAMA = {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}
_T5 = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
_GPT2 = {"bos": "<|endoftext|>", "eos": "<|endoftext|>"}
# What the tokenizers of a family are when their files do not say; of several, the first whose tokens are in the vocabulary.
_DEFAULTS = {"gpt2": (_GPT2, _BERT), "llama": (_LLAMA, _GPT2), "roberta": (_ROBERTA,), "bart": (_ROBERTA,), "t5": (_T5,),
             "mt5": (_T5,), "marian": (_T5,), "albert": ({**_BERT, "unk": "<unk>", "pad": "<pad>"}, _BERT)}


def read_tokenizer(directory: ModelDirectory, rows: int | None = None) -> Tokenizer:
    """The tokenizer of a directory; `rows` are those of its embedding, one for each token.

    Where a family pads its embedding, tokens that no text produces take the places that are left.
    """
    spec = _read_spec(directory)
    roles = _roles(directory, spec)
    end = roles.get("eos") or roles.get("sep")
    if end is None:
        directory.fail(f"its tokenizer names no end token; {SETTINGS} must have eos_token or sep_token")
    _mark(spec, set(roles.values()))
    if rows is not None:
        _fill(directory, spec, rows)
    return Tokenizer.of_subwords(Subword(make_engine(json.dumps(spec), f"{directory.name}: its tokenizer cannot be used"), end))


def special_tokens(directory: ModelDirectory) -> dict[str, str]:
    """The tokens of these roles that its tokenizer has: bos, eos, unk, pad, cls, sep, mask."""
    return _roles(directory, _read_spec(directory))


# ---- roles

def _roles(directory: ModelDirectory, spec: dict[str, Any]) -> dict[str, str]:
    """From the first file that names a role, or else as the family has it; a name that is no token is refused."""
    ids = _ids(spec)
    roles: dict[str, str] = {}
    for file in (SETTINGS, MAP):
        values = _values(directory.path / file)
        for role in ROLES:
            named = values.values.get(f"{role}_token")
            token = named.get("content") if isinstance(named, dict) else named
            if token is None or role in roles:
                continue
            if not isinstance(token, str) or token not in ids:
                values.fail(f"{role}_token is {quoted(token)}, which is not in the vocabulary of {len(ids):,} tokens")
            roles[role] = token
    for defaults in _DEFAULTS.get(directory.text("model_type"), (_BERT,)):
        if all(token in ids for role, token in defaults.items() if role not in roles):
            return {**defaults, **roles}
    by_id = {i: token for token, i in ids.items()}
    for role in ROLES:
        i = directory.values.get(f"{role}_token_id")
        if role not in roles and type(i) is int and i in by_id:
            roles[role] = by_id[i]
    return roles


def _ids(spec: dict[str, Any]) -> dict[str, int]:
    vocabulary = spec["model"]["vocab"]
    own = {piece: i for i, (piece, _) in enumerate(vocabulary)} if isinstance(vocabulary, list) else vocabulary
    return {**own, **{token["content"]: token["id"] for token in spec["added_tokens"]}}


def _mark(spec: dict[str, Any], tokens: set[str]) -> None:
    """Have no text produce these tokens."""
    ids = _ids(spec)
    known = {token["content"]: token for token in spec["added_tokens"]}
    for token in known.keys() & tokens:
        known[token]["special"] = True
    spec["added_tokens"] += [_added(ids[token], token) for token in sorted(tokens - known.keys(), key=ids.__getitem__)]
    spec["added_tokens"].sort(key=lambda token: token["id"])


def _added(i: int, token: str, special: bool = True, **further: bool) -> dict[str, Any]:
    return {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": special, **further}


def _fill(directory: ModelDirectory, spec: dict[str, Any], rows: int) -> None:
    """Hold the vocabulary against the rows of the embedding; rows that are left get a token of their own."""
    ids = _ids(spec)
    size = max(ids.values()) + 1
    if size == rows:
        return
    family = directory.text("model_type")
    if size > rows or family not in PADDED or rows % SPARE:
        directory.fail(f"its tokenizer has {size:,} tokens, its embedding {rows:,} rows; these are not of the same model")
    spec["added_tokens"] += [_added(i, f"[unused row {i}]") for i in range(size, rows)]


# ---- files

def _read_spec(directory: ModelDirectory) -> dict[str, Any]:
    """What its files say, as the values of a tokenizer.json; each file is looked at before it is used."""
    place = directory.path
    if (place / TOKENIZER).is_file():
        spec = read_json(_small(place / TOKENIZER))
        model, added = spec.get("model"), spec.setdefault("added_tokens", [])
        vocabulary = model.get("vocab") if isinstance(model, dict) else None
        pairs = isinstance(vocabulary, list) and all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
                                                     for pair in vocabulary)
        good = pairs or (isinstance(vocabulary, dict) and all(type(i) is int for i in vocabulary.values()))
        good = good and isinstance(added, list) and all(isinstance(token, dict) and isinstance(token.get("content"), str)
                                                        and type(token.get("id")) is int for token in added)
        if not good or not (vocabulary or added):
            raise DataError(f"{place / TOKENIZER}: has no model with a vocabulary; get a complete copy of the file")
        return spec
    if (place / VOCABULARY).is_file() and (place / MERGES).is_file():
        return _with_added(directory, _byte_level(directory))
    if (place / WORDS).is_file():
        return _with_added(directory, _word_piece(directory))
    directory.fail(f"there is no tokenizer in it; expected {TOKENIZER}, {VOCABULARY} with {MERGES}, or {WORDS}")


def _word_piece(directory: ModelDirectory) -> dict[str, Any]:
    """As BERT (Devlin et al. 2019) cuts a text: at white space and punctuation, then into the longest pieces."""
    path = directory.path / WORDS
    words = _lines(path)
    ids = {word: i for i, word in enumerate(words)}
    if len(ids) != len(words):
        twice = next(word for i, word in enumerate(words) if ids[word] != i)
        raise DataError(f"{path}: the token {quoted(twice)} appears twice")
    settings = _values(directory.path / SETTINGS)
    accents = settings.values.get("strip_accents")
    if accents is not None:
        accents = settings.flag("strip_accents", False)
    unknown = settings.values.get("unk_token", _BERT["unk"])
    unknown = unknown.get("content") if isinstance(unknown, dict) else unknown
    if unknown not in ids:
        raise DataError(f"{path}: has no token {quoted(unknown)} for unknown words")
    return _spec({"type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                  "vocab": ids},
                 normalizer={"type": "BertNormalizer", "clean_text": True,
                             "handle_chinese_chars": settings.flag("tokenize_chinese_chars", True), "strip_accents": accents,
                             "lowercase": settings.flag("do_lower_case", True)},
                 pre_tokenizer={"type": "BertPreTokenizer"},
                 decoder={"type": "WordPiece", "prefix": "##", "cleanup": True})


def _byte_level(directory: ModelDirectory) -> dict[str, Any]:
    ids = read_json(_small(directory.path / VOCABULARY))
    if not ids or not all(type(i) is int for i in ids.values()):
        raise DataError(f"{directory.path / VOCABULARY}: must hold tokens and their ids")
    merges = [line for line in _lines(directory.path / MERGES) if line and not line.startswith("#version")]
    blank = _values(directory.path / SETTINGS).flag("add_prefix_space", False)
    level = {"type": "ByteLevel", "add_prefix_space": blank, "trim_offsets": True, "use_regex": True}
    return _spec({"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": ids,
                  "merges": [merge.split(" ") for merge in merges]}, None, level, level)


def _spec(model: dict[str, Any], normalizer: Any, pre_tokenizer: Any, decoder: Any) -> dict[str, Any]:
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": decoder, "model": model}


def _with_added(directory: ModelDirectory, spec: dict[str, Any]) -> dict[str, Any]:
    """Tokens that were added to the lists: of added_tokens.json, and of tokenizer_config.json, which says more of them."""
    ids = _ids(spec)
    added: dict[int, dict[str, Any]] = {}
    if (directory.path / ADDED).is_file():
        for token, i in read_json(_small(directory.path / ADDED)).items():
            if type(i) is not int:
                raise DataError(f"{directory.path / ADDED}: {quoted(token)} has no id")
            added[i] = _added(i, token, special=False)
    settings = _values(directory.path / SETTINGS)
    decoder = settings.values.get("added_tokens_decoder", {})
    if not isinstance(decoder, dict):
        settings.lacks("added_tokens_decoder", decoder, "a table of ids and tokens")
    for i, entry in decoder.items():
        content = entry.get("content") if isinstance(entry, dict) else None
        if not i.isdecimal() or not isinstance(content, str):
            settings.fail(f"added_tokens_decoder: {quoted(i)} is no id of a token")
        flags = {name: bool(entry.get(name, False)) for name in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        added[int(i)] = _added(int(i), content, **flags)
    for i, made in added.items():
        if ids.get(made["content"], i) != i:
            directory.fail(f"the added token {quoted(made['content'])} has the ids {ids[made['content']]} and {i}")
    spec["added_tokens"] = [added[i] for i in sorted(added)]
    return spec


def _values(path: Path) -> Values:
    """The values of a file that may be missing."""
    return Values(str(path), read_json(_small(path)) if path.is_file() else {})


def _lines(path: Path) -> list[str]:
    try:
        return _small(path).read_text("utf-8").removesuffix("\n").split("\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise DataError(f"{path}: damaged ({error})") from None


def _small(path: Path) -> Path:
    """The same path, of a file that is not larger than a tokenizer can be."""
    if path.stat().st_size > MOST_BYTES:
        raise DataError(f"{path}: has more than {MOST_BYTES >> 20} MiB; this is no tokenizer")
    return path
