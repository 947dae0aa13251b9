"""Filters over characters against plain numpy."""

from __future__ import annotations

import numpy as np

from seqloom.kernels.gates import character_maxima


def test_maxima_of_filters_over_characters():
    rng = np.random.default_rng(0)
    vectors, filters, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((9, 5), (6, 15), (6,)))
    ids, lengths = rng.integers(1, 9, (4, 7)), np.array([7, 1, 0, 3])  # what is beyond a word must not be read
    out = np.full((4, 6), np.nan, np.float32)
    character_maxima(ids, lengths, np.stack([vectors @ part.T for part in np.split(filters, 3, axis=1)]), bias, out)
    for word, length, maxima in zip(ids, lengths, out):
        padded = np.zeros((length + 2, 5), np.float32)
        padded[1:-1] = vectors[word[:length]]
        places = [filters @ padded[i:i + 3].ravel() + bias for i in range(length)]
        assert np.allclose(maxima, np.max(places, 0) if length else 0.0, atol=1e-5)
