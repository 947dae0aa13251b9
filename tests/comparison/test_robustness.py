"""What each perturbation costs is what evaluating on the perturbed data by hand gives, and pairs
make the interval.
"""

import random

import pytest

from seqloom import HMMTagger, Labelled, MostFrequentTag, NaiveBayes, NGram, Tagged, robustness
from seqloom.data.perturb import PERTURBATIONS, perturb_labelled, perturb_tagged
from seqloom.errors import ConfigError
from seqloom.metrics.tables import report

GOOD, BAD, OTHER = (
    ["great", "lovely", "warm"],
    ["dull", "awful", "weak"],
    ["the", "film", "was", "a", "story"],
)


def reviews(n, seed):
    draw = random.Random(seed)
    rows = []
    for _ in range(n):
        label = draw.choice(["pos", "neg"])
        rows.append(
            (
                " ".join(
                    draw.choice((GOOD if label == "pos" else BAD) if draw.random() < 0.3 else OTHER)
                    for _ in range(draw.randint(3, 9))
                ),
                label,
            )
        )
    return rows


def sentences(n, seed):
    draw = random.Random(seed)
    rows = []
    for _ in range(n):
        tags = ["D", "N", "V"] * draw.randint(1, 3)
        words = {"D": ["the", "a"], "N": ["run", "dog"], "V": ["run", "sees"]}
        rows.append(([draw.choice(words[tag]) for tag in tags], tags))
    return rows


@pytest.fixture(scope="module")
def model():
    return NaiveBayes().fit(reviews(150, 0))


def test_a_notebook_shows_the_perturbations(model):
    result = robustness(model, Labelled.of(reviews(80, 1)), perturb=["upper", "shuffled"])
    assert repr(result).startswith("accuracy ")
    assert "\nperturbation" in repr(result)
    assert "\nshuffled" in repr(result)
    assert "shuffled" in result._repr_html_()
    frame = result.to_frame()
    assert list(frame["perturbation"]) == ["upper", "shuffled"]
    assert {"model", "accuracy", "difference_interval_low"} <= set(frame.columns)


def test_rows_are_the_results_of_the_perturbed_data(model):
    data = Labelled.of(reviews(80, 1))
    result = robustness(model, data, typo_rate=0.3, seed=5)
    rows = {row["perturbation"]: row for row in result.details["robustness"]}
    assert tuple(rows) == PERTURBATIONS
    clean = model.evaluate(data)["accuracy"]
    assert result["accuracy"] == clean
    for kind, row in rows.items():
        changed = perturb_labelled(data, kind, typo_rate=0.3, seed=5)
        assert row["accuracy"] == pytest.approx(model.evaluate(changed)["accuracy"])
        assert row["difference"] == pytest.approx(row["accuracy"] - clean)
        low, high = row["difference_interval"]
        assert low <= row["difference"] <= high
        both = list(zip(model.predict(data.texts), model.predict(changed.texts)))
        assert row["answers_changed"] == pytest.approx(sum(a != b for a, b in both) / len(data))
        assert row["changed"] == pytest.approx(
            sum(a != b for a, b in zip(data.texts, changed.texts)) / len(data)
        )
    assert rows["lower"]["changed"] == rows["lower"]["difference"] == 0  # all is in lower case
    assert rows["upper"]["difference_interval"][1] < 0  # no word is known
    assert rows["upper"]["p_value"] < 0.01
    assert rows["shuffled"]["difference"] == 0  # a bag of words has no order
    assert rows["shuffled"]["changed"] > 0.8
    assert rows["lengthened"]["difference"] >= 0  # twice the evidence
    assert "perturbed data (difference to the data as it is, paired)" in report(result)
    assert result.signature.to_dict() | {"seed": 5, "typo_rate": 0.3} == result.signature.to_dict()


def test_seed_rate_and_choice_matter(model):
    data = reviews(60, 2)
    typos = [
        robustness(model, data, perturb=["typos"], **options).details["robustness"]
        for options in ({"typo_rate": 0.4}, {"typo_rate": 0.4, "seed": 9}, {"typo_rate": 0.0})
    ]
    assert typos[0] != typos[1]
    assert typos[2][0]["changed"] == 0 == typos[2][0]["difference"]
    assert [row["perturbation"] for row in typos[0]] == ["typos"]


def test_order_matters_to_a_tagger_and_tags_move_with_their_words():
    hmm, data = HMMTagger().fit(sentences(80, 0)), Tagged.of(sentences(60, 1))
    rows = {row["perturbation"]: row for row in robustness(hmm, data, seed=2).details["robustness"]}
    for kind, row in rows.items():
        assert row["accuracy"] == pytest.approx(
            hmm.evaluate(perturb_tagged(data, kind, seed=2))["accuracy"]
        )
    assert rows["shuffled"]["difference_interval"][1] < 0
    assert "answers_changed" not in rows["shuffled"]
    words = MostFrequentTag().fit(sentences(80, 0))  # which looks at single words
    assert robustness(words, data, perturb=["shuffled"]).details["robustness"][0][
        "difference"
    ] == pytest.approx(0)


def test_spans():
    rows = [
        (["Anna", "Lee", "met", "Bob"], ["B-P", "I-P", "O", "B-P"]),
        (["in", "Rome"], ["O", "B-L"]),
    ] * 8
    data = Tagged.of([*rows, ([], [])])
    result = robustness(HMMTagger().fit(rows), data, perturb=["lower", "shuffled", "truncated"])
    assert result["span_f1"] == 1
    assert result["sentences"] == 16  # one is empty
    found = {row["perturbation"]: row for row in result.details["robustness"]}
    lower = HMMTagger().fit(rows).evaluate(perturb_tagged(Tagged.of(rows), "lower"))
    assert found["lower"]["span_f1"] == pytest.approx(lower["span_f1"])


def test_what_cannot_be_is_said(model):
    with pytest.raises(ConfigError, match="unknown perturbation 'typo'; did you mean 'typos'"):
        robustness(model, reviews(5, 0), perturb=["typo"])
    with pytest.raises(ConfigError, match="typo_rate must be between 0 and 1; got 2"):
        robustness(model, reviews(5, 0), typo_rate=2)
    with pytest.raises(ConfigError, match="robustness is for classifiers and taggers"):
        robustness(NGram(order=1).fit("a b\n"), "a b\n")
