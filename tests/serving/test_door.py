"""Who may ask, what is written down, and `seqloom serve` as a process."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import seqloom
from seqloom.errors import ConfigError
from seqloom.serving.configs import ServeConfig
from seqloom.serving.measures import Measures
from tests.serving.process import process
from tests.serving.running import SAVED, running

ASK = {"model": "ngram", "prompt": "the", "max_tokens": 3, "seed": 1}


def post(server, headers, body=ASK, path="/v1/completions"):
    return server.ask("POST", path, body, headers)


def test_a_key():
    with running(SAVED["ngram"], key="s3cret") as server:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Bearer s3cret2"},
            {"Authorization": "Bearer s3cre"},
            {"api-key": "x"},
            {"Authorization": "Bearer \xfc"},
            {"Authorization": "Bearer"},
        ):
            answer = post(server, headers)
            assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
            assert "s3cret" not in answer.body.decode()
        for headers in (
            {"Authorization": "Bearer s3cret"},
            {"Authorization": "bearer s3cret"},
            {"api-key": "s3cret"},
        ):
            assert post(server, headers).status == 200
        assert server.get("/v1/models").status == 401
        assert server.get("/health").status == server.get("/ready").status == 200
    with running(SAVED["ngram"]) as server:  # without one, any is taken
        assert post(server, {"Authorization": "Bearer DUMMY_KEY"}).status == 200


@pytest.mark.parametrize("key", ["", " ", "a b", "s3cret\n", "schlüssel"])
def test_a_key_that_lets_everybody_in_or_nobody(key):
    """An empty one is that of a variable that is not set; others no client can send."""
    with pytest.raises(ConfigError, match="key must be"):
        ServeConfig(key=key)


def test_an_empty_key_of_the_environment_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "seqloom.cli", "serve", SAVED["ngram"], "--port", "0"],
        env={**os.environ, "SEQLOOM_KEY": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2
    assert "key must be" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_name_that_is_not_ours_is_not_answered():
    """A page whose name was made to lead to 127.0.0.1 must not use the models of its visitor."""
    with running(SAVED["ngram"]) as server:
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
            assert post(server, {"Host": host}).status == 400
        for host in ("localhost", "localhost:1234", "127.0.0.1", "[::1]", "[::1]:80"):
            assert post(server, {"Host": host}).status == 200
    with running(SAVED["ngram"], allow_host=("models.example",)) as server:
        assert post(server, {"Host": "models.example"}).status == 200
        assert post(server, {"Host": "other.example"}).status == 400
        assert post(server, {"Host": "localhost"}).status == 200


def test_pages_of_other_origins():
    with running(SAVED["ngram"]) as server:
        foreign = post(server, {"Origin": "http://evil.example"})
        assert foreign.status == 403
        assert "access-control-allow-origin" not in foreign.headers
        own = post(server, {"Origin": server.address})
        assert own.status == 200
        assert "access-control-allow-origin" not in own.headers
        asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        preflight = server.ask("OPTIONS", "/v1/completions", headers=asked)
        assert "access-control-allow-origin" not in preflight.headers
    with running(SAVED["ngram"], allow_origin=("http://ours.example",)) as server:
        ours = post(server, {"Origin": "http://ours.example"})
        assert ours.status == 200
        assert ours.headers["access-control-allow-origin"] == "http://ours.example"
        asked = {"Origin": "http://ours.example", "Access-Control-Request-Method": "POST"}
        preflight = server.ask("OPTIONS", "/v1/completions", headers=asked)
        assert preflight.status == 200
        assert preflight.headers["access-control-allow-origin"] == "http://ours.example"
        foreign = post(server, {"Origin": "http://evil.example"})
        assert foreign.status == 403
        assert "access-control-allow-origin" not in foreign.headers


def test_pages_of_all_origins():
    with running(SAVED["ngram"], allow_origin=("*",)) as server:
        answer = post(server, {"Origin": "http://any.example"})
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == "*"


def test_large_bodies():
    with running(SAVED["ngram"], max_body=2000) as server:
        answer = post(server, {}, {"prompt": "x" * 3000})
        assert answer.status == 413
        assert "2,000 bytes" in answer.error["message"]
        chunked = server.ask(
            "POST", "/v1/completions", b"5\r\n" + b"x" * 10, {"Content-Length": "100000"}
        )
        assert chunked.status == 413


SAMPLE = re.compile(
    r'(?P<name>[a-z_]+)(?:\{(?P<labels>(?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\})? (?P<value>[-+.\de]+)'
)


def parsed(text):
    """Prometheus' text format: values by name and labels, and the type of each name."""
    values, types = {}, {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types
            types[name] = kind
        elif not line.startswith("# HELP "):
            found = SAMPLE.fullmatch(line)
            assert found, line
            base = re.sub("_(bucket|sum|count)$", "", found["name"])
            assert types.get(found["name"], types.get(base))
            values[found["name"], found["labels"] or ""] = float(found["value"])
    return values, types


def test_metrics():
    with running(SAVED["ngram"], f'a"b={SAVED["logistic"]}') as server:
        for _ in range(3):
            server.post("/v1/completions", ASK)
        server.post("/predict", inputs=["good"])
        server.post("/predict", inputs=3)
        values, types = parsed(server.get("/metrics").body.decode())
    label = 'route="/v1/completions",model="ngram"'
    assert values["seqloom_requests_total", label + ',status="200"'] == 3
    assert values["seqloom_requests_total", 'route="/predict",model="a\\"b",status="200"'] == 1
    drawn = values["seqloom_generated_tokens_total", 'model="ngram"']
    assert 3 <= drawn <= 9
    assert values["seqloom_prompt_tokens_total", 'model="ngram"'] == 3
    assert values["seqloom_first_token_seconds_count", 'model="ngram"'] == 3
    assert values["seqloom_waiting_rows", 'model="ngram"'] == 0
    assert values["seqloom_in_flight_requests", ""] == 0
    assert types["seqloom_request_seconds"] == "histogram"
    buckets = [
        value
        for (name, labels), value in values.items()
        if name == "seqloom_request_seconds_bucket" and labels.startswith(label)
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == values["seqloom_request_seconds_count", label] == 3


def test_counters_are_exact():
    """Rates are differences, so no digit may be lost."""
    measures = Measures()
    measures.add("seqloom_generated_tokens_total", 12_345_678)
    for _ in range(3):
        measures.observe("seqloom_request_seconds", 0.1)
    values, _ = parsed(measures.render([("seqloom_running_rows", {}, 1_234_567.0)]))
    assert values["seqloom_generated_tokens_total", ""] == 12_345_678
    assert values["seqloom_running_rows", ""] == 1_234_567
    assert values["seqloom_request_seconds_count", ""] == 3


def test_refused_requests_are_logged_and_counted(capfd):
    with running(SAVED["ngram"], access_log=True) as server:
        server.post("/v2/completions", ASK)
        server.get("/v1/completions")
        post(server, {"Host": "evil.example"})
        values, _ = parsed(server.get("/metrics").body.decode())
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line[0] == "{"]
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("POST", "/v2/completions", 404),
        ("GET", "/v1/completions", 405),
        ("POST", "/v1/completions", 400),
    ]
    for route, status in (("", 404), ("/v1/completions", 405), ("/v1/completions", 400)):
        labels = f'route="{route}",model="",status="{status}"'
        assert values["seqloom_requests_total", labels] == 1


