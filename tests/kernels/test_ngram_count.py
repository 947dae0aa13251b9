"""Sorted levels against dictionaries: any vocabulary, order, unit length and block size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.errors import DataError
from seqloom.models.language import counting, estimation
from seqloom.models.language.counting import count_ngrams
from seqloom.models.language.estimation import build, smoothing_named
from seqloom.models.workspace import Workspace
from tests.twins.ngrams import BOS, count

EOS = 0


def unfold(counted, bos):
    """Tuples with their counts from the levels, checking order, parents and suffixes on the way."""
    out, below = {}, []
    for k, level in enumerate(counted.levels, 1):
        last = level.words.tolist()
        grams = (
            [(w,) for w in last]
            if k == 1
            else [below[p] + (w,) for p, w in zip(level.parents.tolist(), last)]
        )
        assert grams == sorted(set(grams))
        if k > 1:
            assert all(g[1:] == below[s] for g, s in zip(grams, level.suffixes.tolist()))
        assert [g[0] == bos for g in grams] == [
            i >= counted.bos_begin[k - 1] for i in range(len(grams))
        ]
        out[k] = dict(zip(grams, level.counts.tolist()))
        below = grams
    return out


def expected(ids, order, vocab_size):
    units = [u.tolist() for u in np.split(ids, np.flatnonzero(ids == EOS) + 1)[:-1]]
    return {
        k: {tuple(vocab_size if w == BOS else w for w in g): c for g, c in table.items()}
        for k, table in count(units, order).items()
    }


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 6), max_size=80), st.integers(1, 6), st.sampled_from([None, 300, 2000])
)
def test_levels_equal_dictionaries(body, order, memory):
    ids = np.array([*body, EOS], np.uint16)
    counted = count_ngrams(ids, order, 7, EOS, Workspace(memory, memory is not None))
    got = unfold(counted, bos=7)
    want = expected(ids, order, 7)
    assert {g: c for g, c in got[1].items() if c} == want[1]
    assert all(got[k] == want[k] for k in range(2, order + 1))


@pytest.mark.parametrize("memory", [None, 40_000, 200_000])
def test_blocks_and_threads_do_not_change_the_result(memory, monkeypatch):
    rng = np.random.default_rng(1)
    ids = np.minimum(rng.geometric(0.03, 30_000), 499).astype(
        np.uint32
    )  # zipf-like, with long units
    ids[rng.random(len(ids)) < 0.01] = EOS
    ids[-1] = EOS
    reference = count_ngrams(ids, 4, 500, EOS, Workspace())
    monkeypatch.setenv("SEQLOOM_THREADS", "1")
    other = count_ngrams(ids, 4, 500, EOS, Workspace(memory, memory is not None))
    for a, b in zip(reference.levels, other.levels):
        for name in ("words", "counts", "suffixes", "parents"):
            assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert reference.bos_begin == other.bos_begin


@pytest.mark.parametrize("prune", [(), (0, 0, 1)])
def test_places_of_64_bits_give_the_same_model(monkeypatch, prune):
    """As where a level has more n-grams than 32 bits can number, or a word is seen more often."""
    ids = np.append(np.random.default_rng(3).integers(1, 60, 4000), EOS)
    ids[::9] = EOS
    tries = []
    for places in (counting.PLACES, 10):
        monkeypatch.setattr(counting, "PLACES", places)
        workspace = Workspace(30_000, True)
        counted = count_ngrams(ids, 4, 60, EOS, workspace)
        large = places == 10
        assert (counted.levels[2].suffixes.dtype == np.int64) == large
        assert (counted.levels[3].counts.dtype == np.int64) == large
        tries.append(build(counted, smoothing_named("modified-kneser-ney"), prune, workspace)[0])
    for name, array in tries[0].arrays().items():
        assert array.dtype == tries[1].arrays()[name].dtype
        assert (array == tries[1].arrays()[name]).all()


def test_a_model_with_too_many_ngrams_says_what_to_do(monkeypatch):
    monkeypatch.setattr(estimation, "PLACES", 100)
    counted = count_ngrams(
        np.array([1, 2, EOS] * 5 + list(range(1, 60)) + [EOS]), 3, 60, EOS, Workspace()
    )
    with pytest.raises(
        DataError, match=r"a model has places for 99; leave rare ones out, .*prune="
    ):
        build(counted, smoothing_named("kneser-ney"), (), Workspace())
