"""The tagger against brute force over all taggings, and its parts against their formulas."""

import itertools

import numpy as np
import pytest

from seqloom.data.tagging import Tagged
from seqloom.errors import ConfigError
from seqloom.models.tagging.configs import HMMTaggerConfig
from seqloom.models.tagging.hmm_tagger import HMMTagger, Lexicon, count_tags, follow_probs, shape

WORDS = ["the", "dog", "dogs", "run", "runs", "Running", "Anna", "old", "42"]


def random_sentences(rng, n=60, tags=("DET", "NOUN", "VERB", "ADJ")):
    made = []
    for _ in range(n):
        length = int(rng.integers(1, 7))
        words = [WORDS[i] for i in rng.integers(0, len(WORDS), length)]
        made.append(
            (words, [tags[(len(word) + int(rng.integers(0, 2))) % len(tags)] for word in words])
        )
    return made


@pytest.mark.parametrize("order", [1, 2])
def test_the_best_tagging_of_all(order):
    """Every tagging of short sentences scored by the formula of the model; unknown words among them."""
    rng = np.random.default_rng(order)
    model = HMMTagger(order=order).fit(random_sentences(rng))
    probs, border = follow_probs(model.follows, order), len(model.tags)
    for text in ("dog", "the unseen", "Anna runs 42", "old dogs Zed run", "the the the zzz"):
        words = text.split()
        scores = np.array(
            [np.log(model.lexicon.probs(w)) - np.log(model.lexicon.prior) for w in words]
        )

        def total(path, scores=scores):
            framed = [border, border, *path, border]
            moves = sum(
                np.log(probs[b, c] if order == 1 else probs[a, b, c])
                for a, b, c in zip(framed, framed[1:], framed[2:])
            )
            return moves + sum(scores[i, tag] for i, tag in enumerate(path))

        best = max(itertools.product(range(border), repeat=len(words)), key=total)
        assert total(model.tag_ids([words])[0]) == pytest.approx(total(best), abs=1e-9)


@pytest.mark.parametrize("order", [1, 2])
def test_the_table_of_moves_is_laid_out_once_as_the_kernel_reads_it(order):
    model = HMMTagger(order=order).fit([(["a", "dog", "barks"], ["DET", "NOUN", "VERB"])])
    moves = model._transitions()
    assert model._transitions() is moves
    assert moves.transpose(
        1, 2, 0
    ).flags.c_contiguous  # or every sentence would copy the cube of the number of tags


def test_order_two_sees_more_than_order_one():
    """After the first word, which tells its tag, the rest is certain for order 2 and a coin's throw
    for order 1.
    """
    rng = np.random.default_rng(0)
    made = []
    for _ in range(200):
        a, b = ("X", "Y") if rng.random() < 0.5 else ("Y", "X")
        pattern = [a, a, b, b] * 3
        made.append(([a.lower(), *["w"] * (len(pattern) - 1)], pattern))
    accuracy = {
        order: HMMTagger(order=order).fit(made[:150]).evaluate(made[150:])["accuracy"]
        for order in (1, 2)
    }
    assert accuracy[2] > accuracy[1] + 0.2


def test_transitions_are_witten_bell():
    counts = count_tags(
        [np.array([0, 1, 1]), np.array([1])], 2
    )  # border 2: (2,2,0) (2,0,1) (0,1,1) (1,1,2) (2,2,1) (2,1,2)
    assert counts.sum() == 6
    single = np.array([1.1, 3.1, 2.1]) / 6.3
    pairs = follow_probs(counts, 1)
    after_one = (np.array([0, 1, 2]) + 2 * single) / (
        3 + 2
    )  # after tag 1: once 1, twice the border
    assert pairs[1] == pytest.approx(after_one)
    triples = follow_probs(counts, 2)
    assert triples[2, 1] == pytest.approx((np.array([0, 0, 1]) + 1 * pairs[1]) / 2)
    assert triples[0, 0] == pytest.approx(pairs[0])  # a pair that was never seen
    for table in (pairs, triples):
        assert table.sum(axis=-1) == pytest.approx(np.ones(table.shape[:-1]))


