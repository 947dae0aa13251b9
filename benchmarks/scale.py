"""Beyond one process: updates that two processes share, against the same two cores used otherwise.

`networks`: a word LSTM of two layers of 650 and a GPT of six layers of 384, as `fit` trains them, one update
of about 1,024 tokens shared by two processes of one thread each. The peers are two processes that train
independent networks at the same time, which is all that two cores can do, and one process of two threads.
All are timed in turn, and the rate is that of both processes together.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.side_by_side import SMOKE, collect, sized, table

Row = tuple[str, str, str, str]
WORDS, TOKENS = sized(10_000, 50), sized(200_000, 4_000)
WARM, UPDATES, ROUNDS = sized(2, 1), sized(8, 1), sized(5, 1)
# what runs: processes, threads of each, shards of an update
SETTINGS = {"shared": (2, 1, 2), "independent": (2, 1, 1), "threads": (1, 2, 1)}
SAID = {
    "independent": "two independent processes",
    "threads": "one process of two threads",
}


def run(quick: bool, only: str) -> None:
    try:
        import torch
    except ImportError:
        print("(skipped: torch is not installed)")
        return
    rows = collect({"networks": lambda: networks(quick)}, only)
    table(f"scale (torch {torch.__version__})", rows, ("figure", "peer", "ours", "ours / peer"))


def networks(quick: bool) -> Iterator[Row]:
    for name, (label, _) in NETWORKS.items():
        rates: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
        for _ in range(1 if quick else ROUNDS):
            for setting in SETTINGS:
                rates[setting].append(rate(name, setting))
        for peer, said in SAID.items():
            ratios = [ours / theirs for ours, theirs in zip(rates["shared"], rates[peer])]
            yield (
                f"{label}, tokens/s against {said}",
                f"{median(rates[peer]):,.0f}",
                f"{median(rates['shared']):,.0f}",
                f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            )


def rate(name: str, setting: str) -> float:
    """Return the tokens per second of all processes together."""
    from seqloom.training import ranks

    processes, threads, shards = SETTINGS[setting]
    if SMOKE:  # in one process, which is not a second's import for each
        return measure(name, shards)
    with tempfile.TemporaryDirectory() as place:
        children = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.scale", name, str(shards)],
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": str(threads),
                    "RANK": str(rank),
                    "WORLD_SIZE": str(processes),
                    "LOCAL_WORLD_SIZE": str(processes),
                    ranks.MEETING: str(Path(place) / "meeting"),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for rank in range(processes)
        ]
        for child in children:
            child.wait()
        said = [json.loads(child.communicate()[0]) for child in children]
    # Of a shared update each process counts all tokens.
    return max(said) if shards > 1 else sum(said)


# ---- one process


def _lstm() -> Any:
    from seqloom.models.language.configs import LSTMConfig
    from seqloom.models.language.language_net import RecurrentNet

    return RecurrentNet(LSTMConfig(n_layers=2), "lstm", WORDS, sized(650, 8))


def _gpt() -> Any:
    from seqloom.models.language.configs import GPTConfig
    from seqloom.models.language.language_net import GPTLanguageNet

    config = GPTConfig(n_layers=sized(6, 1), n_heads=sized(6, 2), context=64)
    return GPTLanguageNet(config, WORDS, sized(384, 8))


NETWORKS: dict[str, tuple[str, Callable[[], Any]]] = {
    "lstm": ("LSTM 2 x 650", _lstm),
    "gpt": ("GPT 6 x 384", _gpt),
}


class Training:
    """What `fit` trains, on tokens that are drawn at random."""

    counted, unit = "tokens", "nats"

    def __init__(self, name: str) -> None:
        from seqloom.training.batches import Carried, Shuffled
        from seqloom.training.trainable import Criterion

        ids = np.random.default_rng(0).integers(0, WORDS, TOKENS)
        self.criterion, self.name = Criterion("nats"), name
        self.batches: Any = (
            Carried(ids, 0, batch_size=None, truncation=32)
            if name == "lstm"
            else Shuffled(ids, 0, batch_size=None, window=64)
        )

    def build(self) -> Any:
        return NETWORKS[self.name][1]()

    def loss(self, network: Any, batch: Any, state: Any) -> tuple[Any, Any]:
        from seqloom.models.network.output_net import summed_loss

        features, state = network(batch["inputs"], state)
        return summed_loss(network.output, features, batch), state

    def evaluate(self, network: Any) -> None:
        return None

    def readings(self, value: float, held_out: bool) -> dict[str, float]:
        return {}


def measure(name: str, shards: int) -> float:
    """Return the tokens per second of this process, which begins with the others."""
    import torch

    from seqloom.training.config import TrainConfig
    from seqloom.training.ranks import joined, share
    from seqloom.training.update import Updater

    with joined():
        updater = Updater(
            Training(name), TrainConfig(steps=100), torch.device("cpu"), shards=shards
        )
        for step in range(WARM):
            updater.update(step, 100, 1e-3)
        share([0.0])
        begun, tokens = time.perf_counter(), 0.0
        for step in range(WARM, WARM + UPDATES):
            tokens += updater.update(step, 100, 1e-3).targets
        spent = time.perf_counter() - begun
        share([0.0])  # nobody leaves while another still works
    return tokens / spent


if __name__ == "__main__":
    print(measure(sys.argv[1], int(sys.argv[2])))
