"""Models and tasks of another package (tests/toys), found by its entry points: nothing in seqloom
knows them.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom import TrainConfig, registry, tasks
from seqloom.errors import ConfigError, ModelError

from .cli.ends import end
from .forked_commands import served

pytest.importorskip("torch")
MODULES = ("toy_translator", "toy_forecaster")
TOYS = Path(__file__).parent / "toys"
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
PAIRS = [
    (f"{word} {other}", f"{i}-{j}")
    for i, word in enumerate(WORDS)
    for j, other in enumerate(WORDS)
    if i < j
]
VALUES = [f"{np.sin(t / 3):.6f}" for t in range(200)]


@pytest.fixture
def toys(own_registry, monkeypatch):
    """Both modules, registered for one test."""
    monkeypatch.syspath_prepend(str(TOYS))
    known = dict(tasks._registered)
    yield [importlib.import_module(name) for name in MODULES]
    tasks._registered.clear()
    tasks._registered.update(known)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS))
    (tmp_path / "series.csv").write_text(
        "time,value\n" + "".join(f"{t},{v}\n" for t, v in enumerate(VALUES))
    )
    return tmp_path


@pytest.fixture(scope="module")
def run():
    """seqloom as a user of that package runs it; by forks, since one command after the other would
    import torch.
    """
    with (
        tempfile.TemporaryDirectory(prefix="seqloom-") as home,
        served(Path(home), TOYS) as commands,
    ):

        def command(place, *args, stdin=""):
            return subprocess.run(
                [commands / "seqloom", *map(str, args)],
                cwd=place,
                input=stdin,
                text=True,
                capture_output=True,
            )

        yield command


def data_of(module):
    if module.__name__ == "toy_translator":
        return module.Pairs([a for a, _ in PAIRS], [b for _, b in PAIRS])
    return module.Series(np.array(VALUES, np.float32))


def test_a_translator_from_the_command_line(files, run):
    fit = (
        "fit",
        "toy-translator",
        "pairs.tsv",
        "-o",
        "model",
        "--valid",
        "pairs.tsv",
        "--d-hidden",
        64,
        "--steps",
        400,
        "--lr",
        0.01,
        "--json",
    )
    done = run(files, *fit)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["valid"]["metrics"]["exact_match"] > 0.9
    assert sorted(p.name for p in (files / "model" / "tokenizers").iterdir()) == [
        "source",
        "target",
    ]
    done = run(files, "evaluate", "model", "pairs.tsv", "--json")
    assert json.loads(done.stdout)["metrics"]["exact_match"] > 0.9
    done = run(files, "toy-translate", "model", stdin="three ten\none seven\n")
    assert done.stdout.split() == ["2-9", "0-6"]
    assert "source" in run(files, "info", "model").stdout
    assert "toy-translate" in run(files, "--help").stdout
    assert "toy-translator" in run(files, "models").stdout
    assert "--d-hidden" in run(files, "fit", "toy-translator", "--help").stdout
    assert (
        "generate is for a language model; model is a toy translator"
        in run(files, "generate", "model").stderr
    )
    refused = run(files, "evaluate", "model", "pairs.tsv", "--value-column", "v")
    assert "--value-column is for a toy forecaster" in refused.stderr
    assert run(files, "plot", "model", "-o", "training.svg").returncode == 0
    assert "held-out exact match" in (files / "training.svg").read_text()


WAITING = """
import sys
from seqloom.training import loop
update = loop._Loop._update

def waiting(self, rate):
    if self.step == 1000:
        print("now", flush=True)
        sys.stdin.readline()
    return update(self, rate)

loop._Loop._update = waiting
from seqloom.cli.main import run
run()
"""


def test_a_forecaster_from_the_command_line_goes_on_after_a_kill(files, run):
    fit = (
        "fit",
        "toy-forecaster",
        "series.csv",
        "-o",
        "model",
        "--steps",
        2000,
        "--window",
        3,
        "-q",
    )
    code, err = end(WAITING, fit, signal.SIGINT, files, path=TOYS)
    assert (code, err.strip()) == (
        130,
        "interrupted; progress is kept in model.run; run the same command to resume",
    )
    assert not (files / "model").exists()
    done = run(files, *fit[:-1])
    assert done.returncode == 0
    assert "resuming from step" in done.stderr
    assert run(files, *fit[:4], "whole", *fit[5:]).returncode == 0
    assert (files / "model" / "model.safetensors").read_bytes() == (
        files / "whole" / "model.safetensors"
    ).read_bytes()
    assert not (files / "model" / "tokenizers").exists()
    assert (
        float(
            json.loads(run(files, "evaluate", "model", "series.csv", "--json").stdout)["metrics"][
                "mse"
            ]
        )
        < 0.01
    )
    assert len(run(files, "toy-forecast", "model", "series.csv").stdout.split()) == 3


@pytest.mark.parametrize("which", [0, 1])
def test_pulled_out_and_resumed_is_the_same_to_the_bit(toys, which, tmp_path, monkeypatch):
    from seqloom.training import loop

    module = toys[which]
    cls = module.ToyTranslator if which == 0 else module.ToyForecaster
    task = module._PairsTask if which == 0 else module._LinearTask
    data, config, loss = data_of(module), TrainConfig(steps=30, evaluate_every=7), task.loss
    whole = cls().fit(data, valid=data, train=config)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)  # after every step
    calls = []

    def broken(*arguments):
        calls.append(1)
        if len(calls) == 11:
            raise RuntimeError("pulled the plug")
        return loss(*arguments)

    monkeypatch.setattr(task, "loss", broken)
    with pytest.raises(RuntimeError, match="plug"):
        cls().fit(data, valid=data, train=config, run=tmp_path / "r")
    calls.clear()
    monkeypatch.setattr(task, "loss", lambda *arguments: calls.append(1) or loss(*arguments))
    again = cls().fit(data, valid=data, train=config, run=tmp_path / "r")
    assert len(calls) == 20  # the first ten were kept
    assert all(np.array_equal(whole.weights[name], again.weights[name]) for name in whole.weights)
    again.save(tmp_path / "m")
    loaded = seqloom.load(tmp_path / "m")
    assert type(loaded) is cls
    assert loaded.evaluate(data) == again.evaluate(data)


def test_a_damaged_one_is_refused(toys, tmp_path):
    translator = toys[0].ToyTranslator().fit(data_of(toys[0]), train=TrainConfig(steps=1))
    translator.save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    for tokenizers in ({"../out": config["tokenizers"]["source"]}, {}):
        (tmp_path / "m" / "config.json").write_text(
            json.dumps({**config, "tokenizers": tokenizers})
        )
        with pytest.raises(ModelError):
            seqloom.load(tmp_path / "m")


def test_names_are_not_taken_twice(toys):
    with pytest.raises(ConfigError, match="already a model named 'ngram'"):
        registry.register_entry("ngram", registry.Entry("a:B", "a:C", "language model", ""))

    class Other(type(tasks.get("toy translator"))):
        pass

    with pytest.raises(ConfigError, match="already a task"):
        tasks.register(Other())


def test_a_package_that_cannot_be_loaded_is_named_and_left_out(tmp_path):
    place = tmp_path / "bad" / "broken-1.0.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text("[seqloom.models]\nx = no_such_module_xyz\n")
    path = os.pathsep.join([str(tmp_path / "bad"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "seqloom.cli", "models"],
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0
    assert "ngram" in done.stdout
    assert "broken: its models cannot be loaded (ModuleNotFoundError" in done.stderr
