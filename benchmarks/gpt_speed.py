"""A GPT's training step: against a plain SDPA model in nanoGPT's manner, and Hugging Face GPT2.

6 layers of 384, T = 256, without dropout: all have the same shape, start from the same weights and
must show the same loss. 2 layers of 128, T = 64, with dropout on embeddings, attention weights and
residuals, as nanoGPT has it; the masks differ, so the losses agree without them. AdamW is the same
call for all; two threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from benchmarks.side_by_side import alternate, collect, peer, sized, table
from benchmarks.softmax_speed import shown

Row = tuple[str, str, str, str]
VOCAB_SIZE = sized(8192, 50)


class Size(NamedTuple):
    layers: int
    width: int
    heads: int
    context: int
    batch: int
    dropout: float = 0.0

    def __str__(self) -> str:
        rate = f", dropout {self.dropout:g}" if self.dropout else ""
        return (
            f"GPT {self.layers} x {self.width}, T = {self.context}, batch {self.batch}, "
            f"V = {VOCAB_SIZE:,}{rate}"
        )


LARGE, SMALL = sized(
    (Size(6, 384, 6, 256, 4), Size(2, 128, 4, 64, 16, 0.1)),
    (Size(2, 24, 6, 8, 2), Size(2, 16, 4, 8, 2, 0.1)),
)


def run(quick: bool, only: str) -> None:
    try:
        import torch
    except ImportError:
        print("(skipped: torch is not installed)")
        return
    torch.set_num_threads(2)
    peers = {
        "plain": (plain, LARGE, 7),
        "hugging face": (hugging_face, LARGE, 7),
        "plain with dropout": (plain, SMALL, 41),
    }
    rows = collect(
        {
            name: partial(against, name, make, size, 2 if quick else times)
            for name, (make, size, times) in peers.items()
        },
        only,
    )
    table("GPT training", rows, ("figure", "peer", "ours", "ours against the peer"))


def against(name: str, make: Callable, size: Size, times: int) -> Iterator[Row]:
    import torch

    from seqloom.nn.losses import linear_cross_entropy
    from seqloom.nn.transformer import GPTNet

    torch.manual_seed(0)
    net = GPTNet(
        VOCAB_SIZE, size.context, size.width, size.layers, size.heads, dropout=size.dropout
    )
    ids = torch.randint(VOCAB_SIZE, (size.batch, size.context + 1))

    def ours() -> Any:
        hidden, _ = net.features(ids[:, :-1])
        return linear_cross_entropy(
            hidden.flatten(0, 1), net.output_weight, None, ids[:, 1:].flatten()
        )

    theirs, model = make(net, ids, size) or (lambda: torch.tensor(torch.nan), None)
    for network in filter(None, (net, model)):
        network.eval()  # without the masks
    difference = abs(ours().item() - theirs().item())
    for network in filter(None, (net, model)):
        network.train()
    other = model and training_step(theirs, list(model.parameters()))
    ratio = alternate(training_step(ours, list(net.parameters())), other, times)
    tokens = size.batch * size.context
    yield (
        f"{size}: training step, first loss differs by {difference:.0e}",
        f"{name}, {tokens / ratio.peer:,.0f} tokens/s",
        f"{tokens / ratio.ours:,.0f} tokens/s",
        shown(ratio),
    )


def training_step(loss: Callable[[], Any], parameters: list) -> Callable[[], float]:
    import torch

    optimiser = torch.optim.AdamW(parameters, lr=1e-4, fused=True)

    def seconds() -> float:
        start = time.perf_counter()
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
        return time.perf_counter() - start

    seconds()
    return seconds


def plain(net: Any, ids: Any, size: Size) -> tuple[Callable[[], Any], Any]:
    """Nothing but torch: Linear, LayerNorm, scaled_dot_product_attention, a full head and cross_entropy."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    width = size.width

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.gelu, self.drop = nn.GELU(approximate="tanh"), nn.Dropout(size.dropout)

        def forward(self, x: Any) -> Any:
            b, t, d = x.size()
            q, k, v = self.qkv(self.norm1(x)).split(width, dim=2)
            q, k, v = (
                part.view(b, t, size.heads, d // size.heads).transpose(1, 2) for part in (q, k, v)
            )
            y = F.scaled_dot_product_attention(
                q, k, v, is_causal=True, dropout_p=size.dropout if self.training else 0.0
            )
            x = x + self.drop(self.out(y.transpose(1, 2).contiguous().view(b, t, d)))
            return x + self.drop(self.down(self.gelu(self.up(self.norm2(x)))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.position = (
                nn.Embedding(VOCAB_SIZE, width),
                nn.Embedding(size.context, width),
            )
            self.blocks = nn.ModuleList(Layer() for _ in range(size.layers))
            self.drop = nn.Dropout(size.dropout)
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCAB_SIZE, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids: Any, targets: Any) -> Any:
            x = self.drop(self.embedding(ids) + self.position(torch.arange(ids.size(1))))
            for block in self.blocks:
                x = block(x)
            logits = self.head(self.norm(x))
            return F.cross_entropy(logits.view(-1, VOCAB_SIZE), targets.reshape(-1))

    model = Model()
    names = {
        key.replace("attention.", "").replace("mlp.", ""): value
        for key, value in net.state_dict().items()
    }
    model.load_state_dict({**names, "head.weight": names["embedding.weight"]})
    return (lambda: model(ids[:, :-1], ids[:, 1:])), model


def hugging_face(net: Any, ids: Any, size: Size) -> tuple[Callable[[], Any], Any] | None:
    if (there := peer("transformers")) is None:
        return None
    config = there.GPT2Config(
        vocab_size=VOCAB_SIZE,
        n_positions=size.context,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=size.heads,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        resid_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
        attn_implementation="sdpa",
    )
    model = there.GPT2LMHeadModel(config)
    state = net.state_dict()
    names = {
        "norm1": "ln_1",
        "norm2": "ln_2",
        "attention.qkv": "attn.c_attn",
        "attention.out": "attn.c_proj",
        "mlp.up": "mlp.c_fc",
        "mlp.down": "mlp.c_proj",
    }
    theirs = {
        "wte.weight": state["embedding.weight"],
        "wpe.weight": state["position.weight"],
        "ln_f.weight": state["norm.weight"],
        "ln_f.bias": state["norm.bias"],
    }
    for i in range(size.layers):
        for ours, there in names.items():
            weight = state[f"blocks.{i}.{ours}.weight"]
            theirs[f"h.{i}.{there}.weight"] = weight.t() if weight.ndim == 2 else weight
            theirs[f"h.{i}.{there}.bias"] = state[f"blocks.{i}.{ours}.bias"]
    model.transformer.load_state_dict(theirs)
    model.train()
    # Its own shift drops a position, so the targets are given shifted.
    return (
        lambda: model(ids[:, :-1], labels=ids[:, :-1], shift_labels=ids[:, 1:].contiguous()).loss
    ), model
