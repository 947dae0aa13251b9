"""Networks of every task, fitted by one process or by several, and hashes of their weights.

python -m tests.training.several '{"names": [...], "train": {...}}'      # one of several: RANK, ...
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.arrays import digest
from seqloom.registry import model_class
from seqloom.training import ranks
from seqloom.training.config import TrainConfig
from tests.fuzz import specimens

ROOT = Path(__file__).parents[2]
PATIENCE = 900  # seconds after which a test has failed, however busy the machine is
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


def hashes_of_specimens(
    names: Sequence[str], train: Mapping[str, Any], place: Path
) -> dict[str, str]:
    """The same of the small models of every kind, by a process that does nothing else."""
    specimens.TrainConfig = lambda **own: TrainConfig(**{**own, **train})  # type: ignore[assignment, misc]
    # The path of an encoder is among the options of a model.
    specimens.TemporaryDirectory = lambda: nullcontext(place)  # type: ignore[assignment, misc]
    return {name: digest(specimens.SPECIMENS[name]().weights) for name in names}


def divided() -> dict[str, float]:
    """Let torch divide a GPT between the processes; return how far its outputs and its gradients are from
    those of the whole one.
    """
    import torch
    from torch.distributed.fsdp import fully_shard

    from seqloom.models.language.configs import GPTConfig
    from seqloom.models.language.language_net import GPTLanguageNet

    config = GPTConfig(n_layers=2, n_heads=2, context=12)
    ids = torch.arange(24).view(2, 12) % 9
    networks = []
    for _ in range(2):
        torch.manual_seed(0)
        networks.append(GPTLanguageNet(config, 9, 8))
    whole, parted = networks
    for block in parted.blocks:
        fully_shard(block)
    fully_shard(parted)
    outputs = [network(ids)[0] for network in networks]
    for output in outputs:
        output.square().sum().backward()
    owned = [p.to_local().numel() for p in parted.parameters()]
    gradients = [
        float((p.grad - q.grad.full_tensor()).abs().max() / p.grad.abs().max())
        for p, q in zip(whole.parameters(), parted.parameters())
        if p.grad is not None
    ]
    return {
        "outputs": float((outputs[0] - outputs[1]).detach().abs().max()),
        "gradients": max(gradients),
        "share": sum(owned) / sum(p.numel() for p in whole.parameters()),
    }


def in_groups(groups: Sequence[Mapping[str, Any]], place: Path) -> list[list[tuple[int, str]]]:
    """Let groups of processes do their jobs, one group after the other; return of each process its exit code
    and what it says.

    A group: the `job` ("names", "train", or "specimens" too) and, of each process, variables of its
    `environments` besides those that its place in the group gives it.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.several"],
        input=json.dumps([str(place), list(groups)]),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return [[(code, said) for code, said in group] for group in json.loads(done.stdout)]


def serve() -> None:
    """Import everything once, and be forked for each process."""
    import torch.optim

    import seqloom.training.loop  # noqa: F401

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)  # which imports much more
    place, groups = json.loads(sys.stdin.read())
    answers = []
    for number, group in enumerate(groups):
        children = {}
        for rank, variables in enumerate(group["environments"]):
            said = Path(place) / f"said-{number}-{rank}"
            common = {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(group["environments"])),
                "LOCAL_WORLD_SIZE": str(len(group["environments"])),
                ranks.MEETING: str(Path(place) / f"meeting-{number}"),
            }
            if (child := os.fork()) == 0:
                os.environ.update({**common, **variables})
                os._exit(_do(group["job"], said))
            children[child] = said
        ended = {child: os.waitpid(child, 0)[1] for child in children}
        answers.append(
            [
                (os.waitstatus_to_exitcode(ended[c]), said.read_text())
                for c, said in children.items()
            ]
        )
    print(json.dumps(answers))


def _do(job: Mapping[str, Any], said: Path) -> int:
    """Be one process of a group; write the hashes, or the error, and return the exit code."""
    os.dup2(os.pipe()[0], 0)  # a standard input that stays open, as that of the launcher
    try:
        with ranks.joined():
            if job.get("divided"):
                answer: Any = divided()
            elif job.get("specimens"):
                answer = hashes_of_specimens(job["names"], job["train"], said.parent)
            else:
                answer = hashes(job["names"], job["train"])
            said.write_text(json.dumps(answer))
    except Exception as error:
        said.write_text(f"{type(error).__name__}: {error}")
        return int(getattr(error, "exit_code", 70))
    return 0


if __name__ == "__main__":
    serve()
