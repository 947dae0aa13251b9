"""One comparison for every task: what is in the table is what evaluating by hand gives, and the
data decides the task.
"""

import dataclasses
import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom import Labelled, Majority, NaiveBayes, Tagged, compare, tasks
from seqloom.comparison import ladder as ladders
from seqloom.comparison.ab import ab
from seqloom.comparison.classification import RUNGS, ClassificationLadder
from seqloom.comparison.report import markdown, write_report
from seqloom.data.recognise import labels_in, tags_in
from seqloom.errors import ConfigError, DataError
from seqloom.metrics import bootstrap
from seqloom.tasks.classification import Classification

from .test_compare import listened

GOOD, BAD = ["great", "lovely", "fun", "warm"], ["dull", "awful", "flat", "weak"]
OTHER = ["the", "film", "was", "a", "story", "of", "it", "and"]


def reviews(n, seed=0):
    draw = random.Random(seed)
    pairs = []
    for _ in range(n):
        label = draw.choice(["pos", "pos", "neg"])
        own = GOOD if label == "pos" else BAD
        pairs.append(
            (
                " ".join(
                    draw.choice(own if draw.random() < 0.15 else OTHER)
                    for _ in range(draw.randint(4, 12))
                ),
                label,
            )
        )
    return pairs


def sentences(n, seed=0, scheme=False):
    draw = random.Random(seed)
    words = {
        "D": ["the", "a"],
        "N": ["dog", "run", "cat", "house"],
        "V": ["runs", "run", "sees"],
        "B-X": ["Anna", "Bob"],
    }
    rows = []
    for _ in range(n):
        tags = (
            ["D", "N", "V"]
            + (["D", "N"] if draw.random() < 0.5 else [])
            + (["B-X"] if scheme else [])
        )
        rows.append(
            (
                [draw.choice(words[tag]) for tag in tags],
                [tag if tag == "B-X" or not scheme else "O" for tag in tags],
            )
        )
    return rows


COUNTING = [
    "majority",
    "bayes-1",
    "bayes-2",
    "fasttext-1",
    "fasttext-2",
]  # networks take their time


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def labelled(place):
    return compare(reviews(400), work=place, curve=True, rungs=COUNTING)


# ---- classifiers


def test_classifiers_are_compared_by_accuracy(labelled):
    assert [r.name for r in labelled.results] == COUNTING
    assert labelled.ladder.name == "classification"
    assert labelled.best.value == max(r.accuracy for r in labelled.results)
    parts = labelled.bench.splits
    for r in labelled.results:
        model = labelled.bench.fitted[r.name]
        result = model.evaluate(parts.test)
        assert r.accuracy == result["accuracy"]
        assert list(r.interval) == pytest.approx(result["accuracy_interval"])
        assert r.macro_f1 == result["macro_f1"]
        assert r.signature == str(result.signature)
    majority, bayes = (
        labelled.bench.fitted[name].predict(parts.test.texts) for name in ("majority", "bayes-1")
    )
    right = [
        np.array([a == b for a, b in zip(said, parts.test.labels)], float)
        for said in (majority, bayes)
    ]
    assert labelled.difference("majority", "bayes-1") == bootstrap.paired(
        *right, np.ones(len(parts.test))
    )


def test_texts_are_split_by_their_hashes_and_equal_ones_stay_together():
    data = Labelled.of(reviews(300) * 2)
    parts = ClassificationLadder().split(data, None, None)
    texts = [part.texts for part in (parts.train, parts.valid, parts.test)]
    assert sorted(itertools.chain(*texts)) == sorted(data.texts)
    assert not set(texts[0]) & set(texts[1])
    assert not set(texts[1]) & set(texts[2])
    assert [len(part) / 600 for part in texts] == pytest.approx([0.8, 0.1, 0.1], abs=0.02)
    turned = ClassificationLadder().split(Labelled.of((reviews(300) * 2)[::-1]), None, None)
    assert turned.test.texts == parts.test.texts  # whatever the order of the file


