"""Maps of attention as the page gets them: few bytes, close to the library's numbers; large ones by rows."""

import base64
import json

import numpy as np
import pytest

import seqloom
from seqloom.serving.configs import ServeConfig
from seqloom.serving.fields import Fields
from seqloom.studio import attending
from seqloom.studio.shelf import Shelf
from tests.saved import NEWEST

TEXT = "the cat sat on the log " * 4


@pytest.fixture(scope="module")
def shelf():
    return Shelf([NEWEST / "bert", NEWEST / "transformer"], ServeConfig())


def unpacked(found, bits=16):
    flat = np.frombuffer(base64.b64decode(found["weights"]), f"<u{bits // 8}")
    return flat.reshape(found["shape"]) / ((1 << bits) - 1)


def test_a_map_is_that_of_the_library(shelf):
    found = attending.weights(shelf, Fields({"model": "bert", "text": TEXT, "layer": 1, "head": 1}))
    data = seqloom.inspect.attention(seqloom.load(NEWEST / "bert"), TEXT, layer=1, head=1).data
    assert np.abs(unpacked(found) - data["weights"]).max() < 1 / 65535
    assert found["keys"] == data["tokens"]
    json.dumps(found)


def test_a_large_map_goes_as_tiles_and_its_rows_as_they_are(shelf, monkeypatch):
    monkeypatch.setattr(attending, "MAP", 8)
    asked = {"model": "bert", "text": TEXT, "layer": 0}
    found = attending.weights(shelf, Fields(asked))
    data = seqloom.inspect.attention(seqloom.load(NEWEST / "bert"), TEXT, layer=0).data
    assert found["size"] > 1
    assert max(found["shape"]) <= 8
    assert unpacked(found).max() == pytest.approx(data["weights"].max(), abs=1 / 65535)
    row = attending.weights(shelf, Fields(asked | {"step": 5}))["row"]
    assert np.abs(np.array(row) - data["weights"][5]).max() < 1e-6


def test_512_tokens_take_less_than_a_megabyte():
    assert len(attending.packed(np.full((512, 512), 0.5), 16)) < 1_000_000


def test_the_alignment_of_a_translation(shelf):
    asked = {"model": "transformer", "text": ["abc", "cab"], "layer": "alignment"}
    found = attending.weights(shelf, Fields(asked))
    data = seqloom.inspect.alignment(seqloom.load(NEWEST / "transformer"), "abc", "cab").data
    assert np.abs(unpacked(found) - data["weights"]).max() < 1 / 65535
    assert (found["steps"], found["keys"]) == (data["target"], data["source"])
