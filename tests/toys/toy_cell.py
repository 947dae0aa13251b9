"""A recurrent cell as another package would bring it: minGRU (Feng et al. 2024, "Were RNNs All We Needed?").

    z = sigmoid(W_z x + b_z),  n = W_n x + b_n,  h = (1 - z) h + z n

Its gates do not read the state, so it has no W_h. One class for torch, one without, a line in the
table of cells, and a language model: then it is an encoder of classifiers, taggers and forecasters,
the decoder of seq2seq, and a rung of comparisons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.contracts import LanguageModel
from seqloom.encoder_table import CellEntry, add_cell
from seqloom.models.language.configs import RecurrentConfig
from seqloom.models.language.neural import NeuralLanguageModel
from seqloom.models.language.recurrent import RecurrentLayers
from seqloom.registry import register
from seqloom.runtime import cells
from seqloom.traces import Trace

if TYPE_CHECKING:
    MinGRUCell: Any


class MinGRU(cells.Cell):
    """The cell without torch."""

    gates = 2
    reads_state = False

    def step(
        self, projected: np.ndarray, state: cells.State, trace: Trace | None = None
    ) -> cells.State:
        update, candidate = np.split(projected, 2, axis=1)
        share = 1 / (1 + np.exp(-update))
        if trace is not None:
            trace.add("gates.z", share)
            trace.add("gates.n", candidate)
        return (state[0] + share * (candidate - state[0]),)


def __getattr__(name: str) -> Any:
    """Make the torch class when it is asked for, so that torch is not loaded before."""
    if name != "MinGRUCell":
        raise AttributeError(name)
    import torch

    from seqloom.nn.cells import Cell

    class MinGRUCell(Cell):
        gates = 2
        reads_state = False
        gate_names = ("z", "n")

        def step(
            self, projected: Any, state: Any, w_h: Any, mask: Any, trace: Trace | None = None
        ) -> Any:
            update, candidate = projected.chunk(2, 1)
            share = torch.sigmoid(update)
            self._trace_gates(trace, share, candidate)
            return (torch.lerp(state[0], candidate, share),)

    globals()[name] = MinGRUCell
    return MinGRUCell


add_cell(CellEntry("mingru", network="toy_cell:MinGRUCell", runtime="toy_cell:MinGRU"))


@register
class MinGRULanguageModel(NeuralLanguageModel, LanguageModel):
    """minGRU as a language model: a recurrence whose gates do not read the state."""

    name = "mingru"
    layers = RecurrentLayers("mingru")
    config_class = RecurrentConfig
