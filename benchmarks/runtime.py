"""Inference without torch: this tree, another tree of seqloom and a peer in turns, on the rows that
a change must hold.

    python -m benchmarks.runtime OLD/src                       # every row python -m
    benchmarks.runtime OLD/src --only LSTM --times 3 python -m benchmarks.runtime OLD/src --folder
    KEPT         # models and compiled kernels stay there for the next run

Every side is a process of its own that has made its model ready, and they are asked in turns: new,
old, peer, new, old, peer. Both trees open the same saved models and are used by what both have
(`runtime_rows`). Asked once, a side repeats its work for half a second and gives the median. Where
both trees can be held to the same answer, they are. Corpora are found through $SEQLOOM_DATA,
published weights through $SEQLOOM_WEIGHTS.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runtime_rows import SIDES, Row, make, rows
from benchmarks.side_by_side import SMOKE, Ratio, ratio_of, sized, table

ROOT = Path(__file__).parents[1]
LEAST = sized(0.5, 0)  # seconds that a side works when it is asked
PAUSE = sized(0.3, 0)  # until the threads of the side before are asleep
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "SEQLOOM_THREADS"), "1"
)
PAIRS = (("old", "peer"), ("new", "peer"), ("new", "old"))
HEADER = ("row", "peer", "old", "new", *(f"{a} against {b}" for a, b in PAIRS), "must hold")


class Side:
    """A process that does the work of one side of a row whenever it is asked."""

    def __init__(self, row: Row, side: str, trees: dict[str, Path], folder: Path) -> None:
        self.log = folder / f"{side}.log"
        threads = ONE_THREAD if side in row.one_thread else {}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "benchmarks.runtime",
                    "--serve",
                    row.name,
                    side,
                    str(folder),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**environment(side, trees, folder), **threads},
            )

    def answer(self) -> Any:
        """What it says next; None if it ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def __call__(self, turn: int) -> tuple[float, Any]:
        assert self.process.stdin is not None
        time.sleep(PAUSE)
        print(turn, file=self.process.stdin, flush=True)
        if (found := self.answer()) is None:
            raise RuntimeError(self.reason())
        return found[0], found[1]

    def reason(self) -> str:
        """The last line that it complained with."""
        return (self.log.read_text().strip().splitlines() or ["it ended"])[-1]

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()


