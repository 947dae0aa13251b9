"""Counting, scoring and listing n-grams of documents, against dictionaries of tuples."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.kernels import features as kernels
from seqloom.models.classification.features import empty_slots

WORDS = 5
documents = st.lists(
    st.lists(
        st.integers(-1, WORDS - 1).map(lambda w: kernels.UNKNOWN if w < 0 else w), max_size=12
    ),
    min_size=1,
    max_size=6,
)


def flat(docs: list[list[int]]) -> np.ndarray:
    return np.array([i for doc in docs for i in [*doc, kernels.END]], np.int32)


def grams(doc: list[int], longest: int) -> list[tuple[int, ...]]:
    """Every n-gram without an unknown word."""
    found = [tuple(doc[i : i + n]) for n in range(1, longest + 1) for i in range(len(doc) - n + 1)]
    return [gram for gram in found if min(gram) >= 0]


def count(docs, labels, longest, presence):
    """The kernel's tables as {n-gram: (counts of the classes, occurrences)}."""
    room = sum(map(len, docs)) * longest + 1
    words, more = np.zeros((WORDS, 2), np.uint32), np.zeros((room, 2), np.uint32)
    seen, stamps, more_seen, more_stamps = (
        np.zeros(n, np.int64) for n in (WORDS, WORDS, room, room)
    )
    keys, slots = np.zeros(room, np.uint64), empty_slots(room)
    n, half = 0, len(docs) // 2
    for part, low in ((docs[:half], 0), (docs[half:], half)):  # in two portions, as a stream comes
        n = kernels.add_documents(
            flat(part),
            labels[low:],
            low + 1,
            longest,
            presence,
            words,
            seen,
            stamps,
            keys,
            slots,
            more,
            more_seen,
            more_stamps,
            n,
        )
    names = {w: (w,) for w in range(WORDS)}
    for g in range(n):
        names[kernels.GROWING + g] = (*names[int(keys[g]) >> 32], int(keys[g]) & 0xFFFFFFFF)
    rows = {(w,): (words[w], seen[w]) for w in range(WORDS)}
    rows |= {names[kernels.GROWING + g]: (more[g], more_seen[g]) for g in range(n)}
    assert len(rows) == WORDS + n  # no n-gram twice
    return {
        name: (tuple(c.tolist()), int(s) if presence else int(c.sum()))
        for name, (c, s) in rows.items()
        if c.any()
    }


@pytest.mark.parametrize("presence", [False, True])
@given(docs=documents, longest=st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_counts(presence, docs, longest):
    labels = np.arange(len(docs)) % 2
    counts, occurrences = defaultdict(lambda: [0, 0]), Counter()
    for doc, label in zip(docs, labels):
        occurrences.update(grams(doc, longest))
        for gram in set(grams(doc, longest)) if presence else grams(doc, longest):
            counts[gram][label] += 1
    assert count(docs, labels, longest, presence) == {
        g: (tuple(c), occurrences[g]) for g, c in counts.items()
    }


@pytest.mark.parametrize("presence", [False, True])
@given(docs=documents, known=documents, longest=st.integers(1, 4), seed=st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_scores_and_lists(presence, docs, known, longest, seed):
    """Only n-grams of the `known` documents are features; all words are."""
    names = [(w,) for w in range(WORDS)]
    names += sorted(
        {g for doc in known for g in grams(doc, longest) if len(g) > 1}, key=lambda g: (len(g), g)
    )
    row = {name: i for i, name in enumerate(names)}
    keys = np.array([row[g[:-1]] << 32 | g[-1] for g in names[WORDS:]], np.uint64)
    slots = empty_slots(len(keys))
    kernels.fill_slots(keys, len(keys), slots)
    weights = np.random.default_rng(seed).normal(size=(len(names), 3))
    out, found = np.zeros((len(docs), 3)), np.zeros(len(docs), np.int64)
    kernels.score_documents(
        flat(docs),
        longest,
        presence,
        WORDS,
        keys,
        slots,
        weights,
        np.zeros(len(names) if presence else 0, np.int32),
        out,
        found,
    )
    for doc, scores, n in zip(docs, out, found):
        rows = [row[g] for g in grams(doc, longest) if g in row]
        listed = np.empty(len(doc) * longest + 1, np.int64)
        ends = np.zeros(1, np.int64)
        kernels.list_features(flat([doc]), longest, WORDS, keys, slots, listed, ends)
        assert sorted(listed[: ends[0]].tolist()) == sorted(rows)
        rows = sorted(set(rows)) if presence else rows
        assert n == len(rows)
        assert scores == pytest.approx(weights[rows].sum(axis=0), abs=1e-12)


def test_merged_and_transposed():
    docs = [[3, 1, 3, 3], [], [1, 0, 1], [4]]
    rows = np.array([row for doc in docs for row in doc], np.int32)
    ends, times = np.cumsum([len(doc) for doc in docs]), np.empty(len(rows), np.int32)
    n = kernels.merge_features(rows, ends, np.zeros(5, np.int32), times)
    starts = [0, *ends[:-1]]
    merged = [dict(zip(rows[a:b].tolist(), times[a:b].tolist())) for a, b in zip(starts, ends)]
    assert merged == [{3: 3, 1: 1}, {}, {1: 2, 0: 1}, {4: 1}]
    assert n == ends[-1]

    dense = np.zeros((4, 5), np.float32)
    for doc, counts in enumerate(merged):
        for row, count in counts.items():
            dense[doc, row] = count
    out = np.zeros(5, np.int64), np.empty(n, np.int32), np.empty(n, np.float32)
    kernels.transpose(ends, rows[:n], times[:n].astype(np.float32), *out)
    found = np.zeros((5, 4), np.float32)
    for row, (low, high) in enumerate(zip([0, *out[0][:-1]], out[0])):
        found[row, out[1][low:high]] = out[2][low:high]
    assert (found == dense.T).all()
