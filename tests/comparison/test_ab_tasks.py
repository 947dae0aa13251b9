"""A/B of classifiers, taggers, networks and word vectors: each figure against plain evaluation on
the same parts.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import seqloom
from seqloom import (
    HMMTagger,
    NaiveBayes,
    NeuralForecaster,
    NeuralTagger,
    NGram,
    TrainConfig,
    Word2Vec,
)
from seqloom.cli.main import main
from seqloom.comparison.ab import ab
from seqloom.comparison.classification import ClassificationLadder, macro_f1
from seqloom.comparison.forecasting import ForecastingLadder
from seqloom.comparison.tagging import TaggingLadder
from seqloom.data.classification import Labelled
from seqloom.data.tagging import Tagged
from seqloom.errors import ConfigError, DataError
from seqloom.metrics.bootstrap import paired, paired_statistic, ratio
from seqloom.testing.forecasting import hours
from tests.comparison.folding import folds

GOOD, BAD = ["fine", "great", "lovely", "clever", "warm"], ["dull", "bad", "slow", "flat", "cold"]


@pytest.fixture(scope="module")
def reviews() -> list[tuple[str, str]]:
    """Word order says nothing, but `not` turns the class around: bigrams help, and so does every word."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(200):
        negated, good = rng.integers(0, 2, 2)
        words = [str(rng.choice(GOOD if good != negated else BAD))]
        words = (["not", *words] if negated else ["very", *words]) + [
            str(rng.choice(["film", "play", "book"])),
            f"w{i}",
        ]
        rows.append((" ".join(words), "good" if good else "bad"))
    return sorted(rows, key=lambda row: row[1])  # by class, as many files are


@pytest.fixture(scope="module")
def names() -> Tagged:
    rng = np.random.default_rng(1)
    people, places, verbs = (
        ["Ann", "Bob", "Cy", "Di"],
        ["Rome", "Oslo", "Kyiv"],
        ["saw", "left", "likes"],
    )
    pairs = []
    for i in range(60):
        words = [str(rng.choice(people)), f"X{i}", str(rng.choice(verbs)), str(rng.choice(places))]
        pairs.append(
            (words, ["B-PER", "I-PER", "O", "B-LOC"] if i % 3 else ["B-PER", "O", "O", "B-LOC"])
        )
    return Tagged.of(pairs, name="names")


def test_stop_words_of_a_classifier(reviews: list[tuple[str, str]], tmp_path: Path) -> None:
    path = tmp_path / "reviews.tsv"
    path.write_text(
        "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in reviews), encoding="utf-8"
    )
    arguments = [
        "ab",
        str(path),
        "--model",
        "naive-bayes",
        "--both",
        "ngrams=2",
        "--a",
        "normalize=case=lower",
        "--b",
        "normalize=case=lower,stopwords=remove-all",
        "--folds",
        "4",
        "-q",
    ]
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines()[-1].startswith("A is better: accuracy -")
    values = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).output)
    assert (values["winner"], values["runs"]) == ("a", "4 folds")
    figure = values["figures"][0]
    right = {}
    for side in "ab":
        results = [
            NaiveBayes(**values[side]).fit(train).evaluate(test, samples=0)
            for train, test in folds(ClassificationLadder(), seqloom.read_labelled(path), 4)
        ]
        right[side] = sum(result["accuracy"] * result["texts"] for result in results) / len(reviews)
        assert figure[side] == pytest.approx(right[side])
    assert figure["high"] < 0
    assert figure["p_value"] < 0.01
    assert [f["name"] for f in values["figures"]] == ["accuracy", "macro F1", "nats per text"]


def test_one_split_is_the_default_and_no_difference_is_said(reviews: list[tuple[str, str]]) -> None:
    found = ab(reviews, model="naive-bayes", a={"k": 1.0}, b={"k": 1.01})
    assert found.runs == "one of 10 parts held out"
    ((_, test),) = folds(ClassificationLadder(), reviews, 10)[-1:]
    assert len(test) == 20
    assert found.winner is None
    assert found.sentence() == "no clear difference in accuracy, p = 1"
    given = ab(
        reviews[::2],
        valid=Labelled.of(reviews[1::2], name="rest"),
        model="naive-bayes",
        b={"ngrams": 2},
    )
    assert given.runs == "judged on rest"
    assert given["accuracy"].a == NaiveBayes().fit(reviews[::2]).evaluate(reviews[1::2])["accuracy"]
    assert given["macro F1"].b == pytest.approx(
        NaiveBayes(ngrams=2).fit(reviews[::2]).evaluate(reviews[1::2])["macro_f1"]
    )