def environment(side: str, trees: dict[str, Path], folder: Path) -> dict[str, str]:
    """Of a process; a peer that needs seqloom has the new tree."""
    kernels = (
        {}
        if SMOKE
        else {"NUMBA_CACHE_DIR": str(folder / ("kernels-old" if side == "old" else "kernels-new"))}
    )
    tree = trees["old" if side == "old" else "new"]
    return {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{ROOT}", **kernels}


def serve(name: str, side: str, folder: Path) -> None:
    """Be a side: say true when ready, then give seconds and answer for every turn that is asked for."""
    import seqloom

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    row = next(row for row in rows() if row.name == name)
    job = row.peer(folder) if side == "peer" else row.ours(seqloom.load(folder / row.model))
    job(0), job(1)
    print("true", file=out, flush=True)
    for line in sys.stdin:
        turn = 1000 * int(line)
        made = [job(turn)]
        while sum(spent for spent, _ in made) < LEAST:
            made.append(job(turn + len(made)))
        print(
            json.dumps((statistics.median(spent for spent, _ in made), made[0][1])),
            file=out,
            flush=True,
        )


def run(quick: bool, only: str) -> None:
    """This tree alone, each row once in this process, to see that all of them run; the first also
    as it is measured.
    """
    import seqloom

    trees = dict.fromkeys(("new", "old"), ROOT / "src")
    with tempfile.TemporaryDirectory(prefix="seqloom-runtime-") as temporary:
        folder, chosen = Path(temporary), [row for row in rows() if only in row.name]
        lines = [measure(chosen[0], trees, folder, 1)]
        for row in chosen:
            if not (folder / row.model).exists():
                make(row.model, folder)
            spent, _ = row.ours(seqloom.load(folder / row.model))(0)
            plain = getattr(row.peer, "func", row.peer).__name__.startswith(
                "torch_"
            )  # needs nothing else
            theirs = f"{row.peer(folder)(0)[0]:.3f} s" if plain else "-"
            lines.append((row.name, theirs, "-", f"{spent:.3f} s", *["-"] * 4))
    table("Inference, this tree alone", lines, HEADER)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.runtime",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("old", type=Path, help="the sources of the other tree, as OLD/src")
    parser.add_argument("--only", default="", help="run only the rows whose name contains this")
    parser.add_argument(
        "--times", type=int, default=5, help="how often each side is asked [default: 5]"
    )
    parser.add_argument("--folder", type=Path, help="where models and compiled kernels are kept")
    parser.add_argument(
        "--one-thread", action="store_true", help="for every side, as on a machine that others use"
    )
    arguments = parser.parse_args()
    trees = {"new": ROOT / "src", "old": arguments.old.resolve()}
    lines = []
    with tempfile.TemporaryDirectory(prefix="seqloom-runtime-") as temporary:
        folder = (arguments.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for row in rows():
            if arguments.only in row.name:
                row = replace(row, one_thread=SIDES) if arguments.one_thread else row
                lines.append(measure(row, trees, folder, arguments.times))
                print("...", *lines[-1], sep=" | ", file=sys.stderr, flush=True)
    table("Inference, this tree and another" + ", one thread" * arguments.one_thread, lines, HEADER)


def measure(row: Row, trees: dict[str, Path], folder: Path, times: int) -> tuple[str, ...]:
    """A line of the table."""
    if not (folder / row.model).exists():
        command = [sys.executable, "-m", "benchmarks.runtime", "--make", row.model, str(folder)]
        made = subprocess.run(
            command, env=environment("old", trees, folder), capture_output=True, text=True
        )
        if made.returncode:
            return (
                row.name,
                *["-"] * 6,
                f"no model: {(made.stderr.strip().splitlines() or ['?'])[-1]}",
            )
    with ExitStack() as stack:
        asked = {side: stack.enter_context(Side(row, side, trees, folder)) for side in SIDES}
        there = [side for side in SIDES if asked[side].answer()]
        found = [{side: asked[side](turn) for side in there} for turn in range(times)]
        missing = [
            f"{side} is missing: {asked[side].reason()}" for side in SIDES if side not in there
        ]
    spent = {side: [one[side][0] for one in found] for side in there}
    rates = [
        f"{row.amount / statistics.median(spent[side]):,.1f} {row.unit}/s" if side in spent else "-"
        for side in ("peer", "old", "new")
    ]
    ratios = {
        (a, b): ratio_of(list(zip(spent[a], spent[b])))
        for a, b in PAIRS
        if a in spent and b in spent
    }
    remarks = [verdict(row, ratios.get(("new", row.than))), *missing]
    if ("new", "old") in ratios:
        remarks += dict.fromkeys(
            said for one in found if (said := difference(one["new"][1], one["old"][1]))
        )
    return row.name, *rates, *(shown(ratios.get(pair)) for pair in PAIRS), "; ".join(remarks)


def shown(ratio: Ratio | None) -> str:
    return "-" if ratio is None else f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})"


def verdict(row: Row, ratio: Ratio | None) -> str:
    asked = f"{row.least:g}x of {row.than}"
    return asked if ratio is None else f"{asked}: {'yes' if ratio.median >= row.least else 'NO'}"


def difference(new: Any, old: Any) -> str:
    """Where the answers of both trees differ, numbers by more than 0.001; nothing where they do not."""
    if not isinstance(new, list):
        return "" if new == old else f"answers differ: {new} and {old}"
    places = [
        i
        for i, (a, b) in enumerate(zip(new, old))
        if a != b and (isinstance(a, (str, int)) or not np.allclose(a, b, atol=1e-3))
    ]
    return f"answers differ from place {places[0]} of {len(new)} on" if places else ""


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    elif sys.argv[1:2] == ["--make"]:
        make(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
