"""The softmax layer and its loss: chunked and fused against torch's Linear + cross_entropy; time
and peak memory.

Both sides compute the same loss and the same gradients, 20 x 35 tokens, two threads. The last rows
put torch's own LSTM under both, so that only the output differs.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from benchmarks.side_by_side import Ratio, alternate, collect, sized, table

Row = tuple[str, str, str, str]
BATCH, STEPS = 20, 35


def run(quick: bool, only: str) -> None:
    try:
        import torch
    except ImportError:
        print("(skipped: torch is not installed)")
        return
    torch.set_num_threads(2)
    times = 2 if quick else 9
    suites = {
        "loss": lambda: loss_rows(times),
        "lstm": lambda: lstm_rows(times),
        "memory": memory_rows,
    }
    rows = collect(suites, only)
    table("softmax and loss", rows, ("figure", "peer", "ours", "ours against the peer"))


def loss_rows(times: int) -> Iterator[Row]:
    import torch
    import torch.nn.functional as F

    from seqloom.nn.losses import linear_cross_entropy

    peak = sgemm_peak()
    for vocab_size, width in sized(
        ((10_000, 200), (10_000, 650), (33_278, 200), (33_278, 400)), ((50, 8),)
    ):
        torch.manual_seed(0)
        n = BATCH * STEPS
        features = torch.randn(n, width, requires_grad=True)
        weight = (0.05 * torch.randn(vocab_size, width)).requires_grad_()
        bias = torch.zeros(vocab_size, requires_grad=True)
        targets = torch.randint(vocab_size, (n,))
        leaves = (features, weight, bias)

        def ours(leaves=leaves, targets=targets) -> torch.Tensor:  # type: ignore[no-untyped-def]
            return linear_cross_entropy(*leaves, targets)

        def theirs(leaves=leaves, targets=targets) -> torch.Tensor:  # type: ignore[no-untyped-def]
            return F.cross_entropy(F.linear(*leaves), targets)

        difference = abs(ours().item() - theirs().item())
        ratio = alternate(timed(ours, leaves), timed(theirs, leaves), times)
        share = 3 * 2 * n * vocab_size * width / ratio.ours / peak
        yield (
            f"loss and gradients, V = {vocab_size:,}, D = {width}, loss differs by {difference:.0e}",
            f"torch, {ratio.peer * 1e3:.0f} ms",
            f"{ratio.ours * 1e3:.0f} ms, {share:.0%} of the sgemm peak",
            shown(ratio),
        )


def lstm_rows(times: int) -> Iterator[Row]:
    import torch

    for width in sized((200, 650), (8,)):
        steps = []
        for kind in ("ours", "full"):
            torch.manual_seed(0)
            loss, parameters = lstm_step(kind, sized(10_000, 50), width)
            steps.append(timed(loss, parameters))
        ratio = alternate(*steps, times)
        yield (
            f"training step without optimiser, torch's LSTM 2 x {width} on both sides, V = 10,000",
            f"cross_entropy, {ratio.peer * 1e3:.0f} ms",
            f"{ratio.ours * 1e3:.0f} ms",
            shown(ratio),
        )


def memory_rows() -> Iterator[Row]:
    """A process each: what a second training step needs above what rests between steps."""
    for width in sized((200, 650), (8,)):
        need = {}
        for kind in ("ours", "full"):
            code = (
                "from benchmarks.softmax_speed import print_peak; "
                f"print_peak({kind!r}, {sized(50_000, 500)}, {width})"
            )
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            if done.returncode != 0:
                print(f"(skipped: peak memory, {done.stderr.strip().splitlines()[-1]})")
                return
            need[kind] = [int(part) for part in done.stdout.split()]
        (ours, ours_all), (full, full_all) = need["ours"], need["full"]
        yield (
            f"peak memory of a training step above rest, LSTM 2 x {width}, V = 50,000 (and of the "
            f"whole process)",
            f"full logits, {full / 1e6:.0f} MB ({full_all / 1e6:.0f})",
            f"{ours / 1e6:.0f} MB ({ours_all / 1e6:.0f})",
            f"{ours / full:.2f} of it",
        )


def lstm_step(kind: str, vocab_size: int, width: int) -> tuple[Callable, list]:
    """A language model of torch's parts; its loss by `kind`, and its parameters."""
    import torch
    import torch.nn.functional as F

    from seqloom.nn.losses import linear_cross_entropy

    embedding, lstm = (
        torch.nn.Embedding(vocab_size, width),
        torch.nn.LSTM(width, width, 2, batch_first=True),
    )
    output = torch.nn.Linear(width, vocab_size)
    ids = torch.randint(vocab_size, (BATCH, STEPS + 1))

    def loss() -> torch.Tensor:
        features = lstm(embedding(ids[:, :-1]))[0].flatten(0, 1)
        targets = ids[:, 1:].flatten()
        if kind == "ours":
            return linear_cross_entropy(features, output.weight, output.bias, targets)
        return F.cross_entropy(output(features), targets)

    return loss, [*embedding.parameters(), *lstm.parameters(), *output.parameters()]


def print_peak(kind: str, vocab_size: int, width: int) -> None:
    """Bytes of the second step's peak above rest, and of the process; the kernel's own count (Linux)."""
    import torch

    torch.set_num_threads(2)
    loss, parameters = lstm_step(kind, vocab_size, width)
    optimiser = torch.optim.SGD(parameters, lr=0.1)
    for step in range(2):
        if step == 1:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # the peak begins again at what is used now
            rest = _status("VmRSS")
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
        optimiser.zero_grad()
    print(_status("VmHWM") - rest, _status("VmHWM"))


def _status(name: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))


def timed(loss: Callable, parameters: list | tuple) -> Callable[[], float]:
    """Seconds of a forward and backward pass, the median of three, gradients thrown away before each."""

    def seconds() -> float:
        spent = []
        for _ in range(3):
            for p in parameters:
                p.grad = None
            start = time.perf_counter()
            loss().backward()
            spent.append(time.perf_counter() - start)
        return sorted(spent)[1]

    seconds()
    return seconds


def sgemm_peak() -> float:
    """The best rate of a square product here, in operations a second."""
    import torch

    n = sized(2048, 64)
    a, out, best = torch.randn(n, n), torch.empty(n, n), 0.0
    for _ in range(7):
        start = time.perf_counter()
        torch.mm(a, a, out=out)
        best = max(best, 2 * n**3 / (time.perf_counter() - start))
    return best


def shown(ratio: Ratio) -> str:
    return f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})"
