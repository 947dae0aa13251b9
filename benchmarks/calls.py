"""What a user meets: one call, and a batch of ordinary sentences, from Python strings to Python
results, for every verb.

A line is a sentence of 25 words of text8 unless a row says otherwise. A row of one call is the mean
of many calls with different arguments, call by call in turns with the peer; where no other program
does the same, the peer is our own batch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import (
    Ratio,
    alternate,
    alternate_calls,
    collect,
    data,
    peer,
    seconds,
    sized,
    table,
)

Row = tuple[str, str, str, str]
LINE = 25  # words


def run(quick: bool, only: str) -> None:
    with tempfile.TemporaryDirectory(prefix="seqloom-bench-") as work:
        bench = Bench(Path(work), quick)
        table(
            "one call, and sentences",
            collect(bench.suites(), only),
            ("figure", "peer", "ours", "ours against the peer"),
        )


class Bench:
    def __init__(self, work: Path, quick: bool) -> None:
        self.work, self.quick, self.times = work, quick, 2 if quick else 9

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {
            "ngram": self.ngram,
            "language": self.language,
            "tokenizer": self.tokenizer,
            "tagger": self.tagger,
            "classifier": self.classifier,
            "vectors": self.vectors,
        }

    def turns(
        self, ours: Callable[[Any], Any], peer: Callable[[Any], Any] | None, asked: Sequence[Any]
    ) -> Ratio:
        return alternate_calls(ours, peer, asked, self.times)

    def sentences(self) -> tuple[list[str], list[str]] | None:
        """The first 100,000 lines, to train on, and the last 80,000."""
        source = data("text8_prefix", "text8_prefix.txt")
        if source is None:
            return None
        words = source.read_text().split()[: 1_000_000 if self.quick else None]
        lines = [" ".join(words[i : i + LINE]) for i in range(0, len(words) - LINE + 1, LINE)]
        size = len(lines) // 5
        return lines[: min(size, 100_000)], lines[-min(size * 2, 80_000) :]

    def ngram(self) -> Iterator[Row]:
        """Order 5, unseen text; KenLM reads the same model from our ARPA file."""
        from seqloom import NGram
        from seqloom.interop.arpa import write_arpa

        if (found := self.sentences()) is None:
            return
        train, test = found
        model = NGram(order=5).fit(train)
        write_arpa(model, self.work / "peer.arpa")
        kenlm = peer("kenlm")
        other = kenlm and kenlm.Model(str(self.work / "peer.arpa"))
        tokens = len(test) * (LINE + 1)
        few = test[:2000]
        theirs = [other.score(line) for line in few[:500]] if other else [np.nan]
        gap = max(abs(a / np.log(10) - b) for a, b in zip(model.score(few[:500]), theirs))
        batch = self.turns(
            model.score, other and (lambda lines: [other.score(line) for line in lines]), [test]
        )
        trained = f"order 5 trained on {len(train) * LINE / 1e6:.1f} M words"
        yield (
            f"ngram `score(lines)`, {len(test):,} unseen lines of {LINE} words, {trained} (largest "
            f"difference of a line "
            f"{gap:.0e})",
            f"kenlm module, {tokens / batch.peer / 1e6:.1f} M tokens/s",
            f"{tokens / batch.ours / 1e6:.1f} M tokens/s",
            str(batch),
        )
        yield self.one(
            "ngram `score(line)`",
            "kenlm `score`",
            self.turns(model.score, other and other.score, few),
        )
        yield self.one(
            "ngram `token_scores(line)`",
            "kenlm `full_scores`",
            self.turns(
                model.token_scores, other and (lambda line: list(other.full_scores(line))), few
            ),
        )

    def language(self) -> Iterator[Row]:
        """No other program has these verbs for all models; one call is set against a batch of 200."""
        from seqloom import GPT, GRU, HMM, LSTM, NGram
        from seqloom.training.config import TrainConfig

        if (found := self.sentences()) is None:
            return
        train, test = found[0][:20_000], found[1][:200]
        width = sized(128, 16)
        for model in (
            NGram(order=3),
            HMM(states=16, iterations=3),
            GRU(d_hidden=width),
            LSTM(d_hidden=width),
            GPT(n_layers=2, d_model=width, n_heads=4, context=64),
        ):
            fitted = model.fit(train, **({"train": TrainConfig(steps=2)} if model.trained else {}))
            yield self.itself(f"{fitted.label()} `score`", fitted.score, test)
            prompts = [" ".join(line.split()[:5]) for line in test[:40]]
            for size in (1, 20):
                yield self.itself(
                    f"{fitted.label()} `generate`, max_tokens={size}",
                    lambda p, m=fitted, size=size: m.generate(p, max_tokens=size),
                    prompts,
                )
            yield self.itself(
                f"{fitted.label()} `complete`", fitted.complete, prompts, listed=False
            )

    def tokenizer(self) -> Iterator[Row]:
        from tokenizers import Tokenizer as Peer

        from seqloom import Tokenizer

        if (found := self.sentences()) is None:
            return
        train, test = found[0][:20_000], found[1][:2000]
        for kind in ("whitespace", "word", "byte"):
            ours = Tokenizer(kind=kind).fit(train)
            one = self.turns(ours.encode, lambda line: line.split(), test)
            yield self.one(f"`encode(line)`, {kind}", "str.split", one)
        bpe = Tokenizer(kind="bpe", vocab_size=8000).fit(train)
        bpe.save(self.work / "bpe")
        other = Peer.from_file(str(self.work / "bpe" / "tokenizer.json"))
        yield self.one(
            "`encode(line)`, bpe of 8,000",
            "tokenizers `encode`",
            self.turns(
                bpe.encode, lambda line: other.encode(line, add_special_tokens=False).ids, test
            ),
        )

    def tagger(self) -> Iterator[Row]:
        """Parts of speech with features of UD English EWT as one tag; rare ones together, 179 tags in all."""
        from seqloom import HMMTagger

        files = (
            data("ud_english_ewt", "en_ewt-ud-train.conllu"),
            data("ud_english_ewt", "en_ewt-ud-test.conllu"),
        )
        if None in files:
            return
        train, test = (_fine_tags(path) for path in files if path)
        counts: dict[str, int] = {}
        for tag in (tag for _, tags in train for tag in tags):
            counts[tag] = counts.get(tag, 0) + 1
        kept = set(sorted(counts, key=lambda tag: -counts[tag])[:178])
        model = HMMTagger().fit(
            [(words, [tag if tag in kept else "rare" for tag in tags]) for words, tags in train]
        )
        yield self.itself(
            f"hmm-tagger `predict`, {len(model.tags)} tags, UD English EWT test",
            model.predict,
            [words for words, _ in test][:500],
        )

    def classifier(self) -> Iterator[Row]:
        from benchmarks.naive_bayes import scikit_learn
        from seqloom import FastTextClassifier, NaiveBayes

        source = data("sst2", "stsa.binary.train")
        if source is None:
            return
        rows = [line.split(" ", 1) for line in source.read_text().splitlines()]
        texts, labels = [text for _, text in rows], [label for label, _ in rows]
        other = scikit_learn()
        other = other and other.fit(texts, labels)
        for model in (NaiveBayes(), FastTextClassifier(epochs=5)):
            fitted = model.fit(list(zip(texts, labels)))
            for verb in ("predict", "predict_proba"):
                ours, theirs = getattr(fitted, verb), getattr(other, verb, None)
                one = self.turns(ours, theirs and (lambda text, f=theirs: f([text])), texts[:200])
                yield self.one(
                    f"{fitted.name} `{verb}(text)`, SST-2", "scikit-learn naive Bayes", one
                )
                batch = self.turns(ours, theirs, [texts])
                yield (
                    f"{fitted.name} `{verb}(texts)`, {len(texts):,} sentences of SST-2",
                    f"scikit-learn naive Bayes, {len(texts) / batch.peer / 1e3:.0f} k/s",
                    f"{len(texts) / batch.ours / 1e3:.0f} k/s",
                    str(batch),
                )

    def vectors(self) -> Iterator[Row]:
        """Random vectors around a few centres: the time depends on the size alone, nearly."""
        from seqloom import WordVectors

        rng = np.random.default_rng(0)
        for size, width in sized(((20_000, 100), (71_000, 100), (400_000, 50)), ((200, 10),)):
            rows = rng.standard_normal((size, 20), np.float32) @ rng.standard_normal(
                (20, width), np.float32
            )
            rows += rng.standard_normal(rows.shape, np.float32)
            ours = WordVectors.of([f"w{i}" for i in range(size)], rows)
            units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            asked = [f"w{i}" for i in rng.integers(0, size, 100)]
            one = self.turns(ours.nearest, lambda word, u=units: u @ u[int(word[1:])], asked)
            yield self.one(
                f"`nearest(word)` among {size:,} x {width}", "the product of NumPy alone", one
            )
            if size in (71_000, 200):
                yield self.itself("`nearest`, the same", ours.nearest, asked)
                yield self.itself("`embed`", ours.embed, asked)
                yield self.itself("`similarity(a, b)`", partial(_similarity, ours), asked)

    def one(self, what: str, peer: str, ratio: Ratio) -> Row:
        """A row of one call, in microseconds."""
        return (
            f"{what}, one call",
            f"{peer}, {ratio.peer * 1e6:.1f} us",
            f"{ratio.ours * 1e6:.1f} us",
            f"{1 / ratio.median:.1f} times its time ({1 / ratio.high:.1f}-{1 / ratio.low:.1f})",
        )

    def itself(
        self, what: str, verb: Callable[[Any], Any], asked: Sequence[Any], *, listed: bool = True
    ) -> Row:
        """One call against a batch of the same arguments, where the verb takes a list."""
        if not listed:
            spent = min(seconds(lambda: [verb(x) for x in asked]) for _ in range(self.times)) / len(
                asked
            )
            return f"{what}, one call", "", f"{spent * 1e6:.0f} us", ""
        verb(list(asked)), verb(asked[0])
        ratio = alternate(
            lambda: seconds(lambda: [verb(x) for x in asked]) / len(asked),
            lambda: seconds(lambda: verb(list(asked))) / len(asked),
            self.times,
        )
        return self.one(what, f"our own batch of {len(asked)}", ratio)


def _similarity(vectors: Any, words: str | list[str]) -> Any:
    """Of each word to the first of all."""
    first = vectors.words[0]
    return vectors.similarity(first if isinstance(words, str) else [first] * len(words), words)


def _fine_tags(path: Path) -> list[tuple[list[str], list[str]]]:
    """Sentences of a CoNLL-U file with part of speech and features as the tag."""
    sentences = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if line.split("\t")[0].isdigit()]
        sentences.append(([row[1] for row in rows], [f"{row[3]}|{row[5]}" for row in rows]))
    return sentences
