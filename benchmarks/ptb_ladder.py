"""Ladders of words: trigram, KN5, networks, neural cache and their mixture in one table, on Penn
Treebank and WikiText-2.

    make bench ARGS="ptb-ladder"                 # NPLM, RNN and GRU 2.5 minutes each, the LSTM 30
    make bench ARGS="ptb-ladder --only lstm"
    make bench ARGS="wikitext-ladder"            # one LSTM, 40 minutes

Words, closed vocabulary (10,000 and 33,278), `</s>` counted. n-grams read lines; networks read the
text as one stream with carried state, as published results do. Every network's run is kept below
the user's cache, so an interrupted bench goes on. Quality rows take the machine's time, so they are
never measured beside a speed row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.side_by_side import data, table, training

Row = tuple[str, ...]
Options = dict[str, Any]


@dataclass(frozen=True)
class Ladder:
    title: str
    name: str  # of the place where its runs are kept
    files: tuple[tuple[str, str], ...]  # train, valid, test
    networks: dict[str, tuple[str, Options, Options]]  # name: model, its options, those of training


TRAINING = {"optimizer": "adamw"}  # with which the figures of docs/language-models.md were measured
SAMPLED = {"softmax": "sampled", "samples": 1024}
LSTM_TRAINING = {"batch_size": 32, "truncation": 35, "evaluate_every": 2000}
PARTS = ("train", "valid", "test")
PTB = Ladder(
    "Penn Treebank",
    "ptb-ladder",
    tuple(("ptb", f"ptb.{part}.txt") for part in PARTS),
    {
        "nplm": (
            "nplm",
            {"order": 5, "d_embed": 128, "d_hidden": 256, "dropout": 0.3, **SAMPLED},
            {"minutes": 2.5},
        ),
        "rnn": (
            "rnn",
            {"d_hidden": 256, "dropout": 0.3, "input_dropout": 0.2, **SAMPLED},
            {"minutes": 2.5},
        ),
        "gru": (
            "gru",
            {"d_hidden": 256, "dropout": 0.4, "input_dropout": 0.3, **SAMPLED},
            {"minutes": 2.5},
        ),
        "lstm": (
            "lstm",
            {
                "d_hidden": 450,
                "dropout": 0.4,
                "input_dropout": 0.3,
                "word_dropout": 0.05,
                **SAMPLED,
            },
            {"minutes": 30.0, **LSTM_TRAINING},
        ),
    },
)
WIKITEXT = Ladder(
    "WikiText-2",
    "wikitext-ladder",
    tuple(("wikitext-2", f"{part}.txt") for part in PARTS),
    {
        "lstm": (
            "lstm",
            {
                "d_hidden": 400,
                "dropout": 0.3,
                "input_dropout": 0.3,
                "softmax": "sampled",
                "samples": 2048,
            },
            {"minutes": 40.0, "batch_size": 48, "truncation": 35, "evaluate_every": 6000},
        ),
    },
)


def run(quick: bool, only: str) -> None:
    _show(PTB, quick, only)


def run_wikitext(quick: bool, only: str) -> None:
    _show(WIKITEXT, quick, only)


def _show(ladder: Ladder, quick: bool, only: str) -> None:
    paths = [data(*names) for names in ladder.files]
    if any(path is None for path in paths):
        return
    rows = []
    for row in _rows(ladder, paths, quick, only):
        rows.append(row)
        print("...", *row, flush=True)
    table(
        f"{ladder.title}, test perplexity",
        rows,
        ("model", "perplexity", "parameters", "training", "signature"),
    )


def _rows(ladder: Ladder, paths: list[Any], quick: bool, only: str) -> Iterator[Row]:
    import seqloom
    from seqloom import Mixture, NGram, progress
    from seqloom.directories import cache_directory
    from seqloom.models.language.neural_cache import NeuralCache
    from seqloom.registry import model_class
    from seqloom.reporters import PlainReporter

    train, valid, test = map(seqloom.read, paths)
    tokens = NGram(order=1).fit(train).tokenizer
    fitted: dict[str, Any] = {}
    for name, model in (("trigram", NGram(order=3)), ("KN5", NGram(order=5))):
        start = time.perf_counter()
        fitted[name] = model.fit(train, tokenizer=tokens)
        yield _row(name, fitted[name], test, time.perf_counter() - start)
    place = cache_directory() / ladder.name
    with progress.reporting(PlainReporter()):
        for name, (kind, options, how) in ladder.networks.items():
            if only and only not in name:
                continue
            how = training(how, quick)
            start = time.perf_counter()
            model = model_class(kind)(tokenizer="whitespace", unit="line", **options)
            model.fit(
                train,
                valid=valid,
                tokenizer=tokens,
                run=place / f"{name}-{how.get('minutes', 0):g}",
                train=seqloom.TrainConfig(**TRAINING, **how),
            )
            model.save(place / f"{name}-{how.get('minutes', 0):g}-model")
            fitted[name] = model
            yield _row(name, model, test, time.perf_counter() - start)
        if "lstm" not in fitted:
            return
        cached = NeuralCache.of(fitted["lstm"]).fit(valid)
        yield _row("lstm + neural cache", cached, test, 0.0)
        yield _row(
            "KN5 + lstm + neural cache", Mixture.of([fitted["KN5"], cached]).fit(valid), test, 0.0
        )
        others = [fitted[name] for name in ladder.networks if name in fitted and name != "lstm"]
        if others:
            yield _row(
                "all of them", Mixture.of([fitted["KN5"], cached, *others]).fit(valid), test, 0.0
            )


def _row(name: str, model: Any, test: Any, seconds: float) -> Row:
    result = model.evaluate(test, samples=0)
    steps = f", {model.fit_info['steps']:,} steps" if "steps" in model.fit_info else ""
    spent = (
        f"{seconds / 60:.1f} min{steps}"
        if seconds > 60
        else f"{seconds:.1f} s{steps}"
        if seconds
        else "-"
    )
    return (
        name,
        f"{result['perplexity']:.1f}",
        f"{model.parameters:,}",
        spent,
        f"`{result.signature}`",
    )
