"""Training speed of networks against torch.nn, two threads unless $OMP_NUM_THREADS says otherwise.

`ragged`: both directions over 32 sentences as taggers train, ours without the final state, torch's
packed; of 22 to 28 tokens, as bucketed batches are, and of 5 to 45, where ours computes nearly as
much padding as text. `recurrence`: forward and backward pass of the recurrent layers alone, batch
20 of 35 steps as in Zaremba et al. (2014). `step`: the same with token vectors and a softmax over
10,000 words, without the optimiser, which is torch's on both sides; with the share of the machine's
peak in matrix products that each reaches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.side_by_side import Ratio, alternate, collect, sized, table

Row = tuple[str, str, str, str]
BATCH, STEPS, WORDS = 20, sized(35, 3), sized(10_000, 50)


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
        self.sizes = sized((200,) if quick else (200, 650), (8,))

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {"recurrence": self.recurrence, "ragged": self.ragged, "step": self.step}

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
                yield (
                    f"{cell.upper()} 2 x {width}, forward and backward, outputs differ by {difference:.0e}",
                    f"nn.{cell.upper()} {ratio.peer * 1e3:.1f} ms",
                    f"{ratio.ours * 1e3:.1f} ms",
                    _shown(ratio),
                )
            ratio = alternate(
                _timed(ours["gru"], x, repeats), _timed(ours["lstm"], x, repeats), self.times
            )
            yield (
                f"GRU against LSTM, 2 x {width}",
                f"our LSTM {ratio.peer * 1e3:.1f} ms",
                f"our GRU {ratio.ours * 1e3:.1f} ms",
                _shown(ratio),
            )

    def ragged(self) -> Iterator[Row]:
        """One layer in both directions over a batch of sentences; weights copied, so both must give
        the same outputs.
        """
        import torch
        from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

        from seqloom.nn.recurrent import RecurrentStack

        whole = (
            ("lstm", 128, 22, 28),
            ("lstm", 256, 22, 28),
            ("gru", 128, 22, 28),
            ("lstm", 128, 5, 45),
            ("gru", 128, 5, 45),
        )
        for cell, width, least, most in sized(whole, (("lstm", 8, 2, 5), ("gru", 8, 2, 5))):
            lengths = torch.linspace(least, most, 32).long()[
                torch.randperm(32, generator=torch.Generator().manual_seed(0))
            ]
            stack = RecurrentStack(width, width, cell=cell, bidirectional=True)
            peer = _same_weights(
                stack,
                getattr(torch.nn, cell.upper())(width, width, batch_first=True, bidirectional=True),
            )
            x = torch.randn(32, int(lengths.max()), width, requires_grad=True)

            def ours(x: Any, stack: Any = stack, lengths: Any = lengths) -> Any:
                return stack(x, None, lengths, final_state=False)

            def theirs(x: Any, peer: Any = peer, lengths: Any = lengths) -> Any:
                packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
                return pad_packed_sequence(peer(packed)[0], batch_first=True)

            difference = (ours(x)[0] - theirs(x)[0]).abs().max().item()
            ratio = alternate(_timed(ours, x, 10), _timed(theirs, x, 10), self.times)
            yield (
                f"{cell.upper()} {width} both ways, {least} to {most} tokens, outputs differ by "
                f"{difference:.0e}",
                f"nn.{cell.upper()} packed {ratio.peer * 1e3:.1f} ms",
                f"{ratio.ours * 1e3:.1f} ms",
                _shown(ratio),
            )

    def step(self) -> Iterator[Row]:
        """Equal weights, so both must give the same loss."""
        import torch
        import torch.nn.functional as F

        from seqloom.nn.losses import linear_cross_entropy
        from seqloom.nn.recurrent import RecurrentStack

        peak = _sgemm_peak()
        for width in self.sizes:
            ids = torch.randint(WORDS, (BATCH, STEPS + 1))
            embedding, output = torch.nn.Embedding(WORDS, width), torch.nn.Linear(width, WORDS)
            shared = [*embedding.parameters(), *output.parameters()]
            for cell, gates in (("gru", 3), ("lstm", 4)):
                stack = RecurrentStack(width, width, 2, cell=cell)
                peer = _same_weights(
                    stack, getattr(torch.nn, cell.upper())(width, width, 2, batch_first=True)
                )

                def ours(
                    stack: Any = stack, ids: Any = ids, e: Any = embedding, o: Any = output
                ) -> Any:
                    return linear_cross_entropy(
                        stack(e(ids[:, :-1]))[0].flatten(0, 1),
                        o.weight,
                        o.bias,
                        ids[:, 1:].flatten(),
                    )

                def theirs(
                    peer: Any = peer, ids: Any = ids, e: Any = embedding, o: Any = output
                ) -> Any:
                    return F.cross_entropy(
                        o(peer(e(ids[:, :-1]))[0]).flatten(0, 1), ids[:, 1:].flatten()
                    )

                difference = abs(ours().item() - theirs().item())
                repeats = 6 if width < 400 else 2
                ratio = alternate(
                    _repeated(ours, [*stack.parameters(), *shared], repeats),
                    _repeated(theirs, [*peer.parameters(), *shared], repeats),
                    self.times,
                )
                products = (
                    6 * BATCH * STEPS * (4 * gates * width * width + WORDS * width)
                )  # 2 forward, 4 backward
                shares = [products / seconds / peak for seconds in (ratio.peer, ratio.ours)]
                yield (
                    f"{cell.upper()} 2 x {width}, whole step, V = {WORDS:,}, losses differ by "
                    f"{difference:.0e}",
                    f"nn.{cell.upper()} + Linear + cross_entropy {ratio.peer * 1e3:.0f} ms, "
                    f"{shares[0]:.0%} of peak",
                    f"{ratio.ours * 1e3:.0f} ms, {shares[1]:.0%} of peak",
                    _shown(ratio),
                )


def _sgemm_peak() -> float:
    """Operations a second of a large product."""
    import torch

    n = sized(1024, 64)
    a, b = torch.randn(n, n), torch.randn(n, n)
    a @ b
    times = []
    for _ in range(7):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return 2 * n**3 / min(times)


def _repeated(loss: Callable[[], Any], parameters: list[Any], repeats: int) -> Callable[[], float]:
    """Seconds of a forward and backward pass, gradients thrown away before each."""

    def measure() -> float:
        start = 0.0
        for number in range(repeats + 1):
            if number == 1:
                start = time.perf_counter()  # the first does not count
            for p in parameters:
                p.grad = None
            loss().backward()
        return (time.perf_counter() - start) / repeats

    return measure


def _same_weights(stack: Any, peer: Any) -> Any:
    """The stack's weights in torch's module, whose second bias is zero but for the GRU's candidate."""
    import torch

    with torch.no_grad():
        cells = [
            (f"l{index}{suffix}", cell)
            for index, layer in enumerate(stack.layers)
            for suffix, cell in (("", layer), ("_reverse", layer.reverse))
            if cell is not None
        ]
        for end, cell in cells:
            for theirs, own in (
                ("weight_ih", cell.w_x),
                ("weight_hh", cell.w_h),
                ("bias_ih", cell.b),
            ):
                getattr(peer, f"{theirs}_{end}").copy_(own)
            second = getattr(peer, f"bias_hh_{end}").zero_()
            if hasattr(cell, "b_h"):
                second[-cell.d_hidden :] = cell.b_h
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
