"""What the commands for word vectors share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seqloom.config import MOST

if TYPE_CHECKING:
    from collections.abc import Callable


def among(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--among",
        type=click.IntRange(1, MOST),
        metavar="N",
        help="Only among the N most frequent words.",
    )(function)


def approximate(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--approximate",
        is_flag=True,
        help="Approximate search in a neighbour graph, which misses a few. "
        "Building it takes minutes for 400,000 words: only for many queries on millions of words.",
    )(function)
