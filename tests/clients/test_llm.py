"""Simon Willison's llm, as a program: its endpoint command, and models declared in its own file."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("llm")


@pytest.fixture
def llm(tmp_path):
    """The program, with a directory of its own and no plugins."""
    environment = {**os.environ, "LLM_USER_PATH": str(tmp_path), "LLM_LOAD_PLUGINS": ""}

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "llm", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )

    run.place = tmp_path
    return run


OPTIONS = {"max_tokens": 10, "temperature": 0.8, "seed": 4}
FLAGS = [part for name, value in OPTIONS.items() for part in ("-o", name, str(value))]


def test_endpoint(llm, server, talker):
    base = server.address + "/v1"
    listed = llm("openai", "endpoint", base, "--models")
    assert set(listed.stdout.split()) >= set(server.models), listed.stderr
    expected = server.models[talker].chat("the cat", **OPTIONS)
    for more in ([], ["--no-stream"]):
        answer = llm("openai", "endpoint", base, "the cat", "-m", talker, *FLAGS, *more)
        assert answer.stdout.removesuffix("\n") == expected, answer.stderr
    refused = llm("openai", "endpoint", base, "the cat", "-m", "ngram")
    assert refused.returncode
    assert "/v1/completions" in refused.stderr


def test_a_declared_model_completes(llm, server, name):
    (llm.place / "extra-openai-models.yaml").write_text(
        f"- model_id: ours\n  model_name: {name}\n  api_base: {server.address}/v1\n"
        "  completion: true\n"
    )
    expected = server.models[name].generate("the cat", **OPTIONS)
    for more in ([], ["--no-stream"]):
        answer = llm("-m", "ours", "the cat", *FLAGS, *more)
        assert answer.stdout.removesuffix("\n") == expected, answer.stderr
