"""Every view on every kind of saved model that has it: numbers that are plain data, a picture, lines for a
terminal; and one line where a model does not have it.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom.cli.options import finite
from seqloom.errors import ConfigError
from seqloom.views.catalogue import VIEWS, View, run, views_of
from tests.saved import NEWEST

MODELS = sorted(path.name for path in NEWEST.iterdir() if path.is_dir())
TEXT = "the cat sat on the log"
EXAMPLES = {
    "classifier": "a good dull road",
    "tagger": "Mary saw New York",
    "answerer": ("who saw it ?", "Mary saw New York ."),
    "translator": "abc",
}
OF_TEXT = [name for name, view in VIEWS.items() if view.inputs == ("model", "text")]


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


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", OF_TEXT)
def test_of_a_text(name, kind, model_of):
    model = model_of(kind)
    if name not in views_of(model):
        with pytest.raises(ConfigError, match=f"there is no view '{name}'"):
            run(name, model, example_of(model))
        return
    sheet = run(name, model, example_of(model))
    check_sheet(sheet)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    "name", [name for name, view in VIEWS.items() if view.inputs == ("model",)]
)
def test_of_a_model_alone(name, kind, model_of):
    model = model_of(kind)
    if name not in views_of(model):
        with pytest.raises(ConfigError, match=f"there is no view '{name}'"):
            run(name, model)
        return
    check_sheet(run(name, model))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    "name", [name for name, view in VIEWS.items() if view.inputs == ("model", "other", "text")]
)
def test_of_two_models(name, kind, model_of):
    """Each beside itself, and refused beside one that does not have the view."""
    model = model_of(kind)
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
