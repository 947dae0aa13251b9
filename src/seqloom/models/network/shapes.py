"""The shapes of a network's weights by name, from its options alone: of the parts that networks are made of.

A saved network is held to them before any kernel sees it, and stepping works without torch, so they are written here once
more in plain Python; tests prove them equal to those of the parts themselves (`nn/`).
"""

from __future__ import annotations

from itertools import pairwise

Shapes = dict[str, tuple[int, ...]]
GATES = {"rnn": 1, "lstm": 4, "gru": 3}  # of a recurrent cell
RANKS = "output.ranks"  # of the adaptive softmax: the place of each token among all by frequency


def within(name: str, shapes: Shapes) -> Shapes:
    """Those of a part, as the network that has it under this name knows them."""
    return {f"{name}.{inner}": shape for inner, shape in shapes.items()}


def affine(rows: int, columns: int, *, bias: bool = True) -> Shapes:
    return {"weight": (rows, columns), **({"bias": (rows,)} if bias else {})}


def layer_norm(width: int, *, bias: bool = True) -> Shapes:
    """Without a bias also those of RMSNorm."""
    return {"weight": (width,), **({"bias": (width,)} if bias else {})}


def recurrent_stack(cell: str, d_in: int, width: int, n_layers: int, *, bidirectional: bool = False,
                    d_projection: int | None = None, norms: bool = False, learned_start: bool = False,
                    reset: str = "after") -> Shapes:
    """Of `nn.recurrent.RecurrentStack`; `norms`: its layer_norm, `reset` of a GRU."""
    shapes: Shapes = {}
    rows, d_out = GATES[cell] * width, d_projection or width
    for i in range(n_layers):
        layer: Shapes = {"w_x": (rows, d_out * (1 + bidirectional) if i else d_in), "w_h": (rows, d_out), "b": (rows,)}
        if d_projection:
            layer["w_p"] = (d_projection, width)
        if cell == "gru" and reset == "after":
            layer["b_h"] = (width,)
        if learned_start:
            layer |= {"start_h": (d_out,), **({"start_c": (width,)} if cell == "lstm" else {})}
        if norms:
            layer |= within("norm_h", layer_norm(rows))
            if cell != "rnn":
                layer |= within("norm_x", layer_norm(rows))
            if cell == "lstm":
                layer |= within("norm_c", layer_norm(width))
        if bidirectional:
            layer |= within("reverse", layer)
        shapes |= within(f"layers.{i}", layer)
    return shapes


def character_reader(kind: str, n_chars: int, d_char: int, d_out: int) -> Shapes:
    """Of `nn.characters.CharacterReader`."""
    table: Shapes = {"embedding.weight": (n_chars, d_char)}
    if kind == "cnn":
        return table | within("filters", affine(d_out, 3 * d_char))
    return table | within("recurrent", recurrent_stack("lstm", d_char, d_out // 2, 1, bidirectional=True))


def crf(n_tags: int) -> Shapes:
    """Of `nn.crf.CRF`."""
    return {"transitions": (n_tags, n_tags), "start": (n_tags,), "end": (n_tags,)}


def transformer_block(d_model: int, d_mlp: int, *, cross: bool = False, d_queries: int | None = None, d_kv: int | None = None,
                      gated: bool = False, bias: bool = True, norm_bias: bool = True) -> Shapes:
    """Of `nn.transformer.Block` with `MLP`, or `gated` with `SwiGLU`; `cross`: it attends to a memory as well; `d_queries` and
    `d_kv`: width of the queries and of the keys of all heads together."""
    d_queries = d_queries or d_model
    norm, d_qkv = layer_norm(d_model, bias=norm_bias), d_queries + 2 * (d_kv or d_queries)
    attention = {**within("qkv", affine(d_qkv, d_model, bias=bias)), **within("out", affine(d_model, d_queries, bias=bias))}
    shapes = {**within("norm1", norm), **within("attention", attention), **within("norm2", norm),
              **within("mlp.up", affine(d_mlp * (1 + gated), d_model, bias=bias)),
              **within("mlp.down", affine(d_model, d_mlp, bias=bias))}
    return shapes | {**within("cross", attention), **within("norm_cross", norm)} if cross else shapes


def output_layer(softmax: str, width: int, vocab_size: int, *, tied: bool = False, bias: bool = True) -> Shapes:
    """Of what `output_net.make_output` makes, under the name `output`."""
    if softmax != "adaptive":
        return {**({} if tied else {"output.weight": (vocab_size, width)}), **({"output.bias": (vocab_size,)} if bias else {})}
    edges = [*cutoffs(vocab_size), vocab_size]
    shapes: Shapes = {"output.head.weight": (edges[0] + len(edges) - 1, width), RANKS: (vocab_size,)}
    for i, (low, high) in enumerate(pairwise(edges)):
        narrow = max(1, int(width / 4.0 ** (i + 1)))
        shapes |= {f"output.tails.{i}.down.weight": (narrow, width), f"output.tails.{i}.up.weight": (high - low, narrow)}
    return shapes


def cutoffs(vocab_size: int) -> list[int]:
    """The ranks at which the adaptive softmax begins a new cluster of rarer tokens."""
    return [rank for rank in (vocab_size // 10, vocab_size // 2) if rank > 0]
