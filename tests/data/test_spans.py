"""BIO, IOB1 and BIOES: spans as conlleval reads them, conversion, detection, and what breaks a scheme."""

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.spans import SCHEMES, check, convert, detect, legal_transitions, spans, write
from seqloom.errors import ConfigError

# The two tables of conlleval, pair by pair: (letter before, letter) where a span ends, where one
# begins. Those with E and S
# are of the version for IOBES; a change of label is beside them.
ENDS = {
    "BB",
    "BO",
    "BS",
    "IB",
    "IO",
    "IS",
    "EB",
    "EI",
    "EE",
    "ES",
    "EO",
    "SB",
    "SI",
    "SE",
    "SS",
    "SO",
}
BEGINS = {
    "BB",
    "IB",
    "OB",
    "EB",
    "SB",
    "BS",
    "IS",
    "OS",
    "ES",
    "SS",
    "OI",
    "SI",
    "EI",
    "OE",
    "SE",
    "EE",
}


def slow_spans(tags: list[str]) -> list[tuple[str, int, int]]:
    """The twin: borders by the tables, then spans between borders."""
    letters = ["O", *[tag[0] for tag in tags], "O"]
    labels = ["", *[tag[2:] for tag in tags], ""]
    found = []
    for i in range(1, len(tags) + 1):
        changed = labels[i - 1] != labels[i]
        if letters[i - 1] + letters[i] in BEGINS or (letters[i] != "O" and changed):
            stop = i + 1
            while (
                letters[stop - 1] + letters[stop] not in ENDS and labels[stop - 1] == labels[stop]
            ):
                stop += 1
            found.append((labels[i], i - 1, stop - 1))
    return found


BIO = ["O", "B-X", "I-X", "B-Y", "I-Y"]
BIOES = [*BIO, "E-X", "S-X", "E-Y", "S-Y"]


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4])
def test_every_short_sequence_is_read_as_conlleval_does(length):
    for tags in product(BIO, repeat=length):
        expected = slow_spans(list(tags))
        assert spans(tags, "bio") == spans(tags, "iob1") == spans(tags, "bioes") == expected, tags


@given(st.lists(st.sampled_from(BIOES), max_size=12))
@settings(max_examples=500, deadline=None)
def test_any_bioes_is_read_as_conlleval_does(tags):
    assert spans(tags, "bioes") == slow_spans(tags)


@pytest.mark.parametrize(
    ("gold", "guess", "counts"),
    [  # phrases, found and correct, printed by the script of 2004-01-26
        ("B-X I-X O B-Y", "B-X I-X O B-Y", (2, 2, 2)),
        ("B-X I-X I-X O", "B-X I-X O O", (1, 1, 0)),
        ("O I-X I-X O I-Y", "O B-X I-X O B-Y", (2, 2, 2)),
        ("B-X I-Y I-Y O", "B-X B-Y I-Y O", (2, 2, 2)),
        ("I-X B-X I-X O", "I-X I-X I-X O", (2, 1, 0)),
        ("B-X I-X B-X I-X", "B-X I-X I-X I-X", (2, 1, 0)),
        ("B-X O I-X I-Y", "B-X O B-X I-X", (3, 2, 1)),
        ("I-X I-X I-Y B-Y", "O I-X I-Y I-Y", (3, 2, 0)),
        ("O O O", "O I-Y O", (0, 1, 0)),
    ],
)
def test_counts_of_the_script(gold, guess, counts):
    a, b = spans(gold.split(), "bio"), spans(guess.split(), "bio")
    assert (len(a), len(b), len(set(a) & set(b))) == counts


def test_hand_made():
    assert spans(["B-PER", "I-PER", "O", "B-PER", "B-PER"], "bio") == [
        ("PER", 0, 2),
        ("PER", 3, 4),
        ("PER", 4, 5),
    ]
    assert spans(["I-PER", "B-PER", "I-PER"], "iob1") == [("PER", 0, 1), ("PER", 1, 3)]
    assert spans(["S-A", "B-A", "I-A", "E-A", "I-A", "E-B"], "bioes") == [
        ("A", 0, 1),
        ("A", 1, 4),
        ("A", 4, 5),
        ("B", 5, 6),
    ]
    assert spans(["B-NP-SBJ", "I-NP-SBJ"], "bio") == [
        ("NP-SBJ", 0, 2)
    ]  # the first hyphen separates
    assert spans(["B", "I", "O", "I"], "bio") == [("", 0, 2), ("", 3, 4)]
    assert spans([], "bio") == []


def test_conversion_by_hand():
    iob1 = ["I-A", "I-A", "B-A", "I-B", "O", "I-A", "B-A"]
    bio = ["B-A", "I-A", "B-A", "B-B", "O", "B-A", "B-A"]
    bioes = ["B-A", "E-A", "S-A", "S-B", "O", "S-A", "S-A"]
    written = {"iob1": iob1, "bio": bio, "bioes": bioes}
    for old, new in product(written, written):
        assert convert(written[old], old, new) == written[new]
    assert convert(["O", "I-A", "I-B"], "bio", "bio") == [
        "O",
        "B-A",
        "B-B",
    ]  # what was wrong comes out right
    assert convert(["B", "I", "B"], "bio", "bioes") == ["B", "E", "S"]


