"""Training translators: pairs per second of ours and of the same networks in plain torch, on the
same batches.

The recurrent one is a BiGRU of 256 with additive attention: torch has its GRU layers, packed
sequences, and an attention over all pairs of steps at once. The Transformer, 3+3 layers of 256, is
torch.nn.Transformer. Both sides use AdamW, dropout and label smoothing, and make their batches
within the time. Pairs are those of Multi30k. JoeyNMT's networks (`translate_joeynmt`) get the same
batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import translate_joeynmt
from benchmarks.side_by_side import SMOKE, alternate, collect, data, seconds, sized, table

Row = tuple[str, str, str, str]
WIDTH, LAYERS, HEADS, DROPOUT, SMOOTHING = sized(256, 16), sized(3, 1), 4, 0.1, 0.1
STEPS = 12  # of a measurement


def run(quick: bool, only: str) -> None:
    rows = collect(
        {
            "rnn": partial(training, quick, "rnn"),
            "transformer": partial(training, quick, "transformer"),
            "padding": padding,
        },
        only,
    )
    table("Training translators", rows, ("figure", "peer", "seqloom", "ours against the peer"))


def training(quick: bool, kind: str) -> Iterator[Row]:
    if (pairs := multi30k()) is None:
        return
    updater, batches = our_updates(kind, pairs)
    vocabulary = updater.task.build().output.matrix().shape[0]
    steps = 2 if quick else STEPS

    def ours() -> None:
        for _ in range(steps):
            updater.update(0, 1, 1e-3)

    many = np.mean([len(group) for group in batches.groups(0)])
    what = (
        f"BiGRU {WIDTH}, additive attention"
        if kind == "rnn"
        else f"Transformer {LAYERS}+{LAYERS} x {WIDTH}"
    )
    for name, peer in peers(kind, batches, vocabulary):
        updater.cursor = (0, 0)
        ours(), peer(steps)
        took = alternate(
            lambda: seconds(ours),
            lambda: seconds(partial(peer, steps)),  # noqa: B023
            2 if quick else 5,
        )
        yield (
            f"{what}, V = {vocabulary:,}, batches of {many:.0f} pairs",
            f"{name}, {steps * many / took.peer:,.0f} pairs/s",
            f"{steps * many / took.ours:,.0f} pairs/s",
            f"{took.median:.2f}x ({took.low:.2f}-{took.high:.2f})",
        )


def peers(kind: str, batches: Any, vocabulary: int) -> Iterator[tuple[str, Callable[[int], None]]]:
    yield "plain torch", plain_updates(kind, batches, vocabulary)
    if SMOKE:
        return
    size = int(batches.sources.steps["ids"].max()) + 1
    try:
        joeynmt = translate_joeynmt.updates(
            kind,
            batches,
            size,
            vocabulary,
            width=WIDTH,
            layers=LAYERS,
            heads=HEADS,
            dropout=DROPOUT,
            smoothing=SMOOTHING,
        )
    except ImportError as error:
        print(f"(skipped: JoeyNMT: {error})")
        return
    yield "JoeyNMT", joeynmt


def padding() -> Iterator[Row]:
    if (pairs := multi30k()) is None:
        return
    batches = our_updates("rnn", pairs)[1]
    sources, targets = batches.sources.lengths, batches.targets.lengths
    many = round(len(sources) / len(batches.groups(0)))
    order = np.random.default_rng(0).permutation(len(sources))
    groups = [order[i : i + many] for i in range(0, len(order), many)]
    filled = sum(
        len(group) * int(lengths[group].max()) for group in groups for lengths in (sources, targets)
    )
    yield (
        "padding in batches of Multi30k",
        f"random batches of {many}: {1 - (sources.sum() + targets.sum()) / filled:.1%}",
        f"{batches.waste():.1%}",
        "",
    )


def multi30k() -> list[tuple[str, str]] | None:
    paths = [data("multi30k", f"train.{language}") for language in ("en", "de")]
    if any(path is None for path in paths):
        return None
    return list(
        zip(*(path.read_text(encoding="utf-8").splitlines() for path in paths if path is not None))
    )


def our_updates(kind: str, pairs: list[tuple[str, str]]) -> tuple[Any, Any]:
    """What updates our network, and its batches."""
    import torch

    from seqloom.data.translation import Parallel
    from seqloom.models.translation.seq2seq import Seq2Seq
    from seqloom.models.translation.transformer import Transformer
    from seqloom.training.config import TrainConfig
    from seqloom.training.update import Updater

    options: dict[str, Any] = {"dropout": DROPOUT, "label_smoothing": SMOOTHING}
    model: Any = (
        Seq2Seq(d_hidden=WIDTH, d_embed=WIDTH, **options)
        if kind == "rnn"
        else Transformer(
            d_model=WIDTH, n_layers=LAYERS, n_decoder_layers=LAYERS, n_heads=HEADS, **options
        )
    )
    held, config = Parallel.of(pairs), TrainConfig(optimizer="adamw")
    start = model._begin(held)
    task = model._task(model._encode_pairs(held), None, start, config)
    return Updater(task, config, torch.device("cpu")), task.batches


def plain_updates(kind: str, batches: Any, vocabulary: int) -> Callable[[int], None]:
    import torch
    import torch.nn.functional as F

    torch.manual_seed(0)
    size = int(batches.sources.steps["ids"].max()) + 1
    network = (plain_rnn if kind == "rnn" else plain_transformer)(size, vocabulary)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True)
    cursor = [(0, 0)]

    def update(steps: int) -> None:
        for _ in range(steps):
            batch = batches.batch(cursor[0])
            cursor[0] = batch.following
            arrays = {name: torch.from_numpy(array) for name, array in batch.arrays.items()}
            there = torch.from_numpy(
                np.ones(batch.arrays["targets"].shape, bool) if batch.mask is None else batch.mask
            )
            scores = network(arrays["ids"], arrays["lengths"], arrays["inputs"], there)
            loss = F.cross_entropy(
                scores[there], arrays["targets"][there], label_smoothing=SMOOTHING
            )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()

    return update


def plain_rnn(sources: int, targets: int) -> Any:
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(sources, WIDTH), nn.Embedding(targets, WIDTH)
            self.encoder = nn.GRU(WIDTH, WIDTH, bidirectional=True, batch_first=True)
            self.decoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
            self.initial, self.key = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)
            self.query, self.energy = (
                nn.Linear(WIDTH, WIDTH, bias=False),
                nn.Linear(WIDTH, 1, bias=False),
            )
            self.readout, self.output = nn.Linear(3 * WIDTH, WIDTH), nn.Linear(WIDTH, targets)
            self.dropout = nn.Dropout(DROPOUT)
            self.output.weight = self.target.weight

        def forward(self, ids: Any, lengths: Any, inputs: Any, there: Any) -> Any:
            packed = pack_padded_sequence(
                self.dropout(self.source(ids)), lengths, batch_first=True, enforce_sorted=False
            )
            packed, last = self.encoder(packed)
            memory = self.dropout(
                pad_packed_sequence(packed, batch_first=True, total_length=ids.shape[1])[0]
            )
            first = self.initial(self.dropout(torch.cat([last[0], last[1]], 1)))
            hidden = self.dropout(
                self.decoder(self.dropout(self.target(inputs)), first.unsqueeze(0))[0]
            )
            mixed = torch.tanh(
                self.query(hidden).unsqueeze(2) + self.key(memory).unsqueeze(1)
            )  # (B, T, S, D)
            scores = self.energy(mixed).squeeze(3)
            padding = torch.arange(ids.shape[1]) >= lengths.unsqueeze(1)
            weights = torch.softmax(scores.masked_fill(padding.unsqueeze(1), -math.inf), 2)
            return self.output(
                self.dropout(torch.tanh(self.readout(torch.cat([hidden, weights @ memory], 2))))
            )

    return Plain()


def plain_transformer(sources: int, targets: int) -> Any:
    import torch
    from torch import nn

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(sources, WIDTH), nn.Embedding(targets, WIDTH)
            self.network = nn.Transformer(
                WIDTH, HEADS, LAYERS, LAYERS, 4 * WIDTH, DROPOUT, batch_first=True, norm_first=True
            )
            self.output, self.dropout = nn.Linear(WIDTH, targets), nn.Dropout(DROPOUT)
            self.output.weight = self.target.weight
            angles = torch.arange(512).unsqueeze(1) * torch.exp(
                torch.arange(0, WIDTH, 2) * (-math.log(1e4) / WIDTH)
            )
            self.register_buffer("places", torch.stack([angles.sin(), angles.cos()], 2).flatten(1))

        def read(self, embedding: Any, ids: Any) -> Any:
            return self.dropout(embedding(ids) * math.sqrt(WIDTH) + self.places[: ids.shape[1]])

        def forward(self, ids: Any, lengths: Any, inputs: Any, there: Any) -> Any:
            padding = torch.arange(ids.shape[1]) >= lengths.unsqueeze(1)
            ahead = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1]) < 0
            return self.output(
                self.network(
                    self.read(self.source, ids),
                    self.read(self.target, inputs),
                    tgt_mask=ahead,
                    src_key_padding_mask=padding,
                    memory_key_padding_mask=padding,
                    tgt_key_padding_mask=~there,
                    tgt_is_causal=True,
                )
            )

    return Plain()
