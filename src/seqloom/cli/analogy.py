"""`seqloom analogy VECTORS A B C`."""

from __future__ import annotations

import click

from seqloom.cli.options import Choice, among, approximate, common, emit
from seqloom.config import MAX_INTEGER
from seqloom.tasks import open_model


@click.command(
    name="analogy",
    epilog="""\b
Examples:
  seqloom analogy vectors.txt man king woman        # man is to king as woman is to ...
  seqloom analogy saved paris france rome --method mul --json
""",
)
@click.argument("vectors")
@click.argument("a")
@click.argument("b")
@click.argument("c")
@click.option(
    "-n",
    "--number",
    default=10,
    show_default=True,
    help="Number of answers.",
    type=click.IntRange(1, MAX_INTEGER),
)
@click.option(
    "--method",
    type=Choice(["add", "mul"]),
    default="add",
    show_default=True,
    help="b - a + c (Mikolov 2013), or products of cosines (Levy and Goldberg 2014).",
)
@among
@approximate
@common
def command(
    vectors: str,
    a: str,
    b: str,
    c: str,
    number: int,
    method: str,
    among: int | None,
    approximate: bool,
    as_json: bool,
) -> None:
    """Find the words that are to C as B is to A.

    VECTORS: a saved model, or a file of word2vec, GloVe or fastText.
    """
    answers = open_model("analogy", vectors).analogy(
        a, b, c, number, method=method, among=among, approximate=approximate
    )
    if as_json:
        emit(
            {
                "a": a,
                "b": b,
                "c": c,
                "answers": [{"word": w, "score": score} for w, score in answers],
            }
        )
    else:
        click.echo("\n".join(f"{score:.4f}  {word}" for word, score in answers))
