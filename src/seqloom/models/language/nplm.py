"""The neural probabilistic language model (Bengio et al. 2003): an n-gram whose words are vectors.

Like an n-gram it sees a fixed number of tokens; unlike an n-gram it treats words with similar
vectors similarly, so an unseen combination gets probability from similar ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqloom.contracts.language import LanguageModel
from seqloom.models.language.configs import NPLM_EMBED, NPLMConfig
from seqloom.models.language.neural import Layers, NeuralLanguageModel, Past, settled
from seqloom.models.network.first_layer import Size
from seqloom.runtime.language import NPLMNet, NPLMStepper
from seqloom.runtime.weights import Weights
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    import torch

    from seqloom.training.batches import Batches

TOKENS_PER_PASS = 4096  # tokens that are scored in one pass


class NPLMLayers(Layers):
    depth_option = "order"

    def default_embed(self, width: int) -> int:
        return NPLM_EMBED

    def build(
        self, model: NeuralLanguageModel, size: Size, counts: torch.Tensor | None = None
    ) -> torch.nn.Module:
        from seqloom.models.language import language_net

        return language_net.NPLMNet(
            settled(model.config, size),
            model.tokenizer.vocab_size,
            size.width,
            counts,
            size.d_embed,
        )

    def take_runtime(self, model: NeuralLanguageModel, weights: Weights) -> NPLMNet:
        c, size = model.config, model.fitted_size
        return NPLMNet(
            weights,
            model.tokenizer.vocab_size,
            c.order,
            size.d_embed or c.d_embed or NPLM_EMBED,
            size.width,
            direct=c.direct,
            softmax=c.softmax,
        )

    def body_cost(self, config: Any, width: int) -> float:
        return (config.order - 1) * (config.d_embed or NPLM_EMBED) * width

    def batches(self, model: NeuralLanguageModel, ids: np.ndarray, train: TrainConfig) -> Batches:
        from seqloom.training.batches import Separate, Shuffled

        layout = Shuffled if model.carry else Separate
        return layout(
            ids,
            model.tokenizer.eos_id,
            batch_size=train.batch_size,
            window=train.truncation,
            before=model.config.order - 2,
            seed=train.seed,
        )

    def stepper(self, model: NeuralLanguageModel, network: Any) -> NPLMStepper:
        return NPLMStepper(network, model.tokenizer.eos_id)

    def flat_features(
        self,
        model: NeuralLanguageModel,
        network: Any,
        ids: np.ndarray,
        lengths: np.ndarray,
        max_tokens: int | None = None,
        past: Past | None = None,
    ) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
        """Yield features from the window before every token; before a sequence it is filled with
        `</s>`.
        """
        import torch

        device = next(network.parameters()).device
        before, eos = model.config.order - 1, model.tokenizer.eos_id
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        all_ids, n_past = (
            (past.joined(ids), len(past.ids)) if past else (ids, 0)
        )  # the sequence begins with what is remembered
        size = max_tokens or TOKENS_PER_PASS
        for low in range(0, len(ids), size):
            high = min(low + size, len(ids))
            positions = (
                np.arange(low, high)[:, None] + np.arange(-before, 0) + n_past
            )  # (N, before)
            windows = np.where(
                positions >= starts[low:high, None], all_ids[np.maximum(positions, 0)], eos
            ).astype(np.int64)
            features, _ = network(torch.from_numpy(windows).to(device))  # (N, 1, D)
            yield np.arange(low, high), features[:, 0]
        if past:
            past.advance(ids, before)


class NPLM(NeuralLanguageModel, LanguageModel):
    name = "nplm"
    config_class = NPLMConfig
    layers = NPLMLayers()
    unused_training_options: ClassVar[dict[str, str]] = {
        "recompute": "it has one layer; lower truncation to save memory",
        "random_truncation": "it has no state whose gradient is cut off",
    }

    @property
    def context(self) -> int:
        return self.config.order - 1
