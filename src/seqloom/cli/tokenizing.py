"""`seqloom tokenize TEXT`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.clusters import cluster_options, model_facts, refuse_work, workers
from seqloom.cli.options import (
    Choice,
    common,
    config_options,
    emit,
    given,
    json_line,
    read_corpus,
    reading,
)
from seqloom.tasks.reading import TextReading, read_text
from seqloom.text.tokenizer import TokenizerConfig

if TYPE_CHECKING:
    from seqloom.data.corpus import Corpus
    from seqloom.text.tokenizer import Tokenizer


@click.command(
    name="tokenize",
    epilog="""\b
Examples:
  echo "to be or not to be" | seqloom tokenize - --kind word
  seqloom tokenize corpus.txt --kind bpe --vocab-size 8000 --save tokenizer
  seqloom tokenize corpus.txt --tokenizer tokenizer --ids-file corpus.ids
  seqloom tokenize crawl/*.txt --tokenizer tokenizer --cluster 4 > tokens.txt      # four processes
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
@cluster_options
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
    cluster: str | None,
    work: str | None,
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
    refuse_work(cluster, work)
    if cluster is not None:
        if ids_file or (tokenizer is None) != bool(save):
            raise ConfigError(
                "--cluster applies a finished tokenizer (--tokenizer), or trains one (--save); leave the "
                "other and --ids-file out"
            )
        texts = TextReading(
            **given(TextReading, {"encoding": encoding, "column": column, "strict": strict})
        )
        if tokenizer is not None:
            _tokenize_on(cluster, work, text, tokenizer, ids, texts, as_json)
            return
        check_target(str(save))
        trained = Tokenizer(**{"kind": "word", **chosen})
        _train_on(cluster, work, trained, read_text(text, texts), str(save))
        _trained(trained, str(save), as_json)
        return
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
        _trained(chosen_tokenizer, save, as_json)
    if save or ids_file:
        return
    for line in _tokens(chosen_tokenizer, corpus, ids, as_json):
        click.echo(line)


def _tokens(tokenizer: Tokenizer, corpus: Corpus, ids: bool, as_json: bool) -> Iterator[str]:
    """Yield what is printed of each line."""
    for line in corpus.lines():
        row = tokenizer.encode(line).tolist()
        names = row if ids else [tokenizer.token(i) for i in row]
        yield json_line(names) if as_json else " ".join(map(str, names))


def _summary(values: dict[str, Any], as_json: bool) -> None:
    emit(values) if as_json else click.echo(", ".join(f"{k} {v}" for k, v in values.items()))


def _trained(tokenizer: Tokenizer, save: str, as_json: bool) -> None:
    """Say what was saved."""
    summary = {"label": tokenizer.label(), "vocab_size": tokenizer.vocab_size}
    _summary({"tokenizer": save, **summary}, as_json)


def _train_on(
    cluster: str, work: str | None, tokenizer: Tokenizer, corpus: Corpus, save: str
) -> None:
    """Let workers count the words of a closed vocabulary, and save it."""
    from seqloom.errors import ConfigError
    from seqloom.scale.corpora import SharedCorpus
    from seqloom.text.vocabulary import SPLITTERS

    if tokenizer.kind not in SPLITTERS:
        raise ConfigError(
            f"--cluster counts the words of {', '.join(SPLITTERS)} tokenizers; {tokenizer.kind} is trained "
            "by one process: leave --cluster out"
        )
    with workers(cluster, work, save) as given_workers:
        tokenizer.fit(SharedCorpus.of(corpus, given_workers.cluster, given_workers.folder))
        tokenizer.save(save)


def _tokenize_on(
    cluster: str,
    work: str | None,
    text: tuple[str, ...],
    tokenizer: str,
    ids: bool,
    texts: TextReading,
    as_json: bool,
) -> None:
    """Let workers apply a saved tokenizer, and print what they find in order."""
    from seqloom.scale import parts

    facts = model_facts(tokenizer)
    with workers(cluster, work, None) as given_workers:
        answered = given_workers.answers(
            "seqloom.cli.tokenizing:tokenize_part",
            text,
            {
                "tokenizer": facts["model"],
                "digest": facts["digest"],
                "ids": ids,
                "as_json": as_json,
                "reading": texts.to_dict(),
            },
            "tokenizing",
            encoding=texts.encoding,
            strict=texts.strict,
            tables_only=texts.column is not None,
            by_lines=texts.column is None,
        )
        parts.print_all(answered)


def tokenize_part(
    folder: Path,
    part: dict[str, Any],
    tokenizer: str,
    digest: str,
    ids: bool,
    as_json: bool,
    reading: dict[str, Any],
) -> dict[str, Any]:
    """Write the tokens of the lines of a part, on a worker."""
    from seqloom.errors import DataError
    from seqloom.scale import parts
    from seqloom.scale.work import contents
    from seqloom.text.tokenizer import Tokenizer

    if contents(tokenizer) != [digest]:
        raise DataError(f"{tokenizer} is another tokenizer on this worker, or has changed since")
    corpus = read_text(parts.opened(part), TextReading.from_dict(reading))
    lines = _tokens(Tokenizer.load(tokenizer), corpus, ids, as_json)
    rows = parts.write_lines(folder, (f"{line}\n" for line in lines))
    parts.check(part)
    return {"rows": rows}
