"""Scaling laws: the fit on published runs, intervals on simulated ladders, and ladders of real models with
a held-out run of four times the compute.

    make bench ARGS="scaling"                    # about half an hour on two cores
    make bench ARGS="scaling --only simulated"

The published runs are the 245 of Chinchilla's figure 4 as read by Besiroglu et al. 2024
($SEQLOOM_GOLDEN/chinchilla.csv); as there, the five with the highest loss are left out. Runs are kept
below the user's cache, so an interrupted bench goes on.
"""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import SMOKE, collect, data, sized, table
from seqloom import progress
from seqloom.comparison.scaling import scaling
from seqloom.data.corpus import Corpus
from seqloom.errors import DataError
from seqloom.metrics.scaling import fit, noise_of, posterior

Row = tuple[str, ...]
PUBLISHED = {"E": 1.8172, "A": 482.01, "B": 2085.43, "a": 0.3478, "b": 0.3658}
OBJECTIVE = 1.018274e-3  # of the best fit of their notebook
LEFT_OUT = 5
LADDERS, NOISE, STEPS = sized(500, 5), 0.003, (4.0, 8**0.5)  # steps as in a plan
# By corpus: its file, how many of its bytes, and the minutes of each ladder of networks.
CORPORA = {
    "text8_prefix": ("text8_prefix/text8_prefix.txt", 16_000_000),
    "WikiText-2": ("wikitext-2/train.txt", None),
    "tinyshakespeare": ("tinyshakespeare/input.txt", None),
}
MODELS = ("ngram", "lstm", "gpt")
MINUTES = sized(1.0, 0.01)
TINY: dict[str, Any] = {"widths": (8, 16, 32), "shares": (0.1, 0.2, 0.5)}


def run(quick: bool, only: str) -> None:
    suites = {"published": published, "simulated": simulated}
    for name in CORPORA:
        for model in MODELS:
            suites[f"{model} on {name}"] = lambda name=name, model=model: ladder(name, model)
    if SMOKE:  # the published runs are not there, and one text is enough
        suites = {
            name: suite
            for name, suite in suites.items()
            if name.endswith(("simulated", "text8_prefix"))
        }
    rows = collect(suites, only)
    table("Scaling laws", rows, ("what", "found", "bar", "seconds"))


def published() -> Iterator[Row]:
    """The fit on Chinchilla's runs, with the estimates of Besiroglu et al."""
    path = Path(os.environ.get("SEQLOOM_GOLDEN", ""), "chinchilla.csv")
    if not path.is_file():
        print("(skipped: chinchilla.csv is not below $SEQLOOM_GOLDEN)")
        return
    with path.open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    size, compute, loss = (
        np.array([float(line[name]) for line in lines])
        for name in ("Model Size", "Training FLOP", "loss")
    )
    kept = np.argsort(loss)[:-LEFT_OUT]
    start = time.perf_counter()
    law = fit(loss[kept], np.stack([size, compute / (6 * size)], axis=1)[kept])
    seconds = f"{time.perf_counter() - start:.2f}"
    yield "objective", f"{law.objective:.6e}", f"{OBJECTIVE:.6e} within 1e-4", seconds
    ours = dict(zip(PUBLISHED, (law.floor, *law.factors, *law.exponents)))
    for name, value in PUBLISHED.items():
        off = ours[name] / value - 1
        yield f"estimate of {name}", f"{ours[name]:.6g} ({off:+.2%})", f"{value:g} within 2 %", ""


def simulated() -> Iterator[Row]:
    """How often the larger run is inside the interval: three sizes by three lengths, known noise of each run,
    the smallest run three times; exponents, floor and factors drawn at random.
    """
    rng = np.random.default_rng(2026)
    places = [(STEPS[0] ** i, STEPS[1] ** j) for i in range(3) for j in range(3)]
    larger = (2 * places[-1][0], 2 * places[-1][1])
    inside, widths, errors, refused = 0, [], [], 0
    start = time.perf_counter()
    for _ in range(LADDERS):
        a, b = rng.uniform(0.2, 0.6, 2)
        floor, first, second = rng.uniform(0.8, 1.6), *rng.uniform(0.2, 1.0, 2)

        def loss(n: float, d: float, law: Any = (floor, first, second, a, b)) -> float:
            e, f, s, p, q = law
            clean = e + f * (n / STEPS[0]) ** -p + s * (d / STEPS[1]) ** -q
            return float(clean * (1 + NOISE * rng.standard_normal()))

        losses = [loss(*place) for place in places]
        noise = noise_of([[losses[0], loss(*places[0]), loss(*places[0])]])
        try:
            fit(losses, places)
            expected = posterior(losses, places, noise).run(*larger)
        except DataError:
            refused += 1
            continue
        found = loss(*larger)
        inside += expected.low <= found <= expected.high
        widths.append((expected.high - expected.low) / expected.value)
        errors.append(abs(found / expected.value - 1))
    seconds = f"{time.perf_counter() - start:.0f}"
    answered = LADDERS - refused
    yield f"{answered} ladders inside", f"{inside / answered:.1%}", "90 to 98 %", seconds
    yield "median width of an interval", f"{np.median(widths):.2%}", "below 3 %", ""
    yield "median error", f"{np.median(errors):.2%}", "", ""
    yield "ladders refused", f"{refused}", "", ""


def ladder(corpus: str, model: str) -> Iterator[Row]:
    """A real ladder, and its held-out run of four times the compute."""
    path, most = CORPORA[corpus]
    found = data(*path.split("/"))
    if found is None:
        return
    text = Corpus.from_texts(found.read_text(encoding="utf-8")[:most], corpus)
    start = time.perf_counter()
    name = f"{model} on {corpus}"
    options = TINY if sized(False, True) and model != "ngram" else {}
    with progress.reporting(None):
        try:
            result = scaling(text, model=model, minutes=MINUTES, check=True, **options)
        except DataError as error:
            yield name, f"refused: {error}", "within 2 %", f"{time.perf_counter() - start:.0f}"
            return
    place = os.environ.get("SEQLOOM_PICTURES")
    if place:
        result.sheet().save(Path(place, f"scaling-{model}-{corpus}.png"))
        Path(place, f"scaling-{model}-{corpus}.txt").write_text(result.table(), encoding="utf-8")
    held, expected = result.held_out, result.expected
    assert held is not None
    assert expected is not None
    inside = expected.low <= held.loss <= expected.high
    shown = f"{expected.value:.4f} ({expected.low:.4f} to {expected.high:.4f})"
    off = held.loss / expected.value - 1
    yield (
        name,
        f"{held.loss:.4f}; expected {shown}: {'inside' if inside else 'outside'}, {off:+.2%}",
        "inside, within 2 %",
        f"{sum(run.seconds for run in (*result.runs, *result.repeats, held)):.0f}",
    )
