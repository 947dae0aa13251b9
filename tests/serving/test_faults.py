"""What a server does when clients, files, models, operators and the machine misbehave.

Nothing here measures speed: tests wait for events (an answer, a counter of /metrics, an exit).
"""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from seqloom import load
from tests.saved import NEWEST

from .process import WAIT, Stream, command, process

NGRAM, LSTM = NEWEST / "ngram", NEWEST / "lstm"
ENDLESS = {"prompt": "the", "max_tokens": 500_000, "min_tokens": 500_000, "seed": 1}
LONG = ("--max-tokens", "1000000", "--no-access-log")  # so that a text outlives the test
RUNNING, IN_FLIGHT = "seqloom_running_rows", "seqloom_in_flight_requests"


def refused_start(*arguments, **options):
    """Exit code and lines of a server that cannot start."""
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=WAIT, **options
    )
    return done.returncode, done.stderr.splitlines()


def text_of(events):
    return "".join(event["choices"][0]["text"] for event in events if event != "[DONE]")


# ---- the operator


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_streams_end_in_order(number):
    with process(LSTM, *LONG, "--drain", "2") as server:
        stream = Stream(server, **ENDLESS)
        events = iter(stream)
        first = next(events)
        server.signal(number)
        wait_until_not_ready(server)
        rest = list(events)
        assert rest[-1] == "[DONE]"
        assert rest[-2]["choices"][0]["finish_reason"] == "length"
        assert stream.answer.read() == b""  # the last chunk was there
        assert server.ended() == 0
        assert first["choices"][0]["finish_reason"] is None
        assert "Traceback" not in server.said()


def wait_until_not_ready(server):
    """Until /ready is 503, while connections are still taken, or they are refused."""
    for _ in range(int(WAIT * 50)):
        try:
            status, body = server.ask("GET", "/ready")
        except OSError:
            return
        if status == 503:
            assert "shutting down" in json.loads(body)["error"]["message"]
            return
        time.sleep(0.02)
    raise AssertionError("the server stays ready")


def asked_again(connection):
    connection.request("GET", "/ready")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_ready_says_503_before_connections_are_refused():
    with process(NGRAM, *LONG, "--drain", "30") as server:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=WAIT)
        seen = [asked_again(connection)]
        connection.auto_open = 0  # only this one
        server.signal(signal.SIGTERM)
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                seen.append(asked_again(connection))
        connection.close()
        assert seen[0] == 200
        assert 503 in seen
        assert server.ended() == 0


def test_a_second_signal_ends_at_once():
    with process(LSTM, *LONG, "--drain", "100000") as server:
        stream = Stream(server, **ENDLESS)
        next(iter(stream))
        server.signal(signal.SIGTERM)
        wait_until_not_ready(server)
        server.signal(signal.SIGTERM)
        assert server.ended() == 0
        stream.close()


def test_heavy_work_does_not_keep_the_server_from_ending():
    inputs = ["the cat sat on the log " * 4000] * 40  # minutes of work
    with process(NEWEST / "bert", "--drain", "0.5", "--no-access-log") as server:
        connection = server.connect()
        post(connection, "/score", inputs=[inputs[0][:100000]] * 40)
        server.wait_for(IN_FLIGHT, lambda count: count == 1)
        server.signal(signal.SIGTERM)
        assert server.ended() == 0
        connection.close()


def test_garbage_is_looked_for_once_requests_are_taken_and_not_before(monkeypatch):
    """While models are loaded nothing becomes garbage, and looking for it took a sixth of the time."""
    from click.testing import CliRunner

    from seqloom.cli.serve import command
    from seqloom.serving import server

    seen = {}
    load, usual = server.Catalogue, (gc.get_threshold(), sys.getswitchinterval())

    def loading(*arguments):
        seen["loading"] = gc.isenabled()
        return load(*arguments)

    def serving(self, sockets):
        seen["serving"] = gc.isenabled()

    monkeypatch.setattr(server, "Catalogue", loading)
    monkeypatch.setattr(server.Server, "run", serving)
    try:
        result = CliRunner().invoke(command, [str(NGRAM), "--port", "0"])
        assert result.exit_code == 0, result.output
        assert seen == {"loading": False, "serving": True}
    finally:
        gc.enable()
        gc.unfreeze()
        gc.set_threshold(*usual[0])
        sys.setswitchinterval(usual[1])


