"""`seqloom data describe TEXT`."""

from __future__ import annotations

import click

from seqloom.cli.options import common, emit, read_corpus, reading


@click.command(
    name="describe",
    epilog="""\b
Examples:
  seqloom data describe corpus.txt --chart corpus.html
  seqloom data describe corpus.txt --held-out test.txt --kinds word,bpe --sizes 1000,4000 --normalize topic
""",
)
@click.argument("text", nargs=-1)
@click.option(
    "--held-out", metavar="FILE", help="Held-out text  [default: the last tenth of TEXT]."
)
@click.option(
    "--kinds",
    metavar="KIND,..",
    help="Tokenizers to try  [default: whitespace,word,char,byte,bpe].",
)
@click.option(
    "--sizes", metavar="N,..", help="Vocabulary sizes to try  [default: 1000,8000,32000]."
)
@click.option(
    "--normalize",
    default="none",
    show_default=True,
    metavar="PRESET|STEP=VALUE,..",
    help="Preprocessing of the text.",
)
@click.option(
    "--chart", metavar="FILE", help="Draw coverage, unknown tokens and lengths: .png, .svg, .html."
)
@reading
@common
def command(
    text: tuple[str, ...],
    held_out: str | None,
    kinds: str | None,
    sizes: str | None,
    normalize: str,
    chart: str | None,
    encoding: str,
    column: str | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Describe TEXT: words, coverage, unknown words by tokenizer and vocabulary size, and lengths.

    Without TEXT, or with -, standard input is read.
    """
    from seqloom.data.describe import KINDS, SIZES, describe
    from seqloom.data.tables import table_kind
    from seqloom.errors import ConfigError

    if chart is not None:
        from seqloom.charts.theme import check_target

        check_target(chart)
    try:
        numbers = tuple(int(size) for size in sizes.replace(",", " ").split()) if sizes else SIZES
    except ValueError:
        raise ConfigError(f"--sizes must be numbers such as 1000,8000; got {sizes!r}") from None
    statistics = describe(
        read_corpus(text, encoding, column, strict),
        held_out=None
        if held_out is None
        else read_corpus((held_out,), encoding, column if table_kind(held_out) else None, strict),
        kinds=tuple(kinds.replace(",", " ").split()) if kinds else KINDS,
        sizes=numbers,
        normalize=normalize,
    )
    if chart is not None:
        from seqloom.views import description

        description(statistics).save(chart)
    emit(statistics.to_dict()) if as_json else click.echo(statistics.table())
