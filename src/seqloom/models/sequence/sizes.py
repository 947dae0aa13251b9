"""Sizes of a composed network that follow from the data; with the options they say what the network is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Sizes:
    vocab_size: int = 0  # tokens with a trained vector; 0: it reads numbers
    d_embed: int = 0
    further: int = 0  # pretrained words beyond them
    characters: int = 0  # different ones, with padding and unknown
    columns: int = 0  # of numbers
    missing: bool = False  # whether numbers may be missing

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def is_sizes(value: Any) -> bool:
    """Whether a saved value is such a set of sizes."""
    if not isinstance(value, dict) or set(value) != set(Sizes.__dataclass_fields__):
        return False
    numbers = [
        value[name] for name in ("vocab_size", "d_embed", "further", "characters", "columns")
    ]
    return (
        all(type(n) is int and 0 <= n < 2**31 for n in numbers)
        and type(value["missing"]) is bool
        and bool(value["vocab_size"]) == bool(value["d_embed"])
        and bool(value["vocab_size"]) != bool(value["columns"])
    )


def read_sizes(learnt: Mapping[str, Any]) -> Sizes:
    return Sizes(**learnt["sizes"])
