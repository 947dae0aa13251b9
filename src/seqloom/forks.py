"""Forked processes. Threads do not come along, and a library that waits for its own would wait for ever."""

from __future__ import annotations

import os
from functools import cache

from seqloom.errors import SeqloomError

_users: dict[str, int] = {}  # by library the process that used it first


def needs_threads(library: str) -> None:
    """Refuse a library that loses its threads in a process forked after its use; call this before
    using it.
    """
    if _users.setdefault(library, os.getpid()) != os.getpid():
        raise SeqloomError(
            f"this process was forked after {library} was used, so its threads are missing; start it "
            "with multiprocessing.get_context('spawn')"
        )


@cache
def torch_alone() -> None:
    """Run torch on one thread in forked processes: it works as long as it does not look for its
    threads.
    """
    import torch

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
