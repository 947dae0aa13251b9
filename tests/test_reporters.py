"""Progress: nothing for short work, a bar on a terminal or in a notebook, plain lines elsewhere,
silence when asked.
"""

import io
import os
import subprocess
import sys
import threading
import time
import types

import pytest

from seqloom import progress
from seqloom import reporters as reporter

from .timed_lines import without_timed_lines


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
    end = time.monotonic() + 300
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
    monkeypatch.setattr(reporter, "PATIENCE", 3600)  # as if all here took no time
    terminal, chosen = as_terminal(monkeypatch), reporter.reporter_for(quiet=False)
    assert isinstance(chosen, reporter.BarReporter)
    with progress.reporting(chosen):
        for _ in range(3):
            with progress.task("quick", total=1, unit="x") as bar:
                bar.advance()
    assert terminal.getvalue() == ""


def test_plain_lines_for_logs(monkeypatch, capsys):
    chosen = reporter.reporter_for(quiet=False)
    assert isinstance(chosen, reporter.PlainReporter)
    clock = types.SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(reporter, "time", clock)
    with progress.reporting(chosen), progress.task("counting", total=10, unit="tokens") as bar:
        bar.advance(0)
        for _ in range(8):
            clock.now += 5
            bar.advance(1)
        progress.say("a remark")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "counting: 20%",  # nothing is known of the rate
        *(f"counting: {done}0%, 0.2 tokens/s, {50 - 5 * done} s left" for done in (4, 6, 8)),
        "a remark",
    ]
    assert without_timed_lines(err) == "a remark\n"
    assert without_timed_lines(f"reading: 1,234 bytes\n{err}") == "a remark\n"


def test_quiet(monkeypatch, capsys):
    monkeypatch.setattr(reporter, "EVERY", 0.0)
    with (
        progress.reporting(reporter.reporter_for(quiet=True)),
        progress.task("counting", total=10, unit="tokens") as bar,
    ):
        bar.advance(5)
        progress.say("a remark")
    assert capsys.readouterr() == ("", "")


def pace(*steps, total=10_000):
    """After these (seconds since the beginning, amount)."""
    made = reporter.Pace(total, "words")
    for at, amount in steps:
        made.advance(amount, made.begun + at)
    return made


def test_the_first_piece_says_nothing_of_the_rate():
    """It waits for the compiler: 30 seconds for 100 words, and then 1,000 words a second."""
    assert pace((30, 100)).left() is None
    assert pace((30, 100), (30.1, 100)).left() is None
    assert pace((30, 100), (30.1, 100), (30.2, 100)).left() is None  # too short to tell
    known = pace((30, 100), *((30 + i / 10, 100) for i in range(1, 15)), total=9_800)
    assert known.rate() == pytest.approx(1000)
    assert known.left() == pytest.approx(8.3)
    assert known.text() == "1,000 words/s, 8 s left"


def test_what_an_earlier_run_did_is_no_speed():
    gone_on = pace((0.01, 5000), (20, 100), *((20 + i / 10, 100) for i in range(1, 15)))
    assert gone_on.rate() == pytest.approx(1000)
    assert gone_on.done == 6500


def test_the_rate_is_that_of_late():
    """A thousand a second for a minute, then a hundred: after another minute nothing is left of the first."""
    slow = pace(
        *((i, 1000) for i in range(1, 61)), *((60 + i, 100) for i in range(1, 61)), total=None
    )
    assert slow.rate() == pytest.approx(100, rel=0.05)
    assert slow.left() is None  # without a total
    assert len(slow.marks) < 400


class Kernel:
    """As much of IPython as a notebook's bar needs."""

    def __init__(self, monkeypatch):
        self.shown, self.kernel = [], object()
        ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        ipython.get_ipython = lambda: self
        display.display = lambda bundle, raw, display_id: self.update(bundle, raw)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def update(self, bundle, raw):
        assert raw
        self.shown.append(bundle)
        return self


def test_a_notebook_shows_progress_without_being_asked(monkeypatch, capsys):
    kernel = Kernel(monkeypatch)
    monkeypatch.setattr(reporter, "PATIENCE", 0.0)
    monkeypatch.setattr(reporter, "OFTEN", 0.0)
    assert isinstance(progress.current(), reporter.NotebookReporter)
    assert isinstance(reporter.reporter_for(), reporter.NotebookReporter)
    with progress.task("training <x>", total=10, unit="steps") as bar:
        bar.advance(5)
        bar.note("loss 2.5")
        progress.say("a remark")
    assert kernel.shown[0]["text/plain"] == "training <x>: 50%"
    bar = '<progress value="5" max="10"></progress>'
    assert kernel.shown[1]["text/html"] == f"<div>training &lt;x&gt; {bar} 50%, loss 2.5</div>"
    assert kernel.shown[-1] == {"text/plain": "", "text/html": ""}  # nothing of it stays
    assert capsys.readouterr().err == "a remark\n"
    with progress.reporting(None):
        assert progress.current() is None


