"""`seqloom compare [DATA]`.

The table grows as rungs finish, with the progress bars of the current one below it. On a terminal it is
redrawn in as many columns as fit; elsewhere it is printed once, in full.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom import progress, tasks
from seqloom.cli.options import common, emit, former_name, options_of, task_options
from seqloom.config import MOST_MINUTES
from seqloom.errors import ConfigError
from seqloom.reporters import BarReporter

if TYPE_CHECKING:
    from seqloom.comparison.ladder import Ladder
    from seqloom.comparison.result import Comparison, RungResult, Skipped
    from seqloom.config import Config
    from seqloom.tasks.task import Task


class Table:
    def __init__(self) -> None:
        self.rows: list[RungResult | Skipped] = []
        self.begun: Comparison | None = None
        self.finished = False

    def start(self, comparison: Comparison) -> None:
        self.begun = comparison

    def add(self, row: RungResult | Skipped) -> None:
        from seqloom.comparison.result import Skipped

        self.rows.append(row)
        if isinstance(row, Skipped):
            progress.say(f"{row.name} skipped: {row.reason}")

    def text(self, width: int | None) -> str:
        """Return the table in `width` characters; None: all columns."""
        from seqloom.comparison.result import RungResult
        from seqloom.comparison.table import chosen, columns, lines

        assert self.begun is not None
        every = columns(
            self.begun.ladder, self.begun if self.finished and self.begun.results else None
        )
        return "\n".join(
            lines(
                chosen(every, [r for r in self.rows if isinstance(r, RungResult)], width), self.rows
            )
        )


class LiveReporter(BarReporter):
    """Bars and remarks that share the terminal with the table."""

    def __init__(self, table: Table, console: Any) -> None:
        super().__init__()
        from rich.live import Live

        self.table = table
        self.live = Live(get_renderable=self.frame, console=console, refresh_per_second=4)

    def frame(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        rows = self.table.text(self.live.console.width) if self.table.rows else ""
        bars = self._bars
        shown = [Text(rows, no_wrap=True, overflow="crop")] if rows else []
        return Group(*shown, *([bars.get_renderable()] if bars is not None else []))

    def bars(self) -> Any:
        if self._bars is None:
            self._bars = self.make_bars(self.live.console)
        return self._bars

    def stop(self, bars: Any) -> None:
        """Do nothing: the bars are drawn with the table, which continues."""

    def say(self, message: str) -> None:
        self.live.console.print(message, highlight=False, markup=False)


@contextmanager
def shown(table: Table, console: Any = None) -> Iterator[None]:
    """Show the table on the terminal while open; without a terminal, print it at the end."""
    terminal = console is not None or (
        sys.stdout.isatty() and isinstance(progress.current(), BarReporter)
    )
    if not terminal:
        try:
            yield
        finally:  # also what an interrupt left finished
            if table.rows:
                click.echo(table.text(_width()))
        return
    from rich.console import Console

    reporter = LiveReporter(table, console or Console())
    with reporter.live, progress.reporting(reporter):
        yield


def _width() -> int | None:
    """Return the width of a terminal where stderr is not one; None for pipes and files,
    which have room.
    """
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


# ---- compare

_MINUTES = click.FloatRange(min=0, max=MOST_MINUTES, min_open=True)


def _configs(task: Task) -> tuple[type[Config], ...]:
    return (task.reading, task.comparing)


@click.command(
    name="compare",
    epilog="""\b
Examples:
  seqloom compare                              # language models on the bundled text
  seqloom compare corpus.txt -o report --rungs byte-3,byte-6,bpe-3
  seqloom compare reviews.tsv --save best      # classifiers
  seqloom compare train.conllu --valid dev.conllu
  seqloom compare series.csv --horizon 48      # forecasters
  seqloom compare train.en train.de            # translators
  seqloom compare text8 --task vectors --on questions-words.txt
