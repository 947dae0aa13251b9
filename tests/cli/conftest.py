"""Run the command in this process, or as a real one, and look at what it says where."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from seqloom import Mixture, NGram, Uniform
from seqloom.cli import main as cli
from tests.timed_lines import without_timed_lines

from .ends import PATIENCE


@dataclass
class Ran:
    code: int
    out: str
    err: str

    def one_line(self):
        """The error as the user sees it: one line on stderr, nothing on stdout."""
        assert self.out == ""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("seqloom: ")
        return lines[0].removeprefix("seqloom: ")

    def json(self):
        return [json.loads(line) for line in self.out.splitlines()]


class _Entry:
    """`run()` where CliRunner expects a click command."""

    name = "seqloom"

    def main(self, args, prog_name, **_):
        before, sys.argv = sys.argv, ["seqloom", *args]
        try:
            cli.run()
        finally:
            sys.argv = before


@pytest.fixture
def seqloom(tmp_path, monkeypatch):
    """seqloom("fit", "ngram", ...) in this process, inside an own directory."""
    monkeypatch.chdir(tmp_path)

    def run(*args, stdin=""):
        found = CliRunner().invoke(_Entry(), [str(a) for a in args], input=stdin)
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        return Ran(found.exit_code, found.stdout, without_timed_lines(found.stderr))

    return run


@pytest.fixture
def process(tmp_path):
    """The same as a process of its own; `python` runs code before or instead of the command."""

    def run(*args, stdin=b"", python=None, **options):
        command = (
            [sys.executable, "-m", "seqloom.cli"]
            if python is None
            else [sys.executable, "-c", python]
        )
        environment = {
            **os.environ,
            "SEQLOOM_CACHE": str(tmp_path / "cache"),
            **options.pop("env", {}),
        }
        found = subprocess.run(
            [*command, *map(str, args)],
            input=stdin,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            timeout=PATIENCE,
            **options,
        )
        return Ran(
            found.returncode, found.stdout.decode(), without_timed_lines(found.stderr.decode())
        )

    return run


@pytest.fixture(scope="session")
def saved(tmp_path_factory, toy_text):
    """A directory with a text and one saved model of each kind."""
    place = tmp_path_factory.mktemp("saved")
    (place / "toy.txt").write_text(toy_text)
    words = NGram(order=3).fit(toy_text)
    words.save(place / "words")
    NGram(order=4, tokenizer="byte", unit="stream").fit(toy_text).save(place / "bytes")
    NGram(order=2, tokenizer="char", unit="document").fit(toy_text).save(place / "documents")
    NGram(order=2, smoothing="add-k").fit(toy_text).save(place / "addk")
    Uniform().fit(toy_text).save(place / "uniform")
    unigram = NGram(order=1).fit(toy_text, tokenizer=words.tokenizer)
    Mixture.of([words, unigram]).fit("the cat sat\n").save(place / "mixture")
    return place
