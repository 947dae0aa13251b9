"""Judging a model on what it was fitted on is said, for every task and after saving."""

import pytest

import seqloom

from ..conftest import TOY


@pytest.fixture
def said(monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr("seqloom.progress.say", lines.append)
    return lines


def fitted_on(said):
    return [line for line in said if "fitted on" in line]


def test_the_training_text_itself(said, tmp_path):
    seqloom.NGram(order=2).fit(TOY).save(tmp_path / "model")
    model = seqloom.load(tmp_path / "model")
    model.evaluate(TOY + "one more line\n")
    assert not fitted_on(said)
    model.evaluate(TOY)
    assert fitted_on(said) == [
        "warning: this ngram model was fitted on text; results on it are too optimistic"
    ]


def test_single_files_of_a_folder(said, tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.txt").write_text(TOY + f"line {i} alone\n")
    model = seqloom.NGram(order=2).fit(seqloom.read([tmp_path / "0.txt", tmp_path / "1.txt"]))
    model.evaluate(tmp_path / "3.txt")
    assert not fitted_on(said)
    model.evaluate(tmp_path / "1.txt")
    model.evaluate(tmp_path)
    assert fitted_on(said) == [
        "warning: this ngram model was fitted on 1.txt; results on it are too optimistic",
        f"warning: this ngram model was fitted on 2 of the 4 files of {tmp_path.name}; results on "
        f"it are too optimistic",
    ]


def test_the_training_text_of_a_member(said):
    members = [seqloom.NGram(order=n, tokenizer="byte", unit="stream").fit(TOY) for n in (1, 2)]
    mixture = seqloom.Mixture.of(members).fit("the dog sat on the mat\n")
    said.clear()
    mixture.evaluate(TOY)
    assert fitted_on(said) == [
        "warning: this mixture model was fitted on text; results on it are too optimistic"
    ]


def test_parts_of_a_split_are_other_text(said, shakespeare):
    train, _, test = seqloom.Corpus.from_texts(shakespeare[:20_000]).split()
    seqloom.NGram(order=2).fit(train).evaluate(test)
    assert not fitted_on(said)


def test_labelled_and_tagged_data(said):
    rows = [("a good film", "good"), ("a bad film", "bad"), ("so bad", "bad")]
    classifier = seqloom.NaiveBayes().fit(rows)
    sentences = [(["the", "cat"], ["D", "N"]), (["the", "dog"], ["D", "N"])]
    tagger = seqloom.HMMTagger().fit(sentences)
    classifier.evaluate(rows[:2])
    tagger.evaluate(sentences[:1])
    assert not fitted_on(said)
    classifier.evaluate(rows)
    tagger.evaluate(sentences)
    assert [line.split(" model ")[0] for line in fitted_on(said)] == [
        "warning: this naive-bayes",
        "warning: this hmm-tagger",
    ]
