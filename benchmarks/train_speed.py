"""Training speed of networks against torch.nn, two threads unless $OMP_NUM_THREADS says otherwise.

`recurrence`: forward and backward pass of the recurrent layers alone, batch 20 of 35 steps as in Zaremba et al. (2014).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.side_by_side import Ratio, alternate, collect, table

Row = tuple[str, str, str, str]
BATCH, STEPS = 20, 35


def run(quick: bool, only: str) -> None:
    try:
        import torch
    except ImportError:
        print("(skipped: torch is not installed)")
        return
    bench = Bench(quick)
    rows = collect(bench.suites(), only)
    title = f"training speed (torch {torch.__version__}, {torch.get_num_threads()} threads)"
    table(title, rows, ("figure", "peer", "ours", "ours against the peer"))


class Bench:
    def __init__(self, quick: bool) -> None:
        self.times = 2 if quick else 9
        self.sizes = (200,) if quick else (200, 650)

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {"recurrence": self.recurrence}

    def recurrence(self) -> Iterator[Row]:
        """Two layers; weights copied, so both must give the same outputs."""
        import torch

        from seqloom.nn.recurrent import RecurrentStack

        peers = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM, "rnn": torch.nn.RNN}
        for width in self.sizes:
            x = torch.randn(BATCH, STEPS, width, requires_grad=True)
            ours = {cell: RecurrentStack(width, width, 2, cell=cell) for cell in peers}
            repeats = 10 if width < 400 else 3
            for cell, stack in ours.items():
                peer = _same_weights(stack, peers[cell](width, width, 2, batch_first=True))
                difference = (stack(x)[0] - peer(x)[0]).abs().max().item()
                ratio = alternate(_timed(stack, x, repeats), _timed(peer, x, repeats), self.times)
                yield (f"{cell.upper()} 2 x {width}, forward and backward, outputs differ by {difference:.0e}",
                       f"nn.{cell.upper()} {ratio.peer * 1e3:.1f} ms", f"{ratio.ours * 1e3:.1f} ms", _shown(ratio))
            ratio = alternate(_timed(ours["gru"], x, repeats), _timed(ours["lstm"], x, repeats), self.times)
            yield (f"GRU against LSTM, 2 x {width}", f"our LSTM {ratio.peer * 1e3:.1f} ms",
                   f"our GRU {ratio.ours * 1e3:.1f} ms", _shown(ratio))


def _same_weights(stack: Any, peer: Any) -> Any:
    """The stack's weights in torch's module, whose second bias is zero but for the GRU's candidate."""
    import torch

    with torch.no_grad():
        for index, layer in enumerate(stack.layers):
            for theirs, own in (("weight_ih", layer.w_x), ("weight_hh", layer.w_h), ("bias_ih", layer.b)):
                getattr(peer, f"{theirs}_l{index}").copy_(own)
            second = getattr(peer, f"bias_hh_l{index}").zero_()
            if hasattr(layer, "b_h"):
                second[-layer.d_hidden :] = layer.b_h
    return peer


def _timed(module: Any, x: Any, repeats: int) -> Callable[[], float]:
    """Seconds of one forward and backward pass, the mean of a few; one before that does not count."""
    def once() -> None:
        out, _ = module(x)
        out.sum().backward()

    def measure() -> float:
        once()
        start = time.perf_counter()
        for _ in range(repeats):
            once()
        return (time.perf_counter() - start) / repeats

    return measure


def _shown(ratio: Ratio) -> str:
    return f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})"
