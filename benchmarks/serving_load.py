"""A server under load: many clients at once, mixed lengths, some that leave midway.

    python -m benchmarks.serving_load --clients 16,200 --minutes 5
    python -m benchmarks.serving_load MODEL --address http://localhost:8000

Every client sends one request after another, drawn from a fixed list of prompts, lengths and seeds; what
it gets must be what `model.generate` gives. The clients share one process of their own, which does no
more than it must: it reads bytes from sockets and looks at them when an answer is complete.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import SMOKE, bundled_text, sized, table, training

PROMPT_WORDS = (1, 5, 20, 100, 400)
MAX_TOKENS = (1, 8, 32, 64, 128, 256)
N_REQUESTS = sized(60, 6)  # different ones
LEAVING = 0.05  # share of requests whose client leaves midway
STREAMED = 0.7  # share of the others
RSS_SECONDS = sized(10.0, 0.5)  # between two looks at the memory
HEADER = (
    "clients",
    "completed",
    "left",
    "429",
    "other errors",
    "wrong texts",
    "tokens/s",
    "first token p50 ms",
    "p95 ms",
    "memory MB, after 1 minute",
    "at the end",
)


@dataclass
class Seen:
    """What the clients saw."""

    completed: int = 0
    left: int = 0
    tokens: int = 0
    wrong: list[str] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)  # by status, or by kind of failure
    first: list[float] = field(default_factory=list)  # seconds to the first token of a stream
    seconds: float = 0.0


# ---- the process of the clients


async def client(
    place: tuple[str, int], asked: list[Any], until: float, seed: int, seen: Seen
) -> None:
    """Send requests until the time is over; one that has begun is read to its end."""
    draw = random.Random(seed)
    errors: Counter[str] = Counter()
    while time.monotonic() < until:
        fields, expected = draw.choice(asked)
        leaves = draw.random() < LEAVING
        streamed = leaves or draw.random() < STREAMED
        try:
            status = await exchange(place, fields, expected, streamed, leaves, draw, seen)
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            status = type(error).__name__
        if status != "200":
            errors[status] += 1
            await asyncio.sleep(1.0)  # as Retry-After says
    for status, count in errors.items():
        seen.errors[status] = seen.errors.get(status, 0) + count


async def exchange(
    place: tuple[str, int],
    fields: dict[str, Any],
    expected: str,
    streamed: bool,
    leaves: bool,
    draw: random.Random,
    seen: Seen,
) -> str:
    """Send one request on a connection of its own and read its answer; the status."""
    wanted = {**fields, "stream": streamed}
    if streamed:
        wanted["stream_options"] = {"include_usage": True}
    body = json.dumps(wanted).encode()
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(*place)
    try:
        begun = time.monotonic()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        status = answer.split(b" ", 2)[1].decode()
        if status != "200":
            return status
        content = b""
        first = None
        stays = draw.randrange(1, 4000) if leaves else None  # bytes after which it leaves
        while piece := await reader.read(1 << 16):
            if first is None:
                first = time.monotonic() - begun
            content += piece
            if stays is not None and len(content) > stays:
                seen.left += 1
                return status
        if streamed and first is not None:
            seen.first.append(first)
        text, tokens = _read_stream(content) if streamed else _read_whole(content)
        seen.completed += 1
        seen.tokens += tokens
        if text != expected:
            seen.wrong.append(f"{fields}: {text!r} instead of {expected!r}"[:500])
        return status
    finally:
        writer.close()


def _read_whole(content: bytes) -> tuple[str, int]:
    answer = json.loads(content)
    return answer["choices"][0]["text"], answer["usage"]["completion_tokens"]


def _read_stream(content: bytes) -> tuple[str, int]:
    """The text of a stream, from the chunks of HTTP."""
    data, rest = b"", content
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        n = int(size, 16)
        data, rest = data + rest[:n], rest[n + 2 :]
        if n == 0:
            break
    *events, done, _ = data.decode().split("\n\n")
    if done != "data: [DONE]":
        raise ValueError("a stream without an end")
    parsed = [json.loads(event.removeprefix("data: ")) for event in events]
    text = "".join(event["choices"][0]["text"] for event in parsed if event["choices"])
    return text, parsed[-1]["usage"]["completion_tokens"]


async def crowd(
    place: tuple[str, int], asked: list[Any], n: int, seconds: float, seed: int
) -> Seen:
    """All clients for a while."""
    seen, begun = Seen(), time.monotonic()
    until = begun + seconds
    await asyncio.gather(*(client(place, asked, until, seed + i, seen) for i in range(n)))
    seen.seconds = time.monotonic() - begun
    return seen


# ---- the process that watches


def requests(model: Any, seed: int = 0) -> list[tuple[dict[str, Any], str]]:
    """Requests of mixed lengths, and what `generate` writes for them."""
    draw, words = random.Random(seed), bundled_text().split()
    context = getattr(model.generator().whole, "context", None)
    asked: list[tuple[dict[str, Any], str]] = []
    while len(asked) < N_REQUESTS:
        most = draw.choice(sized(MAX_TOKENS, (1, 8)))
        n_words = draw.choice(sized(PROMPT_WORDS, (1, 5)))
        start = draw.randrange(len(words) - n_words)
        prompt = " ".join(words[start : start + n_words])
        if context is not None and len(model.encode(prompt)[0]) + most >= context:
            continue
        sampling = {"max_tokens": most, "seed": draw.randrange(10**6), "temperature": 0.8}
        fields = {"prompt": prompt, **sampling}
        asked.append((fields, model.generate(prompt, **sampling)))
    return asked


@contextmanager
def served(path: str, options: list[str]) -> Iterator[tuple[tuple[str, int], int]]:
    """A server's host and port, and its process id."""
    command = [sys.executable, "-m", "seqloom", "serve", path, "--port", "0", "--json", "-q"]
    child = subprocess.Popen(
        [*command, "--no-access-log", *options], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        address = json.loads(child.stdout.readline())["address"]
        yield place_of(address), child.pid
    finally:
        child.terminate()
        child.wait()


def place_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)


