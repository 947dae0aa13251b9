"""Coloured text: the text is not changed, and colours go only where they are wanted."""

import io
import re

import pytest

from seqloom.charts import theme
from seqloom.charts.passage import Piece, legend, show, visible, wanted, whole_characters

CODES = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "forced", "environment", "expected"),
    [
        (Terminal(), False, {}, True),
        (Terminal(), False, {"NO_COLOR": "1"}, False),
        (Terminal(), False, {"NO_COLOR": ""}, True),  # no-color.org: only when not empty
        (Terminal(), False, {"TERM": "dumb"}, False),
        (Terminal(), True, {"NO_COLOR": "1"}, True),
        (io.StringIO(), False, {}, False),
        (io.StringIO(), False, {"FORCE_COLOR": "1"}, True),
        (io.StringIO(), False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (io.StringIO(), True, {}, True),
    ],
)
def test_when_colours_are_sent(stream, forced, environment, expected):
    assert wanted(stream, forced=forced, environment=environment) is expected


def test_only_codes_are_added():
    pieces = [Piece("to be", 1.0, 5), Piece(" or", 12.0, 3), Piece("\n", 0.2), Piece("née", 9.0, 4)]
    assert CODES.sub("", show(pieces)) == "to be or↵\nnée"


def test_each_piece_has_the_colour_of_its_cost():
    for step, level in enumerate((0.1, 0.6, 1.5, 3.0, 6.0, 20.0)):
        assert f"48;5;{theme.TERMINAL[step]}m" in show([Piece("abc", 3 * level, 3)])
        assert f"48;5;{theme.TERMINAL[step]}m" in legend()


def test_no_background_runs_over_the_end_of_a_line():
    for line in show([Piece("a\nb\n\nc", 99.0, 1)]).split("\n"):
        assert line == "" or line.endswith("\x1b[0m")


def test_control_characters_cannot_reach_the_terminal():
    assert visible("a\x1b[31m\x07\tb\r") == "a\ufffd[31m\ufffd→b\ufffd"
    assert "\x1b" not in show([Piece("\x1b]0;title\x07", 1.0)], colour=False)


def test_digits_stand_below_their_characters():
    pieces = [Piece("ab", 0.2, 2), Piece("c" * 100, 900.0, 100), Piece("\n", 0.1), Piece("d", 2.5)]
    shown = show(pieces, colour=False).split("\n")
    for above, below in zip(shown[::2], shown[1::2]):
        assert len(above) == len(below) <= 78
    assert "".join(shown[::2]) == "ab" + "c" * 100 + "↵d"
    assert "".join(shown[1::2]) == "00" + "5" * 100 + "0" + "3"


def test_digits_stand_below_wide_characters_and_marks():
    shown = show([Piece("e\u0301猫", 0.1), Piece("a", 9.0)], colour=False).split("\n")
    assert shown == ["e\u0301猫a", "0005"]
    rows = show([Piece("猫" * 50, 0.1)], colour=False).split("\n")
    assert [len(row) for row in rows] == [39, 78, 11, 22]


def test_characters_are_never_cut():
    snow = "☃".encode()
    pieces = whole_characters(
        [snow[:1], snow[1:2], snow[2:], b"", b"ab", "é".encode()], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    )
    assert [tuple(p) for p in pieces] == [
        ("☃", 6.0, 3),
        ("", 4.0, 0),
        ("ab", 5.0, 2),
        ("é", 6.0, 2),
    ]
    assert whole_characters([b"\xff", b"a"], [1.0, 1.0])[0].text == "\ufffd"
    assert sum(p.bits for p in whole_characters([snow[:2]], [3.0])) == 3.0
