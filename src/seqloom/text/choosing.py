"""The tokenizer that a model's options name: a kind, which is fitted, or a finished one."""

from __future__ import annotations

import os
from typing import Any

from seqloom.config import choices, field_types
from seqloom.errors import ConfigError, quoted, suggest
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.tokenizer_config import TokenizerConfig

KINDS = choices(field_types(TokenizerConfig)["kind"])


def choose_tokenizer(name: str, texts: Any, **options: Any) -> Tokenizer:
    """Of that kind, fitted on the texts with these options; or the saved one of that path, which no option can change."""
    if name in KINDS:  # also where a directory happens to have that name
        return Tokenizer(kind=name, **options).fit(texts)
    if not os.path.exists(name):  # unlike Path, no error where it cannot be the name of a file
        raise ConfigError(
            f"tokenizer {quoted(name)} is neither one of {', '.join(KINDS)} nor an existing file or "
            f"directory{suggest(name, KINDS)}"
        )
    if idle := [option for option, value in options.items() if value not in (None, 1, "none", ())]:
        raise ConfigError(f"{' and '.join(idle)} cannot change the finished tokenizer {name!r}")
    return Tokenizer.load(name)
