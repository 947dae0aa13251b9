"""What the commands for word vectors share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seqloom.config import MOST

if TYPE_CHECKING:
    from collections.abc import Callable

def among(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--among", type=click.IntRange(1, MOST), metavar="N",
                        help="Only the first N words, which are the frequent ones.")(function)


def approximate(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--approximate", is_flag=True, help="Walk a graph of neighbours, which misses a few. It is built "
                        "first, in minutes for 400,000 words: only for many questions about millions of words.")(function)
