"""What can be wrong on the wire: heads, lengths, chunks, methods, pipelines, connections that never end."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
from collections.abc import Callable
from typing import NamedTuple

from tests.fuzz.counts import Counts
from tests.serving.process import Process

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
BODY = b'{"model":"ngram","prompt":"the","max_tokens":3}'
SENT = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
LARGE = 5_000_000  # bytes, more than the server takes


class Wire(NamedTuple):
    """Bytes to send, and what must come of them."""

    data: bytes
    statuses: tuple[int, ...]  # of the first answer; 0: the connection may also close without one
    answers: int = 1  # at least
    ends: bool = False  # our half of the connection is closed after them


def _chunk(size: int) -> bytes:
    return b"%x\r\n" % size + b" " * size + b"\r\n"


def _spoiled(draw: random.Random) -> bytes:
    data = bytearray(SENT)
    for _ in range(draw.randint(1, 4)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


OK, BAD = (200,), (400,)
ANY_ERROR = (0, 400, 404, 405, 408, 411, 413, 414, 417, 421, 426, 431, 501, 505)
ATTACKS: dict[str, Callable[[random.Random], Wire]] = {
    # bodies that are too large
    "declared too large": lambda draw: Wire(
        HEAD + b"Content-Length: %d\r\n\r\n" % draw.choice([LARGE, 10**12, 10**18]) + BODY, (413,)
    ),
    "too large": lambda draw: Wire(
        HEAD + b"Content-Length: %d\r\n\r\n" % LARGE + b" " * LARGE, (413,)
    ),
    "chunks too large": lambda draw: Wire(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + _chunk(500_000) * 10 + b"0\r\n\r\n", (413,)
    ),
    "many small chunks": lambda draw: Wire(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + _chunk(1) * 20_000 + b"0\r\n\r\n", BAD
    ),
    "expects to go on": lambda draw: Wire(
        HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % LARGE, (413,)
    ),
    "expects to go on, and may": lambda draw: Wire(
        HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY, (100, 200)
    ),
    "expects nonsense": lambda draw: Wire(HEAD + b"Expect: rain\r\n\r\n", BAD),
    # lengths that are not so
    "shorter than declared": lambda draw: Wire(
        HEAD + b"Content-Length: 500\r\n\r\n" + BODY, (0,), 0, ends=True
    ),
    "longer than declared": lambda draw: Wire(
        HEAD + b"Content-Length: 10\r\n\r\n" + BODY + LAST, BAD, 1
    ),
    "length of words": lambda draw: Wire(
        HEAD
        + b"Content-Length: %b\r\n\r\n" % draw.choice([b"x", b"-1", b"1e3", b"+5", b"1" * 5000]),
        BAD,
    ),
    "two lengths": lambda draw: Wire(
        HEAD + b"Content-Length: 3\r\nContent-Length: 47\r\n\r\n" + BODY, BAD
    ),
    "length and chunks": lambda draw: Wire(
        HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD
    ),
    "broken chunks": lambda draw: Wire(
        HEAD
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + draw.choice(
            [b"xyz\r\n", b"-5\r\nabc\r\n", b"ffffffffffffffffffff\r\nabc", b"3\r\nabcdef\r\n"]
        ),
        (0, 400, 413),
        0,
        ends=True,
    ),
    "unknown encoding": lambda draw: Wire(
        HEAD + b"Transfer-Encoding: gzip\r\n\r\n" + BODY, (0, 400, 501), 0, ends=True
    ),
    # heads
    "many headers": lambda draw: Wire(
        HEAD + b"".join(b"X-%d: %d\r\n" % (i, i) for i in range(20_000)) + b"\r\n", BAD
    ),
    "a long header": lambda draw: Wire(HEAD + b"X: " + b"x" * 200_000 + b"\r\n\r\n", BAD),
    "a long path": lambda draw: Wire(
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", BAD
    ),
    "a path of its own": lambda draw: Wire(
        b"GET "
        + draw.choice(
            [
                b"/" + b"a" * 5000,
                b"/..%2f..%2fetc/passwd",
                b"/%00%0a%ff",
                b"//health",
                b"/health/",
                b"http://other/health",
                b"/v1/models/%ed%a0%80",
                b"/v1/models/" + b"x" * 9000,
                b"/tokenizer_info?model=%ff%00",
                b"*",
            ]
        )
        + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        (400, 404),
    ),
    "a foreign host": lambda draw: Wire(
        b"GET /health HTTP/1.1\r\nHost: %b\r\n\r\n"
        % draw.choice([b"evil.example", b"localhost.evil", b"", b"[::1", b":::", b"\xff"]),
        BAD,
    ),
    "a foreign page": lambda draw: Wire(
        SENT.replace(b"\r\n", b"\r\nOrigin: " + b"http://evil.example" * 50 + b"\r\n", 1), (403,)
    ),
    "no host": lambda draw: Wire(b"GET /health HTTP/1.1\r\n\r\n", BAD),
    "a broken head": lambda draw: Wire(
        b"GET /health HTTP/1.1\r\n"
        + draw.choice([b"Host\r\n", b": x\r\n", b"A\x00: x\r\n", b" A: b\r\n"])
        + b"\r\n",
        BAD,
    ),
    "compressed": lambda draw: Wire(
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00", BAD
    ),
    "an upgrade": lambda draw: Wire(
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: "
        + draw.choice([b"websocket", b"h2c"])
        + b"\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        OK,
    ),
    # methods
    "another method": lambda draw: Wire(
        draw.choice(
            [b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"BREW", b"GET", b"M" * 2000]
        )
        + b" /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n",
        (405,),
    ),
    "a head alone": lambda draw: Wire(
        b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", OK
    ),
    "connect": lambda draw: Wire(
        b"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 404, 405)
    ),
    # no HTTP at all
    "garbage": lambda draw: Wire(
        draw.choice(
            [
                draw.randbytes(draw.choice([1, 50, 5000])) + b"\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + draw.randbytes(500) + b"\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"GET /health\r\n\r\n",
                b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n",
                b"\r\n" * 1000 + b"x\r\n\r\n",
                b"\x00" * 70_000,
                b"a" * 70_000,
                _spoiled(draw),
            ]
        ),
        (*ANY_ERROR, 200, 403),
        0,
        ends=True,
    ),
    # several requests on a connection
    "a pipeline": lambda draw: Wire(SENT * 5 + GET * 5 + LAST, OK, 11),
    "a pipeline with an error": lambda draw: Wire(SENT + b"x\r\n\r\n", OK, 2),
    "a body nobody asked for": lambda draw: Wire(
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello" + LAST, OK, 2
    ),
    "a body where there is nothing": lambda draw: Wire(
        b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 47\r\n\r\n" + BODY + LAST,
        (404,),
        2,
    ),
    "leaves": lambda draw: Wire(SENT[: draw.randrange(1, len(SENT))], (0, 400), 0, ends=True),
}


def attack(server: Process, draw: random.Random, counts: Counts) -> None:
    """Make one attempt and count it."""
    name = draw.choice(list(ATTACKS))
    wire = ATTACKS[name](draw)
    try:
        statuses, plain = exchange(server, wire)
    except Exception as error:
        counts.wrong.append(f"{name}: {wire.data[:200]!r}: {error!r}")
        return
    first = statuses[0] if statuses else 0
    if first not in wire.statuses or len(statuses) < wire.answers or plain:
        counts.wrong.append(f"{name}: {wire.data[:200]!r}: {statuses} {plain}")
    elif first == 200:
        counts.worked += 1
    else:
        counts.refused += 1


def exchange(server: Process, wire: Wire) -> tuple[list[int], str]:
    """Send bytes; the statuses of all answers, and an answer that is not one clear line."""
    with server.connect() as connection:
        sending = threading.Thread(target=_send, args=(connection, wire), daemon=True)
        sending.start()  # beside, as the server may answer before it has read all
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while wire.ends or wire.answers > _n_answers(received):
                piece = connection.recv(1 << 16)
                if not piece:
                    break
                received += piece
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        sending.join()
    statuses, wrong = [], ""
    for answer in received.split(b"HTTP/1.1 ")[1:]:
        statuses.append(int(answer[:3]))
        body = answer.partition(b"\r\n\r\n")[2]
        if statuses[-1] >= 400:
            with contextlib.suppress(ValueError):
                body = json.loads(body)["error"]["message"].encode()
            if len(body.splitlines()) != 1 or len(body) > 1000 or b"unexpected" in body:
                wrong = f"not one line: {body[:300]!r}"
    return statuses, wrong


def _n_answers(received: bytes) -> int:
    """How many answers are there as a whole."""
    number, rest = 0, received
    while rest:
        head, found, rest = rest.partition(b"\r\n\r\n")
        if not found:
            break
        if head.startswith(b"HTTP/1.1 100"):
            number += 1
            continue
        length = [
            line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        ]
        size = int(length[0].split(b":")[1]) if length else 0
        if len(rest) < size or (not length and not rest):
            break
        number, rest = number + 1, rest[size:] if length else b""
    return number


def _send(connection: socket.socket, wire: Wire) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(wire.data)
        if wire.ends:
            connection.shutdown(socket.SHUT_WR)


class Slow:
    """Connections that never finish a request; the server has to close them."""

    def __init__(self, server: Process, each: int = 8) -> None:
        begun = {
            "idle": b"",
            "half a head": HEAD,
            "half a line": HEAD[:10],
            "half a body": HEAD + b"Content-Length: 50\r\n\r\n" + BODY[:5],
            "chunks without end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + _chunk(5),
            "a second request": GET + HEAD,
            "trickling head": HEAD + b"X: ",
            "trickling body": HEAD + b"Content-Length: 5000\r\n\r\n{",
            "trickling after an answer": b"POST /nothing HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 5000\r\n\r\n",
        }
        self.open: list[tuple[str, socket.socket]] = []
        for name, data in begun.items():
            for _ in range(each):
                connection = server.connect()
                connection.sendall(data)
                self.open.append((name, connection))

    def trickle(self) -> None:
        """Send one more byte where that is the attack."""
        for name, connection in self.open:
            if name.startswith("trickling"):
                with contextlib.suppress(OSError):
                    connection.send(b"x", socket.MSG_DONTWAIT)

    def wrong(self) -> list[str]:
        """The connections that are still open after a long time."""
        left = []
        for name, connection in self.open:
            stop = threading.Event()
            trickling = threading.Thread(target=self._trickle_until, args=(stop,), daemon=True)
            trickling.start()
            try:
                while connection.recv(1 << 16):
                    pass
            except ConnectionError:
                pass
            except TimeoutError:
                left.append(f"{name}: never closed")
            finally:
                stop.set()
                trickling.join()
                connection.close()
        return left

    def _trickle_until(self, stop: threading.Event) -> None:
        while not stop.wait(0.2):
            self.trickle()
