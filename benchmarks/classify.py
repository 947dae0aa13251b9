"""Neural classifiers: accuracy on SST-2 (three seeds) and ECG5000, and speed against the loop that
one would write in torch.

    make bench ARGS="classify"                       # speed
    make bench ARGS="classify-quality --only sst2"   # about a minute a seed

SST-2: trained on the 6,920 sentences of train alone; options chosen on dev. ECG5000: options chosen
by folds of its 500 training heartbeats. The peer of speed is a module with the same layers from
torch.nn, one text at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.side_by_side import alternate, alternate_calls, collect, data, seconds, sized, table
from benchmarks.tagging import glove

Row = tuple[str, ...]
SEEDS = (0, 1, 2)
NETWORKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # options of the model, of training
    "bilstm": ({"encoder": "bilstm", "dropout": 0.5}, {"epochs": 3}),
    "bilstm glove": (
        {
            "encoder": "bilstm",
            "dropout": 0.5,
            "pooling": "mean",
            "word_dropout": 1.0,
            "pretrained_words": 400_000,
        },
        {"epochs": 4},
    ),
}
ECG: tuple[dict[str, Any], dict[str, Any]] = (
    {"encoder": "bigru", "n_layers": 2, "d_hidden": 64, "dropout": 0.2, "hold_out": 0.0},
    {"steps": 300},
)


def run(quick: bool, only: str) -> None:
    bench = Speed(quick)
    table(
        "classifiers, speed",
        collect({"single": bench.single, "file": bench.file}, only),
        ("figure", "peer", "ours", "ours against the peer"),
    )


def run_quality(quick: bool, only: str) -> None:
    rows = collect({"sst2": lambda: sst2(quick), "ecg": lambda: ecg(quick)}, only)
    table("classifiers, quality", rows, ("figure", "baseline", "ours", "difference"))


def sst2(quick: bool) -> Iterator[Row]:
    from seqloom.data.classification import read_labelled
    from seqloom.metrics import bootstrap
    from seqloom.models.classification.naive_bayes import NaiveBayes
    from seqloom.models.classification.neural_classifier import NeuralClassifier
    from seqloom.training.config import TrainConfig

    paths = [data("sst2", f"stsa.binary.{part}") for part in ("train", "dev", "test")]
    if any(path is None for path in paths):
        return
    train, dev, test = (read_labelled(path, form="lines") for path in paths if path is not None)
    bayes = NaiveBayes(ngrams=2, tokenizer="whitespace").fit(train)
    gold = np.array(test.labels)
    base = (np.array(bayes.predict(test.texts)) == gold).astype(float)
    for name, (options, training) in NETWORKS.items():
        vectors = glove() if "glove" in name else None
        if "glove" in name and vectors is None:
            continue
        begun, right, held_out = time.perf_counter(), [], []
        for seed in SEEDS[:1] if quick else SEEDS:
            model = NeuralClassifier(
                tokenizer="whitespace",
                **options,
                **({"pretrained": str(vectors)} if vectors else {}),
            )
            model.fit(
                train,
                valid=dev,
                train=TrainConfig(seed=seed, **({"steps": 20} if quick else training)),
            )
            right.append((np.array(model.predict(test.texts)) == gold).astype(float))
            held_out.append(model.score(dev))
        paired = [bootstrap.paired(one, base, np.ones(len(base))) for one in right]
        spent = (time.perf_counter() - begun) / len(right)
        yield (
            f"SST-2 test, {name}, {training}, {len(right)} seeds, {spent:.0f} s each; dev {_shown(held_out)}",
            f"naive Bayes, pairs of words too, {base.mean():.2%}",
            _shown([one.mean() for one in right]),
            "; ".join(f"{one.difference:+.2%} (p {one.p_value:.2f})" for one in paired),
        )


def ecg(quick: bool) -> Iterator[Row]:
    from seqloom.data.classification import read_labelled
    from seqloom.models.classification.majority import Majority
    from seqloom.models.classification.neural_classifier import NeuralClassifier
    from seqloom.training.config import TrainConfig

    paths = [data("series", f"ECG5000_{part}.tsv") for part in ("TRAIN", "TEST")]
    if any(path is None for path in paths):
        return
    train, test = (read_labelled(path, form="numbers") for path in paths if path is not None)
    options, training = ECG
    scores = [
        NeuralClassifier(**options)
        .fit(train, train=TrainConfig(seed=seed, **({"steps": 5} if quick else training)))
        .score(test)
        for seed in (SEEDS[:1] if quick else SEEDS)
    ]
    base = Majority().fit(train).score(test)
    yield (
        f"ECG5000 test accuracy, {options}, {training}",
        f"majority {base:.2%}; published 93-95 %",
        _shown(scores),
        "",
    )


def _shown(values: list[float]) -> str:
    return f"{np.mean(values):.2%} ({', '.join(f'{value:.2%}' for value in values)})"


class Speed:
    """BiLSTM of the default size on the sentences of SST-2."""

    def __init__(self, quick: bool) -> None:
        self.times, self.quick = 2 if quick else 5, quick

    def single(self) -> Iterator[Row]:
        if (texts := self._texts()) is None:
            return
        model, peer = self._model(texts), plain_classifier(texts)
        took = alternate_calls(model.predict, peer, [text for text, _ in texts[:200]], self.times)
        yield (
            "BiLSTM, one text at a time",
            f"plain torch, {took.peer * 1e3:.2f} ms",
            f"{took.ours * 1e3:.2f} ms",
            str(took),
        )

    def file(self) -> Iterator[Row]:
        if (texts := self._texts()) is None:
            return
        many = [text for text, _ in texts * 20][: sized(5_000 if self.quick else 100_000, 40)]
        model, peer, few = self._model(texts), plain_classifier(texts), many[:5_000]
        took = alternate(
            lambda: seconds(lambda: model.predict(many)) * len(few) / len(many),
            lambda: seconds(lambda: [peer(text) for text in few]),
            self.times,
        )
        yield (
            f"BiLSTM, {len(many):,} texts",
            f"plain torch, {len(few) / took.peer:,.0f} texts/s",
            f"{len(few) / took.ours:,.0f} texts/s",
            str(took),
        )

    def _texts(self) -> list[tuple[str, str]] | None:
        from seqloom.data.classification import read_labelled

        if (path := data("sst2", "stsa.binary.train")) is None:
            return None
        labelled = read_labelled(path, form="lines")
        return list(zip(labelled.texts, labelled.labels))

    def _model(self, texts: list[tuple[str, str]]) -> Any:
        from seqloom.models.classification.neural_classifier import NeuralClassifier
        from seqloom.training.config import TrainConfig

        return NeuralClassifier(tokenizer="whitespace").fit(texts, train=TrainConfig(steps=1))


def plain_classifier(texts: list[tuple[str, str]], encoder: str = "bilstm") -> Callable[[str], str]:
    """`encoder`: bilstm, or transformer of two layers."""
    import torch
    from torch import nn

    words = {
        word: i
        for i, word in enumerate(
            ["<unk>", *dict.fromkeys(word for text, _ in texts for word in text.split())]
        )
    }
    names = sorted({label for _, label in texts})

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.linear = nn.Embedding(len(words), 100), nn.Linear(256, len(names))
            self.lstm = nn.LSTM(100, 128, bidirectional=True, batch_first=True)

        def forward(self, ids: Any) -> Any:
            return self.linear(self.lstm(self.words(ids))[0].amax(1))

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(len(words), 100), nn.Embedding(1000, 128)
            self.input, self.linear = nn.Linear(100, 128), nn.Linear(128, len(names))
            layer = nn.TransformerEncoderLayer(
                128, 4, 512, activation="gelu", batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(
                layer, 2, nn.LayerNorm(128), enable_nested_tensor=False
            )

        def forward(self, ids: Any) -> Any:
            return self.linear(
                self.encoder(
                    self.input(self.words(ids)) + self.positions.weight[: ids.shape[1]]
                ).amax(1)
            )

    network = (Transformer() if encoder == "transformer" else Network()).eval()

    def classify(text: str) -> str:
        with torch.inference_mode():
            return names[
                int(
                    network(torch.tensor([[words.get(word, 0) for word in text.split()]])).argmax(1)
                )
            ]

    return classify
