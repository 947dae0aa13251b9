"""Recurrent networks and the block of a Transformer in plain NumPy, forward and backward.

The equations as they stand, and the oracle of the fast layers.
"""

from seqloom.reference.checks import (
    Chunk,
    check_gradients,
    chunks,
    clip_by_norm,
    numerical_gradient,
    recurrent_shares,
    recurrent_shares_by_loss,
    relative_error,
    truncated_bptt,
)
from seqloom.reference.gru import GRU, GRUTrace
from seqloom.reference.lstm import LSTM, LSTMTrace
from seqloom.reference.parameters import count_parameters, from_torch, init_params, to_torch
from seqloom.reference.rnn import RNN, RNNTrace
from seqloom.reference.sequences import (
    Gradients,
    Output,
    cross_entropy,
    padding_mask,
    squared_error,
)
from seqloom.reference.transformer import (
    Attention,
    BlockTrace,
    HeadsTrace,
    MultiHeadAttention,
    TransformerBlock,
    attend,
    attend_backward,
    causal_mask,
)

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
