"""The shapes of a network's weights by name, from its options alone.

A saved network is held to them before any kernel sees it, and stepping works without torch, so they are written here once
more in plain Python; a test proves them equal to those of the networks themselves (`*_net.py`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from seqloom.models.language.neural_configs import NPLM_EMBED, GPTConfig, NetworkConfig, NPLMConfig, RecurrentConfig
from seqloom.models.language.sizes import Size

Shapes = dict[str, tuple[int, ...]]
GATES = {"rnn": 1, "lstm": 4, "gru": 3}  # of a recurrent cell
RANKS = "output.ranks"  # of the adaptive softmax: the place of each token among all by frequency


def recurrent_shapes(config: RecurrentConfig, cell: str, vocab_size: int, size: Size) -> Shapes:
    c, width, rows = config, size.width, GATES[cell] * size.width
    d_embed, d_out = size.d_embed or c.d_embed or width, c.d_projection or width
    shapes: Shapes = {"embedding.weight": (vocab_size, d_embed)}
    for i in range(c.n_layers):
        layer: dict[str, tuple[int, ...]] = {"w_x": (rows, d_out if i else d_embed), "w_h": (rows, d_out), "b": (rows,)}
        if c.d_projection:
            layer["w_p"] = (c.d_projection, width)
        if cell == "gru" and getattr(c, "reset", "") == "after":
            layer["b_h"] = (width,)
        if c.learned_start:
            layer |= {"start_h": (d_out,), **({"start_c": (width,)} if cell == "lstm" else {})}
        if c.layer_norm:
            norms = {"norm_h": rows}
            if cell != "rnn":
                norms["norm_x"] = rows
            if cell == "lstm":
                norms["norm_c"] = width
            layer |= {f"{name}.{part}": (n,) for name, n in norms.items() for part in ("weight", "bias")}
        shapes |= {f"recurrent.layers.{i}.{name}": shape for name, shape in layer.items()}
    tied = _tied(c)
    if tied and d_out != d_embed:
        shapes |= _affine("bridge", d_embed, d_out)
    return shapes | _output(c, d_embed if tied else d_out, vocab_size, tied=tied)


def gpt_shapes(config: GPTConfig, vocab_size: int, size: Size) -> Shapes:
    c, d = config, size.width
    shapes: Shapes = {"embedding.weight": (vocab_size, d)}
    if c.positions == "learned":
        shapes["position.weight"] = (c.context, d)
    for i in range(c.n_layers):
        block = {**_norm("norm1", d), **_norm("norm2", d), **_affine("attention.qkv", 3 * d, d),
                 **_affine("attention.out", d, d), **_affine("mlp.up", 4 * d, d), **_affine("mlp.down", d, 4 * d)}
        shapes |= {f"blocks.{i}.{name}": shape for name, shape in block.items()}
    if c.norm == "pre":
        shapes |= _norm("norm", d)
    return shapes | _output(c, d, vocab_size, tied=_tied(c), bias=False)


def nplm_shapes(config: NPLMConfig, vocab_size: int, size: Size) -> Shapes:
    d_embed = size.d_embed or config.d_embed or NPLM_EMBED
    d_window = (config.order - 1) * d_embed
    return {"embedding.weight": (vocab_size, d_embed), **_affine("hidden", size.width, d_window),
            **_output(config, size.width + d_window * config.direct, vocab_size, tied=False)}


def cutoffs(vocab_size: int) -> list[int]:
    """The ranks at which the adaptive softmax begins a new cluster of rarer tokens."""
    return [rank for rank in (vocab_size // 10, vocab_size // 2) if rank > 0]


def _tied(config: Any) -> bool:
    return config.tied and config.softmax != "adaptive"


def _output(config: NetworkConfig, width: int, vocab_size: int, *, tied: bool, bias: bool = True) -> Shapes:
    if config.softmax != "adaptive":
        return {**({} if tied else {"output.weight": (vocab_size, width)}), **({"output.bias": (vocab_size,)} if bias else {})}
    edges = [*cutoffs(vocab_size), vocab_size]
    shapes: Shapes = {"output.head.weight": (edges[0] + len(edges) - 1, width), RANKS: (vocab_size,)}
    for i, (low, high) in enumerate(pairwise(edges)):
        narrow = max(1, int(width / 4.0 ** (i + 1)))
        shapes |= {f"output.tails.{i}.down.weight": (narrow, width), f"output.tails.{i}.up.weight": (high - low, narrow)}
    return shapes


def _affine(name: str, rows: int, columns: int) -> Shapes:
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}
