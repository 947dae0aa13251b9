"""Counting and predicting on two local workers, beside what the same cores do without them.

Workers are started and warm before anything is timed: one process has compiled its kernels, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.side_by_side import SMOKE, alternate, bundled_text, data, seconds, sized, table
from seqloom import NaiveBayes, NGram, read

LINES = sized(1_000_000, 2_000)
ORDER = 5


def run(quick: bool, only: str) -> None:
    from importlib.util import find_spec

    from seqloom.scale.cluster import Cluster

    if find_spec("distributed") is None:
        print("(skipped: dask is not installed)")
        return
    times = 2 if quick else 5
    with tempfile.TemporaryDirectory(prefix="seqloom-scale-") as folder, Cluster("2") as cluster:
        work = Path(folder)
        rows = []
        if only in "counting":
            rows.append(_counting(cluster, work, times))
        if only in "predicting":
            rows.append(_predicting(cluster, work, times))
    table(
        "Two workers on two cores (median of pairs, and their range)",
        rows,
        ("work", "two workers", "beside", "ratio"),
    )


def _counting(cluster: object, work: Path, times: int) -> tuple[str, ...]:
    """Fit a model with two workers, and in one process with two threads."""
    from seqloom.scale.corpora import SharedCorpus
    from seqloom.scale.counting import fit_ngrams
    from seqloom.scale.work import working

    found = None if SMOKE else data("text8_prefix", "text8_prefix.txt")
    text = work / "text.txt"
    text.write_bytes(bundled_text().encode() if found is None else found.read_bytes())
    small = work / "small.txt"
    small.write_text(bundled_text()[:100_000])

    def shared(path: Path) -> NGram:
        with working(None, str(work / "counting")) as folder:
            corpus = SharedCorpus.of(read(path), cluster, folder, None)  # type: ignore[arg-type]
            return fit_ngrams(NGram(order=ORDER), corpus)

    alone = NGram(order=ORDER).fit(small)
    shared(small)
    assert {k: v.tobytes() for k, v in alone.arrays().items()} == {
        k: v.tobytes() for k, v in shared(small).arrays().items()
    }
    ratio = alternate(
        lambda: seconds(lambda: shared(text)),
        lambda: seconds(lambda: NGram(order=ORDER).fit(read(text))),
        times,
    )
    size = text.stat().st_size / 1e6
    share = f"{1 / ratio.median:.2f} ({1 / ratio.high:.2f}-{1 / ratio.low:.2f})"
    return (
        f"ngram, order {ORDER}, {size:.0f} MB",
        f"{ratio.ours:.1f} s",
        f"one process, two threads: {ratio.peer:.1f} s",
        f"{share} of its time",
    )


def _predicting(cluster: object, work: Path, times: int) -> tuple[str, ...]:
    """Predict many lines with two workers, and with two processes that know nothing of each other."""
    lines = [line for line in bundled_text().splitlines() if line.strip()]
    labels = ["long" if len(line) > 40 else "short" for line in lines]
    NaiveBayes().fit(lines, labels).save(work / "model")
    many = (lines * (LINES // len(lines) + 1))[:LINES]
    (work / "all.txt").write_text("".join(f"{line}\n" for line in many))
    for name, half in (("first", many[: LINES // 2]), ("second", many[LINES // 2 :])):
        (work / f"{name}.txt").write_text("".join(f"{line}\n" for line in half))
    address = cluster.address  # type: ignore[attr-defined]

    def shared() -> float:
        with _running(work, ["all.txt", "-o", "shared", "--cluster", address]) as begun:
            return begun()

    def apart() -> float:
        with (
            _running(work, ["first.txt", "-o", "one"]) as first,
            _running(work, ["second.txt", "-o", "two"]) as second,
        ):
            return max(first(), second())

    shared()
    apart()
    both = (work / "one").read_bytes() + (work / "two").read_bytes()
    assert (work / "shared").read_bytes() == both
    ratio = alternate(shared, apart, times)
    return (
        f"naive-bayes, {LINES:,} lines",
        f"{LINES / ratio.ours:,.0f} lines/s",
        f"two processes, one thread each: {LINES / ratio.peer:,.0f} lines/s",
        f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})",
    )


@contextmanager
def _running(work: Path, arguments: Sequence[str]) -> Iterator[object]:
    """Start `seqloom predict`; the value waits for its end and returns the seconds that it took."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "seqloom", "predict", "model", *arguments, "-q"],
        cwd=work,
        env={**os.environ, "SEQLOOM_THREADS": "1"},
    )

    def finished() -> float:
        assert process.wait() == 0
        return time.perf_counter() - begun

    try:
        yield finished
    finally:
        process.kill()
        process.wait()


# ---- what larger texts would take, from the rates of one core and the growth of distinct n-grams

GROWTH = (  # distinct n-grams of order k are about a N^b; fitted to 0.4 to 3.2 million tokens of text8
    (15.72, 0.5854),
    (4.856, 0.8249),
    (2.046, 0.9295),
    (1.360, 0.9709),
    (1.153, 0.9869),
)
BYTES_PER_TOKEN = 74_090_640 / 12_577_300
RATES = {"words": 104e6, "encoding": 154e6, "counting": 4.2e6, "merging": 12e6, "estimating": 11e6}
PART = 64e6  # bytes
FAN_IN = 8


def distinct(tokens: float) -> list[float]:
    """How many different n-grams of each order a text of so many tokens has, by the fitted law."""
    return [min(a * tokens**b, tokens) for a, b in GROWTH]


def plan(size: float) -> dict[str, float]:
    """What counting a text of so many bytes reads, writes and keeps, and the hours of one core."""
    tokens = size / BYTES_PER_TOKEN
    parts = max(size / PART, 1)
    run = sum(distinct(tokens / parts))  # records of a part
    records, merged = [run * parts], parts
    while merged > 1:
        merged = max(merged / FAN_IN, 1)
        records.append(sum(distinct(tokens / merged)) * merged)
    found = distinct(tokens)
    seconds = {
        "words": size / RATES["words"],
        "encoding": size / RATES["encoding"],
        "counting": tokens / RATES["counting"],
        "merging": sum(records[:-1]) / RATES["merging"],
        "estimating": sum(found) / RATES["estimating"],
    }
    return {
        "tokens": tokens,
        "n-grams": sum(found),
        "read": 3 * size,
        "ids": 4 * tokens,
        "runs": 16 * sum(records),
        "model": 20 * sum(found[:-1]) + 12 * found[-1],
        "passes": len(records) - 1,
        "core hours": sum(seconds.values()) / 3600,
        "of them estimating": seconds["estimating"] / 3600,
    }


if __name__ == "__main__":
    for size in (10e9, 1e12, 100e12):
        print(f"{size:.0e}", {name: f"{value:.3g}" for name, value in plan(size).items()})
    run("--quick" in sys.argv, "")