def test_two_servers_on_one_port():
    with process(NGRAM) as server:
        code, lines = refused_start(NGRAM, "--port", str(server.port))
        assert (code, len(lines)) == (2, 1)
        assert f"port {server.port}" in lines[0]
        assert server.get("/ready") == {"status": "ready"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use every port")
def test_a_port_that_needs_permission():
    code, lines = refused_start(NGRAM, "--port", "1")
    assert (code, len(lines)) == (2, 1)
    assert "port 1" in lines[0]


@pytest.mark.parametrize("options", [["--host", "203.0.113.1"], ["--host", "no such host"]])
def test_an_address_that_is_not_here(options):
    code, lines = refused_start(NGRAM, "--port", "0", *options)
    assert (code, len(lines)) == (2, 1)
    assert "cannot listen" in lines[0]


def test_a_log_that_cannot_be_written(tmp_path):
    code, lines = refused_start(NGRAM, "--port", "0", "--log", tmp_path)
    assert code == 1
    assert len(lines) == 1
    assert str(tmp_path) in lines[0]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_ends_the_log_and_no_request():
    with process(NGRAM, "--log", "/dev/full", "--no-access-log") as server:
        for _ in range(3):
            assert server.post("/v1/completions", prompt="the", max_tokens=1)["choices"]
        said = [line for line in server.said().splitlines() if "/dev/full" in line]
        assert len(said) == 1
        assert "No space left" in said[0]


def test_the_next_start_works_after_a_kill(tmp_path):
    log = tmp_path / "requests.jsonl"
    with process(LSTM, *LONG, "--log", log) as server:
        stream = Stream(server, **ENDLESS)
        next(iter(stream))
        server.signal(signal.SIGKILL)
        server.ended()
        stream.close()
        port = server.port
    with process(LSTM, "--log", log) as server:
        assert server.post("/v1/completions", prompt="the", max_tokens=2)["choices"]
    with contextlib.closing(socket.socket()) as free:  # the old port is free
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))


def test_out_of_files_is_survived():
    """With fewer files than connections: those that have one are served, and all are again later."""
    with process(NGRAM, "--no-access-log") as server:
        import resource

        resource.prlimit(server.child.pid, resource.RLIMIT_NOFILE, (server.files() + 8,) * 2)
        crowd = [server.connect() for _ in range(40)]
        for connection in crowd:
            connection.close()
        assert server.get("/ready") == {"status": "ready"}
        assert "Traceback" not in server.said()


def test_connections_beyond_the_limit_are_closed():
    with process(NGRAM, "--max-connections", "5", "--no-access-log") as server:
        kept = [server.connect() for _ in range(5)]
        for connection in kept:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in connection.recv(1000)
        with server.connect() as further:
            assert further.recv(1) == b""
        for connection in kept:
            connection.close()
        server.wait_for("seqloom_draining", lambda value: value == 0)  # is answered again


# ---- clients


def post(connection, path, **fields):
    body = json.dumps(fields).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("n", [1, 3])
def test_a_client_that_leaves_stops_its_work(streamed, n):
    with process(LSTM, *LONG) as server:
        connection = server.connect()
        fields = {**ENDLESS, "max_tokens": 300_000, "min_tokens": 300_000}
        post(connection, "/v1/completions", **fields, stream=streamed, n=n)
        server.wait_for(RUNNING, lambda rows: rows == n)
        connection.close()
        server.wait_for(RUNNING, lambda rows: rows == 0)
        server.wait_for(IN_FLIGHT, lambda count: count == 0)


def test_a_client_that_leaves_the_queue_makes_room():
    with process(LSTM, *LONG, "--rows", "1", "--queue", "2") as server:
        running, *waiting = [server.connect() for _ in range(3)]
        post(running, "/v1/completions", **ENDLESS)
        server.wait_for(RUNNING, lambda rows: rows == 1)
        for connection in waiting:
            post(connection, "/v1/completions", **ENDLESS)
        server.wait_for("seqloom_waiting_rows", lambda rows: rows == 2)
        status, body = server.ask("POST", "/v1/completions", {"prompt": "the"})
        assert status == 429
        assert "2 texts wait already" in json.loads(body)["error"]["message"]
        with server.connect() as connection:
            post(connection, "/v1/completions", prompt="the")
            assert b"retry-after: 1\r\n" in connection.recv(4000)
        waiting[0].close()
        server.wait_for("seqloom_waiting_rows", lambda rows: rows == 1)
        running.close()
        waiting[1].close()
        assert server.post("/v1/completions", prompt="the", max_tokens=1)["choices"]