def test_both_may_name_the_model(reviews: list[tuple[str, str]]) -> None:
    found = ab(reviews, a={"ngrams": 1}, b={"ngrams": 2}, both={"model": "naive-bayes"})
    assert (
        found.to_dict()
        == ab(reviews, model="naive-bayes", a={"ngrams": 1}, b={"ngrams": 2}).to_dict()
    )


def test_labelled_parts_are_mixed_and_equal_texts_stay_together(
    reviews: list[tuple[str, str]],
) -> None:
    parts = folds(ClassificationLadder(), [*reviews, *reviews[:50]], 5)
    assert sorted(text for _, test in parts for text in test.texts) == sorted(
        text for text, _ in [*reviews, *reviews[:50]]
    )
    for train, test in parts:
        assert not set(train.texts) & set(test.texts)
        assert len(test.classes) == 2  # though the file is sorted by class
    with pytest.raises(DataError, match="too uneven"):
        folds(ClassificationLadder(), [("the same", "a")] * 30, 3)
    with pytest.raises(DataError, match="5 folds of 6 texts"):
        folds(ClassificationLadder(), reviews[:6], 5)


def test_taggers_are_judged_by_spans_or_by_words(names: Tagged) -> None:
    found = ab(names, model="hmm-tagger", a={"suffix": 0}, b={"suffix": 5}, folds=3)
    assert [figure.name for figure in found.figures] == [
        "span F1",
        "accuracy",
        "accuracy of unknown words",
    ]
    results = [
        HMMTagger(suffix=5).fit(train).evaluate(test, samples=0)
        for train, test in folds(TaggingLadder(), names, 3)
    ]
    words = [result["words"] for result in results]
    assert found["accuracy"].b == pytest.approx(
        np.average([r["accuracy"] for r in results], weights=words)
    )
    last = ab(
        names.part(slice(0, 40)),
        valid=names.part(slice(40, None)),
        model="hmm-tagger",
        a={"order": 1},
    )
    whole = HMMTagger(order=1).fit(names.part(slice(0, 40))).evaluate(names.part(slice(40, None)))
    assert last["span F1"].a == pytest.approx(whole["span_f1"])
    assert last["accuracy of unknown words"].a == pytest.approx(whole["unknown_accuracy"])
    plain = ab(Tagged(names.sentences, names.tags, "names"), model="hmm-tagger", b={"order": 1})
    assert plain.figures[0].name == "accuracy"


