"""The options of the word-vector models, apart from the models, so that `--help` shows them without loading anything."""

from __future__ import annotations

from dataclasses import dataclass

from seqloom.config import Config


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig(Config):
    """Finished vectors have no options: whoever trained them had."""
