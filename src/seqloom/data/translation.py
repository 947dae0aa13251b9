"""Pairs of a source and a target: translations, corrections, spellings, summaries.

`read_parallel` takes two line-aligned files, TSV, CSV, JSON Lines (also `{"translation": {"en": ..., "de":
...}}`, as on the Hugging Face hub) and Parquet; `Parallel.of` takes data in memory. A source may be an
array instead of a text: frames, or a vector of features. A label as source is a text of one token.

    >>> data = Parallel.of([("two dogs", "zwei Hunde"), ("a cat", "eine Katze")])
    >>> len(data), data.part([1]).targets, data.numeric
    (2, ['eine Katze'], False)
    >>> Parallel.of({"en": ["a cat"], "de": ["eine Katze"]}).target_name
    'de'
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.config import parse_size
from seqloom.data.classification import Source, dataset_name
from seqloom.data.documents import Document
from seqloom.data.examples import (
    count_different,
    digest,
    example_digest,
    is_column,
    is_frame,
    refuse_name,
    values,
)
from seqloom.data.kept import Gathering, KeptTexts, taken
from seqloom.data.rows import table_kind
from seqloom.data.showing import parallel_line
from seqloom.data.sources import find_documents, paths_of
from seqloom.data.translation_forms import (
    ARRAY_FILES,
    PairForm,
    check_form,
    line_names,
    not_in_pairs,
    read_arrays,
    read_lines,
    read_separated,
    read_table,
)
from seqloom.data.translation_sides import Sides, as_sources, as_targets, from_columns, from_rows
from seqloom.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class Parallel:
    """Sources and targets, of equal number."""

    # texts, or float32 (T, C): frames; T = 1 for a feature vector; many texts are `data.kept.KeptTexts`
    sources: Any
    targets: Any
    name: str = "pairs"
    source_name: str = "source"  # such as en
    target_name: str = "target"

    @classmethod
    def of(
        cls,
        data: Any,
        targets: Any = None,
        *,
        source: str | None = None,
        target: str | None = None,
        name: str = "pairs",
    ) -> Parallel:
        """Build from a list of (source, target), sources and targets, a dict or frame with such
        columns, a list of dicts, or the Path of a file. `source`, `target`: the columns, if they do not
        have usual names.
        """
        if isinstance(data, (Parallel, Path)):
            if targets is not None:
                raise DataError(
                    f"a {type(data).__name__} has targets of its own; leave targets out"
                )
            return (
                data
                if isinstance(data, Parallel)
                else read_parallel(data, source=source, target=target)
            )
        if isinstance(data, str):
            refuse_name(data, "seqloom.read_parallel")
        if (
            targets is None
            and isinstance(data, tuple)
            and len(data) == 2
            and all(map(is_column, data))
        ):
            data, targets = data
        if targets is not None:
            sides = Sides(
                values(data, "sources"),
                values(targets, "targets"),
                source or "source",
                target or "target",
            )
        elif is_frame(data) or isinstance(data, Mapping):
            sides = from_columns(
                {
                    str(key): data[key]
                    for key in (data if isinstance(data, Mapping) else data.columns)
                },
                name,
                source,
                target,
            )
        elif isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
            raise DataError(
                f"cannot read pairs from a {type(data).__name__}; give a list of (source, target), "
                f"a frame with "
                "two columns, a Path, or what read_parallel returns"
            )
        else:
            sides = from_rows(values(data, name), name, source, target)
        return cls._checked(sides, name)

    @classmethod
    def _checked(cls, sides: Sides, name: str) -> Parallel:
        if len(sides.sources) != len(sides.targets):
            raise DataError(
                f"{name} has {len(sides.sources):,} sources and {len(sides.targets):,} targets; "
                f"give one target "
                "for each source"
            )
        if not sides.sources:
            raise DataError(f"{name} has no pairs; give some")
        kept = [isinstance(side, KeptTexts) for side in (sides.sources, sides.targets)]
        return cls(
            sides.sources if kept[0] else as_sources(sides.sources, name),
            sides.targets if kept[1] else as_targets(sides.targets, name),
            name,
            sides.source_name,
            sides.target_name,
        )

    __repr__ = parallel_line

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def numeric(self) -> bool:
        """Return whether the sources are arrays."""
        return len(self.sources) > 0 and not isinstance(self.sources[0], str)

    @property
    def source_texts(self) -> Any:
        """Return the sources, for models that read texts."""
        if self.numeric:
            raise DataError(f"the sources of {self.name} are arrays of numbers; this needs texts")
        return self.sources

    @cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 of all sources and targets."""
        if not self.numeric:
            hasher = hashlib.sha256(digest(self.source_texts))
        else:
            hasher = hashlib.sha256(repr([np.shape(array) for array in self.sources]).encode())
            for array in self.sources:
                hasher.update(np.ascontiguousarray(array, np.float32).tobytes())
        hasher.update(digest(self.targets))
        return hasher.hexdigest()

    def part(self, rows: Sequence[int] | np.ndarray | slice) -> Parallel:
        """Return some of the pairs, by number, mask or slice."""
        chosen = np.arange(len(self))[rows].tolist()
        return replace(
            self, sources=taken(self.sources, chosen), targets=taken(self.targets, chosen)
        )

    def reversed(self) -> Parallel:
        """Return the pairs in the other direction, targets as sources."""
        return Parallel(
            self.targets, self.source_texts, self.name, self.target_name, self.source_name
        )


