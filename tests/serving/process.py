"""`seqloom serve` in a process of its own, and raw sockets to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WAIT = 120.0  # seconds after which something that should happen never will


class Process:
    """A server that runs, as its clients and its operator see it."""

    def __init__(self, *arguments: str | Path, env: dict[str, str] | None = None) -> None:
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self.child = subprocess.Popen(
            command(*arguments, "--port", "0", "--json"),
            stdout=subprocess.PIPE,
            stderr=self._err,
            env=os.environ | (env or {}),
        )
        line = self.child.stdout.readline()
        if not line:
            self.child.wait(WAIT)
            raise RuntimeError(self.said())
        started = json.loads(line)
        self.models = started["models"]
        self.host, _, port = started["address"].partition("://")[2].rpartition(":")
        self.port = int(port)

    def said(self) -> str:
        """What it wrote on standard error so far."""
        self._err.flush()
        return os.pread(self._err.fileno(), 1 << 24, 0).decode()

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=WAIT)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        """Status and body of the answer to one request on a connection of its own."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=WAIT)
        with contextlib.closing(connection):
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body).encode()
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def get(self, path: str) -> Any:
        status, body = self.ask("GET", path)
        assert status == 200, body
        return json.loads(body)

    def post(self, path: str, **fields: Any) -> Any:
        status, body = self.ask("POST", path, fields)
        assert status == 200, body
        return json.loads(body)

    def gauge(self, name: str) -> float:
        """A value of /metrics, summed over models."""
        lines = self.ask("GET", "/metrics")[1].decode().splitlines()
        return sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.split("{")[0].split()[0] == name
        )

    def wait_for(self, name: str, wanted: Any) -> None:
        """Wait until a value of /metrics is as wanted."""
        pause, left = threading.Event(), WAIT
        while not wanted(self.gauge(name)):
            assert left > 0, f"{name} never came"
            pause.wait(0.02)
            left -= 0.02

    def signal(self, number: int) -> None:
        self.child.send_signal(number)

    def ended(self) -> int:
        """The exit code, once there is one."""
        return self.child.wait(WAIT)

    def memory(self) -> int:
        """Resident bytes."""
        pages = Path(f"/proc/{self.child.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def files(self) -> int:
        """Open files and connections."""
        return len(os.listdir(f"/proc/{self.child.pid}/fd"))

    def close(self) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
        self.child.wait(WAIT)
        self.child.stdout.close()
        self._err.close()


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "seqloom", "serve", *map(str, arguments)]


@contextlib.contextmanager
def process(*arguments: str | Path, **options: Any) -> Iterator[Process]:
    """Run a server while a test runs; what is left of it is killed."""
    server = Process(*arguments, **options)
    try:
        yield server
    finally:
        server.close()


class Stream:
    """A streamed answer, read event by event."""

    def __init__(self, server: Process, path: str = "/v1/completions", **fields: Any) -> None:
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=WAIT)
        body = json.dumps({**fields, "stream": True})
        self.connection.request("POST", path, body)
        self.answer = self.connection.getresponse()
        self.status = self.answer.status

    def __iter__(self) -> Iterator[Any]:
        """Yield the events: objects, at last the word [DONE]."""
        for line in self.answer:
            if line.strip():
                data = line.decode().removeprefix("data: ").strip()
                yield data if data == "[DONE]" else json.loads(data)

    def close(self) -> None:
        self.connection.close()
        self.answer.close()
