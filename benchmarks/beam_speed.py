"""What beam search costs beside the model: a Stepper that gives tables made before, 8,000 tokens,
beam 5, 30 steps.

The peer is the least that any search must do in torch: the sums of log-probabilities and `topk`
over them, without bookkeeping. The last column is what of our time is not the kernel that chooses
(`kernels/beam.advance`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.side_by_side import alternate, collect, sized, table
from seqloom.decoding.beam import beam_search

Row = tuple[str, str, str, str, str]
VOCABULARY, STEPS, BEAMS = sized(8_000, 50), sized(30, 3), 5
TABLES = 3


def run(quick: bool, only: str) -> None:
    try:
        import torch
    except ImportError:
        print("(skipped: torch is not installed)")
        return
    torch.set_num_threads(1)
    rows = collect({f"batch {n}": partial(batch, n, quick) for n in (1, 32)}, only)
    table(
        f"Beam search without a model: {VOCABULARY:,} tokens, beam {BEAMS}, microseconds a step",
        rows,
        (
            "what",
            "torch sum and topk",
            "seqloom, whole search",
            "ratio",
            "of it outside the kernel",
        ),
    )


class Tables:
    """A Stepper without a model; the end symbol is so unlikely that every search takes all steps."""

    vocab_size, eos_id = VOCABULARY, 0

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(0)
        logits = rng.normal(0, 2, (TABLES, n * BEAMS, VOCABULARY)).astype(np.float32)
        logits[:, :, self.eos_id] = -30
        self.tables = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
        self.steps = 0

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        return (np.arange(n),), self.tables[0, :n]

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        self.steps += 1
        return state, self.tables[self.steps % TABLES, : len(ids)]


def batch(n: int, quick: bool) -> Iterator[Row]:
    import torch

    from seqloom.kernels import beam as kernels

    stepper, prompts, inside = Tables(n), [np.empty(0, np.int64)] * n, [0.0]
    tables, totals, advance = (
        torch.from_numpy(stepper.tables),
        torch.zeros(n, BEAMS, 1),
        kernels.advance,
    )
    shares = []

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        result = advance(*arguments)
        inside[0] += time.perf_counter() - start
        return result

    def ours() -> float:
        inside[0], start = 0.0, time.perf_counter()
        beam_search(stepper, prompts, beams=BEAMS, max_tokens=STEPS)
        spent = time.perf_counter() - start
        shares.append((spent - inside[0]) / STEPS)
        return spent / STEPS

    def theirs() -> float:
        start = time.perf_counter()
        for i in range(STEPS):
            (totals + tables[i % TABLES].view(n, BEAMS, VOCABULARY)).view(n, -1).topk(BEAMS)
        return (time.perf_counter() - start) / STEPS

    kernels.advance = timed
    try:
        ours(), theirs(), shares.clear()
        ratio = alternate(ours, theirs, 2 if quick else 40 if n == 1 else 15)
    finally:
        kernels.advance = advance
    yield (
        f"batch {n}",
        f"{ratio.peer * 1e6:.0f}",
        f"{ratio.ours * 1e6:.0f}",
        str(ratio),
        f"{np.median(shares) * 1e6:.0f}",
    )
