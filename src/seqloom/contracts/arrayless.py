"""Saving for models that learn no arrays: options, tokenizers and `learnt` are all they are."""

from __future__ import annotations

import numpy as np

from seqloom.arrays import Length, Spec


class Arrayless:
    """Written before the contract: `class Copy(Arrayless, Translator)`."""

    def arrays(self) -> dict[str, np.ndarray]:
        return {}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        return {}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        pass
