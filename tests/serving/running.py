"""A real server in a thread of the test, on a free port, and a client that is only `http.client`."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from seqloom.serving.server import Serving, serve
from tests.saved import NEWEST

SAVED = {path.name: str(path) for path in NEWEST.iterdir() if path.is_dir()}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def values(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        return self.values["error"]

    @property
    def events(self) -> list[Any]:
        """The events of a stream; each is JSON but the last, which is [DONE]."""
        *events, done, rest = self.body.decode().split("\n\n")
        assert (done, rest) == ("data: [DONE]", "")
        return [json.loads(event.removeprefix("data: ")) for event in events]


class Running:
    """A server, as its clients see it; `models` are what it loaded."""

    def __init__(self, server: Serving) -> None:
        self.address, self.catalogue = server.address, server.catalogue
        self.models = {served.name: served.model for served in server.catalogue}

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send one request; a body that is not bytes is sent as JSON."""
        connection = http.client.HTTPConnection(self.address.partition("://")[2], timeout=300)
        with contextlib.closing(connection):
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body).encode()
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            named = {key.lower(): value for key, value in answer.getheaders()}
            return Answer(answer.status, named, answer.read())

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, **fields: Any) -> Answer:
        return self.ask("POST", path, fields if body is None else body)

    def complete(self, **fields: Any) -> list[str]:
        """The texts of /v1/completions, whole or from the events of a stream."""
        answer = self.post("/v1/completions", **fields)
        assert answer.status == 200, answer.body
        if not fields.get("stream"):
            return [choice["text"] for choice in answer.values["choices"]]
        texts: dict[int, str] = {}
        for event in answer.events:
            for choice in event["choices"]:
                texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
        return [texts[number] for number in sorted(texts)]

    def at_once(self, requests: list[dict[str, Any]]) -> list[list[str]]:
        """The texts of several completions that are asked for at the same time."""
        together = threading.Barrier(len(requests))

        def one(fields: dict[str, Any]) -> list[str]:
            together.wait(60)
            return self.complete(**fields)

        with ThreadPoolExecutor(len(requests)) as pool:
            return list(pool.map(one, requests))


@contextlib.contextmanager
def running(*models: str | Path, **options: Any) -> Iterator[Running]:
    """Serve models while a test runs."""
    with serve(list(models), **options) as server:
        yield Running(server)