def test_a_file_that_is_given_judges(place):
    train, test = Labelled.of(reviews(200)), Labelled.of(reviews(60, 1), name="held-out")
    found = compare(train, valid=test, rungs=["majority", "bayes-1"], work=place)
    assert found.sizes == {"train": 200, "test": 60}
    assert "tested on held-out" in found.split
    assert found.results[1].accuracy == NaiveBayes().fit(train).evaluate(test)["accuracy"]
    both = compare(
        train, valid=Labelled.of(reviews(50, 2)), test=test, rungs=["majority"], work=place
    )
    assert both.sizes == {"train": 200, "valid": 50, "test": 60}


def test_labels_it_cannot_compare(place):
    with pytest.raises(ConfigError, match="several labels"):
        compare(Labelled.of([("a", ["x", "y"])] * 30), work=place)
    with pytest.raises(DataError, match="too few"):
        compare(Labelled.of(reviews(5)), work=place)
    with pytest.raises(DataError, match="no bundled data"):
        compare(task="classification", work=place)


def test_labels_may_be_numbers(place):
    texts, labels = zip(*reviews(100))
    found = compare(
        (list(texts), [int(label == "pos") for label in labels]),
        rungs=["majority", "bayes-1"],
        work=place,
    )
    assert found.bench.splits.test.labels[0] in (0, 1)
    for r in found.results:
        model = found.bench.fitted[r.name]
        assert r.accuracy == model.evaluate(found.bench.splits.test)["accuracy"]
    assert set(found.model.predict(["great fun", "dull"])) <= {0, 1}
    write_report(found, place / "numbers-report")


def test_the_report_of_classifiers(labelled, tmp_path):
    write_report(labelled, tmp_path / "report")
    names = {p.name for p in (tmp_path / "report").iterdir()}
    assert {"confusion.png", "calibration.png", "curve.png", "ladder.png"} <= names
    assert "passage.png" not in names
    page = (tmp_path / "report" / "report.html").read_text()
    for heading in ("Confusion", "Calibration", "Each class", "Errors", "Learning curve"):
        assert f"<h2>{heading}</h2>" in page
    assert "Samples" not in page
    values = json.loads((tmp_path / "report" / "comparison.json").read_text())
    assert values["task"] == "classification"
    assert values["measure"] == "accuracy"
    assert values["details"][labelled.best.name]["confusion"]["classes"] == ["neg", "pos"]
    assert [p["texts"] for p in values["curve"]["bayes-1"]][-1] == labelled.sizes["train"]
    text = markdown(labelled)
    assert text.startswith("# Classifiers compared on texts")
    assert "A rung is one model" in text


def test_finished_classifiers_are_used_again(labelled, place):
    again, ear = listened(reviews(400), work=place, curve=True, rungs=COUNTING)
    assert ear.trained() == []
    assert again.results == labelled.results
    assert again.curve == labelled.curve


# ---- taggers


def test_taggers_are_compared_by_accuracy_of_words(place):
    found = compare(sentences(200), work=place, rungs=["most-frequent", "hmm-1", "hmm-2"])
    assert [r.name for r in found.results] == ["most-frequent", "hmm-1", "hmm-2"]
    for r in found.results:
        result = found.bench.fitted[r.name].evaluate(found.bench.splits.test)
        assert r.accuracy == result["accuracy"]
        assert list(r.interval) == pytest.approx(result["accuracy_interval"])
    assert found.results[1].value > found.results[0].value  # "run" is a noun or a verb
    write_report(found, place / "report")
    assert "<h2>Each tag</h2>" in (place / "report" / "report.html").read_text()


def test_spans_are_compared_by_f1(place):
    train, test = Tagged.of(sentences(100, scheme=True)), Tagged.of(sentences(50, 1, scheme=True))
    found = compare(train, test=test, work=place, rungs=["most-frequent", "hmm-1", "hmm-2"])
    assert found.ladder.measure.key == "span_f1"
    for r in found.results:
        result = found.bench.fitted[r.name].evaluate(test)
        assert r.span_f1 == r.value == result["span_f1"]
        values, weights = found.rows[r.name].T
        assert values.sum() / weights.sum() == pytest.approx(r.value)
        if r.name != found.best.name:
            assert found.difference(r.name, found.best.name).difference == pytest.approx(
                r.value - found.best.value
            )


# ---- word vectors


