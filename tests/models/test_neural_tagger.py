"""What the options of the neural tagger change, each on data where it matters."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from seqloom.data.spans import check
from seqloom.data.tagging import Tagged
from seqloom.models.tagging.neural_tagger import NeuralTagger
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.training.config import TrainConfig

VERBS = [
    (["they", "can", "fish"], ["P", "V", "N"]),
    (["the", "can", "fell"], ["D", "N", "V"]),
    (["they", "fish"], ["P", "V"]),
    (["the", "fish", "fell"], ["D", "N", "V"]),
] * 4
NAMES = [
    (["Ada", "Lovelace", "met", "Bob"], ["B-PER", "I-PER", "O", "B-PER"]),
    (["in", "New", "York"], ["O", "B-LOC", "I-LOC"]),
    (["it", "rained"], ["O", "O"]),
] * 4


def fitted(data, steps=60, **options):
    options = {"d_embed": 16, "d_hidden": 16, "dropout": 0.0, **options}
    return NeuralTagger(**options).fit(data, train=TrainConfig(steps=steps, batch_size=8))


def test_the_same_word_is_tagged_by_what_stands_around_it():
    model = fitted(VERBS)
    assert model.score(VERBS) == 1.0
    assert model.predict(["they", "can", "fish"]) == ["P", "V", "N"]
    assert fitted(VERBS, encoder="bag", d_hidden=128, crf=False).score(VERBS) < 1.0


def test_a_field_makes_up_for_an_encoder_that_sees_one_word():
    assert fitted(VERBS, encoder="bag", d_hidden=128, steps=150).score(VERBS) == 1.0


def test_tags_come_back_in_the_scheme_of_the_data_and_are_legal():
    iob1 = Tagged.of(NAMES).converted("iob1")
    model = fitted(iob1)
    assert model.tags == ["B-LOC", "B-PER", "E-LOC", "E-PER", "O", "S-PER"]
    assert model.predict(["Ada", "Lovelace", "met", "Bob"]) == ["I-PER", "I-PER", "O", "I-PER"]
    untrained = fitted(NAMES, steps=1)
    for words in (["x"] * 9, ["York", "New", "Bob"]):
        assert check(untrained.predict(words), "bio") == []


def test_faulty_tags_are_learnt_as_the_spans_they_mark():
    data = Tagged.of(
        [(["a", "b"], ["O", "I-X"]), (["b", "a"], ["B-X", "O"]), (["b", "b"], ["B-X", "I-X"])] * 4
    )
    model = fitted(data, work_in="data")
    assert model.predict(["a", "b"]) == ["O", "B-X"]


def test_unknown_words_by_their_spelling():
    train = [
        ([f"{stem}{'ing' if i % 2 else 'ed'}"], ["G" if i % 2 else "D"])
        for i, stem in enumerate(
            ["walk", "talk", "jump", "call", "play", "work", "kick", "lift"] * 4
        )
    ]
    model = fitted(train, word_dropout=5.0, steps=150)
    assert model.predict([["barking"], ["barked"]]) == [["G"], ["D"]]
    assert model.knows("Talking")
    assert not model.knows("barking")
    assert not fitted(train, lowercase=False, steps=1).knows("Talking")


def test_pretrained_words_that_training_lacks(tmp_path):
    WordVectors.of(["fell", "sank", "the"], [[1.0, 0], [1.0, 0.1], [-1.0, 0]]).save(tmp_path / "v")
    model = fitted(
        VERBS, pretrained=str(tmp_path / "v"), d_embed=None, pretrained_training="frozen"
    )
    assert model.sizes.further == 1
    assert model.rows["sank"] == model.sizes.vocab_size
    assert model.predict(["the", "fish", "sank"]) == ["D", "N", "V"]
    assert not model.knows("sank")


def test_empty_sentences_and_tags_seen_only_in_valid():
    model = NeuralTagger(d_hidden=8).fit(
        [*VERBS, ([], [])], valid=[(["they"], ["NEW"])], train=TrainConfig(steps=2)
    )
    assert model.predict([[], ["they"], []])[::2] == [[], []]
    assert model.predict([[]]) == [[]]


def test_a_document_as_one_sentence_of_10_000_words():
    model = fitted([(["a"] * 10_000, ["N"] * 10_000), (["b"], ["M"])], steps=2, characters="none")
    assert len(model.predict(["a"] * 10_000)) == 10_000


def test_what_was_fitted_is_counted_in_good_english():
    assert fitted([(["a"], ["N"])], steps=1).summary() == "1 sentence, 1 word, 1 tag"
