"""Texts that are kept in a file, and their ids in mapped ones: the same models as from lists in memory."""

import numpy as np
import pytest

from seqloom.data.classification import Labelled, read_labelled
from seqloom.data.examples import digest
from seqloom.data.kept import (
    Gathering,
    KeptArrays,
    KeptRows,
    KeptTexts,
    as_lines,
    portions_of,
    taken,
)
from seqloom.data.tagging import read_tagged
from seqloom.data.translation import read_parallel
from seqloom.errors import ConfigError

WORDS = ["a", "bb", "ccc", "dä", "eé", "fff", "gg", "hh", "i", "jj"]
RNG = np.random.default_rng(0)
LINES = [" ".join(RNG.choice(WORDS, n)) for n in RNG.integers(1, 12, 120)]


@pytest.fixture(autouse=True)
def small_portions(monkeypatch):
    """Portions that do not divide the data, as they do not where it is large."""
    for module in ("seqloom.data.kept", "seqloom.models.sequence.inputs"):
        monkeypatch.setattr(f"{module}.portions_of", lambda texts: portions_of(texts, 7))


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "data.tsv"
    path.write_text(
        "".join(f"{'xyz'[len(line) % 3]}\t{line}\n" for line in LINES), encoding="utf-8"
    )
    return path


@pytest.fixture
def pairs(tmp_path):
    paths = tmp_path / "data.en", tmp_path / "data.de"
    for path, lines in zip(paths, (LINES, [line[::-1] for line in LINES])):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def test_kept_texts_are_a_list():
    texts = ["a", "", "two\nlines", "dä", "é"]
    kept = KeptTexts(texts)
    assert list(kept) == texts
    assert len(kept) == 5
    assert (kept[0], kept[-1], kept[2:4], kept[::2]) == ("a", "é", texts[2:4], texts[::2])
    assert kept[4:1] == []
    kept.extend(["more"])
    assert kept[5] == "more"
    with pytest.raises(IndexError):
        kept[6]
    assert isinstance(taken(kept, [5, 0]), KeptTexts)
    assert list(taken(kept, [5, 0])) == ["more", "a"]
    assert digest(kept) == digest([*texts, "more"])
    assert as_lines(kept).text() == as_lines([*texts, "more"]).text()


def test_texts_go_to_a_file_when_there_are_too_many():
    some = Gathering(memory=6)
    some.extend(["abc", "abc"])
    assert some.texts == ["abc", "abc"]
    some.extend(["d"])
    assert isinstance(some.texts, KeptTexts)
    some.extend(["e"])
    assert list(some.texts) == ["abc", "abc", "d", "e"]
    pairs = Gathering(memory=1)
    pairs.extend([("long enough", "too")])
    assert pairs.texts == [("long enough", "too")]


def test_arrays_grow_in_files():
    kept = KeptArrays()
    kept.add({"a": np.arange(3), "b": np.zeros((3, 2), np.float32)})
    kept.add({"a": np.arange(2), "b": np.ones((2, 2), np.float32)})
    found = kept.mapped()
    assert found["a"].tolist() == [0, 1, 2, 0, 1]
    assert found["b"].shape == (5, 2)
    assert KeptArrays().mapped() == {}


def test_what_is_read_is_the_same(labelled, pairs):
    whole, kept = read_labelled(labelled), read_labelled(labelled, memory=100)
    assert isinstance(kept.examples, KeptTexts)
    assert isinstance(whole.examples, list)
    assert (kept.fingerprint, kept.labels, list(kept.texts)) == (
        whole.fingerprint,
        whole.labels,
        whole.texts,
    )
    assert list(kept.part([3, 1]).examples) == whole.part([3, 1]).examples
    both, kept_pairs = read_parallel(pairs), read_parallel(pairs, memory=100)
    assert isinstance(kept_pairs.sources, KeptTexts)
    assert kept_pairs.fingerprint == both.fingerprint
    with pytest.raises(ConfigError, match="memory must be a size"):
        read_labelled(labelled, memory="much")


