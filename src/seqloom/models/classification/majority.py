"""The most frequent class, whatever the text: what every other classifier must beat.

Its probabilities are the shares of the classes in the training data.

    >>> model = Majority().fit([("good fun", "+"), ("dull", "-"), ("good", "+")])
    >>> model.predict("dull"), round(model.predict_proba("dull")["+"], 3)
    ('+', 0.667)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts.classification import Classifier
from seqloom.contracts.fitting import FitOptions
from seqloom.data.classification import Labelled
from seqloom.models.classification.configs import MajorityConfig

MAX_COUNT = 1 << 53


class Majority(Classifier):
    name = "majority"
    config_class = MajorityConfig
    learns_pairs = True
    counts: np.ndarray  # int64 (C,): examples of each class

    @property
    def parameters(self) -> int:
        return len(self.classes)

    def fit_examples(self, data: Labelled, options: FitOptions) -> None:
        class_index = {name: i for i, name in enumerate(self.classes)}
        self.counts = np.bincount(
            [class_index[label] for label in data.labels], minlength=len(class_index)
        )

    def class_log_probs(self, examples: list[Any]) -> np.ndarray:
        return np.tile(np.log(self.counts / self.counts.sum()), (len(examples), 1))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"counts": self.counts}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        return {"counts": Spec("int64", (len(self.classes),), 1, MAX_COUNT)}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.counts = np.array(arrays["counts"])
