"""Counting neighbours: against a double loop, for any memory and any number of threads."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from seqloom.errors import SeqloomError
from seqloom.models.word_vectors import cooccurrence
from seqloom.models.word_vectors.cooccurrence import count_cells
from seqloom.models.word_vectors.reading import END, GONE


def by_hand(ids, window, symmetric, weighting):
    """Every pair of every unit, in exact fractions; words that are gone do not even count as distance."""
    found, unit = defaultdict(Fraction), []
    for word in [*ids.tolist(), END]:
        if word == END:
            for right in range(len(unit)):
                for left in range(max(right - window, 0), right):
                    weight = Fraction(1, right - left if weighting == "distance" else 1)
                    found[unit[left], unit[right]] += weight
                    if symmetric:
                        found[unit[right], unit[left]] += weight
            unit = []
        elif word != GONE:
            unit.append(word)
    return found


def text(n=3000, vocab_size=200, seed=0):
    """Words of very different frequency, with some that are gone and ends of units now and then;
    the last word is unseen.
    """
    draw = np.random.default_rng(seed)
    ids = np.minimum(draw.zipf(1.3, n) - 1, vocab_size - 2).astype(np.uint32)
    ids[draw.random(n) < 0.15] = GONE
    ids[draw.random(n) < 0.03] = END
    ids[500:560] = 7  # a word that is its own neighbour
    return ids


def as_dict(cells):
    rows = np.repeat(np.arange(len(cells.offsets) - 1), np.diff(cells.offsets))
    return {
        (r, c): v for r, c, v in zip(rows.tolist(), cells.columns.tolist(), cells.values.tolist())
    }


@pytest.mark.parametrize("window", [1, 4, 15, 30])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("weighting", ["distance", "equal"])
def test_against_a_double_loop(window, symmetric, weighting):
    ids = text()
    cells = count_cells(ids, 200, window=window, symmetric=symmetric, weighting=weighting)
    expected = by_hand(ids, window, symmetric, weighting)
    assert cells.count == len(expected)
    upper = {at: x for at, x in expected.items() if not symmetric or at[0] <= at[1]}
    found = as_dict(cells)
    assert list(found) == sorted(upper)
    exact = window <= cooccurrence.MAX_EXACT_WINDOW
    for at, x in found.items():  # the nearest float32 of the exact fraction
        assert (
            x == np.float32(float(upper[at]))
            if exact
            else x == pytest.approx(float(upper[at]), rel=1e-6)
        )


@pytest.mark.parametrize("symmetric", [True, False])
def test_any_memory_and_any_number_of_threads(monkeypatch, symmetric):
    ids = text(20_000, 3000, seed=1)
    whole = count_cells(ids, 3000, window=6, symmetric=symmetric)
    monkeypatch.setattr(cooccurrence, "CELLS", 3000)
    monkeypatch.setattr(cooccurrence, "POSITIONS", 500)
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("SEQLOOM_THREADS", threads)
        for memory in (
            None,
            1,
            150_000,
            10_000_000,
        ):  # stretches of 1,024 tokens, of 3,125, and one
            cells = count_cells(ids, 3000, window=6, symmetric=symmetric, memory=memory)
            for name in ("offsets", "columns", "values"):
                assert getattr(cells, name).tobytes() == getattr(whole, name).tobytes(), (
                    threads,
                    memory,
                    name,
                )


def test_neighbours_are_seen_across_stretches():
    """A stretch ends in the middle of units and of what is gone."""
    ids = np.full(5000, GONE, np.uint32)
    ids[[1000, 1023, 1024, 1500, 3071, 3072]] = 0, 1, 2, 3, 4, 5
    cells = count_cells(ids, 6, window=2, memory=1)
    assert as_dict(cells) == {
        (i, j): 1 / (j - i) for i in range(6) for j in range(i + 1, min(i + 3, 6))
    }


@pytest.mark.parametrize("ids", [[], [END], [3, END, GONE, 4, END, END, 5]])
def test_nothing_beside_each_other(ids):
    cells = count_cells(np.array(ids, np.uint32), 9, window=3, memory=1)
    assert cells.count == 0
    assert cells.offsets.tolist() == [0] * 10


def test_a_full_disk_is_one_clear_line(monkeypatch):
    def full(**options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(
        SeqloomError,
        match=r"no room for temporary files .* set TMPDIR to a larger disk or raise memory=\.\.\.",
    ):
        count_cells(text(), 200, window=3, memory=1)
