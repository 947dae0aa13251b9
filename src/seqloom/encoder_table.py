"""Encoders and recurrent cells by name: the one table that language models, classifiers, taggers,
forecasters, translators and comparisons read.

An entry says where the torch class and the class without torch are, as "module:name", so that the
table loads neither. A cell serves as a language model's recurrence, as the decoder of `seq2seq`,
and as an encoder of one direction (its own name) and of both (`bi` before it). A package of one's
own adds a line:

    add_cell(CellEntry("mingru", network="toys:MinGRUCell", runtime="toys:MinGRU"))
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal

from seqloom.errors import ConfigError, suggest

StackNorm = Literal["none", "inputs", "between", "outputs", "states"]
LastState = Literal["last", "ends", "mean"]  # what of its vectors stands for a whole sequence


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class CellEntry:
    """A recurrent cell."""

    name: str
    network: str  # subclass of `nn.cells.Cell`
    runtime: str  # subclass of `runtime.cells.Cell`
    # What both classes take beside sizes; config keys of language models.
    options: tuple[str, ...] = ()
    training: tuple[str, ...] = ()  # what the torch class alone takes

    def network_class(self) -> Any:
        return _load(self.network)

    def runtime_class(self) -> Any:
        return _load(self.runtime)

    def own_options(self, values: Mapping[str, Any], *, training: bool = False) -> dict[str, Any]:
        """Return those of these options that the cell has; with `training` also those that only
        torch's class has.
        """
        names = self.options + self.training if training else self.options
        return {name: values[name] for name in names if name in values}


@dataclass(frozen=True)
class EncoderEntry:
    """What relates the vectors of a sequence to each other."""

    name: str
    network: str  # called with d_in, width, n_layers, and by name dropout and its options
    runtime: str  # called with weights, d_in, width, n_layers, and by name its options
    streams: bool = False  # whether a step depends on earlier ones alone
    last_state: LastState = "mean"
    options: tuple[str, ...] = ()  # config keys that it takes: window, n_heads
    fixed: tuple[tuple[str, Any], ...] = ()  # arguments that follow from the name
    layered: bool = True  # has d_hidden and n_layers

    def make_network(
        self, d_in: int, width: int, n_layers: int, options: Mapping[str, Any], **training: Any
    ) -> Any:
        """Make the torch module; `options` that it does not have are left out. `training`: dropout
        and linear.
        """
        return _load(self.network)(d_in, width, n_layers, **training, **self._own_options(options))

    def take(
        self, weights: Any, d_in: int, width: int, n_layers: int, options: Mapping[str, Any]
    ) -> Any:
        """Take the same encoder from saved weights."""
        return _load(self.runtime)(weights, d_in, width, n_layers, **self._own_options(options))

    def _own_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **{name: options[name] for name in self.options if name in options},
            **dict(self.fixed),
        }


CELLS: dict[str, CellEntry] = {}
ENCODERS: dict[str, EncoderEntry] = {}


def add_cell(entry: CellEntry) -> None:
    """Register a cell, and the encoders of one and of both directions that are made of it."""
    CELLS[entry.name] = entry
    for name, both in ((entry.name, False), (f"bi{entry.name}", True)):
        add_encoder(
            EncoderEntry(
                name,
                "seqloom.nn.encoders:Recurrent",
                "seqloom.runtime.encoders:Recurrent",
                streams=not both,
                last_state="ends" if both else "last",
                options=(*entry.options, "norm", "shrink"),
                fixed=(("cell", entry.name), ("bidirectional", both)),
            )
        )


def add_encoder(entry: EncoderEntry) -> None:
    """Register an encoder."""
    ENCODERS[entry.name] = entry


def shrinking_widths(width: int, n_layers: int, shrink: float) -> list[int]:
    """Return the hidden size of each layer, which is that of the layer before times `shrink`.

    >>> shrinking_widths(512, 3, 0.5)
    [512, 256, 128]
    """
    return [max(round(width * shrink**i), 1) for i in range(n_layers)]


def normed_boundaries(norm: StackNorm, n_layers: int) -> list[int]:
    """Return before which layers of a stack vectors are normalised; `n_layers` stands for the outputs.

    >>> normed_boundaries("between", 3)
    [1, 2]
    """
    if norm == "between":
        return list(range(1, n_layers))
    return {"inputs": [0], "outputs": [n_layers]}.get(norm, [])


class Names(Iterable[str]):
    """Names in a table, as it is when they are asked for: those of packages that were loaded later
    count too.
    """

    def __init__(
        self, table: dict[str, Any], wanted: Callable[[Any], bool] = lambda entry: True
    ) -> None:
        self.table, self.wanted = table, wanted

    def __iter__(self) -> Iterator[str]:
        return (name for name, entry in self.table.items() if self.wanted(entry))

    def __contains__(self, name: Any) -> bool:
        return _is_registered(self.table, name) and self.wanted(self.table[name])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _is_registered(table: Mapping[Any, Any], name: object) -> bool:
    """Tell whether a name is in a table, after packages were asked that may add to it."""
    if not isinstance(name, str):  # of a damaged file
        return False
    if name not in table:
        _ask_packages(tuple(sys.path))
    return name in table


@cache
def _ask_packages(path: tuple[str, ...]) -> None:
    """Load packages that have models of their own, once for each path on which they are looked for."""
    import_module("seqloom.registry").load_plugins()  # by name, since it stands above


CELL_NAMES = Names(CELLS)
ENCODER_NAMES = Names(ENCODERS)
LAYERED = Names(ENCODERS, lambda entry: entry.layered)


def encoders_with(option: str) -> Names:
    """Return the encoders that take this option."""
    return Names(ENCODERS, lambda entry: option in entry.options)


def has_cell(name: str) -> bool:
    """Tell whether there is a cell of that name."""
    return _is_registered(CELLS, name)


def has_encoder(name: str) -> bool:
    """Tell whether there is an encoder of that name."""
    return _is_registered(ENCODERS, name)


def find_cell(name: str) -> CellEntry:
    """Return the cell of that name."""
    if not has_cell(name):
        raise ConfigError(
            f"cell must be one of {', '.join(CELLS)}; it is {name!r}{suggest(name, CELLS)}"
        )
    return CELLS[name]


def find_encoder(name: str) -> EncoderEntry:
    """Return the encoder of that name."""
    if not has_encoder(name):
        raise ConfigError(
            f"encoder must be one of {', '.join(ENCODERS)}; it is {name!r}{suggest(name, ENCODERS)}"
        )
    return ENCODERS[name]


def _built_in(name: str, kind: str, **how: Any) -> None:
    add_encoder(
        EncoderEntry(name, f"seqloom.nn.encoders:{kind}", f"seqloom.runtime.encoders:{kind}", **how)
    )


_built_in("bag", "Bag", streams=True, layered=False)
_built_in("window", "Windows", options=("window",), fixed=(("every_layer", False),))
_built_in("cnn", "Windows", options=("window",), fixed=(("every_layer", True),))
for _name, _class, _options, _training in (
    ("rnn", "RNNCell", ("recurrence", "time_step"), ()),
    ("lstm", "LSTMCell", ("gate_activation", "d_projection"), ("forget_bias",)),
    ("gru", "GRUCell", ("gate_activation", "reset", "update"), ()),
):
    add_cell(
        CellEntry(
            _name,
            f"seqloom.nn.cells:{_class}",
            f"seqloom.runtime.cells:{_class}",
            ("activation", *_options, "clamp", "state_norm"),
            (*_training, "recurrent_init"),
        )
    )
_built_in("transformer", "Transformer", options=("n_heads",))
