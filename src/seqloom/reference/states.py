"""What may be done to a new state before it is kept: clamping, and layer norm of the state itself.

    s_t = norm(clip(raw_t, -clamp, clamp))

Both are options, and each leaf of a state (h, c) has a norm of its own: the parameters `state_norm_h.weight`,
`state_norm_h.bias` and so on are there if it is used. A clamped unit passes no gradient on. A norm of c
rescales all that is stored at every step, so the cell no longer keeps its value, even with f = 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqloom.errors import ConfigError
from seqloom.reference.sequences import Params
from seqloom.reference.transformer import normalise, normalise_backward

EPSILON = 1e-5


def norm_names(params: Params, leaves: Sequence[str]) -> list[str]:
    """Return the parameters that norms of these leaves have, or none if there are no norms."""
    if not any(name.startswith("state_norm_") for name in params):
        return []
    return [f"state_norm_{leaf}.{part}" for leaf in leaves for part in ("weight", "bias")]


def check_clamp(clamp: float | None) -> None:
    if clamp is not None and not clamp > 0:
        raise ConfigError(f"clamp is {clamp}; states need a bound above zero")


def clip(raw: np.ndarray, clamp: float | None) -> np.ndarray:
    """Clamp a state, if there is a bound.

    >>> clip(np.array([-3.0, 0.5]), 1.0)
    array([-1. ,  0.5])
    """
    return raw if clamp is None else np.clip(raw, -clamp, clamp)


def clip_slope(raw: np.ndarray, clamp: float | None) -> np.ndarray:
    """Return one where `clip` leaves a value as it is, and zero elsewhere."""
    return np.ones_like(raw) if clamp is None else (np.abs(raw) <= clamp).astype(raw.dtype)


def settle(params: Params, leaf: str, raw: np.ndarray, clamp: float | None) -> np.ndarray:
    """Return the state (B, H) that is kept of a new one."""
    bounded, norm = clip(raw, clamp), f"state_norm_{leaf}"
    if f"{norm}.weight" not in params:
        return bounded
    return normalise(bounded, params[f"{norm}.weight"], params[f"{norm}.bias"], epsilon=EPSILON).y


def settle_backward(
    params: Params,
    leaf: str,
    raw: np.ndarray,
    clamp: float | None,
    grad: np.ndarray,
    sums: Params,
) -> np.ndarray:
    """Return the gradient of `raw`, given that of `settle`; add those of the norm to `sums`."""
    norm = f"state_norm_{leaf}"
    if f"{norm}.weight" in params:
        weight, bias = params[f"{norm}.weight"], params[f"{norm}.bias"]
        normed = normalise(clip(raw, clamp)[:, None], weight, bias, epsilon=EPSILON)
        grads = normalise_backward(normed, weight, grad[:, None], centred=True)
        grad = grads[0][:, 0]
        for part, value in zip(("weight", "bias"), grads[1:]):
            sums[f"{norm}.{part}"] = sums.get(f"{norm}.{part}", 0) + value
    return grad * clip_slope(raw, clamp)
