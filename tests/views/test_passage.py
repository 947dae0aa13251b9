"""Bits along the text are the model's own: they add up to its score, and lie where its tokens lie."""

import itertools
import math

import numpy as np
import pytest

from seqloom import Corpus, Mixture, NGram
from seqloom.data.encode import encode_corpus
from seqloom.metrics.language import unit_lengths
from seqloom.views.language import choose, passage, pieces, pieces_between
from tests.runtime.networks import language

STRANGE = "née ☃ 你好 🙂 to be\n"


@pytest.fixture(scope="module")
def texts(shakespeare):
    return shakespeare[:30_000], shakespeare[30_000:45_000]


@pytest.fixture(scope="module")
def models(texts):
    train, test = texts
    byte = NGram(order=4, tokenizer="byte", unit="stream").fit(train)
    return {
        "byte": byte,
        "bpe": NGram(order=2, tokenizer="bpe", vocab_size=600, unit="stream").fit(train),
        "mixture": Mixture.of(
            [byte, NGram(order=2, tokenizer="byte", unit="stream").fit(train)]
        ).fit(test[:5000]),
        "byte lines": NGram(order=3, tokenizer="byte", unit="line").fit(train),
        "words": NGram(order=2).fit(train),
    }


LOSSLESS = ["byte", "bpe", "mixture", "byte lines"]


@pytest.mark.parametrize("name", [*LOSSLESS, "words"])
@pytest.mark.parametrize("text", ["To be, or not to be\nthat is", STRANGE, "x", ""])
def test_pieces_add_up_to_the_score(models, name, text):
    found = pieces(models[name], text)
    assert sum(p.bits for p in found) == pytest.approx(
        -models[name].score(text) / math.log(2), rel=1e-6
    )


@pytest.mark.parametrize("name", ["gpt", "lstm"])
def test_pieces_of_a_model_that_carries_its_state(name):
    """Lines are one sequence, as in `score`."""
    model = language(name, carry=True)
    found = pieces(model, "to be\nor not\nto be")
    assert -sum(p.bits for p in found) * math.log(2) == pytest.approx(
        model.score("to be\nor not\nto be"), abs=1e-4
    )


@pytest.mark.parametrize("name", LOSSLESS)
def test_pieces_spell_the_text(models, name):
    found = pieces(models[name], STRANGE + STRANGE)
    assert "".join(p.text for p in found) == STRANGE + STRANGE
    assert sum(p.weight for p in found) == len((STRANGE + STRANGE).encode())
    assert not any("\ufffd" in p.text for p in found)


def test_words_are_shown_with_their_spaces(models):
    found = pieces(models["words"], "the people\nthe xyzzy")
    assert "".join(p.text for p in found) == "the people\nthe <unk>\n"
    assert {p.weight for p in found} == {1}


@pytest.mark.parametrize("name", ["byte", "bpe", "mixture"])
def test_a_passage_costs_what_it_cost_in_the_whole_text(models, texts, name):
    """The costs of its bytes, cut out of the costs of all: it is not scored as a text of its own."""
    model, corpus = models[name], Corpus.from_texts(texts[1])
    found = passage({name: model}, corpus, guide=name)
    tokenizer = model.tokenizer
    ids = encode_corpus(tokenizer, corpus, unit="stream")
    bits = -model.sequence_log_probs(ids, unit_lengths(ids, tokenizer.eos_id)).astype(
        float
    ) / math.log(2)
    starts = np.cumsum(tokenizer.byte_lengths[ids]) - tokenizer.byte_lengths[ids]
    end = found.start + len(found.text.encode())
    inside = (starts >= found.start) & (starts < end) & (ids != tokenizer.eos_id)
    costs = [p.bits for p in found.pieces[name] if not math.isnan(p.bits)]
    assert sum(costs) == pytest.approx(bits[inside].sum(), rel=1e-5)
    assert texts[1].encode()[found.start : end].decode() == found.text
    alone = -model.score(found.text) / math.log(2)
    assert sum(costs) != pytest.approx(alone, rel=1e-5)


@pytest.mark.parametrize("name", ["byte", "bpe"])
def test_stretches_add_up_to_the_whole(models, texts, name):
    data = texts[1][:3000].encode()
    cuts = [0, 700, 701, 1500, len(data)]
    found = [
        p for a, b in itertools.pairwise(cuts) for p in pieces_between(models[name], data, a, b)
    ]
    total = sum(p.bits for p in found if not math.isnan(p.bits))
    whole = pieces(models[name], data.decode())
    assert total == pytest.approx(sum(p.bits for p in whole if p.weight), rel=1e-6)


def test_a_token_that_begins_before_is_shown_without_a_cost(models):
    data = b"the king and the king and the king"
    model = models["bpe"]
    second = next(i for i, p in enumerate(pieces(model, data.decode())) if i and p.weight > 2)
    at = sum(p.weight for p in pieces(model, data.decode())[:second]) + 1  # inside a token
    found = pieces_between(model, data, at, len(data))
    assert math.isnan(found[0].bits)
    assert "".join(p.text for p in found) == data[at:].decode()


def test_the_passage_is_made_of_whole_lines_and_is_typical(models, texts):
    found = passage({n: models[n] for n in LOSSLESS}, Corpus.from_texts(texts[1]), guide="byte")
    assert 300 < len(found.text.encode()) <= 600
    assert found.text.endswith("\n")
    assert texts[1].encode()[found.start - 1 : found.start] in (b"", b"\n")
    cost = sum(p.bits for p in found.pieces["byte"]) / len(found.text.encode())
    assert cost == pytest.approx(models["byte"].bits_per_byte(texts[1]), abs=0.1)
    assert list(found.pieces) == LOSSLESS


def test_choose_takes_the_window_nearest_to_the_mean():
    data = (b"a" * 9 + b"\n") * 30
    costs = np.ones(300)
    costs[100:200] = 3.0
    costs[200:] = 100.0
    begin, end = choose(data, costs, np.arange(300), 100)
    mean = costs.mean()
    assert abs(costs[begin:end].mean() - mean) == min(
        abs(costs[a : a + 100].mean() - mean) for a in range(0, 201, 10)
    )


@pytest.mark.parametrize("data", [b"x" * 5000, "☃".encode() * 2000, b"short", b"\n" * 3000])
def test_texts_without_lines_have_passages_too(data):
    begin, end = choose(data, np.ones(len(data)), np.arange(len(data)), 600)
    assert 0 <= begin < end <= len(data)
    assert end - begin <= 600
    data[begin:end].decode()  # whole characters
