"""`seqloom nearest VECTORS WORD...`."""

from __future__ import annotations

import click

from seqloom.cli.options import common, emit, stdin_lines
from seqloom.cli.vectors import among, approximate
from seqloom.config import MOST
from seqloom.tasks import open_model


@click.command(name="nearest", epilog="""\b
Examples:
  seqloom nearest vectors.txt king
  seqloom nearest saved "new york" paris -n 5
  cat words.txt | seqloom nearest saved - --json
""")
@click.argument("vectors")
@click.argument("words", nargs=-1, required=True)
@click.option("-n", "--number", default=10, show_default=True, help="Number of neighbours.", type=click.IntRange(1, MOST))
@among
@approximate
@common
def command(vectors: str, words: tuple[str, ...], number: int, among: int | None, approximate: bool, as_json: bool) -> None:
    """Print the words nearest to each WORD or phrase, by cosine similarity.

    VECTORS: a saved model, or a file of word2vec, GloVe or fastText. A single - reads words from standard input.
    """
    model = open_model("nearest", vectors)
    queries = [line for line in stdin_lines() if line.strip()] if words == ("-",) else list(words)
    for word, neighbours in zip(queries, model.nearest(queries, number, among=among, approximate=approximate)):
        if as_json:
            emit({"word": word, "nearest": [{"word": w, "cosine": c} for w, c in neighbours]})
        else:
            click.echo(word + "".join(f"\n  {cosine:.4f}  {near}" for near, cosine in neighbours))
