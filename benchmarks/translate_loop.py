"""A recurrent encoder-decoder with additive attention as one writes it with torch: layers, and a
loop over the target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def recurrent_layer(arrays: dict[str, np.ndarray], place: str, *, bidirectional: bool) -> nn.GRU:
    """torch.nn.GRU with the weights whose names begin with `place`; it has two biases where we have
    one and a part.
    """
    rows, width = arrays[f"{place}w_x"].shape
    layer = nn.GRU(width, rows // 3, bidirectional=bidirectional, batch_first=True)
    for suffix, at in (("", place), ("_reverse", f"{place}reverse."))[: 1 + bidirectional]:
        own = np.concatenate([np.zeros(2 * rows // 3, np.float32), arrays[f"{at}b_h"]])
        for name, value in (
            ("weight_ih", arrays[f"{at}w_x"]),
            ("weight_hh", arrays[f"{at}w_h"]),
            ("bias_ih", arrays[f"{at}b"]),
            ("bias_hh", own),
        ):
            getattr(layer, f"{name}_l0{suffix}").data.copy_(torch.from_numpy(value))
    return layer


class Loop(nn.Module):
    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        super().__init__()
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        self.source = nn.Embedding.from_pretrained(tensors["reader.embedding.weight"])
        self.target = nn.Embedding.from_pretrained(tensors["embedding.weight"])
        self.encoder = recurrent_layer(arrays, "encoder.stack.layers.0.", bidirectional=True)
        self.decoder = recurrent_layer(arrays, "decoder.layers.0.", bidirectional=False)
        self.initial, self.key, self.query, self.readout = (
            self._linear(tensors, name)
            for name in ("initial", "attention.key", "attention.query", "readout")
        )
        self.energy, self.bias = tensors["attention.energy"], tensors["output.bias"]

    @staticmethod
    def _linear(tensors: dict[str, Tensor], name: str) -> nn.Linear:
        weight, bias = tensors[f"{name}.weight"], tensors.get(f"{name}.bias")
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
        layer.weight.data.copy_(weight)
        if bias is not None:
            layer.bias.data.copy_(bias)
        return layer

    @torch.inference_mode()
    def greedy(self, ids: Tensor, eos_id: int, steps: int, *, ends: bool = False) -> Any:
        """Sources (B, S) of one length to targets (B, T); `ends`: the only one stops at `eos_id`."""
        memory, last = self.encoder(self.source(ids))
        hidden = self.initial(torch.cat([last[0], last[1]], 1)).unsqueeze(0)
        keys, token, out = self.key(memory), torch.full((len(ids),), eos_id), []
        for _ in range(steps):
            output, hidden = self.decoder(self.target(token).unsqueeze(1), hidden)
            scores = torch.tanh(keys + self.query(output)) @ self.energy
            context = torch.softmax(scores, 1).unsqueeze(1) @ memory
            features = torch.tanh(self.readout(torch.cat([output, context], 2)[:, 0]))
            token = (features @ self.target.weight.T + self.bias).argmax(1)
            out.append(token)
            if ends and int(token) == eos_id:
                break
        return torch.stack(out, 1)
