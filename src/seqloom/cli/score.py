"""`seqloom score MODEL [TEXT]`."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from seqloom.cli.options import common, emit, read_corpus, reading
from seqloom.errors import ConfigError
from seqloom.tasks import open_model

if TYPE_CHECKING:
    from seqloom.contracts import LanguageModel
    from seqloom.data.corpus import Corpus
    from seqloom.data.documents import Document
    from seqloom.data.tables import Table

BATCH = 10_000  # texts that are scored together
MOST = 1 << 22  # of their characters


@click.command(name="score", epilog="""\b
Examples:
  echo "to be or not to be" | seqloom score model
  seqloom score model test.txt --tokens
  seqloom score model test.txt --colour
""")
@click.argument("model")
@click.argument("text", nargs=-1)
@click.option("--tokens", is_flag=True,
              help="One line per token: token, log-probability and, for n-gram models, matched order and whether unknown.")
@click.option("--colour", "--color", is_flag=True,
              help="Print the text with each token coloured by its cost, below a legend.")
@click.option("--force-colour", "--force-color", is_flag=True, help="Like --colour, even into a pipe or with NO_COLOR set.")
@reading
@common
def command(model: str, text: tuple[str, ...], tokens: bool, colour: bool, force_colour: bool, encoding: str,
            column: str | None, strict: bool, as_json: bool) -> None:
    """Print the natural-log probability of each line of TEXT (of each file, or of the whole text, if that is the model's unit).

    Without TEXT, or with -, standard input is read.
    """
    if (colour or force_colour) and (tokens or as_json):
        raise ConfigError("--colour shows the text itself; give it without --tokens and --json")
    loaded = open_model("score", model)
    corpus = read_corpus(text, encoding, column, strict)
    if tokens:
        for number, unit in enumerate(_units(corpus, loaded.unit), 1):
            _show_tokens(loaded, number, unit, as_json)
        return
    if colour or force_colour:
        _show_coloured(loaded, _units(corpus, loaded.unit), force_colour)
        return
    key = "text" if loaded.unit == "line" else "name"
    for shown, value in _scores(loaded, corpus):
        if as_json:
            emit({"score": value, key: shown})
        else:
            click.echo(f"{value:.6f}\t{shown}")


def _units(corpus: Corpus, unit: str) -> Iterator[str]:
    """What the model scores as one."""
    if unit == "line":
        return corpus.lines()
    return iter([corpus.text()]) if unit == "stream" else (text for _, text in corpus.each_document())


def _scores(model: LanguageModel, corpus: Corpus) -> Iterator[tuple[str, float]]:
    """A line, or the name of what is longer, and its score."""
    from seqloom.contracts.reading import tally
    from seqloom.data.corpus import Corpus

    if model.unit == "line":
        yield from _many(model, ((line, line) for line in corpus.lines()))
    elif model.unit == "stream":
        yield corpus.name, 0.0 - tally(model, corpus).nats
    else:
        for small, documents in itertools.groupby(corpus.documents, _small):
            if small:
                yield from _many(model, (pair for document in documents for pair in document.documents()))
            else:
                yield from ((d.name, 0.0 - tally(model, Corpus([d], d.name)).nats) for d in documents)


def _small(document: Document | Table) -> bool:
    """Whether it holds texts that can be scored many at a time."""
    from seqloom.data.tables import Table

    size = document.size()
    return isinstance(document, Table) or (size is not None and size < MOST)


def _many(model: LanguageModel, texts: Iterator[tuple[str, str]]) -> Iterator[tuple[str, float]]:
    """Names and scores of texts, scored together, but of long ones few."""
    batch: list[tuple[str, str]] = []
    size = 0
    for pair in itertools.chain(texts, [None]):
        if pair is not None:
            batch.append(pair)
            size += len(pair[1])
        if pair is None or len(batch) == BATCH or size > MOST:
            yield from zip((name for name, _ in batch), model.score([text for _, text in batch]))
            batch, size = [], 0


def _show_coloured(model: LanguageModel, units: Iterator[str], forced: bool) -> None:
    from seqloom.charts.terminal import legend, show, wanted
    from seqloom.comparison.passage import pieces
    from seqloom.inspect.costs import scale

    borders, per = scale(model)
    painted = wanted(sys.stdout, forced=forced)
    click.echo(legend(borders, per, colour=painted), color=painted)
    for unit in units:
        click.echo(show(pieces(model, unit), borders, colour=painted).removesuffix("\n"), color=painted)


def _show_tokens(model: LanguageModel, number: int, unit: str, as_json: bool) -> None:
    if hasattr(model, "full_scores"):
        for token, log_prob, order, oov in model.full_scores(unit):
            if as_json:
                emit({"unit": number, "token": token, "log_prob": log_prob, "order": order, "oov": oov})
            else:
                click.echo(f"{_visible(token)}\t{log_prob:.6f}\t{order}" + ("\toov" if oov else ""))
        return
    ids, _ = model.encode(unit)
    for token, log_prob in zip(ids, model.token_scores([unit])[0]):
        name = model.tokenizer.token(int(token))
        if as_json:
            emit({"unit": number, "token": name, "log_prob": log_prob})
        else:
            click.echo(f"{_visible(name)}\t{log_prob:.6f}")


def _visible(token: str) -> str:
    return token.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
