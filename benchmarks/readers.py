"""Reading tables: one column of a gigabyte, megabytes a second and peak memory, beside polars and
the standard library; and what a table costs from the file to the fitted model, beside the same
texts in a plain file.

Every run is a process of its own (`side_by_side.run`), which reads the column once and counts its
bytes. The files are made on the fly in a temporary directory.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import seqloom
from benchmarks.side_by_side import SMOKE, Finished, bundled_text, collect, sized, table
from benchmarks.side_by_side import run as run_program

Row = tuple[str, str, str, str]

OURS = """
import sys, seqloom
document = seqloom.read(sys.argv[1], column="text").documents[0]
print(sum(len(chunk) for chunk in document.chunks()))
"""
FIT = """
import sys, seqloom
column = None if sys.argv[1].endswith(".txt") else "text"
seqloom.NGram(order=3).fit(seqloom.read(sys.argv[1], column=column)).save(sys.argv[2])
"""
PEERS = {
    "polars": """
import sys, polars
readers = {"jsonl": polars.scan_ndjson, "csv": polars.scan_csv, "parquet": polars.scan_parquet}
batches = readers[sys.argv[1].rpartition(".")[2]](sys.argv[1]).select("text").collect_batches()
print(sum(int(batch["text"].str.len_bytes().sum()) for batch in batches))
""",
    "json": """
import json, sys
with open(sys.argv[1], "rb") as file:
    print(sum(len(json.loads(line)["text"]) for line in file))
""",
    "csv": """
import csv, sys
with open(sys.argv[1], newline="") as file:
    rows = csv.reader(file)
    next(rows)
    print(sum(len(row[2]) for row in rows))
""",
}


def run(quick: bool, only: str) -> None:
    with tempfile.TemporaryDirectory(prefix="seqloom-readers-") as work:
        bench = Bench(Path(work), quick)
        rows = collect(bench.suites(), only)
        table(
            "readers: one column of a table",
            rows,
            ("figure", "peer", "ours", "ours against the peer"),
        )


class Bench:
    def __init__(self, work: Path, quick: bool) -> None:
        self.work, self.times = work, 2 if quick else 5
        self.size = sized(50_000_000 if quick else 1_000_000_000, 100_000)

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {
            "jsonl": self.jsonl,
            "short": self.short,
            "csv": self.csv,
            "parquet": self.parquet,
            "fit": self.fit,
            "memory": self.memory,
        }

    def jsonl(self) -> Iterator[Row]:
        yield from self.compare(self.write("rows.jsonl", 1000), ("polars", "json"))

    def short(self) -> Iterator[Row]:
        yield from self.compare(
            self.write("short.jsonl", 150), ("polars", "json"), "rows of 150 characters"
        )

    def csv(self) -> Iterator[Row]:
        yield from self.compare(self.write("rows.csv", 1000), ("polars", "csv"))

    def parquet(self) -> Iterator[Row]:
        import polars

        source, target = self.write("rows.jsonl", 1000), self.work / "rows.parquet"
        polars.scan_ndjson(source).sink_parquet(target, row_group_size=50_000)
        yield from self.compare(target, ("polars",), "compressed size")

    def fit(self) -> Iterator[Row]:
        """An n-gram model, the fastest to fit, so that reading weighs most."""
        for name in ("rows.csv", "rows.jsonl"):
            path, plain = self.write(f"fit-{name}", 1000, self.size // 10), self.work / "rows.txt"
            plain.write_bytes(b"".join(seqloom.read(path, column="text").documents[0].chunks()))
            times = [
                [self.once(FIT, one, str(self.work / "model")).seconds for one in (plain, path)]
                for _ in range(sized(self.times + 1, 2))
            ][1:]
            ratios = sorted(table / text for text, table in times)
            texts, tables = (statistics.median(column) for column in zip(*times))
            yield (
                f"file to fitted ngram, {path.stat().st_size / 1e6:,.0f} MB {path.suffix[1:]}",
                f"plain text {texts:.1f} s",
                f"{tables:.1f} s",
                f"{statistics.median(ratios):.2f} times ({ratios[0]:.2f}-{ratios[-1]:.2f})",
            )

    def memory(self) -> Iterator[Row]:
        """A tenth of the file and all of it: the peak must not grow."""
        for kind in ("csv", "jsonl"):
            small, large = (
                self.write(f"tenth.{kind}", 1000, self.size // 10),
                self.write(f"rows.{kind}", 1000),
            )
            peaks = [self.once(OURS, path).peak / 1e6 for path in (small, large)]
            sizes = " and ".join(f"{path.stat().st_size / 1e6:,.0f} MB" for path in (small, large))
            yield (
                f"peak memory, {sizes} of {kind}",
                "",
                f"{peaks[0]:.0f} MB and {peaks[1]:.0f} MB",
                "",
            )

    def compare(
        self, path: Path, peers: tuple[str, ...], remark: str = "rows of 1,000 characters"
    ) -> Iterator[Row]:
        size = path.stat().st_size / 1e6
        self.once(OURS, path)  # compiles, and brings the file into the cache of the system
        runs: dict[str, list[Finished]] = {
            name: []
            for name in ("ours", *peers)
            if name in ("ours", "json", "csv") or (not SMOKE and find_spec(name))
        }
        for _ in range(sized(self.times, 1)):
            for name, finished in runs.items():
                finished.append(self.once(OURS if name == "ours" else PEERS[name], path))
        ours = runs.pop("ours")
        figure = f"{size:,.0f} MB {path.suffix[1:]}, {remark}, one column"
        if not runs:
            yield figure, "", _speed(size, ours), ""
        for name, finished in runs.items():
            ratios = sorted(p.seconds / o.seconds for o, p in zip(ours, finished))
            ratio = f"{statistics.median(ratios):.1f}x ({ratios[0]:.1f}-{ratios[-1]:.1f})"
            yield figure, f"{name} {_speed(size, finished)}", _speed(size, ours), ratio

    def once(self, code: str, path: Path, *more: str) -> Finished:
        return run_program([sys.executable, "-c", code, str(path), *more])

    def write(self, name: str, length: int, size: int | None = None) -> Path:
        """Ten thousand rows, again and again: an id, a source, a text of about `length` characters,
        a nested object.
        """
        path = self.work / name
        if path.exists():
            return path
        text, rng, rows = bundled_text(), random.Random(0), []
        for number in range(sized(10_000, 50)):
            start = rng.randrange(len(text) - 2 * length)
            part = text[start : start + rng.randrange(length // 2, length * 3 // 2)]
            row = {
                "id": number,
                "source": "corpus/part-07",
                "text": part,
                "meta": {"lang": "en", "tags": ["a"]},
            }
            quoted = part.replace('"', '""')
            rows.append(
                f'{number},corpus/part-07,"{quoted}"\n'
                if path.suffix == ".csv"
                else json.dumps(row) + "\n"
            )
        block = "".join(rows).encode()
        with open(path, "wb") as file:
            if path.suffix == ".csv":
                file.write(b"id,source,text\n")
            while file.tell() < (size or self.size):
                file.write(block)
        return path


def _speed(size: float, finished: list[Finished]) -> str:
    """Median speed and highest peak."""
    seconds = statistics.median(one.seconds for one in finished)
    return f"{size / seconds:.0f} MB/s, {max(one.peak for one in finished) / 1e6:.0f} MB"
