"""Slices, groups, words of errors and latency, for every classifier and tagger: the numbers are
those of the parts alone.
"""

import dataclasses
import random

import numpy as np
import pytest

import seqloom
from seqloom import Classifier, Labelled, NaiveBayes, Tagged, Tagger, TrainConfig, registry
from seqloom.errors import ConfigError, DataError
from seqloom.metrics.bootstrap import interval
from seqloom.metrics.slices import wilson
from seqloom.metrics.tables import report

CLASSIFIERS = [name for name, entry in registry.MODELS.items() if entry.task == "classifier"]
TAGGERS = [name for name, entry in registry.MODELS.items() if entry.task == "tagger"]


def fitted(cls, data):
    """A network after a few steps, which are enough to have answers."""
    model = cls()
    return model.fit(data, train=TrainConfig(steps=5)) if model.trained else model.fit(data)


def texts(n, seed):
    draw = random.Random(seed)
    rows = []
    for _ in range(n):
        label = draw.choice("xyz")
        words = [
            draw.choice((label * 3, "and", "of", f"rare{draw.randrange(60)}"))
            for _ in range(draw.randint(1, 9))
        ]
        rows.append((" ".join(words), label))
    return rows


TRAIN = texts(90, 0)
TEST = Labelled.of(
    [*texts(60, 1), ("xxx " * 40, "x"), ("new words only", "w")],
    columns={"site": ["web", "mail"] * 31, "stars": list(range(62))},
)


@pytest.fixture(scope="module", params=CLASSIFIERS)
def classifier(request):
    return fitted(registry.model_class(request.param), TRAIN)


def test_slices_are_the_results_of_their_parts(classifier):
    rows = classifier.evaluate(TEST, slice_by=["site", "length", "class"], samples=100).details[
        "slices"
    ]
    assert {row["by"] for row in rows} == {"site", "length in characters", "class"}
    for by in ("site", "length in characters", "class"):
        assert sum(row["size"] for row in rows if row["by"] == by) == len(TEST)
    for row in rows:
        if row["by"] == "site":
            part = TEST.part(
                [i for i, site in enumerate(TEST.columns["site"]) if site == row["slice"]]
            )
            alone = classifier.evaluate(part, samples=0)
            assert row["accuracy"] == pytest.approx(alone["accuracy"])
            assert row["macro_f1"] == pytest.approx(alone["macro_f1"])
            assert row["accuracy_interval"] == wilson(round(row["accuracy"] * len(part)), len(part))
        if row["by"] == "class":
            assert row["accuracy"] == pytest.approx(
                next(
                    one["recall"]
                    for one in classifier.evaluate(TEST).details["classes"]
                    if one["class"] == row["slice"]
                )
            )
    longest = max(rows, key=lambda row: row.get("longer_than", 0))
    assert longest["longer_than"] == 1.0
    assert longest["slice"].endswith("160")
    assert longest["size"] == sum(
        len(text) > max(len(text) for text, _ in TRAIN) for text in TEST.texts
    )
    large = [row["accuracy"] for row in rows if row["size"] >= 10]
    assert large == sorted(large)


def test_what_is_not_asked_for_is_not_there(classifier):
    plain, more = (
        classifier.evaluate(TEST),
        classifier.evaluate(TEST, slice_by=["length"], group_by="site"),
    )
    assert set(more.details) - set(plain.details) == {"slices", "groups", "gaps", "group_by"}
    assert {name: more.metrics[name] for name in plain.metrics} == dict(plain.metrics)
    assert not any("latency" in name for name in more.metrics)


def test_groups(classifier):
    result = classifier.evaluate(TEST, group_by="site", samples=50)
    said = classifier.predict(TEST.examples)
    for row in result.details["groups"]:
        inside = [i for i, site in enumerate(TEST.columns["site"]) if site == row["group"]]
        assert row["accuracy"] == pytest.approx(
            np.mean([said[i] == TEST.labels[i] for i in inside])
        )
        for one in row["classes"]:
            assert one["predicted"] == sum(str(said[i]) == one["class"] for i in inside)
    assert {row["class"] for row in result.details["gaps"]} == {"x", "y", "z", "w"}
    low, high = result["equalised_odds_gap_interval"]
    assert 0 <= low <= high <= 1
    assert "groups by site" in report(result)


def test_latency(classifier):
    metrics = classifier.evaluate(TEST, latency=True).metrics
    assert 0 < metrics["latency_p50_ms"] <= metrics["latency_p95_ms"]
    assert metrics["examples_per_second"] > 0


