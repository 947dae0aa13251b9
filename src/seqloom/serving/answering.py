"""One request after another over ASGI: read it, answer it, notice if its client leaves, count it.

A handler is an async function of an `Exchange`. It returns plain values, which are sent as JSON, or JSON that
was written in a thread because there may be much of it, or it sends a stream of events itself. Whatever it
waits for, it stops waiting when the client leaves: uvicorn ends a stream then, but lets a plain request run
to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from seqloom.errors import MissingExtra, ModelError, SeqloomError, lacks_memory, quoted, shortened
from seqloom.serving.catalogue import Catalogue
from seqloom.serving.configs import ServeConfig
from seqloom.serving.encoding import encode
from seqloom.serving.fields import Fields, Refused, parse
from seqloom.serving.measures import Measures
from seqloom.serving.workers import Workers

T = TypeVar("T")
LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
UNREAD_SECONDS = 60.0  # that a client may leave its answer unread
MOST_BODIES = 32  # of the largest size, that are held at a time
PIECE = 1 << 18  # bytes of an answer that are sent at once
LARGE = 1 << 16  # bytes of a request that takes long to look through
CLIENT_LEFT = 499  # nginx's word for it, in logs; nobody receives it


class ClientLeft(Exception):
    """Nobody waits for the answer any more."""


class Bell:
    """Calls functions in the event loop, from other threads: the loop is woken once for all that have come
    until it looks, as every wake costs the caller a call of the system.
    """

    def __init__(self) -> None:
        self._calls: deque[Callable[[], Any]] = deque()
        self._rung = False

    def call(self, loop: asyncio.AbstractEventLoop, function: Callable[[], Any]) -> None:
        """Call a function soon."""
        self._calls.append(function)
        if not self._rung:
            self._rung = True
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._rung = False  # before looking: what comes from now on rings again
        # no more: a thread that calls on and on would keep the loop here
        for _ in range(len(self._calls)):
            self._calls.popleft()()


class Service:
    """What all requests share: models, limits, counters, threads for what takes long, logs."""

    def __init__(self, catalogue: Catalogue, config: ServeConfig) -> None:
        self.catalogue, self.config, self.measures = catalogue, config, Measures()
        self.in_flight = 0
        self.draining = False
        self.workers = Workers(2)  # so that a short request need not wait for a long one
        self.short_workers = Workers(1)  # for milliseconds, while long work keeps the others
        self.bell = Bell()
        self.held_bytes = 0  # of bodies whose requests are not answered yet
        # names that the server answers to; None: to all
        self.hosts: set[str] | None = {name.lower() for name in (*config.allow_host, *LOOPBACK)}
        if "*" in self.hosts or not (config.allow_host or config.host in LOOPBACK):
            self.hosts = None
        self._log = None if config.log is None else open(config.log, "a", encoding="utf-8")  # noqa: SIM115

    @property
    def keeps_texts(self) -> bool:
        """Return whether the texts of requests are written down."""
        return self._log is not None

    async def in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run what takes long beside the event loop; it is given up when it takes too long, or when
        nobody waits for it any more.
        """
        return await self._run(self.workers, function, *arguments)

    async def in_short_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run what reads a file or two beside the event loop: it does not wait for long work."""
        return await self._run(self.short_workers, function, *arguments)

    async def _run(self, workers: Workers, function: Callable[..., T], *arguments: Any) -> T:
        waiting = workers.n_jobs
        if waiting >= self.config.queue:
            raise Refused.busy(f"{waiting:,} requests wait already; try again later")
        async with asyncio.timeout(self.config.timeout):  # wait_for would make a task
            return await workers.run(function, *arguments)

    def end_all(self) -> None:
        """End all that runs: texts as they are, other work with an error."""
        for served in self.catalogue:
            if served.engine is not None:
                served.engine.end_all()
        for workers in (self.workers, self.short_workers):
            workers.end_all(shutting_down())

    def log(self, exchange: Exchange, seconds: float) -> None:
        """Write the lines of a request that has ended."""
        record = {
            "time": round(time.time(), 3),
            "method": exchange.scope["method"],
            "route": exchange.route or shortened(exchange.scope["path"]),
            "model": exchange.model,
            "status": exchange.status,
            "seconds": round(seconds, 6),
            "prompt_tokens": exchange.prompt_tokens,
            "generated_tokens": exchange.generated_tokens,
        }
        if self.config.access_log and exchange.route not in ("/health", "/ready", "/metrics"):
            complain(record)
        if self._log is not None and exchange.texts:
            record |= {"texts": exchange.texts}
            record |= {"labels": exchange.labels} if exchange.labels else {}
            line = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace").decode()
            try:
                self._log.write(line + "\n")
                self._log.flush()
            except (OSError, ValueError) as error:  # such as a full disk: answers are worth more
                reason = getattr(error, "strerror", None) or str(error)
                complain({"error": f"{self.config.log} is no longer written: {reason}"})
                self._log = None


def complain(record: dict[str, Any]) -> None:
    """Write a line for whoever watches, if somebody does."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(json.dumps(record) + "\n")
        sys.stderr.flush()


