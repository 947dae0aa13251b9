"""The view of runs: real logs and written ones, finished, in training, interrupted, of earlier versions."""

import json
import os
import subprocess
import sys

import pytest

import seqloom
from seqloom.errors import ModelError
from seqloom.views.run_logs import read_run
from tests.contract.test_views import check_sheet


def lines(steps=100, layers=("embedding", "output")):
    made = []
    for step in range(10, steps + 1, 10):
        shared = {"step": step, "tokens": 7 * step, "seconds": step / 4}
        made.append(
            shared
            | {"loss": 5 - step / 50, "lr": 0.01, "norm": 1.0, "largest_norm": 4.0}
            | {"clipped": 0.5 if step <= 20 else 0.0, "epochs": step / 100}
            | {f"norm.{name}": 0.1 * (i + 1) for i, name in enumerate(layers)}
        )
        made.append(shared | {"valid": 5 - step / 60})
    gate = "recurrent.layers.0.gates.f"
    made[-1] |= {f"closed.{gate}": 0.25, f"open.{gate}": 0.5}
    made[-1] |= {"saturated.recurrent.layers.0.gates.g": 0.125}
    made[-1] |= {"reach.recurrent.1": 1.0, "reach.recurrent.12": 0.01, "reach.recurrent.2": 0.5}
    return made


def write(place, log=None, *, fixed=None, pid=None):
    place.mkdir(parents=True)
    text = "".join(json.dumps(line) + "\n" for line in (lines() if log is None else log))
    (place / "log.jsonl").write_text(text)
    if fixed is not None:
        facts = {"model": "lstm", "config": {"dropout": 0.1}, "train": {"lr": 0.01}}
        (place / "run.json").write_text(json.dumps({"facts": facts, "fixed": fixed}))
    if pid is not None:
        (place / "run.lock").write_text(f"{pid}\n")
    return place


def gone():
    """The number of a process that has ended."""
    return int(subprocess.check_output([sys.executable, "-c", "import os; print(os.getpid())"]))


def test_what_a_log_holds(tmp_path):
    sheet = seqloom.inspect.run(write(tmp_path / "a.run"))
    check_sheet(sheet)
    (row,) = sheet.data["runs"]
    assert row["steps"] == 100
    assert row["clipped"] == pytest.approx(0.1)
    assert row["largest_norm"] == 4.0
    assert row["epochs"] == 1.0
    assert (row["valid"], row["best_step"]) == (5 - 100 / 60, 100)
    assert row["norms"] == pytest.approx({"embedding": 0.1, "output": 0.2})
    assert row["gates"]["recurrent.layers.0.gates.f"] == {
        "name": "recurrent.0.f",
        "low": 0.25,
        "high": 0.5,
    }
    assert row["gates"]["recurrent.layers.0.gates.g"]["low"] == 0.125
    assert row["reach"] == {"recurrent": {1: 1.0, 2: 0.5, 12: 0.01}}
    assert list(sheet.charts) == [
        "Loss", "Learning rate", "Gradient norm", "Clipped steps", "Gradient norm by layer",
        "Saturated gates at the end", "How far back gradients reach",
    ]  # fmt: skip
    assert any(line.split() == ["recurrent.0.f", "25%", "50%"] for line in sheet.lines)
    assert len(sheet.to_frame()) == 20


def test_many_layers_are_a_heat_map(tmp_path):
    names = ["embedding", *(f"blocks.{i}" for i in range(24)), "output"]
    sheet = seqloom.inspect.run(write(tmp_path / "a", lines(layers=names)))
    spec = sheet["Gradient norm by layer"].charts["Gradient norm by layer"].to_dict()
    assert spec["mark"]["type"] == "rect"
    assert spec["encoding"]["y"]["sort"] == names
    sheet.save(tmp_path / "many.png")


@pytest.mark.parametrize(
    ("fixed", "pid", "says"),
    [
        ({"steps": 500}, "ours", "still training (process {pid}), 100 of 500 steps"),
        ({"steps": 500}, "gone", "interrupted, 100 of 500 steps; the same command resumes"),
        ({"steps": 480, "seconds": 120.0}, "ours", "100 steps, 0.4 of 2 minutes"),
        (None, "ours", "still training (process {pid}), 100 steps"),
    ],
)
def test_a_run_that_is_still_written(fixed, pid, says, tmp_path):
    number = os.getpid() if pid == "ours" else gone()
    write(tmp_path / "m.run", fixed=fixed, pid=number)
    with open(tmp_path / "m.run" / "log.jsonl", "a") as file:
        file.write('{"step": 110, "lo')  # cut off in the middle of a line
    sheet = seqloom.inspect.run(str(tmp_path / "m"))  # not saved yet: its run is meant
    assert says.format(pid=number) in sheet.summary[0]
    check_sheet(sheet)


