"""A few hostile requests in every run of the tests, and that a wrong answer is seen as one."""

import json

import pytest

pytest.importorskip("uvicorn")

from .requests import fault, run


def test_hostile_requests_are_answered_or_refused_in_one_line():
    counts = run(60, seed=0)
    assert counts.wrong == []
    assert counts.tried == 66
    assert min(counts.refused, counts.worked) > 5


def error(message):
    return json.dumps({"error": {"message": message}}).encode()


@pytest.mark.parametrize(
    ("status", "answer", "wrong"),
    [
        (400, error("n must be a whole number"), False),
        (400, error("two\nlines"), True),
        (400, error(""), True),
        (400, error("x" * 2000), True),
        (400, b"Bad Request", True),
        (500, error("unexpected KeyError"), True),
        (503, error("later"), True),
        (307, b"", True),
        (200, b'{"a": NaN}', True),
        (200, b'{"a": 1}', False),
    ],
)
def test_wrong_answers_are_seen(status, answer, wrong):
    assert (fault(status, "application/json", answer) is not None) == wrong


def test_a_stream_must_end():
    kind = "text/event-stream; charset=utf-8"
    assert fault(200, kind, b"data: {}\n\ndata: [DONE]\n\n") is None
    assert fault(200, kind, b"data: {}\n\n") is not None
