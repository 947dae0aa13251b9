"""`seqloom predict MODEL [TEXT]`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom import progress, tasks
from seqloom.cli.options import (
    common,
    json_line,
    no_bars,
    options_of,
    stdin_lines,
    task_options,
)
from seqloom.cli.resumable import contents, write_resumable
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.config import Config
    from seqloom.tasks.task import Outcome, Task


def _configs(task: Task) -> tuple[type[Config], ...]:
    return () if task.predicting is None else (task.predicting,)


@click.command(
    name="predict",
    epilog="""\b
Examples:
  seqloom predict sentiment reviews.txt
  seqloom predict sentiment reviews.csv --column text --keep id,date -o answers.csv
  seqloom predict sentiment reviews.csv --column text -o answers.csv --resume   # after an interruption
  echo "what a lovely film" | seqloom predict sentiment --proba --json
  echo "what a lovely film" | seqloom predict sentiment --explain
  echo "what a lovely film" | seqloom predict sentiment --explain --chart why.png
  seqloom predict entailment new.tsv --text-column premise --pair-column hypothesis
  seqloom predict answers questions.jsonl --json      # question and context; SQuAD's JSON, too
  echo "Time flies like an arrow" | seqloom predict tagger
  tail -f messages.txt | seqloom predict sentiment --json     # answers each line as it comes
  tail -f readings.txt | seqloom predict alarms --stream      # answers within a series
""",
)
@click.argument("model")
@click.argument("text", nargs=-1)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the answers to this file: a table if it ends in .csv, .tsv, .jsonl or .parquet.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="With --output: continue an interrupted prediction at the row where it stopped.",
)
@task_options(_configs)
@common
def command(
    model: str,
    text: tuple[str, ...],
    output: str | None,
    resume: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Predict the class of each line of TEXT, the tags of its words, or the answer to its question.

    A line is one text, or one sentence of words separated by spaces; with --column, each row of a
    table is one. For a classifier of pairs of texts, a line is a pair with a tab between the two;
    or columns of a table are named. An answerer reads questions with their contexts in the same way,
    or SQuAD's JSON. There is one answer for each line or row, in order: an empty
    one (null in --json) where it has no text. Without TEXT, or with -, standard input is read; lines
    that come through a pipe are answered as they come. With --stream answers come within a text: a
    line is a word (or more) of the text or sentence, or a row of numbers of the series.
    """
    if resume and output is None:
        raise ConfigError("--resume continues a file; name it with --output")
    loaded = tasks.open_model("predict", model)
    task = tasks.of(loaded)
    (predicting,) = options_of(task, model, _configs(task), options, _configs)
    if predicting.stream and output is not None:
        raise ConfigError(
            "--stream answers on standard output; leave out --output, or write > FILE"
        )
    if predicting.stream and text not in ((), ("-",)):
        raise ConfigError(
            "--stream reads standard input; leave TEXT out (seqloom predict MODEL --stream < TEXT)"
        )
    if output is not None:
        facts = {
            "model": contents(model),
            "text": contents(*text),
            "options": predicting.to_dict(),
            "json": as_json,
        }
        predict = partial(task.predict, loaded, text, predicting)
        with progress.collecting():
            _write(output, text, predict, facts, resume, as_json)
        return
    answers = (
        task.stream(loaded, stdin_lines(), predicting)
        if predicting.stream
        else task.predict(loaded, text, predicting)
    )
    with progress.collecting(), no_bars() if sys.stdout.isatty() else nullcontext():
        for answer in answers:
            # each at once, for whoever waits for it
            if as_json and answer.values is not None:
                sys.stdout.write(f"{json_line(answer.values)}\n")
            elif not as_json and answer.text is not None:
                sys.stdout.write(f"{answer.text}\n")
            sys.stdout.flush()


def _write(
    output: str,
    inputs: tuple[str, ...],
    predict: Callable[[int], Iterator[Outcome]],
    facts: dict[str, Any],
    resume: bool,
    as_json: bool,
) -> None:
    """Write the answers to a file: a table, lines of JSON, or what is printed."""
    from seqloom.data.unlabelled import as_record, check_table, write_table
    from seqloom.directories import writing_file

    kind = check_table(output)
    if as_json and kind not in (None, "jsonl"):
        raise ConfigError(f"--json writes lines of JSON, and {output} is a table; leave out --json")
    headings: list[str] = []

    def records(done: int) -> Iterator[str]:
        """Yield each answer as a line of JSON, so that what is done can be counted."""
        for answer in predict(done):
            if answer.values is None:
                headings.append(f"{answer.text}\n")
            elif as_json or kind == "jsonl":
                yield f"{json_line(answer.values)}\n"
            else:
                yield f"{json_line(answer.text) if kind is None else as_record(answer.values)}\n"

    def finish(part: Path, path: Path) -> None:
        if as_json or kind == "jsonl":
            os.replace(part, path)
        elif kind is not None:
            write_table(part, path, kind)
        else:
            with (
                part.open(encoding="utf-8") as lines,
                writing_file(path) as beside,
                beside.open("w", encoding="utf-8") as file,
            ):
                file.writelines(headings)
                file.writelines(f"{json.loads(line)}\n" for line in lines)

    write_resumable(output, records, facts, resume, inputs=inputs, finish=finish)
