"""Every route in one table: what it answers, and what it says of itself in /openapi.json."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route as StarletteRoute

from seqloom import tasks
from seqloom.errors import quoted
from seqloom.serving import completions, openapi, verbs
from seqloom.serving.answering import Endpoint, Exchange, Handler, Service
from seqloom.serving.fields import Refused

if TYPE_CHECKING:
    from seqloom.serving.configs import ServeConfig


class Route(NamedTuple):
    """An address that is answered."""

    method: str
    path: str
    handler: Handler
    help: str
    body: dict[str, Any] | None = None  # JSON Schema of what is sent
    is_open: bool = False  # needs no key, and is answered while the server drains


def routes() -> Iterator[Route]:
    """Yield all routes: those of OpenAI's clients, one for each verb of each task, and the rest."""
    schemas = openapi.SCHEMAS
    yield Route("GET", "/v1/models", verbs.list_models, "The models that are served.")
    yield Route("GET", "/v1/models/{name}", verbs.show_model, "One of them.")
    for path, handler, help in (
        ("/v1/completions", completions.complete, "Texts that go on after a prompt."),
        ("/v1/chat/completions", completions.chat, "The answer to a conversation."),
        ("/v1/embeddings", verbs.embed, "A vector for each text."),
        ("/tokenize", verbs.tokenize, "The token ids of a text."),
        ("/detokenize", verbs.detokenize, "The text of token ids."),
        ("/admin/reload", verbs.reload, "Load a model's directory anew."),
    ):
        yield Route("POST", path, handler, help, schemas[path])
    yield Route("GET", "/tokenizer_info", verbs.tokenizer_info, "What a tokenizer is.")
    by_name: dict[str, dict[str, Any]] = {}
    for task in tasks.every():
        for name, verb in task.verbs().items():
            by_name.setdefault(name, {})[task.phrase] = verb
    for name, users in by_name.items():
        help = " ".join(f"For {phrase}: {verb.help}" for phrase, verb in users.items())
        schema = openapi.verb_schema(users)
        yield Route("POST", f"/{name}", verbs.verb(name), help, schema)
    yield Route("GET", "/health", verbs.health, "Whether the process lives.", None, True)
    yield Route("GET", "/ready", verbs.ready, "Whether requests are taken.", None, True)
    yield Route("GET", "/metrics", verbs.metrics, "Counters, for Prometheus.")


def make_app(service: Service, further: Iterable[Route] = ()) -> Any:
    """Return the ASGI application; `further`: routes besides those of every server."""
    table = [*routes(), *further]

    async def describe(exchange: Exchange) -> Any:
        return openapi.document(table)

    table.append(Route("GET", "/openapi.json", describe, "This description."))
    endpoints = {
        route.path: Endpoint(
            service, route.path, route.handler, route.method, is_open=route.is_open
        )
        for route in table
    }
    app = Starlette(
        routes=[StarletteRoute(path, endpoint) for path, endpoint in endpoints.items()],
        middleware=_middleware(service.config),
    )
    app.router.redirect_slashes = False
    app.router.default = Endpoint(service, "", _refuse_path, None, is_open=True)
    if service.config.allow_origin:
        return app

    async def straight(scope: Any, receive: Any, send: Any) -> None:
        """Go to a route at once where it has no pattern: Starlette would try one after the other."""
        endpoint = endpoints.get(scope["path"]) if scope["type"] == "http" else None
        await (endpoint or app)(scope, receive, send)

    return straight


async def _refuse_path(exchange: Exchange) -> None:
    path = quoted(exchange.scope["path"])
    raise Refused(f"there is nothing at {path}; /openapi.json lists what there is", status=404)


def _middleware(config: ServeConfig) -> list[Middleware]:
    if not config.allow_origin:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(config.allow_origin),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
        )
    ]