def test_a_script_and_a_terminal_of_ipython_stay_silent(monkeypatch):
    kernel = Kernel(monkeypatch)
    del kernel.kernel
    assert progress.current() is None
    monkeypatch.delitem(sys.modules, "IPython")
    assert progress.current() is None


def timer_by(clock, made):
    """As threading.Timer, of a clock that is given."""

    class Timer:
        def __init__(self, seconds, call):
            self.end, self.call = clock.now + seconds, call
            made.append(self)

        def start(self):
            self.waits = True

        def cancel(self):
            self.waits = False

        def look(self):
            if self.waits and clock.now >= self.end:
                self.waits = False
                self.call()

    return Timer


def test_compiling_is_said_once_and_late(monkeypatch):
    from seqloom.kernels import compiling

    clock, timers = types.SimpleNamespace(now=0.0, monotonic=lambda: clock.now), []
    monkeypatch.setattr(compiling, "time", clock)
    monkeypatch.setattr(
        compiling,
        "threading",
        types.SimpleNamespace(Lock=threading.Lock, Timer=timer_by(clock, timers)),
    )

    def pass_time(seconds):
        clock.now += seconds
        for timer in timers:
            timer.look()

    heard = []
    said = types.SimpleNamespace(say=heard.append)
    compiler = compiling.Clock()
    with progress.reporting(said):
        compiler.start()
        pass_time(0.7)
        compiler.end()
        pass_time(60)
        assert heard == []  # it was quick
        for _ in range(2):
            compiler.start()
            compiler.start()  # a function inside another
            pass_time(0.2)
            compiler.end()
            pass_time(0.2)  # with the first one more than a second
            compiler.end()
            assert heard == [compiling.MESSAGE]
    assert compiling.Clock().say() is None  # to nobody


def test_compiling_is_heard_where_the_cache_is_empty(tmp_path):
    """Also in a thread that knows nothing of the reporter; with a full cache there is nothing to say."""
    code = (
        "import numpy as np\nfrom threading import Thread\nfrom seqloom import progress\n"
        "from seqloom.kernels import ngram_count, compiling\nfrom seqloom.reporters import PlainReporter\n"
        "class Timer:\n    cancel = lambda self: None\n    def __init__(self, _, call): self.start = call\n"
        "compiling.threading.Timer = Timer\n"  # whose time is over at once
        "compiling.announce_compiling()\nids, out = np.zeros(2, np.int64), np.zeros(2)\n"
        "with progress.reporting(PlainReporter()):\n"
        "    thread = Thread(target=ngram_count.window_counts, args=(ids, np.array([2]), 1, 1, out))\n"
        "    thread.start(); thread.join()\n"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        )
        for _ in range(2)
    )
    assert (first.returncode, first.stderr.count("compiling kernels, once")) == (0, 1), first.stderr
    assert (second.returncode, second.stderr) == (0, "")


def test_fitting_and_loading_listen_to_the_compiler(monkeypatch, tmp_path):
    from seqloom import Uniform, load

    calls = []
    monkeypatch.setattr("seqloom.contracts.base.announce_compiling", lambda: calls.append(1))
    model = Uniform(tokenizer="byte").fit("a b")
    assert len(calls) == 1
    model.save(tmp_path / "model")
    calls.clear()
    load(tmp_path / "model")
    assert len(calls) == 1


def test_results_that_are_printed_beside_a_bar_stay_on_stdout(monkeypatch, capsys):
    terminal = as_terminal(monkeypatch)
    monkeypatch.setattr(reporter, "PATIENCE", 0.01)
    with (
        progress.reporting(reporter.BarReporter()),
        progress.task("predicting", total=10, unit="bytes"),
    ):
        wait_for("predicting", terminal)
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in terminal.getvalue()


def test_remarks_without_bars(monkeypatch, capsys):
    monkeypatch.setattr(reporter, "EVERY", 0.0)
    with (
        progress.reporting(reporter.RemarksOnly(reporter.PlainReporter())),
        progress.task("counting", 2, "tokens") as bar,
    ):
        bar.advance(1)
        progress.say("a remark")
    assert capsys.readouterr().err == "a remark\n"


def test_what_is_remarked_of_rows_is_summed_over_batches_and_calls(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    remark = "texts", "no word", "so be it"
    with progress.reporting(reporter.reporter_for(False)):
        progress.remark([0], 1, *remark)
        progress.remark([], 5, *remark)
        with progress.collecting():
            for first in (0, 10):
                progress.number_rows([first + 3, first + 7, first + 9])  # the others were blank
                with progress.collecting():  # as a call does it
                    progress.remark([1], 2, *remark)
                    progress.remark([0], 1, *remark)
        with progress.remarking_once():
            for count in (1, 2):
                progress.remark([0] * count, 2, *remark)
    assert sys.stderr.getvalue().splitlines() == [
        "1 of 1 texts has no word; so be it",
        "4 of 6 texts have no word (rows 7, 9, 17, 19); so be it",
        "1 of 2 texts has no word; so be it",
    ]