def shutting_down() -> Refused:
    """Return how requests are refused while the server drains."""
    return Refused("the server is shutting down", status=503, headers={"retry-after": "5"})


class Exchange:
    """One request and its answer."""

    def __init__(self, service: Service, scope: Any, receive: Any, send: Any, route: str) -> None:
        self.service, self.scope, self.route = service, scope, route
        self._receive, self._send = receive, send
        self.fields = Fields({})
        self.model: str | None = None
        self.status = 200
        self.started = False  # the answer's head is sent
        self.prompt_tokens = self.generated_tokens = 0
        self.texts: list[Any] = []  # of the request, for the log
        self.labels: list[Any] = []  # of the answer, likewise
        self._left: asyncio.Task[None] | None = None
        self._woken: list[asyncio.Event] = []  # when the client leaves
        self._size = 0

    def header(self, name: str) -> str:
        """Return a header of the request; empty if there is none."""
        wanted = name.encode("latin-1")
        values = (value for key, value in self.scope["headers"] if key == wanted)
        return next(values, b"").decode("latin-1")

    async def read(self) -> None:
        """Read the body and its fields."""
        most = self.service.config.max_body
        declared = self.header("content-length")
        if declared.isdecimal() and int(declared) > most:
            raise _too_large(most)
        parts: list[bytes] = []
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            parts.append(message.get("body", b""))
            self._size += len(parts[-1])
            self.service.held_bytes += len(parts[-1])
            if self._size > most:
                raise _too_large(most)
            if self.service.held_bytes > MOST_BODIES * most:
                raise Refused.busy("too many large requests at a time; try again later")
            more = message.get("more_body", False)
        self.fields = await self.look(parse, b"".join(parts))

    async def look(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function finds in the request: beside the event loop where that is large."""
        if self._size <= LARGE:
            return function(*arguments)
        return await self.until(self.service.in_thread(function, *arguments))

    async def until_set(self, event: asyncio.Event) -> None:
        """Wait for an event, which is then cleared; raise ClientLeft as soon as the client has left, which
        sets it, too.
        """
        if self._left is None:
            self._watch()
        if event not in self._woken:
            self._woken.append(event)
        await event.wait()
        if self._left is not None and self._left.done():
            raise ClientLeft
        event.clear()

    async def until(self, work: Awaitable[T]) -> T:
        """Wait for work; raise ClientLeft as soon as the client has left."""
        if self._left is None:
            self._watch()
        task = asyncio.current_task()
        assert self._left is not None
        assert task is not None

        def stop(left: Any) -> None:  # cheaper than a task for the work and another wait for both
            task.cancel()

        self._left.add_done_callback(stop)
        try:
            return await work
        except asyncio.CancelledError:
            if self._left.done() and task.uncancel() == 0:
                raise ClientLeft from None
            raise
        finally:
            self._left.remove_done_callback(stop)

    def _watch(self) -> None:
        def wake(left: Any) -> None:
            for event in self._woken:
                event.set()

        self._left = asyncio.ensure_future(self._disconnected())
        self._left.add_done_callback(wake)

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def send(self, message: dict[str, Any]) -> None:
        """Send a part of the answer; a client that does not read it is given up."""
        try:
            async with asyncio.timeout(UNREAD_SECONDS):
                await self._send(message)
        except (TimeoutError, OSError):
            raise ClientLeft from None

    async def start(self, status: int, kind: str, headers: dict[str, str] | None = None) -> None:
        """Send the head of the answer."""
        self.started, self.status = True, status
        named = {"content-type": kind, **(headers or {})}
        pairs = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in named.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": pairs})

    async def answer(
        self,
        status: int,
        body: bytes,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send a whole answer."""
        await self.start(status, kind, {"content-length": str(len(body)), **(headers or {})})
        for start in range(0, max(len(body), 1), PIECE):
            more = start + PIECE < len(body)
            piece = body[start : start + PIECE]
            await self.send({"type": "http.response.body", "body": piece, "more_body": more})
            if more:  # others come between
                await asyncio.sleep(0)

    async def events(self, those: Iterable[Any], *, last: bool = False) -> None:
        """Send events of a stream in one piece: values as JSON, or the word [DONE]."""
        body = b"".join(
            b"data: " + (values.encode() if isinstance(values, str) else encode(values)) + b"\n\n"
            for values in those
        )
        if body:
            await self.send({"type": "http.response.body", "body": body, "more_body": not last})

    def close(self) -> None:
        """Stop waiting for the client to leave."""
        self.service.held_bytes -= self._size
        if self._left is not None:
            self._left.cancel()
            # whose error leads back here: such a cycle stays in memory until Python looks for them
            self._left = None


def _too_large(most: int) -> Refused:
    return Refused(f"the body has more than the {most:,} bytes that this server takes", status=413)


Handler = Callable[[Exchange], Awaitable[Any]]


class Endpoint:
    """A handler as an ASGI application: checks, errors, counters and logs around it."""

    def __init__(
        self, service: Service, route: str, handler: Handler, method: str | None, *, is_open: bool
    ) -> None:
        """Wrap a handler of requests of that method, None: of all; `is_open`: it needs no key, and is
        not refused while the server drains.
        """
        self.service, self.route, self.handler = service, route, handler
        self.method, self.is_open = method, is_open

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        exchange = Exchange(self.service, scope, receive, send, self.route)
        service, begun = self.service, time.perf_counter()
        service.in_flight += 1
        try:
            try:
                self._check(exchange)
                if self.method == "POST":
                    await exchange.read()
                    await self._open_model(exchange)
                values = await self.handler(exchange)
                if values is not None:
                    await exchange.answer(200, encode(values))
            except (Refused, SeqloomError, TimeoutError, MemoryError) as error:
                ended = isinstance(error, TimeoutError) and service.draining
                await self._refuse(exchange, shutting_down() if ended else _as_refusal(error))
            except ClientLeft:
                exchange.status = CLIENT_LEFT
            except Exception as error:
                if isinstance(error, asyncio.CancelledError):
                    raise
                text = f"unexpected {type(error).__name__}: {shortened(str(error))}"
                complain({"error": text, "route": self.route})
                await self._refuse(exchange, Refused(text, status=500))
        except ClientLeft:
            exchange.status = CLIENT_LEFT
        finally:
            exchange.close()
            service.in_flight -= 1
            seconds = time.perf_counter() - begun
            labels = {"route": self.route, "model": exchange.model or ""}
            status = str(exchange.status)
            service.measures.add("seqloom_requests_total", 1, **labels, status=status)
            service.measures.observe("seqloom_request_seconds", seconds, **labels)
            service.log(exchange, seconds)

    async def _open_model(self, exchange: Exchange) -> None:
        """Open the model that a request names, where models are opened when they are first asked for."""
        name, catalogue = exchange.fields.raw("model"), self.service.catalogue
        if isinstance(name, str) and catalogue.waits_for(name):
            await exchange.until(self.service.in_thread(catalogue.open, name))

    def _check(self, exchange: Exchange) -> None:
        """Refuse requests to other names than ours, from foreign pages, of other methods, without the
        key, or while the server drains.
        """
        config, hosts = self.service.config, self.service.hosts
        if hosts is not None:  # a page whose name leads here must not ask in its visitor's name
            host = exchange.header("host").lower()
            name, _, port = host.rpartition(":")
            if not name or "]" in port:  # there is no port
                name = host
            if name not in hosts:
                advice = "--allow-host (allow_host) may name it"
                raise Refused(f"this server is not called {quoted(name)}; {advice}")
        origin = exchange.header("origin")
        is_allowed = {origin, "*"} & set(config.allow_origin)
        if origin and not is_allowed and not _same_host(origin, exchange):
            raise Refused(
                f"pages of {quoted(origin)} may not ask here; --allow-origin (allow_origin) may name them",
                status=403,
            )
        method = exchange.scope["method"]
        if self.method not in (None, "GET" if method == "HEAD" else method):
            what = f"{self.route} does not take {quoted(method)}"
            raise Refused(what, status=405, headers={"allow": self.method or ""})
        if self.is_open:
            return
        if config.key is not None:
            given = exchange.header("authorization") or exchange.header("api-key")
            if given[:7].lower() == "bearer ":
                given = given[7:]
            if not hmac.compare_digest(given.encode(), config.key.encode()):
                raise Refused(
                    "a key is needed: Authorization: Bearer KEY", status=401, code="invalid_api_key"
                )
        if self.service.draining:
            raise shutting_down()

    async def _refuse(self, exchange: Exchange, refusal: Refused) -> None:
        if exchange.started:  # a stream that cannot go on says why, and ends
            exchange.status = refusal.status
            await exchange.events([refusal.body(), "[DONE]"], last=True)
            return
        await exchange.answer(refusal.status, encode(refusal.body()), headers=refusal.headers)


def _same_host(origin: str, exchange: Exchange) -> bool:
    return origin.partition("://")[2] == exchange.header("host")


def _as_refusal(error: Exception) -> Refused:
    """Return how an error of the library is told to a client."""
    if isinstance(error, Refused):
        return error
    message = shortened(" ".join(str(error).split()))
    if isinstance(error, TimeoutError):
        return Refused(message or "the request took too long", status=504, code="timeout")
    if lacks_memory(error):
        return Refused("not enough memory for this request; send less at a time", status=503)
    if isinstance(error, (ModelError, MissingExtra)):
        return Refused(message, status=503)
    field = next(iter(getattr(error, "options", ())), None)
    return Refused(message, field=field)
