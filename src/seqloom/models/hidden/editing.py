"""A hidden Markov model with changed tables: what is given stays, and the rest of its row makes room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from seqloom.errors import ConfigError, quoted
from seqloom.models.hidden.chain import CategoricalHMM

TABLES = ("start", "transitions", "emissions")
Cells = Mapping[int, float]  # of a row, by column


class Edits(NamedTuple):
    """Cells of the tables that get another value."""

    start: Cells
    transitions: Mapping[int, Cells]  # by the state from which
    emissions: Mapping[int, Cells]  # by state, then by symbol

    @property
    def n_rows(self) -> int:
        """Return how many rows are changed."""
        return bool(self.start) + len(self.transitions) + len(self.emissions)


def edited(chain: CategoricalHMM, edits: Edits) -> CategoricalHMM:
    """Return a chain with these cells; the others of their rows are scaled so that each row sums to one.

    Where the given cells of a row sum to more than one, or there are no others, they are divided by
    their sum.

        >>> chain = CategoricalHMM([0.5, 0.5], [[0.7, 0.3], [0.4, 0.6]], [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
        >>> edited(chain, Edits({}, {0: {1: 0.9}}, {1: {0: 0.6}})).arrays()["emissions"].round(3).tolist()
        [[0.5, 0.3, 0.2], [0.6, 0.044, 0.356]]
    """
    tables = {name: np.array(array) for name, array in chain.arrays().items()}
    _set(tables["start"], edits.start, "start")
    for name in TABLES[1:]:
        for state, cells in getattr(edits, name).items():
            if not 0 <= state < chain.n_states:
                raise ConfigError(
                    f"{name}: there is no state {state}; they are 0 to {chain.n_states - 1}"
                )
            _set(tables[name][state], cells, f"{name} of state {state}")
    return CategoricalHMM(**tables)


def _set(row: np.ndarray, cells: Cells, what: str) -> None:
    if not cells:
        return
    at = np.array(list(cells), np.int64)
    if at.min() < 0 or at.max() >= len(row):
        raise ConfigError(f"{what}: there is no column {at.max()}; they are 0 to {len(row) - 1}")
    given = np.array(list(cells.values()))
    others = np.ones(len(row), bool)
    others[at] = False
    rest, total = float(row[others].sum()), float(given.sum())
    if rest > 0 and total < 1:
        row[others] *= (1 - total) / rest
        row[at] = given
    elif total > 0:
        row[others], row[at] = 0.0, given / total
    else:
        raise ConfigError(f"{what}: nothing is left above zero; give a value above zero")


def read_edits(values: Any, symbol: Any) -> Edits:
    """Read edits from plain values: `{"start": {"0": 0.5}, "transitions": {"0": {"1": 0.9}}, "emissions":
    {"0": {"the": 0.2}}}`; `symbol` finds the number of a symbol by its name, None where there is none.
    """
    if not isinstance(values, dict) or not set(values) <= set(TABLES):
        raise ConfigError(
            f"tables must be an object with {', '.join(TABLES)}; got {quoted(values)}"
        )
    start = _cells(values.get("start", {}), "start", _state)
    rows = {
        name: {
            _state(state, name): _cells(cells, name, find)
            for state, cells in _object(values.get(name, {}), name).items()
        }
        for name, find in (("transitions", _state), ("emissions", _named(symbol)))
    }
    return Edits(start, rows["transitions"], rows["emissions"])


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{what} must be an object of numbers by name; got {quoted(value)}")
    return value


def _cells(value: Any, what: str, find: Any) -> Cells:
    cells = {}
    for name, number in _object(value, what).items():
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 1:
            raise ConfigError(f"{what}: {quoted(name)} must be from 0 to 1; got {quoted(number)}")
        cells[find(name, what)] = float(number)
    return cells


def _state(name: str, what: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) < 6):
        raise ConfigError(f"{what}: a state is a number from 0; got {quoted(name)}")
    return int(name)


def _named(symbol: Any) -> Any:
    def find(name: str, what: str) -> int:
        found = symbol(name)
        if found is None:
            raise ConfigError(f"{what}: the model has no token {quoted(name)}")
        return int(found)

    return find
