"""A cell of another package (tests/toys/toy_cell.py) serves every task without an edit in seqloom."""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import seqloom
from seqloom.decoding.stepper import log_probs_by_steps
from seqloom.training.config import TrainConfig

from .forked_commands import served

TOYS = Path(__file__).parent / "toys"
TEXT = "the cat sat on the mat and the dog lay on the rug\n" * 60
LABELLED = [("good fun", "+"), ("dull and long", "-"), ("fun for all", "+"), ("so dull", "-")] * 8
TAGGED = [(["the", "run"], ["DET", "NOUN"]), (["they", "run"], ["PRON", "VERB"])] * 12
PAIRS = [("ab", "ba"), ("abc", "cba"), ("ca", "ac")] * 8
SERIES = np.sin(np.arange(300) / 4)


@pytest.fixture
def toy(toy_cell):
    return toy_cell


def language(toy, **options):
    return toy.MinGRULanguageModel(tokenizer="char", unit="line", d_hidden=24, **options)


def fitted(toy, which):
    train = TrainConfig(steps=12)
    if which == "language":
        return language(toy, n_layers=2).fit(TEXT, train=train)
    if which == "classifier":
        return seqloom.NeuralClassifier(encoder="bimingru", d_hidden=48, tokenizer="word").fit(
            LABELLED, train=train
        )
    if which == "tagger":
        return seqloom.NeuralTagger(encoder="mingru", d_hidden=48, crf=False).fit(
            TAGGED, train=train
        )
    if which == "forecaster":
        return seqloom.NeuralForecaster(encoder="mingru", d_hidden=48, horizon=16, window=64).fit(
            SERIES, train=train
        )
    return seqloom.Seq2Seq(
        encoder="bimingru", cell="mingru", tokenizer="char", d_embed=48, d_hidden=48
    ).fit(PAIRS, train=train)


def answers(model):
    """What the model says, without torch and with it: two arrays, where both ways exist."""
    if model.task == "language model":
        ids = model.tokenizer.encode("the dog sat on the rug")
        lengths = np.array([len(ids)])
        return log_probs_by_steps(model.stepper(), ids, lengths), model.sequence_log_probs(
            ids, lengths
        )
    if model.task == "classifier":
        texts = ["good and long", "dull", "fun fun"]
        return model.class_log_probs(texts), model._settled(
            model._log_probs(model.network(), model.encode(texts))
        )
    if model.task == "tagger":
        words = [["they", "run", "the", "run"]]
        return np.concatenate(model.tag_ids(words)), np.concatenate(
            model._tag(model.network(), model._encode(words))
        )
    if model.task == "forecaster":
        values = model.forecast(SERIES).values
        return np.asarray(values), np.asarray(values)
    both = []
    for stepper in (
        model.decoder(["abc"]),
        model.network_decoder(model.network(), model.encode_sources(["abc"])),
    ):
        state, first = stepper.start(1)
        both.append(np.concatenate([first, stepper.step(state, np.array([1]))[1]]))
    return tuple(both)


TASKS = ["language", "classifier", "tagger", "forecaster", "seq2seq"]


@pytest.mark.parametrize("which", TASKS)
def test_every_task_with_and_without_torch(toy, which, tmp_path):
    """It trains, its runtime equals torch, it is saved and loaded, and takes 8 bits."""
    model = fitted(toy, which)
    quick, by_torch = answers(model)
    np.testing.assert_allclose(quick, by_torch, atol=1e-5)
    model.save(tmp_path / "saved")
    again, _ = answers(seqloom.load(tmp_path / "saved"))
    assert np.array_equal(again, quick)
    rounded = model.quantised(8)
    rounded.save(tmp_path / "eight")
    found, _ = (
        answers(seqloom.load(tmp_path / "eight"))
        if which == "language"
        else (answers_without_torch(rounded), None)
    )
    np.testing.assert_allclose(found, quick, atol=0.1)
    small, large = (
        (tmp_path / name / "model.safetensors").stat().st_size for name in ("eight", "saved")
    )
    assert small < large


