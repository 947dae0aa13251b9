"""What recurrent cells share: the form of inputs and gradients, activations, a linear output and losses.

Batch first everywhere: x is (B, T, D), a state is a tuple of (B, H) arrays. `mask` is (B, T), True
where a step is real. A padded step leaves the state unchanged, and its x is never read. With y_t = w_y
h_t + b_y (`Output`) the losses and their gradients are

    squared error    L = sum (y_t - target_t)^2                  grad_y = 2 (y_t - target_t)
    cross-entropy    L = -sum log softmax(y_t)[target_t]         grad_y = softmax(y_t) - onehot(target_t)

A loss is the plain sum over real steps. Dividing by sequences and dividing by steps are different
objectives if lengths differ, so the choice is left to the caller: divide loss and gradient by the same
number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from seqloom.errors import ConfigError, suggest

State = tuple[np.ndarray, ...]
Params = dict[str, np.ndarray]


class Gradients(NamedTuple):
    """Gradients of a loss with respect to all its inputs."""

    params: Params  # the cell's parameters, by name
    x: np.ndarray  # (B, T, D)
    start: State  # the state before the first step, each (B, H)
    states: State  # the state after each step, each (B, T, H)
    product: np.ndarray  # (B, T, G*H): the products with w_h at each step


class Trace(Protocol):
    """Results of a forward pass; each cell adds its named intermediates."""

    @property
    def h(self) -> np.ndarray: ...  # (B, T, H)

    @property
    def last(self) -> State: ...  # after the last step, each (B, H)

    @property
    def multiplied(self) -> np.ndarray:
        """Return what w_h multiplies in each of its G blocks, (B, T, G, H)."""
        ...


TraceT = TypeVar("TraceT", bound=Trace)


class Cell(Protocol[TraceT]):
    """The interface of RNN, LSTM and GRU."""

    params: Params

    def forward(
        self, x: np.ndarray, state: State | None = None, mask: np.ndarray | None = None
    ) -> TraceT: ...

    def backward(
        self, trace: TraceT, grad_h: np.ndarray, grad_last: State | None = None
    ) -> Gradients: ...


def prepare(
    params: Params, x: np.ndarray, state: State | None, mask: np.ndarray | None, n_states: int
) -> tuple[np.ndarray, State, np.ndarray]:
    """Check and return x, the initial state (zeros when none is given) and the mask (all real when
    none is given).
    """
    x = np.asarray(x)
    d_input, d_hidden = params["w_x"].shape[1], params["w_h"].shape[1]
    if x.ndim != 3 or x.shape[1] == 0 or x.shape[2] != d_input:
        raise ValueError(
            f"x has shape {x.shape}; it must be (batch, steps, {d_input}) with at least one step"
        )
    if state is None:
        state = (np.zeros((len(x), d_hidden), params["w_h"].dtype),) * n_states
    if len(state) != n_states or any(part.shape != (len(x), d_hidden) for part in state):
        raise ValueError(
            f"the state has shapes {[part.shape for part in state]}; "
            f"it must be a tuple of {n_states}, each ({len(x)}, {d_hidden})"
        )
    if mask is None:
        return x, state, np.ones(x.shape[:2], bool)
    mask = np.asarray(mask, bool)
    if mask.shape != x.shape[:2]:
        raise ValueError(
            f"the mask has shape {mask.shape}; it must be {x.shape[:2]}, one value a step"
        )
    # padding becomes 0: zero times NaN would still be NaN in the sums of backward
    return np.where(mask[..., None], x, 0), state, mask


def check_params(params: Params, n_gates: int, extra: Sequence[str] = ()) -> None:
    """Check that w_x (G*H, D), w_h (G*H, H), b (G*H) and those in `extra` (H) are present with
    these shapes, and no others.
    """
    names = ["w_h", "w_x", "b", *extra]
    if sorted(params) != sorted(names):
        raise ValueError(f"the parameters are {sorted(params)}; they must be {sorted(names)}")
    d_hidden = params["w_h"].shape[-1]
    rows = n_gates * d_hidden
    shapes = {"w_h": (rows, d_hidden), "w_x": (rows, params["w_x"].shape[-1]), "b": (rows,)}
    for name in names:
        shape = shapes.get(name, (d_hidden,))
        if params[name].shape != shape:
            raise ValueError(f"{name} has shape {params[name].shape}; it must be {shape}")


def stack_steps(steps: Sequence[Any]) -> list[np.ndarray]:
    """Stack the fields of the traces of single steps, (B, ..), over time, (B, T, ..)."""
    return [np.stack(column, axis=1) for column in zip(*steps, strict=True)]


def padding_mask(lengths: Sequence[int], n_steps: int | None = None) -> np.ndarray:
    """Return a mask (B, T), True where a sequence of this length has a step; T is the longest
    unless given.

    >>> padding_mask([5, 3, 4]).astype(int)
    array([[1, 1, 1, 1, 1],
           [1, 1, 1, 0, 0],
           [1, 1, 1, 1, 0]])
    """
    return np.arange(max(lengths) if n_steps is None else n_steps) < np.asarray(lengths)[:, None]


# ---- activations: backward passes store outputs, not inputs, so slopes are functions of the output.
# The slope of tanh is at most 1 and that of the sigmoid at most 1/4, which is why gradients vanish
# soonest in a long chain of sigmoids

ActivationName = Literal["tanh", "relu", "leaky-relu", "sigmoid"]
GateName = Literal["sigmoid", "hard-sigmoid"]
LEAK, BAND = 0.01, 6  # slope of the leaky relu below zero; width over which the hard sigmoid rises


class Activation(NamedTuple):
    function: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]  # takes the function's output, not its input


def sigmoid(a: np.ndarray) -> np.ndarray:
    """Compute 1 / (1 + exp(-a)), written with tanh, which does not overflow for large |a|.

    >>> sigmoid(np.array([-1000.0, 0.0, 1000.0]))
    array([0. , 0.5, 1. ])
    """
    return 0.5 * (1 + np.tanh(0.5 * a))


def sigmoid_slope(output: np.ndarray) -> np.ndarray:
    return output * (1 - output)


def tanh_slope(output: np.ndarray) -> np.ndarray:
    return 1 - output**2


def relu(a: np.ndarray) -> np.ndarray:
    return np.maximum(a, 0)


def relu_slope(output: np.ndarray) -> np.ndarray:
    return (output > 0).astype(output.dtype)


def leaky_relu(a: np.ndarray) -> np.ndarray:
    """Compute a, or 0.01 a below zero: unlike relu it has a slope everywhere (Maas et al. 2013).

    >>> leaky_relu(np.array([-2.0, 3.0]))
    array([-0.02,  3.  ])
    """
    return np.where(a > 0, a, LEAK * a)


def leaky_relu_slope(output: np.ndarray) -> np.ndarray:
    return np.where(output > 0, 1, LEAK).astype(output.dtype)


def hard_sigmoid(a: np.ndarray) -> np.ndarray:
    """Compute a / 6 + 1/2 between 0 and 1, in three straight pieces.

    Outside -3..3 its slope is exactly zero, so gradients vanish there at once; the sigmoid's never do.

    >>> hard_sigmoid(np.array([-4.0, 0.0, 1.5, 4.0]))
    array([0.  , 0.5 , 0.75, 1.  ])
    """
    return np.clip(a / BAND + 0.5, 0, 1)


def hard_sigmoid_slope(output: np.ndarray) -> np.ndarray:
    return ((output > 0) & (output < 1)).astype(output.dtype) / BAND


ACTIVATIONS: dict[str, Activation] = {
    "tanh": Activation(np.tanh, tanh_slope),
    "relu": Activation(relu, relu_slope),
    "leaky-relu": Activation(leaky_relu, leaky_relu_slope),
    "sigmoid": Activation(sigmoid, sigmoid_slope),
}
GATE_ACTIVATIONS: dict[str, Activation] = {
    "sigmoid": ACTIVATIONS["sigmoid"],
    "hard-sigmoid": Activation(hard_sigmoid, hard_sigmoid_slope),
}


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Refuse a value that is not among the choices, naming the nearest."""
    known = list(choices)
    if value not in known:
        raise ConfigError(
            f"{name} {value!r} is not one of {', '.join(known)}{suggest(value, known)}"
        )


