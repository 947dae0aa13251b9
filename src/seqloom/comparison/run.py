"""`seqloom compare`: train every rung on one text and measure all of them on the same held-out bytes.

A finished rung is kept (its model and its result), so an interrupted comparison goes on where it stopped and a
second one is only read. Costs are kept by segment of the held-out text, so any two rungs can be compared in pairs.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress, storage
from seqloom._version import __version__
from seqloom.arrays import read_arrays, write_arrays
from seqloom.comparison.curve import Curve, CurvePoint, learning_curve
from seqloom.comparison.kept import held, trim
from seqloom.comparison.memory import peak_memory
from seqloom.comparison.rungs import NETWORK_MINUTES, RUNGS, Bench, NotPossible, Rung
from seqloom.contracts import LanguageModel
from seqloom.data.corpus import Corpus, as_corpus, bundled, overlap
from seqloom.data.encode import encode_corpus
from seqloom.data.shift import shift
from seqloom.errors import ConfigError, DataError, SeqloomError, suggest
from seqloom.metrics import bootstrap, likelihood
from seqloom.metrics.costs import segment_costs
from seqloom.metrics.result import plain
from seqloom.paths import cache_directory

SMALLEST = 2000  # bytes; less text says nothing
LIMIT = 10.0  # minutes that a rung may take, unless told
FRACTIONS = (0.8, 0.1, 0.1)


@dataclass(frozen=True)
class RungResult:
    """One row of the table."""

    name: str
    family: str
    bits_per_byte: float
    interval: tuple[float, float]
    perplexity: float
    tokens: int  # of the held-out text; perplexities compare where tokenizers agree
    tokenizer: str
    parameters: int
    train_seconds: float  # the tokenizer's training included
    train_tokens_per_second: float
    score_tokens_per_second: float
    peak_memory: int | None  # bytes, above what the program held before; None where the system does not tell
    disk: int
    sample: str
    signature: str
    tokenizer_seconds: float = 0.0  # of train_seconds
    fallbacks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Skipped:
    name: str
    reason: str


@dataclass
class Comparison:
    """All rows, in the order of the ladder, and how they came about."""

    corpus: str
    fingerprint: str
    split: str
    n_bytes: dict[str, int]
    overlap: float
    results: list[RungResult] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    costs: dict[str, np.ndarray] = field(default_factory=dict)  # nats of each segment of the held-out text
    segment_bytes: np.ndarray = field(default_factory=lambda: np.zeros(0))
    curve: Curve = field(default_factory=dict)  # by rung, where it was asked for
    bench: Bench | None = field(default=None, repr=False)  # the text and the fitted models

    @property
    def best(self) -> RungResult:
        return min(self.results, key=lambda r: r.bits_per_byte)

    def difference(self, a: str, b: str) -> bootstrap.Paired:
        """Bits per byte of rung a less rung b on the same segments, with interval and p-value."""
        return bootstrap.paired(self.costs[a] / math.log(2), self.costs[b] / math.log(2), self.segment_bytes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what cannot be known (the interval of a single segment) is the text "nan"."""
        rows = []
        for r in self.results:
            row = asdict(r)
            if r.name != self.best.name:
                row["versus_best"] = self.difference(r.name, self.best.name)._asdict()
            rows.append(row)
        curve = {name: [p._asdict() for p in points] for name, points in self.curve.items()}
        return plain({"corpus": self.corpus, "fingerprint": self.fingerprint, "split": self.split, "bytes": self.n_bytes,
                      "overlap": self.overlap, "best": self.best.name if self.results else None, "rungs": rows,
                      "skipped": [asdict(s) for s in self.skipped], "seqloom": __version__,
                      **({"curve": curve} if curve else {})})


def compare(data: Any = None, *, rungs: Sequence[str] | None = None, minutes: float | None = None,
            work: str | Path | None = None, seed: int = 0, curve: bool = False,
            on_rung: Callable[[RungResult | Skipped], None] | None = None) -> Comparison:
    """Train and measure the rungs; `data` as in `fit`, the bundled text by default.

    `minutes`: how long each network trains, and the most that any other rung may take; what would need longer is
    skipped and said. Without it networks train 0.6 minutes and counting may take 10. `work` is the
    directory that keeps finished rungs (the user's cache by default). With `curve` every rung is also trained on
    parts of the training text, which may take as long again.
    """
    corpus = bundled() if data is None else as_corpus(data)
    wanted = _choose(rungs)
    _ = corpus.fingerprint  # tells the size of compressed files too
    if (corpus.n_bytes or 0) < SMALLEST:
        raise DataError(f"{corpus.name}: {corpus.n_bytes} bytes are too few to compare models; give at least {SMALLEST:,}")
    splits = corpus.split(FRACTIONS)
    out = Comparison(corpus.name, corpus.fingerprint, splits.description,
                     {"train": splits.train.n_bytes or 0, "valid": splits.valid.n_bytes or 0,
                      "test": splits.test.n_bytes or 0}, overlap(splits.train, splits.test))
    if out.overlap > 0.01:
        progress.say(f"warning: {out.overlap:.1%} of the longer test lines also stand in the training part; "
                     "memory will look like skill")
    if (distance := shift(splits.train, splits.test)).far:
        progress.say(distance.warning())
    folder = Path(work) if work else cache_directory() / "compare"
    place = folder / _key(splits.fingerprint, seed)
    if not work:
        trim(folder, place)
    bench = Bench(splits, minutes=minutes or NETWORK_MINUTES, place=place, seed=seed)
    limit = minutes or LIMIT
    with held(place):
        _warm_up()
        for item in _run(wanted, bench, place, limit, seed, out):
            if on_rung is not None:
                on_rung(item)
        out.bench = bench
        if curve:
            whole = {r.name: CurvePoint(out.n_bytes["train"], r.bits_per_byte, r.train_seconds) for r in out.results}
            out.curve = learning_curve(wanted, bench, whole, place, limit)
    return out


