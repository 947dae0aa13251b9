"""`seqloom complete MODEL [TEXT]`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from seqloom.cli.options import common, emit, stdin_lines
from seqloom.config import MAX_INTEGER
from seqloom.tasks import open_model

if TYPE_CHECKING:
    from seqloom.contracts import LanguageModel


@click.command(
    name="complete",
    epilog="""\b
Examples:
  seqloom complete model "to be or not "
  seqloom complete model --json "to be or not "
  seqloom complete model            # interactive: type, see suggestions, a number takes one
""",
)
@click.argument("model")
@click.argument("text", required=False)
@click.option(
    "-n",
    "--number",
    default=5,
    show_default=True,
    type=click.IntRange(1, MAX_INTEGER),
    help="Number of suggestions.",
)
@common
def command(model: str, text: str | None, number: int, as_json: bool) -> None:
    """Suggest next words after TEXT or, if it does not end in a space, completions of its last word.

    Without TEXT it is interactive, or reads standard input line by line. With --json, prints one
    object per text: the prompt and its suggestions, each with its text and probability.
    """
    loaded = open_model("complete", model)
    if text is not None and text != "-":
        _show(text, loaded.complete(text, number), as_json)
    elif text is None and sys.stdin.isatty() and not as_json:
        _interactive(loaded, number)
    else:
        for row, line in enumerate(stdin_lines()):
            if row and not as_json:
                click.echo()
            _show(line, loaded.complete(line, number), as_json)


def _show(prompt: str, suggestions: list[tuple[str, float]], as_json: bool) -> None:
    if as_json:
        emit(
            {
                "prompt": prompt,
                "suggestions": [{"text": word, "probability": p} for word, p in suggestions],
            }
        )
        return
    for word, p in suggestions:
        click.echo(f"{p:.4f}\t{word}")


def _interactive(model: LanguageModel, number: int) -> None:
    """Suggest words for typed text; a number takes that suggestion, an empty line ends."""
    from seqloom.decoding.completion import attach, unfinished

    click.echo(
        "Type some text and press Enter; a number takes a suggestion, an empty line ends.", err=True
    )
    text = ""
    while True:
        suggestions = model.complete(text, number)
        for i, (word, p) in enumerate(suggestions, 1):
            click.echo(f"  {i}. {word}  ({p:.1%})", err=True)
        click.echo(f"{text}|", nl=False, err=True)
        try:
            typed = input()
        except EOFError:
            click.echo(err=True)
            break
        if not typed:
            break
        if typed.isdigit() and 0 < int(typed) <= len(suggestions):
            text = attach(text, suggestions[int(typed) - 1][0])
            text += " " if unfinished(text) else ""
        else:
            text += typed
    click.echo(text.rstrip())
