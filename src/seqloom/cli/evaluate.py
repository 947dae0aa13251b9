"""`seqloom evaluate MODEL TEXT`."""

from __future__ import annotations

import math

import click

from seqloom.cli.options import common, emit


@click.command(name="evaluate", epilog="""\b
Examples:
  seqloom evaluate model test.txt
  seqloom evaluate model test.txt --against other-model --json
""")
@click.argument("model")
@click.argument("text", default="-")
@click.option("--against", metavar="MODEL", help="A second model: both on the same text, and their paired difference.")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of the text file.")
@common
def command(model: str, text: str, against: str | None, encoding: str, as_json: bool) -> None:
    """Likelihood of held-out text: perplexity with and without unknown words, bits per byte with an interval."""
    from seqloom.contracts import paired_difference
    from seqloom.data.corpus import read
    from seqloom.storage import load

    corpus = read(text, encoding=encoding)
    first = load(model)
    result = first.evaluate(corpus)
    if against is None:
        emit(result.to_dict()) if as_json else click.echo(str(result))
        return
    second = load(against)
    other = second.evaluate(corpus)
    unit, paired = paired_difference(first, second, corpus)
    if as_json:
        emit({model: result.to_dict(), against: other.to_dict(), "difference": {"unit": unit, **paired._asdict()}})
        return
    click.echo(f"{model}\n{result}\n\n{against}\n{other}\n")
    if math.isfinite(paired.difference):
        better = model if paired.difference < 0 else against
        click.echo(f"difference  {paired.difference:+.4f} {unit} ({paired.low:+.4f} to {paired.high:+.4f}), "
                   f"p = {paired.p_value:.3g}: {better} is better" + ("" if paired.p_value < 0.05 else ", not significantly"))
