"""The word-for-word dictionary against IBM model 1 in plain Python, and what it makes of texts."""

import random

import numpy as np
import pytest

from seqloom import Copy, Dictionary, load
from seqloom.errors import DataError, ModelError
from seqloom.models.translation import dictionary
from seqloom.storage import write_model
from tests.twins.word_alignment import model_one

HOUSE = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]


def drawn(n=60, seed=0):
    draw = random.Random(seed)
    words = list("abcdefgh")
    return [
        (
            " ".join(draw.choices(words, k=draw.randint(0, 7))),
            " ".join(draw.choices(words, k=draw.randint(0, 6))),
        )
        for _ in range(n)
    ]


def table_of(model):
    """t by words, the empty word as NULL."""
    source, target = model.tokenizers["source"], model.tokenizers["target"]
    names = {source.eos_id: "NULL"}
    return {
        (names.get(e, source.token(e)), target.token(int(f))): float(p)
        for e in range(source.vocab_size)
        for f, p in zip(*model.table.translations(e))
    }


@pytest.mark.parametrize(
    ("pairs", "iterations"), [(HOUSE, 1), (HOUSE, 7), (drawn(), 5)], ids=["once", "house", "drawn"]
)
def test_em_is_that_of_the_book(pairs, iterations):
    model = Dictionary(iterations=iterations, least=0.0).fit(pairs)
    t, likelihoods = model_one([(a.split(), b.split()) for a, b in pairs], iterations)
    found = table_of(model)
    assert found.keys() == t.keys()
    for key, value in t.items():
        assert found[key] == pytest.approx(value, abs=1e-6)
    assert model.fit_info["log_likelihoods"] == pytest.approx(likelihoods)


def test_each_iteration_gains():
    gains = np.diff(Dictionary(iterations=30).fit(drawn(200)).fit_info["log_likelihoods"])
    assert (gains > -1e-9).all()


def test_how_pairs_are_cut_into_blocks_changes_nothing(monkeypatch):
    whole = Dictionary().fit(drawn(80)).table
    monkeypatch.setattr(dictionary, "PAIRS", 50)
    blocks = Dictionary().fit(drawn(80)).table
    monkeypatch.setattr(dictionary, "MAX_CACHED", 0)
    again = Dictionary().fit(drawn(80)).table
    for other in (blocks, again):
        np.testing.assert_array_equal(whole.words, other.words)
        np.testing.assert_allclose(whole.probs, other.probs, rtol=1e-6)


def test_the_classic_example():
    model = Dictionary(iterations=50).fit(HOUSE)
    assert model.translate(["das Buch", "ein Haus"]) == ["the book", "a house"]
    (word, share), *_ = model.dictionary("Haus")
    assert (word, share > 0.95) == ("house", True)
    aligned = model.alignments(["das Haus"], ["the house"])[0]
    assert aligned.argmax(axis=1).tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="no word 'Katze'"):
        model.dictionary("Katze")


def test_words_are_replaced_in_their_places():
    model = Dictionary().fit(HOUSE * 2)
    assert (
        model.translate('  "das  Haus", 42\tZanzibars Buch! ')
        == '  "the  house", 42\tZanzibars book! '
    )
    assert model.translate(["", " "]) == ["", " "]
    spelled = Dictionary(tokenizer="char").fit(
        [("abc", "xyz"), ("cab", "zxy"), ("bb", "yy"), ("a", "x")]
    )
    assert spelled.translate("a cab?") == "x zxy?"


def test_a_translation_has_the_score_of_its_text():
    model = Dictionary().fit(drawn())
    for source in ("a b c", "a unseen c", ""):
        one = model.translate(source, nbest=2)[0]
        assert one.log_prob == pytest.approx(model.score(source, one.text), abs=1e-5)


def test_probabilities_of_the_next_word_sum_to_one():
    model = Dictionary(min_count=2).fit(drawn())
    for source in ("a b c", "unseen", ""):
        target = model.tokenizers["target"]
        words = [
            target.token(i)
            for i in range(target.vocab_size)
            if i not in (target.eos_id, target.unk_id)
        ]
        each = [
            np.exp(row)
            for row in model.token_scores([source] * (len(words) + 1), [*words, "unseen"])
        ]
        assert sum(row[0] for row in each) + each[0][1] == pytest.approx(1, abs=1e-5)


def test_rare_translations_are_dropped_and_the_others_share():
    full, few = (Dictionary(least=least).fit(drawn(200)) for least in (0.0, 0.15))
    assert few.parameters < full.parameters
    sums = np.add.reduceat(few.table.probs, few.table.starts[:-1][np.diff(few.table.starts) > 0])
    np.testing.assert_allclose(sums, 1, atol=1e-5)
    assert (
        Dictionary(least=1.0).fit(HOUSE).translate("das Buch") == "the book"
    )  # the best always stays


def test_a_table_that_contradicts_itself_is_refused(tmp_path):
    model = Dictionary().fit(HOUSE)
    model.table.words[:] = model.table.words[::-1].copy()
    with pytest.raises(ModelError, match=r"^cannot save a Dictionary: .* contradict each other$"):
        model.save(tmp_path / "m")
    (tmp_path / "m").mkdir()
    write_model(model, tmp_path / "m")  # unchecked
    with pytest.raises(ModelError, match="contradict each other: the file is damaged"):
        load(tmp_path / "m")


def test_arrays_are_no_words():
    for model in (Dictionary(), Copy()):
        with pytest.raises(DataError, match="arrays of numbers"):
            model.fit([(np.ones((2, 3)), "x"), (np.ones((1, 3)), "y")])


def test_copy_aligns_bytes_in_their_places():
    model = Copy().fit([("ab", "ab")])
    np.testing.assert_array_equal(model.alignments(["ab"], ["abc"])[0], np.eye(3)[[0, 1, 2, 2]])
    assert model.token_scores(["ab"], ["ax"])[0].tolist() == [0.0, -np.inf, 0.0]


def test_a_long_text_is_scored_in_pieces(monkeypatch):
    """All pairs of words of a text of 40,000 would take 13 GB."""
    from seqloom import load
    from seqloom.models.translation import dictionary
    from tests.saved import NEWEST

    model = load(NEWEST / "dictionary")
    source, target = "das Haus ein Buch " * 10, "the house a book " * 12
    whole, sizes = model.pair_log_probs([source], [target])[0], []
    smoothed = type(model)._probabilities

    def counted(self, *words):
        found = smoothed(self, *words)
        sizes.append(found.size)
        return found

    monkeypatch.setattr(type(model), "_probabilities", counted)
    monkeypatch.setattr(dictionary, "PAIRS", 100)
    assert model.pair_log_probs([source], [target])[0].tolist() == whole.tolist()
    assert max(sizes) <= 100
    assert len(sizes) > 10
    assert model.pair_log_probs([source], [""])[0].shape == (1,)
