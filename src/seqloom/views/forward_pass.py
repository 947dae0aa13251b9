"""Shapes and sizes along a forward pass: each part of a network with what it computes for one text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from seqloom.charts.page import Sheet
from seqloom.charts.parts import PartBar, parts_chart
from seqloom.config import Config
from seqloom.models.network.forward_sizes import Part, parts_of, trace_window
from seqloom.traces import Traced
from seqloom.views.catalogue import view
from seqloom.views.reading import remarks, traced

BLOCK = re.compile(r".*?\.\d+(?=\.|$)")  # the first part of a name that has a number: blocks.0
FEW = 24  # parts that are drawn one by one; of more, those of a block are added up
UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@view
def shapes(model: Any, example: Any, options: Config) -> Sheet:
    """Show for each part of a network the shape of its result for a text, its parameters, the
    multiplications, and the bytes of weights and results.
    """
    read = _read(model, example)
    parts = parts_of(model, example, read)
    totals = {
        name: sum(getattr(part, name) for part in parts)
        for name in ("parameters", "multiplications", "bytes", "output_bytes")
    }
    steps = f"{len(read.tokens):,} steps" + (" of a window" if model.task == "forecaster" else "")
    if read.targets:
        steps += f" of the source and {len(read.targets):,} of the target"
    return Sheet(
        f"{model.label()}: shapes and sizes",
        lambda page: {"Parts of the network": parts_chart(_bars(_drawn(parts)))},
        {"rows": [part._asdict() | {"output": list(part.output)} for part in parts], **totals},
        [
            *remarks(model),
            f"{steps}; {totals['parameters']:,} parameters in {totals['bytes']:,} bytes, "
            f"{totals['multiplications']:,} multiplications, {totals['output_bytes']:,} bytes of results.",
            "Counted are multiplications in products of matrices, for the whole text read at once; those of "
            "single numbers (gates, norms) are not.",
        ],
        lines=_lines(parts, totals),
    )


def _read(model: Any, example: Any) -> Traced:
    """Return the steps of an example with its layers; of a forecaster those of any window."""
    if model.task == "forecaster":
        return trace_window(model)
    if model.task == "language model" and not hasattr(model.layers, "read_traced"):
        ids, _ = model.encode(example)  # Bengio's network, which has neither states nor attention
        return Traced([model.tokenizer.token(token) for token in ids.tolist()], {})
    return traced(model, example, "*.out", "*.h", "*.weights")


def _drawn(parts: Sequence[Part]) -> list[Part]:
    """Return the parts, or those of each block added up where there are many."""
    if len(parts) <= FEW:
        return list(parts)
    blocks: dict[str, list[Part]] = {}
    for part in parts:
        found = BLOCK.match(part.name)
        blocks.setdefault(found[0] if found else part.name, []).append(part)
    return [
        Part(
            name,
            (),
            sum(part.parameters for part in held),
            sum(part.multiplications for part in held),
            sum(part.bytes for part in held),
            sum(part.output_bytes for part in held),
        )
        for name, held in blocks.items()
    ]


def _bars(parts: Sequence[Part]) -> list[PartBar]:
    panels = {
        "parameters": "parameters",
        "multiplications": "multiplications",
        "output_bytes": "bytes of results",
    }
    return [
        PartBar(_titled(part), title, getattr(part, name), short(getattr(part, name)))
        for name, title in panels.items()
        for part in parts
    ]


def _titled(part: Part) -> str:
    shape = " x ".join(map(str, part.output))
    name = part.name.split(" (")[0]
    return f"{name}  {shape}" if shape else name


def short(number: float) -> str:
    """Write a number in few characters.

    >>> short(0), short(999), short(12_345), short(5e9)
    ('', '999', '12.3 k', '5 G')
    """
    for size, sign in UNITS:
        if number >= size:
            return f"{number / size:.3g} {sign}"
    return f"{number:.0f}" if number else ""


def _lines(parts: Sequence[Part], totals: dict[str, int]) -> list[str]:
    rows = [["part", "output", "parameters", "multiplications", "bytes", "of results"]]
    for part in parts:
        shape = " x ".join(map(str, part.output))
        rows.append([part.name, shape, *(f"{number:,}" for number in part[2:])])
    rows.append(["all", "", *(f"{number:,}" for number in totals.values())])
    widths = [max(map(len, column)) + 2 for column in zip(*rows)]
    return [
        f"{row[0]:<{widths[0]}}" + "".join(f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:]))
        for row in rows
    ]
