"""Quality of translators: dates, and Multi30k English to German (test2016) on text as people write it.

    make bench ARGS="translate --only dates"

Fits go on where they were interrupted; fitted models stay below the user's cache, so what is asked
of them (beams against greedy search, attention against a summary of the source, quality by length)
needs no new training; pictures lie beside them. Settings were chosen on the validation part; the
test part is read once for each fitted model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.side_by_side import collect, data, sized, table
from benchmarks.side_by_side import training as shortened

if TYPE_CHECKING:
    from seqloom.metrics.bootstrap import Paired

Row = tuple[str, str, str]
TEST_DATES = sized(5000, 20)  # the last lines
TRANSFORMER = {"d_model": 128, "d_mlp": 256, "n_layers": 4, "n_decoder_layers": 4, "dropout": 0.15}
MULTI30K: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # model, its options, training
    "plain": ("seq2seq", {"attention": "none", "dropout": 0.3}, {"epochs": 14}),
    "attention": ("seq2seq", {"dropout": 0.3}, {"epochs": 14}),
    "transformer": ("transformer", TRANSFORMER, {"epochs": 24}),
}


def run(quick: bool, only: str) -> None:
    suites: dict[str, Callable[[], Iterator[Row]]] = {"dates": partial(dates, quick)}
    suites |= {name: partial(multi30k, name, quick) for name in MULTI30K}
    suites |= {"difference": difference, "beams": beams}
    table(
        "translators, quality", collect(suites, only), ("row", "result", "training and signature")
    )


def dates(quick: bool) -> Iterator[Row]:
    from seqloom import Seq2Seq, inspect

    if (path := data("dates", "date.txt")) is None:
        return
    pairs = [
        tuple(side.strip() for side in line.split("_"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    train, test = pairs[:-TEST_DATES], pairs[-TEST_DATES:]
    known = {source for source, _ in train}
    unseen = [pair for pair in test if pair[0] not in known]
    model = fitted(
        "dates",
        Seq2Seq(tokenizer="char", d_embed=64, d_hidden=128),
        train,
        None,
        shortened({"minutes": 4.5}, quick),
    )
    result = model.evaluate(unseen)
    inspect.alignment(model, *unseen[0]).save(saved("dates.png"))
    yield (
        f"dates, exact match of {len(unseen):,} unseen sources",
        f"{result['exact_match']:.2%}",
        f"{trained(model)}; {result.signature}",
    )


def multi30k(name: str, quick: bool) -> Iterator[Row]:
    if (model := translator(name, quick)) is None or (test := part("test_2016_flickr")) is None:
        return
    result = model.evaluate(test)
    yield (
        f"Multi30k en-de test2016, {name}: BLEU; chrF; length ratio",
        f"{result['bleu']:.2f}; {result['chrf']:.2f}; {result['length_ratio']:.3f}",
        f"{trained(model)}; {result.signature}",
    )
    lengths = "; ".join(
        f"{group['length']}: {group['bleu']:.1f} of {group['pairs']}"
        for group in result.details["lengths"]
    )
    yield f"{name}, BLEU by length of the source", lengths, ""


def difference() -> Iterator[Row]:
    """Attention and the summary alone, on the same sentences."""
    from seqloom import inspect
    from seqloom.metrics.text_scores import bleu

    models = {
        name: model for name in MULTI30K if (model := translator(name, fit=False)) is not None
    }
    if (test := part("test_2016_flickr")) is None or not {"plain", "attention"} <= set(models):
        return
    scores = {
        name: bleu(model.translate([source for source, _ in test]), [target for _, target in test])
        for name, model in models.items()
    }
    for name in [name for name in scores if name != "plain"]:
        paired = scores[name].against(scores["plain"])
        yield f"{name} less plain, BLEU", *shown(paired)
    inspect.quality_by_length(
        {name: model.evaluate(test, samples=0) for name, model in models.items()}
    ).save(saved("by-length.png"))


def beams() -> Iterator[Row]:
    """Beam 5 against greedy search; wide beams with and without the division by length."""
    from seqloom.metrics.text_scores import bleu

    for name in ("attention", "transformer"):
        if (model := translator(name, fit=False)) is None or (test := part("val")) is None:
            continue
        sources, targets = [source for source, _ in test], [target for _, target in test]
        greedy, beam = (
            [best[0] for best in model.translate(sources, nbest=1, beams=width)] for width in (1, 5)
        )
        scores = [bleu([one.text for one in found], targets) for found in (greedy, beam)]
        better = np.mean([b.score >= g.score - 1e-6 for g, b in zip(greedy, beam)])
        yield (
            f"{name}, valid: BLEU of beam 5 and greedy",
            f"{scores[1].value:.2f}, {scores[0].value:.2f}",
            ", ".join(shown(scores[1].against(scores[0]))),
        )
        yield (
            f"{name}, sentences whose normalised score is at least that of greedy search",
            f"{better:.2%}",
            "",
        )
        for penalty in (1.0, 0.0):
            ratios = [
                words(model.translate(sources[:300], beams=width, length_penalty=penalty))
                / words(targets[:300])
                for width in (1, 5, 20)
            ]
            yield (
                f"{name}, words over those of the references, beams 1, 5, 20, length penalty {penalty:g}",
                ", ".join(f"{ratio:.3f}" for ratio in ratios),
                "",
            )


def shown(paired: Paired) -> tuple[str, str]:
    return (
        f"{paired.difference:+.2f} ({paired.low:+.2f} to {paired.high:+.2f})",
        f"p {paired.p_value:.3f}",
    )


def words(texts: list[str]) -> int:
    return sum(len(text.split()) for text in texts)


# ---- data and models


def part(name: str) -> list[tuple[str, str]] | None:
    paths = [data("multi30k", f"{name}.{language}") for language in ("en", "de")]
    if any(path is None for path in paths):
        return None
    return list(
        zip(*(path.read_text(encoding="utf-8").splitlines() for path in paths if path is not None))
    )


def translator(name: str, quick: bool = False, *, fit: bool = True) -> Any:
    """One of `MULTI30K`, fitted now or earlier; None without the data, or where it was not fitted
    and should not be.
    """
    from seqloom import Seq2Seq, Transformer

    train, valid = part("train"), part("val")
    if train is None or valid is None or not (fit or saved(name).exists()):
        return None
    kind, options, training = MULTI30K[name]
    model = (Seq2Seq if kind == "seq2seq" else Transformer)(**options)
    return fitted(name, model, train, valid, shortened(training, quick))


def fitted(name: str, model: Any, train: Any, valid: Any, training: dict[str, Any]) -> Any:
    import seqloom
    from seqloom import progress
    from seqloom.reporters import PlainReporter
    from seqloom.training.config import TrainConfig

    if saved(name).exists():
        return seqloom.load(saved(name))
    start = time.perf_counter()
    with progress.reporting(PlainReporter()):
        model.fit(
            train, valid=valid, train=TrainConfig(**training), run=saved(name).with_suffix(".run")
        )
    print(
        f"({name}: fitted in {(time.perf_counter() - start) / 60:.1f} minutes since the start or "
        f"its resumption)",
        flush=True,
    )
    model.save(saved(name))
    return model


def saved(name: str) -> Path:
    from seqloom.directories import cache_directory

    return cache_directory() / "bench" / f"translate-{name}"


def trained(model: Any) -> str:
    info = model.fit_info
    return f"{info['steps']:,} steps, {info['epochs']:.1f} epochs, seed {info['train']['seed']}"
