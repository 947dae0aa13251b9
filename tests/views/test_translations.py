"""Pictures of translators: what an alignment shows, and quality by length of several systems."""

import numpy as np
import pytest

from seqloom import Copy, Dictionary, inspect
from seqloom.errors import ConfigError
from tests.own_models import Backwards

PAIRS = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]


@pytest.fixture(scope="module")
def model():
    return Dictionary(iterations=30).fit(PAIRS)


def test_an_alignment(model, tmp_path):
    sheet = inspect.alignment(model, "das Haus")
    assert (sheet.data["source"], sheet.data["target"]) == (
        ["das", "Haus", "</s>"],
        ["the", "house", "</s>"],
    )
    np.testing.assert_array_equal(
        sheet.data["weights"], model.alignments(["das Haus"], ["the house"])[0]
    )
    weights = sheet.data["weights"].astype(float)
    wanted = [-sum(w * np.log(w) for w in row if w > 0) for row in weights]
    np.testing.assert_allclose(sheet.data["entropy"], wanted, atol=1e-6)
    assert (
        sheet.summary[0]
        == f"mean entropy of the weights {np.mean(wanted):.2f} nats, of at most {np.log(3):.2f}"
    )
    for name in ("a.png", "a.svg", "a.html"):
        sheet.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert "house" in (tmp_path / "a.svg").read_text()


def test_a_long_alignment_is_a_map_of_tiles(model, tmp_path):
    sheet = inspect.alignment(model, " ".join(["das Haus"] * 45), " ".join(["the house"] * 40))
    assert sheet.data["weights"].shape == (81, 91)
    assert "without their names" in sheet.summary[-1]
    sheet.save(tmp_path / "long.svg")


def test_a_target_of_ones_own(model):
    assert inspect.alignment(model, "das Haus", "a unseen").data["target"] == ["a", "<unk>", "</s>"]


def test_what_cannot_be_drawn(model, own_registry):
    with pytest.raises(ConfigError, match="dictionary models have no head of attention"):
        inspect.alignment(model, "das Haus", head=0)
    with pytest.raises(ConfigError, match="has no attention"):
        inspect.alignment(Backwards().fit(PAIRS), "das Haus")
    with pytest.raises(ConfigError, match="no quality by length"):
        inspect.quality_by_length({})


def test_quality_by_length(model, tmp_path):
    pairs = [
        (" ".join(["das Haus"] * n), " ".join(["the house"] * n))
        for n in range(3, 12)
        for _ in range(4)
    ]
    results = {
        "dictionary": model.evaluate(pairs, samples=0),
        "copy": Copy().fit(PAIRS).evaluate(pairs, samples=0),
    }
    sheet = inspect.quality_by_length(results)
    assert {name: {row["exact_match"] for row in rows} for name, rows in sheet.data.items()} == {
        "dictionary": {1.0},
        "copy": {0.0},
    }
    assert all(sum(row["pairs"] for row in rows) == len(pairs) for rows in sheet.data.values())
    assert sheet.data["copy"][0]["length"].endswith(" words")
    assert len(sheet.charts) == 3
    sheet.save(tmp_path / "q.html")
    one = inspect.quality_by_length(results["copy"])
    assert list(one.data) == ["copy"]