def read_parallel(
    paths: Source,
    targets: str | Path | None = None,
    *,
    form: PairForm = "auto",
    source: str | None = None,
    target: str | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    memory: int | str | None = None,
) -> Parallel:
    """Read pairs from a table, several tables, two line-aligned files (the sources, the targets), or `-`
    for standard input.

    Forms: `lines`, two files; `tsv`, `csv`, `jsonl` and `parquet`, where `source` and `target` name
    the columns (without a header by number, from 1). `auto` goes by the file extension and the first
    lines. With `separator`, lines are source, separator, target. A name without an extension stands
    for two files with the extensions `source` and `target`: `train` with en and de for train.en and
    train.de. Arrays as sources may be in a NumPy file (.npy, .npz) before the file of targets. Text
    may be compressed (.gz, .xz, .zst). Texts of one side of more bytes than `memory` (such as "800M")
    are kept in a temporary file.
    """
    check_form(form)
    limit = parse_size(memory)
    files = paths_of(paths, "read_parallel")
    if targets is not None:
        files = [*files, *paths_of(targets, "read_parallel")]
    if not files:
        raise DataError("the list of files is empty; name at least one")
    if len(files) == 1:
        files = _side_files(files[0], source, target) or files
    if len(files) == 2 and Path(files[0]).suffix in ARRAY_FILES:
        return _with_arrays(
            Path(files[0]).expanduser(), _documents(files[1], encoding), source, target
        )
    documents = [document for file in files for document in _documents(file, encoding)]
    if form == "lines" or (form == "auto" and separator is None and _are_sides(documents)):
        if len(documents) != 2:
            raise DataError(not_in_pairs(len(documents)))
        return _two_files(documents, source, target, limit)
    if separator is not None and (form != "auto" or source or target or not separator):
        raise ConfigError(
            "separator must be some characters, and takes neither form nor source and target"
        )
    parts = [
        read_separated(document, separator, limit)
        if separator
        else read_table(document, form, source, target, len(documents), limit)
        for document in documents
    ]
    sides = parts[0]
    if len(parts) > 1:
        both = Gathering(limit), Gathering(limit)
        for part in parts:
            both[0].extend(part.sources)
            both[1].extend(part.targets)
        sides = sides._replace(sources=both[0].texts, targets=both[1].texts)
    return _report_empty(
        Parallel._checked(sides, dataset_name(paths, [document.name for document in documents]))
    )


def _with_arrays(
    path: Path, documents: Sequence[Document], source: str | None, target: str | None
) -> Parallel:
    if len(documents) != 1:
        raise DataError(f"there must be one file of targets beside {path}; got {len(documents)}")
    sides = read_arrays(path, documents[0])
    names = Sides(
        sides.sources, sides.targets, source or sides.source_name, target or sides.target_name
    )
    return _report_empty(
        Parallel._checked(names, f"{path.name} and {Path(documents[0].name).name}")
    )


