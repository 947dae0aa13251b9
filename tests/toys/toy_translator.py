"""A translator as another package would bring it: two tokenizers, an encoder's memory behind a
Stepper, judged by exact match.

The mean of the source's vectors starts a GRU that writes the target. It registers a task, a model
and a command of its own, without an edit in seqloom.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click
import numpy as np

from seqloom import registry, tasks
from seqloom.arrays import Spec
from seqloom.batching import pad
from seqloom.cli.options import common, emit, stdin_lines
from seqloom.config import TRAINS, Config, option
from seqloom.contracts.base import Model
from seqloom.decoding.beam import beam_search
from seqloom.errors import DataError
from seqloom.metrics.result import Result, Signature
from seqloom.models.network.network import prepare, train_network
from seqloom.tasks.task import Command, Task
from seqloom.text.tokenizer import Tokenizer
from seqloom.training.batches import Batch, Examples
from seqloom.training.config import TrainConfig


@dataclass(frozen=True)
class Pairs:
    sources: list[str]
    targets: list[str]
    name: str = "pairs"

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join([*self.sources, *self.targets]).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class PairsReading(Config):
    encoding: str = option("utf-8", "Encoding of the file.")


@dataclass(frozen=True, kw_only=True)
class ToyTranslatorConfig(Config):
    fit_arguments: ClassVar[frozenset[str]] = TRAINS

    d_hidden: int = option(16, "width of the network", minimum=1, maximum=1000)


class ToyTranslator(Model):
    task, name, config_class = "toy translator", "toy-translator", ToyTranslatorConfig

    def fit(
        self,
        data: Pairs,
        *,
        valid: Pairs | None = None,
        memory: Any = None,
        train: TrainConfig | None = None,
        device: str | None = None,
        run: Any = None,
    ) -> ToyTranslator:
        options = self.fit_options(memory, train, device, run, valid)
        config, place = prepare(self.name, options)
        with self.learning():
            self.tokenizers = {
                "source": Tokenizer(kind="char").fit(data.sources),
                "target": Tokenizer(kind="char").fit(data.targets),
            }
            self.fit_info = {
                "data": data.name,
                "data_hash": data.fingerprint[:16],
                "pairs": len(data.sources),
            }
            network, record = train_network(
                _PairsTask(self, data, valid),
                config,
                place,
                run=options.run,
                facts={"data": data.fingerprint, **self.config.to_dict()},
            )
            self.weights = {
                name: w.detach().cpu().numpy() for name, w in network.state_dict().items()
            }
            self.fit_info |= record
        return self

    def build(self) -> Any:
        return _network(
            self.tokenizers["source"].vocab_size,
            self.tokenizers["target"].vocab_size,
            self.config.d_hidden,
        )

    def decoder(self, sources: list[str], network: Any = None) -> _Decoder:
        """A Stepper that owns the encoded sources: row i of `start(n)` belongs to source i."""
        import torch

        if network is None:
            network = self.build()
            network.load_state_dict(
                {name: torch.from_numpy(np.array(a)) for name, a in self.weights.items()}
            )
        return _Decoder(
            network.eval(),
            [self.tokenizers["source"].encode(s) for s in sources],
            self.tokenizers["target"].vocab_size,
            self.tokenizers["target"].eos_id,
        )

    def translate(self, sources: list[str], *, beams: int = 2, network: Any = None) -> list[str]:
        none = [np.zeros(0, np.int64)] * len(sources)
        best = beam_search(self.decoder(sources, network), none, beams=beams, max_tokens=20)
        return [self.tokenizers["target"].decode(hypotheses[0].ids.tolist()) for hypotheses in best]

    def evaluate(self, data: Pairs) -> Result:
        self.check_fitted()
        right = np.mean([a == b for a, b in zip(self.translate(data.sources), data.targets)])
        return Result(
            {"exact_match": float(right), "pairs": len(data.sources)},
            Signature(model=self.label(), data=data.fingerprint[:8]),
        )

    def summary(self) -> str:
        return f"{self.recorded('pairs', 0):,} pairs"

    def arrays(self) -> dict[str, np.ndarray]:
        return self.weights

    def array_specs(self, length: Any) -> dict[str, Spec]:
        d, sources, targets = (
            self.config.d_hidden,
            *(self.tokenizers[side].vocab_size for side in ("source", "target")),
        )
        shapes = {
            "source.weight": (sources, d),
            "target.weight": (targets, d),
            "cell.weight_ih": (3 * d, d),
            "cell.weight_hh": (3 * d, d),
            "cell.bias_ih": (3 * d,),
            "cell.bias_hh": (3 * d,),
            "output.weight": (targets, d),
            "output.bias": (targets,),
        }
        return {name: Spec("float32", shape) for name, shape in shapes.items()}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.weights = arrays


def _network(sources: int, targets: int, d: int) -> Any:
    from torch import nn

    network = nn.Module()
    network.source, network.target = nn.Embedding(sources, d), nn.Embedding(targets, d)
    network.cell, network.output = nn.GRUCell(d, d), nn.Linear(d, targets)
    return network


class _Decoder:
    def __init__(
        self, network: Any, sources: list[np.ndarray], vocab_size: int, eos_id: int
    ) -> None:
        import torch

        self.network, self.vocab_size, self.eos_id = network, vocab_size, eos_id
        with torch.inference_mode():
            self.memory = torch.stack(
                [network.source(torch.from_numpy(np.asarray(s, np.int64))).mean(0) for s in sources]
            )

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        return self._advance(self.memory[:n], np.full(n, self.eos_id))

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        return self._advance(state[0], ids)

    def _advance(self, hidden: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        import torch

        with torch.inference_mode():
            hidden = self.network.cell(
                self.network.target(torch.from_numpy(np.asarray(ids, np.int64))), hidden
            )
            return (hidden,), torch.log_softmax(self.network.output(hidden), -1).numpy()


class _PairsTask:
    """The toy as the training engine sees it: judged by how many translations are right, where more
    is better.
    """

    counted, unit = "tokens", "nats"

    def __init__(self, model: ToyTranslator, data: Pairs, valid: Pairs | None) -> None:
        from seqloom.training.trainable import Criterion

        self.criterion, self.model, self.valid = (
            Criterion("exact match", higher_is_better=True),
            model,
            valid,
        )
        target = model.tokenizers["target"]
        self.sources = [
            np.asarray(model.tokenizers["source"].encode(s), np.int64) for s in data.sources
        ]
        self.targets = [
            np.append(target.encode(t), target.eos_id).astype(np.int64) for t in data.targets
        ]
        self.batches = Examples([len(t) for t in self.targets], self._collate, batch_size=8)

    def _collate(self, chosen: np.ndarray) -> Batch:
        sources, source_mask = pad([self.sources[i] for i in chosen])
        targets, mask = pad([self.targets[i] for i in chosen])
        return Batch(
            {"sources": sources, "source_mask": source_mask, "targets": targets}, mask=mask
        )

    def build(self) -> Any:
        return self.model.build()

    def loss(self, network: Any, batch: Any, state: Any) -> tuple[Any, Any]:
        import torch
        from torch.nn.functional import cross_entropy

        there = batch["source_mask"][..., None].float()
        hidden = (network.source(batch["sources"]) * there).sum(1) / there.sum(1)
        before, logits = (
            torch.full_like(batch["targets"][:, 0], self.model.tokenizers["target"].eos_id),
            [],
        )
        for column in batch["targets"].T:
            hidden = network.cell(network.target(before), hidden)
            logits.append(network.output(hidden))
            before = column
        return cross_entropy(
            torch.stack(logits, 1)[batch.mask], batch["targets"][batch.mask], reduction="sum"
        ), None

    def evaluate(self, network: Any) -> float | None:
        if self.valid is None:
            return None
        said = self.model.translate(self.valid.sources, beams=1, network=network)
        return float(np.mean([a == b for a, b in zip(said, self.valid.targets)]))

    def readings(self, value: float, held_out: bool) -> dict[str, float]:
        return {}


class ToyTranslating(Task):
    name, phrase = "toy translator", "a toy translator"
    data_help = "lines of source, a tab, and target."
    reading = PairsReading
    commands: ClassVar = {
        "toy-translate": Command("toy_translator:command", "Translate lines of standard input.")
    }

    def read(self, paths: tuple[str, ...], reading: PairsReading) -> Pairs:
        (path,) = paths
        rows = [line.split("\t") for line in Path(path).read_text(reading.encoding).splitlines()]
        if any(len(row) != 2 for row in rows):
            raise DataError(f"{path}: every line must be a source, a tab, and a target")
        return Pairs([row[0] for row in rows], [row[1] for row in rows], Path(path).name)


@click.command(name="toy-translate")
@click.argument("model")
@common
def command(model: str, as_json: bool) -> None:
    """The translation of each line of standard input."""
    loaded = tasks.open_model("toy-translate", model)
    lines = list(stdin_lines())
    for source, target in zip(lines, loaded.translate(lines)):
        emit({"source": source, "target": target}) if as_json else click.echo(target)


tasks.register(ToyTranslating())
registry.register_entry(
    "toy-translator",
    registry.Entry(
        "toy_translator:ToyTranslator",
        "toy_translator:ToyTranslatorConfig",
        "toy translator",
        "the mean of the source starts a GRU",
    ),
)
