"""The tensors of a published model as weights of a model here, and back, by the tables of `interop/layouts`.

A model is first built without its weights, which gives their shapes. The tensors that its layout names for
them must exist with these shapes, and no others. Then one array after the other is read, and quantised if
asked for, so that only one matrix at a time is in memory in float32.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, ModelError
from seqloom.interop.values import Shapes, TensorFile
from seqloom.runtime.declarations import Declarations, shapes_of
from seqloom.runtime.quantised import Blocks, bits_of

if TYPE_CHECKING:
    from seqloom.models.network.network import NetworkModel
    from seqloom.text.tokenizer import Tokenizer

# Layers with as many rows as the network is wide, and those with as many columns.
_WIDTH_ROWS = (".out", ".down", ".norm1", ".norm2", ".norm_cross")
_WIDTH_COLUMNS = ("embedding", "output", ".qkv", ".up")


@dataclass(frozen=True)
class Line:
    tensors: str  # names with blanks between
    transposed: bool = False  # matrices are (in, out) there
    skipped: int = 0  # rows of the tensor before ours, which nothing reads
    one_row: bool = False  # a vector here, a matrix of one row there
    # number of tensors in which pairs for rotary positions are adjacent; ours are half a head apart
    rotary: int = 0
    rows: tuple[int, ...] = ()  # rows of the tensor in our order, its last one among them


Lines = Mapping[str, str | Line]


def within(ours: str, theirs: str, lines: Lines) -> dict[str, Line]:
    """Return lines with one name before our layers and another before their tensors."""
    converted = {layer: _line(line) for layer, line in lines.items()}
    return {
        ours + layer: replace(
            line, tensors=" ".join(theirs + name for name in line.tensors.split())
        )
        for layer, line in converted.items()
    }


def _line(line: str | Line) -> Line:
    return line if isinstance(line, Line) else Line(line)


@dataclass(frozen=True)
class Layout:
    family: str  # as messages call it
    body: Lines
    prefix: str = ""  # before the tensors of the body, unless it was saved alone
    head: Lines = field(default_factory=dict)  # layers whose tensors have no prefix
    # ends of names of tensors that are not learnt, or copies of others
    ignored: tuple[str, ...] = ()
    sines_first: bool = False  # all sines of a position before all cosines; here they alternate

    def prefix_of(self, shapes: Shapes) -> str:
        """Return the prefix of the names of the body in a file with these tensors."""
        return self.prefix if any(name.startswith(self.prefix) for name in shapes) else ""

    def weight(self, layer: str, shapes: Shapes) -> str:
        """Return the name of the weight of a layer in a file with these tensors."""
        if layer in self.body:
            return f"{self.prefix_of(shapes)}{self.body[layer]}.weight"
        return f"{self.head.get(layer, '')}.weight"

    def locate(self, name: str, shapes: Shapes, prefix: str, d_head: int = 0) -> Location:
        """Return the location of our array of that name; `shapes` are those of all our arrays."""
        number = "".join(re.findall(r"\.(\d+)\.", name)[:1])
        array = re.sub(r"\.\d+\.", ".{i}.", name, count=1)
        layer, _, kind = array.rpartition(".")
        lines = {**self.head, **self.body}
        key = array if array in lines else layer
        line = _line(lines[key])
        before, behind = prefix if key in self.body else "", f".{kind}" if key == layer else ""
        tensors = [
            before + tensor.replace("{i}", number) + behind for tensor in line.tensors.split()
        ]
        heights = dict(zip(tensors, _heights(name, shapes, len(tensors))))
        return Location(shapes[name], heights, line, d_head, self._order(layer, shapes[name]))

    def _order(self, layer: str, shape: tuple[int, ...]) -> tuple[int, np.ndarray] | None:
        if not self.sines_first:
            return None
        if layer.endswith(_WIDTH_ROWS):
            return 0, alternating(shape[0])
        return (
            (1, alternating(shape[1]))
            if layer.endswith(_WIDTH_COLUMNS) and len(shape) == 2
            else None
        )

    def write(
        self, weights: Mapping[str, np.ndarray], prefix: str | None = None
    ) -> dict[str, np.ndarray]:
        """Return the tensors of all our arrays, by name."""
        arrays = dict(weights)  # converts quantised ones to float32 once
        shapes = {name: array.shape for name, array in arrays.items()}
        before = self.prefix if prefix is None else prefix
        return {
            tensor: part
            for name, array in arrays.items()
            for tensor, part in self.locate(name, shapes, before).write(array).items()
        }


def _heights(name: str, shapes: Shapes, tensors: int) -> list[int]:
    """Return how many of our rows each tensor has; queries have as many as the next layer has inputs."""
    rows = shapes[name][0]
    if tensors != 3:
        return [rows // tensors] * tensors
    queries = shapes[f"{name.rpartition('.qkv.')[0]}.out.weight"][1]
    return [queries, (rows - queries) // 2, (rows - queries) // 2]


def halves_apart(rows: int, d_head: int) -> np.ndarray:
    """Return the order of rows that puts neighbours half a head apart.

    >>> halves_apart(8, 4).tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    return np.arange(rows).reshape(-1, d_head // 2, 2).swapaxes(1, 2).ravel()


def alternating(width: int) -> np.ndarray:
    """Return the index of each element of alternating sines and cosines if all sines come first.

    >>> alternating(6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return np.arange(width).reshape(2, -1).T.ravel()


@dataclass(frozen=True)
class Location:
    """The tensors of a file that one of our arrays is made of."""

    shape: tuple[int, ...]
    heights: dict[str, int]  # the tensors, and how many of our rows each has
    line: Line
    d_head: int  # for `line.rotary`
    order: tuple[int, np.ndarray] | None  # an axis, and the index in theirs of each element of ours

    @property
    def shapes(self) -> Shapes:
        return {
            name: self._their_shape(rows, *self.shape[1:]) for name, rows in self.heights.items()
        }

    def _their_shape(self, rows: int, *trailing: int) -> tuple[int, ...]:
        if self.line.one_row:
            return (1, rows)
        if self.line.transposed:
            return (*trailing, rows)
        return (max(self.line.rows) + 1 if self.line.rows else rows + self.line.skipped, *trailing)

    def read(self, file: TensorFile, bits: int | None) -> np.ndarray | Blocks:
        """Return our array as float32, or in blocks of `bits`: those of the file if rows are not cut."""
        axis, order = self.order or (0, None)
        if bits and axis == 0 and not self.line.transposed:
            parts = [self._rows(k, file.blocks(name, bits)) for k, name in enumerate(self.heights)]
            return Blocks.stacked(parts) if order is None else Blocks.stacked(parts)[order]
        parts = [self._rows(k, file.array(name)) for k, name in enumerate(self.heights)]
        array = parts[0] if len(parts) == 1 else np.concatenate(parts)
        array = array if order is None else np.take(array, order, axis)
        if bits:
            return Blocks.of(array, bits, " ".join(self.heights))
        return np.ascontiguousarray(array, np.float32)

    def _rows(self, number: int, tensor: Any) -> Any:
        """Return our array's part of a tensor, or of its blocks."""
        line = self.line
        if line.transposed:
            return tensor.T
        if line.one_row:
            return tensor[0]
        if line.rows:
            return tensor[np.array(line.rows)]
        interleaved = number < line.rotary
        return (
            tensor[halves_apart(tensor.shape[0], self.d_head)]
            if interleaved
            else tensor[line.skipped :]
        )

    def write(self, array: np.ndarray) -> dict[str, np.ndarray]:
        """Return the tensors of our array."""
        array = np.asarray(array, np.float32)
        if self.order is not None:
            array = np.take(array, np.argsort(self.order[1]), self.order[0])
        parts = np.split(array, np.cumsum(list(self.heights.values()))[:-1])
        return {
            name: np.ascontiguousarray(self._written(part))
            for name, part in zip(self.heights, parts)
        }

    def _written(self, part: np.ndarray) -> np.ndarray:
        line = self.line
        if line.transposed:
            return part.T
        if line.one_row:
            return part[None]
        return np.concatenate([np.zeros((line.skipped, *part.shape[1:]), part.dtype), part])


# ---- a model of the tensors of a file


@dataclass(frozen=True)
class Parts:
    """A model without its weights, as the values of a file describe it, and the layout of the weights."""

    file: TensorFile
    cls: type[NetworkModel]
    options: dict[str, Any]
    tokenizers: dict[str, Tokenizer]
    learnt: dict[str, Any]
    layout: Layout
    info: dict[str, Any]  # for `fit_info`
    absent: tuple[str, ...] = ()  # ends of names of our arrays that the file lacks: they are zeros
    left_out: Collection[str] = ()  # tensors for other tasks
    d_head: int = 0  # where the layout needs it
    further: Mapping[str, np.ndarray] = field(default_factory=dict)  # arrays that no file has

    def model(self, bits: int | None = None) -> Any:
        """Return the fitted model; with `bits` its matrices are quantised where its kind can be."""
        bits = bits if "bits" in self.cls.learnt_values else None
        learnt = self.learnt | ({"bits": bits} if bits else {})
        try:
            config = self.cls.config_class(**self.options)
            declared = self.cls.with_parts(config, self.tokenizers, learnt).declared()
            return self.cls.from_parts(
                config,
                self.tokenizers,
                learnt,
                {**self._arrays(declared, bits), **self.further},
                self.info,
            )
        except (ConfigError, ModelError) as error:
            self.file.fail(str(error))

    def _arrays(self, declared: Declarations, bits: int | None) -> dict[str, np.ndarray]:
        """Return all arrays as a saved model has them."""
        file, layout, shapes = self.file, self.layout, shapes_of(declared)
        prefix = layout.prefix_of(file.shapes)
        locations = {
            name: layout.locate(name, shapes, prefix, self.d_head)
            for name in shapes
            if not name.endswith(self.absent)
        }
        wanted = {
            tensor: shape
            for location in locations.values()
            for tensor, shape in location.shapes.items()
        }
        relevant = {
            tensor: shape
            for tensor, shape in file.shapes.items()
            if tensor in wanted or not (tensor.endswith(layout.ignored) or tensor in self.left_out)
        }
        file.check_tensors(relevant, wanted, layout.family)
        arrays: dict[str, np.ndarray] = {}
        with progress.task("reading weights", len(shapes), "arrays") as bar:
            for name, shape in shapes.items():
                array_bits = bits_of(name, declared[name], bits, self.cls.exact) if bits else None
                weight = (
                    locations[name].read(file, array_bits)
                    if name in locations
                    else np.zeros(shape, np.float32)
                )
                arrays |= (
                    weight.tiles().arrays(name) if isinstance(weight, Blocks) else {name: weight}
                )
                bar.advance(1)
        return arrays


def expected_shapes(model: Any) -> Shapes:
    """Return the shapes of the weights of a model by name; it need not have them yet."""
    return model.fitted_shapes()
