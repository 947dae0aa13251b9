"""The verbs of a translator, on a model of a few lines that writes its source backwards."""

from typing import Any

import numpy as np
import pytest

from seqloom import Copy
from seqloom.contracts import Translator
from seqloom.contracts.translation import BATCH
from seqloom.contracts.translations import TranslationConfig
from seqloom.decoding.beam import forced_log_probs
from seqloom.errors import ConfigError, DataError
from tests.own_models import Backwards

PAIRS = [("abc", "cba"), ("ab", "ba"), ("cab", "bac"), ("a", "a")]
SURE = 0.9


@pytest.fixture(scope="module")
def model() -> Backwards:
    return Backwards().fit(PAIRS)


def test_translates_one_or_many_in_their_order(model: Backwards) -> None:
    assert model.translate("cab") == "bac"
    sources = ["abc", "a", "", "cccbbbaaa", "ab"]
    assert model.translate(sources) == [source[::-1] for source in sources]
    assert model.translate(sources, beams=1) == [source[::-1] for source in sources]


def test_n_best_are_in_order_and_different(model: Backwards) -> None:
    best = model.translate("ab", nbest=3)
    assert len({one.text for one in best}) == 3
    assert best[0].text == "ba"
    assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
    assert best[0].log_prob == pytest.approx(3 * np.log(SURE), abs=1e-5)
    assert model.translate(["ab"], nbest=3)[0][0].text == "ba"


def test_a_prefix_is_the_beginning_and_the_best_rest_is_found(model: Backwards) -> None:
    assert model.translate("cab", prefix="ba") == "bac"
    best = model.translate(["cab", "ab"], prefix="cc", nbest=2)
    for found, source in zip(best, ["cab", "ab"]):
        assert all(one.text.startswith("cc") for one in found)
        rest = {
            text: model.score(source, text) / (len(text) + 1)
            for text in ("cc", "cca", "ccb", "ccc", "ccac", "ccba")
        }
        assert found[0].score == pytest.approx(max(rest.values()), abs=1e-5)
    assert model.translate("ab", prefix="cc", beams=1).startswith("cc")
    with pytest.raises(ConfigError, match="'cx' is not made of this model's target tokens"):
        model.translate("ab", prefix="cx")
    with pytest.raises(ConfigError, match="shorten the prefix"):
        model.translate("ab", prefix="abc", max_tokens=3)
    with pytest.raises(ConfigError, match="prefix"):
        model.translate("ab", prefix="a", search="sample")
    with pytest.raises(
        ConfigError, match="do not write token by token, by which a prefix is continued"
    ):
        Copy().fit(PAIRS).translate("ab", prefix="a")