@pytest.fixture(scope="module")
def questions(place):
    (place / "pairs.tsv").write_text(
        "".join(
            f"{a}\t{b}\t{i}\n"
            for i, (a, b) in enumerate(
                [
                    ("the", "of"),
                    ("and", "to"),
                    ("for", "good"),
                    ("you", "me"),
                    ("missingword", "the"),
                    ("my", "your"),
                ]
            )
        )
    )
    (place / "analogies.txt").write_text(
        ": some\nking my lord your\nyou me thou thee\nthe of a to\nzzz the of a\n"
    )
    return [place / "pairs.tsv", place / "analogies.txt"]


def test_vectors_are_compared_by_questions(shakespeare, questions, place):
    text = shakespeare[:60_000]
    found = compare(text, task="vectors", test=questions, rungs=["cbow", "glove"], work=place)
    assert [r.name for r in found.results] == ["cbow", "glove"]
    assert found.ladder.measure.key == "spearman"
    for r in found.results:
        model = found.bench.fitted[r.name]
        assert r.spearman == model.evaluate(questions[0])["spearman"]
        assert r.measures["analogies.txt"] == model.evaluate(questions[1])["accuracy"]
        assert r.missing == 1
        assert r.interval[0] <= r.value <= r.interval[1]
    d = found.difference("cbow", "glove")
    assert d.difference == pytest.approx(found.results[0].value - found.results[1].value)
    turned = compare(text, task="vectors", test=questions[::-1], rungs=["cbow"], work=place)
    assert turned.ladder.measure.key == "accuracy"
    assert turned.best.value == turned.model.evaluate(questions[1])["accuracy"]
    assert turned.difference("cbow", "cbow").difference == 0
    write_report(turned, place / "vector-report")
    assert "Analogies by section" in (place / "vector-report" / "report.html").read_text()
    with pytest.raises(ConfigError, match=r"give test=\[Path\(...\)\] and no other"):
        compare(text, task="vectors", work=place)


# ---- which task


