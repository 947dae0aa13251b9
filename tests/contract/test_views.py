"""Every view on every kind of saved model that has it: numbers that are plain data, a picture, lines for a
terminal; and one line where a model does not have it.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom.cli.options import finite
from seqloom.errors import ConfigError, SeqloomError
from seqloom.views.catalogue import VIEWS, View, run, views_of
from tests.fuzz.specimens import WAVE
from tests.saved import NEWEST

MODELS = sorted(path.name for path in NEWEST.iterdir() if path.is_dir())
TEXT = "the cat sat on the log"
EXAMPLES = {
    "classifier": "a good dull road",
    "tagger": "Mary saw New York",
    "answerer": ("who saw it ?", "Mary saw New York ."),
    "translator": "abc",
    "forecaster": WAVE,
}
TAGGED = [
    (["the", "cat", "sat"], ["D", "N", "V"]),
    (["the", "log", "sat", "on"], ["D", "N", "V", "P"]),
    (["cat", "on", "the", "log"], ["N", "P", "D", "N"]),
    (["abc", "cab", "ba"], ["N", "N", "V"]),
    (["the", "cat"], ["D", "N"]),
    (["ba", "the", "log"], ["V", "D", "N"]),
]
USES = [
    ("the *cat* sat", "animal"),
    ("a *cat* sat on the log", "animal"),
    ("the log *cat* is long", "file"),
    ("ab *cat* on", "file"),
]
FILES = {"probe": TAGGED, "senses": USES}  # what views that read a file of their own look at
DATA: dict[str, object] = {  # held-out data of a task, for views that look at such
    "language model": TEXT,
    "masked language model": TEXT,
    "translator": [("abc", "cba"), ("cab", "bac")],
}
EMPTY = {"tagger": [], "answerer": ("", ""), "translator": "", "classifier": ""}
LONG = 100_000  # tokens


@pytest.fixture(scope="module")
def model_of():
    made = {}

    def model(name):
        if name not in made:
            made[name] = seqloom.load(NEWEST / name)
        return made[name]

    return model


def example_of(model):
    return EXAMPLES.get(model.task, TEXT)


def inputs_of(name, model):
    """What a view looks at besides options, of a model of any task; None where a test has no such thing."""
    made = []
    for kind in VIEWS[name].inputs:
        if kind in ("model", "other"):
            made.append(model)
        elif kind == "text":
            made.append(example_of(model))
        elif kind == "file" and name in FILES:
            made.append(FILES[name])
        elif kind == "data" and model.task in DATA:
            made.append(DATA[model.task])
        else:
            return None
    return made


OF_MODELS = [name for name, view in VIEWS.items() if view.of_models]


@contextmanager
def naming(*what):
    """Say in an error what was looked at: all views of a model are one test, for time."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"of {what}")
        raise


@pytest.mark.parametrize("kind", MODELS)
def test_of_a_model(kind, model_of):
    model = model_of(kind)
    for name in OF_MODELS:
        with naming(name):
            of_a_model(name, model)


def of_a_model(name, model):
    if name not in views_of(model):
        inputs = [model, *["x"] * (len(VIEWS[name].inputs) - 1)]
        with pytest.raises(ConfigError, match=f"there is no view '{name}'"):
            run(name, *inputs)
        return
    inputs = inputs_of(name, model)
    assert inputs is not None, f"say in inputs_of what {name} looks at, of {model.task}"
    sheet = run(name, *inputs)
    check_sheet(sheet)
    if getattr(model, "bits", None):  # rounded weights are said
        assert any("rounded" in line for line in sheet.summary), name


