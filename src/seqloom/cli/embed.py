"""`seqloom embed VECTORS [TEXT...]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.clusters import cluster_options, model_facts, refuse_work, workers
from seqloom.cli.options import Choice, common, emit, json_line, no_bars, stdin_arrivals
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
  seqloom embed saved --lines lines.txt --cluster 4 --output lines.npy        # four processes
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
@click.option(
    "--lines",
    multiple=True,
    metavar="FILE",
    help="Each line of this file is a text; may be repeated, or a pattern.",
)
@cluster_options
@common
def command(
    vectors: str,
    texts: tuple[str, ...],
    unknown: str,
    output: str | None,
    lines: tuple[str, ...],
    cluster: str | None,
    work: str | None,
    as_json: bool,
) -> None:
    """Print the vector of each TEXT, separated by tabs.

    VECTORS: a saved model, or a file of word2vec, GloVe or fastText. With word vectors a text is a
    word or a phrase (the mean of its words), with sentence vectors any text. Without TEXT, or with
    a single -, each line of standard input is one, answered as it comes.
    """
    if output is not None and not output.endswith(".npy"):
        raise ConfigError(f"{output}: an array is written as .npy")
    refuse_work(cluster, work)
    if lines and texts:
        raise ConfigError("--lines names the texts; leave out the others")
    model = open_model("embed", vectors)
    if cluster is not None:
        _embed_on(cluster, work, vectors, model, lines, unknown, output, as_json)
        return
    arrivals = (
        _lines_of(lines)
        if lines
        else stdin_arrivals()
        if texts in ((), ("-",))
        else iter([list(texts)])
    )
    # an array is written when all is there; lines are answered as they come
    runs = arrivals if output is None else iter([chain.from_iterable(arrivals)])
    batches = (
        (group, model.embed(group, unknown=unknown)) for run in runs for group in portions(run)
    )
    if output is not None:
        _told(output, *_write_array(output, (part for _, part in batches), model), as_json)
        return
    with no_bars():
        for group, part in batches:
            for line in _shown(group, part, as_json):
                click.echo(line)


def _told(output: str, rows: int, columns: int, as_json: bool) -> None:
    """Say what was written."""
    if as_json:
        emit({"output": output, "texts": rows, "dimensions": columns})
    else:
        click.echo(f"{output}: {rows:,} x {columns}")


def _lines_of(paths: Iterable[str]) -> Iterator[Iterable[str]]:
    """Yield the lines of files."""
    from seqloom.tasks.reading import TextReading, text_rows

    return text_rows(tuple(paths), TextReading()).texts()


def _shown(texts: list[str], vectors: np.ndarray, as_json: bool) -> Iterator[str]:
    """Yield what is printed of some texts."""
    for text, row in zip(texts, vectors.tolist()):
        if as_json:
            yield json_line({"text": text, "vector": row})
        else:
            yield "\t".join([text.replace("\t", " "), *(f"{value:.6g}" for value in row)])


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


# ---- on a cluster

VECTORS = "vectors.npy"  # the file of a part


def _embed_on(
    cluster: str,
    work: str | None,
    path: str,
    model: Any,
    lines: tuple[str, ...],
    unknown: str,
    output: str | None,
    as_json: bool,
) -> None:
    """Let workers embed the lines of files, and put their vectors together."""
    import numpy as np

    from seqloom.contracts.nearness import TEXTS_PER_BATCH
    from seqloom.scale import parts

    if not lines:
        raise ConfigError("--cluster embeds the lines of files; name them with --lines")
    if output is not None:
        parts.check_output(output, lines)
    common = {**model_facts(path), "unknown": unknown, "array": output is not None}
    with workers(cluster, work, output) as given:
        answered = given.answers(
            "seqloom.cli.embed:embed_part",
            lines,
            {**common, "as_json": as_json},
            "embedding",
            rows=TEXTS_PER_BATCH,
        )
        if output is None:
            parts.print_all(answered)
            return
        arrays = (np.load(folder / VECTORS, mmap_mode="r") for folder, _ in answered)
        rows, columns = _write_array(output, arrays, model)
    _told(output, rows, columns, as_json)


def embed_part(
    folder: Path,
    part: dict[str, Any],
    model: str,
    digest: str,
    unknown: str,
    array: bool,
    as_json: bool,
) -> dict[str, Any]:
    """Embed the lines of a part, on a worker."""
    from seqloom.scale import parts
    from seqloom.scale.work import model_at

    loaded = model_at(model, digest)
    runs = chain.from_iterable(_lines_of(parts.opened(part)))
    batches = ((group, loaded.embed(group, unknown=unknown)) for group in portions(runs))
    if array:
        rows, _ = _write_array(str(folder / VECTORS), (vectors for _, vectors in batches), loaded)
    else:
        shown = chain.from_iterable(_shown(*batch, as_json) for batch in batches)
        rows = parts.write_lines(folder, (f"{line}\n" for line in shown))
    parts.check(part)
    return {"rows": rows}
