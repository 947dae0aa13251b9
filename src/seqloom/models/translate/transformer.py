"""`transformer`: the encoder-decoder of Vaswani et al. (2017), in which attention takes the place of recurrence.

    >>> model = Transformer(tokenizer="char", d_model=16, n_heads=2, n_layers=1, n_decoder_layers=1, dropout=0.0)
    >>> model.fit([("ab", "ba"), ("abc", "cba")] * 8, train=TrainConfig(steps=80)).translate("abc")
    'cba'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.models.network.shapes import Shapes
from seqloom.models.translate.configs import TransformerConfig
from seqloom.models.translate.model import TranslationModel
from seqloom.models.translate.shapes import transformer_shapes
from seqloom.training.config import TrainConfig as TrainConfig

if TYPE_CHECKING:
    import torch

    from seqloom.models.sequence.building_net import Start
    from seqloom.models.translate.transformer_steps import TransformerSteps


class Transformer(TranslationModel):
    name = "transformer"
    config_class = TransformerConfig

    @property
    def d_embed(self) -> int:
        return self.config.d_model

    def label(self) -> str:
        c = self.config
        return f"transformer-{c.n_layers}+{c.n_decoder_layers}x{c.d_model}"

    def build(self, start: Start) -> torch.nn.Module:
        from seqloom.nn.encoder_decoder import EncoderDecoder

        c, reader = self.config, self.make_reader(start)
        d_source = c.d_model if reader is None else reader.d_out
        return EncoderDecoder(reader, d_source, self.target_tokenizer.vocab_size, c.d_model, c.n_heads, n_layers=c.n_layers,
                              n_decoder_layers=c.n_decoder_layers, d_mlp=c.d_mlp, norm=c.norm, activation=c.activation,
                              tied=c.tied, dropout=c.dropout, attention_dropout=c.attention_dropout,
                              label_smoothing=c.label_smoothing)

    def make_steps(self) -> TransformerSteps:
        from seqloom.models.translate.transformer_steps import TransformerSteps

        return TransformerSteps(self.config, self.sizes, self.weights, self.target_tokenizer.eos_id)

    def fitted_shapes(self) -> Shapes:
        return transformer_shapes(self.config, self.sizes, self.target_tokenizer.vocab_size)
