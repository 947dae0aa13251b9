"""Span numbers are those that the conlleval script printed for the same tags; the rest is counted by hand."""

import math

import numpy as np
import pytest

from seqloom.data.tagging import Tagged
from seqloom.errors import DataError
from seqloom.metrics import tables, tagging
from seqloom.metrics.result import Result, Signature

WORDS = [
    ["Time", "flies", "like", "an", "arrow"],
    ["Fruit", "flies", "like", "bananas"],
    ["So", "it", "flies"],
]
GOLD = [["N", "V", "P", "D", "N"], ["N", "N", "V", "N"], ["R", "X", "V"]]
GUESS = [["N", "V", "V", "D", "N"], ["N", "V", "V", "N"], ["R", "P", "N"]]
TAGS = ["D", "N", "P", "Q", "R", "V"]

# What conlleval.pl (version 2004-01-26) prints: phrases, found, correct; accuracy, precision,
# recall, FB1 in percent;
# precision, recall, FB1 and found of each label.
CONLLEVAL = {
    "clean": (
        [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG", "I-ORG", "I-ORG"]],
        [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG", "I-ORG", "O"]],
        (3, 3, 2),
        (87.5, 66.67, 66.67, 66.67),
        {"LOC": (100, 100, 100, 1), "ORG": (0, 0, 0, 1), "PER": (100, 100, 100, 1)},
    ),
    "opened by I": (
        [["B-PER", "I-PER", "O", "B-LOC"]],
        [["I-PER", "I-PER", "O", "I-LOC"]],
        (2, 2, 2),
        (50, 100, 100, 100),
        {"LOC": (100, 100, 100, 1), "PER": (100, 100, 100, 1)},
    ),
    "label changes": (
        [["B-PER", "I-PER", "I-PER", "O"]],
        [["B-PER", "I-LOC", "I-PER", "O"]],
        (1, 3, 0),
        (75, 0, 0, 0),
        {"LOC": (0, 0, 0, 1), "PER": (0, 0, 0, 2)},
    ),
    "neighbours": (
        [["B-LOC", "B-LOC", "I-LOC", "O"]],
        [["B-LOC", "I-LOC", "I-LOC", "O"]],
        (2, 1, 0),
        (75, 0, 0, 0),
        {"LOC": (0, 0, 0, 1)},
    ),
    "iob1": (
        [["I-LOC", "B-LOC", "I-PER", "I-PER"]],
        [["I-LOC", "I-LOC", "B-PER", "I-PER"]],
        (3, 2, 1),
        (50, 50, 33.33, 40),
        {"LOC": (0, 0, 0, 1), "PER": (100, 100, 100, 1)},
    ),
    "end of sentence": (
        [["O", "B-PER"], ["I-PER", "O"]],
        [["O", "B-PER"], ["B-PER", "I-PER"]],
        (2, 2, 1),
        (50, 50, 50, 50),
        {"PER": (50, 50, 50, 2)},
    ),
    "nothing found": (
        [["B-PER", "O"]],
        [["O", "O"]],
        (1, 0, 0),
        (50, 0, 0, 0),
        {"PER": (0, 0, 0, 0)},
    ),
    "nothing to find": (
        [["O", "O", "O"]],
        [["O", "B-PER", "O"]],
        (0, 1, 0),
        (66.67, 0, 0, 0),
        {"PER": (0, 0, 0, 1)},
    ),
}


def judged(
    gold,
    guess,
    words=None,
    tags=None,
    scheme=None,
    knows=lambda word: True,
    samples=100,
    examples=2,
):
    words = words or [[f"w{i}" for i in range(len(sentence))] for sentence in gold]
    tags = tags or sorted({tag for sentence in [*gold, *guess] for tag in sentence})
    return tagging.evaluate_tags(
        Tagged(words, gold, "test", scheme), guess, tags, knows, samples=samples, examples=examples
    )


def test_a_case_counted_by_hand():
    metrics, details, notes = judged(GOLD, GUESS, WORDS, TAGS, knows=lambda word: word[0].islower())
    assert list(metrics) == [
        "accuracy",
        "accuracy_interval",
        "known_accuracy",
        "unknown_accuracy",
        "unknown_share",
        "sentence_accuracy",
        "words",
        "sentences",
    ]
    assert metrics["accuracy"] == 8 / 12
    assert metrics["known_accuracy"] == 5 / 9
    assert metrics["unknown_accuracy"] == 1.0
    assert metrics["unknown_share"] == 3 / 12
    assert metrics["sentence_accuracy"] == 0.0
    assert (metrics["words"], metrics["sentences"]) == (12, 3)
    rows = {row["tag"]: row for row in details["tags"]}
    assert list(rows) == [*TAGS, "X"]
    assert rows["N"] == {
        "tag": "N",
        "precision": 4 / 5,
        "recall": 4 / 5,
        "f1": 4 / 5,
        "support": 5,
        "predicted": 5,
    }
    assert rows["V"] == {
        "tag": "V",
        "precision": 2 / 4,
        "recall": 2 / 3,
        "f1": 4 / 7,
        "support": 3,
        "predicted": 4,
    }
    assert notes == ("tags that the model never saw: 'X'; their words (1) count as wrong",)
    assert "spans" not in details
    counts = np.array(details["confusion"]["counts"])
    assert (counts.sum(), counts.trace()) == (12, 8)


def test_equal_to_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    gold = [rng.choice(list("abcde"), rng.integers(1, 9)).tolist() for _ in range(80)]
    guess = [
        [tag if rng.random() < 0.7 else str(rng.choice(list("abcdef"))) for tag in sentence]
        for sentence in gold
    ]
    _, details, _ = judged(gold, guess)
    flat = [[tag for sentence in side for tag in sentence] for side in (gold, guess)]
    expected = sklearn.precision_recall_fscore_support(
        *flat, labels=list("abcdef"), zero_division=0
    )
    for name, values in zip(("precision", "recall", "f1", "support"), expected):
        assert [row[name] for row in details["tags"]] == pytest.approx(values.tolist())


@pytest.mark.parametrize("name", CONLLEVAL)
def test_spans_as_conlleval_counts_them(name):
    gold, guess, (phrases, found, correct), overall, labels = CONLLEVAL[name]
    metrics, details, _ = judged(gold, guess, scheme="iob1" if name == "iob1" else "bio")
    shown = [
        round(100 * metrics[key], 2)
        for key in ("accuracy", "span_precision", "span_recall", "span_f1")
    ]
    assert shown == list(overall)
    assert metrics["spans"] == phrases
    assert sum(row["predicted"] for row in details["spans"]) == found
    assert sum(round(row["recall"] * row["support"]) for row in details["spans"]) == correct
    assert {
        row["label"]: (
            *(round(100 * row[key], 2) for key in ("precision", "recall", "f1")),
            row["predicted"],
        )
        for row in details["spans"]
    } == labels


def test_spans_in_bioes_with_steps_that_it_forbids():
    gold = [["B-PER", "E-PER", "O", "S-LOC", "S-LOC"]]
    metrics, details, _ = judged(gold, [["B-PER", "I-PER", "O", "S-LOC", "E-LOC"]], scheme="bioes")
    assert (metrics["span_precision"], metrics["span_recall"], metrics["accuracy"]) == (
        1.0,
        1.0,
        0.6,
    )
    metrics, _, _ = judged(gold, [["S-PER", "E-PER", "O", "B-LOC", "E-LOC"]], scheme="bioes")
    assert (metrics["span_precision"], metrics["span_recall"], metrics["spans"]) == (0.0, 0.0, 3)
    assert [row["support"] for row in details["spans"]] == [2, 1]


def test_the_interval_of_spans_is_over_sentences_that_have_some():
    rng = np.random.default_rng(0)
    gold = [["B-A", "O", "B-B"]] * 60
    guess = [["B-A", "O", "B-B"] if rng.random() < 0.5 else ["O", "O", "O"] for _ in gold]
    metrics, _, _ = judged(gold, guess, scheme="bio", samples=500)
    low, high = metrics["span_f1_interval"]
    assert low < metrics["span_f1"] < high < 1
    with_empty, _, _ = judged(
        [*gold, *[["O"]] * 500], [*guess, *[["O"]] * 500], scheme="bio", samples=500
    )
    assert with_empty["span_f1_interval"] == metrics["span_f1_interval"]
    assert with_empty["accuracy"] > metrics["accuracy"]
    right, _, _ = judged(gold, gold, scheme="bio")
    assert right["span_f1_interval"] == right["accuracy_interval"] == (1.0, 1.0)


def test_no_spans_at_all():
    metrics, details, notes = judged([["O", "O"]] * 2, [["O", "O"]] * 2, scheme="bio")
    assert metrics["span_f1"] == 0.0
    assert all(math.isnan(end) for end in metrics["span_f1_interval"])
    assert details["spans"] == []
    assert notes == ("there are no spans in this data; recall counts as 0",)


def test_no_samples_no_intervals():
    metrics, _, _ = judged([["B-X"]], [["B-X"]], scheme="bio", samples=0)
    assert metrics["span_f1"] == 1
    assert not [name for name in metrics if name.endswith("_interval")]


def test_the_interval_weighs_sentences_by_their_words():
    """A few long sentences, of which half are wrong: the spread is that of sentences, far wider
    than that of words.
    """
    gold = [["N"] * 50] * 40
    guess = [["N"] * 50 if i % 2 else ["V"] * 50 for i in range(40)]
    metrics, _, _ = judged(gold, guess, samples=2000)
    low, high = metrics["accuracy_interval"]
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.25 / 40), rel=0.15)


