"""Answers by spans: what is learnt from generated passages, windows against brute force, and the same
with and without torch.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import seqloom
from seqloom import NeuralAnswerer, Questions, Tokenizer, TrainConfig
from seqloom.errors import ConfigError
from seqloom.models.answering.configs import NeuralAnswererConfig
from seqloom.models.answering.windows import WindowInputs, best_span
from tests.fuzz.specimens import QUESTIONS, SPECIMENS

KEYS = ["age", "colour", "city", "house", "song", "animal", "river", "game", "tree", "stone"]
SYLLABLES = [a + b for a in "bdklmnrst" for b in "aeiou"]


def word(draw: random.Random) -> str:
    return draw.choice(SYLLABLES) + draw.choice(SYLLABLES)


def passages(n: int, seed: int, facts: int = 12) -> list[tuple[str, str, str | None]]:
    """Facts such as "The age of Bida is tolu.", and a question on one of them, every fifth on none."""
    draw, rows = random.Random(seed), []
    for i in range(n):
        people = [word(draw).capitalize() for _ in range(4)]
        known: dict[tuple[str, str], str] = {}
        while len(known) < facts:
            value = " ".join(word(draw) for _ in range(draw.choice([1, 1, 2])))
            known[draw.choice(KEYS), draw.choice(people)] = value
        context = " ".join(f"The {key} of {who} is {known[key, who]}." for key, who in known)
        if i % 5:
            key, who = draw.choice(list(known))
        else:
            every = itertools.product(KEYS, people)
            key, who = draw.choice([pair for pair in every if pair not in known])
        rows.append((f"What is the {key} of {who}?", context, known.get((key, who))))
    return rows


@pytest.fixture(scope="module")
def learnt() -> NeuralAnswerer:
    model = NeuralAnswerer(d_hidden=32, d_embed=32, max_length=50, dropout=0.0, min_count=3)
    return model.fit(passages(400, 1), train=TrainConfig(steps=400))


def test_generated_passages_over_three_windows(learnt: NeuralAnswerer) -> None:
    test = passages(200, 2)
    windows = np.bincount(learnt._encode([row[:2] for row in test]).examples)
    assert windows.min() >= 3
    result = learnt.evaluate(test)
    assert result["exact_match"] >= 0.95
    assert result["unanswerable"] == 40
    assert result["no_answer_accuracy"] >= 0.8
    assert "threshold:" in str(result.signature)


def test_few_questions_are_answered_without_torch_as_many_with_it(learnt: NeuralAnswerer) -> None:
    pairs = [row[:2] for row in passages(12, 3)]
    together = learnt.predict(pairs)
    for pair, answer in zip(pairs, together):
        alone = learnt.predict(*pair)
        assert alone[:3] == answer[:3]
        assert alone[3:] == pytest.approx(answer[3:], abs=1e-4)


def test_a_saved_model_and_a_start_go_on(learnt: NeuralAnswerer, tmp_path) -> None:
    learnt.save(tmp_path / "model")
    again = seqloom.load(tmp_path / "model")
    pairs = [row[:2] for row in passages(5, 4)]
    assert again.predict(pairs) == learnt.predict(pairs)
    more = NeuralAnswerer().fit(
        passages(60, 5), start=tmp_path / "model", train=TrainConfig(steps=5)
    )
    assert more.evaluate(passages(40, 6), samples=0)["exact_match"] >= 0.8


def test_no_answer_is_never_given_where_training_had_only_answers() -> None:
    rows = [row for row in passages(60, 8, facts=3) if row[2]]
    model = NeuralAnswerer(d_hidden=8, d_embed=8).fit(rows, train=TrainConfig(steps=3))
    assert model.threshold == 1.0
    assert all(answer.text for answer in model.predict([row[:2] for row in rows]))


# ---- windows


def test_the_best_span_is_that_of_brute_force() -> None:
    rng = np.random.default_rng(0)
    for n, most in itertools.product((1, 2, 7, 12), (1, 3, 30)):
        begins, ends = rng.normal(size=(2, n))
        every = [(begins[i] + ends[j], i, j) for i in range(n) for j in range(i, min(i + most, n))]
        score, first, last = max(every)
        assert best_span(begins, ends, most) == (first, last, pytest.approx(score))


@pytest.mark.parametrize("kind", ["word", "char", "byte", "bpe", "wordpiece", "unigram"])
def test_windows_cover_the_context_and_targets_give_back_the_answers(kind: str) -> None:
    rows = [
        *passages(20, 9, facts=6),
        ("Wer ging?", "Ärger im  Café\n😀 Zoë ging  fort. " * 5, "😀 Zoë"),
    ]
    data = Questions.of(rows)
    size = {} if kind in ("word", "char", "byte") else {"vocab_size": 400}
    tokenizer = Tokenizer(kind=kind, normalize="case=lower", **size).fit(data.texts)
    config = NeuralAnswererConfig(max_length=200 if kind in ("char", "byte") else 60, overlap=25)
    windows = WindowInputs(config, tokenizer, None).encode(data.pairs)
    offsets, targets = windows.encoded.row_offsets, windows.targets(data.answers)
    assert np.diff(offsets).max() <= config.max_length
    found: dict[int, set[str]] = {}
    covered: dict[int, set[int]] = {}
    for row, example in enumerate(windows.examples.tolist()):
        steps = windows.steps(row)[1:]
        spans = zip(windows.starts[steps].tolist(), windows.stops[steps].tolist())
        covered.setdefault(example, set()).update(k for a, b in spans for k in range(a, b))
        first, last = targets[row] + offsets[row]
        if targets[row].any():
            text = data.contexts[example][windows.starts[first] : windows.stops[last]]
            found.setdefault(example, set()).add(text)
            question = tokenizer.locate(data.questions[example]).ids
            assert targets[row].min() > min(len(question), config.max_length // 3) - 1
    for example, context in enumerate(data.contexts):
        visible = {k for k, one in enumerate(context) if not one.isspace()}
        assert visible <= covered[example]
        answers = [span.text for span in data.answers[example]]
        assert found.get(example, set()) == set(answers)


def test_a_span_is_not_in_the_question() -> None:
    inputs = WindowInputs(
        NeuralAnswererConfig(), Tokenizer(kind="word").fit(["who sat the cat"]), None
    )
    windows = inputs.encode([("who sat", "the cat sat")])
    allowed = windows.encoded.steps["allowed"].tolist()
    assert allowed == [True, False, False, False, True, True, True, False]
    assert windows.encoded.steps["types"].tolist() == [0, 0, 0, 0, 1, 1, 2, 0]
    scores = np.zeros((8, 2), np.float32)
    scores[1:3] = 50.0  # words of the question
    scores[5] = 1.0
    (span,) = windows.best(scores, 1, 30)
    assert (span.start, span.end) == (4, 7)
    # both ends at the first step, or at "cat": e^0 e^0 against e^1 e^1
    assert span.no_answer == pytest.approx(1 / (1 + np.exp(2)))


def test_no_answer_is_as_likely_as_in_the_window_that_believes_in_it_least() -> None:
    tokenizer = Tokenizer(kind="word").fit(["q a b c d e f g h i j k l m n o p"])
    inputs = WindowInputs(NeuralAnswererConfig(max_length=16, overlap=0), tokenizer, None)
    windows = inputs.encode([("q", "a b c d e f g h i j k l m n o p")])
    assert windows.examples.tolist() == [0, 0]
    scores = np.zeros((int(windows.encoded.row_offsets[-1]), 2), np.float32)
    scores[0], scores[windows.steps(1)[2]] = 9.0, 9.0
    (span,) = windows.best(scores, 1, 30)
    assert windows.starts[windows.steps(1)[2]] == span.start
    assert span.no_answer < 0.01


# ---- options, published encoders


def test_options_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="overlap 200 is more than half of max_length 300"):
        NeuralAnswerer(max_length=300, overlap=200)
    with pytest.raises(ConfigError, match="give none or case=lower"):
        NeuralAnswerer(normalize="topic")


@pytest.mark.parametrize("name", ["answerer-published", "answerer-characters", "answerer"])
def test_parts_make_the_model_again(name: str) -> None:
    model = SPECIMENS[name]()
    again = NeuralAnswerer.from_parts(
        model.config, model.tokenizers, model.learnt, model.arrays(), {}
    )
    pairs = [row[:2] for row in QUESTIONS]
    assert again.predict(pairs) == model.predict(pairs)
    assert model.arrays()["output.linear.weight"].shape[0] == 2


def test_a_frozen_encoder_is_trained_as_one_that_is_tuned(tmp_path) -> None:
    SPECIMENS["bert"]().save(tmp_path / "encoder")
    model = NeuralAnswerer(encoder=str(tmp_path / "encoder"), frozen=True)
    model.fit(QUESTIONS * 4, train=TrainConfig(steps=4))
    before = seqloom.load(tmp_path / "encoder").weights
    assert np.array_equal(
        before["embedding.weight"], model.net.weights["reader.first.embedding.weight"]
    )
    assert all(0 <= one.no_answer <= 1 for one in model.predict([row[:2] for row in QUESTIONS]))
