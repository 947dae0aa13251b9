"""The forms of parallel text: two line-aligned files, tables with a column for each side, arrays as sources.

Texts are stripped of surrounding white space. In two files, lines of the same number belong together, empty
ones included; if one file has more lines, nothing can be read, and the error says from which line on they
do not match (`first_mismatch`). Arrays without targets are read by `number_sources`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np

from seqloom import progress
from seqloom.data.documents import Document, line_blocks, numbered_lines
from seqloom.data.kept import Gathering
from seqloom.data.pieces import COMPRESSED
from seqloom.data.rows import KINDS, Block, open_rows, table_kind
from seqloom.data.sources import find_documents
from seqloom.data.translation_sides import (
    SOURCE_NAMES,
    TARGET_NAMES,
    Sides,
    as_frames,
    as_text,
    cells_of,
    choose_sides,
    lines_of_numbers,
    parse_values,
    side_name,
)
from seqloom.errors import ConfigError, DataError, quoted, suggest

MAX_EXTRA_LINES = 64  # differences of more lines are not searched for a mismatch
_CAP = 1.5  # largest cost of a line: a single free translation is no proof
_VARIES = 0.1  # smallest useful standard deviation of log lengths: about a tenth of the length
_EVIDENCE = 1.0  # cost that skipping lines before the end must save: that of two or three lines


def unequal_lines(names: tuple[str, str], lines: tuple[list[str], list[str]]) -> DataError:
    """Return the error for two files with different numbers of lines."""
    counts = f"{names[0]} has {len(lines[0]):,} lines and {names[1]} {len(lines[1]):,}"
    for name, side in zip(names, lines):
        if _all_alike(side):
            return DataError(
                f"{counts}; where they stop matching cannot be told, since the lines of {name} are "
                f"all about as "
                "long"
            )
    at = first_mismatch(*lines)
    if at is None:
        return DataError(
            f"{counts}, so they cannot be translations line by line; are they the same part of the data?"
        )
    shorter = min(map(len, lines))
    if at >= shorter:
        return DataError(
            f"{counts}; the first {shorter:,} seem to match, so the shorter one was perhaps cut off"
        )
    shown = " beside ".join(quoted(side[at][:40].strip()) for side in lines)
    return DataError(
        f"{counts}; by their lengths they stop matching near line {at + 1:,} ({shown}): is a line missing, "
        "doubled or broken there?"
    )


def _all_alike(lines: Sequence[str]) -> bool:
    """Return whether lines are about equally long, as dates in one format, so that lengths say nothing."""
    return float(np.std(np.log1p([len(line) for line in lines]))) < _VARIES


def first_mismatch(first: Sequence[str], second: Sequence[str]) -> int | None:
    """Return the index of the first line that is aligned with a wrong one; None if the files differ by too
    many lines.

    Translations have lengths in about the same ratio; lines that do not belong together have not. So a
    line costs the distance of its log ratio from the usual one, and of all ways to skip the extra lines of
    the longer file the cheapest is found: after k skips, its line i + k is aligned with line i of the
    shorter. As in Gale and Church 1993, "A Program for Aligning Sentences in Bilingual Corpora", but with
    one operation.

    >>> first_mismatch(["a" * n for n in (3, 9, 4, 20, 7, 30, 2)], ["b" * n for n in (3, 9, 20, 7, 30, 2)])
    2
    """
    a, b = (
        np.log1p(np.fromiter(map(len, side), np.float64, len(side))) for side in (first, second)
    )
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    n, extra = len(shorter), len(longer) - len(shorter)
    if extra > MAX_EXTRA_LINES or extra > n:
        return None
    usual = np.median(longer[:n] - shorter) if n else 0.0
    best, plain = np.empty(0), 0.0
    first_skips = np.full(n + 1, n)  # line of the first skip on the best path to each line
    for k in range(extra + 1):
        costs = np.minimum(np.abs(longer[k : k + n] - shorter - usual), _CAP)
        total = np.concatenate([[0.0], np.cumsum(costs)])
        if k == 0:
            best = total
            plain = total[n]
            continue
        gain = best - total
        least = np.minimum.accumulate(gain)
        new = np.concatenate([[True], gain[1:] < least[:-1]])
        since = np.maximum.accumulate(np.where(new, np.arange(n + 1), 0))
        first_skips = since if k == 1 else first_skips[since]
        best = total + least
    return int(first_skips[n]) if plain - best[n] > _EVIDENCE else n


# ---- parallel forms

PairForm = Literal["auto", "lines", "tsv", "csv", "jsonl", "parquet"]

ARRAY_FILES = (".npy", ".npz")

_FORMS = ("auto", "lines", "tsv", "csv", "jsonl", "parquet")
_HEAD_LINES = 100
_NO_NAME = ("txt", "text")  # file extensions that do not name a side
_LONGEST_NAME = 20  # characters of the name of a side
_LANGUAGES = (
    "ar bg bn ca cs da de el en es et eu fa fi fr ga gl he hi hr hu id it ja ka ko lt lv mk ms mt "
    "nb nl nn no pl pt ro ru sk "
    "sl sq sr sv sw ta te th tr uk ur vi zh arabic chinese czech danish dutch english finnish "
    "french german greek hebrew "
    "hindi hungarian italian japanese korean norwegian polish portuguese romanian russian spanish "
    "swedish turkish ukrainian"
)


def check_form(form: str) -> None:
    """Refuse an unknown form."""
    if form not in _FORMS:
        raise ConfigError(
            f"form must be one of {', '.join(_FORMS)}; got {form!r}{suggest(str(form), _FORMS)}"
        )


def read_lines(first: Document, second: Document, memory: int | None = None) -> Sides:
    """Read two line-aligned files, source first; the sides are named after the file extensions."""
    sources, targets = _lines(first, memory), _lines(second, memory)
    if len(sources) != len(targets):
        raise unequal_lines((first.name, second.name), (sources, targets))
    return Sides(sources, targets, *line_names(first.name, second.name))


def line_names(first: str, second: str) -> tuple[str, str]:
    """Return the names of the sides: `train.en` and `train.de.gz` are en and de; `src.txt` and
    `tgt.txt` are src and tgt.

    >>> line_names("data/train.en", "data/train.de.gz")
    ('en', 'de')
    >>> line_names("src.txt", "tgt.txt"), line_names("a/text", "b/text")
    (('src', 'tgt'), ('source', 'target'))
    """
    paths = [Path(_unpacked(name)) for name in (first, second)]
    for names in ([path.suffix[1:] for path in paths], [path.stem for path in paths]):
        if names[0] != names[1] and all(
            0 < len(name) <= _LONGEST_NAME and name not in _NO_NAME for name in names
        ):
            return names[0], names[1]
    return "source", "target"


def read_table(
    document: Document,
    form: str,
    source: str | None,
    target: str | None,
    files: int = 1,
    memory: int | None = None,
) -> Sides:
    """Read two columns of a table, which is one of `files` files."""
    kind = _recognise(document, files) if form == "auto" else form
    rows = open_rows(document, kind, (source, target, _header(document, kind)), doubtful=False)
    if not rows.kinds:
        raise DataError(f"{document.name} is empty; give a file with some pairs")
    chosen = choose_sides(document.name, rows.kinds, rows.requested[:2])
    sides = Gathering(memory), Gathering(memory)
    halves = 0
    for block in rows.blocks(chosen):
        numeric = _is_list((sides[0].texts or block.values[0])[0])
        for k, (side, cells) in enumerate(zip(sides, block.values)):
            side.extend(_values(block, cells, chosen[k], numeric and k == 0))
        halves += block.halves
    if halves:
        progress.say(
            f"{document.name}: replaced {halves:,} lone surrogate{'s' * (halves > 1)} by U+FFFD"
        )
    names = side_name(chosen[0], "source"), side_name(chosen[1], "target")
    return Sides(sides[0].texts, sides[1].texts, *names)


def load_arrays(path: Path) -> list[np.ndarray]:
    """Load arrays from a NumPy file: (sources, ...) in .npy, or one array per source in .npz."""
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
    """Read sources from a NumPy file, and targets from a text file."""
    arrays, texts = load_arrays(path), _lines(targets)
    if len(arrays) != len(texts):
        raise DataError(
            f"{path} has {len(arrays):,} arrays and {targets.name} {len(texts):,} lines; there "
            f"must be one line "
            "for each array"
        )
    return Sides(arrays, texts)


def read_separated(document: Document, separator: str, memory: int | None = None) -> Sides:
    """Read lines of source, separator, target."""
    gathered = Gathering(memory), Gathering(memory)
    for first, lines in numbered_lines(document):
        sides: tuple[list[str], list[str]] = ([], [])
        for number, line in enumerate(lines, first):
            cells = line.split(separator)
            if len(cells) != 2 and line.strip():
                count = "no" if len(cells) == 1 else str(len(cells) - 1)
                raise DataError(
                    f"{document.name}, line {number}: {count} {quoted(separator)}; there must be "
                    f"one, between "
                    "source and target"
                )
            if len(cells) == 2:
                sides[0].append(cells[0].strip())
                sides[1].append(cells[1].strip())
        for side, texts in zip(gathered, sides):
            side.extend(texts)
    return Sides(gathered[0].texts, gathered[1].texts)


def _lines(document: Document, memory: int | None = None) -> Any:
    gathering, some = Gathering(memory), False
    for _, lines in numbered_lines(document):
        texts = [line.strip() for line in lines]
        some = some or any(texts)
        gathering.extend(texts)
    if not some:
        raise DataError(f"{document.name} is empty; give a file with some text")
    return gathering.texts


def not_in_pairs(files: int) -> str:
    """Say what is wrong with this number of line-aligned files."""
    return (
        f"line-aligned files come in pairs, source and target, and {files} "
        f"{'was' if files == 1 else 'were'} given; give "
        "two, with all sources in one and all targets in the other"
    )


def _recognise(document: Document, files: int) -> str:
    """Return the kind of table, recognised by the file extension and the first lines."""
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
        f"{document.name} has one text in each line; name the file with the other side too, source "
        f"first, or say "
        f"what it is: form=... {', '.join(dict.fromkeys(KINDS.values()))}, or separator=..."
    )


def _header(document: Document, kind: str) -> str | None:
    """Return the first cell of a header that names languages or sides, which `open_rows` cannot recognise."""
    if kind not in ("tsv", "csv"):
        return None
    first = _head(document).lstrip("\r\n").split("\n", 1)[0]
    cells = [
        cell.strip(' "\r')
        for cell in first.split("\t" if kind == "tsv" else ";" if "," not in first else ",")
    ]
    return cells[0] if len(cells) > 1 and all(map(is_side, cells)) else None


def is_side(name: str) -> bool:
    """Return whether a name is that of a language, or of one side of a pair.

    >>> is_side("en_GB"), is_side("tgt"), is_side("txt")
    (True, True, False)
    """
    return _base(name) in {*_LANGUAGES.split(), *SOURCE_NAMES, *TARGET_NAMES}


def _base(cell: str) -> str:
    """Return a language without its region: en for en_GB."""
    return cell.lower().replace("_", "-").split("-")[0]


def _head(document: Document) -> str:
    return next(line_blocks(document, 1), b"").decode("utf-8")


def _values(block: Block, cells: Sequence[Any], column: str, numeric: bool) -> Iterator[Any]:
    """Yield texts without surrounding white space, or arrays."""
    if not set(map(type, cells)) - {str} and not numeric:
        return map(str.strip, cells)
    if numeric:
        return (as_frames(value, block.location(k)) for k, value in enumerate(cells))
    side = f"value of column {column!r}"
    return (as_text(value, block.location(k), side).strip() for k, value in enumerate(cells))


def _is_list(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (
        isinstance(value, list) and not (value and isinstance(value[0], str))
    )


def _unpacked(name: str) -> str:
    for packed in COMPRESSED:
        name = name.removesuffix(packed)
    return name


# ---- number sources


def number_sources(
    paths: Sequence[str], *, encoding: str = "utf-8", column: str | None = None
) -> Iterator[np.ndarray]:
    """Yield arrays, float32 (T, C), as sources without targets; no path, or `-`, means standard input.

    They come from NumPy files, or one from each line: a vector as plain numbers, or JSON, where a list is
    a vector, a list of lists is frames, and an object has one of them in `column`.
    """
    for path in paths or ["-"]:
        if Path(path).suffix in ARRAY_FILES:
            for number, array in enumerate(load_arrays(Path(path).expanduser()), 1):
                yield as_frames(array, f"{path}, array {number}")
            continue
        for document in find_documents(path, encoding):
            for number, line in lines_of_numbers(document):
                location = f"{document.name}, line {number}"
                yield as_frames(_value(line.strip(), location, column), location)


def _value(line: str, location: str, column: str | None) -> Any:
    if line[0] not in "[{":
        return parse_values(cells_of(line), location)
    try:
        value = json.loads(line)
    except ValueError:
        raise DataError(f"{location}: not valid JSON; expected a list of numbers") from None
    if isinstance(value, dict):
        named = [column] if column is not None else [name for name in SOURCE_NAMES if name in value]
        if not named or named[0] not in value:
            raise DataError(
                f"{location} has the fields {', '.join(map(quoted, value))}; column=... says which one "
                f"is the source"
            )
        return value[named[0]]
    return value
