"""What long texts take of memory: measured in a child, whose peak nothing else has raised."""

import os
import re
import subprocess
import sys

import pytest

import seqloom

CHILD = """
import resource, sys, contextlib, os
from pathlib import Path
import seqloom
from seqloom.cli.main import main

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def score(place):
    with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
        main.main(["score", sys.argv[2], place], standalone_mode=False)

model = seqloom.load(sys.argv[2])
use = {"evaluate": lambda place: model.evaluate(Path(place)), "score": score}[sys.argv[1]]
use(sys.argv[3])
before = peak()
use(sys.argv[4])
print(peak() - before)
"""


def growth(command, model, short, long):
    """Bytes by which the peak rises from a short text to a long one."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, command, str(model), str(short), str(long)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SEQLOOM_THREADS": "1"},
    )
    return int(done.stdout)


@pytest.mark.parametrize(
    ("command", "name", "options", "size"),
    [
        ("evaluate", "NGram", {"order": 3}, 2 << 20),
        ("score", "NGram", {"order": 3}, 2 << 20),
        ("evaluate", "HMM", {"states": 16, "iterations": 1}, 1 << 19),
    ],
)
def test_memory_does_not_grow_with_the_text(command, name, options, size, tmp_path, shakespeare):
    model = getattr(seqloom, name)(tokenizer="byte", unit="stream", **options).fit(
        shakespeare[:50_000]
    )
    model.save(tmp_path / "model")
    for place, times in (("short", 1), ("long", 3)):
        text = shakespeare[: 1 << 19] * (size * times >> 19)
        (tmp_path / place).write_text(text, encoding="utf-8")
    assert growth(command, tmp_path / "model", tmp_path / "short", tmp_path / "long") < 110e6


def test_counting_on_disk_keeps_to_the_memory_it_announces(tmp_path, shakespeare):
    (tmp_path / "text").write_text(
        " ".join(f"{word}{i % 97}" for i, word in enumerate(shakespeare.split())), encoding="utf-8"
    )
    child = """
import sys
from pathlib import Path
from seqloom import NGram, progress
from seqloom.models import workspace
said, seen = [], []
class Reporter:
    def begin(self, *_): return progress._Silent()
    def end(self, _): pass
    def say(self, message): said.append(message)
real = workspace.Workspace.relieve
def relieve(self):
    real(self)
    seen.append(workspace.resident())
workspace.Workspace.relieve = relieve
with progress.reporting(Reporter()):
    NGram(order=5).fit(Path(sys.argv[1]), memory=sys.argv[2])
print(max(seen) >> 20, said[0])
"""

    def run(memory):
        done = subprocess.run(
            [sys.executable, "-c", child, str(tmp_path / "text"), memory],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "SEQLOOM_THREADS": "1"},
        )
        held, said = done.stdout.split(maxsplit=1)
        return int(held), said

    held, said = run("20M")
    announced = int(re.search(r"about (\d+) MB", said)[1])
    assert "more than memory=... allows" in said
    assert held <= announced + 8


def test_a_tokenizer_is_made_in_memory_that_does_not_grow_with_the_text(tmp_path, shakespeare):
    """Of a directory, whose files are checked, hashed and counted in one reading."""
    child = """
import resource, sys
from pathlib import Path
from seqloom import NGram
def make(place):
    NGram(tokenizer="char").make_tokenizer(Path(place))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = make(sys.argv[1])
print(make(sys.argv[2]) - before)
"""
    text = shakespeare[: 1 << 20] * 8
    for name, times in (("short", 1), ("long", 4)):
        (tmp_path / name).mkdir()
        for i in range(2):
            (tmp_path / name / f"{i}.txt").write_text(text * times, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", child, str(tmp_path / "short"), str(tmp_path / "long")],
        text=True,
        capture_output=True,
        check=True,
        env={**os.environ, "SEQLOOM_THREADS": "1"},
    )
    assert int(done.stdout) < 24e6  # half of what was added to the text