def test_a_client_that_leaves_stops_heavy_work_of_a_verb():
    """Both threads are free again for others, long before that work would have ended."""
    text = "the cat sat on the log " * 3000
    with process(NEWEST / "bert", NGRAM, "--no-access-log") as server:
        crowd = [server.connect() for _ in range(4)]
        for connection in crowd:
            post(connection, "/score", model="bert", inputs=[text] * 30)
        server.wait_for(IN_FLIGHT, lambda count: count == 4)
        for connection in crowd:
            connection.close()
        server.wait_for(IN_FLIGHT, lambda count: count == 0)
        assert len(server.post("/score", model="bert", inputs=["the cat"])["results"]) == 1


def test_work_of_a_verb_has_a_limit_of_time():
    text = "the cat sat on the log " * 3000
    with process(NEWEST / "bert", "--timeout", "0.5", "--no-access-log") as server:
        status, body = server.ask("POST", "/score", {"inputs": [text] * 50})
        assert status == 504
        assert "too long" in json.loads(body)["error"]["message"]


def test_a_text_has_a_limit_of_time():
    with process(LSTM, *LONG, "--timeout", "1") as server:
        fields = {**ENDLESS, "max_tokens": 900_000, "min_tokens": 900_000}
        answer = server.post("/v1/completions", **fields)
        assert answer["choices"][0]["finish_reason"] == "length"
        assert 0 < answer["usage"]["completion_tokens"] < 900_000


def test_who_waits_too_long_is_told():
    with process(LSTM, *LONG, "--rows", "1", "--timeout", "2") as server:
        running = Stream(server, **ENDLESS)
        next(iter(running))
        status, body = server.ask("POST", "/v1/completions", ENDLESS)
        assert (status, "too long" in body.decode()) in ((200, False), (504, True))
        running.close()


