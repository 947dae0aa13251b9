"""Hostile requests to a server: each is answered, or refused in one clear line, and soon.

Bodies are valid ones in which values, fields or bytes were replaced, or nonsense from the start; what
is wrong on the wire (heads, lengths, chunks, methods, pipelines) comes from `tests/fuzz/wire.py`. In the
end the server must have closed the connections that never finished a request, hold no more files and
memory than before, and answer ordinary requests as it did in the beginning.
"""

from __future__ import annotations

import contextlib
import copy
import http.client
import json
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.counts import Counts
from tests.saved import NEWEST
from tests.serving.process import Process, process

MODELS = (
    "ngram",
    "lstm",
    "gpt",
    "naive-bayes",
    "hmm-tagger",
    "forecaster",
    "seasonal-naive",
    "word2vec",
    "seq2seq",
    "bert",
    "sentence-encoder",
    "dictionary",
)
SECONDS = 120.0  # within which every answer must have come
REQUEST_SECONDS = 3.0  # that the server gives a client to send its request
GROWTH = 64 << 20  # bytes of memory that an attack may leave behind: what malloc keeps for later
WRITERS, TEXTS = ("ngram", "lstm", "gpt"), ["the cat sat", "a dog", ""]
WAVE = [round(i % 7 + i / 50, 2) for i in range(40)]


class Raw(str):
    """What stands in a body as it is, though it may be no JSON."""


def valid(draw: random.Random) -> tuple[str, dict[str, Any]]:
    """A route and a body that it answers."""
    writing = {
        "model": draw.choice(WRITERS),
        "prompt": draw.choice(["the cat", ["the", "a dog"], [1, 2], [[1], [2, 3]], ""]),
        "max_tokens": draw.choice([0, 1, 5, 16]),
        "seed": draw.randrange(100),
        "temperature": draw.choice([0, 0.7, 1]),
        "stop": draw.choice([None, "cat", ["a", "the dog"]]),
        "n": draw.choice([1, 1, 3]),
        "echo": draw.random() < 0.3,
        "logprobs": draw.choice([None, None, 0, 3]),
        "stream": draw.random() < 0.3,
        "top_p": 0.9,
        "stream_options": {"include_usage": True},
    }
    chat = {
        "model": "gpt",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
        "max_completion_tokens": 3,
    }
    return draw.choice(
        [
            ("/v1/completions", writing),
            ("/v1/completions", writing),
            ("/v1/completions", writing),
            ("/v1/chat/completions", chat),
            ("/v1/embeddings", {"model": "sentence-encoder", "input": TEXTS[:2]}),
            (
                "/v1/embeddings",
                {"model": "word2vec", "input": "cat", "encoding_format": "base64"},
            ),
            ("/tokenize", {"model": draw.choice(WRITERS), "prompt": "the cat </s>"}),
            ("/detokenize", {"model": draw.choice(WRITERS), "tokens": [1, 2, 3]}),
            ("/score", {"model": draw.choice([*WRITERS, "bert"]), "inputs": TEXTS[:2]}),
            ("/score", {"model": "seq2seq", "inputs": [["abc", "cba"]]}),
            ("/predict", {"model": "naive-bayes", "inputs": TEXTS}),
            ("/predict", {"model": "hmm-tagger", "inputs": ["Mary saw Rome", ["she", "left"]]}),
            ("/translate", {"model": "seq2seq", "inputs": ["abc", "ba"], "nbest": 2}),
            ("/translate", {"model": "dictionary", "inputs": ["das Haus"]}),
            ("/forecast", {"model": "forecaster", "inputs": [WAVE], "horizon": 3}),
            ("/forecast", {"model": "seasonal-naive", "inputs": [WAVE]}),
            ("/anomalies", {"model": "seasonal-naive", "inputs": [WAVE], "rate": 0.01, "top": 3}),
            ("/nearest", {"model": "word2vec", "inputs": ["cat"], "number": 3}),
            (
                "/nearest",
                {"model": "sentence-encoder", "inputs": ["a cat"], "among": ["cats", "dogs"]},
            ),
            ("/fill", {"model": "bert", "inputs": ["the [MASK] sat"], "number": 2}),
            ("/admin/reload", {"model": "ngram"}),
        ]
    )


