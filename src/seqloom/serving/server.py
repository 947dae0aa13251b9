"""uvicorn with what it lacks: time limits for slow clients, and an orderly end.

As it is, uvicorn keeps connections whose request never comes to an end, refuses new ones at once on
SIGTERM (so nobody reads that the server is not ready), waits for streams without limit, and raises the
signal again, which makes the exit code -15.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from seqloom.errors import ConfigError, MissingExtra, shortened

try:
    import h11
    import starlette  # noqa: F401
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError:
    raise MissingExtra(
        "serving needs starlette and uvicorn; install them: pip install 'seqloom[serve]'"
    ) from None
from seqloom.serving import answering
from seqloom.serving.answering import Service, complain
from seqloom.serving.app import Route, make_app
from seqloom.serving.catalogue import Catalogue, named_paths
from seqloom.serving.configs import ServeConfig
from seqloom.serving.fields import Refused
from seqloom.serving.workers import Workers

C = TypeVar("C", bound=Catalogue)

NOTICE = 0.5  # seconds in which /ready is 503 before connections are refused
LAST_SECONDS = 2.0  # for what is left to send, of a stream or a connection that ends
KEEP_ALIVE = 75  # seconds that a connection may be idle between requests


class Gathering:
    """A transport that sends the head of an answer together with what follows, which it always does at once:
    every call of the system lets other threads run first.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send these bytes, or keep them if they are a head; not that of 100 Continue."""
        if not self._head and data.startswith(b"HTTP/1.1 ") and data[9:10] != b"1":
            self._head = data
        else:
            self._send(data)

    def close(self) -> None:
        """Close once all is sent."""
        self._send(b"")
        self._transport.close()

    def _send(self, data: bytes) -> None:
        data, self._head = self._head + data, b""
        if data:
            self._transport.write(data)


def guarded(config: ServeConfig) -> type[H11Protocol]:
    """Return uvicorn's protocol with limits: a request must be complete in time, and there are only so
    many connections.
    """

    class Guarded(H11Protocol):
        _alarm: asyncio.TimerHandle | None = None
        _unread: asyncio.TimerHandle | None = None  # of a client that does not read its answer
        _idle = False  # between two requests

        def connection_made(self, transport: Any) -> None:
            super().connection_made(Gathering(transport))  # type: ignore[arg-type]
            if len(self.connections) > config.max_connections:
                transport.close()
                return
            self._arm(config.request_timeout)

        def data_received(self, data: bytes) -> None:
            if self._idle:
                self._idle = False
                self._arm(config.request_timeout)
            super().data_received(data)
            if self._has_whole_request():
                self._disarm()

        def on_response_complete(self) -> None:
            super().on_response_complete()  # which may begin with the next request at once
            if self._has_whole_request():
                self._disarm()
                return
            self._idle = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
            self._arm(KEEP_ALIVE if self._idle else config.request_timeout)

        def _has_whole_request(self) -> bool:
            cycle = self.cycle
            return cycle is not None and not cycle.more_body and not cycle.response_complete

        def send_400_response(self, msg: str) -> None:
            body = json.dumps(Refused("the request is no HTTP, or its head is too long").body())
            headers = {"content-type": "application/json", "content-length": str(len(body))}
            pairs = [*headers.items(), ("connection", "close")]
            with contextlib.suppress(h11.LocalProtocolError):  # an answer is on its way already
                for event in (
                    h11.Response(status_code=400, headers=pairs, reason=b"Bad Request"),
                    h11.Data(data=body.encode()),
                    h11.EndOfMessage(),
                ):
                    self.transport.write(self.conn.send(event))
            self.transport.close()

        def pause_writing(self) -> None:
            super().pause_writing()
            seconds = answering.UNREAD_SECONDS + LAST_SECONDS
            self._unread = self.loop.call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._unread is not None:
                self._unread.cancel()

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            if self._unread is not None:
                self._unread.cancel()
            super().connection_lost(exc)

        def _arm(self, seconds: float) -> None:
            self._disarm()
            if not self.transport.is_closing():
                self._alarm = self.loop.call_later(seconds, self._close)

        def _close(self) -> None:
            """Close; one that does not read what is left is cut off."""
            self.transport.close()
            self._alarm = self.loop.call_later(LAST_SECONDS, self.transport.abort)

        def _disarm(self) -> None:
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None

    return Guarded


class Server(uvicorn.Server):
    """Ends in order: first not ready, then no new connections, then texts are ended as they are."""

    def __init__(self, settings: uvicorn.Config, service: Service) -> None:
        super().__init__(settings)
        self.service = service
        self.hurries = False  # what runs is ended as it is as soon as the server shuts down

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Drain on SIGTERM and SIGINT; nothing is raised again, so the exit code is 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.drain)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    def drain(self) -> None:
        """Begin to end; a second call ends at once."""
        if self.service.draining:
            self._cut()
            return
        self.service.draining = True
        loop = asyncio.get_running_loop()
        loop.call_later(NOTICE, setattr, self, "should_exit", True)
        loop.call_later(self.service.config.drain, self._end)

    def _end(self) -> None:
        self.service.end_all()
        asyncio.get_running_loop().call_later(LAST_SECONDS, self._cut)

    def _cut(self) -> None:
        """Stop at once, whoever still waits."""
        self.should_exit = self.force_exit = True
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # a server whose connections are open does not close

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections and wait for those that are open."""
        if self.hurries:
            self._end()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; what goes wrong beside requests is one line."""
        asyncio.get_running_loop().set_exception_handler(_report)
        await super().startup(sockets)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say what went wrong outside of any request, such as no more files for connections."""
    what, error = context.get("message", "an error"), context.get("exception")
    complain({"error": what if error is None else f"{what}: {shortened(str(error))}"})


