"""What the playground, the plane of words and the series ask the server."""

import pytest

import seqloom
from seqloom.studio.server import open_studio
from tests.fuzz.specimens import SPECIMENS
from tests.studio.test_server import refusal, values


def test_a_model_tells_what_it_can_be_asked(studio):
    found = values(studio, "/studio/open", {"model": "labels"})
    assert (found["writes"], found["chats"]) == (False, False)
    (verb,) = found["verbs"]
    assert verb["name"] == "predict"
    assert verb["options"]["proba"]["type"] == "boolean"
    found = values(studio, "/studio/open", {"model": "byte-2"})
    assert found["writes"]
    assert [one["name"] for one in values(studio, "/studio/open", {"model": "tags"})["verbs"]] == [
        "tag"
    ]  # predict is another name of it
    assert all(one["numbers"] for one in values(studio, "/studio/open", {"model": "wave"})["verbs"])


def test_words_as_points(studio):
    model = studio.catalogue.served("vectors").model
    asked = {"model": "vectors", "top": 5, "words": ["be", "nowhere"]}
    found = values(studio, "/studio/plane", asked)
    assert found["unknown"] == ["nowhere"]
    words = {"asked": ["be"], "": [one["word"] for one in found["words"] if not one["group"]]}
    assert found["words"] == seqloom.inspect.word_map(model, words).data["words"]
    status, message = refusal(studio, "/studio/leaning", {"model": "vectors", "pair": ["to"]})
    assert (status, "two words" in message) == (400, True)


def test_texts_as_points(tmp_path):
    SPECIMENS["sentence-encoder"]().save(tmp_path / "sentences")
    with open_studio(tmp_path) as studio:
        asked = {"model": "sentences", "text": "the cat\n\na log\nthe cat\nthe dog"}
        found = values(studio, "/studio/plane", asked)
        assert [one["word"] for one in found["words"]] == ["the cat", "a log", "the dog"]
        assert "3 texts" in found["summary"][0]
        assert refusal(studio, "/studio/plane", asked | {"text": "one"})[0] == 400


def test_a_series_and_what_is_expected(studio):
    model = studio.catalogue.served("wave").model
    numbers = [float(t % 12) for t in range(60)]
    asked = {"model": "wave", "text": "\n".join(map(str, numbers)), "horizon": 3}
    found = values(studio, "/studio/series", asked)
    assert [row["values"]["value"] for row in found["history"]] == numbers
    assert found["forecast"] == model.forecast(numbers, 3).rows()
    assert found["anomalies"] == model.anomalies(numbers).to_dict()
    since = values(studio, "/studio/series", asked | {"since": "40"})
    assert [row["time"] for row in since["forecast"]] == ["40", "41", "42"]
    assert values(studio, "/studio/series", {"model": "wave"})["example"]
    for part, word in (
        ({"horizon": 99}, "horizon"),
        ({"rate": "x"}, "rate"),
        ({"model": "hmm"}, "forecaster"),
    ):
        status, message = refusal(studio, "/studio/series", asked | part)
        assert (status, word in message) == (400, True), message


@pytest.mark.parametrize("name", ["forecaster", "arima", "linear-window", "exponential-smoothing"])
def test_every_forecaster_can_read_its_example(name, tmp_path):
    SPECIMENS[name]().save(tmp_path / "one")
    with open_studio(tmp_path) as studio:
        found = values(studio, "/studio/series", {"model": "one"})
        assert len(found["forecast"]) == found["horizon"] * len(found["columns"])
        again = values(studio, "/studio/series", {"model": "one", "text": found["example"]})
        assert again["forecast"] == found["forecast"]


def test_the_text_that_comes_with_seqloom_is_no_path(studio):
    asked = {"model": "byte-4", "text": "to be", "corpus": "data:tinyshakespeare"}
    assert values(studio, "/studio/inspect/backoff", asked)["data"]["places"]["count"] > 100
    for corpus in ("data:ptb", "/etc/passwd", "data:tinyshakespeare/../x"):
        assert refusal(studio, "/studio/inspect/backoff", asked | {"corpus": corpus})[0] == 400
