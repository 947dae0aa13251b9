"""Every perturbation keeps what is right, follows from its seed, and changes what it says."""

import random
from collections import Counter
from itertools import chain

import pytest

from seqloom.data.classification import Labelled
from seqloom.data.perturb import PERTURBATIONS, perturb_labelled, perturb_tagged, with_typos
from seqloom.data.spans import spans
from seqloom.data.tagging import Tagged

TEXTS = [
    "The quick brown  fox\njumps over it",
    "A lazy dog, 42 times",
    "",
    "word",
    "Ein Straßenfest in Köln am Rhein",
]
DATA = Labelled.of(TEXTS, ["a", "b", "a", "c", "b"], columns={"n": [1, 2, 3, 4, 5]})
MANY = Labelled.of([f"Text {i} of several" for i in range(20)], ["a", "b"] * 10)
NAMES = Tagged.of(
    [
        (
            ["Anna", "Lee", "met", "Bob", "in", "New", "York", "City"],
            ["B-P", "I-P", "O", "B-P", "O", "B-L", "I-L", "I-L"],
        ),
        (["Hi"], ["O"]),
        (["Ada", "wrote"], ["B-P", "O"]),
    ]
)


@pytest.mark.parametrize("kind", PERTURBATIONS)
def test_labels_and_columns_stay_and_the_seed_decides(kind):
    made = perturb_labelled(DATA, kind, typo_rate=0.5, seed=3)
    assert made.labels == DATA.labels
    assert made.columns == DATA.columns
    assert made.texts != TEXTS
    first, again, other = (perturb_labelled(MANY, kind, seed=seed).texts for seed in (3, 3, 4))
    assert first == again
    assert (first != other) == (kind in ("typos", "lengthened", "shuffled"))


def test_texts_are_cut_lengthened_and_shuffled():
    assert perturb_labelled(DATA, "upper").texts[0] == TEXTS[0].upper()  # white space stays
    assert perturb_labelled(DATA, "truncated").texts == [
        "The quick brown fox",
        "A lazy dog,",
        "",
        "word",
        "Ein Straßenfest in",
    ]
    assert [text.split() for text in perturb_labelled(DATA, "lengthened").texts] == [
        TEXTS[0].split(),
        (TEXTS[1] + " " + TEXTS[4]).split(),
        TEXTS[0].split(),
        ["word", "word"],
        (TEXTS[4] + " " + TEXTS[1]).split(),
    ]  # by the only other one of the class
    for text, shuffled in zip(TEXTS, perturb_labelled(DATA, "shuffled").texts):
        assert Counter(shuffled.split()) == Counter(text.split())


def test_typos_come_at_the_rate_and_never_remove_a_word():
    rng = random.Random(0)
    words = ["sequence", "a", "it", "42", "x1"] * 2000
    changed = [with_typos(word, 0.1, rng) for word in words]
    letters = sum(map(str.isalpha, chain.from_iterable(words)))
    kinds = Counter((len(b) - len(a)) for a, b in zip(words, changed) if len(a) == 8)
    assert all(changed)
    assert all(b == "42" for a, b in zip(words, changed) if a == "42")
    assert kinds[1] > 200  # doubled
    assert kinds[-1] > 200  # dropped
    swapped = [
        b for a, b in zip(words, changed) if a == "sequence" and b != a and sorted(a) == sorted(b)
    ]
    assert len(swapped) > 200
    assert (
        0.06 * letters
        < sum(a != b for a, b in zip(words, changed)) + 0.03 * letters
        < 0.12 * letters
    )
    assert [with_typos(word, 0.0, rng) for word in words] == words
    assert all(
        with_typos(word, 1.0, random.Random(i)) for i in range(50) for word in ("a", "ab", "é")
    )
    with pytest.raises(ValueError, match="unknown perturbation 'noise'"):
        perturb_labelled(DATA, "noise")


@pytest.mark.parametrize("kind", PERTURBATIONS)
def test_words_keep_their_tags(kind):
    made = perturb_tagged(NAMES, kind, typo_rate=0.5, seed=1)
    assert made.scheme == "bio"
    assert [len(words) for words in made.sentences] == [len(tags) for tags in made.tags]
    tag_of = {
        word.lower(): tag
        for words, tags in zip(NAMES.sentences, NAMES.tags)
        for word, tag in zip(words, tags)
    }
    if kind == "typos":
        assert made.tags == NAMES.tags
        assert made.sentences != NAMES.sentences
    else:
        for words, tags in zip(made.sentences, made.tags):
            assert [tag_of[word.lower()] for word in words] == tags
    assert made == perturb_tagged(NAMES, kind, typo_rate=0.5, seed=1)


def test_spans_are_moved_as_a_whole():
    def named(data):
        return [
            Counter((label, tuple(words[a:b])) for label, a, b in spans(tags, "bio"))
            for words, tags in zip(data.sentences, data.tags)
        ]

    orders = set()
    for seed in range(20):
        made = perturb_tagged(NAMES, "shuffled", seed=seed)
        assert named(made) == named(NAMES)
        orders.add(tuple(made.sentences[0]))
    assert len(orders) > 10
    assert perturb_tagged(NAMES, "truncated").sentences == [
        ["Anna", "Lee", "met", "Bob"],
        ["Hi"],
        ["Ada"],
    ]
    assert perturb_tagged(NAMES, "lengthened").n_words == 2 * NAMES.n_words
