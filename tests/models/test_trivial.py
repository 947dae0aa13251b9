"""The models that every other must beat: they count, so their answers can be counted by hand."""

import math

import pytest

from seqloom import Majority, MostFrequentTag
from seqloom.errors import ConfigError, ModelError


def test_the_majority_is_the_most_frequent_class_with_its_share():
    model = Majority().fit([("a", "x"), ("b", "y"), ("c", "y"), ("d", "z")])
    assert model.predict(["a", "anything"]) == ["y", "y"]
    assert model.predict_proba("a") == {"x": 0.25, "y": 0.5, "z": 0.25}
    held_out = [("p", "x"), ("q", "y")]
    result = model.evaluate(held_out)
    assert result["accuracy"] == result["majority_accuracy"] == 0.5
    assert result["nats_per_text"] == pytest.approx(-(math.log(0.25) + math.log(0.5)) / 2)


def test_of_equal_classes_the_first_by_name():
    assert Majority().fit([("a", "y"), ("b", "x")]).predict("c") == "x"


def test_several_labels_are_refused():
    with pytest.raises(ConfigError, match="several labels"):
        Majority().fit([("a", ["x", "y"]), ("b", ["x"])])


@pytest.fixture(scope="module")
def tagger():
    return MostFrequentTag().fit(
        [
            (["the", "run", "ended"], ["D", "N", "V"]),
            (["they", "run", "the", "run"], list("PVDN")),
            (["run"], ["N"]),
            (["Anna", "ran"], ["X", "V"]),
        ]
    )


def test_each_word_has_its_most_frequent_tag(tagger):
    assert tagger.predict("they run the run") == ["P", "N", "D", "N"]
    assert tagger.knows("run")
    assert not tagger.knows("Run")


def test_unknown_words_get_the_tag_of_most_words_that_came_once(tagger):
    """Those are ended V, they P, Anna X and ran V; of all words most are nouns."""
    assert tagger.predict("unseen") == ["V"]
    often = MostFrequentTag().fit([(["a", "a", "b", "b"], ["A", "A", "B", "A"])])
    assert often.predict("unseen") == ["A"]  # no word came once


def test_of_equal_tags_the_first_by_name():
    assert MostFrequentTag().fit([(["a", "a"], ["Y", "X"])]).predict("a") == ["X"]


def test_a_damaged_word_list_is_refused(tagger):
    arrays = tagger.arrays()
    again = MostFrequentTag()
    again.learnt = tagger.learnt
    again.restore_arrays(arrays)
    assert again.rows == tagger.rows
    ends = arrays["word_ends"].copy()
    ends[[0, 1]] = ends[[1, 0]]
    with pytest.raises(ModelError, match="contradict"):
        again.restore_arrays({**arrays, "word_ends": ends})
