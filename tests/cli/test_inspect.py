"""`seqloom inspect` and its views."""

import pytest

import seqloom as library
from tests.own_models import Backwards

PAIRS = [("abc", "cba"), ("ab", "ba"), ("cab", "bac"), ("a", "a")]


@pytest.fixture
def place(tmp_path, own_registry):
    library.register(Backwards)
    Backwards().fit(PAIRS).save(tmp_path / "model")
    library.Copy().fit(PAIRS).save(tmp_path / "copy")
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"{a}\t{b}\n" for a, b in [("source", "target"), *PAIRS])
    )
    return tmp_path


def test_views_are_listed_and_wrong_names_answered(seqloom):
    assert "exposure-bias" in seqloom("inspect", "--help").out
    assert "inspect" in seqloom("--help").out
    assert "inspect exposure-bias" not in seqloom("--help").out
    assert "unknown view 'exposure'" in seqloom("inspect", "exposure", "m").one_line()


def test_a_missing_view_is_answered_with_those_that_there_are(seqloom, place):
    library.Naive(horizon=1).fit([1.0, 2.0, 3.0, 4.0]).save(place / "naive")
    assert seqloom("inspect", "naive").out == "naive (naive) has no views\n"
    refused = seqloom("inspect", "gates", "naive", "1").one_line()
    assert refused == "there is no view 'gates' of naive models, which have none"
    refused = seqloom("inspect", "gates", "model", "ab").one_line()
    assert refused.endswith(" of backwards models; there are: trace, exposure-bias")
    library.LSTM(d_hidden=8, d_embed=8).fit("a b\n" * 20, steps=2).save(place / "lstm")
    said = seqloom("inspect", "gates", "lstm", "a", "--layer", 3).one_line()
    assert said.startswith("--layer must be from 0 to 0")
    assert seqloom("inspect", "step", "lstm", "a", "--at", -1).one_line() == (
        "--at must be at least 0; got -1"
    )


def test_a_view_of_a_task_is_listed_of_models_that_have_it(seqloom, place):
    """A translator that does not write token by token has no trace of its search."""
    assert "trace" in seqloom("inspect", "model").out
    assert seqloom("inspect", "copy").out == "copy (copy) has no views\n"
    assert seqloom("inspect", "copy", "--json").json()[0]["views"] == {}
    refused = seqloom("inspect", "gates", "copy", "ab").one_line()
    assert refused == "there is no view 'gates' of copy models, which have none"


def test_trace(seqloom, place):
    said = seqloom("inspect", "trace", "model", "ab", "--beams", 2, "--chart", "t.svg").out
    assert said.startswith("step 1\n* #1 0.00  (nothing yet)\n     b 0.900 -> #1")
    assert "ended: ba  score -0.1054" in said
    assert (place / "t.svg").exists()
    found = seqloom("inspect", "trace", "model", "--json", stdin="ab\n").json()[0]
    assert (found["translation"], found["source"]) == ("ba", ["a", "b", "</s>"])
    assert found["steps"][0]["hypotheses"][0]["best"] is True
    assert "there is no source" in seqloom("inspect", "trace", "model", stdin="").one_line()


def test_exposure_bias(seqloom, place):
    said = seqloom("inspect", "exposure-bias", "model", "pairs.tsv", "--chart", "e.svg")
    assert "exposure-bias gap 0.0000 (95 %: 0.0000 to 0.0000), +0.0%" in said.out
    assert "teacher_forcing" in said.out
    assert (place / "e.svg").exists()
    found = seqloom("inspect", "exposure-bias", "model", "pairs.tsv", "--json").json()[0]
    assert (found["pairs"], found["tokens"], found["gap"]) == (4, 13, 0.0)
    assert (
        "do not write token by token"
        in seqloom("inspect", "exposure-bias", "copy", "pairs.tsv").one_line()
    )
    library.NGram(order=2).fit("a b\n").save(place / "ngram")
    assert (
        "exposure-bias is for a translator; ngram is a language model"
        in seqloom("inspect", "exposure-bias", "ngram", "pairs.tsv").one_line()
    )
