"""A network without torch says what torch's says, for every model, option and number of bits."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.runtime.answers import pairs  # noqa: E402
from tests.runtime.networks import CASES  # noqa: E402

CLOSE = 1e-5


def far(found, expected):
    """How far apart two arrays are, in units of the largest number, or of one where all are smaller."""
    assert found.shape == expected.shape
    assert found.dtype == np.float32
    there = np.isfinite(expected)
    assert np.array_equal(found[~there], expected[~there])
    if not there.any():
        return 0.0
    return float(np.abs(found[there] - expected[there]).max() / max(1.0, np.abs(expected[there]).max()))


@pytest.mark.parametrize("case", CASES)
def test_float32(case):
    for what, found, expected in pairs(CASES[case]()):
        assert far(found, expected) < CLOSE, what