def test_unknown_words():
    model = NaiveBayes().fit(TRAIN)
    rows = model.evaluate(TEST, slice_by=["unknown"]).details["slices"]
    known = {word for text, _ in TRAIN for word in text.split()}
    shares = [np.mean([word not in known for word in text.split()]) for text in TEST.texts]
    assert sum(row["size"] for row in rows) == len(TEST)
    last = next(row for row in rows if row["slice"].endswith("100%"))
    assert last["size"] == sum(share > 0 for share in shares)  # most have none
    bytewise = NaiveBayes(tokenizer="byte").fit(TRAIN)
    with pytest.raises(
        ConfigError, match="slice_by unknown: this naive-bayes model cannot tell which words"
    ):
        bytewise.evaluate(TEST, slice_by=["unknown"])


def test_words_of_errors():
    rows = [("good fun", "+")] * 30 + [("good day", "+")] * 30 + [("bad", "-")] * 30
    model = NaiveBayes().fit(rows)
    odd = [("not bad really", "+")] * 10 + [(f"good {i}", "+") for i in range(30)]
    kinds = model.evaluate(odd, error_words=2).details["errors"]
    assert [word["word"] for word in kinds[0]["words"]] == ["bad", "not"]
    assert "words: bad (" in report(model.evaluate(odd, error_words=2))
    assert "words" not in model.evaluate(odd).details["errors"][0]


def test_columns_are_asked_for_by_name():
    model = NaiveBayes().fit(TRAIN)
    with pytest.raises(
        DataError, match=r"has no column 'sites'; did you mean 'site'\? \(known: site, stars\)"
    ):
        model.evaluate(TEST, slice_by=["sites"])
    with pytest.raises(
        DataError,
        match=r"has no column 'site'; give it as Labelled.of\(texts, labels, columns=...\)",
    ):
        model.evaluate(TRAIN, group_by="site")
    assert (
        len(model.evaluate(TEST, slice_by=["stars"]).details["slices"]) == 5
    )  # numbers go into bins


def test_a_frame_has_columns():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {"text": TEST.texts, "label": TEST.labels, "site": TEST.columns["site"]}
    )
    model = NaiveBayes().fit(TRAIN)
    assert (
        model.evaluate(frame, slice_by=["site"]).details
        == model.evaluate(TEST, slice_by=["site"]).details
    )
    with pytest.raises(DataError, match="the frame has no column 'zone'; known: text, label, site"):
        model.evaluate(frame, group_by="zone")


# ---- several labels, and arrays of numbers


class Nearest(Classifier):
    """Each class by the mean of its examples."""

    learns_several = True

    def is_example(self, value):
        return isinstance(value, np.ndarray) and value.ndim == 1

    def fit_examples(self, data, how):
        self.means = np.array(
            [
                np.mean(
                    [np.mean(x) for x, labels in zip(data.examples, data.labels) if c in labels]
                )
                for c in self.classes
            ]
        )

    def class_log_probs(self, examples):
        off = np.abs(np.array([np.mean(x) for x in examples])[:, None] - self.means)
        return -off.astype(np.float64)


def test_several_labels_of_arrays():
    rows = [np.full(n % 5 + 1, n / 10, np.float32) for n in range(30)]
    labels = [
        tuple(name for name, low in (("a", 0), ("b", 10), ("c", 15)) if n >= low) for n in range(30)
    ]
    data = Labelled.of(rows, labels, columns={"even": [n % 2 == 0 for n in range(30)]})
    model = Nearest().fit(data)
    result = model.evaluate(data, slice_by=["even", "length", "class"], group_by="even", samples=20)
    for row in result.details["slices"]:
        if row["by"] == "even":
            alone = model.evaluate(
                data.part([i for i in range(30) if data.columns["even"][i] == row["slice"]])
            )
            assert row["exact_match"] == pytest.approx(alone["exact_match"])
            assert row["micro_f1"] == pytest.approx(alone["micro_f1"])
    assert {row["by"] for row in result.details["slices"]} == {"even", "length in steps", "class"}
    assert [row["size"] for row in result.details["groups"]] == [15, 15]
    with pytest.raises(ConfigError, match="error_words needs single texts with one label each"):
        model.evaluate(data, error_words=3)


# ---- taggers


