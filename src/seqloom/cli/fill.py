"""`seqloom fill MODEL [TEXT...]`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from seqloom.cli.options import common, emit, stdin_arrivals
from seqloom.config import MAX_INTEGER
from seqloom.tasks import open_model
from seqloom.tasks.masked import fill_record

if TYPE_CHECKING:
    from seqloom.contracts.masked import Fill


@click.command(
    name="fill",
    epilog="""\b
Examples:
  seqloom fill bert "The capital of France is [MASK]."
  seqloom fill roberta "The capital of France is <mask>." -k 3
  cat lines.txt | seqloom fill bert --json
""",
)
@click.argument("model")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option(
    "-k",
    "--number",
    default=5,
    show_default=True,
    type=click.IntRange(1, MAX_INTEGER),
    help="Number of ways to fill a text.",
)
@common
def command(model: str, texts: tuple[str, ...], number: int, as_json: bool) -> None:
    """Print the likeliest ways to fill the masks of each TEXT, the best first, with their probability.

    A mask is written as the model's tokenizer has it: [MASK], or <mask> for RoBERTa. Several masks
    of a text are guessed independently of one another. Without TEXT, or with a single -, each line
    of standard input is one, answered as it comes; a blank line has an empty answer, so that answers
    are in the order of the lines.
    """
    loaded = open_model("fill", model)
    piped = texts in ((), ("-",))
    row = 0
    for inputs in stdin_arrivals() if piped else [list(texts)]:
        blank = [piped and not text.strip() for text in inputs]
        answers = iter(
            loaded.fill([text for text, nothing in zip(inputs, blank) if not nothing], number)
        )
        for text, nothing in zip(inputs, blank):
            if row and not as_json:
                click.echo()
            _show(text, [] if nothing else next(answers), as_json)
            row += 1


def _show(text: str, fills: list[Fill], as_json: bool) -> None:
    if as_json:
        emit(
            {
                "text": text,
                "fills": [fill_record(fill) for fill in fills],
            }
        )
        return
    for fill in fills:
        click.echo(f"{math.exp(fill.score):.4f}\t{fill.text}")
