"""n-gram models: quality against published numbers, speed against KenLM (and nltk.lm for scale)."""

from __future__ import annotations

import gzip
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.side_by_side import (
    Ratio,
    alternate,
    bundled_text,
    collect,
    data,
    peer,
    sized,
    table,
)
from benchmarks.side_by_side import run as run_program

SEQLOOM = [str(Path(sys.executable).parent / "seqloom")]
Row = tuple[str, str, str, str]


def run(quick: bool, only: str) -> None:
    with tempfile.TemporaryDirectory(prefix="seqloom-bench-") as work:
        bench = Bench(Path(work), quick)
        rows = collect(bench.suites(), only)
        table("n-gram models", rows, ("figure", "peer", "ours", "ours against the peer"))


class Bench:
    def __init__(self, work: Path, quick: bool) -> None:
        self.work, self.times = work, 2 if quick else 5
        self.limit = 1_000_000 if quick else None  # tokens

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {
            "quality": self.quality,
            "golden": self.golden,
            "fit": self.fit,
            "memory": self.memory,
            "score": self.score,
            "growth": self.growth,
            "nltk": self.nltk,
            "startup": self.startup,
            "compile": self.compile,
        }

    def quality(self) -> Iterator[Row]:
        from seqloom import NGram, read

        for corpus, train, test, order, published in (
            ("PTB", ("ptb", "ptb.train.txt"), ("ptb", "ptb.test.txt"), 5, "lmplz 141.19"),
            ("PTB", ("ptb", "ptb.train.txt"), ("ptb", "ptb.test.txt"), 3, "published 148.3"),
            (
                "WikiText-2",
                ("wikitext-2", "train.txt"),
                ("wikitext-2", "test.txt"),
                5,
                "lmplz 224.8",
            ),
        ):
            paths = data(*train), data(*test)
            if paths[0] and paths[1]:
                # WikiText-2's published figure leaves out blank lines; as empty sentences they give
                # 220.14, in lmplz too
                lines, held_out = ([x for x in read(p).lines() if x.strip()] for p in paths if p)
                result = NGram(order=order).fit(lines).evaluate(held_out, samples=0)
                yield (
                    f"{corpus} test perplexity, order {order}, modified Kneser-Ney, closed "
                    f"vocabulary, `</s>` counted",
                    published,
                    f"{result['perplexity']:.2f}",
                    "",
                )
        text = bundled_text()
        cut = len(text) * 9 // 10
        result = (
            NGram(order=6, tokenizer="char", unit="stream")
            .fit(text[:cut])
            .evaluate(text[cut:], samples=0)
        )
        yield (
            "tinyshakespeare characters, order 6, last tenth",
            "",
            f"{result['nats'] / result['tokens']:.3f} nats",
            "",
        )

    def golden(self) -> Iterator[Row]:
        """Every token of KenLM's reference output, $SEQLOOM_GOLDEN/kenlm."""
        from seqloom import NGram, read

        place = Path(os.environ.get("SEQLOOM_GOLDEN", "")) / "kenlm"
        if not (place / "train.txt").exists():
            print("(skipped: $SEQLOOM_GOLDEN/kenlm)")
            return
        for order in (3, 5):
            model = NGram(order=order).fit(read(place / "train.txt"))
            with gzip.open(place / f"order{order}.test_scores.tsv.gz", "rt") as file:
                golden = np.array([float(line.split("\t")[2]) for line in file])
            ours = np.concatenate(
                model.token_scores(list(read(place / "test.txt").lines()))
            ) / math.log(10)
            yield (
                f"largest difference in log10 over {len(golden):,} test tokens, order {order}",
                "KenLM",
                f"{np.abs(ours - golden).max():.1e}",
                "",
            )

    def corpora(self) -> Iterator[tuple[str, Path]]:
        """text8_prefix as lines of 1,000 words (KenLM needs line ends) and WikiText-2, `<unk>`
        renamed for KenLM.
        """
        for name, parts in (
            ("text8_prefix", ("text8_prefix", "text8_prefix.txt")),
            ("WikiText-2", ("wikitext-2", "train.txt")),
        ):
            source = data(*parts)
            if source is None:
                continue
            target = self.work / f"{name}.txt"
            if not target.exists():
                if name == "WikiText-2":
                    target.write_text(source.read_text().replace("<unk>", "unk"))
                else:
                    words = source.read_text().split()[: self.limit]
                    target.write_text(
                        "".join(
                            " ".join(words[i : i + 1000]) + "\n" for i in range(0, len(words), 1000)
                        )
                    )
            yield name, target

    def ours(self, text: Path, *options: str) -> tuple[float, int]:
        out = self.work / "model"
        done = run_program(
            [*SEQLOOM, "fit", "ngram", str(text), "-o", str(out), "--order", "5", "-q", *options]
        )
        return done.seconds, done.peak

    def lmplz(self, text: Path) -> tuple[float, int]:
        """Text to ARPA to a binary that can be queried."""
        place = Path(os.environ["KENLM_BIN"])
        arpa, binary = self.work / "peer.arpa", self.work / "peer.bin"
        first = run_program(
            [
                str(place / "lmplz"),
                "-o",
                "5",
                "-S",
                "50%",
                "-T",
                str(self.work),
                "--text",
                str(text),
                "--arpa",
                str(arpa),
            ]
        )
        second = run_program([str(place / "build_binary"), str(arpa), str(binary)])
        return first.seconds + second.seconds, max(first.peak, second.peak)

    def has_kenlm(self) -> bool:
        found = shutil.which("lmplz", path=os.environ.get("KENLM_BIN", ""))
        if not found:
            print("(skipped: no lmplz; set KENLM_BIN to the directory of KenLM's programs)")
        return bool(found)

    def fit(self) -> Iterator[Row]:
        kenlm = self.has_kenlm()
        for name, text in self.corpora():
            self.ours(text)  # kernels compiled, files in the page cache
            ratio = alternate(
                lambda t=text: self.ours(t)[0],
                (lambda t=text: self.lmplz(t)[0]) if kenlm else None,
                self.times,
            )
            yield (
                f"{name}: text to saved, queryable order-5 model",
                "lmplz then build_binary",
                _seconds(ratio),
                str(ratio),
            )

    def memory(self) -> Iterator[Row]:
        for name, text in self.corpora():
            for options in ((), ("--memory", "800M")):
                seconds, peak = self.ours(text, *options)
                label = f"{name}: peak memory of that {' '.join(options)}".strip()
                yield label, "", f"{peak / 1e9:.2f} GB, {seconds:.1f} s", ""

    def score(self) -> Iterator[Row]:
        """10 M tokens as lines in memory, models loaded; trained on the same text, and on another
        part of it.
        """
        import seqloom

        kenlm = self.has_kenlm() and peer("kenlm")

        text = dict(self.corpora()).get("text8_prefix")
        if text is None:
            return
        lines = text.read_text().splitlines()
        sizes = (len(lines), max(len(lines) // 5, 1))
        for label, part, size in (
            ("seen in training", lines[:10_000], sizes[0]),
            ("unseen", lines[-10_000:], sizes[1]),
        ):
            source = self.work / "train.txt"
            source.write_text("\n".join(lines[:size]) + "\n")
            if label == "unseen":
                part = lines[size:][-10_000:]
            self.ours(source)
            model, other = seqloom.load(self.work / "model"), None
            if kenlm:
                self.lmplz(source)
                other = kenlm.Model(str(self.work / "peer.bin"))
            tokens = sum(line.count(" ") + 2 for line in part)
            model.score(part)
            scores = [other.score(line) for line in part[:200]] if other else [math.nan]
            difference = max(
                abs(a / math.log(10) - b) / 1001 for a, b in zip(model.score(part[:200]), scores)
            )

            def ours(model=model, part=part) -> float:  # type: ignore[no-untyped-def]
                start = time.perf_counter()
                model.score(part)
                return time.perf_counter() - start

            def theirs(peer=other, part=part) -> float:  # type: ignore[no-untyped-def]
                start = time.perf_counter()
                for line in part:
                    peer.score(line)
                return time.perf_counter() - start

            ratio = alternate(ours, other and theirs, self.times)
            yield (
                f"scoring {tokens / 1e6:.1f} M tokens of text {label}, order 5, largest difference "
                f"{difference:.0e} a token",
                f"kenlm module, {tokens / ratio.peer / 1e6:.1f} M tokens/s",
                f"{tokens / ratio.ours / 1e6:.1f} M tokens/s",
                str(ratio),
            )

    def growth(self) -> Iterator[Row]:
        source = dict(self.corpora()).get("text8_prefix")
        if source is None:
            return
        lines = source.read_text().splitlines()
        costs = []
        for size in sorted({*sized((1000, 2000, 4000, 8000), (1,)), len(lines)}):
            part = self.work / "part.txt"
            part.write_text("\n".join(lines[:size]) + "\n")
            costs.append((size * 1001, _growth_cost(part)))
        worst = max(c for _, c in costs) / min(c for _, c in costs)
        shown = ", ".join(f"{n / 1e6:.0f} M: {c * 1e6:.2f}" for n, c in costs)
        yield (
            "growth: microseconds a token to fit, in one process",
            "itself",
            shown,
            f"{worst:.2f}x between extremes",
        )

    def nltk(self) -> Iterator[Row]:
        """For scale: nltk.lm's own Kneser-Ney on little text."""
        from seqloom import NGram

        nltk = peer("nltk.lm.preprocessing") and peer("nltk.lm")
        lines = bundled_text().lower().split("\n")[:4000]
        sentences = [line.split() for line in lines if line]
        tokens = sum(map(len, sentences))
        asked = [(s[2], s[:2]) for s in sentences if len(s) > 2][:20]
        start = fitted = scored = math.nan
        if nltk:
            start = time.perf_counter()
            grams, words = nltk.preprocessing.padded_everygram_pipeline(3, sentences)
            theirs = nltk.KneserNeyInterpolated(3)
            theirs.fit(grams, words)
            fitted = time.perf_counter()
            for word, context in asked:
                theirs.score(word, context)
            scored = time.perf_counter()
        model = NGram(order=3, smoothing="kneser-ney").fit(lines)
        begin = time.perf_counter()
        model = NGram(order=3, smoothing="kneser-ney").fit(lines)
        middle = time.perf_counter()
        model.score(lines)
        end = time.perf_counter()
        yield (
            f"nltk.lm, order 3, {tokens:,} words, fitting",
            f"{tokens / (fitted - start) / 1e3:.0f} k tokens/s",
            f"{tokens / (middle - begin) / 1e3:.0f} k tokens/s",
            "for scale",
        )
        yield (
            "nltk.lm, scoring",
            f"{len(asked) / (scored - fitted):.0f} tokens/s",
            f"{tokens / (end - middle) / 1e3:.0f} k tokens/s",
            "for scale",
        )

    def startup(self) -> Iterator[Row]:
        for arguments in (["--help"], ["fit", "ngram", "--help"]):
            seconds = [run_program([*SEQLOOM, *arguments]).seconds for _ in range(sized(10, 1))]
            yield (
                f"seqloom {' '.join(arguments)}",
                "bar 0.3 s",
                f"{statistics.median(seconds):.2f} s",
                "",
            )

    def compile(self) -> Iterator[Row]:
        """What the very first run pays for compiling kernels."""
        text = self.work / "tiny.txt"
        text.write_text("to be or not to be\n" * 3)
        command = [
            *SEQLOOM,
            "fit",
            "ngram",
            str(text),
            "-o",
            str(self.work / "tiny"),
            "--order",
            "2",
            "-q",
        ]
        cache = sized({"NUMBA_CACHE_DIR": str(self.work / "kernels")}, {})
        first, second = (
            run_program(command, env=cache).seconds,
            run_program(command, env=cache).seconds,
        )
        yield (
            "first run of `seqloom fit ngram` (kernels compiled), and the second",
            "",
            f"{first:.1f} s, {second:.1f} s",
            "",
        )


def _growth_cost(text: Path) -> float:
    from seqloom import NGram, read

    best = math.inf
    for _ in range(sized(3, 1)):
        start = time.perf_counter()
        model = NGram(order=5).fit(read(text))
        best = min(best, time.perf_counter() - start)
    return best / model.fit_info["tokens"]


def _seconds(ratio: Ratio) -> str:
    return f"{ratio.ours:.1f} s against {ratio.peer:.1f} s"
