"""Attention for the page: all heads beside each other, one map in few bytes, and a translation's search.

A map goes as whole numbers of 16 bits, a weight of 1 as 65,535, in base64: 512 tokens take 0.7 MB, where JSON
would take 5. A larger one goes as tiles, and a row of it, exactly, when it is asked for.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.charts.attention import tiles
from seqloom.contracts import Translator
from seqloom.errors import ConfigError
from seqloom.serving.fields import Fields, Refused
from seqloom.studio.looking import example_of, listed
from seqloom.studio.shelf import Shelf
from seqloom.views.attending import layer_names, layer_of
from seqloom.views.catalogue import check
from seqloom.views.head_patterns import every_head
from seqloom.views.needs import heads_and_text
from seqloom.views.removal import parts_of
from seqloom.views.tracing import trace
from seqloom.views.translation import alignment

GRID, MAP = 36, 512  # tiles of a side: of a small map among others, and of one alone
ALIGNMENT = (
    "alignment"  # in place of a layer: the mean of all that look from a target to its source
)


class Heard:
    """Keeps what the library says while it reads: that only a part of a text is shown."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, label: str, total: int | None, unit: str) -> Heard:
        return self

    def end(self, task: Any) -> None:
        pass

    def advance(self, amount: int = 1) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def say(self, message: str) -> None:
        if message.endswith("shown") and message not in self.said:  # not that kernels are compiled
            self.said.append(message)


def heads(shelf: Shelf, asked: Fields) -> dict[str, Any]:
    """Return all heads as `seqloom inspect heads` has them, each with a small map."""
    model, example = _read(shelf, asked, "heads")
    heard = Heard()
    with progress.reporting(heard):
        rows, maps, tokens = every_head(model, example, GRID)
    written = isinstance(model, Translator) and isinstance(example, str)
    return {
        "tokens": tokens,
        "rows": rows,
        "maps": [{"shape": each.shown.shape, "shades": packed(each.shown, 8)} for each in maps],
        "layers": layer_names(model),
        "removable": sorted({part.layer for part in parts_of(model)})
        if heads_and_text(model)
        else [],
        "target": model.translate(example) if written else None,
        "said": heard.said,
    }


def weights(shelf: Shelf, asked: Fields) -> dict[str, Any]:
    """Return one map as `seqloom inspect attention` has it, or of a large one a row: `step`."""
    model, example = _read(shelf, asked, "attention")
    heard = Heard()
    with progress.reporting(heard):
        layer, head, found, steps, keys = _map(model, example, asked)
    step = asked.integer("step", None, 0, max(0, len(steps) - 1))
    if step is not None:
        return {"step": step, "row": listed(found[step])}
    shown, size = tiles(found, MAP)
    return {
        "layer": layer,
        "head": head,
        "steps": steps,
        "keys": keys,
        "size": size,  # tokens of a side of a tile
        "shape": shown.shape,
        "weights": packed(shown, 16),
        "said": heard.said,
    }


def _map(model: Any, example: Any, asked: Fields) -> tuple[Any, int | None, np.ndarray, Any, Any]:
    """Return the name of the layer, the head, the weights (T, S), what looks and what is looked at."""
    if asked.raw("layer") == ALIGNMENT:
        source, target = example if isinstance(example, tuple) else (example, None)
        data = alignment(model, source, target).data
        return ALIGNMENT, None, data["weights"], data["target"], data["source"]
    layer = layer_of(model, example, asked.integer("layer", None, 0, 1 << 20))
    head = asked.integer("head", None, 0, 1 << 20)
    if head is not None and head >= len(layer.weights):
        raise ConfigError(f"head must be from 0 to {len(layer.weights) - 1}; got {head}", ["head"])
    found = layer.weights.mean(0) if head is None else layer.weights[head]
    return layer.name, head, found, layer.steps, layer.keys


def search(shelf: Shelf, asked: Fields) -> dict[str, Any]:
    """Return a translation's search as `seqloom inspect trace` has it."""
    served = shelf.served(asked.text("model") or "")
    if not isinstance(served.model, Translator):
        raise Refused(f"{served.name} is no translator", field="model")
    beams, top = asked.integer("beams", 4, 1, 32), asked.integer("top", 3, 1, 20)
    data = trace(served.model, asked.text("text", "") or "", top=top or 1, beams=beams).data
    return listed({key: value for key, value in data.items() if key != "lines"})


def _read(shelf: Shelf, asked: Fields, view: str) -> tuple[Any, Any]:
    model = shelf.served(asked.text("model") or "").model
    check(view, model)
    return model, example_of(asked)


def packed(values: np.ndarray, bits: int) -> str:
    """Return shares as whole numbers of so many bits, little end first, in base64.

    >>> packed(np.array([[0.0, 1.0]]), 8)
    'AP8='
    """
    most = (1 << bits) - 1
    whole = np.rint(np.clip(values, 0, 1) * most).astype(f"<u{bits // 8}")
    return base64.b64encode(whole.tobytes()).decode("ascii")
