"""word2vec and fastText side by side with gensim and fasttext: from the text file to saved vectors,
each as a process of its own, two threads, 100 dimensions, window 5, 5 negatives, the same epochs;
and what the vectors are worth.

    make bench ARGS="vector-training"      # speed make bench ARGS="vector-quality"       # several
    seeds on each side, an hour; what is trained is kept and used again

text8 is one line; it is cut into lines of 1,000 words for both sides, because gensim's file mode
gives a line to one worker. fastText runs with 12 threads, since it leaves most of its matrix
without first values with fewer than ten.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import side_by_side
from benchmarks.side_by_side import Ratio, alternate, collect, data, peer, sized, table

Row = tuple[str, ...]
GENSIM = """
import sys
from gensim.models import Word2Vec
text, out, sg, epochs, seed, rate = sys.argv[1:]
model = Word2Vec(corpus_file=text, vector_size=100, window=5, negative=5, sg=int(sg), epochs=int(epochs),
                 workers=2, min_count=5, seed=int(seed), alpha=float(rate))
model.wv.save_word2vec_format(out, binary=True)
"""
FASTTEXT = """
import sys
import fasttext
text, out, epochs = sys.argv[1:]
# It takes no seed; threads that race are one.
model = fasttext.train_unsupervised(text, "skipgram", dim=100, ws=5, neg=5, epoch=int(epochs), minCount=5,
                                    bucket=2_000_000, thread=12, lr=0.05, t=1e-4, verbose=0)
