"""The page of a saved model and the results beside it: what they hold, what a stranger may have
written, and what is left when the writer dies.
"""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from seqloom import NaiveBayes, NGram, cards, load
from seqloom.errors import ModelError

RESULT = {
    "data": "test.tsv",
    "metrics": {"accuracy": 0.5, "accuracy_interval": [0.25, 0.75], "texts": 4},
    "signature": {"model": "naive-bayes", "tokenizer": "word-9", "data": "ab12cd34"},
    "notes": ["a remark"],
    "speed": {"examples_per_second": 10.0, "machine": "a machine"},
}
TEXTS = [("good film", "yes"), ("bad film", "no"), ("good road", "yes"), ("bad road", "no")]
EVIL = "[click](http://evil) | <img src=x> `x` \n# big\u202e"


@pytest.fixture
def model(tmp_path):
    fitted = NaiveBayes().fit(TEXTS)
    fitted.save(tmp_path / "m")
    return fitted


def test_a_saved_model_says_what_it_is_and_the_same_each_time(model, tmp_path):
    page = (tmp_path / "m" / "README.md").read_text()
    for heading in ("Use", "Results", "Limits", "Size", "Options", "Data and fit"):
        assert f"## {heading}\n" in page
    assert "seqloom predict DIRECTORY" in page
    assert f"| data_hash | {model.fit_info['data_hash']} |" in page
    assert "It answers with these only, whatever it reads: no, yes." in page
    load(tmp_path / "m").save(tmp_path / "again")
    assert (tmp_path / "again" / "README.md").read_text() == page


def test_a_result_is_added_and_replaced_by_one_on_the_same_data(model, tmp_path):
    place = tmp_path / "m"
    assert cards.read_results(place) == {"results": [], "reference": None}
    before = (place / "README.md").read_text()
    cards.add_result(model, place, RESULT, {"name": "x"})
    cards.add_result(model, place, RESULT | {"metrics": {"accuracy": 0.75}})
    cards.add_result(model, place, RESULT | {"data": "other.tsv"})
    known = cards.read_results(place)
    assert [one["data"] for one in known["results"]] == ["test.tsv", "other.tsv"]
    assert known["results"][0]["metrics"] == {"accuracy": 0.75}
    assert known["reference"] == {"name": "x"}  # which the others did not have
    page = (place / "README.md").read_text()
    assert "| accuracy | 0.5 | 0.25 to 0.75 |" in page
    assert "Signature: `model:naive-bayes|tok:word-9|data:ab12cd34`" in page
    assert "Note: a remark" in page
    assert "machine a machine" in page
    assert page.partition("## Options")[2] == before.partition("## Options")[2]
    assert load(place).predict("good") == "yes"
    model.save(place)  # another model has no results yet
    assert cards.read_results(place)["results"] == []
    assert (place / "README.md").read_text() == before


def test_hostile_text_is_no_markup(tmp_path):
    model = NaiveBayes().fit([("good film", EVIL), ("bad film", "no")])
    model.save(tmp_path / "m")
    cards.add_result(
        model,
        tmp_path / "m",
        {
            "data": EVIL,
            "metrics": {EVIL: EVIL, "x": 1.0},
            "signature": {"model": EVIL},
            "notes": [EVIL],
            "speed": {EVIL: EVIL},
        },
    )
    page = (tmp_path / "m" / "README.md").read_text()
    assert "\u202e" not in page
    assert "\n# big" not in page
    for line in page.splitlines():
        if line.startswith("Signature: "):
            assert line.count("`") == 2
        if line.startswith(("Signature: ", "```")):
            continue
        bare = re.sub(r"\\.", "", line)  # without what is escaped
        assert not re.search(r"[][<>]|`.*big|http:", bare), line
        if "click" in line and line.startswith("|"):
            assert bare.count("|") == 4  # the bars of the table


def test_a_markdown_program_shows_it_as_it_is():
    """What CommonMark makes of it is the text itself."""
    parser = pytest.importorskip("markdown_it").MarkdownIt("gfm-like", {"linkify": False})
    for text in ("*a* _b_ __c__", "a|b", "[x](y)", "<b>", "`c`", "1. x", "- y", "# z", "www.x.com"):
        assert (
            parser.renderInline(cards.inert(text)).replace("&lt;", "<").replace("&gt;", ">") == text
        )


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[1]",
        '{"format": "other"}',
        '{"format": "seqloom results", "version": 9}',
        '{"format": "seqloom results", "version": 1, "results": 3}',
        '{"format": "seqloom results", "version": 1, "results": [3]}',
        '{"format": "seqloom results", "version": 1, "results": [{"data": "x"}]}',
        '{"format": "seqloom results", "version": 1, "results": [], "reference": 3}',
        json.dumps(
            {
                "format": "seqloom results",
                "version": 1,
                "results": [RESULT | {"metrics": {"a": {"b": 1}}}],
            }
        ),
        "[" * 100_000,
        "\ud800".encode("utf-8", "surrogatepass"),
    ],
)
def test_damaged_results_are_one_line_and_the_model_loads(model, tmp_path, damage):
    place = tmp_path / "m"
    (place / "results.json").write_bytes(damage if isinstance(damage, bytes) else damage.encode())
    with pytest.raises(ModelError, match=r"results\.json: damaged") as error:
        cards.read_results(place)
    assert "\n" not in str(error.value)
    with pytest.raises(ModelError, match=r"results\.json: damaged"):
        cards.add_result(model, place, RESULT)
    assert load(place).predict("good") == "yes"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal here")
def test_killed_while_writing_the_old_or_the_new_is_there(model, tmp_path):
    place = tmp_path / "m"
    cards.add_result(model, place, RESULT)
    code = f"""
import os, signal
from seqloom import cards, load
model = load({str(place)!r})
os.replace = lambda a, b: os.kill(os.getpid(), signal.SIGKILL)
cards.add_result(model, {str(place)!r}, {RESULT | {"data": "second"}!r})
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert [one["data"] for one in cards.read_results(place)["results"]] == ["test.tsv"]
    assert any(name.endswith(".partial") for name in os.listdir(place))
    assert load(place).predict("good") == "yes"
    cards.add_result(model, place, RESULT | {"data": "third"})  # which removes what was left behind
    assert not any(name.endswith(".partial") for name in os.listdir(place))
    (place / ".results.json.999999-0.partial").write_text("left behind")
    model.save(place)  # which no left-over prevents


def test_a_model_of_models_has_a_page_too(tmp_path):
    NGram(order=2).fit("a b c\na c b\n").save(tmp_path / "m")
    assert "seqloom generate DIRECTORY" in (tmp_path / "m" / "README.md").read_text()


@pytest.mark.parametrize(
    ("metrics", "name"),
    [
        (
            {"perplexity": 3.0, "bits_per_byte": 1.0, "bits_per_byte_interval": [0, 2]},
            "bits_per_byte",
        ),
        (
            {
                "accuracy": 1.0,
                "accuracy_interval": [0, 1],
                "span_f1": 1.0,
                "span_f1_interval": [0, 1],
            },
            "span_f1",
        ),
        ({"correlation": 0.5}, "correlation"),
        ({"nothing": None}, None),
    ],
)
def test_the_metric_that_a_result_is_known_by(metrics, name):
    found = cards.main_metric(metrics)
    assert (found and found[0]) == name
