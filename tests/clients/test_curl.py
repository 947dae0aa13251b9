"""What the examples of `seqloom serve --help` send, from the standard library and from curl itself."""

import json
import shutil
import subprocess
import urllib.request

import pytest

from tests.clients.conftest import SMALL


@pytest.mark.parametrize("name", SMALL)
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


def test_curl(server):
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")

    def ask(path, *arguments):
        done = subprocess.run(
            [curl, "-sS", "--noproxy", "*", server.address + path, *arguments],
            capture_output=True,
            check=True,
        )
        return done.stdout.decode()

    body = json.dumps({"inputs": ["a good road"], "model": "logistic"})
    label = server.models["logistic"].predict("a good road")
    assert json.loads(ask("/predict", "-d", body))["results"][0]["label"] == label
    fields = {"model": "lstm", "prompt": "the", "max_tokens": 5, "seed": 1, "stream": True}
    *events, done, _ = ask("/v1/completions", "-N", "-d", json.dumps(fields)).split("\n\n")
    assert done == "data: [DONE]"
    pieces = [json.loads(event.removeprefix("data: "))["choices"][0]["text"] for event in events]
    assert "".join(pieces) == server.models["lstm"].generate("the", max_tokens=5, seed=1)
    assert json.loads(ask("/health")) == {"status": "ok"}