def test_slow_requests_are_closed_and_streams_live_on():
    with process(LSTM, *LONG, "--request-timeout", "0.5") as server:
        stream = Stream(server, **ENDLESS)
        events = iter(stream)
        next(events)
        begun = (
            b"",
            b"POST /v1/completions HTTP/1.1\r\nHost: loc",
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n\r\n{",
            b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he",  # the second one
        )
        for data in begun:
            with server.connect() as connection:
                connection.sendall(data)
                while connection.recv(1000):
                    pass
        assert next(events)["choices"]
        stream.close()


def test_a_pipelined_stream_outlives_the_pause_between_requests(monkeypatch):
    """Its alarm is that of a request, not that of a connection without one."""
    from seqloom.serving import server as module

    monkeypatch.setattr(module, "KEEP_ALIVE", 0.3)
    body = json.dumps({**ENDLESS, "stream": True}).encode()
    first = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with (
        threaded(LSTM, max_tokens=1_000_000) as (_, port),
        socket.create_connection(("127.0.0.1", port), timeout=WAIT) as connection,
    ):
        connection.sendall(first + head.encode() + body)
        begun, received = time.monotonic(), b"x"
        while time.monotonic() < begun + 1 and received:
            received = connection.recv(1 << 16)
        assert received


def test_a_client_that_stops_reading_is_given_up(monkeypatch):
    from seqloom.serving import answering

    monkeypatch.setattr(answering, "UNREAD_SECONDS", 0.3)
    with threaded(NGRAM, max_tokens=1_000_000) as (server, port):
        engine = next(iter(server.service.catalogue)).engine
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(WAIT)
            connection.connect(("127.0.0.1", port))
            # as many as one answer may have log-probabilities of
            long = {**ENDLESS, "max_tokens": 160_000, "min_tokens": 160_000}
            post(connection, "/v1/completions", **long, logprobs=2, stream=True)
            wait(lambda: engine.running_rows == 1)
            wait(lambda: engine.running_rows == 0 and server.service.in_flight == 0)
            counted = "\n".join(server.service.measures._lines([]))
            assert 'status="499"' in counted
            wait(lambda: not server.server_state.connections)  # nor is what was left unread kept


def wait(condition):
    for _ in range(int(WAIT * 50)):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it never happened")


@contextlib.contextmanager
def threaded(*models, **options):
    """A server in a thread of this process, for what has to be set inside of it."""
    import threading

    from seqloom.serving.catalogue import Catalogue, named_paths
    from seqloom.serving.configs import ServeConfig
    from seqloom.serving.server import listen, make_server

    config = ServeConfig(port=0, access_log=False, **options)
    with contextlib.closing(listen(config)) as bound:
        server = make_server(Catalogue(dict(named_paths(list(map(str, models)))), config), config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            yield server, bound.getsockname()[1]
        finally:
            server.service.end_all()
            server.should_exit = True
            thread.join(WAIT)
            assert not thread.is_alive()


# ---- models


def test_a_directory_that_changes_or_vanishes_is_served_on(tmp_path):
    place = tmp_path / "model"
    shutil.copytree(LSTM, place)
    asked = {"prompt": "the", "max_tokens": 8, "seed": 1}
    with process(place, *LONG) as server:
        before = server.post("/v1/completions", **asked)["choices"]
        shutil.rmtree(place)
        assert server.post("/v1/completions", **asked)["choices"] == before
        status, body = server.ask("POST", "/admin/reload", {"model": "model"})
        assert status == 409
        assert "stays in service" in json.loads(body)["error"]["message"]
        shutil.copytree(LSTM, place)
        config = place / "config.json"
        config.write_text(config.read_text()[:40])
        status, body = server.ask("POST", "/admin/reload", {"model": "model"})
        assert status == 409
        assert len(json.loads(body)["error"]["message"].splitlines()) == 1
        assert server.post("/v1/completions", **asked)["choices"] == before
        shutil.rmtree(place)
        shutil.copytree(NGRAM, place)
        assert server.post("/admin/reload", model="model")["kind"] == "ngram"
        assert server.post("/v1/completions", **asked)["choices"] != before


def test_streams_end_on_the_model_they_began_with(tmp_path):
    place = tmp_path / "model"
    shutil.copytree(LSTM, place)
    asked = {"prompt": "the", "max_tokens": 4000, "min_tokens": 4000, "seed": 5}
    with process(place, *LONG) as server:
        alone = server.post("/v1/completions", **asked)["choices"][0]["text"]
        stream = Stream(server, **asked)
        events = iter(stream)
        first = next(events)
        shutil.rmtree(place)
        shutil.copytree(NGRAM, place)
        assert server.post("/admin/reload", model="model")["kind"] == "ngram"
        new = load(NGRAM)
        answer = server.post("/v1/completions", prompt="the", max_tokens=5, seed=3)
        assert answer["choices"][0]["text"] == new.generate("the", max_tokens=5, seed=3)
        rest = list(events)
        assert rest[-1] == "[DONE]"
        assert text_of([first, *rest]) == alone


def test_a_request_that_found_the_old_model_is_still_answered():
    """Also when its decoding thread has ended between the two."""
    with threaded(LSTM) as (server, _):
        from seqloom.decoding.sampling import SamplingConfig
        from seqloom.serving.requests import Request

        old = next(iter(server.service.catalogue))
        server.service.catalogue.reload("lstm")
        old.engine.join(WAIT)
        request = Request("the", SamplingConfig(max_tokens=3, seed=1), lambda request: None)
        old.engine.submit(request)
        wait(lambda: request.done)
        assert request.error is None
        written = "".join(event.text for event in request.events)
        assert written == old.model.generate("the", max_tokens=3, seed=1)


def test_a_broken_model_ends_its_own_request_alone():
    """Rows whose numbers are NaN fail; those beside them go on as if alone."""
    import numpy as np

    with threaded(LSTM) as (server, _):
        from seqloom.decoding.sampling import SamplingConfig
        from seqloom.errors import ModelError
        from seqloom.serving.requests import Request

        served = next(iter(server.service.catalogue))
        engine = served.engine
        expected = served.model.generate("the", max_tokens=30, seed=1)
        step, poison = engine.stepper.step, []

        def broken(state, ids):
            state, log_probs = step(state, ids)
            for at, row in enumerate(engine._rows):
                if row.request in poison:
                    log_probs[at] = np.nan
            return state, log_probs

        engine.stepper.step = broken
        good, bad = (
            Request("the", SamplingConfig(max_tokens=30, seed=1), lambda request: None)
            for _ in range(2)
        )
        poison.append(bad)
        with engine._wake:  # so that both begin in the same turn
            for request in (bad, good):
                engine.submit(request)
        wait(lambda: good.done and bad.done)
        assert isinstance(bad.error, ModelError)
        assert good.error is None
        assert "".join(event.text for event in good.events) == expected


def test_many_models_are_served_by_one_process(tmp_path):
    with process(*(f"m{i}={NGRAM}" for i in range(20)), "--no-access-log") as server:
        assert len(server.get("/v1/models")["data"]) == 20
        texts = {
            server.post("/v1/completions", model=f"m{i}", prompt="the", seed=1)["choices"][0][
                "text"
            ]
            for i in range(20)
        }
        assert len(texts) == 1
        status, _ = server.ask("POST", "/v1/completions", {"prompt": "the"})
        assert status == 400
        server.signal(signal.SIGTERM)
        assert server.ended() == 0


# ---- limits


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"max_tokens": 10**9}, "max_tokens", "at most 8,192"),
        ({"max_tokens": -1}, "max_tokens", "from 0"),
        ({"n": 33}, "n", "from 1 to 32"),
        ({"n": 0}, "n", "from 1 to 32"),
        ({"prompt": ["a"] * 300}, "prompt", "at most 256"),
        ({"prompt": [1] * 120_000}, "prompt", "at most 100,000"),
        ({"prompt": "a " * 120_000}, "prompt", "at most 100,000"),
        ({"prompt": ["a"] * 200, "max_tokens": 8000}, "max_tokens", "at most 1,000,000"),
        ({"logprobs": 1000, "max_tokens": 4000}, "logprobs", "at most 500,000"),
        ({"stop": ["a"] * 65}, "stop", "at most 64"),
        ({"stop": ""}, "stop", "1 to 1,000"),
        ({"stop": "a" * 1001}, "stop", "1 to 1,000"),
    ],
)
def test_limits_of_a_completion(fields, field, words, limited):
    status, body = limited.ask(
        "POST", "/v1/completions", {"model": "lstm", "prompt": "the", **fields}
    )
    error = json.loads(body)["error"]
    assert (status, error["param"]) == (400, field)
    assert words in error["message"]


