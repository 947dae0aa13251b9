"""`seqloom score MODEL [TEXT]`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import click

from seqloom.cli.options import common, emit

BATCH = 10_000  # lines


@click.command(name="score", epilog="""\b
Examples:
  echo "to be or not to be" | seqloom score model
  seqloom score model test.txt --tokens
""")
@click.argument("model")
@click.argument("text", default="-")
@click.option("--tokens", is_flag=True, help="One line a token: token, log-probability, and for n-grams matched order and OOV.")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of the text file.")
@common
def command(model: str, text: str, tokens: bool, encoding: str, as_json: bool) -> None:
    """Natural-log probability of each line (of the whole text for models of documents or streams)."""
    from seqloom.data.corpus import read
    from seqloom.storage import load

    loaded = load(model)
    corpus = read(text, encoding=encoding)
    units = corpus.lines() if loaded.unit == "line" else iter([corpus.text()])
    if tokens:
        for unit in units:
            _show_tokens(loaded, unit, as_json)
        return
    for batch in _batches(units):
        for unit, value in zip(batch, loaded.score(batch)):
            if as_json:
                emit({"score": value, "text": unit})
            else:
                click.echo(f"{value:.6f}\t{unit}" if loaded.unit == "line" else f"{value:.6f}")


def _show_tokens(model: object, unit: str, as_json: bool) -> None:
    if hasattr(model, "full_scores"):
        for token, log_prob, order, oov in model.full_scores(unit):
            if as_json:
                emit({"token": token, "log_prob": log_prob, "order": order, "oov": oov})
            else:
                click.echo(f"{_visible(token)}\t{log_prob:.6f}\t{order}\t{'oov' if oov else ''}".rstrip())
        return
    ids, _ = model.encode(unit)  # type: ignore[attr-defined]
    for token, log_prob in zip(ids, model.token_scores(unit)):  # type: ignore[attr-defined]
        name = model.tokens().token(int(token))  # type: ignore[attr-defined]
        emit({"token": name, "log_prob": log_prob}) if as_json else click.echo(f"{_visible(name)}\t{log_prob:.6f}")


def _visible(token: str) -> str:
    return token.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def _batches(units: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(itertools.islice(units, BATCH)):
        yield batch
