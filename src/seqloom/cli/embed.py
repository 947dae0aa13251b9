"""`seqloom embed VECTORS [TEXT...]`."""

from __future__ import annotations

import click

from seqloom.cli.options import Choice, common, emit, stdin_lines
from seqloom.errors import ConfigError
from seqloom.tasks import open_model


@click.command(name="embed", epilog="""\b
Examples:
  seqloom embed vectors.txt king "new york"
  cat lines.txt | seqloom embed saved --output lines.npy
""")
@click.argument("vectors")
@click.argument("texts", nargs=-1)
@click.option("--unknown", type=Choice(["refuse", "skip", "mean"]), default="refuse", show_default=True,
              help="Words without a vector: refuse them, skip them in their phrase, or use the mean of all vectors.")
@click.option("-o", "--output", metavar="FILE.npy", help="Write an array (n, D) instead of lines of numbers.")
@common
def command(vectors: str, texts: tuple[str, ...], unknown: str, output: str | None, as_json: bool) -> None:
    """Print the vector of each TEXT, a word or a phrase (the mean of its words), separated by tabs.

    VECTORS: a saved model, or a file of word2vec, GloVe or fastText. Without TEXT, or with a single -, each line of standard
    input is one.
    """
    if output is not None and not output.endswith(".npy"):
        raise ConfigError(f"{output}: an array is written as .npy")
    model = open_model("embed", vectors)
    asked = list(stdin_lines()) if texts in ((), ("-",)) else list(texts)
    made = model.embed(asked, unknown=unknown)
    if output is not None:
        from io import BytesIO

        import numpy as np

        from seqloom.charts.files import write

        buffer = BytesIO()
        np.save(buffer, made)
        write(output, buffer.getvalue())
        if as_json:
            emit({"output": output, "texts": made.shape[0], "dimensions": made.shape[1]})
        else:
            click.echo(f"{output}: {made.shape[0]:,} x {made.shape[1]}")
        return
    for text, row in zip(asked, made.tolist()):
        if as_json:
            emit({"text": text, "vector": row})
        else:
            click.echo("\t".join([text.replace("\t", " "), *(f"{value:.6g}" for value in row)]))
