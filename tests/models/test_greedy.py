"""Greedy translation is beam search with one beam: whatever the network, for one source and many,
and for ties.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

pytest.importorskip("torch")

from seqloom.decoding.beam import beam_search, greedy
from seqloom.errors import ModelError
from seqloom.models.translation.seq2seq import Seq2Seq
from seqloom.models.translation.transformer import Transformer
from tests.models.test_translate_steps import made

SOURCES = ["abcde", "a", "", "deadbeefcab", "bb"]
NETWORKS = [
    (Seq2Seq, {}),
    (Seq2Seq, {"coverage": True, "input_feeding": True, "attention": "dot"}),
    (Seq2Seq, {"attention": "none", "cell": "lstm"}),
    (Seq2Seq, {"bottleneck": "every-step", "reverse_source": True}),
    (Seq2Seq, {"one_network": True, "shared_vocabulary": True}),
    (Transformer, {}),
]


def by_beam(model, source, max_tokens):
    best = beam_search(
        model.decoder([source]), [np.zeros(0, np.int64)], beams=1, max_tokens=max_tokens
    )[0][0]
    return best.ids.tolist(), best.finished


def drawn_again(model, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    model.net.restore(
        {
            name: (scale * rng.normal(0, 0.6, array.shape)).astype(np.float32)
            for name, array in model.weights.items()
        }
    )


@pytest.mark.parametrize(("cls", "options"), NETWORKS, ids=str)
def test_it_writes_what_one_beam_writes(cls, options):
    """Of many sources at once what each gets by itself."""
    model, ended = made(cls, **options), set()
    for seed in range(6):
        drawn_again(model, seed, (1.0, 0.02, 4.0)[seed % 3])
        for max_tokens in (1, 20):
            alone = [by_beam(model, source, max_tokens) for source in SOURCES]
            found = greedy(model.decoder(SOURCES), len(SOURCES), max_tokens)
            assert [(ids.tolist(), finished) for ids, finished in found] == alone
            ended |= {finished for _, finished in found}
    assert ended == {True, False}


def test_translate_takes_it_and_says_the_same():
    model = made(Seq2Seq)
    for seed in range(5):
        drawn_again(model, seed)
        for source in SOURCES:
            assert (
                model.translate(source, beams=1)
                == model.translate(source, beams=1, nbest=1)[0].text
            )
    (scored,) = model.translations(["abc"], None)[0]
    assert np.isfinite(scored.score)


def test_ties_are_broken_as_by_one_beam():
    model = made(Seq2Seq)
    model.net.restore({name: array * 0 for name, array in model.weights.items()})
    ((ids, finished),) = greedy(model.decoder(["abc"]), 1, 5)
    assert (ids.tolist(), finished) == by_beam(model, "abc", 5)


@pytest.mark.parametrize("name", ["embedding.weight", "decoder.layers.0.w_h", "output.bias"])
def test_a_broken_network_is_refused(name):
    model = made(Seq2Seq)
    broken = {k: array.copy() for k, array in model.weights.items()}
    broken[name][:] = np.nan
    model.net.restore(broken)
    with pytest.raises(ModelError, match="fit it again"):
        model.translate("abc", beams=1)


@pytest.mark.parametrize("cls", [Seq2Seq, Transformer])
def test_threads_share_a_model(cls):
    """Sources of unequal lengths, so that tables of positions grow meanwhile."""
    model = made(cls)
    sources = [*SOURCES, "abc" * 30, "f" * 150]
    expected, found = {source: by_beam(model, source, 40) for source in sources}, []
    model.net.restore(model.weights)  # which makes what was prepared anew
    together = threading.Barrier(4)

    def work(number):
        together.wait()
        for source in sources[number:] + sources[:number]:
            ((ids, finished),) = greedy(model.decoder([source]), 1, 40)
            found.append((source, (ids.tolist(), finished)))

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 * len(sources)
    assert all(ids == expected[source] for source, ids in found)
