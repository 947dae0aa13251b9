"""The chat template in a directory of transformers: chat_template.jinja, or a value of tokenizer_config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqloom.errors import DataError
from seqloom.interop.hugging_face import read_json, read_text
from seqloom.text.chat import MOST_CHARACTERS

FILE, SETTINGS = "chat_template.jinja", "tokenizer_config.json"


def read_template(directory: Path) -> str | None:
    """What `learnt["chat_template"]` of a converted model becomes; None where there is none. Of several, that named default."""
    place = directory / FILE
    if place.is_file():
        template: Any = read_text(place)
    else:
        place = directory / SETTINGS
        template = read_json(place).get("chat_template") if place.is_file() else None
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
