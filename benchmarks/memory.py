"""Peak memory of a run as `seqloom fit --dry-run` foretells it, and as the system counts it.

`foretold`: one network of each task at two sizes. `recompute`: the same networks with activations that
are computed again; what is saved. `kept`: training on texts in memory and in a temporary file.

The data is made up, of words by Zipf's law, since what a text means takes no memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.side_by_side import SMOKE, Finished, collect, sized, table
from benchmarks.side_by_side import run as run_program

Row = tuple[str, ...]
TYPES = sized(20_000, 200)
STEPS = sized(4, 2)
EVERY = ("--evaluate-every", "4")
WORD = "abcdefghijklmnopqrstuvwxyz"


def run(quick: bool, only: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), quick)
        rows = collect(bench.suites(), only)
    table("memory of training", rows, ("figure", "measured", "foretold", "ratio"))


class Bench:
    def __init__(self, directory: Path, quick: bool) -> None:
        self.directory, self.quick = directory, quick
        self.rng = np.random.default_rng(0)
        self.words = [_spelled(i + 600) for i in range(TYPES)]

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {"foretold": self.foretold, "recompute": self.recompute, "kept": self.kept}

    # ---- data

    def text(self, words: int) -> list[str]:
        ranks = np.minimum(self.rng.zipf(1.2, words), TYPES) - 1
        return [self.words[i] for i in ranks.tolist()]

    def lines(self, lines: int, words: int) -> list[str]:
        lengths = self.rng.integers(max(words // 2, 1), words + words // 2 + 1, lines)
        text = iter(self.text(int(lengths.sum())))
        return [" ".join(next(text) for _ in range(n)) for n in lengths.tolist()]

    def file(self, name: str, lines: Sequence[str]) -> Path:
        path = self.directory / name
        if not path.exists():
            path.write_text("\n".join(lines) + "\n")
        return path

    def data(self, task: str) -> list[str]:
        """Return the arguments that name the data of a task, made when it is first needed."""
        some = sized(800, 60)
        if task == "text":
            return [str(self.file("text", self.lines(sized(8_000, 200), 20)))]
        if task == "classifier":
            rows = self.lines(some, 60)
            return [
                str(self.file("labelled.tsv", [f"{WORD[i % 4]}\t{x}" for i, x in enumerate(rows)]))
            ]
        if task == "tagger":
            sentences = [
                "".join(f"{word}\t{word[0].upper()}\n" for word in line.split())
                for line in self.lines(some, 20)
            ]
            return [str(self.file("tagged.conll", sentences))]
        sides = [self.file(f"pairs.{side}", self.lines(some, 15)) for side in ("en", "de")]
        return [str(side) for side in sides]

    # ---- runs

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "seqloom", *arguments, "-q"]

    def both(self, name: str, model: str, *options: str) -> tuple[Finished, dict[str, float]]:
        """Return what a fit took, and what was foretold of it."""
        task = {"lstm": "text", "gpt": "text"}.get(model, model)
        target = str(self.directory / name.replace(" ", "-"))
        # all batches of examples, since the largest one counts; of a text they are alike
        length = ("--steps", str(STEPS)) if task == "text" else ("--epochs", "1")
        fit = self.command("fit", model, *self.data(task), "-o", target, *length, *EVERY, *options)
        said = subprocess.run([*fit, "--dry-run", "--json"], check=True, capture_output=True)
        return run_program(fit), json.loads(said.stdout)

    def foretold(self) -> Iterator[Row]:
        for name, arguments in NETWORKS.items():
            measured, said = self.both(name, *arguments)
            yield (
                name,
                f"{measured.peak / 1e6:,.0f} MB",
                f"{said['peak'] / 1e6:,.0f} MB",
                f"{said['peak'] / measured.peak:.2f}",
            )

    def recompute(self) -> Iterator[Row]:
        for name, arguments in NETWORKS.items():
            if name.endswith("small"):
                continue
            plain, _ = self.both(f"{name} plain", *arguments)
            again, said = self.both(f"{name} again", *arguments, "--recompute")
            yield (
                f"{name}, recompute (without {plain.peak / 1e6:,.0f} MB)",
                f"{again.peak / 1e6:,.0f} MB",
                f"{said['peak'] / 1e6:,.0f} MB",
                f"{said['peak'] / again.peak:.2f}",
            )

    def kept(self) -> Iterator[Row]:
        lines = self.lines(sized(400_000, 100), 60)
        path = self.file("many.tsv", [f"{WORD[i % 4]}\t{x}" for i, x in enumerate(lines)])
        small = ["--encoder", "bag", "--d-embed", "16", "--steps", str(STEPS), "--hold-out", "0"]
        for name, memory in (("in memory", "8G"), ("in a file", "1M")):
            target = str(self.directory / name.replace(" ", "-"))
            fit = self.command(
                "fit", "classifier", str(path), "-o", target, *small, "--memory", memory
            )
            ran = run_program(fit)
            yield (
                f"{path.stat().st_size / 1e6:,.0f} MB of texts, {name}",
                f"{ran.peak / 1e6:,.0f} MB",
                "",
                f"{ran.seconds:.1f} s",
            )


def _spelled(number: int) -> str:
    """Return a number as a word of letters."""
    word = ""
    while number:
        number, digit = divmod(number, len(WORD))
        word += WORD[digit]
    return word


def _both_sizes(model: str, small: str, large: str) -> dict[str, tuple[str, ...]]:
    large = small if SMOKE else large
    return {
        f"{model}, {size}": (model, *options.split())
        for size, options in (("small", small), ("large", large))
    }


WORDS = "--tokenizer whitespace"
NETWORKS = {
    **_both_sizes(
        "lstm",
        f"{WORDS} --d-hidden 128 --n-layers 1",
        f"{WORDS} --d-hidden 650 --n-layers 2 --batch-size 64",
    ),
    **_both_sizes(
        "gpt",
        f"{WORDS} --d-model 64 --n-layers 2 --n-heads 2 --context 64",
        f"{WORDS} --d-model 384 --n-layers 6 --n-heads 6 --context 128 --batch-size 16",
    ),
    **_both_sizes(
        "classifier",
        "--encoder bilstm --d-hidden 64",
        "--encoder bilstm --d-hidden 512 --n-layers 2 --batch-size 64",
    ),
    **_both_sizes(
        "tagger",
        "--encoder bilstm --d-hidden 64",
        "--encoder bilstm --d-hidden 512 --batch-size 128",
    ),
    **_both_sizes(
        "transformer",
        "--d-model 64 --n-layers 2 --n-heads 2",
        "--d-model 512 --n-layers 4 --n-heads 8 --batch-size 128",
    ),
    **_both_sizes("seq2seq", "--d-hidden 64", "--d-hidden 512 --n-layers 2 --batch-size 128"),
}
if SMOKE:
    NETWORKS = {name: options for name, options in NETWORKS.items() if name.startswith("lstm")}
