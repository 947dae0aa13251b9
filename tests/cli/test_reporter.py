"""Progress on stderr: nothing for short work, a bar on a terminal, plain lines elsewhere, silence when asked."""

import io
import sys
import time

from seqloom import progress
from seqloom.cli import reporter


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def as_terminal(monkeypatch):
    """Not a fixture, since pytest puts its own stderr back after those."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def wait_for(sign, stream):
    end = time.monotonic() + 20
    while sign not in stream.getvalue():
        assert time.monotonic() < end, stream.getvalue()
        time.sleep(0.01)


def test_a_bar_appears_even_before_anything_is_done(monkeypatch):
    terminal = as_terminal(monkeypatch)
    monkeypatch.setattr(reporter, "PATIENCE", 0.01)
    chosen = reporter.reporter_for(quiet=False)
    assert isinstance(chosen, reporter.BarReporter)
    with progress.reporting(chosen), progress.task("counting", total=10, unit="tokens") as bar:
        wait_for("counting", terminal)
        bar.advance(5)
        wait_for("50%", terminal)
        progress.say("a remark [4, 1] with brackets")
    assert "a remark [4, 1] with brackets" in terminal.getvalue()
    assert chosen._bars is None


def test_short_work_shows_nothing(monkeypatch):
    terminal, chosen = as_terminal(monkeypatch), reporter.reporter_for(quiet=False)
    assert isinstance(chosen, reporter.BarReporter)
    with progress.reporting(chosen):
        for _ in range(3):
            with progress.task("quick", total=1, unit="x") as bar:
                bar.advance()
    assert terminal.getvalue() == ""


def test_plain_lines_for_logs(monkeypatch, capsys):
    monkeypatch.setattr(reporter, "EVERY", 0.0)
    chosen = reporter.reporter_for(quiet=False)
    assert isinstance(chosen, reporter.PlainReporter)
    with progress.reporting(chosen), progress.task("counting", total=10, unit="tokens") as bar:
        time.sleep(0.01)
        bar.advance(5)
        progress.say("a remark")
    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith("counting: 50%, ")
    assert "tokens/s" in first
    assert second == "a remark"


def test_quiet(monkeypatch, capsys):
    monkeypatch.setattr(reporter, "EVERY", 0.0)
    with progress.reporting(reporter.reporter_for(quiet=True)), progress.task("counting", total=10, unit="tokens") as bar:
        time.sleep(0.01)
        bar.advance(5)
        progress.say("a remark")
    assert capsys.readouterr() == ("", "")