""",
)
@click.argument("data", nargs=-1)
@click.option(
    "--task",
    metavar="NAME",
    help="What to compare: text (language models), classification, tagging, vectors, "
    "forecasting, translation  [default: by kind of data].",
)
@click.option(
    "--valid", metavar="FILE", help="Validation data; without --test, rungs are evaluated on it."
)
@click.option("--test", metavar="FILE", help="Held-out data to evaluate the rungs on.")
@click.option(
    "--on",
    multiple=True,
    metavar="FILE",
    help="Word vectors: file of analogies or word similarities; may be repeated.",
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Write report.html with its charts, report.md and comparison.json to this directory.",
)
@click.option("--rungs", metavar="NAME,..", help="Only these rungs, by their names in the table.")
@click.option(
    "--with",
    "pretrained",
    multiple=True,
    metavar="DIR",
    help="Add a saved model that was trained elsewhere, such "
    "as a converted one, as a rung; it is marked, since it may have seen the test part. May be repeated.",
)
@click.option(
    "--minutes", type=_MINUTES, help="Training time of each network in minutes  [default: 0.6]."
)
@click.option(
    "--limit", type=_MINUTES, help="Time limit in minutes for every other rung  [default: 10]."
)
@click.option(
    "--curve/--no-curve",
    default=None,
    help="Also train every rung on parts of the data, for learning curves  [default: with -o].",
)
@click.option("--save", metavar="DIR", help="Save the best model in this directory.")
@click.option(
    "--work", metavar="DIR", help="Directory for finished rungs  [default: the user's cache]."
)
@click.option("--seed", default=0, show_default=True, help="Random seed of networks and samples.")
@click.option(
    "--samples/--no-samples",
    default=True,
    help="Print a sample from each rung that generates text.",
)
@task_options(_configs)
@common
@former_name("start", "since")
@progress.remarking_once()  # by the rungs and by the report
def command(
    data: tuple[str, ...],
    task: str | None,
    valid: str | None,
    test: str | None,
    on: tuple[str, ...],
    output: str | None,
    rungs: str | None,
    pretrained: tuple[str, ...],
    minutes: float | None,
    limit: float | None,
    curve: bool | None,
    save: str | None,
    work: str | None,
    seed: int,
    samples: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a ladder of models on DATA and compare them on the same held-out part.

    Each model is a rung of the ladder, from the most trivial to the most capable. The kind of data
    decides which models are compared: classifiers for a table with a label column or fastText
    labels, taggers for CoNLL, CoNLL-U and lines (or two files) of words and as many tags,
    forecasters for a table with a column of times and numbers, translators for a table with two
    columns of texts or two files that end in languages, language models (in bits per byte) for
    anything else. The output ends with the best model and how to use it.
    """
    from seqloom.comparison.report import check_place, write_report
    from seqloom.comparison.run import compare
    from seqloom.storage import check_target

    if output:
        check_place(output)
    if save:
        check_target(save)
    if options.get("column") and not data:
        raise ConfigError("--column is for a table; name the file")
    ladder, why = _ladder(data, task, on, options)
    if ladder.name == "vectors" and (valid or test or not on):
        raise ConfigError(
            "word vectors are compared on files of analogies or similarities: give --on FILE, and no "
            "--valid or --test"
        )
    kind = tasks.get(ladder.task)
    reading, comparing = options_of(
        kind, data[0] if data else "the bundled text", _configs(kind), options, _configs
    )
    dataset = kind.read(data, reading) if data else None
    held_out = _held_out(kind, reading, valid, test, on)
    names = rungs.replace(",", " ").split() if rungs else None
    table = Table()

    def start(begun: Any) -> None:
        if why is not None:
            progress.say(f"comparing {begun.ladder.models}{why} (--task names another comparison)")
        table.start(begun)

    try:
        with nullcontext() if as_json else shown(table):
            comparison = compare(
                dataset,
                task=ladder,
                rungs=names,
                pretrained=pretrained,
                minutes=minutes,
                limit=limit,
                work=work,
                seed=seed,
                on_start=start,
                on_rung=table.add,
                curve=bool(output) if curve is None else curve,
                **held_out,
                **comparing.to_dict(),
            )
            table.finished = True
        if output:
            write_report(comparison, output)
    except KeyboardInterrupt as error:
        raise type(error)(
            "interrupted; finished rungs are kept; run the same command to resume"
        ) from None
    if not comparison.results:
        raise ConfigError(
            f"none of the {len(comparison.skipped)} rungs was trained: {comparison.skipped[0].reason}"
        )
    if save:
        comparison.save(save)
    if as_json:
        emit(comparison.to_dict())
        return
    _print(comparison, samples, output)


def _ladder(
    data: tuple[str, ...], task: str | None, on: tuple[str, ...], options: dict[str, Any]
) -> tuple[Ladder, str | None]:
    """Choose the comparison: as asked, by options that only one has, or by the data; and say why,
    if it was not asked for.
    """
    from seqloom.comparison import ladder as ladders

    if task is not None or on:
        return ladders.get(task or "vectors"), None
    ladder, why = ladders.of_data(_recognisable(data))
    given = {name for name, value in options.items() if value is not None}
    if not given <= _names(ladder):
        fitting = next((other for other in ladders.every() if given <= _names(other)), ladder)
        ladder, why = fitting, "by the options that were given" if fitting is not ladder else why
    return ladder, f": {why}" if why else ""


def _held_out(
    task: Task, reading: Any, valid: str | None, test: str | None, on: tuple[str, ...]
) -> dict[str, Any]:
    """Return the held-out parts that were named, by argument of `compare`."""
    parts = {
        name: task.read_valid(path, reading)
        for name, path in (("valid", valid), ("test", test))
        if path
    }
    return parts | ({"test": [Path(path) for path in on]} if on else {})


def _recognisable(data: tuple[str, ...]) -> Any:
    """Return the paths that a ladder may recognise: the first file, or two that may belong
    together.
    """
    if not data or data[0] == "-":
        return None
    sides = tuple(map(Path, data))
    from seqloom.data.recognise import pairs_in, tags_in

    return sides if len(sides) == 2 and (pairs_in(sides) or tags_in(sides)) else sides[0]


def _names(ladder: Ladder) -> set[str]:
    return {f.name for config in _configs(tasks.get(ladder.task)) for f in fields(config)}


def _print(comparison: Any, samples: bool, output: str | None) -> None:
    from seqloom.comparison.table import aligned, curve_table, mark, visible

    n, unit, m = comparison.sizes, comparison.ladder.size_unit, comparison.ladder.measure
    other = f" {comparison.ladder.test_unit}" if comparison.ladder.test_unit else ""
    click.echo(
        f"\n{comparison.corpus}: trained on {n['train']:,} {unit}, tested on {n['test']:,}{other} "
        f"({comparison.split}); "
        f"best: {comparison.best.shown}, {m.show(comparison.best.value)} {m.title}"
    )
    for text in mark(comparison):
        click.echo(text)
    if comparison.curve:
        click.echo(
            f"\nlearning curve, {m.title} by {unit} of training data\n{aligned(*curve_table(comparison))}"
        )
    if samples:
        for r in comparison.results:
            if r.sample:
                click.echo(f"\n--- {r.shown}\n{visible(r.sample)}")
    if output:
        click.echo(f"\nreport: {output}/report.html")
    click.echo(f"\n{comparison.answer}")
