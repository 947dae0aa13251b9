"""fastText's classifier against fastText itself (package fasttext-numpy2): accuracy, text file to
saved model, prediction.

Two threads for both, the same settings, words by white space; fastText gets its file in `__label__`
form, ours reads the same file. With fewer than ten threads fastText leaves most of its input matrix
uninitialised and sometimes ends with a NaN, which is tried again with another seed; so its accuracy
is also given with twelve threads.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.naive_bayes import Bench as Documents
from benchmarks.side_by_side import alternate, collect, data, peer, seconds, sized, table

Row = tuple[str, str, str, str]
SETTINGS = {  # learning rate and epochs by the longest n-grams; those of SST-2 were chosen on its dev part
    "SST-2": {1: (0.25, 3), 2: (0.5, 5)},
    "documents": {1: (0.5, 5), 2: (0.5, 5)},
}
DIMENSIONS = 100
SEEDS = sized(3, 1)


def run(quick: bool, only: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(quick, Path(place))
        table(
            "text classifier",
            collect(bench.suites(), only),
            ("figure", "peer", "ours", "ours against the peer"),
        )


class Bench:
    def __init__(self, quick: bool, place: Path) -> None:
        self.quick, self.times, self.place = quick, 2 if quick else 5, place
        self.fasttext = peer("fasttext")

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {"sst2": self.sst2, "documents": self.documents, "quantised": self.quantised}

    def sst2(self) -> Iterator[Row]:
        """Trained on the 6,920 sentences of train alone."""
        if (files := self._sst2()) is None:
            return
        for ngrams in (1, 2):
            yield from self._accuracy("SST-2", files, ngrams)
            yield self._end_to_end("SST-2", files[0], ngrams)

    def documents(self) -> Iterator[Row]:
        """The documents of the naive Bayes benchmark in random order; nine tenths to learn from."""
        if (files := self._documents()) is None:
            return
        for ngrams in (1, 2):
            yield from self._accuracy("documents", files, ngrams)
            yield self._end_to_end("documents", files[0], ngrams)
            yield self._prediction("documents", files, ngrams)

    def quantised(self) -> Iterator[Row]:
        """With its own settings, against the same model before."""
        for name, files in (("SST-2", self._sst2()), ("documents", self._documents())):
            if files is None:
                continue
            whole = self._fit(name, files[0], 2, 0)
            for cutoff in (None, 100_000):
                small = whole.quantised(cutoff)
                sizes = [self._size(model) for model in (whole, small)]
                scores = [_accuracy(model, files[-1]) for model in (whole, small)]
                kept = (
                    f", {cutoff:,} features kept"
                    if cutoff
                    else f", {len(whole.features):,} features"
                )
                yield (
                    f"{name}, uni- and bigrams quantised{kept}",
                    f"before: {sizes[0] / 1e6:.1f} MB, {scores[0]:.2%}",
                    f"{sizes[1] / 1e6:.1f} MB, {scores[1]:.2%}",
                    f"{sizes[0] / sizes[1]:.1f}x smaller",
                )

    # ---- figures

    def _accuracy(self, name: str, files: list[Path], ngrams: int) -> Iterator[Row]:
        for part in files[1:]:
            ours = [
                _accuracy(self._fit(name, files[0], ngrams, seed), part) for seed in range(SEEDS)
            ]
            peers = (
                {
                    threads: [
                        self._peer(name, files[0], ngrams, seed, threads).test(str(part))[1]
                        for seed in range(SEEDS)
                    ]
                    for threads in (2, 12)
                }
                if self.fasttext
                else {0: [np.nan]}
            )
            shown = "; ".join(
                f"{threads} threads {_spread(found)}" for threads, found in peers.items()
            )
            yield (
                f"accuracy, {name}, {part.stem}, n-grams up to {ngrams}, {SEEDS} seeds",
                f"fastText {shown}",
                _spread(ours),
                f"{np.mean(ours) - max(np.mean(found) for found in peers.values()):+.2%} against "
                f"the better one",
            )

    def _end_to_end(self, name: str, path: Path, ngrams: int) -> Row:
        model, other = self.place / "ours", str(self.place / "peer.bin")
        self._fit(name, path, ngrams, 0).save(model)  # compiles
        took = alternate(
            lambda: seconds(lambda: self._fit(name, path, ngrams, 0).save(model)),
            self.fasttext
            and (lambda: seconds(lambda: self._peer(name, path, ngrams, 0, 2).save_model(other))),
            self.times,
        )
        size = f"{os.path.getsize(path) / 1e6:.1f} MB"
        return (
            f"text file to saved model, {name}, {size}, n-grams up to {ngrams}",
            f"fastText, {took.peer:.2f} s",
            f"{took.ours:.2f} s",
            str(took),
        )

    def _prediction(self, name: str, files: list[Path], ngrams: int) -> Row:
        from seqloom.data.classification import read_labelled

        model = self._fit(name, files[0], ngrams, 0)
        other = self.fasttext and self._peer(name, files[0], ngrams, 0, 2)
        texts = read_labelled(files[-1]).texts
        model.predict(texts)
        took = alternate(
            lambda: seconds(lambda: model.predict(texts)),
            other and (lambda: seconds(lambda: other.predict(texts))),
            self.times,
        )
        return (
            f"prediction of {len(texts):,} texts in one call, {name}, n-grams up to {ngrams}",
            f"fastText, {took.peer:.2f} s",
            f"{took.ours:.2f} s",
            str(took),
        )

    # ---- models

    def _fit(self, name: str, path: Path, ngrams: int, seed: int) -> Any:
        from seqloom.models.classification.fasttext_classifier import FastTextClassifier

        rate, epochs = SETTINGS[name][ngrams]
        return FastTextClassifier(
            tokenizer="whitespace",
            ngrams=ngrams,
            seed=seed,
            lr=rate,
            epochs=epochs,
            dimensions=DIMENSIONS,
        ).fit(path)

    def _peer(self, name: str, path: Path, ngrams: int, seed: int, threads: int) -> Any:
        rate, epochs = SETTINGS[name][ngrams]
        for again in range(20):
            try:
                return self.fasttext.train_supervised(
                    str(path),
                    lr=rate,
                    epoch=epochs,
                    dim=DIMENSIONS,
                    wordNgrams=ngrams,
                    thread=threads,
                    seed=seed + 100 * again,
                    verbose=0,
                )
            except RuntimeError:
                continue
        raise RuntimeError("fastText ends with a NaN whatever the seed")

    def _size(self, model: Any) -> int:
        model.save(self.place / "size")
        return sum(path.stat().st_size for path in (self.place / "size").rglob("*"))

    # ---- data

    def _sst2(self) -> list[Path] | None:
        from seqloom.data.classification import read_labelled

        found = []
        for part in ("train", "dev", "test"):
            if (path := data("sst2", f"stsa.binary.{part}")) is None:
                return None
            labelled = read_labelled(path, form="lines")
            found.append(self._write(f"sst2-{part}", list(zip(labelled.texts, labelled.labels))))
        return found

    def _documents(self) -> list[Path] | None:
        if (found := Documents(self.quick)._documents()) is None:
            return None
        pairs = list(zip(*found))
        random.Random(1).shuffle(pairs)
        border = len(pairs) * 9 // 10
        return [
            self._write("documents-train", pairs[:border]),
            self._write("documents-test", pairs[border:]),
        ]

    def _write(self, name: str, pairs: list[tuple[str, str]]) -> Path:
        path = self.place / f"{name}.txt"
        if not path.exists():
            path.write_text(
                "".join(f"__label__{label} {text}\n" for text, label in pairs), encoding="utf-8"
            )
        return path


def _accuracy(model: Any, path: Path) -> float:
    return float(model.evaluate(path, samples=0)["accuracy"])


def _spread(found: list[float]) -> str:
    return f"{np.mean(found):.2%} ({min(found):.2%} to {max(found):.2%})"