model.save_model(out)
"""
SETS = {
    "analogies": "questions-words.txt",
    "WordSim-353": "EN-WS-353-ALL.txt",
    "SimLex-999": "EN-SIMLEX-999.txt",
    "Rare Words": "EN-RW-STANFORD.txt",
}
SEEDS = sized(
    {
        "skip-gram": range(1, 4),
        "cbow": range(1, 10),
        "fasttext": range(1, 4),
    },  # those of CBOW differ most
    dict.fromkeys(("skip-gram", "cbow", "fasttext"), range(1, 2)),
)
EPOCHS, SUBWORD_EPOCHS = 5, 2
SHORT = 11  # pairs of runs that take seconds, which the noise of the machine changes by half


def run(quick: bool, only: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(quick, Path(place))
        table(
            "training word vectors",
            collect(bench.suites(), only),
            ("figure", "peer", "ours", "ours against the peer"),
        )


def run_quality(quick: bool, only: str) -> None:
    """The same text, epochs and rate on both sides; each figure is the mean over the seeds and
    their range.
    """
    from seqloom.directories import cache_directory

    kept = cache_directory() / "vector-quality"
    kept.mkdir(parents=True, exist_ok=True)
    bench = Bench(quick, kept)
    table(
        "what the vectors are worth", collect({"quality": bench.quality}, only), ("vectors", *SETS)
    )


class Bench:
    def __init__(self, quick: bool, place: Path) -> None:
        self.quick, self.times, self.place = quick, 2 if quick else 5, place
        os.environ["SEQLOOM_THREADS"] = "2"

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {
            "skip-gram": lambda: self._word2vec("skip-gram"),
            "cbow": lambda: self._word2vec("cbow"),
            "fasttext": self.fasttext,
            "deterministic": self.deterministic,
        }

    # ---- speed

    def _word2vec(self, architecture: str) -> Iterator[Row]:
        gensim = peer("gensim")
        for name, text, epochs in self._texts(1, 5):
            took = alternate(
                lambda t=text, e=epochs: self._ours(
                    t, "word2vec", e, "--architecture", architecture
                ),
                gensim and (lambda t=text, e=epochs: self._gensim(t, architecture, e)),
                SHORT if architecture == "cbow" and name == "WikiText-2" else self.times,
            )
            yield self._row(
                f"{architecture}, {name}, {epochs} epochs", "gensim, file mode", took, text, epochs
            )

    def fasttext(self) -> Iterator[Row]:
        fasttext = peer("fasttext")
        for name, text, epochs in self._texts(1, 1, 3_000):
            took = alternate(
                lambda t=text, e=epochs: self._ours(t, "fasttext", e),
                fasttext and (lambda t=text, e=epochs: self._fasttext(t, e)),
                self.times,
            )
            yield self._row(
                f"fastText skip-gram with n-grams, {name}, {epochs} epochs",
                "fasttext, 12 threads",
                took,
                text,
                epochs,
            )

    def deterministic(self) -> Iterator[Row]:
        for name, text, epochs in self._texts(1, 5):
            took = alternate(
                lambda t=text, e=epochs: self._ours(t, "word2vec", e),
                lambda t=text, e=epochs: self._ours(t, "word2vec", e, "--deterministic"),
                self.times,
            )
            yield self._row(
                f"skip-gram, {name}, {epochs} epochs, lock-free",
                "ours, deterministic",
                took,
                text,
                epochs,
            )

    def _row(self, figure: str, peer: str, took: Ratio, text: Path, epochs: int) -> Row:
        words = epochs * text.read_bytes().count(b" ")
        speeds = [f"{words / taken / 1e3:,.0f} k words/s" for taken in (took.peer, took.ours)]
        return figure, f"{peer}, {speeds[0]}", speeds[1], str(took)

    def _ours(self, text: Path, model: str, epochs: int, *options: str) -> float:
        return side_by_side.run(
            [
                sys.executable,
                "-m",
                "seqloom.cli",
                "fit",
                model,
                str(text),
                "-o",
                str(self.place / "ours"),
                "--epochs",
                str(epochs),
                "-q",
                *options,
            ]
        ).seconds

    def _gensim(
        self,
        text: Path,
        architecture: str,
        epochs: int,
        seed: int = 1,
        rate: float = 0.025,
        out: Path | None = None,
    ) -> float:
        where = out or self.place / "gensim.bin"
        return side_by_side.run(
            [
                sys.executable,
                "-c",
                GENSIM,
                str(text),
                str(where),
                str(int(architecture == "skip-gram")),
                str(epochs),
                str(seed),
                str(rate),
            ]
        ).seconds

    def _fasttext(self, text: Path, epochs: int, out: Path | None = None) -> float:
        where = out or self.place / "ft.bin"
        return side_by_side.run(
            [sys.executable, "-c", FASTTEXT, str(text), str(where), str(epochs)]
        ).seconds

    def _texts(
        self, large: int, small: int, lines: int | None = None
    ) -> Iterator[tuple[str, Path, int]]:
        if (text := self._text8(100 if self.quick else lines)) is not None:
            yield (
                f"text8_prefix{f' ({lines / 1e3:.0f} M words of it)' if lines else ''}",
                text,
                large,
            )
        if (wiki := data("wikitext-2", "train.txt")) is not None and not self.quick:
            yield "WikiText-2", wiki, small

    def _text8(self, lines: int | None = None) -> Path | None:
        """text8 in lines of 1,000 words."""
        if (source := data("text8_prefix", "text8_prefix.txt")) is None:
            return None
        path = self.place / f"text8-{lines}.txt"
        if not path.exists():
            words = source.read_text().split()[: None if lines is None else 1000 * lines]
            path.write_text(
                "".join(" ".join(words[i : i + 1000]) + "\n" for i in range(0, len(words), 1000))
            )
        return path

    # ---- quality

    def quality(self) -> Iterator[Row]:
        """fastText is slow, so it has fewer epochs."""
        text, sets = (
            self._text8(100 if self.quick else None),
            {name: data("wordeval", file) for name, file in SETS.items()},
        )
        if text is None or None in sets.values():
            return
        for kind, rate in (
            ("skip-gram", 0.025),
            ("cbow", 0.05),
        ):  # the rates of the authors' program
            for side in ("ours", *(["gensim"] if peer("gensim") else [])):
                yield self._judged(
                    f"word2vec {kind}, rate {rate}, {side}",
                    sets,
                    [
                        self._kept(f"{side}-{kind}-{rate}-{seed}", text, side, kind, rate, seed)
                        for seed in SEEDS[kind]
                    ],
                )
        for side in ("ours", *(["fasttext"] if peer("fasttext") else [])):
            yield self._judged(
                f"fastText skip-gram, rate 0.05, {SUBWORD_EPOCHS} epochs, {side}",
                sets,
                [
                    self._kept(f"ft-{side}-{seed}", text, side, "fasttext", 0.05, seed)
                    for seed in SEEDS["fasttext"]
                ],
            )

    def _kept(self, name: str, text: Path, side: str, kind: str, rate: float, seed: int) -> Path:
        """Vectors that were trained before, or are now."""
        path = self.place / (name if side == "ours" else f"{name}.bin")
        if not path.exists():
            if side == "gensim":
                self._gensim(text, kind, EPOCHS, seed, rate, path)
            elif side == "fasttext":
                self._fasttext(text, SUBWORD_EPOCHS, path)
            else:
                options = (
                    ["word2vec", "--architecture", kind] if kind != "fasttext" else ["fasttext"]
                )
                epochs = SUBWORD_EPOCHS if kind == "fasttext" else EPOCHS
                side_by_side.run(
                    [
                        sys.executable,
                        "-m",
                        "seqloom.cli",
                        "fit",
                        *options,
                        str(text),
                        "-o",
                        str(path),
                        "--epochs",
                        str(epochs),
                        "--lr",
                        str(rate),
                        "--seed",
                        str(seed),
                        "-q",
                    ]
                )
        return path

    def _judged(self, name: str, sets: dict[str, Path | None], models: list[Path]) -> Row:
        from seqloom.registry import open_vectors

        figures: dict[str, list[float]] = {key: [] for key in sets}
        for path in models:
            vectors = open_vectors(str(path))
            for key, questions in sets.items():
                found = vectors.evaluate(questions)
                figures[key].append(
                    found["accuracy"] if "accuracy" in found.metrics else found["spearman"]
                )
        return (
            name,
            *(
                f"{statistics.mean(values):.3f} ({min(values):.3f}-{max(values):.3f})"
                for values in figures.values()
            ),
        )
