"""`seqloom score MODEL [TEXT]`."""

from __future__ import annotations

import glob
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom import progress, tasks
from seqloom.cli.clusters import cluster_options, model_facts, refuse_work, workers
from seqloom.cli.options import common, emit, json_line, options_of, task_options
from seqloom.errors import ConfigError, quoted
from seqloom.progress import say
from seqloom.tasks.reading import TextReading

if TYPE_CHECKING:
    from seqloom.config import Config
    from seqloom.contracts import LanguageModel
    from seqloom.data.corpus import Corpus
    from seqloom.tasks.task import Task


def _configs(task: Task) -> tuple[type[Config], ...]:
    return () if task.scoring is None else (task.scoring,)


@click.command(
    name="score",
    epilog="""\b
Examples:
  seqloom score model "to be or not to be"
  seqloom score model test.txt --tokens
  echo "to be or not to be" | seqloom score model
  seqloom score model test.txt --colour
  seqloom score translator pairs.tsv
  seqloom score model crawl/*.txt --cluster 4 > scores.tsv       # four processes
""",
)
@click.argument("model")
@click.argument("text", nargs=-1)
@click.option(
    "--tokens",
    is_flag=True,
    help="One line per token: token, log-probability and, for n-gram models, matched order and "
    "whether unknown.",
)
@click.option(
    "--colour",
    "--color",
    is_flag=True,
    help="Language models: print the text with each token coloured by its cost, below a legend.",
)
@click.option(
    "--force-colour",
    "--force-color",
    is_flag=True,
    help="Like --colour, even into a pipe or with NO_COLOR set.",
)
@cluster_options
@task_options(_configs)
@common
def command(
    model: str,
    text: tuple[str, ...],
    tokens: bool,
    colour: bool,
    force_colour: bool,
    cluster: str | None,
    work: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print the natural-log probability of each line of TEXT (of each file, or of the whole text,
    if that is the model's unit).

    TEXT is a file, a directory, a pattern, or the text itself where no file is meant. For a
    translator it is a file with pairs, and the probability is that of each target given its source.
    Without TEXT, or with -, standard input is read.
    """
    if (colour or force_colour) and (tokens or as_json):
        raise ConfigError("--colour shows the text itself; give it without --tokens and --json")
    refuse_work(cluster, work)
    if cluster is not None and (colour or force_colour):
        raise ConfigError("--colour shows one text; leave out --cluster")
    loaded = tasks.open_model("score", model)
    task = tasks.of(loaded)
    (scoring,) = options_of(task, model, _configs(task), options, _configs)
    if cluster is not None:
        _score_on(cluster, work, model, text, task, loaded, scoring, tokens, as_json)
        return
    if isinstance(scoring, TextReading):
        text = tuple(map(_named_or_given, text))
    if colour or force_colour:
        if not hasattr(loaded, "unit"):
            raise ConfigError(f"--colour is for language models; {model} is {task.phrase}")
        _show_coloured(loaded, task.read(text, scoring), force_colour)
        return
    for part in _apart(text, getattr(loaded, "unit", "line")):
        for answer in task.score(loaded, part, scoring, tokens):
            emit(answer.values) if as_json else click.echo(answer.text)


def _named_or_given(text: str) -> str:
    """Return the name of a file, or a text that is scored itself."""
    from seqloom.data.catalogue import PREFIX
    from seqloom.data.sources import GivenText
    from seqloom.text.file_names import looks_like_file

    one_word = not any(map(str.isspace, text))
    dataset = one_word and text.startswith(PREFIX)
    if text == "-" or dataset or looks_like_file(text) or glob.glob(text, recursive=True):
        return text
    if one_word and text:
        say(f"no file is called {quoted(text)}, so it is scored as a text")
    return GivenText(text)


def _apart(text: tuple[str, ...], unit: str) -> list[tuple[str, ...]]:
    """Return what is scored together: files may be one stream, but two texts are two."""
    from seqloom.data.sources import GivenText

    together = unit != "stream" or not all(isinstance(part, GivenText) for part in text)
    return [text] if together or not text else [(part,) for part in text]


def _show_coloured(model: LanguageModel, corpus: Corpus, forced: bool) -> None:
    from seqloom.charts.passage import legend, show, wanted
    from seqloom.tasks.language import units
    from seqloom.views.language import pieces, scale

    bounds, per = scale(model)
    painted = wanted(sys.stdout, forced=forced)
    click.echo(legend(bounds, per, colour=painted), color=painted)
    for unit in units(corpus, model.unit):
        click.echo(
            show(pieces(model, unit), bounds, colour=painted).removesuffix("\n"), color=painted
        )


def _score_on(
    cluster: str,
    work: str | None,
    path: str,
    text: tuple[str, ...],
    task: Task,
    model: Any,
    options: Any,
    tokens: bool,
    as_json: bool,
) -> None:
    """Let workers score files, and print what they find in order."""
    from seqloom.scale import parts
    from seqloom.tasks.reading import BATCH

    unit = getattr(model, "unit", "line")
    if unit == "stream":
        raise ConfigError(
            f"{path} reads all text as one sequence, which has no parts; leave out --cluster"
        )
    with workers(cluster, work, None) as given:
        answered = given.answers(
            "seqloom.cli.score:score_part",
            text,
            {
                **model_facts(path),
                "options": options.to_dict(),
                "tokens": tokens,
                "as_json": as_json,
            },
            "scoring",
            encoding=options.encoding,
            strict=getattr(options, "strict", False),
            tables_only=getattr(options, "column", None) is not None,
            by_lines=isinstance(options, TextReading)
            and unit == "line"
            and task.reads_lines(model, options),
            rows=BATCH,
        )
        parts.print_all(answered)


def score_part(
    folder: Path,
    part: dict[str, Any],
    model: str,
    digest: str,
    options: dict[str, Any],
    tokens: bool,
    as_json: bool,
) -> dict[str, Any]:
    """Score the units of a part, on a worker."""
    from seqloom.scale import parts
    from seqloom.scale.work import model_at

    loaded = model_at(model, digest)
    task = tasks.of(loaded)
    assert task.scoring is not None
    before = part["before"]
    if tokens and before is None:
        raise ConfigError(
            "--tokens numbers the lines; give it one file, or plain text, with --cluster"
        )

    def lines() -> Iterator[str]:
        scoring = task.scoring.from_dict(options)  # type: ignore[union-attr]
        for answer in task.score(loaded, parts.opened(part), scoring, tokens):
            values = answer.values or {}
            if "unit" in values:
                values["unit"] += before
            yield f"{json_line(values) if as_json else answer.text}\n"

    with progress.collecting():
        rows = parts.write_lines(folder, lines())
    parts.check(part)
    return {"rows": rows}
