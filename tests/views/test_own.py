"""Models and cells of other packages have the views that their contract and their trace allow."""

import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import seqloom
from seqloom import encoder_table, registry
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


def test_a_cell_of_another_package(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "toys"))
    for table in (registry.MODELS, encoder_table.CELLS, encoder_table.ENCODERS):
        for name, entry in list(table.items()):
            monkeypatch.setitem(table, name, entry)
    toy = importlib.import_module("toy_cell")
    try:
        model = toy.MinGRULanguageModel(tokenizer="whitespace", unit="line", d_hidden=8).fit(
            TEXT, train=TrainConfig(steps=2)
        )
        for name, looked_at in (("probe", TAGGED), ("senses", USES), ("shapes", "the cat")):
            check_sheet(run(name, model, looked_at))
        sheet = seqloom.inspect.shapes(model, "the cat sat")
        assert sheet.data["parameters"] == model.parameters
    finally:
        for table in (registry.MODELS, encoder_table.CELLS, encoder_table.ENCODERS):
            for name in [name for name in table if "mingru" in name]:
                del table[name]
        del sys.modules["toy_cell"]
