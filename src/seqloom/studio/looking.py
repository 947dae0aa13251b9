"""Any view of `seqloom inspect` on models of the shelf: the same words, the same numbers."""

from __future__ import annotations

import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

from seqloom import tasks
from seqloom.errors import suggest_known
from seqloom.serving.fields import Fields, Refused, whole
from seqloom.studio.shelf import Shelf
from seqloom.views.catalogue import VIEWS, View, run

TAKEN = (
    "model",
    "other",
    "text",
    "data",
    "file",
    "runs",
)  # what a view looks at; the rest are options
BUNDLED = "data:tinyshakespeare"


def look(shelf: Shelf, name: str, asked: Fields) -> dict[str, Any]:
    """Return what `seqloom inspect NAME --json` prints as `data`, and what it says beside it."""
    view = VIEWS.get(name)
    if view is None:
        message = f"there is no view {name!r}{suggest_known(name, VIEWS)}"
        raise Refused(message, status=404, field="view")
    with tempfile.TemporaryDirectory() as folder:
        inputs = _inputs(shelf, view, asked, Path(folder))
        options = _options(view, asked, Path(folder))
        sheet = run(name, *inputs, **options)
        return {
            "view": name,
            "title": sheet.title,
            "summary": list(sheet.summary),
            "data": listed(sheet.data),
        }


def _inputs(shelf: Shelf, view: View, asked: Fields, folder: Path) -> list[Any]:
    if view.optional and view.inputs and view.inputs[0] not in asked:
        return []
    inputs: list[Any] = []
    for kind in view.inputs:
        if kind not in asked:
            if kind == "text" and any(one in asked for one in view.instead):
                inputs.append(None)
                continue
            raise Refused(f"{kind} is missing", field=kind)
        if kind in ("model", "other"):
            inputs.append(shelf.served(asked.text(kind) or "").model)
        elif kind == "text":
            inputs.append(example_of(asked))
        elif kind == "file":
            inputs.append(_written(asked, kind, folder))
        elif kind == "data":
            task = tasks.of(inputs[0])
            inputs.append(task.read((str(_written(asked, kind, folder)),), task.reading()))
        else:  # runs
            names = asked.texts(kind, 100)
            inputs.append([str(shelf.path(one)) for one in names])
    return inputs


def example_of(asked: Fields) -> Any:
    """Return one text, or a pair of them."""
    value = asked.raw("text")
    if isinstance(value, list) and len(value) > 1 and all(isinstance(one, str) for one in value):
        return tuple(whole(one) for one in value)
    return asked.text("text")


def _options(view: View, asked: Fields, folder: Path) -> dict[str, Any]:
    known = {f.name: f for f in fields(view.options)}
    for name in asked.values:
        if name not in TAKEN and name not in known:
            raise Refused(f"there is no option {name!r}{suggest_known(name, known)}", field=name)
    chosen: dict[str, Any] = {}
    for name, field in known.items():
        if name not in asked:
            continue
        given = asked.raw(name)
        # no path of this machine is taken from a page, but for the text that comes with seqloom
        if field.metadata.get("metavar") == "FILE" and given != BUNDLED:
            chosen[name] = str(_written(asked, name, folder))
        else:
            chosen[name] = given
    return chosen


def _written(asked: Fields, kind: str, folder: Path) -> Path:
    """Write a file that a page sends, `{"name": ..., "content": ...}`, and return where it is."""
    value = asked.raw(kind)
    if not (
        isinstance(value, dict)
        and isinstance(value.get("name"), str)
        and isinstance(value.get("content"), str)
    ):
        asked.refuse(kind, 'a file: {"name": "x.tsv", "content": "..."}')
    suffix = Path(value["name"]).suffix
    path = folder / f"{kind}{suffix if suffix[1:].isalnum() else '.txt'}"
    path.write_text(whole(value["content"]), encoding="utf-8")
    return path


def listed(value: Any) -> Any:
    """Return plain values: arrays as lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): listed(item) for key, item in value.items()}
    return [listed(item) for item in value] if isinstance(value, (list, tuple)) else value
