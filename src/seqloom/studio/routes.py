"""What the page asks its server, besides what every server answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from seqloom.contracts import LanguageModel
from seqloom.serving.answering import Exchange, Handler
from seqloom.serving.app import Route
from seqloom.serving.catalogue import Served
from seqloom.serving.encoding import encode_long
from seqloom.serving.fields import Fields, Refused
from seqloom.studio import attending, page, shannon, training_runs
from seqloom.studio.comparing import Comparing, dropped
from seqloom.studio.following import coloured, following
from seqloom.studio.lanes import lanes
from seqloom.studio.looking import listed as plain
from seqloom.studio.looking import look
from seqloom.studio.playing import abilities
from seqloom.studio.series import look_ahead
from seqloom.studio.shelf import Shelf
from seqloom.studio.starting import comparison, listed
from seqloom.studio.vectors import leaning, plane

MOST_TEXT = 200_000  # characters of a text that the page may send


class Studio:
    """A shelf, and what is trained for it."""

    def __init__(self, shelf: Shelf, comparing: Comparing | None = None) -> None:
        self.shelf, self.comparing = shelf, comparing
        self._beginning = threading.Lock()

    def models(self) -> dict[str, Any]:
        """Return all models and comparisons and, where one runs here, how it goes."""
        if self.comparing is None:
            training = None
            self.shelf.scan()
        else:
            training = self.comparing.described()
        models, comparisons = self.shelf.described(), listed(self.shelf)
        return {"models": models, "comparisons": comparisons, "training": training}

    def compare(self, asked: Fields) -> dict[str, Any]:
        """Begin a comparison of files that the page sends; one at a time."""
        with self._beginning:
            if self.comparing is not None and self.comparing.running:
                raise Refused("a comparison is running; stop it, or wait until it ends", status=409)
            self.comparing = dropped(self.shelf, asked)
        return self.comparing.described()

    def stop(self, asked: Fields) -> dict[str, Any]:
        """Stop the comparison that runs; its finished rungs stay."""
        if self.comparing is None:
            raise Refused("no comparison is running", status=409)
        self.comparing.close()
        return self.comparing.described()

    def served(self, asked: Fields) -> Served:
        """Return the model that a request names."""
        return self.shelf.served(asked.text("model") or "")

    def language_model(self, asked: Fields) -> LanguageModel:
        """Return the language model that a request names."""
        served = self.shelf.served(asked.text("model") or "")
        if not isinstance(served.model, LanguageModel):
            raise Refused(f"{served.name} is no language model", field="model")
        return served.model

    def opened(self, asked: Fields) -> dict[str, Any]:
        """Open a model and return what is known of it."""
        served = self.served(asked)
        return self.shelf.describe(served.name, self.shelf.books[served.name]) | abilities(served)

    def following(self, asked: Fields) -> dict[str, Any]:
        """Return what may follow a prompt."""
        model = self.language_model(asked)
        return {"model": asked.text("model")} | following(model, asked.text("text", "") or "")

    def coloured(self, asked: Fields) -> dict[str, Any]:
        """Return what each piece of a text costs."""
        model, top = self.language_model(asked), asked.integer("top", 5, 0, 100)
        return {"model": asked.text("model")} | coloured(
            model, asked.text("text", "") or "", top or 0, asked.flag("excerpt")
        )

    def game(self, asked: Fields) -> dict[str, Any]:
        """Return what a game of guessing comes to; with a model, what the same characters cost it."""
        text = asked.text("text", "") or ""
        start = asked.integer("start", 0, 0, len(text)) or 0
        guesses = asked.raw("guesses", [])
        if not (
            isinstance(guesses, list)
            and len(guesses) <= shannon.MOST
            and all(type(one) is int and 1 <= one <= len(shannon.ALPHABET) for one in guesses)
        ):
            wanted = f"at most {shannon.MOST} whole numbers from 1 to {len(shannon.ALPHABET)}"
            asked.refuse("guesses", wanted)
        if "model" not in asked:
            return plain(shannon.played(text, start, guesses))
        at = shannon.places(text, start, len(guesses))
        return plain(shannon.by_model(self.language_model(asked), text, at))

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
        newest = _got(lambda: comparison(self.shelf))
        yield Route("GET", "/studio/comparison", newest, "The newest comparison.")
        yield Route("GET", "/studio/comparison/{name}", self.named, "One of the comparisons.")
        yield Route("POST", "/studio/compare", self.begin, "Begin a comparison of files.", FILES)
        listing = _got(partial(training_runs.runs, self.shelf))
        yield Route("GET", "/studio/runs", listing, "The runs that it can show.")
        for name, function, help in (
            ("open", self.opened, "Open a model; which views it has."),
            ("next", self.following, "What may follow a prompt, summed over spellings."),
            ("stop", self.stop, "Stop the comparison that runs."),
            ("game", self.game, "Shannon's game: what guesses cost."),
            ("passage", self.coloured, "What each piece of a text costs."),
            (
                "series",
                lambda asked: look_ahead(self.served(asked), asked),
                "A series and a forecast.",
            ),
            (
                "plane",
                lambda asked: plane(self.served(asked), asked),
                "Words as points of a plane.",
            ),
            ("leaning", lambda asked: leaning(self.served(asked), asked), "How far words lean."),
            ("heads", partial(attending.heads, self.shelf), "All heads of attention."),
            ("attention", partial(attending.weights, self.shelf), "One map of attention."),
            ("search", partial(attending.search, self.shelf), "A translation's beam search."),
            ("run", partial(training_runs.look, self.shelf), "Logs of runs, and advice."),
            ("lanes", self.lanes, "Gates and states of a recurrent layer along a text."),
        ):
            yield Route("POST", f"/studio/{name}", _posted(function), help, BODY)
        yield Route(
            "POST", "/studio/inspect/{name}", self.inspect, "A view, as `seqloom inspect`.", BODY
        )

    async def named(self, exchange: Exchange) -> Any:
        """Answer /studio/comparison/NAME."""
        name = exchange.scope["path_params"]["name"]
        work = exchange.service.in_short_thread(lambda: encode_long(comparison(self.shelf, name)))
        return await exchange.until(work)

    async def begin(self, exchange: Exchange) -> Any:
        """Answer /studio/compare: it starts a process, so a form of another page, which cannot send JSON
        unasked, is refused even where a browser tells no origin.
        """
        if exchange.header("content-type").partition(";")[0].strip() != "application/json":
            raise Refused("files are sent as application/json", status=415)
        return await _ran(exchange, self.compare)

    async def inspect(self, exchange: Exchange) -> Any:
        """Answer /studio/inspect/NAME."""
        name = exchange.scope["path_params"]["name"]
        return await _ran(exchange, lambda asked: look(self.shelf, name, asked))


FILES = {
    "type": "object",
    "properties": {
        "files": {"type": "array", "items": {"type": "object"}},
        "minutes": {"type": "number"},
        "curve": {"type": "boolean"},
    },
}
BODY = {
    "type": "object",
    "properties": {"model": {"type": "string"}, "text": {"type": "string"}},
}


def _got(function: Callable[[], Any]) -> Handler:
    async def answer(exchange: Exchange) -> Any:
        work = exchange.service.in_short_thread(lambda: encode_long(function()))
        return await exchange.until(work)

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
