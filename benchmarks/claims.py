"""Every figure of recipes/transformers-and-recurrence.md: what is said of Transformers and
recurrent networks, measured small.

    make bench ARGS="claims"                          # all rows, roughly a quarter of an hour of one core
    make bench ARGS="claims --only 'positions alibi'"  # one of them; rows do not depend on each other
    make bench ARGS="claims --only chart"             # draw the picture again, from the table of the page

Times are CPU seconds of one thread, the least of several runs, so they hardly depend on what else
the machine does. What learns is in `claims_learning`; seeds are stated there.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import claims_learning as learning
from benchmarks.side_by_side import collect, sized, table

Row = tuple[str, str, str]
WIDTH, HEADS = 128, 4
LENGTHS = sized((128, 256, 512, 1024, 2048), (8, 16, 32))
DRAWN = sized(2000, 20)  # queries
KINDS = ("gru", "transformer, fused attention", "transformer, attention written out")


def run(quick: bool, only: str) -> None:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    suites: dict[str, Callable[[], Iterator[Row]]] = {
        f"cost {kind}": partial(cost, kind, quick) for kind in KINDS
    }
    suites |= {
        "heads": partial(heads, quick),
        "additive": partial(additive, quick),
        "variance": variance,
    }
    suites |= learning.suites(quick)
    try:
        table("claims", collect(suites, only), ("row", "result", "how"))
    finally:
        torch.set_num_threads(threads)


def cost(kind: str, quick: bool) -> Iterator[Row]:
    """Time and peak memory of one layer against the length of its one sequence, with fitted exponents."""
    from seqloom.comparison.timing import peak_memory

    lengths = LENGTHS[:3] if quick else LENGTHS
    seconds, peaks = [], []
    for length in lengths:
        step = _layer(kind, length)
        seconds.append(least_seconds(step, 2 if quick else 4))
        _give_back()
        with peak_memory() as measured:
            step()
        peaks.append((measured.peak or 0) / 1e6)
    for what, values in (("milliseconds", [1e3 * s for s in seconds]), ("peak MB", peaks)):
        if min(values) > 0:  # where the system tells
            yield (
                f"{kind}: {what} at {', '.join(map(str, lengths))} tokens",
                ", ".join(f"{value:.1f}" for value in values),
                f"exponent {exponent(lengths, values):.2f}, of the last two doublings "
                f"{exponent(lengths[-3:], values[-3:]):.2f}",
            )


def _layer(kind: str, length: int) -> Callable[[], None]:
    """Forward and backward pass of one layer of WIDTH over one sequence; the Transformer's block is
    causal.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from seqloom.nn.attention import Attention, Mask
    from seqloom.nn.recurrent import RecurrentStack
    from seqloom.nn.transformer import ACTIVATIONS, MLP, Block

    torch.manual_seed(0)
    x = torch.randn(1, length, WIDTH)
    gru = RecurrentStack(WIDTH, WIDTH, cell="gru")
    block = Block(WIDTH, Attention(WIDTH, HEADS), MLP(WIDTH, 4 * WIDTH, ACTIVATIONS["gelu"]))
    backend = SDPBackend.MATH if kind.endswith("written out") else SDPBackend.FLASH_ATTENTION

    def step() -> None:
        if kind == "gru":
            gru(x)[0].sum().backward()
        else:
            with sdpa_kernel(backend):
                block(x, Mask(causal=True))[0].sum().backward()

    return step


def _give_back() -> None:
    """Freed memory to the system (glibc), so that the next peak counts all that is used."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def heads(quick: bool) -> Iterator[Row]:
    """The same width in one head or in many."""
    import torch

    from seqloom.nn.attention import Attention, Mask

    torch.manual_seed(0)
    length, width = (64 if quick else 256), sized(256, 16)
    x = torch.randn(1, length, width)
    counts = (1, 4, 8, 16)

    def step(attention: Attention) -> None:
        attention(x, Mask(causal=True))[0].sum().backward()

    seconds = [least_seconds(partial(step, Attention(width, count)), 5) for count in counts]
    yield (
        f"attention of width {width} over {length} tokens in {', '.join(map(str, counts))} heads: "
        f"time against one head",
        ", ".join(f"{s / seconds[0]:.2f}" for s in seconds),
        "forward and backward pass, projections included",
    )


def additive(quick: bool) -> Iterator[Row]:
    """Additive attention against the scaled product, from as many queries to as many keys."""
    import torch

    from seqloom.nn.memory import MemoryAttention

    torch.manual_seed(0)
    for width in (64,) if quick else (64, 256):
        x = torch.randn(4, 128, width)

        def step(attention: Any, x: Any = x) -> None:
            attention(x, x, attention.keys(x))[0].sum().backward()

        x.requires_grad_()
        spent = {
            score: least_seconds(partial(step, MemoryAttention(score, width, width)), 5)
            for score in ("additive", "general", "scaled")
        }
        yield (
            f"additive, bilinear attention of width {width}, 128 queries and keys: time against "
            f"the scaled product",
            f"{spent['additive'] / spent['scaled']:.1f}, {spent['general'] / spent['scaled']:.1f}",
            "forward and backward pass, batch of 4",
        )


def variance() -> Iterator[Row]:
    """Of q'k for independent normal q and k, and what the softmax over 64 keys makes of it."""
    draw = np.random.default_rng(0)
    for d in (4, 64, 512):
        q, k = draw.standard_normal((DRAWN, d)), draw.standard_normal((DRAWN, 64, d))
        products = np.einsum("nd,nkd->nk", q, k)
        largest = [float(_softmax(products / scale).max(1).mean()) for scale in (1.0, math.sqrt(d))]
        yield (
            f"q'k of d_k = {d}: variance; divided by sqrt(d_k)",
            f"{products.var():.1f}; {(products / math.sqrt(d)).var():.2f}",
            f"largest of 64 attention weights, mean: {largest[0]:.2f} unscaled, {largest[1]:.2f} "
            f"scaled (seed 0)",
        )


def _softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def least_seconds(work: Callable[[], object], times: int) -> float:
    """CPU seconds of one thread; the first run is not counted."""
    work()
    spent = []
    for _ in range(times):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


def exponent(sizes: Any, values: Any) -> float:
    """Of values ~ sizes^exponent, by least squares between the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
