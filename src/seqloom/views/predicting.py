"""A prediction in parts: titles, formulas, and numbers that know their equation and what they are made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from seqloom.views.configs import PredictionOptions
from seqloom.views.hidden import visible

SHOWN = 8  # rows of a table; the others are one row
WORD = re.compile(r"[A-Za-z_]\w*'?")


class Number(NamedTuple):
    """A number: how it is called, its equation, the same in numbers, and which numbers it is made of."""

    id: str
    equation: str
    numbers: str
    value: float | None
    of: tuple[str, ...] = ()


@dataclass
class Part:
    """Some numbers under a title: a list, a number in each row; or a table with named columns."""

    title: str
    said: str
    formula: str = ""
    columns: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, equation: str, numbers: str, value: float, *of: str) -> None:
        """Add a number to a list; it is made of those of its list that its equation names, and of `of`."""
        known = {row["name"] for row in self.rows}
        named = [one for one in WORD.findall(equation) if one in known and one != name]
        number = Number(name, equation, numbers, value, (*dict.fromkeys(named), *of))
        self.rows.append({"name": name, "numbers": [number._asdict()]})

    def add_row(self, name: str, *cells: tuple[str, str, float | None, Sequence[str]]) -> None:
        """Add a row to a table: of each cell its equation, the same in numbers, its value, and what it is
        made of: columns of this row, or other numbers by their whole name.
        """
        at = len(self.rows)
        numbers = [
            Number(
                f"{column}.{at}",
                equation,
                text,
                value,
                tuple(f"{one}.{at}" if one in self.columns else one for one in of),
            )._asdict()
            for column, (equation, text, value, of) in zip(self.columns, cells)
        ]
        self.rows.append({"name": name, "numbers": numbers})

    def column(self, name: str) -> tuple[str, ...]:
        """Return the ids of the numbers in a column."""
        at = self.columns.index(name)
        return tuple(row["numbers"][at]["id"] for row in self.rows)


class Place(NamedTuple):
    """Where in a text a token is predicted, and which one."""

    model: Any
    text: str
    ids: np.ndarray  # of the whole text
    begin: int  # of its sequence
    at: int  # the position that is predicted
    word: int  # the token whose probability is explained
    options: PredictionOptions

    @property
    def before(self) -> np.ndarray:
        """Return the tokens of the sequence that were read."""
        return self.ids[self.begin : self.at]

    def name(self, token: int) -> str:
        """Return a token as it is shown."""
        return visible(self.model.tokenizer.token(int(token)))


def quoted(name: str) -> str:
    """Return the name of a token between quotation marks."""
    return f"'{name}'"


Told = tuple[str, list[Part], dict[str, Any]]  # the family, its parts, what can be chosen