def test_a_run_in_another_process(tmp_path):
    """A real one: it is read while it trains, and has the lock of its process."""
    pytest.importorskip("torch")
    (tmp_path / "text").write_text("the cat sat on the mat and the dog on the log\n" * 200)
    code = (
        "import sys\nfrom seqloom.training import loop\n"
        "update = loop._Loop._update\n"
        "def waiting(self, rate):\n"
        "    if self.step == 8: print('now', flush=True); sys.stdin.readline()\n"
        "    return update(self, rate)\n"
        "loop._Loop._update = waiting\n"
        "sys.argv = 'seqloom fit lstm text -o m --tokenizer byte --d-hidden 8 --steps 40 -q'.split()\n"
        "from seqloom.cli.main import run\nrun()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    )
    assert child.stdout.readline() == b"now\n"
    sheet = seqloom.inspect.run(tmp_path / "m")
    assert f"still training (process {child.pid}), 8 of 40 steps" in sheet.summary[0]
    assert any(
        "it may change" in line or "may change" in line
        for line in seqloom.advise(tmp_path / "m").remarks
    )
    child.communicate(b"\n")
    assert child.returncode == 0
    log = seqloom.load(tmp_path / "m").log  # all of it is kept and read with the model
    assert log[-1].keys() >= {"valid", "reach.recurrent.1", "open.recurrent.layers.0.gates.f"}
    assert log[-2].keys() >= {"loss", "clipped", "largest_norm", "norm.recurrent.layers.0"}
    sheet = seqloom.inspect.run(tmp_path / "m")
    assert "finished, 40 steps" in sheet.summary[0]
    assert sheet.data["runs"][0]["gates"]
    assert sheet.data["runs"][0]["reach"]["recurrent"][1] == 1.0


def test_several_runs_and_axes(tmp_path):
    names = [str(write(tmp_path / name)) for name in ("a", "b")]
    for by in ("steps", "tokens", "seconds"):
        sheet = seqloom.inspect.run(names, by=by)
        check_sheet(sheet)
        assert sum(heading.startswith("Gradient norm by layer: ") for heading in sheet.charts) == 2
    sheet.save(tmp_path / "both.png")
    again = seqloom.inspect.run([*names, names[0]])  # the same directory is one run
    assert [row["run"] for row in again.data["runs"]] == names


def test_what_a_run_of_another_criterion_came_to(tmp_path):
    """The best accuracy, not the least loss."""
    log = [line | {"criterion": "accuracy"} if "valid" in line else line for line in lines()]
    found = seqloom.inspect.training_curves(str(write(tmp_path / "a", log)))
    best = max((line for line in log if "valid" in line), key=lambda line: line["valid"])
    said = f"best held-out accuracy {best['valid']:.4f} at step {best['step']:,}"
    assert any(said in line for line in found.summary)


def test_a_fitted_model_and_one_of_an_earlier_version(toy_text, tmp_path):
    pytest.importorskip("torch")
    model = seqloom.GRU(tokenizer="byte", d_hidden=8).fit(toy_text, valid=toy_text, steps=6)
    log = read_run(model)
    assert log.finished
    assert log.model == "gru"
    assert set(log.layers()) == {"embedding", "recurrent.layers.0", "output"}
    assert {name.rpartition(".")[2] for name in log.gates()} == {"r", "z", "n"}
    twice = seqloom.inspect.run([model, model])
    assert [row["run"] for row in twice.data["runs"]] == [model.label(), f"{model.label()} (2)"]
    new = ("norm.", "closed", "open", "satur", "reach", "largest", "clipped", "epochs")
    old = [{k: v for k, v in line.items() if not k.startswith(new)} for line in lines()]
    sheet = seqloom.inspect.run(write(tmp_path / "old", old))
    check_sheet(sheet)
    assert "trained before gradients by layer" in sheet.summary[1]
    assert list(sheet.charts) == ["Loss", "Learning rate", "Gradient norm"]
    with pytest.raises(ModelError, match="has no training log"):
        seqloom.inspect.run(seqloom.NGram(order=2).fit("the cat"))
