"""BLEU, chrF, ROUGE and error rates: equal to sacrebleu, rouge-score and jiwer, and to plain counting."""

import random
from collections import Counter

import numpy as np
import pytest

from seqloom.errors import ConfigError, DataError
from seqloom.metrics.bootstrap import interval_of_sums, paired_statistic, paired_sums
from seqloom.metrics.text_scores import (
    Symbols,
    bleu,
    exact_match,
    ngram_overlap,
    numbered,
    tokenize_13a,
)
from seqloom.metrics.translation import (
    character_error_rate,
    chrf,
    common_subsequences,
    rouge,
    word_error_rate,
)
from tests.golden import text_scores_answers

CASES = ["odd", "mixed", "nothing", "empty", "silent"]
cases = pytest.mark.parametrize(
    ("name", "source"), [(name, source) for name in CASES for source in ("recorded", "live")]
)


def near(value):
    return pytest.approx(value, rel=1e-10, abs=1e-10)


@cases
def test_equal_to_sacrebleu(name, source):
    hypotheses, references, said = text_scores_answers.case(name, source)
    for tokenize, lowercase in (("13a", False), ("13a", True), ("char", False), ("none", False)):
        score = bleu(hypotheses, references, tokenize=tokenize, lowercase=lowercase)
        assert [
            score.value,
            score.details["precisions"],
            score.details["brevity_penalty"],
            score.signature,
        ] == [
            near(value) if not isinstance(value, str) else value
            for value in said[f"bleu {tokenize} {int(lowercase)}"]
        ]
    for words, lowercase in ((0, False), (2, False), (0, True)):
        score = chrf(hypotheses, references, word_order=words, lowercase=lowercase)
        value, signature = said[f"chrf {words} {int(lowercase)}"]
        assert (score.value, score.signature) == (near(value), signature)
    assert bleu(hypotheses, references).each.tolist() == near(said["each bleu"])
    assert chrf(hypotheses, references).each.tolist() == near(said["each chrf"])


@cases
@pytest.mark.parametrize("stem", [False, True])
def test_equal_to_rouge_score(name, source, stem):
    hypotheses, references, said = text_scores_answers.case(name, source)
    if stem:
        pytest.importorskip("nltk")
    scores = rouge(hypotheses, references, stem=stem)
    for kind, each in said[f"rouge {int(stem)}"].items():
        assert scores[kind].each.tolist() == near(each)
        assert scores[kind].value == near(sum(each) / len(each))


@cases
def test_equal_to_jiwer(name, source):
    """The rate, and which edits: of equally short alignments the same one."""
    hypotheses, references, said = text_scores_answers.case(name, source)
    for metric, key in ((word_error_rate, "words"), (character_error_rate, "characters")):
        score = metric(hypotheses, references)
        counts = [
            score.details[kind] for kind in ("substitutions", "deletions", "insertions", "hits")
        ]
        assert [score.value, *counts] == near(said[key])
        assert not score.higher_is_better


def random_sentences(seed, n=60):
    rng = random.Random(seed)
    return [rng.choices("abcd", k=rng.randint(0, 12)) for _ in range(n)]


def test_overlaps_are_those_of_counters():
    first, second = random_sentences(1), random_sentences(2)
    overlap = ngram_overlap(*numbered(first, second), 4)
    for k, (a, b) in enumerate(zip(first, second)):
        for n in range(1, 5):
            x, y = (
                Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
                for words in (a, b)
            )
            assert overlap.shared[k, n - 1] == (x & y).total()
            assert (overlap.in_hypotheses[k, n - 1], overlap.in_references[k, n - 1]) == (
                x.total(),
                y.total(),
            )


