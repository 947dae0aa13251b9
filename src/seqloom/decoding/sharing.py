"""One decoder for all calls: made when it is first needed, then shared by all threads of a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import RLock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqloom.decoding.generation import Generator

_making = RLock()  # of all models: it is held once for each decoder, and so that not every thread rounds the weights


def _renew() -> None:
    global _making
    _making = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)  # the thread that held it may not have come along


class Decoders:
    """Those of one fitted model: with its weights as they are, and rounded to 8 bits."""

    def __init__(self) -> None:
        self._generators: dict[bool, tuple[Sequence[Decoders], Generator]] = {}

    def get(
        self, eight_bit: bool, members: Sequence[Decoders], make: Callable[[], Generator]
    ) -> Generator:
        """The decoder that was made while the members of the model had these decoders, else a new one."""
        entry = self._generators.get(eight_bit)
        if entry is None or not _same(entry[0], members):
            with _making:
                entry = self._generators.get(eight_bit)
                if entry is None or not _same(entry[0], members):
                    entry = self._generators[eight_bit] = members, make()
        return entry[1]


def _same(these: Sequence[Decoders], those: Sequence[Decoders]) -> bool:
    """Whether all members are as they were: one that is fitted again gets new decoders."""
    return len(these) == len(those) and all(a is b for a, b in zip(these, those))
