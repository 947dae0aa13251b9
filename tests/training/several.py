"""Networks of every task, fitted by one process or by several, and hashes of their weights.

python -m tests.training.several '{"names": [...], "train": {...}}'      # one of several: RANK, ...
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.arrays import digest
from seqloom.registry import model_class
from seqloom.training import ranks
from seqloom.training.config import TrainConfig
from tests.fuzz import specimens

ROOT = Path(__file__).parents[2]
PATIENCE = 300  # seconds after which a test has failed, however busy the machine is
RNG = np.random.default_rng(0)
LABELLED = [(" ".join(RNG.choice(["a", "b", "c", "d"], n)), "+-"[n % 2]) for n in range(1, 20)]
TAGGED = [(text.split(), [f"T{word}" for word in text.split()]) for text, _ in LABELLED]
REVERSED = [(text.replace(" ", ""), text.replace(" ", "")[::-1]) for text, _ in LABELLED[2:14]]


def _fitted(name: str, data: Any, **options: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda train: model_class(name)(**options).fit(data, train=TrainConfig(**train))


# Each with random numbers in its updates; those of texts with a state that is carried on, or without.
NETWORKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "lstm": _fitted(
        "lstm", specimens.TEXT * 4, tokenizer="char", unit="stream", d_hidden=12, dropout=0.2
    ),
    "gru": _fitted(
        "gru",
        specimens.TEXT,
        tokenizer="whitespace",
        unit="line",
        d_hidden=8,
        n_layers=2,
        dropout=0.3,
        softmax="sampled",
        samples=5,
    ),
    "gpt": _fitted(
        "gpt",
        specimens.TEXT,
        tokenizer="char",
        d_model=16,
        n_layers=2,
        n_heads=2,
        context=12,
        dropout=0.2,
    ),
    "classifier": _fitted("classifier", LABELLED, d_hidden=8, d_embed=6, dropout=0.3),
    "tagger": _fitted("tagger", TAGGED, d_hidden=8, d_embed=6, d_characters=4, dropout=0.3),
    "answerer": _fitted("answerer", specimens.QUESTIONS * 3, d_hidden=6, d_embed=4, dropout=0.2),
    "forecaster": _fitted(
        "forecaster", specimens.WAVE, horizon=4, window=8, d_hidden=8, dropout=0.2
    ),
    "transformer": _fitted(
        "transformer",
        REVERSED,
        tokenizer="char",
        d_model=8,
        n_heads=2,
        n_layers=1,
        n_decoder_layers=1,
        dropout=0.2,
    ),
    "seq2seq": _fitted(
        "seq2seq",
        REVERSED,
        tokenizer="char",
        d_embed=6,
        d_hidden=4,
        dropout=0.2,
        scheduled_sampling="linear",
    ),
}


def hashes(names: Sequence[str], train: Mapping[str, Any]) -> dict[str, str]:
    """Fit these networks with these options of training, and return a hash of the weights of each."""
    return {name: digest(NETWORKS[name](dict(train)).weights) for name in names}


def hashes_of_specimens(names: Sequence[str], train: Mapping[str, Any]) -> dict[str, str]:
    """The same of the small models of every kind."""
    before = specimens.TrainConfig
    specimens.TrainConfig = lambda **own: TrainConfig(**{**own, **train})  # type: ignore[assignment, misc]
    try:
        return {name: digest(specimens.SPECIMENS[name]().weights) for name in names}
    finally:
        specimens.TrainConfig = before  # type: ignore[misc]


def environment(meeting: Path, rank: int, size: int, **more: str) -> dict[str, str]:
    """What a process finds that is one of several."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        ranks.MEETING: str(meeting),
        **more,
    }


def in_processes(
    size: int, place: Path, job: Mapping[str, Any], **more: Sequence[str]
) -> list[tuple[int, str, str]]:
    """Run a job in so many processes; return exit code, output and errors of each. `more`: further
    variables, a value for each.
    """
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.training.several", json.dumps(dict(job))],
            env=environment(
                place / "meeting", rank, size, **{key: each[rank] for key, each in more.items()}
            ),
            cwd=place,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    done = [child.communicate(timeout=PATIENCE) for child in children] if size == 1 else None
    if done is None:  # `communicate` would close the stdin of one while others still need theirs
        for child in children:
            child.wait(PATIENCE)
        done = [child.communicate() for child in children]
    return [(child.returncode, *said) for child, said in zip(children, done)]


def main() -> None:
    job = json.loads(sys.argv[1])
    with ranks.joined():
        fit = hashes_of_specimens if job.get("specimens") else hashes
        print(json.dumps(fit(job["names"], job["train"])))


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 1))
