"""Several processes that train one network (torchrun): which one this is, and what only the first one does.

A single process is the first of one. Files are written and progress is shown by the first alone; what it decides, the
others hear from it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any


def _distributed() -> Any:
    """torch's module where a group of processes was begun, else None; torch is not loaded for the question."""
    torch = sys.modules.get("torch")
    module = getattr(torch, "distributed", None)
    return module if module is not None and module.is_available() and module.is_initialized() else None


def is_first() -> bool:
    group = _distributed()
    if group is not None:
        return group.get_rank() == 0
    return os.environ.get("RANK", "0") == "0" or "WORLD_SIZE" not in os.environ  # torchrun sets both


def from_first(decide: Callable[[], Any]) -> Any:
    """What the first process decides; the others wait for it."""
    group = _distributed()
    if group is None or group.get_world_size() == 1:
        return decide()
    decided = [decide() if is_first() else None]
    group.broadcast_object_list(decided, src=0)
    return decided[0]