def test_edits_and_subsequences_are_those_of_the_whole_table():
    first, second = random_sentences(3), random_sentences(4)
    lengths = common_subsequences(*numbered(first, second))
    for k, (a, b) in enumerate(zip(first, second)):
        edits, common = np.zeros((2, len(a) + 1, len(b) + 1), int)
        edits[:, 0], edits[0] = range(len(a) + 1), range(len(b) + 1)
        for i in range(len(a)):
            for j in range(len(b)):
                edits[i + 1, j + 1] = min(
                    edits[i, j] + (a[i] != b[j]), edits[i, j + 1] + 1, edits[i + 1, j] + 1
                )
                common[i + 1, j + 1] = (
                    common[i, j] + 1 if a[i] == b[j] else max(common[i, j + 1], common[i + 1, j])
                )
        rows = word_error_rate([" ".join(b)], [" ".join(a)]).statistics[0]
        assert rows[:3].sum() == edits[-1, -1]
        assert rows[2] - rows[1] == len(b) - len(a)
        assert lengths[k] == common[-1, -1]


def test_texts_beside_others_have_the_tokens_that_they_have_alone():
    texts = text_scores_answers.texts()["mixed"][1]
    assert tokenize_13a(texts) == [tokenize_13a([text])[0] for text in texts]


def systems():
    hypotheses, references = text_scores_answers.texts()["mixed"]
    worse = [" ".join(text.split()[:-1]) for text in hypotheses]
    return hypotheses, worse, references


@pytest.mark.parametrize(
    "metric", [bleu, chrf, word_error_rate, exact_match, lambda a, b: rouge(a, b)["rougeL"]]
)
def test_a_part_and_the_bootstrap_need_no_second_look_at_the_texts(metric):
    hypotheses, worse, references = systems()
    score, other = metric(hypotheses, references), metric(worse, references)
    assert score.on(slice(5, 20)) == near(metric(hypotheses[5:20], references[5:20]).value)
    low, high = score.interval(samples=300)
    assert low < score.value < high
    found = score.against(other, samples=300)
    assert found.difference == near(score.value - other.value)
    assert found.low <= found.difference <= found.high
    slow = paired_statistic(
        score.statistics,
        other.statistics,
        lambda rows: float(score.formula(rows.sum(axis=0))),
        samples=300,
    )
    assert abs(found.low - slow.low) < 0.25 * (slow.high - slow.low) + 1e-9
    assert abs(found.high - slow.high) < 0.25 * (slow.high - slow.low) + 1e-9
    assert abs(found.p_value - slow.p_value) < 0.1


def test_equal_systems_are_a_tie_and_single_sentences_have_no_interval():
    hypotheses, _, references = systems()
    score = bleu(hypotheses, references)
    assert score.against(score)[:3] == (0.0, 0.0, 0.0)
    assert score.against(score).p_value == 1.0
    assert np.isnan(interval_of_sums(score.statistics[:1], score.formula)).all()
    assert np.isnan(paired_sums(score.statistics[:1], score.statistics[:1], score.formula).p_value)


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(DataError, match="2 hypotheses and 1 references"):
        bleu(["a", "b"], ["a"])
    with pytest.raises(DataError, match="0 hypotheses"):
        chrf([], [])
    with pytest.raises(DataError, match="a list of texts; got one text"):
        word_error_rate("a", ["a"])
    with pytest.raises(DataError, match="row 2 of the references is None"):
        rouge(["a", "b"], ["a", None])
    with pytest.raises(ConfigError, match="unknown tokenisation '13'; did you mean '13a'"):
        bleu(["a"], ["a"], tokenize="13")
    with pytest.raises(DataError, match="only scores of one kind"):
        bleu(["a"], ["a"]).against(bleu(["a"], ["a"], lowercase=True))


def test_long_sequences_need_two_rows_of_memory():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 5, 6000)
    whole = Symbols(ids, np.array([0, len(ids)]))
    assert common_subsequences(whole, whole).tolist() == [6000]
    text = "".join("abcde"[i] for i in ids)
    assert character_error_rate([text[1:] + "x"], [text]).details["deletions"] == 1