def _run(wanted: list[Rung], bench: Bench, place: Path, minutes: float, seed: int,
         out: Comparison) -> Iterator[RungResult | Skipped]:
    speed = 2e6  # tokens a second and pass, until a rung has been timed
    n_bytes = bench.splits.train.n_bytes or 0
    for rung in wanted:
        target = place / f"{rung.name}-{rung.key(bench, [r for r in wanted if r.name in bench.fitted])}"
        kept = _reuse(target, rung, bench)
        if kept is None:
            estimate = n_bytes * rung.work / speed
            try:
                if estimate > minutes * 60:
                    raise NotPossible(f"would need about {_duration(estimate)} of the {_duration(minutes * 60)} allowed")
                progress.say(f"training {rung.name}")
                kept = _measure(rung, bench, target, seed)
            except NotPossible as reason:
                out.skipped.append(Skipped(rung.name, str(reason)))
                yield out.skipped[-1]
                continue
            if kept[0].train_seconds > 1 and rung.work:
                speed = n_bytes * rung.work / kept[0].train_seconds
        result, costs, weights, model = kept
        bench.fitted[rung.name] = model
        out.results.append(result)
        out.costs[rung.name], out.segment_bytes = costs, weights
        yield result


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


Kept = tuple[RungResult, np.ndarray, np.ndarray, LanguageModel]


def _measure(rung: Rung, bench: Bench, target: Path, seed: int) -> Kept:
    """Fit one rung and measure it on the test part."""
    bench.tokenizer(rung.tokenizer)  # timed apart, as several rungs share it
    start = time.perf_counter()
    with peak_memory() as memory:
        model = rung.fit(bench)
    seconds = time.perf_counter() - start
    tokenizer = model.tokenizer
    ids = encode_corpus(tokenizer, bench.splits.test, unit=model.unit)
    start = time.perf_counter()
    log_probs = model.text_log_probs(ids)
    scoring = time.perf_counter() - start
    costs, weights = segment_costs(tokenizer, model.unit, bench.splits.test, ids, log_probs)
    low, high = (x / math.log(2) for x in bootstrap.interval(costs, weights))
    sample = model.generate("", max_tokens=200, seed=seed) if rung.name != "uniform" else ""
    extra = bench.tokenizers.get(tokenizer.kind, (None, 0.0))[1]
    with storage.writing(target) as partial:
        storage.write_model(model, partial)
        disk = sum(f.stat().st_size for f in partial.rglob("*") if f.is_file())
        result = RungResult(
            name=rung.name, family=rung.family, tokenizer=tokenizer.label(),
            bits_per_byte=likelihood.bits_per_byte(log_probs, bench.splits.test.n_bytes or 0), interval=(low, high),
            perplexity=likelihood.perplexity(log_probs), tokens=len(ids), parameters=model.parameters,
            train_seconds=seconds + extra, train_tokens_per_second=model.fit_info["tokens"] / max(seconds, 1e-9),
            score_tokens_per_second=len(ids) / max(scoring, 1e-9), peak_memory=memory.peak, disk=disk, sample=sample,
            signature=str(model.signature(bench.splits.test, bench.splits.description)),
            tokenizer_seconds=extra, fallbacks=model.fit_info.get("fallbacks", {}))
        write_arrays(partial / "segments.safetensors", {"costs": costs, "weights": weights})
        text = json.dumps(plain(asdict(result)), indent=1, allow_nan=False)
        (partial / "result.json").write_text(text, encoding="utf-8")
    return result, costs, weights, model


def _reuse(target: Path, rung: Rung, bench: Bench) -> Kept | None:
    """A rung that was finished before; anything unreadable is trained again."""
    try:
        values = json.loads((target / "result.json").read_text(encoding="utf-8"))
        arrays = read_arrays(target / "segments.safetensors")
        result = RungResult(**values | {"interval": tuple(map(float, values["interval"])),
                                        "perplexity": float(values["perplexity"])})  # "inf" is text in JSON
        model = storage.load(target)
    except (OSError, ValueError, TypeError, KeyError, SeqloomError):
        return None
    if rung.tokenizer not in bench.tokenizers:
        bench.tokenizers[rung.tokenizer] = model.tokenizer, result.tokenizer_seconds
    return result, arrays["costs"], arrays["weights"], model


def _choose(names: Sequence[str] | None) -> list[Rung]:
    if not names:
        return list(RUNGS)
    known = {r.name: r for r in RUNGS}
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown rung {name!r}{suggest(name, known)} Known: {', '.join(known)}")
    return [known[name] for name in known if name in names]


def _key(fingerprint: str, seed: int) -> str:
    return hashlib.sha256(f"{fingerprint}|{seed}|{__version__}|{storage.FORMAT_VERSION}".encode()).hexdigest()[:16]


def _warm_up() -> None:
    """Compile the kernels on a line of text, so that the first rung is not charged for it."""
    progress.say("preparing kernels (compiled once, then cached)")
    from seqloom.models.language.ngram import NGram

    text = Corpus.from_texts("to be or not to be, that is the question\n")
    tiny = NGram(order=2, tokenizer="byte", unit="stream").fit(text)
    tiny.evaluate("to be\n", samples=0)
    tiny.generate("to", max_tokens=2)
