"""`seqloom convert SOURCE TARGET`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from seqloom.cli.options import Choice, common, emit
from seqloom.cli.vectors import TASK
from seqloom.errors import ConfigError


@click.command(name="convert", epilog="""\b
Examples:
  seqloom convert model.arpa.gz model            # ARPA to a seqloom model
  seqloom convert model model.arpa               # and back
  seqloom convert glove.6B.50d.txt vectors       # word2vec, GloVe or fastText vectors to a model that loads at once
  seqloom convert cc.en.300.bin english          # of fastText with its n-grams: unseen words have vectors, training goes on
  seqloom convert vectors words.bin --form word2vec-binary
  seqloom convert glove.6B.50d.txt words.vec --form fasttext
""")
@click.argument("source")
@click.argument("target")
@click.option("--form", type=Choice(["word2vec", "word2vec-binary", "glove", "fasttext"]),
              help="Of written word vectors  [default: word2vec].")
@common
def command(source: str, target: str, form: str | None, as_json: bool) -> None:
    """Turn a file of another program into a model directory, or a model directory into such a file; with --form a file of
    word vectors into another.

    n-gram models are ARPA files (plain or .gz); word vectors are those of word2vec, GloVe and fastText.
    """
    from seqloom.storage import check_target, load

    model: Any
    if Path(source).is_dir():
        model = load(source)
        if model.task == TASK:
            _write_vectors(model, source, target, form or "word2vec")
        else:
            _write_arpa(model, source, target, form)
    else:
        if target.endswith((".arpa", ".arpa.gz")):
            raise ConfigError(f"{source} is not a model directory, so {target} cannot be made of it; "
                              "to read an ARPA file name a directory as the target")
        if form is None:
            check_target(target)
        model = _read(source)
        if form is None:
            model.save(target)
        else:
            _write_vectors(model, source, target, form)
    if as_json:
        emit({"source": source, "target": target, **({"ngrams": model.sizes} if model.task != TASK else
                                                     {"words": len(model.vectors), "dimensions": model.vectors.dimensions})})
    elif model.task == TASK:
        click.echo(f"{target}: {model.summary()}")
    else:
        click.echo(f"{target}: order {model.config.order}, {sum(model.sizes.values()):,} n-grams")


def _read(source: str) -> Any:
    from seqloom.data.vector_files import file_head, sniff_vectors
    from seqloom.interop.arpa import read_arpa
    from seqloom.interop.fasttext_model import convert_fasttext
    from seqloom.interop.vectors import read_vectors

    path = Path(source)
    head, packed = file_head(path) if path.is_file() else (b"", False)
    if not head or path.name.endswith((".arpa", ".arpa.gz")) or b"\\data\\" in head or head.startswith(b"mmap lm"):
        return read_arpa(source)
    found = sniff_vectors(head)
    if found is not None and found.form == "fasttext-bin" and not packed:
        return convert_fasttext(path)
    return read_vectors(path)


def _write_vectors(model: Any, source: str, target: str, form: str) -> None:
    from seqloom.interop.vectors import write_vectors

    if model.task != TASK:
        raise ConfigError(f"--form is for word vectors; {source} is a {model.task}")
    write_vectors(model.vectors, target, form)  # type: ignore[arg-type]


def _write_arpa(model: Any, source: str, target: str, form: str | None) -> None:
    from seqloom.interop.arpa import write_arpa

    if form is not None:
        raise ConfigError(f"--form is for word vectors; {source} is a {model.task}")
    if not target.endswith((".arpa", ".arpa.gz")):
        raise ConfigError(f"{target}: a model can be turned into ARPA; the name must end in .arpa or .arpa.gz")
    write_arpa(model, target)