def sentences(n, seed, scheme=False):
    draw = random.Random(seed)
    words = {
        "D": ["the", "a"],
        "N": ["dog", "run", "cat"],
        "V": ["runs", "run", "sees"],
        "B-X": ["Anna", "Bob", "Eve"],
    }
    rows = []
    for _ in range(n):
        tags = [draw.choice("DNV") for _ in range(draw.randint(1, 7))]
        if scheme:
            tags = ["B-X" if tag == "N" else "O" for tag in tags]
        new = [
            draw.choice(words["V"] if tag == "O" else words[tag])
            if draw.random() < 0.8
            else f"w{draw.random()}"
            for tag in tags
        ]
        rows.append((new, tags))
    return rows


@pytest.fixture(scope="module", params=TAGGERS)
def tagger(request):
    return fitted(registry.model_class(request.param), sentences(60, 0))


def test_slices_of_sentences_and_words(tagger):
    data = Tagged.of([*sentences(50, 1), (["the", "dog"] * 20, ["D", "N"] * 20)])
    rows = tagger.evaluate(data, slice_by=["length", "unknown", "class"], samples=60).details[
        "slices"
    ]
    found = {(row["by"], row["slice"]): row for row in rows}
    long = found["length in words", "40"]
    assert long["longer_than"] == 1.0
    assert long["accuracy"] == tagger.evaluate(data.part([50]))["accuracy"]
    known = [i for i, words in enumerate(data.sentences) if all(map(tagger.knows, words))]
    assert found["unknown words", "0%"]["size"] == len(known)
    assert found["unknown words", "0%"]["accuracy"] == pytest.approx(
        tagger.evaluate(data.part(known))["accuracy"]
    )
    predicted = tagger.predict(data.sentences)
    pairs = [
        [sum(a == b == "N" for a, b in zip(tags, said)), tags.count("N")]
        for tags, said in zip(data.tags, predicted)
    ]
    both = np.array([pair for pair in pairs if pair[1]], float)
    assert found["tag", "N"]["size"] == both[:, 1].sum()
    assert found["tag", "N"]["accuracy"] == pytest.approx(both[:, 0].sum() / both[:, 1].sum())
    assert found["tag", "N"]["accuracy_interval"] == pytest.approx(interval(*both.T, samples=60))
    with pytest.raises(
        ConfigError,
        match="slice_by 'genre': there is no such column; known: length, class, unknown",
    ):
        tagger.evaluate(data, slice_by=["genre"])
    assert tagger.evaluate(data, latency=True)["latency_p95_ms"] > 0


def test_slices_by_span_f1(tagger):
    fresh = fitted(type(tagger), sentences(60, 0, scheme=True))
    data = Tagged.of(sentences(50, 1, scheme=True))
    rows = fresh.evaluate(data, slice_by=["length"], samples=20).details["slices"]
    for row in rows:
        low, _, high = row["slice"].partition(" to ")
        part = data.part(
            [
                i
                for i, words in enumerate(data.sentences)
                if int(low) <= len(words) <= int(high or low)
            ]
        )
        assert row["span_f1"] == pytest.approx(fresh.evaluate(part)["span_f1"])
    large = [row["span_f1"] for row in rows if row["size"] >= 10]
    assert large == sorted(large)


class Constant(Tagger):
    """One tag for all."""

    def fit_sentences(self, data, how):
        self.first = data.tagset[0]

    def tag(self, words):
        return [self.first] * len(words)


def test_a_tagger_that_does_not_tell_words_apart_says_so():
    with pytest.raises(ConfigError, match="slice_by unknown: this constant model cannot tell"):
        Constant().fit(sentences(5, 0)).evaluate(sentences(3, 1), slice_by=["unknown"])


def test_the_record_of_lengths_is_saved_and_not_relied_upon(tmp_path):
    model = NaiveBayes().fit(TRAIN)
    longest = max(len(text) for text, _ in TRAIN)
    assert model.fit_info["lengths"]["longest"] == longest
    model.save(tmp_path / "m")
    loaded = seqloom.load(tmp_path / "m")
    assert (
        loaded.evaluate(TEST, slice_by=["length"]).details
        == model.evaluate(TEST, slice_by=["length"]).details
    )
    loaded.fit_info["lengths"] = "broken"
    assert not any(
        "longer_than" in row for row in loaded.evaluate(TEST, slice_by=["length"]).details["slices"]
    )


def test_columns_follow_their_rows():
    assert TEST.part([3, 1]).columns == {"site": ["mail", "mail"], "stars": ["3", "1"]}
    assert dataclasses.replace(TEST, name="other").fingerprint == TEST.fingerprint
    with pytest.raises(DataError, match="texts has 2 texts, but column 'a' 1 values"):
        Labelled.of(["a", "b"], ["x", "y"], columns={"a": [1]})
