"""What a network computes on its way, by name: weights of attention, gates, states, outputs of layers.

A network that is given a `trace` adds to it under the names of its parts, which are those of its saved
weights: beside `blocks.3.attention.qkv.weight` there is `blocks.3.attention.weights`. Without one nothing is
computed or kept.

| name ends in | shape | |
|---|---|---|
| `attention.weights` | (B, heads, T, S) | of a sequence to itself; rows sum to one |
| `cross.weights` | (B, heads, T, S) | of a target to its source |
| `pooling.weights` | (B, T) | of the steps, in a mean by attention |
| `gates.i`, `.f`, `.g`, `.o` | (B, T, H) | of an LSTM, after sigmoid and tanh (g) |
| `gates.r`, `.z`, `.n` | (B, T, H) | of a GRU |
| `h`, `c` | (B, T, H) | the state after each step |
| `out` | (B, T, D) | of a block or layer |
| `x`, `from_x` | (T, D), (T, G H) | what a recurrent layer reads, and its part of the sums of the gates: |
| | | without torch, and only where a pattern names them |

Values at padding are zero in what recurrent layers add; keys at padding have the weight zero. Networks
without torch (`runtime/`) pad nothing: the steps of all sequences lie one after the other, (N, D) instead of
(B, T, D), and weights are (N, heads, S).

    >>> trace = Trace("*.weights")
    >>> block = trace.within("blocks.3")
    >>> block.wants("out"), block.wants("attention.weights")
    (False, True)
    >>> block.add("attention.weights", [0.25, 0.75])
    >>> dict(trace)
    {'blocks.3.attention.weights': [0.25, 0.75]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

Change = Callable[[Any], Any]


class Traced(NamedTuple):
    """What a model computed while it read one text: `model.trace(text)`.

    Arrays have no axis for the batch: gates, states and outputs are (T, H), weights of attention
    (heads, T, S).
    """

    tokens: list[str]  # what was read, one for each step
    arrays: Mapping[str, Any]  # by name, as in a `Trace`
    targets: list[str] = []  # noqa: RUF012 - read only; of a translator what its decoder read

    def steps(self, name: str) -> list[str]:
        """Return what the steps of an array are called: those of the text, or of a decoder."""
        return self.targets if name.startswith(("decoder", "cross")) else self.tokens


class Trace(Mapping[str, Any]):
    """Arrays or tensors by name, in the order in which they were added; a second pass overwrites the first.

    `patterns`: which names are wanted, as of files in a shell (`*.weights`, `layers.0.*`); none: all.
    """

    def __init__(self, *patterns: str) -> None:
        self.patterns = patterns
        self.prefix = ""
        self.change: Change | None = None
        self.arrays: dict[str, Any] = {}

    def within(self, part: str, change: Change | None = None) -> Trace:
        """Return a view of the same arrays by names inside of a part; what is added goes through `change`."""
        view = Trace(*self.patterns)
        view.arrays = self.arrays
        view.prefix = f"{self.prefix}{part}."
        view.change = _composed(self.change, change)
        return view

    def empty(self) -> Trace:
        """Return one that wants the same under the same names, with arrays of its own."""
        trace = Trace(*self.patterns)
        trace.prefix = self.prefix
        return trace

    def wants(self, *names: str) -> bool:
        """Tell whether one of these is collected."""
        return not self.patterns or any(
            fnmatchcase(self.prefix + name, pattern) for name in names for pattern in self.patterns
        )

    def asks(self, name: str) -> bool:
        """Tell whether a pattern names this, for what is only collected on demand."""
        return bool(self.patterns) and self.wants(name)

    def add(self, name: str, array: Any) -> None:
        """Keep an array, if it is wanted."""
        if self.wants(name):
            self.arrays[self.prefix + name] = array if self.change is None else self.change(array)

    def __getitem__(self, name: str) -> Any:
        return self.arrays[self.prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (
            name.removeprefix(self.prefix) for name in self.arrays if name.startswith(self.prefix)
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


def within(trace: Trace | None, part: str, change: Change | None = None) -> Trace | None:
    """Return `trace.within(...)`, or None where nothing is traced."""
    return None if trace is None else trace.within(part, change)


def by_text(trace: Trace) -> dict[str, Any]:
    """Return the arrays that a network without torch traced of one text, weights of attention as
    (heads, T, S).
    """
    return {
        name: array.swapaxes(0, 1) if array.ndim == 3 else array for name, array in trace.items()
    }


def _composed(outer: Change | None, inner: Change | None) -> Change | None:
    if outer is None or inner is None:
        return outer or inner
    return lambda array: outer(inner(array))