def test_errors_show_the_words_that_are_wrong_most_often_marked_in_their_sentence():
    words = [["the", "run"], ["a", "run"], ["my", "walk"], [*"abcdefghi", "swim", *"jklmnopqr"]]
    gold = [["D", "N"], ["D", "N"], ["D", "N"], ["D"] * 9 + ["N"] + ["D"] * 9]
    guess = [["D", "V"], ["D", "V"], ["D", "V"], ["D"] * 9 + ["V"] + ["D"] * 8 + ["N"]]
    _, details, _ = judged(gold, guess, words, examples=3)
    assert details["errors"] == [
        {
            "gold": "N",
            "predicted": "V",
            "count": 4,
            "examples": [
                {"text": "the [run]", "word": "run", "count": 2},
                {"text": "my [walk]", "word": "walk", "count": 1},
                {"text": "… d e f g h i [swim] j k l m n o …", "word": "swim", "count": 1},
            ],
        },
        {
            "gold": "D",
            "predicted": "N",
            "count": 1,
            "examples": [{"text": "… l m n o p q [r]", "word": "r", "count": 1}],
        },
    ]


def test_long_words_leave_room_for_fewer_neighbours():
    _, details, _ = judged([["a", "b", "a"]], [["a", "a", "a"]], [["x" * 100, "y", "z" * 100]])
    assert details["errors"][0]["examples"][0]["text"] == "… [y] …"