def test_a_table_of_pairs_is_kept_too(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("source\ttarget\n" + "".join(f"{line}\t{line[::-1]}\n" for line in LINES))
    whole, kept = read_parallel(path), read_parallel(path, memory=100)
    assert isinstance(kept.targets, KeptTexts)
    assert (kept.fingerprint, list(kept.targets)) == (whole.fingerprint, whole.targets)


def same_weights(one, other):
    assert one.weights.keys() == other.weights.keys()
    assert all(np.array_equal(one.weights[name], other.weights[name]) for name in one.weights)


@pytest.mark.parametrize(
    "options",
    [
        {"encoder": "bag"},
        {"encoder": "bilstm", "characters": "cnn", "d_characters": 4, "tokenizer": "word"},
        {"encoder": "bag", "tokenizer": "bpe", "vocab_size": 270},
        {"encoder": "cnn", "long": "windows", "max_length": 4},
        {"encoder": "bigru", "long": "sentences"},
        {"encoder": "cnn", "word_dropout": 2.0, "max_length": 5},
    ],
    ids=str,
)
def test_a_classifier_learns_the_same_to_the_bit(labelled, options):
    pytest.importorskip("torch")
    from seqloom import NeuralClassifier

    made = [
        NeuralClassifier(**{"d_embed": 6} | options).fit(
            read_labelled(labelled, memory=memory), steps=8, batch_size=8, evaluate_every=4
        )
        for memory in (None, 100)
    ]
    same_weights(*made)
    assert made[0].fit_info == made[1].fit_info
    again = [
        NeuralClassifier().fit(read_labelled(labelled, memory=memory), start=made[0], steps=3)
        for memory in (None, 100)
    ]
    same_weights(*again)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("most", [200, 6])
def test_a_translator_learns_the_same_to_the_bit(pairs, shared, most):
    pytest.importorskip("torch")
    from seqloom import Seq2Seq, Transformer

    options = {
        "shared_vocabulary": shared,
        "max_length": most,
        "tokenizer": "bpe",
        "vocab_size": 270,
    }
    for make in (
        lambda: Seq2Seq(d_hidden=6, **options),
        lambda: Transformer(d_model=8, n_heads=2, **options),
    ):
        made = [
            make().fit(read_parallel(pairs, memory=memory), steps=6, evaluate_every=3)
            for memory in (None, 100)
        ]
        same_weights(*made)
        assert made[0].fit_info == made[1].fit_info


@pytest.fixture
def tagged(tmp_path):
    path = tmp_path / "data.conll"
    rows = [
        "".join(f"{word}\t{'B-X' if i % 3 == 0 else 'O'}\n" for i, word in enumerate(line.split()))
        for line in LINES
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_tagged_sentences_are_the_same(tagged):
    whole, kept = read_tagged(tagged), read_tagged(tagged, memory=200)
    assert isinstance(kept.sentences, KeptRows)
    assert isinstance(whole.sentences, list)
    assert (list(kept.sentences), list(kept.tags)) == (whole.sentences, whole.tags)
    assert (kept.fingerprint, kept.scheme, kept.tagset, kept.n_words) == (
        whole.fingerprint,
        whole.scheme,
        whole.tagset,
        whole.n_words,
    )
    assert list(kept.converted("bioes").tags) == whole.converted("bioes").tags
    assert list(kept.part([2, 0]).sentences) == whole.part([2, 0]).sentences
    both = [read_tagged([tagged, tagged], memory=memory) for memory in (None, 200)]
    assert list(both[1].sentences) == both[0].sentences
    assert list(KeptRows([[], ["a"]])) == [[], ["a"]]


@pytest.mark.parametrize(
    "options", [{}, {"characters": "none", "crf": False}, {"work_in": "bioes"}], ids=str
)
def test_a_tagger_learns_the_same_to_the_bit(tagged, options):
    pytest.importorskip("torch")
    from seqloom import NeuralTagger

    made = [
        NeuralTagger(d_embed=6, d_hidden=4, **options).fit(
            read_tagged(tagged, memory=memory), steps=8, batch_size=8, evaluate_every=4
        )
        for memory in (None, 200)
    ]
    same_weights(*made)
    assert made[0].fit_info == made[1].fit_info
    again = [
        NeuralTagger().fit(read_tagged(tagged, memory=memory), start=made[0], steps=3)
        for memory in (None, 200)
    ]
    same_weights(*again)


def test_models_that_count_read_kept_texts_too(labelled):
    from seqloom import NaiveBayes

    whole, kept = (
        NaiveBayes().fit(read_labelled(labelled, memory=memory)) for memory in (None, 100)
    )
    assert whole.predict_proba("a bb") == kept.predict_proba("a bb")
    assert isinstance(read_labelled(labelled, memory=100), Labelled)
