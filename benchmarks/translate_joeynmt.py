"""JoeyNMT's networks on the batches of `translate_training`, where the package joeynmt is installed
(without the old versions of other packages that it asks for). Its own loop over updates is not
used, only its model and its loss.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

SPECIALS = 4  # tokens that it puts before those of the data
PAD = 1


def updates(
    kind: str,
    batches: Any,
    sources: int,
    targets: int,
    *,
    width: int,
    layers: int,
    heads: int,
    dropout: float,
    smoothing: float,
) -> Callable[[int], None]:
    """A function that makes so many updates; ImportError where there is no JoeyNMT."""
    import torch
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = SimpleNamespace(
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        sep_token=None,
        unk_id=0,
        pad_id=PAD,
        bos_id=2,
        eos_id=3,
        sep_id=None,
        lang_tags=[],
    )
    vocabularies = [
        Vocabulary([f"token {i}" for i in range(n)], special) for n in (sources, targets)
    ]
    torch.manual_seed(0)
    network = build_model(_config(kind, width, layers, heads, dropout), *vocabularies)
    network.loss_function = "crossentropy", smoothing
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True)
    cursor = [(0, 0)]

    def update(steps: int) -> None:
        for _ in range(steps):
            batch = batches.batch(cursor[0])
            cursor[0] = batch.following
            given = _given(batch)
            loss = network(return_type="loss", **given)[0] / given["trg_mask"].sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()

    return update


def _given(batch: Any) -> dict[str, Any]:
    """A batch as JoeyNMT takes it: sorted by length, with its padding."""
    import numpy as np
    import torch

    order = np.argsort(-batch.arrays["lengths"], kind="stable")
    ids, lengths, inputs, targets = (
        torch.from_numpy(batch.arrays[name][order])
        for name in ("ids", "lengths", "inputs", "targets")
    )
    there = (
        torch.ones(targets.shape, dtype=torch.bool)
        if batch.mask is None
        else torch.from_numpy(batch.mask[order])
    )
    known = torch.arange(ids.shape[1]) < lengths.unsqueeze(1)
    return {
        "src": (ids + SPECIALS).masked_fill(~known, PAD),
        "src_length": lengths,
        "src_mask": known.unsqueeze(1),
        "trg_input": (inputs + SPECIALS).masked_fill(~there, PAD),
        "trg": (targets + SPECIALS).masked_fill(~there, PAD),
        "trg_mask": there.unsqueeze(1),
    }


def _config(kind: str, width: int, layers: int, heads: int, dropout: float) -> dict[str, Any]:
    embeddings = {"embedding_dim": width, "dropout": dropout, "scale": kind != "rnn"}
    common = {"embeddings": embeddings, "hidden_size": width, "dropout": dropout}
    if kind == "rnn":
        encoder = {
            **common,
            "type": "recurrent",
            "rnn_type": "gru",
            "bidirectional": True,
            "num_layers": 1,
        }
        decoder = {
            **common,
            "type": "recurrent",
            "rnn_type": "gru",
            "num_layers": 1,
            "attention": "bahdanau",
            "init_hidden": "bridge",
            "input_feeding": False,
            "hidden_dropout": dropout,
        }
    else:
        encoder = {
            **common,
            "type": "transformer",
            "num_layers": layers,
            "num_heads": heads,
            "ff_size": 4 * width,
        }
        decoder = {**encoder, "embeddings": dict(embeddings)}
    return {"encoder": encoder, "decoder": decoder, "tied_softmax": True}
