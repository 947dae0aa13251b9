"""Layers over a single sequence against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

from seqloom.kernels.gates import character_maxima, project


@pytest.mark.parametrize(("steps", "width", "gates"), [(1, 1, 1), (3, 4, 256), (7, 10, 300), (2, 3, 515), (0, 5, 8)])
def test_projection_of_any_size(steps, width, gates):
    rng = np.random.default_rng(steps)
    x, turned, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((steps, width), (width, gates), (gates,)))
    out = np.full((steps, gates), np.nan, np.float32)
    project(x, turned, bias, out)
    assert np.allclose(out, x @ turned + bias, atol=1e-5)


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