@given(
    st.lists(st.sampled_from(BIOES), max_size=12),
    st.sampled_from(SCHEMES),
    st.sampled_from(SCHEMES),
)
@settings(max_examples=500, deadline=None)
def test_conversion_keeps_spans_and_obeys_the_scheme(tags, one, other):
    found = slow_spans(tags)
    first = convert(tags, "bioes", one)
    second = convert(first, one, other)
    assert spans(first, one) == spans(second, other) == slow_spans(second) == found
    assert check(first, one) == check(second, other) == []
    assert convert(second, other, one) == first == write(found, len(tags), one)


def test_what_breaks_a_scheme():
    assert check(["O", "I-PER", "I-PER", "B-LOC", "I-PER"], "bio") == [
        (1, "I-PER after O, where a span begins with B-PER"),
        (4, "I-PER after B-LOC, where a span begins with B-PER"),
    ]
    assert check(["I-PER"], "bio") == [(0, "I-PER after O, where a span begins with B-PER")]
    assert check(["I-A", "B-A", "O", "B-A", "I-A"], "iob1") == [
        (3, "B-A after O, where a span begins with I-A")
    ]
    assert check(["B-A", "O", "E-A", "S-A", "B-A", "I-A"], "bioes") == [
        (1, "B-A before O, where its span needs E-A"),
        (2, "E-A after O, where a span begins with B-A or S-A"),
        (5, "I-A at the end, where its span needs E-A"),
    ]
    assert check(["B-A", "S-A", "NN"], "bio") == [
        (1, "S-A is not a bio tag"),
        (2, "NN is not a bio tag"),
    ]
    assert check([], "bioes") == []


@given(st.lists(st.sampled_from(BIO), max_size=10))
@settings(max_examples=300, deadline=None)
def test_faults_are_what_conversion_changes(tags):
    """A tag of bio or iob1 is wrong exactly where the scheme, written anew, has another."""
    for scheme in ("bio", "iob1"):
        anew = convert(tags, scheme, scheme)
        assert [at for at, _ in check(tags, scheme)] == [
            i for i, (a, b) in enumerate(zip(tags, anew)) if a != b
        ]


def test_detection():
    assert detect([["B-A", "I-A", "O"], ["B-A"]]) == "bio"
    assert detect(["B-A", "I-A", "O"]) == "bio"  # one sentence
    assert detect([["O", "I-A", "I-A"], ["I-B", "B-B"]]) == "iob1"
    assert detect([["I-A"], ["B-B"]]) == "bio"  # as many break either: the usual one
    assert detect([["B-A", "E-A"], ["S-B", "O"]]) == "bioes"
    assert detect([["S-B"]]) == "bioes"
    assert detect([["NOUN", "O"], ["B-A"]]) is None
    assert detect([["L-A", "U-A"]]) is None
    assert detect([["B-A"], ["DET"]]) is None
    assert detect([["O", "O"]]) == "bio"
    assert detect([]) is None
    assert detect([[]]) is None
    mostly_bio = [["B-A", "I-A", "O"]] * 9 + [["O", "I-A"]]
    mostly_iob1 = [["I-A", "I-A", "O"]] * 9 + [["O", "B-A"]]
    assert (detect(mostly_bio), detect(mostly_iob1)) == ("bio", "iob1")


@given(st.lists(st.lists(st.sampled_from(BIOES), max_size=8), max_size=5), st.sampled_from(SCHEMES))
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_detected(sentences, scheme):
    """Unless the sentences happen to be right in two schemes."""
    written = [convert(tags, "bioes", scheme) for tags in sentences]
    found = detect(written)
    if any(map(len, written)):
        assert found is not None
        assert all(check(tags, found) == [] for tags in written)
        assert all(spans(a, scheme) == spans(a, found) for a in written)


@pytest.mark.parametrize(("scheme", "letters"), [("bio", "BI"), ("iob1", "BI"), ("bioes", "BIES")])
def test_legal_transitions_are_those_of_sentences_without_faults(scheme, letters):
    tags = ["O", *(f"{letter}-{label}" for letter in letters for label in ("X", "Y"))]
    table = legal_transitions(tags, scheme)
    assert table.shape == (len(tags) + 1, len(tags) + 1)
    assert table.dtype == bool
    for length in range(4):
        for sentence in product(range(len(tags)), repeat=length):
            framed = [-1, *sentence, -1]
            legal = all(table[before, after] for before, after in pairwise(framed))
            assert legal == (not check([tags[i] for i in sentence], scheme))
    with pytest.raises(ConfigError, match="NOUN is not a"):
        legal_transitions(["O", "NOUN"], scheme)


def test_unknown_scheme():
    for call in (
        lambda: spans(["O"], "boi"),
        lambda: check(["O"], "boi"),
        lambda: convert(["O"], "bio", "boi"),
    ):
        with pytest.raises(
            ConfigError,
            match="scheme must be one of bio, iob1, bioes; got 'boi'; did you mean 'bio'",
        ):
            call()
