"""`nn.bert.BertNet` with the layout that a config asks for."""

from __future__ import annotations

from typing import Any

from seqloom.models.encode.configs import EncoderLayout
from seqloom.nn.bert import BertNet


def build_encoder(config: EncoderLayout, vocab_size: int, *, head: bool = False, **of_head: Any) -> BertNet:
    """`of_head`: head_activation and tied, of a network that guesses hidden tokens."""
    c = config
    return BertNet(vocab_size, c.context, c.d_model, c.n_layers, c.n_heads, d_mlp=c.d_mlp, d_embed=c.d_embed, n_types=c.n_types,
                   position_offset=c.position_offset, shared_layers=c.shared_layers, activation=c.activation,
                   norm_epsilon=c.norm_epsilon, dropout=c.dropout, pooler=c.pooler, head=head, **of_head)
