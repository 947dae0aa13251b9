"""`copy`: the target is the source, the baseline of the other translators.

It is strong where most of a text is unchanged (spelling, normalisation), and for names and numbers.
The source has probability one and any other target zero. Its tokens are bytes.

    >>> model = Copy().fit([("teh cat", "the cat"), ("a dog", "a dog")])
    >>> model.translate("teh dog"), model.score(["a", "a"], ["a", "b"])
    ('teh dog', [0.0, -inf])
"""

from __future__ import annotations

import numpy as np

from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.saving import Arrayless
from seqloom.contracts.translation import Translator
from seqloom.contracts.translations import Translation, TranslationConfig
from seqloom.data.translation import Parallel
from seqloom.models.translation.configs import CopyConfig
from seqloom.text.tokenizer import Tokenizer


class Copy(Arrayless, Translator):
    name = "copy"
    config_class = CopyConfig
    starts_without_numba = True

    def fit_pairs(self, data: Parallel, options: FitOptions) -> None:
        _ = data.source_texts  # arrays cannot be copied into a text
        bytes_ = Tokenizer(kind="byte")
        self.tokenizers = {"source": bytes_, "target": bytes_}

    def translate_batch(
        self, sources: list[str], how: TranslationConfig, nbest: int = 1
    ) -> list[list[Translation]]:
        return [
            [Translation(source, 0.0, 0.0, ids=self.target_tokenizer.encode(source))]
            for source in sources
        ]

    def pair_log_probs(self, sources: list[str], targets: list[str]) -> list[np.ndarray]:
        return [
            _agreement(source, target)
            for source, target in zip(self.target_ids(sources), self.target_ids(targets))
        ]

    def alignments(self, sources: list[str], targets: list[str]) -> list[np.ndarray]:
        """Align each byte to the one at the same position, and bytes beyond the source to its end."""
        return [
            _diagonal(len(source), len(target))
            for source, target in zip(self.target_ids(sources), self.target_ids(targets))
        ]


def _agreement(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return 0 where a target has the source's token, and -inf where it does not."""
    log_probs = np.full(len(target), -np.inf, np.float32)
    both = min(len(source), len(target))
    log_probs[:both][source[:both] == target[:both]] = 0.0
    return log_probs


def _diagonal(source: int, target: int) -> np.ndarray:
    weights = np.zeros((target, source), np.float32)
    weights[np.arange(target), np.minimum(np.arange(target), source - 1)] = 1.0
    return weights