def listen(config: ServeConfig) -> socket.socket:
    """Bind the port; another server on it is an error of one line."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # named as TCP, since asyncio sends small packets at once only there
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((config.host, config.port))
        bound.listen(1024)
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot listen on {config.host} port {config.port}: {reason}; choose another with port"
            " (0: a free one)",
            ["port"],
        ) from None
    return bound


def _allow_files(connections: int) -> None:
    """Raise the limit of open files to what connections need, as far as the system lets us."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def make_server(catalogue: Catalogue, config: ServeConfig, further: Iterable[Route] = ()) -> Server:
    """Return a server of these models that listens nowhere yet; `further`: routes besides the usual."""
    service = Service(catalogue, config)
    settings = uvicorn.Config(
        make_app(service, further),
        http=guarded(config),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        h11_max_incomplete_event_size=1 << 16,
    )
    return Server(settings, service)


def address_of(bound: socket.socket, config: ServeConfig) -> str:
    """Return the address that clients ask."""
    name = f"[{config.host}]" if ":" in config.host else config.host
    return f"http://{name}:{bound.getsockname()[1]}"


def run(
    models: Sequence[str], config: ServeConfig, started: Callable[[str, Catalogue], None]
) -> None:
    """Serve models until a signal comes; `started` is called with the address once requests are
    taken.
    """
    run_catalogue(lambda: Catalogue(dict(named_paths(models)), config), config, started)


def run_catalogue(
    make: Callable[[], C],
    config: ServeConfig,
    started: Callable[[str, C], None],
    further: Callable[[C], Iterable[Route]] = lambda catalogue: (),
) -> None:
    """Do the same with a catalogue that is made once the port is taken, and its further routes."""
    _allow_files(config.max_connections)
    with listen(config) as bound:  # before models are loaded, which may take long
        catalogue = make()
        server = make_server(catalogue, config, further(catalogue))
        gc.freeze()  # models are here to stay
        gc.enable()
        # a body with many small lists would be looked through often
        gc.set_threshold(50_000, 20, 20)
        # beside threads that compute in Python, each call of the system costs the event loop so long
        sys.setswitchinterval(0.001)
        started(address_of(bound, config), catalogue)
        server.run(sockets=[bound])
        catalogue.close()


class Serving:
    """A server in a thread of this process: `address` to ask, `close()` to end; a `with` block does."""

    def __init__(
        self, catalogue: Catalogue, config: ServeConfig, further: Iterable[Route] = ()
    ) -> None:
        self._bound = listen(config)
        self.address = address_of(self._bound, config)
        self.catalogue = catalogue
        self._server = make_server(catalogue, config, further)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._bound]}, daemon=True
        )
        self._thread.start()

    @property
    def workers(self) -> Workers:
        """The threads for what takes long."""
        return self._server.service.workers

    def __repr__(self) -> str:
        return f"<serving {', '.join(served.name for served in self.catalogue)} on {self.address}>"

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End: running texts are ended as they are."""
        self._server.service.draining = self._server.hurries = self._server.should_exit = True
        self._thread.join(10)
        self.catalogue.close()
        self._bound.close()


def serve(models: Any, **options: Any) -> Serving:
    """Serve models from this process, in a thread: a saved or fitted model, a list of saved ones, or a
    dict of either by name. `options` are those of `seqloom serve`; the port is a free one unless given.
    """
    config = ServeConfig(**{"port": 0, "access_log": False} | options)
    if not isinstance(models, dict):
        listed = models if isinstance(models, (list, tuple)) else [models]
        paths = [str(one) for one in listed if isinstance(one, (str, Path))]
        others = {
            getattr(one, "name", "model"): one for one in listed if not isinstance(one, (str, Path))
        }
        models = dict(named_paths(paths)) | others
    return Serving(Catalogue(models, config), config)
