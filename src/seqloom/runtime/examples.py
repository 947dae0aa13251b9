"""What a network without torch reads: steps of examples one after the other. It loads neither torch nor numba."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Examples(NamedTuple):
    """Steps of examples one after the other, as readers take them;
    an example is one row of steps, or several.
    """

    steps: Any  # named arrays
    offsets: np.ndarray  # (R + 1,): of the rows
    first_row: np.ndarray  # (E + 1,): of the examples among the rows
    spellings: Any = None
    word_places: np.ndarray | None = (
        None  # (W,): the step of each word, where words are several steps
    )
    word_offsets: np.ndarray | None = None  # (E + 1,)
