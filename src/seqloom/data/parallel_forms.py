"""The forms of parallel text: two line-aligned files, and tables with a column for each side.

Texts are taken without the white space around them. In two files a line of one belongs to the line of the same number in
the other, empty ones included; where one has more lines than the other nothing can be read, and `data/alignment.py` says
from which line on they do not match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np

from seqloom import progress
from seqloom.data.alignment import unequal_lines
from seqloom.data.documents import Document
from seqloom.data.lines import line_blocks, numbered_lines
from seqloom.data.parallel_sides import (
    SOURCE_NAMES,
    TARGET_NAMES,
    Sides,
    as_frames,
    as_text,
    choose_sides,
    side_name,
)
from seqloom.data.rows import KINDS, Block, open_rows, table_kind
from seqloom.data.unpacking import COMPRESSED
from seqloom.errors import ConfigError, DataError, quoted, suggest

PairForm = Literal["auto", "lines", "tsv", "csv", "jsonl", "parquet"]

ARRAY_FILES = (".npy", ".npz")

_FORMS = ("auto", "lines", "tsv", "csv", "jsonl", "parquet")
_HEAD_LINES = 100
_NO_NAME = ("txt", "text")  # ends of files that say nothing of a side
_LONGEST_NAME = 20  # characters of the name of a side
_LANGUAGES = (
    "ar bg bn ca cs da de el en es et eu fa fi fr ga gl he hi hr hu id it ja ka ko lt lv mk ms mt nb nl nn no pl pt ro ru sk "
    "sl sq sr sv sw ta te th tr uk ur vi zh arabic chinese czech danish dutch english finnish french german greek hebrew "
    "hindi hungarian italian japanese korean norwegian polish portuguese romanian russian spanish swedish turkish ukrainian"
)


def check_form(form: str) -> None:
    """Refuse a form that there is not."""
    if form not in _FORMS:
        raise ConfigError(
            f"form must be one of {', '.join(_FORMS)}; got {form!r}{suggest(str(form), _FORMS)}"
        )


def read_lines(first: Document, second: Document) -> Sides:
    """Two line-aligned files, the source first; the sides are called by the ends of the files' names."""
    sources, targets = _lines(first), _lines(second)
    if len(sources) != len(targets):
        raise unequal_lines((first.name, second.name), (sources, targets))
    return Sides(sources, targets, *line_names(first.name, second.name))


def line_names(first: str, second: str) -> tuple[str, str]:
    """`train.en` and `train.de.gz` are en and de; `src.txt` and `tgt.txt` are src and tgt.

    >>> line_names("data/train.en", "data/train.de.gz"), line_names("src.txt", "tgt.txt"), line_names("a/text", "b/text")
    (('en', 'de'), ('src', 'tgt'), ('source', 'target'))
    """
    paths = [Path(_unpacked(name)) for name in (first, second)]
    for names in ([path.suffix[1:] for path in paths], [path.stem for path in paths]):
        if names[0] != names[1] and all(
            0 < len(name) <= _LONGEST_NAME and name not in _NO_NAME for name in names
        ):
            return names[0], names[1]
    return "source", "target"


def read_table(
    document: Document, form: str, source: str | None, target: str | None, files: int = 1
) -> Sides:
    """Two columns of a table, one of so many files."""
    kind = _recognise(document, files) if form == "auto" else form
    rows = open_rows(document, kind, (source, target, _header(document, kind)), doubtful=False)
    if not rows.kinds:
        raise DataError(f"{document.name} is empty; give a file with some pairs")
    chosen = choose_sides(document.name, rows.kinds, rows.asked[:2])
    sides: tuple[list[Any], list[Any]] = ([], [])
    halves = 0
    for block in rows.blocks(chosen):
        numeric = _is_list((sides[0] or block.values[0])[0])
        for k, (side, its) in enumerate(zip(sides, block.values)):
            side += _values(block, its, chosen[k], numeric and k == 0)
        halves += block.halves
    if halves:
        progress.say(
            f"{document.name}: replaced {halves:,} lone surrogate{'s' * (halves > 1)} by U+FFFD"
        )
    return Sides(*sides, side_name(chosen[0], "source"), side_name(chosen[1], "target"))


