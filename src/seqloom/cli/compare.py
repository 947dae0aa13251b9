"""`seqloom compare [TEXT]`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from seqloom import progress
from seqloom.cli.options import common, emit, read_corpus, reading
from seqloom.config import MOST_MINUTES
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.comparison.run import RungResult, Skipped


@click.command(name="compare", epilog="""\b
Examples:
  seqloom compare                              # the bundled text
  seqloom compare corpus.txt -o report --rungs byte-3,byte-6,bpe-3
""")
@click.argument("text", nargs=-1)
@click.option("-o", "--output", metavar="DIR",
              help="Write report.html with its pictures, report.md and comparison.json there.")
@click.option("--rungs", metavar="NAME,..", help="Only these rungs.")
@click.option("--minutes", type=click.FloatRange(min=0, max=MOST_MINUTES, min_open=True),
              help="How long each network trains, and the most that any other rung may take  [default: 0.6 and 10].")
@click.option("--curve/--no-curve", default=None,
              help="Train every rung on parts of the text too: the learning curve  [default: with -o].")
@click.option("--work", metavar="DIR", help="Where finished rungs are kept  [default: the user's cache].")
@click.option("--seed", default=0, show_default=True, help="For the samples.")
@click.option("--samples/--no-samples", default=True, help="Print a sample from each rung.")
@reading
@common
def command(text: tuple[str, ...], output: str | None, rungs: str | None, minutes: float | None, curve: bool | None,
            work: str | None, seed: int, samples: bool, encoding: str, column: str | None, strict: bool, as_json: bool) -> None:
    """Train the whole line of models on TEXT and compare them in bits per byte of the same held-out bytes."""
    from seqloom.comparison.report import check_place, curve_table, visible, write_report
    from seqloom.comparison.run import compare

    if output:
        check_place(output)
    if column and not text:
        raise ConfigError("--column is for a table; name the file")
    corpus = read_corpus(text, encoding, column, strict) if text else None
    names = rungs.replace(",", " ").split() if rungs else None
    try:
        with _live(as_json) as show:
            found = compare(corpus, rungs=names, minutes=minutes, work=work, seed=seed, on_rung=show,
                            curve=bool(output) if curve is None else curve)
        if output:
            write_report(found, output)
    except KeyboardInterrupt as error:
        raise type(error)("interrupted; finished rungs are kept, the same command goes on from there") from None
    if not found.results:
        raise ConfigError(f"none of the {len(found.skipped)} rungs was trained: {found.skipped[0].reason}")
    if as_json:
        emit(found.to_dict())
        return
    n = found.n_bytes
    click.echo(f"\n{found.corpus}: trained on {n['train']:,} bytes, tested on {n['test']:,} ({found.split}); "
               f"best: {found.best.name}, {found.best.bits_per_byte:.3f} bits per byte")
    if found.curve:
        click.echo(f"\nlearning curve, bits per byte by bytes of training text\n{_aligned(*curve_table(found))}")
    if samples:
        for r in found.results:
            if r.sample:
                click.echo(f"\n--- {r.name}\n{visible(r.sample)}")
    if output:
        click.echo(f"\nreport: {output}/report.html")


def _aligned(header: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:]))])
                     for row in (header, *rows))


@contextmanager
def _live(as_json: bool) -> Iterator[Callable[[RungResult | Skipped], None] | None]:
    """A table that grows as rungs finish: redrawn on a terminal, line by line elsewhere."""
    if as_json:
        yield None
        return
    from rich import box
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    from seqloom.comparison.report import COLUMNS
    from seqloom.comparison.run import RungResult

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, _ in COLUMNS:
        table.add_column(name, justify="left" if name in ("rung", "token", "95 %") else "right", no_wrap=True)
    console = Console(width=None if sys.stdout.isatty() else 160)
    live = Live(table, console=console, auto_refresh=False) if sys.stdout.isatty() else None

    def show(item: Any) -> None:
        if isinstance(item, RungResult):
            table.add_row(*(cell(item) for _, cell in COLUMNS))
        else:
            table.add_row(item.name, "skipped")
            progress.say(f"{item.name} skipped: {item.reason}")
        if live:
            live.refresh()

    if live:
        with live:
            yield show
        return
    try:
        yield show
    finally:  # also what an interrupt left finished
        if table.row_count:
            console.print(table)
