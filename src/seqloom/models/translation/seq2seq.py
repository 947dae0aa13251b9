"""`seq2seq`: a recurrent network reads the source, another writes the target, with attention between them.

With attention none it is the model of Sutskever et al. (2014) and Cho et al. (2014), with any other
that of Bahdanau et al. (2015) and Luong et al. (2015); the encoder may be any that classifiers and
taggers have.

    >>> model = Seq2Seq(tokenizer="char", d_embed=16, d_hidden=16, dropout=0.0)
    >>> model.fit([("ab", "ba"), ("abc", "cba")] * 8, train=TrainConfig(steps=60)).translate("abc")
    'cba'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqloom.contracts.translation import Translator
from seqloom.encoder_table import find_encoder
from seqloom.errors import ConfigError
from seqloom.models.network.configs import VARIANTS, options_of
from seqloom.models.translation.configs import Seq2SeqConfig
from seqloom.models.translation.model import TranslationModel
from seqloom.runtime import seq2seq as runtime
from seqloom.runtime.weights import Weights
from seqloom.training.config import TrainConfig as TrainConfig

if TYPE_CHECKING:
    import torch

    from seqloom.models.sequence.sequence_net import InitialWeights


class Seq2Seq(TranslationModel, Translator):
    name = "seq2seq"
    config_class = Seq2SeqConfig

    @property
    def d_embed(self) -> int:
        return self.config.d_embed

    @property
    def reverse_source(self) -> bool:  # type: ignore[override]
        return self.config.reverse_source

    def label(self) -> str:
        c = self.config
        return f"seq2seq-{'one' if c.one_network else c.encoder}-{c.cell}-{c.attention}{self.bits_label}"

    def build_fitted(self, start: InitialWeights | None = None) -> torch.nn.Module:
        from seqloom.nn import seq2seq

        c = self.config
        reader = self.make_reader(start)
        encoder = None
        if not c.one_network:
            try:
                encoder = find_encoder(c.encoder).make_network(
                    c.d_embed if reader is None else reader.d_out,
                    c.d_hidden,
                    c.n_layers,
                    self.encoder_options,
                    dropout=c.dropout,
                )
            except ValueError as error:
                raise ConfigError(str(error)) from error
        return seq2seq.Seq2Seq(
            reader,
            encoder,
            self.target_tokenizer.vocab_size,
            c.d_embed,
            c.d_hidden,
            c.n_decoder_layers,
            dropout=c.dropout,
            label_smoothing=c.label_smoothing,
            **self.decoder_options,
        )

    @property
    def encoder_options(self) -> dict[str, Any]:
        return options_of(self.config, f"n_heads window {' '.join(VARIANTS)}")

    @property
    def decoder_options(self) -> dict[str, Any]:
        c = self.config
        return {
            "attention": None if c.attention == "none" else c.attention,
            "every_step": c.bottleneck == "every-step",
            **options_of(c, "cell coverage input_feeding tied"),
        }

    def take_runtime(self, weights: Weights) -> runtime.Seq2Seq:
        c = self.config
        return runtime.Seq2Seq(
            weights,
            self.take_reader(weights),
            None if c.one_network else c.encoder,
            self.target_tokenizer.vocab_size,
            c.d_embed,
            c.d_hidden,
            c.n_decoder_layers,
            n_encoder_layers=c.n_layers,
            options=self.encoder_options,
            **self.decoder_options,
        )