def load_arrays(path: Path) -> list[np.ndarray]:
    """From a file of NumPy: (sources, ...) in .npy, or an array for each source in .npz."""
    try:
        loaded = np.load(path)
        return list(loaded) if path.suffix == ".npy" else list(loaded.values())
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except (OSError, ValueError, TypeError, EOFError, BadZipFile) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{path} is not a file of arrays of numbers that NumPy can read ({why})"
        ) from None


def read_arrays(path: Path, targets: Document) -> Sides:
    """Sources from a file of NumPy, and a file of targets."""
    arrays, texts = load_arrays(path), _lines(targets)
    if len(arrays) != len(texts):
        raise DataError(
            f"{path} has {len(arrays):,} arrays and {targets.name} {len(texts):,} lines; there must be one line "
            "for each array"
        )
    return Sides(arrays, texts)


def read_separated(document: Document, separator: str) -> Sides:
    """Lines of source, separator, target."""
    sides: tuple[list[str], list[str]] = ([], [])
    for first, lines in numbered_lines(document):
        for number, line in enumerate(lines, first):
            cells = line.split(separator)
            if len(cells) != 2 and line.strip():
                count = "no" if len(cells) == 1 else str(len(cells) - 1)
                raise DataError(
                    f"{document.name}, line {number}: {count} {quoted(separator)}; there must be one, between "
                    "source and target"
                )
            if len(cells) == 2:
                sides[0].append(cells[0].strip())
                sides[1].append(cells[1].strip())
    return Sides(*sides)


def _lines(document: Document) -> list[str]:
    texts = [line.strip() for _, lines in numbered_lines(document) for line in lines]
    if not any(texts):
        raise DataError(f"{document.name} is empty; give a file with some text")
    return texts


def not_in_pairs(files: int) -> str:
    """What is wrong with so many line-aligned files."""
    return (
        f"line-aligned files come in pairs, source and target, and {files} {'was' if files == 1 else 'were'} given; give "
        "two, with all sources in one and all targets in the other"
    )


def _recognise(document: Document, files: int) -> str:
    """The kind of table by the end of the name and by the first lines."""
    if (kind := table_kind(document.name)) is not None:
        return kind
    head = [line for line in islice(_head(document).split("\n"), _HEAD_LINES) if line.strip()]
    if not head:
        raise DataError(f"{document.name} is empty; give a file with some pairs")
    if head[0].lstrip().startswith("{"):
        return "jsonl"
    if any("\t" in line for line in head):
        return "tsv"
    if files > 2:
        raise DataError(f"{document.name} has one text in each line: {not_in_pairs(files)}")
    raise DataError(
        f"{document.name} has one text in each line; name the file with the other side too, source first, or say "
        f"what it is: --form (form=...) {', '.join(dict.fromkeys(KINDS.values()))}, or --separator"
    )


def _header(document: Document, kind: str) -> str | None:
    """The first cell of a header that names languages or sides, which nothing else would show."""
    if kind not in ("tsv", "csv"):
        return None
    first = _head(document).lstrip("\r\n").split("\n", 1)[0]
    cells = [
        cell.strip(' "\r')
        for cell in first.split("\t" if kind == "tsv" else ";" if "," not in first else ",")
    ]
    return cells[0] if len(cells) > 1 and all(map(is_side, cells)) else None


def is_side(name: str) -> bool:
    """Whether it names a language, or one side of a pair.

    >>> is_side("en_GB"), is_side("tgt"), is_side("txt")
    (True, True, False)
    """
    return _base(name) in {*_LANGUAGES.split(), *SOURCE_NAMES, *TARGET_NAMES}


def _base(cell: str) -> str:
    """A language without its region: en for en_GB."""
    return cell.lower().replace("_", "-").split("-")[0]


def _head(document: Document) -> str:
    return next(line_blocks(document, 1), b"").decode("utf-8")


def _values(block: Block, its: Sequence[Any], column: str, numeric: bool) -> Iterator[Any]:
    """Texts without the white space around them, or arrays."""
    if not set(map(type, its)) - {str} and not numeric:
        return map(str.strip, its)
    if numeric:
        return (as_frames(value, block.place(k)) for k, value in enumerate(its))
    side = f"value of column {column!r}"
    return (as_text(value, block.place(k), side).strip() for k, value in enumerate(its))


def _is_list(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (
        isinstance(value, list) and not (value and isinstance(value[0], str))
    )


def _unpacked(name: str) -> str:
    for packed in COMPRESSED:
        name = name.removesuffix(packed)
    return name
