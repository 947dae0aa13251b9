"""Sums and segments of a text that comes in portions."""

import numpy as np
import pytest

from seqloom.data.corpus import Corpus
from seqloom.data.encode import encode_corpus
from seqloom.metrics import language
from seqloom.metrics.language import SegmentCosts, line_segments, segment_costs, segment_ends
from seqloom.text.tokenizer import Tokenizer

TEXT = "a few words\n\n" + "long " * 900 + "line\n" + "short one\n" * 40 + "no newline at the end"


@pytest.mark.parametrize("block", [7, 1000])
@pytest.mark.parametrize("minimum", [1, 30])
def test_ends_of_segments_do_not_depend_on_the_chunks(block, minimum):
    data = TEXT.encode()
    whole = line_segments(data, minimum=minimum, block=block)
    for size in (1, 3, 64, 5000):
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        assert (
            segment_ends(chunks, len(data), minimum=minimum, block=block).tolist() == whole.tolist()
        )


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        ("byte", "line"),
        ("byte", "stream"),
        ("whitespace", "line"),
        ("whitespace", "stream"),
        ("whitespace", "document"),
    ],
)
def test_costs_of_segments_do_not_depend_on_the_portions(kind, unit):
    corpus = Corpus.from_texts(TEXT)
    tokenizer = Tokenizer(kind=kind).fit(corpus)
    ids = encode_corpus(tokenizer, corpus, unit=unit)
    log_probs = -np.random.default_rng(0).random(len(ids)).astype(np.float32)
    costs, weights = segment_costs(tokenizer, unit, corpus, ids, log_probs)
    assert costs.sum() == pytest.approx(-float(log_probs.sum(dtype=np.float64)))
    assert len(costs) > 1
    for size in (1, 11, 300, 500):
        parts = SegmentCosts(tokenizer, unit, corpus)
        for at in range(0, len(ids), size):
            parts.add(ids[at : at + size], log_probs[at : at + size])
        found, weighed = parts.result()
        assert found == pytest.approx(costs)
        assert weighed.tolist() == weights.tolist()


def test_a_tally_of_portions_is_that_of_the_whole():
    rng = np.random.default_rng(1)
    log_probs, oov = np.log(rng.random(1000)).astype(np.float32), rng.random(1000) < 0.1
    total = language.Tally()
    for at in range(0, 1000, 70):
        total.add(log_probs[at : at + 70], oov[at : at + 70])
    whole = language.summarize(log_probs, oov, 4000)
    assert total.summary(4000) == pytest.approx(whole)
    assert whole["perplexity_without_oov"] == language.perplexity_without_oov(log_probs, oov)
