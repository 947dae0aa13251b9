"""What the examples of `seqloom serve --help` send, from the standard library and from curl itself."""

import json
import shutil
import subprocess
import urllib.request

import pytest


def test_a_body_without_a_content_type(server, name):
    """curl -d says application/x-www-form-urlencoded; nothing is decided by that, nor by Accept."""
    fields = {"model": name, "prompt": "the cat", "max_tokens": 8, "seed": 1}
    expected = server.models[name].generate("the cat", max_tokens=8, seed=1)
    for kind in ("application/x-www-form-urlencoded", "application/json", "text/plain"):
        request = urllib.request.Request(
            server.address + "/v1/completions",
            json.dumps(fields).encode(),
            {"Content-Type": kind, "Accept": "text/event-stream"},
        )
        with urllib.request.urlopen(request) as answer:
            assert json.load(answer)["choices"][0]["text"] == expected
            assert answer.headers["Content-Type"] == "application/json"


@pytest.fixture
def curl(server):
    """Curl itself, asking that server."""
    program = shutil.which("curl")
    if program is None:
        pytest.skip("curl is not installed")

    def ask(path, *arguments):
        done = subprocess.run(
            [program, "-sS", "--noproxy", "*", server.address + path, *arguments],
            capture_output=True,
            check=True,
        )
        return done.stdout.decode()

    return ask


def test_curl_completes(server, curl, name):
    fields = {"model": name, "prompt": "the", "max_tokens": 5, "seed": 1}
    expected = server.models[name].generate("the", max_tokens=5, seed=1)
    whole = json.loads(curl("/v1/completions", "-d", json.dumps(fields)))
    assert whole["choices"][0]["text"] == expected
    body = json.dumps(fields | {"stream": True})
    *events, done, _ = curl("/v1/completions", "-N", "-d", body).split("\n\n")
    assert done == "data: [DONE]"
    pieces = [json.loads(event.removeprefix("data: "))["choices"][0]["text"] for event in events]
    assert "".join(pieces) == expected


def test_curl_asks_the_rest(server, curl):
    body = json.dumps({"inputs": ["a good road"], "model": "logistic"})
    label = server.models["logistic"].predict("a good road")
    assert json.loads(curl("/predict", "-d", body))["results"][0]["label"] == label
    assert json.loads(curl("/health")) == {"status": "ok"}
