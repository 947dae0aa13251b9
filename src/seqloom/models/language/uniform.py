"""Every token equally likely: a check of the metrics.

A uniform byte model must have 8.000 bits per byte. The end symbol occurs once in a text, so it gets a
fixed 2^-20 instead of the share of a byte; on a stream of 100,000 bytes its 20 bits do not show.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom.contracts import FitOptions, LanguageModel
from seqloom.contracts.saving import Arrayless
from seqloom.models.language.configs import UniformConfig

END = 2.0**-20


class Uniform(Arrayless, LanguageModel):
    name = "uniform"
    config_class = UniformConfig

    @property
    def context(self) -> int:
        return 0

    def fit_ids(self, ids: np.ndarray, options: FitOptions) -> None:
        pass

    def sequence_log_probs(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return self.stepper().row[ids]

    def stepper(self, *, eight_bit: bool = False) -> UniformStepper:
        return UniformStepper(self.tokenizer.vocab_size, self.tokenizer.eos_id)


class UniformStepper:
    """The state only holds the number of rows."""

    def __init__(self, vocab_size: int, eos_id: int) -> None:
        self.vocab_size, self.eos_id = vocab_size, eos_id
        self.row = np.full(vocab_size, np.log((1 - END) / (vocab_size - 1)), np.float32)
        self.row[eos_id] = np.log(END)

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        return (np.zeros(n, np.int64),), np.tile(self.row, (n, 1))

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        return state, np.tile(self.row, (len(ids), 1))
