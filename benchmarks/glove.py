"""GloVe side by side with its authors' programs, found through $GLOVE_BIN (vocab_count, cooccur,
shuffle, glove).

Counting: from the text file to the counts, both sides with the list of words made first and counted
in. Learning: cells a second of whole epochs, two threads on both sides, from finished counts;
theirs by the difference of two lengths, so that reading and writing do not count. Quality: vectors
of the same window, dimensions and epochs.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import alternate, collect, data, seconds, sized, table

Row = tuple[str, str, str, str]
DIMENSIONS, MIN_COUNT, THREADS = sized(100, 8), sized(5, 2), 2


def run(quick: bool, only: str) -> None:
    bench = Bench(quick)
    if bench.programs is None:
        print(
            "(skipped: GLOVE_BIN does not name a directory with vocab_count, cooccur, shuffle and glove)"
        )
    with tempfile.TemporaryDirectory() as place:
        bench.place = Path(place)
        table(
            "GloVe",
            collect(bench.suites(), only),
            ("figure", "peer", "ours", "ours against the peer"),
        )


class Bench:
    place: Path

    def __init__(self, quick: bool) -> None:
        self.quick, self.times = quick, 2 if quick else 5
        found = os.environ.get("GLOVE_BIN")
        names = ("vocab_count", "cooccur", "shuffle", "glove")
        self.programs = (
            Path(found) if found and all((Path(found) / name).is_file() for name in names) else None
        )
        os.environ.setdefault("SEQLOOM_THREADS", str(THREADS))

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {"counting": self.counting, "learning": self.learning, "quality": self.quality}

    # ---- the rows

    def counting(self) -> Iterator[Row]:
        if (text := self._text()) is None:
            return
        self._count_ours(text, 5)  # compiles
        for window in (5, 15):
            tokens = int(self._count_ours(text, window)[0].n_words)
            took = alternate(
                lambda w=window: seconds(lambda: self._count_ours(text, w)),
                self.programs and (lambda w=window: seconds(lambda: self._count_theirs(text, w))),
                self.times,
            )
            yield (
                f"words and their neighbours, window {window}, {tokens:,} tokens",
                f"vocab_count and cooccur, {tokens / took.peer / 1e6:.2f} M tokens/s",
                f"{tokens / took.ours / 1e6:.2f} M tokens/s",
                str(took),
            )

    def learning(self) -> Iterator[Row]:
        from seqloom.models.word_vectors.configs import GloveConfig
        from seqloom.models.word_vectors.glove import Factorisation

        if (text := self._text(8_000_000)) is None:
            return
        stream, cells = self._count_ours(text, 5)
        learner = Factorisation(cells, GloveConfig(dimensions=DIMENSIONS, window=5))
        rounds = range(len(learner.rounds()))
        learner.round(0, 0)  # compiles
        if self.programs:
            self._count_theirs(text, 5)
        epochs = iter(range(1, 1000))

        def ours() -> float:
            epoch = next(epochs)
            return seconds(lambda: [learner.round(epoch, i) for i in rounds])

        def theirs() -> float:
            return seconds(lambda: self._learn_theirs(2, 1)) - seconds(
                lambda: self._learn_theirs(1, 1)
            )

        took = alternate(ours, theirs if self.programs else None, self.times)
        yield (
            f"one epoch over {cells.count:,} cells, {len(stream.words):,} words, {DIMENSIONS} "
            f"dimensions, {THREADS} threads",
            f"glove, {cells.count / took.peer / 1e6:.2f} M cells/s",
            f"{cells.count / took.ours / 1e6:.2f} M cells/s",
            str(took),
        )

    def quality(self) -> Iterator[Row]:
        """Means over seeds, with the range."""
        from seqloom.interop.vectors import read_vectors
        from seqloom.models.word_vectors.glove import Glove

        tests = [
            (name, data("wordeval", file))
            for name, file in (
                ("analogies", "questions-words.txt"),
                ("WordSim-353", "EN-WS-353-ALL.txt"),
                ("SimLex-999", "EN-SIMLEX-999.txt"),
            )
        ]
        if (text := self._text()) is None or any(path is None for _, path in tests):
            return
        epochs, seeds = (2, (1,)) if self.quick else (15, (1, 2, 3))
        if self.programs:
            self._count_theirs(text, 5)
        models: tuple[list[Any], list[Any]] = [], []
        for seed in seeds:
            models[0].append(
                Glove(dimensions=DIMENSIONS, window=5, epochs=epochs, seed=seed).fit(text)
            )
            if self.programs:
                self._learn_theirs(epochs, seed)
                models[1].append(read_vectors(self.place / "vectors.txt"))
        for name, path in tests:
            ours, theirs = (
                [
                    model.evaluate(path)["accuracy" if name == "analogies" else "spearman"]
                    for model in each
                ]
                for each in models
            )
            theirs = theirs or [math.nan]
            yield (
                f"{name}, {epochs} epochs, window 5, {len(seeds)} seeds",
                spread(theirs),
                spread(ours),
                f"{statistics.mean(ours) - statistics.mean(theirs):+.3f}",
            )

    # ---- the work

    def _text(self, most: int | None = None) -> Path | None:
        """All of the text, or so many bytes of its beginning."""
        whole, most = data("text8_prefix", "text8_prefix.txt"), 4_000_000 if self.quick else most
        if whole is None or most is None:
            return whole
        part = self.place / f"text-{most}"
        if not part.exists():
            with open(whole, "rb") as file:
                part.write_bytes(file.read(most))
        return part

    def _count_ours(self, text: Path, window: int) -> tuple[Any, Any]:
        from seqloom import Tokenizer
        from seqloom.data.corpus import as_corpus
        from seqloom.models.word_vectors.cooccurrence import count_cells
        from seqloom.models.word_vectors.reading import read_words

        corpus = as_corpus(text)
        tokenizer = Tokenizer(kind="whitespace", min_count=MIN_COUNT).fit(corpus)
        stream = read_words(corpus, tokenizer, "line")
        return stream, count_cells(stream.ids, len(stream.words), window=window)

    def _count_theirs(self, text: Path, window: int) -> None:
        self._run("vocab_count", "-min-count", str(MIN_COUNT), source=text, target="vocab")
        self._run(
            "cooccur",
            "-memory",
            "4.0",
            "-vocab-file",
            "vocab",
            "-window-size",
            str(window),
            source=text,
            target="cells",
        )

    def _learn_theirs(self, epochs: int, seed: int) -> None:
        shuffled = self.place / f"shuffled-{(self.place / 'cells').stat().st_mtime_ns}"
        if not shuffled.exists():
            self._run(
                "shuffle", "-memory", "4.0", source=self.place / "cells", target=shuffled.name
            )
        self._run(
            "glove",
            "-input-file",
            shuffled.name,
            "-vocab-file",
            "vocab",
            "-vector-size",
            str(DIMENSIONS),
            "-iter",
            str(epochs),
            "-threads",
            str(THREADS),
            "-seed",
            str(seed),
            "-save-file",
            "vectors",
        )

    def _run(
        self, program: str, *options: str, source: Path | None = None, target: str | None = None
    ) -> None:
        assert self.programs is not None
        with (
            open(source or os.devnull, "rb") as read,
            open(self.place / target if target else os.devnull, "wb") as write,
        ):
            subprocess.run(
                [self.programs.absolute() / program, "-verbose", "0", *options],
                cwd=self.place,
                stdin=read,
                stdout=write,
                stderr=subprocess.DEVNULL,
                check=True,
            )


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.3f} ({min(values):.3f}-{max(values):.3f})"
