"""A network without torch says what torch's says, for every model, option and number of bits."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom.traces import Trace
from tests.runtime.answers import (
    draw_ids,
    encode_examples,
    forecaster_inputs,
    language_pairs,
    pairs,
    sources_of,
    traced_pairs,
    translation_pairs,
)
from tests.runtime.networks import (
    CASES,
    LANGUAGE,
    POSITIONS,
    TRANSLATORS,
    composed,
    forecaster,
    language,
    translator,
)

CLOSE = 1e-5
# inputs are off by half of 1 / 32639 of the largest of their row; deep networks make 6e-4 of it
# here
ROUNDED_16 = 2e-3
ROUNDED_8 = 0.25  # inputs are off by half of 1 / 127 of the largest of 32; 257 times as much, so 0.1 was seen


def far(found, expected):
    """How far apart two arrays are, in units of the largest number, or of one where all are smaller."""
    assert found.shape == expected.shape
    assert found.dtype == np.float32
    there = np.isfinite(expected)
    assert np.array_equal(found[~there], expected[~there])
    if not there.any():
        return 0.0
    return float(
        np.abs(found[there] - expected[there]).max() / max(1.0, np.abs(expected[there]).max())
    )


def hold(compared, limit, how):
    """Every pair of arrays is closer than this."""
    for what, found, expected in compared:
        assert far(found, expected) < limit, f"{how}: {what}"


@pytest.mark.parametrize("case", CASES)
def test_a_network(case):
    """Its answers and traces in float32, then with fewer bits: torch has the same rounded weights as
    float32; what is left are the inputs of products, which are rounded too. Those of 16 bits are close;
    whether a model takes those or 8 bits is a flag of its matrices alone. One test, as it is made once.
    """
    model = CASES[case]()
    hold(pairs(model), CLOSE, "float32")
    if not case.startswith("nplm"):  # which has nothing to show
        hold(traced_pairs(model), CLOSE, "traces")
    for bits in (8, 4):
        rounded = model.quantised(bits)
        rounded.inputs_16_bit = True
        compared = language_pairs(rounded, 9) if case in LANGUAGE else pairs(rounded)
        hold(compared, ROUNDED_16, f"{bits} bits")
    if case in LANGUAGE or case in TRANSLATORS:
        rounded = model.quantised(8)
        assert not rounded.inputs_16_bit
        compared = language_pairs(rounded, 9) if case in LANGUAGE else translation_pairs(rounded, 3)
        hold(compared, ROUNDED_8, "inputs of 8 bits")


@pytest.mark.parametrize("case", LANGUAGE)
def test_rounded_when_it_begins_to_step(case):
    """`eight_bit=True` rounds the matrices of a model in float32, but not its token vectors."""
    model = LANGUAGE[case]()
    ids = draw_ids(model, 2, 5)
    exact, rounded = model.stepper(), model.stepper(eight_bit=True)
    apart = 0.0
    (state, expected), (other, found) = exact.start(2), rounded.start(2)
    for t in range(5):
        apart = max(apart, far(found, expected))
        (state, expected), (other, found) = (
            exact.step(state, ids[:, t]),
            rounded.step(other, ids[:, t]),
        )
    assert 1e-5 < apart < ROUNDED_8
    assert np.allclose(np.exp(found).sum(1), 1, atol=1e-5)


# ---- windows that slide, and large vocabularies


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("context", [2, 4, 5, 64, 65])
@pytest.mark.parametrize("positions", POSITIONS)
def test_gpt_beyond_its_context(positions, context, alone):
    """Windows half a context apart, by steps, by prompts and several tokens at once; `alone`:
    without a start token in them.
    """
    model = language("gpt", positions=positions, context=context, start_alone=alone)
    for what, found, expected in language_pairs(model, 2 * context + 3):
        assert far(found, expected) < CLOSE, what


def test_gpt_reads_windows():
    model = language("gpt")
    windows = draw_ids(model, 4, 66)
    with torch.inference_mode():
        expected = model.network()(torch.from_numpy(windows))[0].numpy()
    assert far(model.stepper().read(windows), expected) < CLOSE


@pytest.mark.parametrize(
    "options",
    [{}, {"bottleneck": "every-step", "input_feeding": True}, {"attention": "none"}],
    ids=str,
)
def test_products_of_a_large_vocabulary_are_not_made_beforehand(options, monkeypatch):
    monkeypatch.setattr("seqloom.runtime.seq2seq.SMALL", 0)
    model = translator("seq2seq", **options)
    assert model.runtime().token_gates is None
    for what, found, expected in translation_pairs(model):
        assert far(found, expected) < CLOSE, what


# ---- traces


def answer(model, trace=None):
    """Of one call of a network of any kind."""
    network = model.runtime()
    if model.task == "language model":
        return model.stepper().step(
            model.stepper().start(3)[0], np.arange(3), *([] if trace is None else [trace])
        )[1]
    if model.task == "translator":
        memory = network.encode(model.encode_sources(sources_of(model)).examples(), trace)
        return network.step(memory, network.start(memory, 5), np.arange(5), trace)[0]
    if model.task == "forecaster":
        return network(*forecaster_inputs(model), trace)
    return network(encode_examples(model).examples(), trace)


MADE = {
    "gpt": lambda: language("gpt"),
    "lstm": lambda: language("lstm", n_layers=2, residual=True),
    "seq2seq": lambda: translator("seq2seq", encoder="transformer", n_heads=2),
    "transformer": lambda: translator("transformer"),
    "forecaster": lambda: forecaster(encoder="transformer", n_heads=2),
    "documents": lambda: composed(
        "classifier", "cnn", long="sentences", max_length=4, pooling="attention"
    ),
    "published": lambda: composed("tagger", "albert"),
}


@pytest.mark.parametrize("made", MADE)
def test_a_trace_changes_nothing_and_has_what_is_wanted(made):
    model, every, some = MADE[made](), Trace(), Trace("*.weights")
    expected = answer(model)
    assert np.array_equal(answer(model, every), expected)
    assert np.array_equal(answer(model, some), expected)
    assert sorted(some) == sorted(name for name in every if name.endswith(".weights"))
    assert len(some) > 0 or made == "lstm"
    assert all(np.array_equal(some[name], every[name]) for name in some)
