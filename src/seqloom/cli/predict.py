"""`seqloom predict MODEL [TEXT]`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.options import common, emit, load_for, read_corpus, reading
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.contracts import Classifier, Tagger

BATCH = 10_000  # lines


@click.command(name="predict", epilog="""\b
Examples:
  seqloom predict sentiment reviews.txt
  echo "what a lovely film" | seqloom predict sentiment --proba --json
  echo "what a lovely film" | seqloom predict sentiment --explain
  echo "Time flies like an arrow" | seqloom predict tagger
""")
@click.argument("model")
@click.argument("text", nargs=-1)
@click.option("--proba", is_flag=True, help="Classifiers: the probability of every class.")
@click.option("--explain", is_flag=True, help="Classifiers that can: the words that decided, with their weight in nats.")
@reading
@common
def command(model: str, text: tuple[str, ...], proba: bool, explain: bool, encoding: str, column: str | None,
            as_json: bool) -> None:
    """The class of each line of TEXT, or the tags of its words.

    A line is one text, or one sentence of words between blanks; with --column each row of a table is. Without TEXT, or
    with -, standard input is read.
    """
    loaded = load_for("predict", model, "classifier", "tagger")
    if (proba or explain) and loaded.task != "classifier":
        raise ConfigError(f"--proba and --explain are for classifiers; {model} is a {loaded.task}")
    if proba and explain:
        raise ConfigError("--explain tells the odds of two classes; for probabilities of all of them leave it out")
    if explain and not hasattr(loaded, "explain"):
        raise ConfigError(f"--explain: a {loaded.name} model cannot say which words decided")
    corpus = read_corpus(text, encoding, column)
    given = (row for _, row in corpus.each_document()) if column is not None else corpus.lines()
    units = (text.rstrip("\r\n") for text in given)
    if loaded.task == "tagger":
        _tag(loaded, units, as_json)
    elif explain:
        _explain(loaded, units, as_json)
    else:
        _classify(loaded, units, proba, as_json)


def _classify(model: Classifier, units: Iterator[str], proba: bool, as_json: bool) -> None:
    classes = model.classes
    if proba and not as_json:
        click.echo("\t".join(["label", *map(_line, classes), "text"]))
    while texts := list(itertools.islice(units, BATCH)):
        probs = model.predict_proba(texts)
        for text, row in zip(texts, probs.tolist()):
            best = classes[max(range(len(row)), key=row.__getitem__)]
            if as_json:
                emit({"label": best, **({"probabilities": dict(zip(classes, row))} if proba else {}), "text": text})
            else:
                click.echo("\t".join([_line(best), *([f"{p:.4f}" for p in row] if proba else []), _line(text)]))


def _explain(model: Any, units: Iterator[str], as_json: bool) -> None:
    for text in units:
        found = model.explain(text)
        if as_json:
            emit({"text": text, **found.to_dict()})
        else:
            click.echo(f"{_line(text)}\n{found}\n")


def _tag(model: Tagger, units: Iterator[str], as_json: bool) -> None:
    while sentences := [line.split() for line in itertools.islice(units, BATCH)]:
        for words, tags in zip(sentences, model.predict(sentences)):
            if as_json:
                emit({"words": words, "tags": tags})
            else:
                click.echo("".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags)))


def _line(text: str) -> str:
    return " ".join(text.split())
