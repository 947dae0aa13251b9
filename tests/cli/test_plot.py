"""`seqloom plot` and the TensorBoard files: the numbers of the log, drawn and read back."""

import itertools
import json
import math
import re
import sys

import numpy as np
import pytest

from seqloom.charts.scales import log_share, spaced_ticks
from seqloom.charts.theme import specification
from seqloom.charts.training import Curves, losses, norms, rates, thinned
from seqloom.cli import plot
from seqloom.errors import ConfigError

LOG = [
    line
    for s in range(10, 101, 10)
    for line in (
        {
            "step": s,
            "loss": 5 - s / 50,
            "lr": 0.01,
            "norm": 1.0,
            "tokens_per_s": 99,
            "tokens": s * 7,
            "seconds": s / 4,
            "bits_per_byte": 8 - s / 40,
        },
        {
            "step": s,
            "valid": 5 - s / 60,
            "tokens": s * 7,
            "seconds": s / 4,
            "bits_per_byte": 8 - s / 50,
        },
    )
]


def write(place, lines, name="log.jsonl"):
    place.mkdir(parents=True)
    (place / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def without(key):
    return [{k: v for k, v in line.items() if k != key} for line in LOG]


def test_picture_beside_the_run(seqloom, tmp_path):
    write(tmp_path / "a.run", LOG)
    done = seqloom("plot", "a.run/")
    assert (
        done.out
        == "a.run: 100 steps, least held-out loss 6.0000 bits per byte\nwritten to a.run.png\n"
    )
    assert (tmp_path / "a.run.png").read_bytes().startswith(b"\x89PNG")
    done = seqloom("plot", "a", "-o", "b.svg")  # not saved yet: its run is meant
    svg = (tmp_path / "b.svg").read_text()
    for words in (
        "bits per byte",
        "steps",
        "learning rate",
        "gradient norm",
        "a.run: 6.000 held out at step 100",
        "training",
    ):
        assert words in svg


def test_several_runs_and_axes(seqloom, tmp_path):
    write(tmp_path / "a", LOG, "training.jsonl")
    write(tmp_path / "b" / "a", LOG[:1] + LOG[2:3])
    for by, shown in (("tokens", "tokens read"), ("seconds", "seconds")):
        seqloom("plot", "a", "b/a", "--by", by, "-o", "c.svg")
        svg = (tmp_path / "c.svg").read_text()
        assert shown in svg
        assert "b/a: 7.500 in training at" in svg
    page = seqloom("plot", "a", "b/a", "-o", "c.html")
    assert page.out.endswith("written to c.html\n")
    specs = json.loads(
        re.search(r"id=charts>(.*?)</script>", (tmp_path / "c.html").read_text())[1].replace(
            "\\u003c", "<"
        )
    )
    assert len(specs) == 3
    assert all(spec["width"] == "container" for spec in specs.values())


def test_numbers(seqloom, tmp_path):
    write(tmp_path / "a", LOG)
    write(tmp_path / "words", without("bits_per_byte"))
    (found,) = seqloom("plot", "a", "--json").json()
    assert found["best"] == {"steps": 100.0, "loss": 6.0}
    assert (found["unit"], found["training"], found["held_out"]) == (
        "bits_per_byte",
        LOG[::2],
        LOG[1::2],
    )
    assert not (tmp_path / "a.png").exists()
    both = seqloom("plot", "a", "words", "--json", "-o", "p.png").json()  # one axis: what both have
    assert [run["unit"] for run in both] == ["nats_per_token"] * 2
    assert both[0]["best"]["loss"] == pytest.approx(5 - 100 / 60)
    assert (tmp_path / "p.png").exists()


@pytest.mark.parametrize(
    ("make", "args", "says"),
    [
        (None, ["none"], "none: no such directory"),
        ([], ["a"], "a: nothing has been logged yet"),
        (without("tokens"), ["a", "--by", "tokens"], "a: its log has no tokens; plot it by steps"),
        (LOG, ["a", "-o", "a.jpg"], "a.jpg: a chart is written as .png, .svg or .html"),
        (LOG, ["a", "--by", "step"], "did you mean 'steps'"),
    ],
)
def test_faults(seqloom, tmp_path, make, args, says):
    if make is not None:
        write(tmp_path / "a", make)
    failed = seqloom("plot", *args)
    assert says in failed.one_line()
    assert failed.code in (1, 2)


def test_a_model_that_was_not_trained_and_a_torn_log(seqloom, saved, tmp_path):
    assert "no log.jsonl or training.jsonl there" in seqloom("plot", saved / "words").one_line()
    write(tmp_path / "a", LOG)
    with open(tmp_path / "a" / "log.jsonl", "a") as file:
        file.write('{"step": 110, "lo')
    assert seqloom("plot", "a", "--json").json()[0]["training"] == LOG[::2]
    odd = [
        {**LOG[0], "norm": float("inf"), "loss": float("nan"), "bits_per_byte": float("nan")},
        *LOG,
    ]
    write(tmp_path / "odd", odd)
    assert seqloom("plot", "odd").code == 0


def test_many_runs_stay_below_what_a_chart_may_hold():
    many = [(float(s), 5 + math.sin(s)) for s in range(1, 400)]
    runs = [Curves(f"run{i}", many, many, many, many) for i in range(20)]
    for chart in (
        losses(runs, by="steps", unit="nats"),
        rates(runs, by="steps"),
        norms(runs, by="steps"),
    ):
        specification(chart)  # raises where there are too many
    assert max(y for _, y in thinned(many, 50, peaks=True)) == max(y for _, y in many)
    assert thinned(many, 399) == many


def test_ticks_are_round_and_apart():
    for domain, height in (
        ([3.3, 8.3], 320),
        ([0.013, 2.9], 110),
        ([1.0, 1.01], 320),
        ([1e-6, 1e6], 320),
    ):
        ticks = spaced_ticks(domain, height)
        assert len(ticks) >= 3, domain
        shares = [log_share(t, domain) for t in ticks]
        assert 0 <= shares[0] < 0.35
        assert 0.65 < shares[-1] <= 1
        assert min(b - a for a, b in itertools.pairwise(shares)) * height > 24
        assert all(len(f"{t:.6e}".split("e")[0].rstrip("0")) <= 5 for t in ticks)


def test_plot_loads_no_torch(process, tmp_path):
    write(tmp_path / "a", LOG)
    done = process(
        "plot",
        "a",
        "--json",
        python="import sys; sys.modules['torch'] = None\nfrom seqloom.cli.main import run; run()",
    )
    assert done.code == 0, done.err


def test_default_names():
    assert plot._default(["runs/a", "b"]) == "runs/a.png"


# ---- TensorBoard

FIT = (
    "fit",
    "nplm",
    "text",
    "-o",
    "m",
    "--tokenizer",
    "byte",
    "--order",
    3,
    "--d-embed",
    8,
    "--d-hidden",
    8,
    "-q",
    "--steps",
    8,
    "--batch-size",
    2,
    "--truncation",
    8,
    "--evaluate-every",
    4,
    "--valid",
    "text",
    "--tensorboard",
)


def events(place):
    """{tag: [(step, value)]} of all event files there, duplicates and all."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(place), purge_orphaned_data=False)
    found.Reload()
    return {tag: [(e.step, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def logged(place):
    from seqloom.training.checkpoint import read_log

    found = {}
    for line in read_log(place):
        for name in line.keys() - {"step", "tokens", "seconds"}:
            tag = f"valid_{name}" if name != "valid" and "valid" in line else name
            found.setdefault(tag, []).append(
                (line["step"], float(np.float32(line[name])))
            )  # as events are
    return found


def test_events_are_the_log(seqloom, tmp_path, toy_text):
    pytest.importorskip("torch")
    pytest.importorskip("tensorboard")
    (tmp_path / "text").write_text(toy_text)
    assert seqloom(*FIT).code == 0
    assert {"loss", "valid", "lr", "norm", "tokens_per_s"} <= events(
        tmp_path / "m" / "tensorboard"
    ).keys()
    assert events(tmp_path / "m" / "tensorboard") == logged(tmp_path / "m")
    assert [s for s, _ in logged(tmp_path / "m")["loss"]] == list(range(1, 9))
    assert seqloom(*FIT).code == 0  # a model with events in it can be replaced


def test_events_go_on_without_duplicates(seqloom, tmp_path, toy_text, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("tensorboard")
    from seqloom.training import loop

    (tmp_path / "text").write_text(toy_text)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 1e9)
    update = loop._Loop._update

    def cut(self, rate):
        if self.step == 3:
            self._checkpoint()
        if self.step == 6:  # steps 4 to 6 are in the events, and lost
            raise KeyboardInterrupt
        return update(self, rate)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Loop, "_update", cut)
        assert seqloom(*FIT).code == 130
    assert len(events(tmp_path / "m.run" / "tensorboard")["loss"]) == 6
    assert seqloom(*FIT).code == 0
    assert [s for s, _ in events(tmp_path / "m" / "tensorboard")["loss"]] == list(range(1, 9))
    assert events(tmp_path / "m" / "tensorboard") == logged(tmp_path / "m")


def test_without_tensorboard(seqloom, tmp_path, toy_text, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "text").write_text(toy_text)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    failed = seqloom(*FIT)
    assert failed.one_line().startswith(
        "tensorboard is not installed: pip install 'seqloom[tensorboard]'"
    )
    assert failed.code == 1
    assert not (tmp_path / "m.run").exists()
    assert seqloom(*FIT[:-1]).code == 0


def test_in_python_events_need_a_place(toy_text):
    pytest.importorskip("torch")
    pytest.importorskip("tensorboard")
    from seqloom.models.language.nplm import NPLM
    from seqloom.training.config import TrainConfig

    with pytest.raises(ConfigError, match="give fit a run directory"):
        NPLM(tokenizer="byte", d_hidden=8).fit(
            toy_text, train=TrainConfig(steps=1, tensorboard=True)
        )
