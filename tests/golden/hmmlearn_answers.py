"""What hmmlearn says of some hidden Markov models: asked now where it is installed, and as it once answered.

A case is a dict of arrays: the parameters and the data, which are always those of the file, and
hmmlearn's answers.
"""

from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).parent / "hmmlearn.npz"
CHAINS = {
    "two": (2, [50, 3]),
    "eight": (8, [30] * 4),
    "many": (33, [60, 0, 1, 7]),
}  # states, and lengths of sequences
NUMBERS = {"diagonal": "diag", "full": "full"}


def case(name, source):
    """`source`: recorded or live."""
    with np.load(FILE) as arrays:
        found = {
            key.partition(".")[2]: arrays[key] for key in arrays.files if key.startswith(f"{name}.")
        }
    return found if source == "recorded" else {**found, **asked(name, found)}


def asked(name, given):
    """hmmlearn's answers: log-likelihood, posteriors, best path and its probability, and the tables
    after one step of EM.
    """
    hmm = pytest.importorskip("hmmlearn.hmm")
    lengths = given["lengths"][given["lengths"] > 0]
    if name in NUMBERS:
        rows = given["rows"]
        peer = hmm.GaussianHMM(
            3,
            NUMBERS[name],
            n_iter=1,
            init_params="",
            min_covar=1e-9,
            covars_prior=0,
            covars_weight=0 if name == "full" else 1,
            means_weight=0,
        )
        peer.means_, peer.covars_ = given["means"], given["covariances"]
    else:
        rows = given["ids"][:, None]
        peer = hmm.CategoricalHMM(
            len(given["start"]),
            n_iter=1,
            init_params="",
            implementation="scaling",
            n_features=given["emissions"].shape[1],
            startprob_prior=1,
            transmat_prior=1,
            emissionprob_prior=1,
        )
        peer.emissionprob_ = given["emissions"]
    peer.startprob_, peer.transmat_ = given["start"], given["transitions"]
    joint, path = peer.decode(rows, lengths)
    found = {
        "score": peer.score(rows, lengths),
        "posteriors": peer.predict_proba(rows, lengths),
        "joint": joint,
        "path": path,
    }
    if name == "ties":
        return found
    with np.errstate(all="ignore"):
        peer.fit(rows, lengths)
    found |= {"fitted_start": peer.startprob_, "fitted_transitions": peer.transmat_}
    if name not in NUMBERS:
        return {**found, "fitted_emissions": peer.emissionprob_}
    covariances = (
        np.array([np.diag(c) for c in peer.covars_]) if name == "diagonal" else peer.covars_
    )
    return {**found, "fitted_means": peer.means_, "fitted_covariances": covariances}


def record():
    rng, arrays = np.random.default_rng(3), {}
    for name, (n_states, lengths) in CHAINS.items():
        given = {
            "start": rng.dirichlet(np.ones(n_states)),
            "transitions": rng.dirichlet(np.ones(n_states), n_states),
            "emissions": rng.dirichlet(np.ones(11), n_states),
            "ids": rng.integers(0, 11, sum(lengths)),
            "lengths": np.array(lengths),
        }
        arrays[name] = given | asked(name, given)
    half = np.full((2, 2), 0.5)
    given = {
        "start": half[0],
        "transitions": half,
        "emissions": half,
        "ids": np.zeros(30, np.int64),
        "lengths": np.array([30]),
    }
    arrays["ties"] = given | asked("ties", given)
    for name in NUMBERS:
        root = rng.normal(size=(3, 2, 2))
        full = root @ root.swapaxes(1, 2) + 0.3 * np.eye(2)
        given = {
            "start": rng.dirichlet(np.ones(3)),
            "transitions": rng.dirichlet(np.ones(3), 3),
            "means": rng.normal(size=(3, 2)) * 2,
            "covariances": full if name == "full" else np.abs(root[:, 0]) + 0.3,
            "rows": rng.normal(size=(48, 2)) * 2,
            "lengths": np.array([40, 7, 1]),
        }
        arrays[name] = given | asked(name, given)
    np.savez_compressed(
        FILE,
        **{f"{name}.{key}": value for name, case in arrays.items() for key, value in case.items()},
    )
