"""Saving a tokenizer in its own directory, loading one from there, from a saved model or a tokenizer.json,
and choosing the one that the options of a model name.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from seqloom import directories
from seqloom.config import choices, field_types
from seqloom.errors import ConfigError, ModelError, quoted, suggest
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.tokenizer_config import TokenizerConfig
from seqloom.text.vocabulary import SPLITTERS, Vocabulary

SETTINGS_FILE = "seqloom_tokenizer.json"
WHAT = "a saved tokenizer"

_MODEL_FILE = "config.json"  # of a saved model


def save(tokenizer: Tokenizer, directory: str | Path) -> None:
    """Write the vocabulary and the settings, whole or not at all."""
    text = json.dumps({"format_version": 1, **tokenizer.settings()}, indent=2)
    with directories.writing(directory, WHAT, _replaceable) as folder:
        tokenizer.write_files(folder)
        (folder / SETTINGS_FILE).write_text(text + "\n", encoding="utf-8")


def load(path: Path) -> Tokenizer:
    """Read a directory written by `save`, that of a saved model, or anybody's `tokenizer.json`."""
    if (path / SETTINGS_FILE).is_file():
        settings = _read_settings(path / SETTINGS_FILE)
        if settings.pop("format_version", None) != 1:
            raise ModelError(
                f"{path / SETTINGS_FILE}: written by a newer seqloom; upgrade to read it"
            )
        return read_files(path, settings)
    if (path / _MODEL_FILE).is_file():
        model = _read_settings(path / _MODEL_FILE)
        named = model.get("tokenizers")
        # `tokenizer` is the key of format 1
        of_text = named.get("text") if isinstance(named, dict) else model.get("tokenizer")
        if of_text is not None:
            return read_files(path, of_text)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise ModelError(f"{path}: no tokenizer here; expected {SETTINGS_FILE} or tokenizer.json")
    from seqloom.text import subword

    return Tokenizer.of_subwords(subword.Subword.read_foreign(file))


def read_files(directory: Path, settings: dict[str, Any]) -> Tokenizer:
    """Read the tokenizer with these settings, whose vocabulary was written by `write_files`."""
    if not isinstance(settings, dict):
        raise ModelError(
            f"{directory}: the settings of its tokenizer are of type {type(settings).__name__}; save it again"
        )
    values = dict(settings)
    eos = values.pop("eos", None)
    try:
        tokenizer = Tokenizer(TokenizerConfig.from_dict(values))
    except ConfigError as error:
        raise ModelError(
            f"{directory}: the settings of its tokenizer are damaged: {error}"
        ) from None
    if tokenizer.kind in SPLITTERS:
        tokenizer._fitted = Vocabulary.read(directory, tokenizer.kind)
    elif tokenizer.kind != "byte":
        from seqloom.text import subword

        tokenizer._fitted = coder = subword.Subword.read(directory / subword.FILE, eos)
        if coder.kind != tokenizer.kind:
            raise ModelError(
                f"{directory / subword.FILE}: a {coder.kind} tokenizer where a {tokenizer.kind} one should be"
            )
    return tokenizer


def check_target(directory: str | Path) -> None:
    """Refuse, before the work, a directory where a tokenizer could not be saved."""
    directories.check_target(directory, WHAT, _replaceable)


def _replaceable(target: Path) -> bool:
    """Return whether the target is an empty directory, or one with only a saved tokenizer."""
    if not target.is_dir():
        return False
    names = {p.name for p in target.iterdir() if not p.name.startswith("tokenizer.")} - {
        ".DS_Store"
    }
    return names <= {SETTINGS_FILE} and (SETTINGS_FILE in names or not any(target.iterdir()))


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(directories.read_small_file(path).decode("utf-8"))
    except (OSError, ValueError):
        settings = None
    if not isinstance(settings, dict):
        raise ModelError(f"{path}: damaged; save the tokenizer again")
    return settings


# ---- choosing

KINDS = choices(field_types(TokenizerConfig)["kind"])


def choose_tokenizer(name: str, texts: Any, **options: Any) -> Tokenizer:
    """Return a tokenizer of that kind, fitted on the texts with these options; or the saved one at
    that path, which no option can change.
    """
    if name in KINDS:  # also where a directory happens to have that name
        return Tokenizer(kind=name, **options).fit(texts)
    if not os.path.exists(name):  # unlike Path, no error where it cannot be the name of a file
        raise ConfigError(
            f"tokenizer {quoted(name)} is neither one of {', '.join(KINDS)} nor an existing file or "
            f"directory{suggest(name, KINDS)}"
        )
    if unused := [
        option for option, value in options.items() if value not in (None, 1, "none", ())
    ]:
        raise ConfigError(f"{' and '.join(unused)} cannot change the finished tokenizer {name!r}")
    return Tokenizer.load(name)
