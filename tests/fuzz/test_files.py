"""A few hostile files in every run of the tests, and that a wrong ending is seen as one."""

import pytest

from .command_worker import Ended, Worker
from .files import run


def test_hostile_files_work_or_are_refused_in_one_line():
    counts = run(40, seed=0)
    assert counts.wrong == []
    assert counts.tried == 40
    assert counts.refused
    assert counts.worked


@pytest.mark.parametrize(
    ("code", "err", "wrong"),
    [
        (0, "", False),
        (1, "seqloom: no such file: a\n", False),
        (1, "Traceback (most recent call last)\n", True),
        (1, "", True),
        (1, "seqloom: unexpected KeyError: 'a' (run again with --debug for the trace)\n", True),
        (None, "stopped after 60 s", True),
        (1, "seqloom: two\nlines\n", True),
        (1, f"seqloom: {'x' * 1000}\n", True),
        (0, "RuntimeWarning: overflow\n", True),
    ],
)
def test_wrong_endings_are_seen(code, err, wrong):
    assert (Ended(code, "", err, 0.1).fault() is not None) == wrong


def test_a_command_that_hangs_or_dies_is_stopped_and_the_next_one_runs(tmp_path):
    worker = Worker(str(tmp_path), seconds=0.2)
    try:
        assert "stopped" in worker.run(["fit", "ngram", "data:tinyshakespeare", "-o", "m"]).err
        worker.seconds = 300
        assert worker.run(["models"]).code == 0
        assert worker.restarts == 1
    finally:
        worker.stop()