def test_words_without_unknown_ones_and_the_other_way_round():
    assert judged(GOLD, GUESS)[0]["unknown_accuracy"] is None
    metrics, _, _ = judged(GOLD, GUESS, knows=lambda word: False)
    assert (metrics["known_accuracy"], metrics["unknown_share"]) == (None, 1.0)


def test_tags_never_predicted_are_told():
    _, _, notes = judged([["N", "V"]], [["N", "N"]])
    assert notes == ("never predicted: 'V'; their precision counts as 0",)


def test_sentences_without_words_count_for_nothing():
    with_empty, _, _ = judged(
        [*GOLD[:2], [], GOLD[2]], [*GUESS[:2], [], GUESS[2]], [*WORDS[:2], [], WORDS[2]], TAGS
    )
    assert with_empty == judged(GOLD, GUESS, WORDS, TAGS)[0]
    with pytest.raises(DataError, match="no words"):
        judged([[]], [[]], [[]], ["N"])


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="3 sentences, but predictions for 2"):
        judged(GOLD, GUESS[:2], WORDS)
    with pytest.raises(ValueError, match="sentence 2 has 4 words and 4 tags, but 3 were predicted"):
        judged(GOLD, [GUESS[0], GUESS[1][:3], GUESS[2]], WORDS)
    with pytest.raises(ValueError, match="not among the model's: 'V'"):
        judged([["N"]], [["V"]], tags=["N"])


def test_the_report_has_tags_spans_matrix_and_marked_words():
    gold, guess, *_ = CONLLEVAL["clean"]
    metrics, details, notes = judged(gold, guess, scheme="bio")
    parts = tables.report(Result(metrics, Signature(model="m"), notes, details)).split("\n\n")
    assert [part.split("\n")[0] for part in parts] == [
        "tags",
        "spans (as conlleval counts them)",
        "confusion (rows gold, columns predicted)",
        "errors by kind (gold -> predicted)",
    ]
    assert parts[1].split("\n")[1:] == [
        "label  precision  recall      f1  gold  predicted",
        "LOC       1.0000  1.0000  1.0000     1          1",
        "ORG       0.0000  0.0000  0.0000     1          1",
        "PER       1.0000  1.0000  1.0000     1          1",
    ]
    assert parts[3].split("\n")[1:] == ["1  I-ORG -> O", "     w0 w1 w2 [w3]"]