def test_two_networks_by_cross_validation(shakespeare: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "corpus.txt"
    path.write_text(shakespeare[:8_000], encoding="utf-8")
    arguments = [
        "ab",
        str(path),
        "--a",
        "lstm",
        "--b",
        "gru",
        "--both",
        "steps=3",
        "--both",
        "d-hidden=8",
        "--both",
        "tokenizer=byte",
        "--a",
        "lr=0.01",
        "--folds",
        "2",
        "--json",
        "-q",
        "--device",
        "cpu",
    ]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    values = json.loads(done.output)
    assert values["model"] == "lstm and gru"
    assert values["a"] == {
        "model": "lstm",
        "d_hidden": 8,
        "tokenizer": "byte",
        "steps": 3,
        "lr": 0.01,
    }
    assert values["figures"][0]["name"] == "bits per byte"
    assert 4 < values["figures"][0]["b"] < 9


def test_encoders_of_a_tagger_and_of_a_forecaster_by_cross_validation(
    names: Tagged, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    small = {"steps": 3, "d_hidden": 8, "encoder": "lstm"}
    found = ab(names, model="tagger", both={**small, "d_embed": 8}, b={"encoder": "gru"}, folds=2)
    assert (found.runs, found.a["encoder"], found.b["encoder"]) == ("2 folds", "lstm", "gru")
    how = TrainConfig(steps=3)
    made = [
        NeuralTagger(d_hidden=8, d_embed=8, encoder="gru")
        .fit(train, train=how)
        .evaluate(test, samples=0)
        for train, test in folds(TaggingLadder(), names, 2)
    ]
    words = [result["words"] for result in made]
    assert found["accuracy"].b == pytest.approx(
        np.average([result["accuracy"] for result in made], weights=words)
    )
    assert 0 < found["span F1"].p_value <= 1
    path = tmp_path / "load.csv"
    series = hours(240)
    rows = [
        f"{1_700_000_000 + 3600 * i},{value}"
        for i, value in enumerate(series.tracks[0].values[:, 0])
    ]
    path.write_text("time,load\n" + "\n".join(rows) + "\n", encoding="utf-8")
    done = CliRunner().invoke(
        main,
        [
            "ab",
            str(path),
            "--model",
            "forecaster",
            "--a",
            "encoder=lstm",
            "--b",
            "encoder=gru",
            "--both",
            "horizon=6",
            "--both",
            "steps=3",
            "--both",
            "d-hidden=8",
            "--folds",
            "2",
            "--json",
            "-q",
        ],
    )
    assert done.exit_code == 0, done.output
    values = json.loads(done.output)
    assert [figure["name"] for figure in values["figures"]] == ["MSE", "MAE"]
    squares, n = 0.0, 0
    for train, test in folds(ForecastingLadder(), seqloom.read_series(path), 2):
        model = NeuralForecaster(horizon=6, d_hidden=8, encoder="gru").fit(train, train=how)
        backtest = model.backtest(test, horizon=6)
        squares, n = (
            squares + float(np.square(backtest.truth - backtest.point).sum()),
            n + backtest.truth.size,
        )
    assert values["figures"][0]["b"] == pytest.approx(squares / n, rel=1e-5)


def test_models_may_be_given_themselves(shakespeare: str) -> None:
    lines = shakespeare[:8_000].split("\n")
    found = ab(
        lines, a=NGram(order=2, tokenizer="byte"), b=NGram(order=4, tokenizer="byte"), folds=2
    )
    same = ab(lines, both={"tokenizer": "byte"}, a={"order": 2}, b={"order": 4}, folds=2)
    assert found["bits per byte"] == same["bits per byte"]
    assert found.a == {"order": 2, "tokenizer": "byte"}
    other = ab(lines, both={"tokenizer": "byte"}, a="ngram", b={"model": "uniform"})
    assert (other.model, other.winner) == ("ngram and uniform", "a")
    with pytest.raises(ConfigError, match="both is for options"):
        ab(lines, a=NGram(), both={"order": 2})
    with pytest.raises(ConfigError, match="different tasks: ngram"):
        ab(lines, a="ngram", b="naive-bayes")
    with pytest.raises(ConfigError, match="give one of them"):
        ab(lines, b={"order": 2}, folds=2, valid=lines)


def test_word_vectors_answer_the_same_questions(tmp_path: Path) -> None:
    text = [" ".join(f"{kind}{i}" for kind in "abc") for _ in range(30) for i in range(6)]
    questions, pairs = tmp_path / "questions.txt", tmp_path / "pairs.txt"
    questions.write_text(": one\na1 b1 a2 b2\na2 b2 a3 b3\na1 b1 zz b2\n", encoding="utf-8")
    pairs.write_text("a1\tb1\t9\na2\tb2\t8\na1\tb4\t1\na2\tb5\t2\nzz\ta1\t3\n", encoding="utf-8")
    both = {"dimensions": 5, "min_count": 1, "epochs": 2}
    found = ab(text, model="word2vec", both=both, b={"window": 1}, valid=questions)
    result = Word2Vec(**both).fit(text).evaluate(questions)
    assert found["analogies"].a == pytest.approx(result["accuracy"] * 2 / 3)
    assert found.notes == (
        "questions with a word without a vector count as wrong: 1 for A, 1 for B",
    )
    ranked = ab(text, model="word2vec", both=both, b={"window": 1}, valid=pairs)
    assert ranked["Spearman"].a == pytest.approx(
        Word2Vec(**both).fit(text).evaluate(pairs)["spearman"]
    )
    with pytest.raises(ConfigError, match="evaluated on questions"):
        ab(text, model="word2vec", b={"window": 1})


def test_a_statistic_of_equal_weights_agrees_with_the_sums() -> None:
    rng = np.random.default_rng(3)
    weights = np.ones(80)
    a, b = rng.random(80), rng.random(80) + 0.1
    exact = paired(a, b, weights, samples=4000)
    general = paired_statistic(
        np.stack([a, weights], 1), np.stack([b, weights], 1), ratio, samples=4000
    )
    assert general.difference == pytest.approx(exact.difference)
    assert (general.low, general.high) == (
        pytest.approx(exact.low, abs=0.01),
        pytest.approx(exact.high, abs=0.01),
    )
    assert general.p_value == pytest.approx(exact.p_value, abs=0.02)
    assert np.isnan(paired_statistic(np.ones((1, 2)), np.ones((1, 2)), ratio).low)


def test_macro_f1_is_that_of_evaluation() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    gold, said = np.random.default_rng(0).integers(0, 4, (2, 50))
    assert macro_f1(np.stack([gold, said], 1)) == pytest.approx(
        metrics.f1_score(gold, said, average="macro")
    )


def test_numbers_as_labels_and_a_file_that_has_them_as_text(reviews, tmp_path):
    numbered = [(text, int(label == "good")) for text, label in reviews]
    path = tmp_path / "valid.tsv"
    path.write_text(
        "label\ttext\n" + "".join(f"{label}\t{text}\n" for text, label in numbered[::4])
    )
    result = ab(
        numbered,
        a={"model": "naive-bayes"},
        b={"model": "naive-bayes", "ngrams": 2},
        valid=seqloom.read_labelled(path),
    )
    assert result.to_dict()["figures"][0]["a"] > 0.6
