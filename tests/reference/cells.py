"""Every cell and convention, with random parameters (biases too), for the tests of this folder."""

import numpy as np

from seqloom.reference import GRU, LSTM, RNN, init_params

D, H = 3, 4

CELLS = {
    **{
        f"rnn-{name}": ("rnn", lambda p, name=name: RNN(p, activation=name))
        for name in ("tanh", "relu", "sigmoid")
    },
    "lstm": ("lstm", LSTM),
    **{
        f"gru-{update}-{reset}": ("gru", lambda p, u=update, r=reset: GRU(p, update=u, reset=r))
        for update in ("keep", "replace")
        for reset in ("after", "before")
    },
}


def make(name, seed=0):
    kind, build = CELLS[name]
    params = init_params(
        kind, D, H, reset="before" if name.endswith("before") else "after", seed=seed
    )
    rng = np.random.default_rng(seed + 1)
    for array in params.values():
        array += rng.normal(scale=0.4, size=array.shape)
    return build(params)


def data(cell, seed=0, batch=2, steps=5):
    """x (B, T, D) and a state to begin with, neither of them zero."""
    rng = np.random.default_rng(seed + 2)
    n_states = 2 if isinstance(cell, LSTM) else 1
    return rng.normal(size=(batch, steps, D)), tuple(
        rng.normal(size=(batch, H)) for _ in range(n_states)
    )
