"""Texts that wait for a language model, and which of them is next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from seqloom.serving.requests import Request, Row


class Queue:
    """Takes turns: one text of each group (what one client asked for together) after the other. A group may
    have half of the room that others leave, at least one row, so there is room for whoever comes next.
    """

    def __init__(self) -> None:
        self._groups: dict[object, deque[Row]] = {}  # in the order of their turns

    def __iter__(self) -> Iterator[Row]:
        return (row for group in self._groups.values() for row in group)

    def __bool__(self) -> bool:
        return bool(self._groups)

    @property
    def n_texts(self) -> int:
        """The number of texts that wait."""
        return sum(row.n_texts for row in self)

    def add(self, row: Row) -> None:
        """Let a row wait."""
        self._groups.setdefault(row.request.key, deque()).append(row)

    def add_first(self, rows: list[Row]) -> None:
        """Let further texts of a prompt that is read wait, before what else was asked for with it: the state
        after the prompt is kept until they begin.
        """
        self._groups.setdefault(rows[0].request.key, deque()).extendleft(reversed(rows))

    def remove(self, request: Request) -> None:
        """Take out what waits of a request."""
        self._keep(
            request.key,
            [row for row in self._groups.get(request.key, ()) if row.request is not request],
        )

    def expired(self, now: float) -> list[Row]:
        """Take out those whose time is over."""
        late = [row for row in self if row.request.deadline <= now]
        for key in {row.request.key for row in late}:
            self._keep(key, [row for row in self._groups[key] if row not in late])
        return late

    def _keep(self, key: object, rows: list[Row]) -> None:
        if rows:
            self._groups[key] = deque(rows)
        else:
            self._groups.pop(key, None)

    def take(self, running: Iterable[Row], room: int) -> list[Row]:
        """Take out those that begin now, beside the running rows, where there is room for so many in all."""
        taken: list[Row] = []
        running = list(running)
        counts: dict[object, int] = {}
        for row in running:
            counts[row.request.key] = counts.get(row.request.key, 0) + 1
        while len(running) < room:
            for key, group in self._groups.items():
                own, row = counts.get(key, 0), group[0]
                has_room = 2 * own < room - (len(running) - own)
                if has_room and (row.n_texts == 1 or self._n_states(running) < room):
                    break
            else:
                return taken
            taken.append(row)
            running.append(row)
            counts[key] = own + 1
            del self._groups[key]
            group.popleft()
            if group:  # its next turn is after those of all others
                self._groups[key] = group
        return taken

    def _n_states(self, running: list[Row]) -> int:
        """Return the number of prompts whose state is or will be kept for texts that wait."""
        kept = {row.request for row in self if row.begun is not None}
        return len(kept | {row.request for row in running if row.n_texts > 1})