def answers_without_torch(model):
    if model.task == "classifier":
        return model.class_log_probs(["good and long", "dull", "fun fun"])
    if model.task == "tagger":
        return np.concatenate(model.tag_ids([["they", "run", "the", "run"]]))
    if model.task == "forecaster":
        return np.asarray(model.forecast(SERIES).values)
    stepper = model.decoder(["abc"])
    state, first = stepper.start(1)
    return np.concatenate([first, stepper.step(state, np.array([1]))[1]])


@pytest.mark.parametrize("which", TASKS)
def test_what_it_declares_is_what_torch_has(toy, which):
    model = fitted(toy, which)
    theirs = {name: tuple(value.shape) for name, value in model.build_fitted().state_dict().items()}
    assert model.fitted_shapes() == theirs
    assert not any(name.endswith("w_h") for name in theirs)


def test_a_run_that_was_pulled_out_resumes_to_the_bit(toy, tmp_path, monkeypatch):
    from seqloom.models.language.language_net import LanguageTraining
    from seqloom.training import loop

    config, loss = TrainConfig(steps=20, evaluate_every=7), LanguageTraining.loss
    whole = language(toy).fit(TEXT, train=config)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)  # after every step
    calls = []

    def broken(*arguments):
        calls.append(1)
        if len(calls) == 11:
            raise RuntimeError("pulled the plug")
        return loss(*arguments)

    monkeypatch.setattr(LanguageTraining, "loss", broken)
    with pytest.raises(RuntimeError, match="plug"):
        language(toy).fit(TEXT, train=config, run=tmp_path / "run")
    monkeypatch.setattr(LanguageTraining, "loss", loss)
    resumed = language(toy).fit(TEXT, train=config, run=tmp_path / "run")
    assert all(np.array_equal(whole.weights[name], resumed.weights[name]) for name in whole.weights)


def test_an_option_in_the_wrong_place_is_named_beside_registered_classes(toy):
    with pytest.raises(seqloom.errors.ConfigError, match="belongs to the model"):
        TrainConfig(n_layers=2)


def test_a_trace_has_its_gates(toy):
    from seqloom.traces import Trace
    from seqloom.views.catalogue import views_of

    model = language(toy).fit(TEXT, train=TrainConfig(steps=2))
    stepper, trace = model.stepper(), Trace()
    state, _ = stepper.start(1)
    stepper.step(state, np.array([1]), trace)
    assert "clamp" not in views_of(model)  # it has no W_h, so how many gates it has is not known
    assert {
        "recurrent.layers.0.gates.z",
        "recurrent.layers.0.gates.n",
        "recurrent.layers.0.h",
    } <= set(trace)


@pytest.fixture
def run():
    with (
        tempfile.TemporaryDirectory(prefix="seqloom-") as home,
        served(Path(home), TOYS) as commands,
    ):
        yield lambda *args, cwd: subprocess.run(
            [commands / "seqloom", *args], cwd=cwd, text=True, capture_output=True
        )


def test_from_the_command_line_and_in_comparisons(tmp_path, run):
    (tmp_path / "text.txt").write_text(TEXT * 8)
    rows = [(f"{text} {i}", label) for i, (text, label) in enumerate(LABELLED * 8)]
    (tmp_path / "labels.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    done = run(
        "fit",
        "mingru",
        "text.txt",
        "-o",
        "model",
        "--steps",
        "5",
        "--tokenizer",
        "char",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert run("generate", "model", "the", "--max-tokens", "5", cwd=tmp_path).returncode == 0
    done = run(
        "compare",
        "text.txt",
        "--rungs",
        "byte-2,mingru",
        "--minutes",
        "0.02",
        "--no-samples",
        "--no-curve",
        "--json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert {"byte-2", "mingru"} <= {row["name"] for row in json.loads(done.stdout)["rungs"]}
    done = run(
        "compare",
        "labels.tsv",
        "--rungs",
        "majority,bimingru",
        "--minutes",
        "0.02",
        "--no-curve",
        "--json",
        "--task",
        "classification",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert {"majority", "bimingru"} <= {row["name"] for row in json.loads(done.stdout)["rungs"]}
