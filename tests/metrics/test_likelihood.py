import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom import Uniform
from seqloom.errors import DataError
from seqloom.metrics.language import (
    bits_per_byte,
    bits_per_token,
    nats,
    perplexity,
    perplexity_without_oov,
    summarize,
    zero_tokens,
)


@pytest.mark.parametrize("k", [1, 2, 10, 50257])
def test_uniform_has_the_perplexity_of_its_choices(k):
    assert perplexity(np.full(30, -math.log(k))) == pytest.approx(k)


def test_perplexity_is_of_the_text_and_not_of_the_model():
    """Spec X-08: 2 to the entropy of the model's own output would be 1.12."""
    q = np.array([0.98, 0.01, 0.01])
    truth = np.full(50, 2)
    assert perplexity(np.log(q)[truth]) == pytest.approx(100)
    assert 2 ** -(q * np.log2(q)).sum() == pytest.approx(1.12, abs=0.005)


@pytest.mark.parametrize("text", ["ab\ncd", "ab\ncd\n"])
def test_a_newline_that_the_text_lacks_is_paid_for_by_lines_alone(text):
    """By lines `</s>` is the newline: as many bytes as tokens. A stream has one `</s>`, which is no byte."""
    lines, stream = (
        Uniform(tokenizer="byte", unit=unit).fit("x").evaluate(text, samples=0)
        for unit in ("line", "stream")
    )
    assert (lines["tokens"], lines["bytes"]) == (6, 6)
    assert lines["bits_per_byte"] == pytest.approx(lines["nats"] / math.log(2) / 6)
    assert (stream["tokens"], stream["bytes"]) == (len(text) + 1, len(text))


def test_uniform_bytes_read_eight_bits():
    assert bits_per_byte(np.full(1000, -math.log(256)), 1000) == pytest.approx(8, abs=1e-12)
    assert bits_per_byte(np.full(500, 2 * -math.log(256)), 1000) == pytest.approx(
        8, abs=1e-12
    )  # pairs of bytes


@given(st.lists(st.floats(-50, 0), min_size=1, max_size=50), st.integers(1, 500))
def test_the_measures_agree(values, n_bytes):
    log_probs = np.array(values)
    assert math.log2(perplexity(log_probs)) == pytest.approx(bits_per_token(log_probs), abs=1e-9)
    assert bits_per_byte(log_probs, n_bytes) * n_bytes * math.log(2) == pytest.approx(
        nats(log_probs)
    )
    assert nats(log_probs) == pytest.approx(-sum(values))


def test_oov_tokens_are_left_out_of_sum_and_number():
    log_probs, oov = np.log([0.5, 1e-7, 0.125, 1e-7]), np.array([False, True, False, True])
    assert perplexity_without_oov(log_probs, oov) == pytest.approx(4)
    assert perplexity(log_probs) == pytest.approx((0.5 * 0.125 * 1e-14) ** -0.25)
    assert perplexity_without_oov(log_probs, np.ones(4, bool)) is None
    with pytest.raises(ValueError, match="4 log-probabilities, but 2"):
        perplexity_without_oov(log_probs, oov[:2])


def test_zero_probability_is_infinite_and_counted():
    log_probs = np.array([-1.0, -np.inf, -np.inf])
    assert zero_tokens(log_probs) == 2
    assert perplexity(log_probs) == math.inf
    assert bits_per_byte(log_probs, 3) == math.inf
    assert perplexity_without_oov(log_probs, np.array([False, True, True])) == pytest.approx(math.e)


def test_an_overflow_is_infinite():
    assert perplexity(np.array([-1000.0])) == math.inf
    assert perplexity(np.array([-699.0])) < math.inf


def test_float32_is_summed_in_float64():
    log_probs = np.full(2_000_000, -0.1, np.float32)
    assert nats(log_probs) == pytest.approx(2_000_000 * float(np.float32(0.1)), rel=1e-12)


def test_empty_and_broken_input():
    with pytest.raises(DataError, match="no tokens"):
        perplexity(np.array([]))
    with pytest.raises(DataError, match="no bytes"):
        bits_per_byte(np.array([-1.0]), 0)
    for bad in ([0.5], [np.nan], [[-1.0]]):
        with pytest.raises(ValueError, match="log-probability"):
            nats(np.array(bad))


def test_summary():
    summary = summarize(np.log([0.5, 0.5, 0.25]), np.array([False, False, True]), 4)
    assert summary == pytest.approx(
        {
            "bits_per_byte": 1.0,
            "bits_per_token": 4 / 3,
            "perplexity": 2 ** (4 / 3),
            "perplexity_without_oov": 2.0,
            "nats": 4 * math.log(2),
            "tokens": 3,
            "oov_tokens": 1,
            "zero_tokens": 0,
            "bytes": 4,
        }
    )
    assert summarize(np.log([0.5]), None, 1)["perplexity_without_oov"] == pytest.approx(2.0)
