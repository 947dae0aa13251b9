"""Recurrent networks and the block of a Transformer in plain NumPy, forward and backward.

The equations as they stand, and the oracle of the fast layers.
"""

from seqloom.reference.attention import (
    Attention,
    HeadsTrace,
    MultiHeadAttention,
    attend,
    attend_backward,
    causal_mask,
)
from seqloom.reference.bptt import (
    Chunk,
    chunks,
    clip_by_norm,
    recurrent_shares,
    recurrent_shares_by_loss,
    truncated_bptt,
)
from seqloom.reference.checks import check_gradients, numerical_gradient, relative_error
from seqloom.reference.gru import GRU, GRUTrace
from seqloom.reference.lstm import LSTM, LSTMTrace
from seqloom.reference.output import Output, cross_entropy, squared_error
from seqloom.reference.parameters import count_parameters, from_torch, init_params, to_torch
from seqloom.reference.rnn import RNN, RNNTrace
from seqloom.reference.sequences import Gradients, padding_mask
from seqloom.reference.transformer_block import BlockTrace, TransformerBlock

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Attention",
    "BlockTrace",
    "Chunk",
    "GRUTrace",
    "Gradients",
    "HeadsTrace",
    "LSTMTrace",
    "MultiHeadAttention",
    "Output",
    "RNNTrace",
    "TransformerBlock",
    "attend",
    "attend_backward",
    "causal_mask",
    "check_gradients",
    "chunks",
    "clip_by_norm",
    "count_parameters",
    "cross_entropy",
    "from_torch",
    "init_params",
    "numerical_gradient",
    "padding_mask",
    "recurrent_shares",
    "recurrent_shares_by_loss",
    "relative_error",
    "squared_error",
    "to_torch",
    "truncated_bptt",
]
