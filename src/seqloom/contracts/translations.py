"""What a translation is, and how it is searched for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqloom.decoding.translation_config import TranslationConfig as TranslationConfig


@dataclass(frozen=True, eq=False)
class Translation:
    """One translation of a source."""

    text: str
    log_prob: float  # natural log of its probability, the end symbol included
    score: float  # what it was ranked by
    finished: bool = True  # False: it was cut off after max_tokens
    ids: np.ndarray | None = None  # its tokens, without the end symbol

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"text": self.text, "log_prob": self.log_prob, "score": self.score, "finished": self.finished}
