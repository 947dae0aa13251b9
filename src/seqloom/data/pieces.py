"""What readers hand over: stretches of text with the ends of the documents in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NONE = np.zeros(0, np.int64)


class Piece(NamedTuple):
    """UTF-8 bytes, where documents end in them (rising), and the numbers of these rows."""

    data: bytes
    ends: np.ndarray = NONE
    rows: np.ndarray = NONE
