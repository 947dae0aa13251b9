"""The models that the page can show: saved ones below some directories, each opened when it is first
asked for, one copy, and opened anew where it was replaced.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.arrays import read_arrays
from seqloom.errors import ConfigError, SeqloomError, quoted
from seqloom.serving.catalogue import Catalogue, Served
from seqloom.serving.configs import ServeConfig
from seqloom.serving.fields import Refused
from seqloom.storage import read_config
from seqloom.views.catalogue import views_of
from seqloom.views.needs import parts_of_weights

DEEPEST, MOST_MODELS = 5, 2000  # folders within folders; models that are listed
FILES = ("config.json", "model.safetensors")
RESULT = "result.json"  # of a rung, beside its model

Stamp = tuple[tuple[int, int, int], ...]


class Book(NamedTuple):
    """A saved model that is not necessarily opened."""

    path: Path
    stamp: Stamp
    config: dict[str, Any]
    result: dict[str, Any]  # of the comparison that trained it; empty where there was none
    parts: list[str]  # of its network, by the names of its weights


class Shelf(Catalogue):
    """All saved models below directories, by name."""

    def __init__(self, directories: Sequence[str | Path], config: ServeConfig) -> None:
        super().__init__({}, config)
        self.directories = [Path(one) for one in directories]
        for directory in self.directories:
            if not directory.is_dir():
                raise ConfigError(f"{directory}: no such directory; give one with saved models")
        self.titles: dict[Path, str] = {}  # of some directories, for names that would be taken
        self._stamps: dict[str, Stamp] = {}  # of opened models
        self._opening = threading.Lock()  # one at a time
        self.books: dict[str, Book] = {}
        self.scan()

    def scan(self) -> None:
        """Look for models again."""
        found: dict[str, Book] = {}
        known = {book.path: (name, book) for name, book in self.books.items()}
        for path in [p for directory in self.directories for p in saved_below(directory)]:
            name, old = known.get(path, (None, None))
            stamp = stamp_of(path)
            if stamp is None:
                continue
            if old is not None and name is not None and old.stamp == stamp:
                found[name] = old
            elif (book := _read(path, stamp)) is not None:
                found[name or self._free_name(book, {**self.books, **found})] = book
        self.books = found

    def waits_for(self, name: str) -> bool:
        """Return whether a model is to be opened, or looked for, before it is found."""
        book = self.books.get(name)
        return book is None or self._stamps.get(name) != stamp_of(book.path)

    def open(self, name: str) -> None:
        """Open a model; one that was removed, or cannot be opened, is refused in one line."""
        with self._opening:
            book = self.books.get(name)
            if book is None:
                self.scan()  # it may be new
                book = self.books.get(name)
            if book is None:
                raise self._unknown(name)
            stamp = stamp_of(book.path)
            if stamp is None:
                self._forget(name)
                raise Refused(
                    f"{name} was removed from {book.path}",
                    status=410,
                    field="model",
                    code="removed",
                )
            if self._stamps.get(name) == stamp:
                return
            try:
                new = Served(name, str(book.path), self.config)
            except SeqloomError as error:
                self._forget(name)
                message = " ".join(str(error).split())
                raise Refused(f"{name} cannot be opened: {message}", field="model") from None
            old = self._models.get(name)
            self._models = self._models | {name: new}
            self._stamps[name] = stamp
            self.books[name] = _read(book.path, stamp) or book
            if old is not None:
                old.close()

    def reload(self, name: str) -> Served:
        """Open a model's directory anew; requests that run end on the old one."""
        self._stamps.pop(name, None)
        self.open(name)
        return self._models[name]

    def served(self, name: str) -> Served:
        """Return an open model, opened now if need be."""
        if self.waits_for(name):
            self.open(name)
        return self._models[name]

    def path(self, name: str) -> Path:
        """Return the directory of a model."""
        if name not in self.books:
            raise self._unknown(name)
        return self.books[name].path

    def described(self) -> list[dict[str, Any]]:
        """Return what the page says of each model, without opening any."""
        return [self.describe(name, book) for name, book in list(self.books.items())]

    def describe(self, name: str, book: Book) -> dict[str, Any]:
        """Return a line about a model. Its views are known once it was opened, else they are None."""
        served = self._models.get(name)
        tokenizer = (book.config.get("tokenizers") or {}).get("text") or {}
        return {
            "name": name,
            "path": str(book.path),
            "task": book.config.get("task"),
            "kind": book.config.get("model"),
            "tokenizer": tokenizer.get("kind"),
            "family": book.result.get("family"),
            "parts": book.parts,
            "result": book.result,
            "stamp": hash(book.stamp) & 0xFFFFFFFF,
            "open": served is not None,
            "label": None if served is None else served.model.label(),
            "views": None if served is None else sorted(views_of(served.model)),
        }

    def _free_name(self, book: Book, taken: dict[str, Book]) -> str:
        """Return the name of a rung, or of the directory; with its folder, or a number, where it is taken."""
        path = book.path.resolve()
        name = book.result.get("name")
        base = name if isinstance(name, str) and name else path.name
        titles = [self.titles[one] for one in book.path.parents if one in self.titles]
        candidates = [base, f"{next(iter(titles), path.parent.name)}/{base}"]
        candidates += [f"{base} ({i})" for i in range(2, len(taken) + 3)]
        return next(one for one in candidates if one not in taken)

    def _forget(self, name: str) -> None:
        old = self._models.get(name)
        self._models = {key: value for key, value in self._models.items() if key != name}
        self._stamps.pop(name, None)
        self.books = {key: book for key, book in self.books.items() if key != name}
        if old is not None:
            old.close()

    def _unknown(self, name: str) -> Refused:
        return Refused(
            f"there is no model {quoted(name)} here; it may have been removed",
            status=404,
            field="model",
            code="model_not_found",
        )


def saved_below(directory: Path, depth: int = 0, mark: str = FILES[0]) -> Iterator[Path]:
    """Yield the saved models in a directory and below it, in the order of names; none within another,
    where members of mixtures are. `mark`: the file that tells one, or something else that is looked for.
    """
    if (directory / mark).is_file():
        yield directory
        return
    if depth > DEEPEST:
        return
    try:
        inner = sorted(
            entry.name for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False)
        )
    except OSError:
        return
    count = 0
    for name in inner:
        if name.startswith("."):
            continue
        for path in saved_below(directory / name, depth + 1, mark):
            yield path
            count += 1
            if count >= MOST_MODELS:
                return


def stamp_of(path: Path) -> Stamp | None:
    """Return what tells a saved model from its successor; None where there is none."""
    try:
        first = os.stat(path / FILES[0])
    except OSError:
        return None
    stats = [first]
    if (path / FILES[1]).exists():
        stats.append(os.stat(path / FILES[1]))
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in stats)


def _read(path: Path, stamp: Stamp) -> Book | None:
    try:
        config = read_config(path)
    except SeqloomError:
        return None
    weights = path / FILES[1]
    try:
        parts = parts_of_weights(read_arrays(weights)) if weights.exists() else []
    except SeqloomError:  # damaged: it is listed, and who opens it is told
        parts = []
    return Book(path, stamp, config, read_json(path / RESULT), parts)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object of a small file of JSON; an empty one where there is none."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
