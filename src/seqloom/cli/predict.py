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
from seqloom.cli.clusters import cluster_options, model_facts, refuse_work, workers
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
from seqloom.places import is_remote, local_file

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
  seqloom predict sentiment reviews/*.txt --cluster 4 -o answers.jsonl       # four processes
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
@cluster_options
@task_options(_configs)
@common
def command(
    model: str,
    text: tuple[str, ...],
    output: str | None,
    resume: bool,
    cluster: str | None,
    work: str | None,
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
    refuse_work(cluster, work)
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
    if output is not None and is_remote(output) and resume:
        raise ConfigError("--resume continues a file on this machine; leave it out")
    with nullcontext() if output is None else local_file(output) as target:
        if cluster is not None:
            _predict_on(
                cluster, work, model, text, target, resume, task, loaded, predicting, as_json
            )
            return
        if target is not None:
            facts = {
                "model": contents(model),
                "text": contents(*text),
                "options": predicting.to_dict(),
                "json": as_json,
            }
            predict = partial(task.predict, loaded, text, predicting)
            with progress.collecting():
                _write(target, text, predict, facts, resume, as_json)
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
    kind = _kind(output, as_json)
    headings: list[str] = []
    write_resumable(
        output,
        lambda done: _records(predict(done), headings, as_json, kind),
        facts,
        resume,
        inputs=inputs,
        finish=partial(_finish, headings, as_json, kind),
    )


def _kind(output: str, as_json: bool) -> str | None:
    """Return which kind of table is written; None: none."""
    from seqloom.data.unlabelled import check_table

    kind = check_table(output)
    if as_json and kind not in (None, "jsonl"):
        raise ConfigError(f"--json writes lines of JSON, and {output} is a table; leave out --json")
    return kind


def _records(
    answers: Iterator[Outcome], headings: list[str], as_json: bool, kind: str | None
) -> Iterator[str]:
    """Yield each answer as a line of JSON, so that what is done can be counted."""
    from seqloom.data.unlabelled import as_record

    for answer in answers:
        if answer.values is None:
            headings.append(f"{answer.text}\n")
        elif as_json or kind == "jsonl":
            yield f"{json_line(answer.values)}\n"
        else:
            yield f"{json_line(answer.text) if kind is None else as_record(answer.values)}\n"


def _finish(
    headings: list[str], as_json: bool, kind: str | None, records: Path, target: Path
) -> None:
    """Make the file of the complete records."""
    from seqloom.data.unlabelled import write_table
    from seqloom.directories import writing_file

    if as_json or kind == "jsonl":
        os.replace(records, target)
    elif kind is not None:
        write_table(records, target, kind)
    else:
        with (
            records.open(encoding="utf-8") as lines,
            writing_file(target) as beside,
            beside.open("w", encoding="utf-8") as file,
        ):
            file.writelines(headings)
            file.writelines(f"{json.loads(line)}\n" for line in lines)


# ---- on a cluster


def _predict_on(
    cluster: str,
    work: str | None,
    path: str,
    text: tuple[str, ...],
    output: str | None,
    resume: bool,
    task: Task,
    model: Any,
    options: Any,
    as_json: bool,
) -> None:
    """Let workers predict, and put their answers together."""
    from seqloom.scale import parts
    from seqloom.tasks.reading import BATCH

    if options.stream or resume:
        flag = "--stream" if options.stream else "--resume"
        also = "; the same command goes on by itself" if resume else ""
        raise ConfigError(f"--cluster is for whole files; leave {flag} out{also}")
    if getattr(options, "chart", None) is not None:
        raise ConfigError("--chart draws one text; leave out --cluster")
    kind = None if output is None else _kind(output, as_json)
    if output is not None:
        parts.check_output(output, text)
    common = {
        **model_facts(path),
        "options": options.to_dict(),
        "as_json": as_json,
        "kind": kind,
        "printed": output is None,
    }
    with workers(cluster, work, output) as given:
        answered = given.answers(
            "seqloom.cli.predict:predict_part",
            text,
            common,
            "predicting",
            encoding=options.encoding,
            strict=options.strict,
            tables_only=getattr(options, "column", None) is not None,
            by_lines=task.reads_lines(model, options),
            rows=BATCH,
        )
        if output is None:
            parts.print_all(answered)
            return
        rows, headings = 0, list[str]()
        records = given.folder / "records"
        with records.open("wb") as file:
            for folder, values in answered:
                parts.append(folder, file)
                rows += values["rows"]
                headings = headings or values["headings"]
        _finish(headings, as_json, kind, records, Path(output))
    progress.say(f"{output}: {rows:,} {'line' if rows == 1 else 'lines'}")


def predict_part(
    folder: Path,
    part: dict[str, Any],
    model: str,
    digest: str,
    options: dict[str, Any],
    as_json: bool,
    kind: str | None,
    printed: bool,
) -> dict[str, Any]:
    """Answer the rows of a part, on a worker."""
    from seqloom.scale import parts
    from seqloom.scale.work import model_at

    loaded = model_at(model, digest)
    task = tasks.of(loaded)
    assert task.predicting is not None
    predicting = task.predicting.from_dict(options)
    headings: list[str] = []
    with progress.collecting():
        answers = task.predict(loaded, parts.opened(part), predicting)
        if not printed:
            lines = _records(answers, headings, as_json, kind)
        else:
            first = part["before"] == 0
            lines = _printed(answers, as_json, first)
        rows = parts.write_lines(folder, lines)
    parts.check(part)
    return {"rows": rows, "headings": headings}


def _printed(answers: Iterator[Outcome], as_json: bool, first: bool) -> Iterator[str]:
    """Yield what is printed of answers; headings only before the first part."""
    for answer in answers:
        if as_json:
            if answer.values is not None:
                yield f"{json_line(answer.values)}\n"
        elif answer.text is not None and (first or answer.values is not None):
            yield f"{answer.text}\n"