def load(
    place: tuple[str, int],
    pid: int | None,
    asked: list[Any],
    clients: int,
    seconds: float,
    seed: int,
) -> tuple[Seen, list[float]]:
    """Run the clients in a process; what they saw, and the server's memory in MB as it went."""
    with tempfile.TemporaryDirectory() as folder:
        job, out = Path(folder, "job.json"), Path(folder, "seen.json")
        job.write_text(json.dumps([place, asked, clients, seconds, seed]))
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.serving_load", "--as-clients", str(job), str(out)]
        )
        memory = []
        while child.poll() is None:
            if pid is not None:
                memory.append(resident(pid))
            try:
                child.wait(RSS_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        if child.returncode:
            raise RuntimeError("the clients failed")
        return Seen(**json.loads(out.read_text())), memory


def resident(pid: int) -> float:
    """Memory of a process in MB; NaN where the system does not say."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except OSError:
        return float("nan")
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def row(clients: int, seen: Seen, memory: list[float]) -> tuple[str, ...]:
    first = sorted(seen.first)
    quantile = [
        first[min(int(len(first) * q), len(first) - 1)] if first else 0 for q in (0.5, 0.95)
    ]
    after = memory[min(int(60 / RSS_SECONDS), len(memory) - 1)] if memory else float("nan")
    busy = seen.errors.get("429", 0)
    others = {status: n for status, n in seen.errors.items() if status != "429"}
    return (
        str(clients),
        f"{seen.completed:,}",
        str(seen.left),
        str(busy),
        ", ".join(f"{n} x {status}" for status, n in others.items()) or "0",
        str(len(seen.wrong)),
        f"{seen.tokens / seen.seconds:,.0f}",
        *(f"{1000 * seconds:,.0f}" for seconds in quantile),
        f"{after:,.0f}",
        f"{statistics.fmean(memory[-3:]):,.0f}" if memory else "",
    )


def measure(
    path: str,
    crowds: list[int],
    seconds: float,
    *,
    address: str | None = None,
    options: list[str] | None = None,
) -> list[tuple[str, ...]]:
    """A row for each number of clients."""
    import seqloom

    model: Any = seqloom.load(path)
    asked = requests(model)
    rows = []
    for clients in crowds:
        if address is None:
            with served(path, options or []) as (place, pid):
                load(place, None, asked, 1, min(2.0, seconds), 0)  # kernels are loaded
                seen, memory = load(place, pid, asked, clients, seconds, clients)
        else:
            seen, memory = load(place_of(address), None, asked, clients, seconds, clients)
        for wrong in seen.wrong[:5]:
            print(wrong, file=sys.stderr)
        shown = " ".join(f"{megabytes:.0f}" for megabytes in memory)
        print(f"{clients} clients, memory every {RSS_SECONDS:g} s: {shown}", file=sys.stderr)
        rows.append(row(clients, seen, memory))
        assert seen.completed or not SMOKE, seen
        assert not seen.wrong, "texts differ from those of generate"
    return rows


@contextmanager
def fitted(quick: bool) -> Iterator[str]:
    """A small LSTM on the text that comes with seqloom."""
    from seqloom.registry import model_class
    from seqloom.training.config import TrainConfig

    width = sized(200, 8)
    model = model_class("lstm")(d_hidden=width, n_layers=2, tokenizer="word")
    model.fit(bundled_text(), train=TrainConfig(**training({"minutes": 1.0}, quick)))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "lstm"))
        yield str(Path(folder, "lstm"))


def run(quick: bool, only: str) -> None:
    with fitted(quick) as path:
        seconds = sized(20.0 if quick else 300.0, 1.0)
        rows = measure(path, sized([16, 200], [4]), seconds)
    table("A server under load, LSTM 2 x 200", rows, HEADER)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", help="a saved language model; else an LSTM is fitted")
    parser.add_argument("--clients", default="16,200", help="how many at a time, one row for each")
    parser.add_argument("--minutes", type=float, default=5.0, help="for each row")
    parser.add_argument("--address", help="of a server that runs already with this model")
    parser.add_argument("--serve", default="", help='options of seqloom serve, such as "--rows 64"')
    parser.add_argument("--as-clients", nargs=2, metavar=("JOB", "OUT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_clients:
        job, out = map(Path, arguments.as_clients)
        place, *rest = json.loads(job.read_text())
        seen = asyncio.run(crowd(tuple(place), *rest))
        out.write_text(json.dumps(asdict(seen)))
        return
    crowds = [int(n) for n in arguments.clients.split(",")]
    options = {"address": arguments.address, "options": arguments.serve.split()}
    if arguments.model is None:
        with fitted(quick=False) as path:
            rows = measure(path, crowds, 60 * arguments.minutes, **options)
    else:
        rows = measure(arguments.model, crowds, 60 * arguments.minutes, **options)
    table("A server under load", rows, HEADER)


if __name__ == "__main__":
    main()
