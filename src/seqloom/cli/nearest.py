"""`seqloom nearest VECTORS TEXT...`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import click

from seqloom import progress
from seqloom.cli.options import approximate, common, emit, stdin_arrivals
from seqloom.config import MAX_INTEGER
from seqloom.errors import ConfigError, DataError
from seqloom.tasks import open_model
from seqloom.tasks.reading import TextReading, text_rows


@click.command(
    name="nearest",
    epilog="""\b
Examples:
  seqloom nearest vectors.txt king
  seqloom nearest saved "new york" paris -n 5
  cat words.txt | seqloom nearest saved - --json
  seqloom nearest sentences "how do I get my money back?" --among questions.txt
""",
)
@click.argument("vectors")
@click.argument("texts", nargs=-1, required=True)
@click.option(
    "-n",
    "--number",
    default=10,
    show_default=True,
    help="Number of neighbours.",
    type=click.IntRange(1, MAX_INTEGER),
)
@click.option(
    "--among",
    metavar="FILE|N",
    help="Only among the lines of FILE, which sentence vectors need; or, for word "
    "vectors, among the N most frequent words.",
)
@approximate
@common
def command(
    vectors: str,
    texts: tuple[str, ...],
    number: int,
    among: str | None,
    approximate: bool,
    as_json: bool,
) -> None:
    """Print the words nearest to each TEXT, a word or phrase, by cosine similarity; or the lines of
    a file nearest to a text.

    VECTORS: a saved model, or a file of word2vec, GloVe or fastText. A single - reads texts from
    standard input, answered as they come: one without a vector is told on stderr, and has no
    neighbours.
    """
    first = None
    if among is not None and among.isdecimal():
        first = int(among)
        if not 1 <= first <= MAX_INTEGER:
            raise ConfigError(
                f"--among is {among}; it must be a file or a number from 1 to {MAX_INTEGER:,}"
            )
    model = open_model("nearest", vectors)
    lines = None if among is None or first else _lines(among)
    asked: Iterable[list[str]] = [list(texts)]
    if texts == ("-",):
        asked = ([line for line in some if line.strip()] for some in stdin_arrivals())
        if lines is not None:  # which are read once, for all questions
            asked = [list(chain.from_iterable(asked))]
    name = "word" if lines is None else "text"

    def find(queries: list[str]) -> list[Any]:
        return model.nearest(queries, number, among=first or lines, approximate=approximate)

    def answers(queries: list[str]) -> Iterator[tuple[str, Any]]:
        """Yield texts with their neighbours; in a pipe, an unknown one does not end the process."""
        try:
            found = find(queries)
        except DataError as error:
            if texts != ("-",) or lines is not None:
                raise
            if len(queries) > 1:
                yield from chain.from_iterable(answers([query]) for query in queries)
                return
            progress.say(str(error))
            found = [[]]
        yield from zip(queries, found)

    for query, neighbours in chain.from_iterable(map(answers, filter(None, asked))):
        if as_json:
            emit(
                {
                    name: query,
                    "nearest": [{name: text, "cosine": cosine} for text, cosine in neighbours],
                }
            )
        else:
            click.echo(query + "".join(f"\n  {cosine:.4f}  {text}" for text, cosine in neighbours))


def _lines(path: str) -> Iterator[str]:
    """Yield the lines of a file that are not blank."""
    runs = text_rows((path,), TextReading()).runs
    return (row.example for run in runs for row in run if not row.blank)
