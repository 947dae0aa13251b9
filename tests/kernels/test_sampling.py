"""A token is drawn by inverting the cumulative distribution."""

import numpy as np
import pytest

from seqloom.kernels.sampling import draw


@pytest.mark.parametrize("size", [3, 256, 700])
def test_draw_inverts_the_distribution(size):
    rng = np.random.default_rng(size)
    logits = rng.normal(0, 3, size)
    log_probs = (logits - np.logaddexp.reduce(logits)).astype(np.float32)
    log_probs[size // 2] = -np.inf
    probs = np.exp(log_probs.astype(np.float64))
    probs /= probs.sum()
    border = np.cumsum(probs)
    for uniform in [0.0, *rng.random(200), 1 - 2**-53]:
        token = draw(log_probs, 1.0, 0, 1.0, uniform)
        assert probs[token] > 0
        assert border[token] > uniform - 1e-6
        assert border[token] - probs[token] < uniform + 1e-6
