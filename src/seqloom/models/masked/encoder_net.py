"""`nn.bert.BertNet` with the layout that a config asks for."""

from __future__ import annotations

from typing import Any

from seqloom.models.masked.configs import SHAPE, EncoderLayout
from seqloom.models.network.configs import options_of
from seqloom.nn.bert import BertNet


def build_encoder(
    c: EncoderLayout, vocab_size: int, *, head: bool = False, **of_head: Any
) -> BertNet:
    """Build the encoder; `of_head`: head_activation and tied, for a network with a head that predicts
    hidden tokens.
    """
    return BertNet(
        vocab_size,
        c.context,
        c.d_model,
        c.n_layers,
        c.n_heads,
        dropout=c.dropout,
        head=head,
        **options_of(c, SHAPE),
        **of_head,
    )
