"""Views of any language model: surprisal, difference, shares and backoff, against steps, scores, formulas and
counts.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

import seqloom
from seqloom import inspect
from seqloom.charts.passage import Piece
from seqloom.errors import ConfigError, DataError
from seqloom.models.language.backing_off import order_shares
from seqloom.models.language.distributions import STRETCH, distributions
from seqloom.views.disagreement import side_by_side
from seqloom.views.token_costs import WINDOW
from tests.saved import NEWEST

TEXT = "the cat sat on the log\na dog barked at Mary"
LINES = [
    "the cat sat on the mat",
    "the dog met a cat on the road",
    "the road led to the sea",
    "a dog barked at the sea",
    "the cat sat on a log",
]
SMOOTHINGS = (
    "modified-kneser-ney",
    "kneser-ney",
    "absolute",
    "witten-bell",
    "add-k",
    "maximum-likelihood",
)


def corpus(times=3):
    return "\n".join(LINES * times) + "\n"


# ---- surprisal


@pytest.mark.parametrize(
    "kind",
    ["ngram", "lstm", "gru", "gpt", "nplm", "hmm", "cache", "mixture", "gpt-4-bit", "uniform"],
)
def test_surprisal_is_what_single_steps_give(kind):
    model = seqloom.load(NEWEST / kind)
    rows = inspect.surprisal(model, TEXT, top=2).data["rows"]
    ids, lengths = model.encode(TEXT)
    lengths = [len(ids)] if model.carry else lengths
    stepper, position = model.stepper(), 0
    for length in lengths:
        state, log_probs = stepper.start(1)
        for token in ids[position : position + length].tolist():
            row, log_p = rows[position], log_probs[0]
            assert row["token"] == model.tokenizer.token(token)
            assert row["bits"] == pytest.approx(-log_p[token] / math.log(2), abs=1e-4)
            best = np.exp(np.sort(log_p)[::-1][:2])
            assert [p for _, p in row["alternatives"]] == pytest.approx(best.tolist(), rel=1e-4)
            near = (
                int((log_p > log_p[token] + 1e-4).sum()),
                int((log_p > log_p[token] - 1e-4).sum()),
            )
            assert near[0] < row["rank"] <= max(near[1], near[0] + 1)
            state, log_probs = stepper.step(state, np.array([token]))
            position += 1
    assert sum(row["bits"] for row in rows) == pytest.approx(
        -model.score(TEXT) / math.log(2), rel=1e-4
    )


def test_stretches_of_a_long_sequence_are_the_sequence():
    model = seqloom.NGram(order=4, tokenizer="char", unit="stream").fit(corpus())
    ids, lengths = model.encode(corpus()[: 5 * STRETCH + 7])
    assert len(lengths) == 1
    seen = np.zeros(len(ids), int)
    scores = model.sequence_log_probs(ids, lengths)
    for positions, log_probs in distributions(model, ids, lengths):
        seen[positions] += 1
        own = log_probs[np.arange(len(positions)), ids[positions]]
        assert own == pytest.approx(scores[positions], abs=1e-5)
        assert np.exp(log_probs).sum(1) == pytest.approx(1, abs=1e-4)
    assert (seen == 1).all()


def test_of_a_long_text_a_window_is_said():
    model = seqloom.NGram(order=2, tokenizer="word", min_count=1).fit(corpus())
    sheet = inspect.surprisal(model, "the cat sat " * 40_000)
    assert len(sheet.data["rows"]) == WINDOW
    assert f"the first {WINDOW:,} are looked at" in " ".join(sheet.summary)
    assert any("more; to_frame()" in line for line in sheet.lines)


def test_unknown_words_and_an_empty_text_are_said():
    model = seqloom.NGram(order=2, tokenizer="word", min_count=1).fit(corpus())
    assert "2 of 4 tokens are words" in " ".join(inspect.surprisal(model, "the qua zx").summary)
    with pytest.raises(DataError, match="the text is empty"):
        inspect.surprisal(model, "  ")


# ---- difference


@pytest.fixture(scope="module")
def two():
    return (
        seqloom.NGram(order=3, tokenizer="byte").fit(corpus()),
        seqloom.NGram(order=2, tokenizer="bpe", vocab_size=290).fit(corpus()),
    )


@pytest.mark.parametrize("text", ["the cat sat on the log", "a dog\nmet a döner\n", "猫 sat"])
def test_a_difference_of_two_tokenizers_is_by_bytes(two, text):
    sheet = inspect.difference(*two, text)
    for model, bits in zip(two, sheet.data["bits"]):
        assert bits == pytest.approx(-model.score(text) / math.log(2), rel=1e-5)
    rows = sheet.data["rows"]
    apart = [abs(row["difference"]) for row in rows]
    assert apart == sorted(apart, reverse=True)
    in_order = sorted(rows, key=lambda row: row["number"])
    assert "".join(row["text"] for row in in_order).rstrip("\n") == text.rstrip("\n")
    assert sum(row["difference"] for row in rows) == pytest.approx(
        sheet.data["bits"][1] - sheet.data["bits"][0], abs=1e-3
    )


def test_a_model_does_not_differ_from_itself(two):
    rows = inspect.difference(two[0], two[0], "the cat").data["rows"]
    assert len(rows) == 8
    assert all(row["difference"] == 0 for row in rows)


def test_texts_that_are_spelled_otherwise_are_not_laid_side_by_side():
    with pytest.raises(ConfigError, match="spell the text differently"):
        side_by_side([Piece("the", 1.0)], [Piece("<unk>", 1.0)])
    assert side_by_side(
        [Piece("ab", 3.0), Piece("", 1.0)], [Piece("ab", 1.0), Piece("\n", 1.0)]
    ) == [("ab\n", 4.0, 2.0)]


# ---- shares


def test_shares_are_the_weights_after_the_token():
    members = [
        seqloom.NGram(order=k, tokenizer="word", min_count=1).fit(corpus()) for k in (1, 2, 3)
    ]
    mixture = seqloom.Mixture.of(members).fit("the dog sat on the road\na cat met the sea\n")
    sheet = inspect.shares(mixture, TEXT)
    each = np.stack([np.exp(member.token_scores(TEXT)) for member in members], 1)
    joint = each * mixture.weights
    assert sheet.data["shares"] == pytest.approx(joint / joint.sum(1, keepdims=True), abs=1e-5)
    assert sheet.data["shares"].sum(1) == pytest.approx(1)
    assert len(sheet.to_frame()) == len(each)


# ---- backoff


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_shares_of_the_orders_add_up_to_the_probability(smoothing, order):
    options = {"prune": (0, 0, 1, 1)[:order]} if order == 4 and smoothing == "absolute" else {}
    model = seqloom.NGram(
        order=order, smoothing=smoothing, tokenizer="word", min_count=1, **options
    ).fit(corpus())
    for text in (*LINES[:2], "log the mat a", "unseen words here the cat sat"):
        ids, _ = model.encode(text)
        for at, score in enumerate(model.token_scores(text)):
            found = order_shares(model, ids, at)
            assert sum(one.share for one in found) == pytest.approx(math.exp(score), abs=1e-6)
            assert all(one.share >= -1e-7 for one in found)


def test_shares_add_up_where_a_model_was_pruned_by_entropy():
    model = seqloom.NGram(order=3, tokenizer="char", prune_entropy=1e-3).fit(corpus())
    ids, _ = model.encode(LINES[0])
    for at, score in enumerate(model.token_scores(LINES[0])):
        found = order_shares(model, ids, at)
        assert sum(one.share for one in found) == pytest.approx(math.exp(score), abs=1e-6)
        assert sum(one.share > 0 for one in found) == 1


@pytest.mark.parametrize("smoothing", SMOOTHINGS[:5])
def test_counts_of_the_highest_order_are_those_of_the_text(smoothing):
    model = seqloom.NGram(order=3, smoothing=smoothing, tokenizer="word", min_count=1).fit(corpus())
    counts, totals = Counter(), Counter()
    for line in LINES * 3:
        words = ["<s>", *line.split(), "</s>"]
        for i in range(2, len(words)):
            counts[tuple(words[i - 2 : i + 1])] += 1
            totals[tuple(words[i - 2 : i])] += 1
    told = 0
    for line in LINES:
        ids, _ = model.encode(line)
        words = ["<s>", *line.split(), "</s>"]
        for at in range(1, len(ids)):
            one = order_shares(model, ids, at)[0]
            gram = tuple(words[at - 1 : at + 2])
            if one.count is not None:
                assert (one.count, one.total) == (counts[gram], totals[gram[:2]])
                told += 1
    assert told >= (1 if smoothing == "modified-kneser-ney" else 20)  # where only one count fits


def test_the_shares_of_witten_bell_are_its_formula():
    model = seqloom.NGram(order=2, smoothing="witten-bell", tokenizer="word", min_count=1).fit(
        corpus()
    )
    ids, _ = model.encode("the cat")
    high, low = order_shares(model, ids, 1)
    words = " ".join(LINES * 3).split()
    after = Counter(
        b for line in LINES * 3 for a, b in zip(line.split(), line.split()[1:]) if a == "the"
    )
    total, kinds = sum(after.values()), len(after)
    assert high.own == pytest.approx(after["cat"] / (total + kinds), rel=1e-5)
    assert high.weight == pytest.approx(kinds / (total + kinds), rel=1e-5)
    tokens, different = len(words) + 15, len({*words, "</s>"})
    unigram = (words.count("cat") + different / model.tokenizer.vocab_size) / (tokens + different)
    assert low.own == pytest.approx(unigram, rel=1e-4)


def test_the_corpus_shows_where_an_n_gram_stands(tmp_path):
    model = seqloom.NGram(order=3, tokenizer="word", min_count=1).fit(corpus())
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    sheet = inspect.backoff(model, "the cat sat on", token=3, corpus=str(path))
    assert sheet.data["places"]["ngram"] == "the cat sat"
    assert sheet.data["places"]["count"] == 2
    assert [line["unit"] for line in sheet.data["places"]["lines"]] == [1, 5]
    begins = inspect.backoff(model, "the cat", token=2, corpus=str(path)).data["places"]
    assert (begins["ngram"], begins["count"]) == ("<s> the cat", 2)
    with pytest.raises(ConfigError, match="token must be from 1 to 3"):
        inspect.backoff(model, "the cat", token=4)