def test_requests_are_written_down_with_their_texts(tmp_path):
    file = tmp_path / "requests.jsonl"
    before = time.time()
    with running(SAVED["ngram"], SAVED["logistic"], log=str(file)) as server:
        server.post("/predict", inputs=["a good road", "ümlaut"])
        server.post("/v1/completions", {**ASK, "prompt": ["the", "on"], "stream": True})
        server.post("/score", inputs=["the cat"])
        server.post("/predict", inputs=[3])
        server.get("/v1/models")
        labels = list(server.models["logistic"].predict(["a good road", "ümlaut"]))
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [(line["route"], line["model"]) for line in lines] == [
        ("/predict", "logistic"),
        ("/v1/completions", "ngram"),
        ("/score", "ngram"),
    ]
    assert [line["texts"] for line in lines] == [
        ["a good road", "ümlaut"],
        ["the", "on"],
        ["the cat"],
    ]
    assert lines[0]["labels"] == labels
    for line in lines:
        assert line["status"] == 200
        assert before - 1 <= line["time"] <= time.time() + 1
        assert line["seconds"] >= 0
    assert "ümlaut" in file.read_text("utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_process_answers_and_ends_in_order():
    models = [SAVED["ngram"], f"second={SAVED['ngram']}"]
    with process(*models, env={"SEQLOOM_KEY": "k"}) as server:
        assert server.models == ["ngram", "second"]
        status, body = server.ask("POST", "/v1/completions", ASK, Authorization="Bearer k")
        expected = seqloom.load(SAVED["ngram"]).generate("the", max_tokens=3, seed=1)
        assert (status, json.loads(body)["choices"][0]["text"]) == (200, expected)
        assert server.ask("POST", "/v1/completions", ASK)[0] == 401
        assert server.get("/health") == {"status": "ok"}
        server.signal(signal.SIGTERM)
        assert server.ended() == 0
        said = server.said()
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [(line["route"], line["status"]) for line in lines] == [
        ("/v1/completions", 200),
        ("/v1/completions", 401),
    ]
    assert lines[0]["model"] == "ngram"
    assert lines[0]["generated_tokens"] > 0
    assert "listening on http://127.0.0.1:" in said


def test_what_cannot_be_served_is_one_line(tmp_path):
    with running(SAVED["ngram"]) as server:
        port = server.address.rpartition(":")[2]
        for arguments in (
            [SAVED["ngram"], "--port", port],
            [tmp_path / "nowhere", "--port", "0"],
            [SAVED["ngram"], SAVED["ngram"], "--port", "0"],
            [SAVED["ngram"], "--port", "0", "--log", tmp_path / "no" / "folder.jsonl"],
        ):
            done = subprocess.run(
                [sys.executable, "-m", "seqloom.cli", "serve", *map(str, arguments)],
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode not in (0, None)
            assert "Traceback" not in done.stderr, done.stderr
            assert done.stderr.startswith("seqloom: ")
            assert done.stderr.count("\n") == 1, done.stderr