def test_other_limits(limited):
    status, body = limited.ask("POST", "/score", {"model": "ngram", "inputs": ["a"] * 1025})
    assert status == 400
    assert "at most 1,024" in body.decode()
    status, body = limited.ask("POST", "/score", b" " * 4_000_001)
    assert status == 413
    assert "4,000,000 bytes" in body.decode()
    status, body = limited.ask("POST", "/v1/completions", {"model": "gpt", "prompt": [1] * 50})
    assert status == 400
    assert "50 tokens" in body.decode()
    assert limited.post("/v1/completions", model="ngram", prompt="the", max_tokens=0)["choices"]


@pytest.fixture(scope="module")
def limited():
    with process(NGRAM, LSTM, NEWEST / "gpt", "--no-access-log") as server:
        yield server


def test_clocks_may_jump(monkeypatch):
    """The time of day is only for labels: whatever it says, nothing ends early or late."""
    jumps = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: (-1) ** next(jumps) * 1e9 + 2e9)
    with threaded(LSTM) as (server, port):
        expected = next(iter(server.service.catalogue)).model.generate("the", max_tokens=20, seed=1)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
        for _ in range(5):
            asked = {"prompt": "the", "max_tokens": 20, "seed": 1}
            connection.request("POST", "/v1/completions", json.dumps(asked))
            answer = json.loads(connection.getresponse().read())
            assert answer["choices"][0]["text"] == expected
        connection.close()
        assert "_sum{" in server.service.measures.render([])
        assert "} -" not in server.service.measures.render([])