def odd(draw: random.Random) -> Any:
    """A value that nobody expects."""
    deep: Any = "x"
    for _ in range(draw.choice([5, 31, 40, 3000])):
        deep = Raw(f"[{write(deep)}]") if draw.random() < 0.7 else Raw(f'{{"a":{write(deep)}}}')
    return draw.choice(
        [
            None,
            True,
            False,
            0,
            -1,
            1,
            7,
            2**31,
            2**63,
            -(2**63) - 1,
            10**30,
            10**400,
            Raw("1" * 5000),
            0.5,
            -0.5,
            Raw("-0.0"),
            1e308,
            Raw("1e999"),
            Raw("-1e999"),
            Raw("1e-999"),
            Raw("NaN"),
            Raw("Infinity"),
            Raw("0x10"),
            Raw("01"),
            Raw("undefined"),
            "",
            " ",
            "x",
            "\x00",
            "\r\n\t\x0b\x1b[31m",
            Raw('"\x01\x02"'),
            Raw('"\n"'),
            Raw('"\\ud800"'),
            Raw('"a\\udfff\\ud800b"'),
            Raw('"\\u00"'),
            "漢字",
            "\u202e😀\ufeff",
            "</s>",
            "<unk>",
            "[MASK]" * 50,
            "a" * 20_000,
            "a b " * 20_000,
            "\n" * 5000,
            [],
            [[]],
            {},
            {"a": 1},
            [None],
            [1, "a"],
            [True],
            [-1],
            [2**70],
            [[0.5, None]],
            ["a"] * 3000,
            ["a"] * 65,
            [""] * 64,
            list(range(3000)),
            [[1, 2], [3]],
            [Raw("1e999")] * 40,
            [10**400] * 40,
            {"time": ["2020-01-01", "x"], "value": [1, 2]},
            {"value": [1] * 40, "other": [1]},
            deep,
        ]
    )


