"""The ladder on Penn Treebank: trigram, KN5, NPLM, RNN, GRU, LSTM, neural cache and their mixture in one table.

    make bench ARGS="ptb-ladder"                 # networks 10 minutes each, the LSTM 30
    make bench ARGS="ptb-ladder --only lstm"

Words, closed vocabulary of 10,000, `</s>` counted. n-grams read lines; networks read the text as one stream with carried
state, as published results do. Every network's run is kept below the user's cache, so an interrupted bench goes on.
Quality rows take the machine's time, so they are never measured beside a speed row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import data, table

Row = tuple[str, ...]

SAMPLED = {"softmax": "sampled", "samples": 1024}
NETWORKS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # name: model, its options, those of training
    "nplm": ("nplm", {"order": 5, "d_embed": 128, "d_hidden": 256, "dropout": 0.3}, {"minutes": 10.0}),
    "rnn": ("rnn", {"d_hidden": 256, "dropout": 0.3, "input_dropout": 0.2}, {"minutes": 10.0}),
    "gru": ("gru", {"d_hidden": 256, "dropout": 0.4, "input_dropout": 0.3}, {"minutes": 10.0}),
    "lstm": ("lstm", {"d_hidden": 450, "dropout": 0.4, "input_dropout": 0.3, "word_dropout": 0.05, **SAMPLED},
             {"minutes": 30.0, "batch_size": 32, "truncation": 35, "evaluate_every": 2000}),
}


def run(quick: bool, only: str) -> None:
    paths = [data("ptb", f"ptb.{part}.txt") for part in ("train", "valid", "test")]
    if any(path is None for path in paths):
        return
    rows = []
    for row in _rows([p for p in paths if p is not None], quick, only):
        rows.append(row)
        print("...", *row, flush=True)
    table("Penn Treebank, test perplexity", rows, ("model", "perplexity", "parameters", "training", "signature"))


def _rows(paths: list[Path], quick: bool, only: str) -> Iterator[Row]:
    import seqloom
    from seqloom import Mixture, NGram, progress
    from seqloom.cli.reporter import PlainReporter
    from seqloom.models.language.neural_cache import NeuralCache
    from seqloom.paths import cache_directory
    from seqloom.registry import model_class

    train, valid, test = map(seqloom.read, paths)
    five = NGram(order=5).fit(train)
    fitted: dict[str, Any] = {}
    for name, model in (("trigram", NGram(order=3)), ("KN5", NGram(order=5))):
        start = time.perf_counter()
        fitted[name] = model.fit(train, tokenizer=five.tokens())
        yield _row(name, fitted[name], test, time.perf_counter() - start)
    place = cache_directory() / "ptb-ladder"
    with progress.reporting(PlainReporter()):
        for name, (kind, options, training) in NETWORKS.items():
            if only and only not in name:
                continue
            if quick:
                training = {**training, "minutes": 0.2}
            start = time.perf_counter()
            model = model_class(kind)(tokenizer="whitespace", unit="line", **options)
            model.fit(train, valid=valid, tokenizer=five.tokens(), run=place / f"{name}-{training['minutes']:g}",
                      train=seqloom.TrainConfig(**training))
            model.save(place / f"{name}-{training['minutes']:g}-model")
            fitted[name] = model
            yield _row(name, model, test, time.perf_counter() - start)
        if "lstm" in fitted:
            cached = NeuralCache.of(fitted["lstm"]).fit(valid)
            yield _row("lstm + neural cache", cached, test, 0.0)
            mixed = Mixture.of([fitted["KN5"], cached]).fit(valid)
            yield _row("KN5 + lstm + neural cache", mixed, test, 0.0)
        if not only:
            everything = Mixture.of([fitted["KN5"], cached, *(fitted[n] for n in ("nplm", "rnn", "gru"))]).fit(valid)
            yield _row("all of them", everything, test, 0.0)


def _row(name: str, model: Any, test: Any, seconds: float) -> Row:
    result = model.evaluate(test, samples=0)
    steps = f", {model.fit_info['steps']:,} steps" if "steps" in model.fit_info else ""
    spent = f"{seconds / 60:.1f} min{steps}" if seconds > 60 else f"{seconds:.1f} s{steps}" if seconds else "-"
    return name, f"{result['perplexity']:.1f}", f"{model.parameters:,}", spent, f"`{result.signature}`"