@pytest.mark.parametrize("case", ["empty", "unknown", "long"])
@pytest.mark.parametrize(
    "kind", ["lstm", "gpt", "classifier", "tagger", "bert", "seq2seq", "ngram"]
)
def test_odd_texts(case, kind, model_of):
    """An empty text, unknown words, and 100,000 tokens: a sheet of a part of it, or an error in one line."""
    model = model_of(kind)
    long = ["cat"] * LONG if model.task == "tagger" else "cat " * LONG
    if case == "long" and kind != "lstm":
        long = long[: len(long) // 100]
    text = {"empty": EMPTY.get(model.task, ""), "unknown": "漢 \U0001f600 qqq", "long": long}[case]
    names = [name for name in views_of(model) if VIEWS[name].inputs == ("model", "text")]
    assert names
    for name in names:
        with naming(name):
            try:
                sheet = run(name, model, text)
            except SeqloomError as error:
                assert "\n" not in str(error)
            else:
                check_sheet(sheet)


NUMBERED = [
    (name, option.name)
    for name, view in VIEWS.items()
    for option in fields(view.options)
    if option.name in ("layer", "head", "unit") and "text" in view.inputs
]


@pytest.mark.parametrize("kind", ["lstm", "gpt"])
def test_out_of_range(kind, model_of):
    model = model_of(kind)
    for name, option in NUMBERED:
        if name in views_of(model) and VIEWS[name].inputs == ("model", "text"):
            with naming(name, option):
                with pytest.raises(SeqloomError, match=r"\d") as error:
                    run(name, model, TEXT, **{option: 999})
                assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", MODELS)
def test_of_a_model_alone(kind, model_of):
    model = model_of(kind)
    for name in (name for name, view in VIEWS.items() if view.inputs == ("model",)):
        with naming(name):
            if name in views_of(model):
                check_sheet(run(name, model))
            else:
                with pytest.raises(ConfigError, match=f"there is no view '{name}'"):
                    run(name, model)


@pytest.mark.parametrize("kind", MODELS)
def test_of_two_models(kind, model_of):
    """Each beside itself, and refused beside one that does not have the view."""
    model = model_of(kind)
    for name in (name for name, view in VIEWS.items() if view.inputs == ("model", "other", "text")):
        with naming(name):
            if name in views_of(model):
                check_sheet(run(name, model, model, example_of(model)))
            else:
                with pytest.raises(ConfigError, match=f"there is no view '{name}'"):
                    run(name, model_of("lstm"), model, TEXT)


EXPLAINED = ("classifier", "tagger", "translator", "answerer")


@pytest.mark.parametrize("kind", MODELS)
def test_explanations_by_every_method_add_up(kind, model_of):
    model = model_of(kind)
    if "explanation" not in views_of(model):
        assert model.task not in EXPLAINED or kind in UNEXPLAINED
        return
    found = 0
    for method in ("weights", "gradients", "occlusion", "attention"):
        try:
            sheet = run("explanation", model, example_of(model), method=method)
        except ConfigError as error:
            assert "no explanation by" in str(error)
            continue
        found += 1
        check_sheet(sheet)
        (one,) = sheet.data["explanations"]
        if method == "attention":
            assert sum(row["weight"] for row in sheet.data["rows"]) == pytest.approx(1, abs=1e-4)
        else:
            assert one["sum"] == pytest.approx(one["log_odds"], abs=1e-2)
    assert found


UNEXPLAINED = {"majority", "most-frequent-tag", "copy", "dictionary"}


def check_sheet(sheet):
    """What every view keeps."""
    assert sheet.title
    assert all(isinstance(line, str) for line in (*sheet.summary, *sheet.lines))
    assert sheet.summary or sheet.lines
    json.dumps(finite(sheet.data), allow_nan=False)
    if isinstance(sheet.data, dict) and "rows" in sheet.data:
        assert len(sheet.to_frame()) == len(sheet.data["rows"])
    for array in sheet.data.values() if isinstance(sheet.data, dict) else ():
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            assert not np.isnan(array).any()
    assert sheet.charts
    assert all(chart.to_dict() for chart in sheet.charts.values())


@pytest.mark.parametrize(("name", "view"), VIEWS.items())
def test_what_is_said_of_a_view(name, view: View):
    assert view.help.endswith(".")
    assert view.examples
    assert all(f"{example} ".startswith(f"seqloom inspect {name} ") for example in view.examples)
    assert all(f.metadata["help"] for f in fields(view.options))
    assert callable(getattr(seqloom.inspect, name.replace("-", "_")))
    with pytest.raises(ConfigError, match="arguments are given"):
        run(name, *"abcdefg")


def test_every_function_that_is_a_view_is_in_the_table():
    folder = Path(seqloom.inspect.__file__).parent
    marked = {
        line.removeprefix("def ").split("(")[0].replace("_", "-")
        for file in folder.glob("*.py")
        for before, line in zip(
            file.read_text("utf-8").split("\n"), file.read_text("utf-8").split("\n")[1:]
        )
        if before == "@view"
    }
    assert marked == set(VIEWS)