def test_the_lexicon_is_a_chain_of_guesses():
    config = HMMTaggerConfig(suffix=2, word_k=1.0, lower_k=2.0, suffix_k=3.0)
    counts = np.array([[3, 1], [0, 2]])  # walking, Talking
    lexicon = Lexicon(["walking", "Talking"], counts, config)
    general = (counts.sum(axis=0) + counts.sum(axis=0) / 6) / 7
    votes = {"walking": np.array([1, 1]), "Talking": np.array([0, 1])}

    def smooth(found, guess, k):
        return (found + k * guess) / (found.sum() + k)

    guess = general
    for _ in range(3):  # shape, -g, -ng of small words: walking alone
        guess = smooth(votes["walking"], guess, 3.0)
    assert lexicon.probs("jumping") == pytest.approx(guess)
    guess = smooth(counts[0], guess, 2.0)
    assert lexicon.probs("walking") == pytest.approx(smooth(counts[0], guess, 1.0))
    capital = general
    for _ in range(3):
        capital = smooth(votes["Talking"], capital, 3.0)
    assert lexicon.probs("Walking") == pytest.approx(
        smooth(counts[0], capital, 2.0)
    )  # known in small letters
    for word in ("", "漢", "x", "walking", "?!"):
        assert lexicon.probs(word).sum() == pytest.approx(1)
        assert (lexicon.probs(word) > 0).all()
    assert shape("Ünder") == "Aa"


def test_unknown_words_are_guessed_from_rare_ones():
    """A word seen more than `rare` times has no vote, neither in what is said of all nor in that of
    endings.
    """
    counts = np.array([[9, 0], [0, 2], [1, 1]])  # the frequent one is always of the first tag
    lexicon = Lexicon(["the", "bee", "12"], counts, HMMTaggerConfig(rare=2, suffix=1, suffix_k=3.0))
    prior = np.array([10, 3]) / 13
    general = (np.array([1, 3]) + prior) / 5
    assert lexicon.probs("?!") == pytest.approx(general)  # of a shape that was never seen
    small = (np.array([0, 1]) + 3 * general) / 4
    assert lexicon.probs("xo") == pytest.approx(small)
    assert lexicon.probs("xe") == pytest.approx((np.array([0, 1]) + 3 * small) / 4)


def test_unknown_words_go_by_their_ending():
    rng = np.random.default_rng(1)
    stems = ["".join(rng.choice(list("bcdfglmnprst"), 4)) for _ in range(120)]
    made = [
        ([stem + ("ly" if i % 2 else "ness")], ["ADV" if i % 2 else "NOUN"])
        for i, stem in enumerate(stems)
    ]
    model = HMMTagger().fit(made)
    assert model.predict(["zzqly", "zzqness", "Zzqly"])[:2] == ["ADV", "NOUN"]


def test_too_many_tags():
    with pytest.raises(ConfigError, match="at most 200"):
        HMMTagger().fit([(["w"], [f"T{i}"]) for i in range(201)])


@pytest.mark.parametrize("work_in", ["bioes", "bio", "data"])
def test_the_scheme_it_works_in(work_in):
    made = [
        (["Anna", "Smith", "likes", "New", "York"], ["B-PER", "I-PER", "O", "B-LOC", "I-LOC"]),
        (["Bob"], ["B-PER"]),
    ]
    model = HMMTagger(work_in=work_in).fit(made)
    assert ("S-PER" in model.tags) == (work_in == "bioes")
    assert model.predict(made[0][0]) == made[0][1]


def test_spans_may_meet_as_they_never_did_in_training():
    """In IOB1 a span that follows another of its kind begins with B, a tag that this training data
    does not have.
    """
    data = Tagged.of(
        [(["Anna", "met", "Bob"], ["I-P", "O", "I-P"]), (["Bob", "ran"], ["I-P", "O"])],
        scheme="iob1",
    )
    model = HMMTagger().fit(data)
    assert "B-P" not in model.learnt["tags"]
    words, tags = ["Anna", "Bob", "ran"], ["I-P", "B-P", "O"]
    assert model.predict(words) == tags
    result = model.evaluate(Tagged.of([(words, tags)], scheme="iob1"))
    assert (result["accuracy"], result["span_f1"], result["spans"]) == (1, 1, 2)
