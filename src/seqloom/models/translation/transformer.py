"""`transformer`: the encoder-decoder of Vaswani et al. (2017), in which attention takes the place
of recurrence.

>>> model = Transformer(tokenizer="char", d_model=16, n_heads=2, n_layers=1, n_decoder_layers=1, dropout=0.0)
>>> model.fit([("ab", "ba"), ("abc", "cba")] * 8, train=TrainConfig(steps=80)).translate("abc")
'cba'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from seqloom.arrays import Length, Spec
from seqloom.contracts.saving import Kind, natural, optional
from seqloom.contracts.translation import Translator
from seqloom.errors import ModelError
from seqloom.models.network.configs import options_of
from seqloom.models.translation.configs import TransformerConfig
from seqloom.models.translation.model import TranslationModel
from seqloom.runtime import encoder_decoder as runtime
from seqloom.runtime.weights import Weights
from seqloom.training.config import TrainConfig as TrainConfig

if TYPE_CHECKING:
    import torch

    from seqloom.models.sequence.sequence_net import InitialWeights

SHAPE = (
    "n_layers n_decoder_layers d_head d_mlp positions context buckets max_distance norm norm_kind "
    "norm_epsilon "
    "embedding_norm activation bias tied scaled_attention scaled_embedding scaled_output"
)


def is_ids(value: Any) -> bool:
    """Return whether the value is a list of at least one token."""
    return isinstance(value, list) and len(value) > 0 and all(map(natural, value))


class Transformer(TranslationModel, Translator):
    """The Transformer as a translator. With converted weights, `learnt` has the conventions of their
    training: the tokens that targets `start` with if not `</s>`, the token before every source
    (`source_start`), and the tokens that are `never` predicted.
    """

    name = "transformer"
    config_class = TransformerConfig
    exact: ClassVar[tuple[str, ...]] = ("entrance.position.weight", "entrance.bias.weight")
    learnt_values: ClassVar[dict[str, Kind]] = {
        **TranslationModel.learnt_values,
        "start": optional(is_ids),
        "source_start": optional(natural),
        "never": optional(is_ids),
    }

    @property
    def d_embed(self) -> int:
        return self.config.d_model

    def label(self) -> str:
        c = self.config
        return f"transformer-{c.n_layers}+{c.n_decoder_layers}x{c.d_model}{self.bits_label}"

    @property
    def start_ids(self) -> list[int]:
        return self.learnt.get("start") or super().start_ids

    @property
    def source_start(self) -> int | None:
        return self.learnt.get("source_start")

    @property
    def longest(self) -> int | None:
        return self.config.context if self.config.positions == "learned" else None

    def build_fitted(self, start: InitialWeights | None = None) -> torch.nn.Module:
        from seqloom.nn.encoder_decoder import EncoderDecoder

        c, reader = self.config, self.make_reader(start)
        d_source = c.d_model if reader is None else reader.d_out
        return EncoderDecoder(
            reader,
            d_source,
            self.target_tokenizer.vocab_size,
            c.d_model,
            c.n_heads,
            dropout=c.dropout,
            attention_dropout=c.attention_dropout,
            label_smoothing=c.label_smoothing,
            never=self.learnt.get("never", ()),
            **options_of(c, SHAPE),
        )

    def take_runtime(self, weights: Weights) -> runtime.EncoderDecoder:
        c = self.config
        return runtime.EncoderDecoder(
            weights,
            self.take_reader(weights),
            self.target_tokenizer.vocab_size,
            c.d_model,
            c.n_heads,
            never=self.learnt.get("never", ()),
            **options_of(c, SHAPE),
        )

    def array_specs(self, length: Length) -> dict[str, Spec]:
        target, never = self.target_tokenizer, self.learnt.get("never", [])
        if (
            max([*self.start_ids, *never]) >= target.vocab_size
            or target.eos_id in never
            or (self.source_start is not None and self.source_start >= self.sizes.vocab_size)
        ):
            raise ModelError(
                "a token that texts start with is not in its vocabulary, or </s> is never written: "
                "it is damaged"
            )
        return super().array_specs(length)
