"""One loop for every network."""

import seqloom.nn  # noqa: F401  (before torch)
