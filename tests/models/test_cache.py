"""The sliding window against counting by hand."""

import math

import numpy as np
import pytest

from seqloom import Cache
from seqloom.decoding.stepper import log_probs_by_steps

TEXT = "a b a c a b b b c a\nb a a\na\n"


@pytest.mark.parametrize("window", [1, 2, 3, 100])
def test_window_counts(window):
    model = Cache(window=window, floor=0.1).fit(TEXT)
    v = model.tokenizer.vocab_size
    ours = iter(model.token_scores(TEXT))
    for line in TEXT.splitlines():
        words = [*line.split(), "</s>"]
        for i, word in enumerate(words):
            past = words[max(0, i - window) : i]
            p = 0.9 * past.count(word) / len(past) + 0.1 / v if past else 1 / v
            assert next(ours) == pytest.approx(math.log(p), abs=1e-5)


def test_ring_equals_window():
    model = Cache(window=3).fit(TEXT)
    ids, lengths = model.encode(TEXT)
    assert np.allclose(
        model.sequence_log_probs(ids, lengths),
        log_probs_by_steps(model.stepper(), ids, lengths),
        atol=1e-5,
    )


@pytest.mark.parametrize("window", [2, 5, 100])
def test_carry_remembers_earlier_lines(window):
    model = Cache(window=window, floor=0.1, carry=True).fit(TEXT)
    words = [word for line in TEXT.splitlines() for word in [*line.split(), "</s>"]]
    v, expected = model.tokenizer.vocab_size, []
    for i, word in enumerate(words):
        past = words[max(0, i - window) : i]
        expected.append(math.log(0.9 * past.count(word) / len(past) + 0.1 / v if past else 1 / v))
    assert model.carry
    ids, _ = model.encode(TEXT)
    assert model.text_log_probs(ids) == pytest.approx(expected, abs=1e-5)
    by_steps = log_probs_by_steps(model.stepper(), ids, np.array([len(ids)]))
    assert by_steps == pytest.approx(expected, abs=1e-5)
    reading = model.reading()  # in portions, of which one ends inside a line
    parts = [reading(ids[:4]), reading(ids[4:12]), reading(ids[12:])]
    assert np.concatenate(parts) == pytest.approx(expected, abs=1e-5)
    assert model.perplexity(TEXT) == pytest.approx(math.exp(-np.mean(expected)), rel=1e-5)
