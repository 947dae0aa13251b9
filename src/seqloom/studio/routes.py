"""What the page asks its server, besides what every server answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from seqloom.contracts import LanguageModel
from seqloom.serving.answering import Exchange, Handler, encode_long
from seqloom.serving.app import Route
from seqloom.serving.fields import Fields, Refused
from seqloom.studio import page
from seqloom.studio.following import coloured, following
from seqloom.studio.lanes import lanes
from seqloom.studio.looking import look
from seqloom.studio.shelf import Shelf
from seqloom.studio.starting import Training, comparison

MOST_TEXT = 200_000  # characters of a text that the page may send


class Studio:
    """A shelf, and what is trained for it."""

    def __init__(self, shelf: Shelf, training: Training | None = None) -> None:
        self.shelf, self.training = shelf, training

    def models(self) -> dict[str, Any]:
        """Return all models and, where there was none, how training goes."""
        training = None if self.training is None else self.training.described()
        if training is None:
            self.shelf.scan()
        return {"models": self.shelf.described(), "training": training}

    def language_model(self, asked: Fields) -> LanguageModel:
        """Return the language model that a request names."""
        served = self.shelf.served(asked.text("model") or "")
        if not isinstance(served.model, LanguageModel):
            raise Refused(f"{served.name} is no language model", field="model")
        return served.model

    def opened(self, asked: Fields) -> dict[str, Any]:
        """Open a model and return what is known of it."""
        name = self.shelf.served(asked.text("model") or "").name
        return self.shelf.describe(name, self.shelf.books[name])

    def following(self, asked: Fields) -> dict[str, Any]:
        """Return what may follow a prompt."""
        model = self.language_model(asked)
        return {"model": asked.text("model")} | following(model, asked.text("text", "") or "")

    def coloured(self, asked: Fields) -> dict[str, Any]:
        """Return what each piece of a text costs."""
        model, top = self.language_model(asked), asked.integer("top", 5, 0, 100)
        return {"model": asked.text("model")} | coloured(
            model, asked.text("text", "") or "", top or 0
        )

    def lanes(self, asked: Fields) -> dict[str, Any]:
        """Return gates and states of a recurrent layer along a text."""
        model = self.shelf.served(asked.text("model") or "").model
        layer, unit = (asked.integer(name, None, 0, 1 << 31) for name in ("layer", "unit"))
        return {"model": asked.text("model")} | lanes(
            model, asked.text("text", "") or "", layer, unit
        )

    def routes(self) -> Iterator[Route]:
        """Yield the page, its files, and what it asks."""
        yield Route("GET", "/", page.index(self), "The page of `seqloom studio`.", None, True)
        yield Route("GET", "/studio/static/{path:path}", page.static, "Its files.", None, True)
        yield Route("GET", "/studio/models", _got(self.models), "The models that it can show.")
        yield Route(
            "GET", "/studio/comparison", _got(lambda: comparison(self.shelf)), "The comparison."
        )
        for name, function, help in (
            ("open", self.opened, "Open a model; which views it has."),
            ("next", self.following, "What may follow a prompt, summed over spellings."),
            ("passage", self.coloured, "What each piece of a text costs."),
            ("lanes", self.lanes, "Gates and states of a recurrent layer along a text."),
        ):
            yield Route("POST", f"/studio/{name}", _posted(function), help, BODY)
        yield Route(
            "POST", "/studio/inspect/{name}", self.inspect, "A view, as `seqloom inspect`.", BODY
        )

    async def inspect(self, exchange: Exchange) -> Any:
        """Answer /studio/inspect/NAME."""
        name = exchange.scope["path_params"]["name"]
        return await _ran(exchange, lambda asked: look(self.shelf, name, asked))


BODY = {
    "type": "object",
    "properties": {"model": {"type": "string"}, "text": {"type": "string"}},
}


def _got(function: Callable[[], Any]) -> Handler:
    async def answer(exchange: Exchange) -> Any:
        return await exchange.until(exchange.service.in_thread(lambda: encode_long(function())))

    return answer


def _posted(function: Callable[[Fields], Any]) -> Handler:
    async def answer(exchange: Exchange) -> Any:
        return await _ran(exchange, function)

    return answer


async def _ran(exchange: Exchange, function: Callable[[Fields], Any]) -> Any:
    """Answer what takes long, in a thread."""
    asked = exchange.fields
    text = asked.raw("text")
    size = sum(map(len, text)) if isinstance(text, list) else len(text or "")
    if size > MOST_TEXT:
        raise Refused(
            f"the text has {size:,} characters; the page takes {MOST_TEXT:,}: give a part of it",
            status=413,
            field="text",
        )
    exchange.model = asked.text("model")
    return await exchange.until(exchange.service.in_thread(lambda: encode_long(function(asked))))
