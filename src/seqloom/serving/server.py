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
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from seqloom.errors import ConfigError, shortened
from seqloom.serving.answering import Service, complain
from seqloom.serving.app import make_app
from seqloom.serving.catalogue import Catalogue
from seqloom.serving.configs import ServeConfig
from seqloom.serving.fields import Refused

NOTICE = 0.5  # seconds in which /ready is 503 before connections are refused
LAST_SECONDS = 2.0  # after the time to drain: for the last chunks of streams
KEEP_ALIVE = 75  # seconds that a connection may be idle between requests


def guarded(config: ServeConfig) -> type[H11Protocol]:
    """Return uvicorn's protocol with limits: a request must be complete in time, and there are only so
    many connections.
    """

    class Guarded(H11Protocol):
        _alarm: asyncio.TimerHandle | None = None
        _idle = False  # between two requests

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
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

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            super().connection_lost(exc)

        def _arm(self, seconds: float) -> None:
            self._disarm()
            if not self.transport.is_closing():
                self._alarm = self.loop.call_later(seconds, self.transport.close)

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
    bound = socket.socket(family, socket.SOCK_STREAM)
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


def make_server(models: Sequence[str], config: ServeConfig) -> Server:
    """Load models; return the server that answers for them."""
    service = Service(Catalogue(models, config), config)
    gc.freeze()  # models are here to stay
    gc.set_threshold(50_000, 20, 20)  # a body with many small lists would be looked through often
    settings = uvicorn.Config(
        make_app(service),
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


def address(bound: socket.socket) -> str:
    """Return where a bound socket is reached."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    models: Sequence[str], config: ServeConfig, started: Callable[[str, Catalogue], None]
) -> None:
    """Serve models until a signal comes; `started` is called with the address once requests are
    taken.
    """
    _allow_files(config.max_connections)
    bound = listen(config)  # before models are loaded, which may take long
    try:
        server = make_server(models, config)
        started(address(bound), server.service.catalogue)
        server.run(sockets=[bound])
        server.service.catalogue.close()
        sys.stderr.flush()
    finally:
        bound.close()
