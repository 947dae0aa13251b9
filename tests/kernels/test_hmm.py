"""The kernels behind hidden Markov models: products, packing, best pairs; against NumPy and against
all paths.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.errors import ConfigError, DataError
from seqloom.kernels.hmm import add_products, log_products, multiply
from seqloom.kernels.hmm_paths import arrive, arrive_eight
from seqloom.models.hidden.passes import Packer, viterbi_pairs
from tests.twins import hmm as twin


@pytest.mark.parametrize("width", [4, 8, 12, 48])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 7, 70])
def test_products(width, n):
    rng = np.random.default_rng(n)
    x, matrix, out = (
        rng.random((n + 3, width)),
        rng.random((width, width)),
        np.full((n + 5, width), -1.0),
    )
    multiply(x, 2, n, matrix, out, 1)
    assert np.allclose(out[1 : n + 1], x[2 : n + 2] @ matrix.T, rtol=1e-13)
    assert (out[0] == -1).all()
    assert (out[n + 1 :] == -1).all()
    left, right, pairs = (
        rng.random((width, 72)),
        rng.random((width, 72)),
        rng.random((width, width)),
    )
    want = pairs + left[:, :n] @ right[:, :n].T
    add_products(left, right, n, pairs)
    assert np.allclose(pairs, want, rtol=1e-13)


@pytest.mark.parametrize("width", [4, 8, 12, 48])
def test_largest_sums_with_impossible_ones(width):
    rng = np.random.default_rng(0)
    scores, moves = rng.normal(size=(20, width)), rng.normal(size=(width, width))
    scores[3, :] = moves[:, 3] = scores[2, 1] = -np.inf
    table, symbols = rng.normal(size=(5, width)), rng.integers(0, 5, 20)
    want = (scores[2:11, :, None] + moves[None]).max(1) + table[symbols[11:]]
    if width == 8:
        other = scores.copy()
        arrive_eight(other, 2, 9, moves, table, symbols, 11)
        assert np.array_equal(other[11:], want)
    arrive(scores, 2, 9, moves, table, symbols, 11, np.empty((2, width)))
    assert np.array_equal(scores[11:], want)


def test_logarithm_of_long_products_does_not_underflow():
    scales = np.random.default_rng(1).random(3000) ** 20
    scales[::100] = 1e-289
    offsets = np.arange(0, 3001, 2)
    out = np.empty(2)
    log_products(scales, offsets, out)
    assert np.allclose(out, np.log(scales).reshape(-1, 2).sum(0), rtol=1e-12)
    scales[7] = 0.0
    log_products(scales, offsets, out)
    assert out[1] == -np.inf
    assert np.isfinite(out[0])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 400), max_size=30), st.integers(1, 600))
def test_packing_keeps_every_token_once_and_in_time(lengths, n_states):
    lengths = np.array(lengths, np.int64)
    ids = np.random.default_rng(0).integers(0, 50, lengths.sum())
    begins = np.cumsum(lengths) - lengths
    seen, positions = [], []
    packer = Packer(lengths, n_states, ids, 50)
    for batch in map(packer, packer.spans()):
        assert len(set(batch.distinct.tolist())) == len(batch.distinct)
        assert np.array_equal(batch.distinct[batch.symbols], ids[batch.where])
        for lane, sequence in enumerate(batch.sequences.tolist()):
            assert batch.lengths[lane] == lengths[sequence]
            assert np.array_equal(
                batch.where[batch.rows(lane)], begins[sequence] + np.arange(lengths[sequence])
            )
        seen += batch.sequences.tolist()
        positions += batch.where.tolist()
    assert sorted(seen) == list(range(len(lengths)))
    assert sorted(positions) == list(range(lengths.sum()))


@pytest.mark.parametrize("seed", range(6))
def test_best_pairs_against_all_taggings(seed):
    rng = np.random.default_rng(seed)
    n_tags, lengths = 3, np.array([4, 0, 1, 2, 5, 3])
    moves, emissions = rng.normal(size=(4, 4, 4)), rng.normal(size=(lengths.sum(), 3))
    moves[rng.random(moves.shape) < 0.1] = -np.inf
    counts = rng.integers(1, 4, lengths.sum())
    allowed = [sorted(rng.choice(n_tags, k, replace=False).tolist()) for k in counts]
    everything = [list(range(n_tags))] * len(allowed)
    sparse = (np.concatenate([[0], np.cumsum(counts)]), np.concatenate(allowed))
    for choice, candidates in ((everything, None), (allowed, sparse)):
        want = [
            twin.best_pairs(moves, emissions[b : b + k], choice[b : b + k])
            for b, k in zip(np.cumsum(lengths) - lengths, lengths)
        ]
        if any(score == -np.inf for score, _ in want):
            with pytest.raises(DataError, match="no possible tagging"):
                viterbi_pairs(moves, emissions, lengths, candidates)
            continue
        tags, joints = viterbi_pairs(moves, emissions, lengths, candidates)
        assert tags.tolist() == [tag for _, found in want for tag in found]
        assert joints == pytest.approx([score for score, _ in want], abs=1e-12)


def test_pairs_refuse_what_does_not_fit():
    moves, emissions = np.zeros((4, 4, 4)), np.zeros((2, 3))
    with pytest.raises(ConfigError, match=r"S \+ 1"):
        viterbi_pairs(np.zeros((3, 3, 3)), emissions, np.array([2]))
    with pytest.raises(DataError, match="at least one tag"):
        viterbi_pairs(moves, emissions, np.array([2]), (np.array([0, 0, 1]), np.array([0])))
    with pytest.raises(DataError, match="outside"):
        viterbi_pairs(moves, emissions, np.array([2]), (np.array([0, 1, 2]), np.array([0, 3])))
    with pytest.raises(DataError, match="add up"):
        viterbi_pairs(moves, emissions, np.array([3]))
