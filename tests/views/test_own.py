"""Models and cells of other packages have the views that their contract and their trace allow."""

import pytest

pytest.importorskip("torch")

import seqloom
from seqloom.training.config import TrainConfig
from seqloom.views.catalogue import run, views_of
from tests.contract.test_views import TAGGED, USES, check_sheet
from tests.own_models import Bigram

TEXT = "the cat sat on the log\n" * 20


def test_a_language_model_of_ones_own():
    model = Bigram().fit(TEXT)
    assert "surprisal" in views_of(model)
    assert not {"probe", "senses", "shapes", "gates"} & views_of(model).keys()
    check_sheet(run("surprisal", model, "the cat"))


def test_a_cell_of_another_package(toy_cell):
    model = toy_cell.MinGRULanguageModel(tokenizer="whitespace", unit="line", d_hidden=8).fit(
        TEXT, train=TrainConfig(steps=2)
    )
    for name, looked_at in (("probe", TAGGED), ("senses", USES), ("shapes", "the cat")):
        check_sheet(run(name, model, looked_at))
    sheet = seqloom.inspect.shapes(model, "the cat sat")
    assert sheet.data["parameters"] == model.parameters
