"""The three squashing functions, each with its slope written in terms of its own output.

Backward passes keep outputs, not inputs, and for these functions the output is enough: tanh' = 1 - tanh^2,
sigmoid' = sigmoid (1 - sigmoid), relu' = 1 where the output is positive. The slope of tanh is at most 1 and that of
the sigmoid at most 1/4, which is why a deep or long chain of sigmoids forgets soonest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

ActivationName = Literal["tanh", "relu", "sigmoid"]


class Activation(NamedTuple):
    function: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]  # takes the function's output, not its input


def sigmoid(a: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-a)); written with tanh, which does not overflow for large |a|.

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


ACTIVATIONS: dict[str, Activation] = {
    "tanh": Activation(np.tanh, tanh_slope),
    "relu": Activation(relu, relu_slope),
    "sigmoid": Activation(sigmoid, sigmoid_slope),
}
