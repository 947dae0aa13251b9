"""`seqloom complete MODEL [TEXT]`."""

from __future__ import annotations

import sys

import click

from seqloom.cli.options import common, emit


@click.command(name="complete", epilog="""\b
Examples:
  seqloom complete model "to be or not "
  seqloom complete model            # interactive: type, see suggestions, a number takes one
""")
@click.argument("model")
@click.argument("text", required=False)
@click.option("-n", "--number", default=5, show_default=True, type=click.IntRange(min=1), help="How many suggestions.")
@common
def command(model: str, text: str | None, number: int, as_json: bool) -> None:
    """Likely next words after TEXT, or endings of its last word where it does not end in a blank."""
    from seqloom.storage import load

    loaded = load(model)
    if text is None and not sys.stdin.isatty():
        for line in sys.stdin:
            _show(loaded.complete(line.rstrip("\n"), number), as_json)
    elif text is None:
        _interactive(loaded, number)
    else:
        _show(loaded.complete(text, number), as_json)


def _show(suggestions: list[tuple[str, float]], as_json: bool) -> None:
    if as_json:
        emit([{"text": word, "probability": p} for word, p in suggestions])
        return
    for word, p in suggestions:
        click.echo(f"{p:.4f}\t{word}")


def _interactive(model: object, number: int) -> None:
    """Type text; an empty line ends; a number takes that suggestion."""
    click.echo("Type some text and press Enter; a number takes a suggestion, an empty line ends.", err=True)
    text = ""
    while True:
        suggestions = model.complete(text, number)  # type: ignore[attr-defined]
        for i, (word, p) in enumerate(suggestions, 1):
            click.echo(f"  {i}. {word}  ({p:.1%})", err=True)
        try:
            typed = input(f"{text}|")
        except EOFError:
            break
        if not typed:
            break
        if typed.isdigit() and 0 < int(typed) <= len(suggestions):
            fragment = "" if not text or text[-1].isspace() else text.split()[-1]
            word = suggestions[int(typed) - 1][0]
            text = text + (word if not word.startswith(fragment) else word[len(fragment):]) + " "
        else:
            text += typed
    click.echo(text)
