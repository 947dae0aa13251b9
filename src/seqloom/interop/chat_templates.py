"""The chat template in a directory of transformers: chat_template.jinja, or a value of tokenizer_config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from seqloom.errors import DataError
from seqloom.text.chat import MOST_CHARACTERS

FILE, SETTINGS = "chat_template.jinja", "tokenizer_config.json"
MOST_BYTES = 1 << 26  # of the settings, which may list a vocabulary of added tokens


def read_template(directory: Path) -> str | None:
    """What `learnt["chat_template"]` of a converted model becomes; None where there is none. Of several, that named default."""
    place = directory / FILE
    if place.is_file():
        template: Any = _read(place, 4 * MOST_CHARACTERS)
    else:
        place = directory / SETTINGS
        if not place.is_file():
            return None
        try:
            settings = json.loads(_read(place, MOST_BYTES))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}: not JSON that can be read ({error})") from None
        template = settings.get("chat_template") if isinstance(settings, dict) else None
        if isinstance(template, list):
            template = next((one.get("template") for one in template if isinstance(one, dict) and one.get("name") == "default"),
                            None)
    if template is None:
        return None
    check_template(template, str(place))
    return template


def check_template(template: Any, where: str) -> None:
    if not isinstance(template, str) or not template.strip():
        raise DataError(f"{where}: its chat template is not a text")
    if len(template) > MOST_CHARACTERS:
        raise DataError(f"{where}: its chat template has more than {MOST_CHARACTERS:,} characters")


def _read(path: Path, most: int) -> str:
    try:
        if path.stat().st_size > most:
            raise DataError(f"{path}: has more than {most >> 20} MiB")
        return path.read_text("utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error.reason})") from None
