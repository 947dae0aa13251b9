"""`seqloom embed VECTORS [TEXT...]`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.options import Choice, common, emit, no_bars, stdin_arrivals
from seqloom.contracts.nearness import portions
from seqloom.errors import ConfigError
from seqloom.tasks import open_model

if TYPE_CHECKING:
    import numpy as np


@click.command(
    name="embed",
    epilog="""\b
Examples:
  seqloom embed vectors.txt king "new york"
  seqloom embed saved --output lines.npy < lines.txt
""",
)
@click.argument("vectors")
@click.argument("texts", nargs=-1)
@click.option(
    "--unknown",
    type=Choice(["refuse", "skip", "mean"]),
    default="refuse",
    show_default=True,
    help="Words without a vector: refuse them, skip them in their phrase, or use the mean of all vectors.",
)
@click.option(
    "-o", "--output", metavar="FILE.npy", help="Write an array (n, D) instead of lines of numbers."
)
@common
def command(
    vectors: str, texts: tuple[str, ...], unknown: str, output: str | None, as_json: bool
) -> None:
    """Print the vector of each TEXT, separated by tabs.

    VECTORS: a saved model, or a file of word2vec, GloVe or fastText. With word vectors a text is a
    word or a phrase (the mean of its words), with sentence vectors any text. Without TEXT, or with
    a single -, each line of standard input is one, answered as it comes.
    """
    if output is not None and not output.endswith(".npy"):
        raise ConfigError(f"{output}: an array is written as .npy")
    model = open_model("embed", vectors)
    arrivals = stdin_arrivals() if texts in ((), ("-",)) else iter([list(texts)])
    # an array is written when all is there; lines are answered as they come
    runs = arrivals if output is None else iter([chain.from_iterable(arrivals)])
    batches = (
        (group, model.embed(group, unknown=unknown)) for run in runs for group in portions(run)
    )
    if output is not None:
        rows, columns = _write_array(output, (part for _, part in batches), model)
        if as_json:
            emit({"output": output, "texts": rows, "dimensions": columns})
        else:
            click.echo(f"{output}: {rows:,} x {columns}")
        return
    with no_bars():
        for group, part in batches:
            for text, row in zip(group, part.tolist()):
                if as_json:
                    emit({"text": text, "vector": row})
                else:
                    click.echo(
                        "\t".join([text.replace("\t", " "), *(f"{value:.6g}" for value in row)])
                    )


def _write_array(output: str, parts: Iterator[np.ndarray], model: Any) -> tuple[int, int]:
    """Write all rows to one .npy file; its header is written again when their number is known:
    NumPy leaves room for it.
    """
    from numpy.lib import format as npy

    from seqloom.directories import writing_file

    rows = 0
    first = next(parts, None)
    first = model.embed([]) if first is None else first
    width = first.shape[1]

    def header(file: Any) -> None:
        npy.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        )

    with writing_file(output) as partial, partial.open("wb") as file:
        header(file)
        start = file.tell()
        for part in chain([first], parts):
            file.write(part.astype("<f4").tobytes())
            rows += len(part)
        file.seek(0)
        header(file)
        assert file.tell() == start
    return rows, width