# ---- output


class Output:
    """`params`: w_y (V, H), b_y (V)."""

    def __init__(self, params: Params) -> None:
        self.params = params

    def forward(self, h: np.ndarray) -> np.ndarray:
        return h @ self.params["w_y"].T + self.params["b_y"]  # (B, T, V)

    def backward(self, h: np.ndarray, grad_y: np.ndarray) -> tuple[Params, np.ndarray]:
        """Return the gradients of w_y and b_y, and that of h, (B, T, H), for the layer below."""
        params = {"w_y": np.einsum("btv,bth->vh", grad_y, h), "b_y": grad_y.sum(axis=(0, 1))}
        return params, grad_y @ self.params["w_y"]


def squared_error(
    y: np.ndarray, target: np.ndarray, mask: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Return the loss and its gradient with respect to y; y and target are (B, T, V)."""
    difference = y - target if mask is None else np.where(mask[..., None], y - target, 0)
    return float((difference**2).sum()), 2 * difference


def cross_entropy(
    y: np.ndarray, ids: np.ndarray, mask: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Return the loss in nats and its gradient with respect to the logits y (B, T, V); `ids` are
    the correct classes, (B, T).

    >>> cross_entropy(np.zeros((1, 1, 4)), np.array([[2]]))
    (1.386..., array([[[ 0.25,  0.25, -0.75,  0.25]]]))
    """
    real = np.ones(ids.shape, bool) if mask is None else mask
    shifted = y - y.max(axis=-1, keepdims=True)  # the same softmax, and exp cannot overflow
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    at = ids[..., None]
    loss = -np.take_along_axis(log_probs, at, axis=-1)[..., 0][real].sum()
    grad = np.exp(log_probs)
    np.put_along_axis(grad, at, np.take_along_axis(grad, at, axis=-1) - 1, axis=-1)
    return float(loss), np.where(real[..., None], grad, 0)
