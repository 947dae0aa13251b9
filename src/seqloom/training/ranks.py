"""Several processes that train one network (torchrun): which one this is, and what only the first one does.

A single process is the first of one. Files are written by the first alone; what it decides, the
others hear from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def _distributed() -> Any:
    """torch's module where a group of processes was begun, else None; torch is not loaded for the question."""
    torch = sys.modules.get("torch")
    module = getattr(torch, "distributed", None)
    return (
        module if module is not None and module.is_available() and module.is_initialized() else None
    )


def is_first() -> bool:
    """Also where other processes run beside this one, but no group was begun: each is on its own then."""
    group = _distributed()
    return group is None or group.get_rank() == 0


def from_first(decide: Callable[[], Any]) -> Any:
    """What the first process decides; the others wait for it."""
    group = _distributed()
    if group is None or group.get_world_size() == 1:
        return decide()
    decided = [decide() if is_first() else None]
    group.broadcast_object_list(decided, src=0)
    return decided[0]
