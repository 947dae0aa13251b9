"""`seqloom tokenize TEXT`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from seqloom.cli.options import Choice, common, config_options, emit, given, read_corpus, reading
from seqloom.text.tokenizer import TokenizerConfig


@click.command(
    name="tokenize",
    epilog="""\b
Examples:
  echo "to be or not to be" | seqloom tokenize - --kind word
  seqloom tokenize corpus.txt --kind bpe --vocab-size 8000 --save tokenizer
  seqloom tokenize corpus.txt --tokenizer tokenizer --ids-file corpus.ids
""",
)
@click.argument("text", nargs=-1)
@click.option(
    "--tokenizer",
    metavar="PATH",
    help="Use a saved tokenizer, that of a model, or a tokenizer.json, instead of training one.",
)
@click.option("--save", metavar="DIR", help="Save the trained tokenizer and print a summary.")
@click.option(
    "--ids-file", metavar="FILE", help="Write all ids to a compact binary file and print a summary."
)
@click.option("--ids", is_flag=True, help="Print ids instead of tokens.")
@click.option(
    "--unit",
    type=Choice(["line", "document", "stream"]),
    default="line",
    show_default=True,
    help="With --ids-file: the unit that ends with </s>.",
)
@reading
@config_options(TokenizerConfig)
@common
def command(
    text: tuple[str, ...],
    tokenizer: str | None,
    save: str | None,
    ids_file: str | None,
    ids: bool,
    unit: Any,
    encoding: str,
    column: str | None,
    strict: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a tokenizer on TEXT, or use a saved one, and print the tokens of each line.

    Without TEXT, or with -, standard input is read.
    """
    from seqloom.data.encode import check_file, encode_corpus
    from seqloom.errors import ConfigError
    from seqloom.text.tokenizer import Tokenizer
    from seqloom.text.tokenizer_directory import check_target

    chosen = given(TokenizerConfig, options)
    if tokenizer and chosen:
        raise ConfigError(
            f"--tokenizer takes a finished tokenizer; drop --{' --'.join(chosen).replace('_', '-')}"
        )
    if save:
        check_target(save)
    if ids_file:
        check_file(Path(ids_file))
    corpus = read_corpus(text, encoding, column, strict)
    chosen_tokenizer = (
        Tokenizer.load(tokenizer)
        if tokenizer
        else Tokenizer(**{"kind": "word", **chosen}).fit(corpus)
    )
    if save:
        chosen_tokenizer.save(save)
    if ids_file:
        encoded = encode_corpus(chosen_tokenizer, corpus, unit=unit, path=Path(ids_file))
        _summary(
            {"ids_file": ids_file, "tokens": len(encoded), "dtype": str(encoded.dtype)}, as_json
        )
    if save:
        summary = {"label": chosen_tokenizer.label(), "vocab_size": chosen_tokenizer.vocab_size}
        _summary({"tokenizer": save, **summary}, as_json)
    if save or ids_file:
        return
    for line in corpus.lines():
        row = chosen_tokenizer.encode(line).tolist()
        names = row if ids else [chosen_tokenizer.token(i) for i in row]
        emit(names) if as_json else click.echo(" ".join(map(str, names)))


def _summary(values: dict[str, Any], as_json: bool) -> None:
    emit(values) if as_json else click.echo(", ".join(f"{k} {v}" for k, v in values.items()))
