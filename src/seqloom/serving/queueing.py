"""Requests that wait for a language model, and which of them is next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from seqloom.serving.requests import Request

MOST_PASSED = 32  # requests that may begin before one that needs more room than there is


class Queue:
    """Takes turns: one of each group (the texts that one client asked for together) after the other, so
    nobody waits for all of somebody else's. Where the next needs more room than there is, others pass it, but
    only so often; then all wait until it fits.
    """

    def __init__(self) -> None:
        self._groups: dict[object, deque[Request]] = {}  # in the order of their turns

    def __iter__(self) -> Iterator[Request]:
        return (request for group in self._groups.values() for request in group)

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, request: Request) -> None:
        """Let a request wait."""
        self._groups.setdefault(request.group or request, deque()).append(request)

    def remove(self, request: Request) -> None:
        """Take a request out, if it waits."""
        key = request.group or request
        if request in (group := self._groups.get(key, ())):
            group.remove(request)  # type: ignore[union-attr]
            if not group:
                del self._groups[key]

    def expired(self, now: float) -> list[Request]:
        """Take out those whose time is over; the first of each group came first."""
        found = []
        for group in list(self._groups.values()):
            while group and group[0].deadline <= now:
                found.append(group[0])
                self.remove(group[0])
        return found

    def next(self, room: int | None) -> Request | None:
        """Take out the next request of at most so many texts, None: of any number; None if there is none."""
        passed: list[Request] = []
        for key, group in self._groups.items():
            request = group[0]
            if room is None or request.n <= room:
                for other in passed:
                    other.passed += 1
                self.remove(request)
                if group:  # its next turn is after those of all others
                    self._groups[key] = self._groups.pop(key)
                return request
            if request.passed >= MOST_PASSED:
                return None
            passed.append(request)
        return None
