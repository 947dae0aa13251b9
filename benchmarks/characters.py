"""Characters of tinyshakespeare: how far a network gets in the time that nanoGPT's recipe for a CPU takes.

    NANOGPT=checkout make bench ARGS="characters"

nanoGPT (a checkout with its data prepared) runs its README's recipe for a CPU, and then ours train
for as long: on the same first nine tenths, judged on the same last tenth, in nats for each
character. Without a checkout ours train for two minutes. Pieces of words are scored exactly, and
every character pays, so the numbers compare.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import bundled_text, sized, table

Row = tuple[str, ...]
RECIPE = (
    "config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=20 "
    "--log_interval=100 --block_size=64 "
    "--batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 --max_iters=2000 --lr_decay_iters=2000 --dropout=0.0"
)
OURS: dict[
    str, tuple[str, dict[str, Any], dict[str, Any]]
] = {  # name: model, its options, those of training
    "LSTM, pieces of words": (
        "lstm",
        {
            "tokenizer": "bpe",
            "vocab_size": 4000,
            "softmax": "sampled",
            "samples": 512,
            "d_hidden": 256,
            "dropout": 0.2,
            "input_dropout": 0.1,
        },
        {"optimizer": "adamw"},
    ),
    "GPT, pieces of words": (
        "gpt",
        {
            "tokenizer": "bpe",
            "vocab_size": 4000,
            "softmax": "sampled",
            "samples": 512,
            "context": 64,
            "n_layers": 2,
            "dropout": 0.1,
        },
        {"optimizer": "adamw"},
    ),
}


def run(quick: bool, only: str) -> None:
    rows = []
    for row in _rows(quick, only):
        rows.append(row)
        print("...", *row, flush=True)
    table(
        "tinyshakespeare, last tenth", rows, ("model", "nats a character", "training", "signature")
    )


def _rows(quick: bool, only: str) -> Iterator[Row]:
    from seqloom import Mixture, NGram, progress
    from seqloom.registry import model_class
    from seqloom.reporters import PlainReporter
    from seqloom.training.config import TrainConfig

    text = bundled_text()
    cut = len(text) * 9 // 10
    train, test = text[:cut], text[cut:]
    inner = cut * 19 // 20  # the end of the training part weighs the members of a mixture
    seconds = 6.0 if quick else 120.0
    if os.environ.get("NANOGPT") and not quick:
        loss, seconds = _nanogpt(Path(os.environ["NANOGPT"]))
        yield "nanoGPT, its recipe for a CPU", f"{loss:.3f}", f"{seconds:.0f} s", "-"
    for order in (6, 7):
        start = time.perf_counter()
        model = NGram(order=order, tokenizer="byte", unit="stream").fit(train)
        yield _row(f"byte {order}-gram", model, test, time.perf_counter() - start)
    with progress.reporting(PlainReporter()):
        for name, (kind, options, training) in OURS.items():
            if only and only not in name:
                continue
            start = time.perf_counter()
            model = model_class(kind)(unit="stream", **options)
            model.fit(
                train,
                train=TrainConfig(**sized({"minutes": seconds / 60}, {"steps": 2}), **training),
            )
            yield _row(name, model, test, time.perf_counter() - start)
        mixed = Mixture.of(_members(train[:inner])).fit(train[inner:])
        mixed.members = _members(train)  # the weights are known: now they may learn from all of it
        yield _row("mixture of byte n-grams and cache", mixed, test, 0.0)


def _members(text: str) -> list[Any]:
    from seqloom import Cache, NGram

    counted = [NGram(order=n, tokenizer="byte", unit="stream").fit(text) for n in range(3, 9)]
    return [
        *counted,
        Cache(tokenizer="byte", unit="stream", window=2000).fit(
            text, tokenizer=counted[0].tokenizer
        ),
    ]


def _row(name: str, model: Any, test: str, seconds: float) -> Row:
    result = model.evaluate(test, samples=0)
    steps = f", {model.fit_info['steps']:,} steps" if "steps" in model.fit_info else ""
    return (
        name,
        f"{result['bits_per_byte'] * math.log(2):.3f}",
        f"{seconds:.0f} s{steps}" if seconds >= 1 else "-",
        f"`{result.signature}`",
    )


def _nanogpt(place: Path) -> tuple[float, float]:
    """Its best loss on the last tenth, and its seconds."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "train.py", *RECIPE.split()],
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
    )
    return min(
        float(x) for x in re.findall(r"val loss ([\d.]+)", done.stdout)
    ), time.perf_counter() - start
