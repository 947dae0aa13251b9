"""`seqloom phrases TEXT -o FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.options import common, config_options, emit, given, read_corpus, reading
from seqloom.config import MAX_INTEGER
from seqloom.directories import writing_file
from seqloom.errors import ConfigError, DataError
from seqloom.text.phrases import PhrasesConfig

if TYPE_CHECKING:
    from seqloom.data.corpus import Corpus
    from seqloom.text.phrases import Phrases


@click.command(
    name="phrases",
    epilog="""\b
Examples:
  seqloom phrases corpus.txt -o joined.txt --passes 2
  seqloom phrases corpus.txt --list 20 --min-count 10 --connectors english
  seqloom phrases corpus.txt --save phrases.json
  seqloom phrases test.txt --use phrases.json -o test-joined.txt
""",
)
@click.argument("text", nargs=-1)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the text with joined phrases, as input for any model.",
)
@click.option(
    "--list",
    "shown",
    type=click.IntRange(0, MAX_INTEGER),
    metavar="N",
    help="Print the N best phrases.  [default: 20 without -o]",
)
@click.option(
    "--save", metavar="FILE.json", help="Save the phrases, to join other texts with --use."
)
@click.option(
    "--use", metavar="FILE.json", help="Use these phrases instead of learning them from TEXT."
)
@reading
@config_options(PhrasesConfig)
@common
def command(
    text: tuple[str, ...],
    output: str | None,
    shown: int | None,
    save: str | None,
    use: str | None,
    encoding: str,
    column: str | None,
    strict: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find phrases in TEXT and join their words: new york becomes new_york.

    Words are separated by white space; split off punctuation first where it matters (seqloom
    tokenize --kind word). Without TEXT, or with -, standard input is read.
    """
    from seqloom.data.encode import check_file
    from seqloom.text.phrases import Phrases

    chosen = given(PhrasesConfig, options)
    if use and (chosen or save):
        raise ConfigError(
            "--use takes finished phrases; leave out --"
            + (next(iter(chosen), "save")).replace("_", "-")
        )
    for target in filter(None, (output, save)):
        check_file(Path(target))
    config = PhrasesConfig(**chosen)
    phrases = Phrases.load(use) if use else None
    corpus = read_corpus(text, encoding, column, strict)
    if output and any(
        Path(str(name)).exists() and Path(str(name)).samefile(output)
        for name in text
        if Path(output).exists()
    ):
        raise ConfigError(f"{output} is the text itself; choose another name")
    if phrases is None:
        phrases = Phrases.learn(corpus, config)
    if save:
        phrases.save(save)
    joined = _write(phrases, corpus, output) if output else None
    _tell(
        phrases, joined, output, save, shown if shown is not None else 0 if output else 20, as_json
    )


def _write(phrases: Phrases, corpus: Corpus, output: str) -> int:
    """Write the joined text, whole or not at all; return how many phrases it has."""
    with writing_file(output, DataError) as partial, open(partial, "wb") as file:
        for block in phrases.join_blocks(corpus):
            file.write(block)
    return phrases.joined


def _tell(
    phrases: Phrases,
    joined: int | None,
    output: str | None,
    save: str | None,
    shown: int,
    as_json: bool,
) -> None:
    best = sorted(phrases, key=lambda phrase: -phrase.score)[:shown]
    name = phrases.config.joiner.join
    if as_json:
        emit(
            {
                "phrases": len(phrases),
                **phrases.info,
                **({} if joined is None else {"joined": joined, "output": output}),
                **({"saved": save} if save else {}),
                "config": phrases.config.to_dict(),
                "best": [
                    {"phrase": name(p.words), "count": p.count, "score": p.score} for p in best
                ],
            }
        )
        return
    if best:
        from seqloom.metrics.tables import aligned

        click.echo(
            "\n".join(
                aligned(
                    [
                        ["phrase", "count", "score"],
                        *([name(p.words), f"{p.count:,}", f"{p.score:,.4g}"] for p in best),
                    ]
                )
            )
        )
    click.echo(
        f"{len(phrases):,} phrases of {phrases.info['tokens']:,} words"
        + ("" if joined is None else f"; joined {joined:,} times")
    )
    for written in filter(None, (output, save)):
        click.echo(f"written to {written}")