def test_the_data_decides(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    table = "text\tlabel\n" + "a b\tx\n" * 3
    for name, text, expected in (
        ("reviews.tsv", table, "classification"),
        ("plain.txt", table, "text"),
        ("reviews.csv", "review,sentiment\na,x\nb,y\n", "classification"),
        ("bare.tsv", "".join(f"{'+-'[n % 2]}\tfilm {n}\n" for n in range(9)), "classification"),
        ("behind.tsv", "".join(f"film {n}\t{n % 2}\n" for n in range(9)), "classification"),
        ("two.tsv", "".join(f"film {n}\tFilm {n}\n" for n in range(9)), "translation"),
        ("same.tsv", "a\tb\n" * 9, "text"),
        ("numbers.tsv", "".join(f"a\t{n}\n" for n in range(9)), "text"),
        ("notes.csv", "title,body\na,x\nb,y\n", "text"),
        ("notes.tsv", "text\tid\na\t1\n", "text"),
        ("reviews.jsonl", '{"text": "a", "label": 1}\n', "classification"),
        ("chat.jsonl", '{"text": "a"}\n', "text"),
        ("cooking.train", "__label__x a b\n__label__y c\n", "classification"),
        ("cooking.txt", "__label__x a b\n", "text"),
        ("dev.conllu", "1\ta\ta\tDET\t_\t_\t_\t_\t_\t_\n\n", "tagging"),
        ("eng.conll", "a DET\n\n", "tagging"),
        ("treebank", "1\ta\ta\tDET\t_\t_\t_\t_\t_\t_\n\n", "tagging"),
        ("novel", "It was a dark night.\n", "text"),
        ("eng.train", "-DOCSTART- -X- O\n\nEU NNP I-ORG\nrejects VBZ O\n\n", "tagging"),
        ("poem.train", "O O\nwhat an O\n", "text"),
        ("lines.train", "to O\nbe O\n", "text"),
        ("broken.jsonl", "{\n", "text"),
    ):
        assert ladders.of_data(write(name, text))[0].name == expected, name
    assert ladders.of_data(tmp_path)[0].name == "text"
    assert ladders.of_data(Path("missing.tsv"))[0].name == "text"
    assert "'label'" in labels_in(tmp_path / "reviews.tsv")
    assert tags_in(tmp_path / "reviews.tsv") == ""
    for data, expected in (
        (Labelled.of([("a", "x")]), "classification"),
        (Tagged.of([(["a"], ["X"])]), "tagging"),
        ([("a", "x")], "classification"),
        ((["a", "b"], ["x", "y"]), "classification"),
        ([(["a"], ["X"])], "tagging"),
        (["a b", "c"], "text"),
        ("a text", "text"),
        (None, "text"),
    ):
        assert ladders.of_data(data)[0].name == expected, data
    polars = pytest.importorskip("polars")
    for names, expected in (
        (("text", "label"), "classification"),
        (("a", "Label"), "classification"),
        (("id", "text"), "text"),
        (("id", "text", "label"), "classification"),
        (("id", "a", "label"), "text"),
    ):
        assert (
            ladders.of_data(polars.DataFrame({name: ["x"] for name in names}))[0].name == expected
        ), names
    with pytest.raises(ConfigError, match="did you mean 'tagging'"):
        compare("x", task="taging")


def test_what_was_decided_is_said(place):
    _, ear = listened(Labelled.of(reviews(40)), rungs=["majority"], work=place)
    assert any(
        message.startswith("comparing classifiers: the data has labels") for message in ear.said
    )


class EmojiLadder(ClassificationLadder):
    name, task, models = "emoji", "smile", "smiles"
    rungs = RUNGS[:1]

    def recognises(self, data):
        return "it smiles" if isinstance(data, str) and data.startswith(":-)") else ""

    def read(self, data):
        return Labelled.of(reviews(40), name="smiles")


class Smiling(Classification):
    name, phrase = "smile", "a smile"
    ladder = f"{__name__}:EmojiLadder"


class Smile(Majority):
    task = "smile"


class Smiler(Smile):
    """Another one."""


def test_another_task_brings_its_comparing(place, monkeypatch):
    monkeypatch.setattr(tasks, "_registered", dict(tasks._registered))
    tasks.register(Smiling())
    assert "emoji" in ladders.names()
    assert (ladders.of_task("smile").name, ladders.get("emoji").name) == ("emoji", "emoji")
    found = compare(":-) :-)", work=place)
    assert (found.ladder.name, found.best.name) == ("emoji", "majority")
    assert ab(":-)", a=Smile(), b=Smiler(), folds=2).winner is None
    with pytest.raises(
        ConfigError, match="no comparison for models of the task 'masked language model'"
    ):
        ladders.of_task("masked language model")


# ---- models of one's own


def test_models_of_ones_own_are_rungs(place):
    data = Labelled.of(reviews(200))
    own = NaiveBayes(ngrams=3)
    ready = Majority().fit(reviews(20, 5))
    found, ear = listened(data, rungs=["majority", own, ready], work=place)
    assert [r.name for r in found.results] == ["majority", own.label(), "majority-2"]
    assert not own.fitted  # a copy was
    assert (
        found.results[1].accuracy
        == NaiveBayes(ngrams=3)
        .fit(found.bench.splits.train)
        .evaluate(found.bench.splits.test)["accuracy"]
    )
    assert any(line.startswith("evaluating majority-2") for line in ear.said)
    assert (found.results[2].train_seconds, found.results[2].peak_memory) == (None, None)
    assert found.bench.fitted["majority-2"] is ready
    assert found.results[2].disk > 0
    markdown(found)
    write_report(found, place / "own-report")
    _, ear = listened(data, rungs=["majority", own], work=place)
    assert ear.trained() == []  # of the library's own kinds a finished one is used again
    with pytest.raises(ConfigError, match="cannot be compared with language models"):
        compare("x " * 5000, task="text", rungs=[own], work=place)


def test_a_classifier_of_several_labels_is_no_rung(place):
    pytest.importorskip("torch")
    several = seqloom.NeuralClassifier(encoder="cnn", d_hidden=4).fit(
        [("good fun", ["pos", "new"]), ("dull", ["neg"])] * 10, train=seqloom.TrainConfig(steps=2)
    )
    found = compare(Labelled.of(reviews(40)), rungs=["majority", several], work=place)
    assert [r.name for r in found.results] == ["majority"]
    assert "several labels" in found.skipped[0].reason


def test_a_model_of_an_unknown_class_is_trained_each_time(place):
    class Mine(Majority):
        pass

    data = Labelled.of(reviews(100))
    for _ in range(2):
        found, ear = listened(data, rungs=[Mine()], work=place)
        assert ear.trained() == [found.best.name]
    assert found.answer.path is None
    assert found.answer.commands == ()


def test_a_language_model_with_its_own_tokenizer(shakespeare, place):
    text = shakespeare[:20_000]
    mine = seqloom.NGram(order=2, tokenizer="bpe", vocab_size=300, unit="stream")
    words = seqloom.NGram(order=2)
    found = compare(
        seqloom.Corpus.from_texts(text), rungs=["byte-2", "byte-mixture", mine, words], work=place
    )
    assert [r.name for r in found.results] == ["byte-2", "byte-mixture", mine.label()]
    assert found.model.tokenizer.vocab_size <= 301 or found.best.name != mine.label()
    assert found.bench.fitted[mine.label()].bits_per_byte(found.bench.splits.test) == pytest.approx(
        found.results[2].value
    )
    assert "easier text" in found.skipped[0].reason  # words that are not known cost nothing


# ---- the answer


def test_the_answer_names_the_smallest_within_the_interval(labelled, tmp_path):
    answer = labelled.answer
    end = labelled.best.interval[0]
    good = [r for r in labelled.results if r.value >= end]
    assert answer.best == labelled.best.name
    assert answer.smallest in {r.name for r in good}
    assert answer.smallest in answer.text
    rows = {
        r.name: dataclasses.replace(r, disk=size)
        for r, size in zip(labelled.results, (1, 1000, 880, 950, 1000))
    }
    for best, others, expected in (
        ("bayes-1", ["bayes-2"], "bayes-2"),
        ("bayes-1", ["fasttext-1"], "bayes-1"),
        ("bayes-1", ["majority"], "bayes-1"),
    ):  # smaller, hardly smaller, far worse
        values = {best: 0.9, "majority": 0.5}
        some = [
            dataclasses.replace(
                rows[name], measures={"accuracy": values.get(name, 0.89)}, interval=(0.85, 0.95)
            )
            for name in (best, *others)
        ]
        assert dataclasses.replace(labelled, results=some).answer.smallest == expected
    assert seqloom.load(answer.path).predict("great fun") in ("pos", "neg")
    assert labelled.to_dict()["answer"]["best"] == answer.best
    labelled.save(tmp_path / "best")
    try:
        assert labelled.answer.path == str(tmp_path / "best")
        assert all(str(tmp_path / "best") in command for command in labelled.answer.commands)
        probs = [
            model.predict_proba(["great fun"])
            for model in (seqloom.load(tmp_path / "best"), labelled.model)
        ]
        assert np.array_equal(*probs)
    finally:
        labelled.saved = None


def test_measures_are_attributes(labelled):
    with pytest.raises(AttributeError, match="measured were accuracy, macro_f1"):
        _ = labelled.best.bits_per_byte


def test_a_language_model_of_a_few_lines_is_a_rung(shakespeare, place):
    class Often(seqloom.LanguageModel):
        """How often each byte came; it is not registered, so it cannot be saved."""

        def fit_ids(self, ids, how):
            self.row = np.log(
                (np.bincount(ids, minlength=self.tokenizer.vocab_size) + 1) / (len(ids) + 257)
            )

        def next_log_probs(self, context):
            return self.row

    mine = Often(tokenizer="byte", unit="stream")
    found = compare(
        seqloom.Corpus.from_texts(shakespeare[:6000]), rungs=["byte-1", "byte-2", mine], work=place
    )
    row = found.results[2]
    assert row.value == pytest.approx(found.results[0].value, abs=0.05)
    assert (row.family, row.disk) == ("own", None)
    assert found.best.name == "byte-2"
    write_report(found, place / "few-lines")
    assert "a model of your own" in (place / "few-lines" / "report.md").read_text()


def test_series_of_numbers_are_compared_without_rungs_that_need_words(tmp_path):
    series = [np.arange(4.0) * (1 if i % 2 else -1) + i for i in range(40)]
    data = Labelled(series, [str(i % 2) for i in range(40)])
    assert compare(data, work=tmp_path, rungs=["majority"]).best.name == "majority"
    with pytest.raises(ConfigError, match="unknown rung 'bayes-1'"):
        compare(data, work=tmp_path, rungs=["bayes-1"])


def test_a_rung_without_its_number_stands_for_all_of_them(place):
    found = compare(Tagged.of(sentences(60)), work=place / "hmm", rungs=["hmm"])
    assert [result.name for result in found.results] == ["hmm-1", "hmm-2"]