def _two_files(
    documents: Sequence[Document], source: str | None, target: str | None, memory: int | None
) -> Parallel:
    """Read two line-aligned files. `source` and `target` name the sides; if they are the file extensions
    in the other order, the files are swapped.
    """
    names = line_names(documents[0].name, documents[1].name)
    if (source or names[1], target or names[0]) == (names[1], names[0]) and (source or target):
        documents, names = documents[::-1], names[::-1]
    sides = read_lines(documents[0], documents[1], memory)
    stems = [
        Path(document.name).name.split(f".{name}")[0] for document, name in zip(documents, names)
    ]
    name = (
        f"{stems[0]}.{names[0]}-{names[1]}"
        if stems[0] == stems[1]
        else " and ".join(Path(document.name).name for document in documents)
    )
    return _report_empty(
        Parallel(sides.sources, sides.targets, name, source or names[0], target or names[1])
    )


def _side_files(
    path: str | Path, source: str | None, target: str | None
) -> list[str | Path] | None:
    """Return the two files that a name without an extension stands for; None if they do not exist."""
    files: list[str | Path] = [f"{Path(path).expanduser()}.{end}" for end in (source, target)]
    stands_for = (
        source
        and target
        and str(path) != "-"
        and not Path(path).exists()
        and all(Path(f).is_file() for f in files)
    )
    return files if stands_for else None


def _documents(path: str | Path, encoding: str) -> list[Document]:
    if Path(path).expanduser().is_dir():
        raise DataError(
            f"{path} is a directory; name the file of pairs in it, or the two files of sources and targets"
        )
    return find_documents(path, encoding)


def _are_sides(documents: Sequence[Document]) -> bool:
    """Return whether these are two files whose names are not those of tables."""
    return len(documents) == 2 and not any(table_kind(document.name) for document in documents)


def _report_empty(data: Parallel) -> Parallel:
    """Return the data unchanged, reporting empty texts."""
    empty = sum(
        not target or (isinstance(source, str) and not source)
        for source, target in zip(data.sources, data.targets)
    )
    if empty:
        progress.say(
            f"{data.name}: {empty:,} of {len(data):,} pairs {'has' if empty == 1 else 'have'} an empty side"
        )
    return data


# ---- parallel parts

MIN_TARGETS_OF_LABEL = 20  # average number of targets of a source, from which on sources are labels


def repeats_sources(data: Parallel) -> bool:
    """Return whether few sources share many targets, as labels do.

    >>> repeats_sources(Parallel.of([("German", f"name {i}") for i in range(30)]))
    True
    """
    return count_different(data.sources) * MIN_TARGETS_OF_LABEL <= len(data)


def has_many_targets(data: Parallel) -> bool:
    """Return whether sources have so many distinct targets that none of them is the right one.

    >>> has_many_targets(Parallel.of([("German", f"name {i % 2}") for i in range(30)]))
    False
    """
    different = len(set(undivided(data, labels=True)))
    return count_different(data.sources) * MIN_TARGETS_OF_LABEL <= different


def undivided(data: Parallel, *, labels: bool | None = None) -> Any:
    """Return a key for each pair, equal for pairs that must stay together in training or evaluation data.

    Usually these are the pairs of one source, since a model that has seen one of them knows much of the
    others. If sources are labels (`labels`), all parts should have all of them, so only equal pairs stay
    together.
    """
    if not (repeats_sources(data) if labels is None else labels):
        return data.sources
    return [
        f"{example_digest(source).hex()}\t{target}"
        for source, target in zip(data.sources, data.targets)
    ]


def known_pairs(data: Parallel, training: Parallel) -> np.ndarray:
    """Return which pairs share a key (`undivided`) with the training data: bool (n,).

    >>> known_pairs(Parallel.of([("a b", "x"), ("c", "y")]), Parallel.of([("a  b", "z")])).tolist()
    [True, False]
    """
    labels = repeats_sources(training)
    training_keys = set(map(example_digest, undivided(training, labels=labels)))
    return np.array(
        [example_digest(key) in training_keys for key in undivided(data, labels=labels)]
    )