def test_a_translation_that_never_ends_is_cut_off_and_said(
    model: Backwards, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    assert model.translate("abcabcabc", max_tokens=2) == "cb"
    assert "1 of 1 translations did not end and were cut off after 2 tokens" in said[0]


def test_sources_longer_than_in_training_are_said_once(
    model: Backwards, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    many = "2 of 132 sources are longer than any in training (3 tokens); expect worse translations"
    model.translate(["abca", *["abc"] * 130, "aaaa"])
    assert said.pop() == many
    model.evaluate([("abca", "acba"), *[("abc", "cba")] * 130, ("aaaa", "aaaa")], samples=0)
    assert said.pop() == many
    model.translate("abcc")
    assert (
        said.pop()
        == "1 of 1 source is longer than any in training (3 tokens); expect worse translations"
    )
    model.translate(["abc", "a"])
    Copy().fit(PAIRS).translate("abcabc")
    assert said == []


def test_a_source_far_longer_than_in_training_is_refused(model: Backwards) -> None:
    """Time and memory grow with the square of its length, which whoever wrote it decides."""
    long, longer = "a" * 1024, "a" * 1025
    assert model.translate(long, max_tokens=1) == "a"
    wanted = "^source 2 has 1,025 tokens, more than 1,024; divide it, .*: max_source=1025$"
    with pytest.raises(DataError, match=wanted):
        model.translate(["abc", longer])
    assert model.translate(longer, max_source=1025, max_tokens=1) == "a"
    with pytest.raises(DataError, match="source 1 has 3 tokens, more than 2"):
        model.translate("abc", max_source=2)
    assert model.evaluate([(longer, "a")], samples=0, max_tokens=1)["exact_match"] == 1
    trained = Backwards().fit([("a" * 300, "a")])
    assert trained.translate("a" * 1200, max_tokens=1) == "a"  # four times the longest
    Copy().fit(PAIRS).translate(longer)


def test_score_is_the_sum_over_tokens_with_the_end(model: Backwards) -> None:
    assert model.score("ab", "ba") == pytest.approx(3 * np.log(SURE), abs=1e-5)
    first, second = model.score(["ab", "abc"], ["ba", "a"])
    assert first == pytest.approx(3 * np.log(SURE), abs=1e-5)
    assert second < np.log(0.1)
    stepper = model.decoder(["ab", "abc"])
    assert [len(some) for some in forced_log_probs(stepper, model.target_ids(["ba", "cba"]))] == [
        3,
        4,
    ]


def test_draws_differ_by_seed_and_not_by_batch(model: Backwards) -> None:
    drawn = [
        model.translate(["abcabcabc"], search="sample", temperature=4.0, seed=seed)[0]
        for seed in range(8)
    ]
    assert len(set(drawn)) > 1
    assert model.translate("abcabcabc", search="sample", temperature=4.0, seed=3) == drawn[3]


def test_a_draw_depends_on_its_number_and_not_on_the_lengths_of_others(model: Backwards) -> None:
    first, short, long = ["abc"] * BATCH, ["ab"] * 10, ["abcabcabcabc"] * 10
    how: dict[str, Any] = {"search": "sample", "temperature": 4.0, "max_tokens": 20}
    watched = ["abcab", "cabca", "bcabc", "abccc"]
    before, after = (
        model.translate([*first, *watched, *others], **how) for others in (short, long)
    )
    assert before[BATCH:-10] == after[BATCH:-10]
    assert len(set(before[:BATCH])) > 1
    parts = [
        best[0].text for best in model.translations(watched, TranslationConfig(**how), first=BATCH)
    ]
    assert parts == before[BATCH:-10]


def test_evaluates(model: Backwards) -> None:
    result = model.evaluate([("ab", "ba"), ("abc", "xyz")], samples=0)
    assert result["exact_match"] == 0.5
    assert result["pairs"] == 2
    assert "beams:5" in str(result.signature)


def test_what_is_refused(model: Backwards) -> None:
    with pytest.raises(ConfigError, match="nbest"):
        model.translate("ab", nbest=0)
    with pytest.raises(ConfigError, match="temperature"):
        model.translate("ab", temperature=2.0)
    with pytest.raises(DataError, match="source 2 is int"):
        model.translate(["ab", 3])
    with pytest.raises(DataError, match="2 sources and 1 targets"):
        model.score(["ab", "a"], ["b"])
    with pytest.raises(TypeError, match="neither decoder nor translate_batch"):
        type("Empty", (Translator,), {"fit_pairs": lambda self, data, how: None})()


def test_an_ensemble_decides_by_the_mean(model: Backwards) -> None:
    other = Backwards().fit(PAIRS)
    other.sure = 0.5
    alone, both = (
        model.translate("ab", nbest=1)[0],
        model.translate("ab", nbest=1, ensemble=[other])[0],
    )
    assert both.text == "ba"
    assert both.log_prob == pytest.approx(3 * np.log(0.7), abs=1e-5)
    assert alone.log_prob == pytest.approx(3 * np.log(0.9), abs=1e-5)
    with pytest.raises(ConfigError, match="member 2 of the ensemble has other target tokens"):
        model.translate("ab", ensemble=[Backwards().fit([("xy", "yx")])])
    with pytest.raises(
        ConfigError, match=r"has other target tokens than the first \(both have char-[0-9]+\)"
    ):
        model.translate(
            "ab",
            ensemble=[
                Backwards().fit([(source, target.replace("a", "z")) for source, target in PAIRS])
            ],
        )
    with pytest.raises(ConfigError, match="copy models do not write token by token"):
        model.translate("ab", ensemble=[Copy().fit(PAIRS)])


def test_options_of_the_search_reach_it(model: Backwards) -> None:
    mean, summed = (
        model.translate("ab", nbest=1)[0],
        model.translate("ab", nbest=1, length_penalty=0.0)[0],
    )
    assert mean.score == pytest.approx(mean.log_prob / 3, abs=1e-6)
    assert summed.score == pytest.approx(summed.log_prob, abs=1e-6)
    gnmt = model.translate("ab", nbest=1, length_normalization="gnmt")[0]
    assert gnmt.score == pytest.approx(gnmt.log_prob / (8 / 6), abs=1e-6)
    with pytest.raises(ConfigError, match="coverage_penalty needs the attention"):
        model.translate("ab", coverage_penalty=0.2)
