"""The CRF side by side with pytorch-crf: loss and gradients, and best paths; one thread each.

Batches of 32 sentences of 5 to 45 tokens, 25 on average, with 9 tags (CoNLL-2003 in BIO) and 17
(the same in BIOES, or parts of speech). Both sides have the same parameters, emissions and tags;
ours is asked through torch, as in training.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.side_by_side import alternate, collect, peer, table

Row = tuple[str, str, str, str]
SENTENCES = 32


def run(quick: bool, only: str) -> None:
    import torch

    torch.set_num_threads(
        1
    )  # these tensors are too small for more, and a second one that waits would only slow the peer
    times = 2 if quick else 9
    suites = {"training": lambda: training_rows(times), "decoding": lambda: decoding_rows(times)}
    table(
        "conditional random fields",
        collect(suites, only),
        ("figure", "peer", "ours", "ours against the peer"),
    )


def problem(n_tags: int) -> tuple[Any, ...]:
    """Both sides with one set of parameters; emissions, tags, lengths and the mask that says the same."""
    import torch

    from seqloom.nn.crf import CRF

    torch.manual_seed(0)
    torchcrf, ours = peer("torchcrf"), CRF(n_tags)
    other = torchcrf and torchcrf.CRF(n_tags, batch_first=True)
    with torch.no_grad():
        for own, name in (
            (ours.start, "start_transitions"),
            (ours.transitions, "transitions"),
            (ours.end, "end_transitions"),
        ):
            own.uniform_(-1, 1)
            if other:
                getattr(other, name).copy_(own)
    lengths = torch.linspace(5, 45, SENTENCES).long()[torch.randperm(SENTENCES)]
    emissions = (2 * torch.randn(SENTENCES, int(lengths.max()), n_tags)).requires_grad_()
    tags = torch.randint(n_tags, emissions.shape[:2])
    return (
        ours,
        other,
        emissions,
        tags,
        lengths,
        torch.arange(emissions.shape[1]) < lengths[:, None],
    )


def training_rows(times: int) -> Iterator[Row]:
    for n_tags in (9, 17):
        ours, other, emissions, tags, lengths, mask = problem(n_tags)

        def loss(ours=ours, x=emissions, tags=tags, lengths=lengths) -> Any:  # type: ignore[no-untyped-def]
            return ours(x, tags, lengths)

        def theirs(other=other, x=emissions, tags=tags, mask=mask) -> Any:  # type: ignore[no-untyped-def]
            return -other(x, tags, mask=mask, reduction="sum")

        difference = abs(loss().item() / theirs().item() - 1) if other else math.nan
        ratio = alternate(
            timed(lambda f=loss: f().backward(), 20),
            other and timed(lambda f=theirs: f().backward(), 5),
            times,
        )
        yield (
            f"loss and gradients, K = {n_tags}, {SENTENCES} sentences, losses differ by {difference:.0e}",
            f"pytorch-crf, {ratio.peer * 1e3:.2f} ms",
            f"{ratio.ours * 1e3:.2f} ms",
            str(ratio),
        )


def decoding_rows(times: int) -> Iterator[Row]:
    for n_tags in (9, 17):
        ours, other, emissions, _, lengths, mask = problem(n_tags)
        emissions = emissions.detach()
        found = [
            path[:n].tolist() for path, n in zip(ours.decode(emissions, lengths), lengths.tolist())
        ]
        same = (
            sum(a == b for a, b in zip(found, other.decode(emissions, mask=mask))) if other else "?"
        )
        ratio = alternate(
            timed(lambda o=ours, x=emissions, n=lengths: o.decode(x, n), 20),
            other and timed(lambda p=other, x=emissions, m=mask: p.decode(x, mask=m), 5),
            times,
        )
        yield (
            f"best paths, K = {n_tags}, {SENTENCES} sentences, {same} of them equal",
            f"pytorch-crf, {ratio.peer * 1e3:.2f} ms",
            f"{ratio.ours * 1e3:.2f} ms",
            str(ratio),
        )


def timed(work: Callable[[], object], repeats: int) -> Callable[[], float]:
    """Seconds of one call, the mean of a few; one before that does not count."""

    def measure() -> float:
        work()
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        return (time.perf_counter() - start) / repeats

    return measure