def write(value: Any) -> str:
    """JSON, with what is raw as it is."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{write(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return json.dumps(value)


def changed(body: dict[str, Any], draw: random.Random) -> str:
    """A valid body with one to three values or fields replaced."""
    body = copy.deepcopy(body)
    extra = ""
    for _ in range(draw.choice([1, 1, 2, 3])):
        name = draw.choice(list(body) or ["model"])
        kind = draw.random()
        if kind < 0.55:
            body[name] = odd(draw)
        elif kind < 0.7 and isinstance(body.get(name), list) and body[name]:
            body[name][draw.randrange(len(body[name]))] = odd(draw)
        elif kind < 0.8:
            body.pop(name, None)
        elif kind < 0.9:
            known = ["best_of", "suffix", "tools", "user", "logit_bias", "x", "", "min_tokens"]
            body[draw.choice([*known, "top_k", "dimensions", "since", "among"])] = odd(draw)
        else:
            extra += f",{json.dumps(name)}:{write(odd(draw))}"  # the same field once more
    return write(body)[:-1] + extra.removeprefix("," if not body else "") + "}"


def spoiled(body: bytes, draw: random.Random) -> bytes:
    """Bytes in which a few are not what they were."""
    place = draw.randrange(len(body) + 1)
    return draw.choice(
        [
            lambda: body[:place],
            lambda: body[:place] + draw.randbytes(draw.randint(1, 8)) + body[place:],
            lambda: body[:place] + b"\xff\xfe" + body[place:],
            lambda: body[:place] + b"\xed\xa0\x80" + body[place:],  # a surrogate as UTF-8 has none
            lambda: body[:place] + b"\x00" + body[place:],
            lambda: b"\xef\xbb\xbf" + body,
            lambda: body.decode("utf-8", "replace").encode("utf-16"),
            lambda: body + draw.choice([b"x", b"}", b"\x00", body]),
            lambda: b" " * 50_000 + body,
            lambda: body.replace(b'"', b"'"),
        ]
    )()


def nonsense(draw: random.Random) -> bytes:
    """A body that was never one."""
    return draw.choice(
        [
            lambda: b"",
            lambda: b"null",
            lambda: b"[]",
            lambda: b"1",
            lambda: b'"x"',
            lambda: b"{}",
            lambda: b"{" * draw.choice([10, 100_000]),
            lambda: b"[" * draw.choice([33, 1000, 3_000_000]),
            lambda: b'{"a":' * 5000,
            lambda: b'{"prompt":"' + b"{[" * 400_000 + b'"}',
            lambda: b'{"prompt":[' + b"[]," * 100_000 + b"[]]}",
            lambda: b'{"stop":[' + b'"a",' * 100_000 + b'"a"],"model":"ngram"}',
            lambda: draw.randbytes(draw.choice([1, 100, 10_000])),
            lambda: b"model=ngram&prompt=the",
            lambda: b"--x\r\nContent-Disposition: form-data; name=prompt\r\n\r\nthe\r\n--x--",
        ]
    )()


def body(draw: random.Random) -> tuple[str, bytes]:
    """One attempt: a route, and what is sent there."""
    route, fields = valid(draw)
    kind = draw.random()
    if kind < 0.05:
        return route, write(fields).encode()
    if kind < 0.7:
        return route, changed(fields, draw).encode("utf-8", "surrogatepass")
    if kind < 0.85:
        return route, spoiled(write(fields).encode(), draw)
    return route, nonsense(draw)


def fault(status: int, kind: str, answer: bytes) -> str | None:
    """What is wrong with an answer, if anything."""
    if status == 200:
        return _fault_of_content(kind, answer)
    if not 400 <= status < 500:
        return f"status {status}: {answer[:300]!r}"
    try:
        message = json.loads(answer)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return f"status {status} without a message: {answer[:300]!r}"
    fine = isinstance(message, str) and message.strip() and len(message) < 1000
    if not fine or len(message.splitlines()) != 1:
        return f"status {status}, not one clear line: {str(message)[:300]!r}"
    return f"not clear: {message}" if "Traceback" in message or "unexpected " in message else None


def _fault_of_content(kind: str, answer: bytes) -> str | None:
    if kind.startswith("text/event-stream"):
        if not answer.endswith(b"data: [DONE]\n\n"):
            return f"a stream without an end: {answer[-200:]!r}"
        return f"an error within a stream: {answer[-400:]!r}" if b'"error"' in answer else None
    try:
        json.loads(answer, parse_constant=_refuse)
    except ValueError as error:
        return f"not JSON ({error}): {answer[:200]!r}"
    return None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


class Client:
    """One connection after another, each as long as it is kept."""

    def __init__(self, server: Process) -> None:
        self.server = server
        self.connection: http.client.HTTPConnection | None = None

    def post(self, route: str, data: bytes) -> tuple[int, str, bytes]:
        if self.connection is None:
            self.connection = http.client.HTTPConnection(
                self.server.host, self.server.port, timeout=SECONDS
            )
        try:
            self.connection.request("POST", route, data)
            answer = self.connection.getresponse()
            return answer.status, answer.getheader("content-type") or "", answer.read()
        except Exception:
            self.connection.close()
            self.connection = None
            raise


def ordinary(server: Process) -> dict[str, Any]:
    """What the server answers to ordinary requests; the same at any time."""
    return {
        "texts": [
            server.post(
                "/v1/completions", model=name, prompt="the", max_tokens=6, seed=3, logprobs=2
            )["choices"]
            for name in WRITERS
        ],
        "labels": server.post("/predict", model="naive-bayes", inputs=TEXTS[:2]),
        "tags": server.post("/predict", model="hmm-tagger", inputs=["Mary saw Rome"]),
        "forecast": server.post("/forecast", model="forecaster", inputs=[WAVE]),
        "translation": server.post("/translate", model="seq2seq", inputs=["abc"]),
        "near": server.post("/nearest", model="word2vec", inputs=["cat"]),
        "models": [one["id"] for one in server.get("/v1/models")["data"]],
        "ready": server.get("/ready"),
    }


def warm(server: Process) -> None:
    """Ask for everything until all is compiled, which can take longer than an answer may."""
    for _ in range(20):
        with contextlib.suppress(AssertionError):
            ordinary(server)
            return


def attempts(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    for number in range(count):
        yield body(random.Random(f"{seed}/{number}"))


def run(count: int, seed: int, note: Callable[[str], None] = lambda line: None) -> Counts:
    """Attack a server: `count` bodies, and a tenth as many attempts on the wire."""
    from tests.fuzz import wire

    counts, client = Counts(), None
    limits = ["--max-tokens", "64", "--max-texts", "64", "--timeout", "100", "--queue", "64"]
    limits += ["--request-timeout", str(REQUEST_SECONDS), "--no-access-log"]
    with process(*(NEWEST / name for name in MODELS), *limits) as server:
        warm(server)
        before = ordinary(server)
        slow = wire.Slow(server)
        client = Client(server)
        sizes = [server.memory()]
        for number, (route, data) in enumerate(attempts(count, seed)):
            if number == count // 2:
                sizes.append(server.memory())
            try:
                status, kind, answer = client.post(route, data)
                wrong = fault(status, kind, answer)
            except Exception as error:
                status, wrong = 0, repr(error)
                if server.child.poll() is not None:
                    wrong = f"the server died ({server.child.returncode}): {server.said()[-500:]}"
            if wrong:
                shown = data[:300] + b" ... " * (len(data) > 300)
                counts.wrong.append(f"attempt {number}: POST {route} {shown!r}: {wrong}")
            elif status == 200:
                counts.worked += 1
            else:
                counts.refused += 1
            if server.child.poll() is not None:
                return counts
            if number % 10 == 0:
                wire.attack(server, random.Random(f"{seed}/wire/{number}"), counts)
            slow.trickle()
        counts.wrong += slow.wrong()
        if client.connection is not None:
            client.connection.close()
        counts.wrong += [] if ordinary(server) == before else ["ordinary answers have changed"]
        sizes.append(server.memory())
        said = [
            line for line in server.said().splitlines() if "Traceback" in line or "error" in line
        ]
        counts.wrong += [f"the server said: {line[:500]}" for line in said[:20]]
        if sizes[-1] - sizes[1] > GROWTH:
            counts.wrong.append(f"memory grew in the second half: {sizes}")
        note(f"memory in MB: {', '.join(f'{size / 1e6:.0f}' for size in sizes)}")
        server.wait_for("seqloom_in_flight_requests", lambda value: value == 0)
        server.wait_for("seqloom_running_rows", lambda value: value == 0)
    return counts


if __name__ == "__main__":  # python -m tests.fuzz.requests SEED NUMBER: repeat one attempt
    with process(*(NEWEST / name for name in MODELS)) as one_server:
        asked = body(random.Random(f"{sys.argv[1]}/{sys.argv[2]}"))
        print(asked[0], asked[1][:2000], *Client(one_server).post(*asked), sep="\n")
        print(one_server.said(), file=sys.stderr)
