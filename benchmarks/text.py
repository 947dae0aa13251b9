"""Text to ids: encoding and training against tokenizers and sentencepiece, stems and lemmas against NLTK."""

from __future__ import annotations

import glob
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import alternate, bundled_text, collect, data, peer, seconds, table

Row = tuple[str, str, str, str]


def run(quick: bool, only: str) -> None:
    with tempfile.TemporaryDirectory(prefix="seqloom-bench-") as work:
        bench = Bench(Path(work), quick)
        rows = collect(bench.suites(), only)
        table("text", rows, ("figure", "peer", "ours", "ours against the peer"))


class Bench:
    def __init__(self, work: Path, quick: bool) -> None:
        self.work, self.quick, self.times = work, quick, 2 if quick else 5

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {
            "encode": self.encode,
            "bpe-encode": self.bpe_encode,
            "bpe-train": self.bpe_train,
            "normalize": self.normalize,
            "stem": self.stem,
            "lemma": self.lemma,
            "sentence": self.sentence,
        }

    def corpus(self) -> Path | None:
        """WikiText-2, or its first part."""
        source = data("wikitext-2", "train.txt")
        if source is None or not self.quick:
            return source
        target = self.work / "part.txt"
        target.write_text(
            "".join(source.read_text("utf-8").splitlines(keepends=True)[:5000]), encoding="utf-8"
        )
        return target

    def encode(self) -> Iterator[Row]:
        """File to ids; the vocabulary is known."""
        from seqloom import Tokenizer, read
        from seqloom.data.encode import encode_corpus

        path = self.corpus()
        if path is None:
            return
        size = path.stat().st_size / 1e6
        for kind in ("byte", "whitespace", "word", "char"):
            tokenizer = Tokenizer(kind=kind).fit(read(path))
            encode_corpus(tokenizer, read(path), unit="line")
            spent = min(
                seconds(lambda t=tokenizer: encode_corpus(t, read(path), unit="line"))
                for _ in range(self.times)
            )
            bar = "bar 20 MB/s" if kind in ("byte", "whitespace") else ""
            yield f"file to ids, {kind} ({size:.1f} MB)", bar, f"{size / spent:.0f} MB/s", ""

    def bpe_encode(self) -> Iterator[Row]:
        """File to one array of ids, `</s>` after each line, by the same tokenizer.json."""
        import tokenizers

        from seqloom import Tokenizer, read
        from seqloom.data.encode import encode_corpus

        path = self.corpus()
        if path is None:
            return
        size = path.stat().st_size / 1e6
        ours = Tokenizer(kind="bpe", vocab_size=8000).fit(read(path))
        ours.save(self.work / "bpe")
        other = tokenizers.Tokenizer.from_file(str(self.work / "bpe" / "tokenizer.json"))

        def theirs(encode: Callable[[list[str]], list[Any]]) -> np.ndarray:
            lines = path.read_text("utf-8").split("\n")[:-1]
            ids: list[int] = []
            for encoding in encode(lines):
                ids.extend(encoding.ids)
                ids.append(ours.eos_id)
            return np.array(ids, np.uint16)

        found = encode_corpus(ours, read(path), unit="line")
        same = np.array_equal(found, theirs(other.encode_batch))
        for name in ("encode_batch", "encode_batch_fast"):
            ratio = alternate(
                lambda: seconds(lambda: encode_corpus(ours, read(path), unit="line")),
                lambda n=name: seconds(lambda: theirs(getattr(other, n))),
                self.times,
            )
            yield (
                f"file to ids, BPE of 8,000 ({'the same ids' if same else 'OTHER IDS'})",
                f"tokenizers {name}, {size / ratio.peer:.1f} MB/s",
                f"{size / ratio.ours:.1f} MB/s",
                str(ratio),
            )

    def bpe_train(self) -> Iterator[Row]:
        import tokenizers

        from seqloom import Tokenizer, read

        path = self.corpus()
        if path is None:
            return

        def train_tokenizers() -> object:
            engine = tokenizers.Tokenizer(tokenizers.models.BPE())
            engine.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
            engine.train(
                [str(path)],
                tokenizers.trainers.BpeTrainer(
                    vocab_size=7999,
                    show_progress=False,
                    initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
                ),
            )
            return engine

        made = Tokenizer(kind="bpe", vocab_size=8000).fit(read(path))
        text = path.read_bytes()
        exact = made.decode_bytes(made.encode(text)) == text
        peers: dict[str, Callable[[], object]] = {"tokenizers": train_tokenizers}
        if sentencepiece := peer("sentencepiece"):
            peers["sentencepiece"] = lambda: sentencepiece.SentencePieceTrainer.train(
                input=str(path),
                model_prefix=str(self.work / "sp"),
                vocab_size=8000,
                model_type="bpe",
                minloglevel=2,
            )
        for name, other in peers.items():
            ratio = alternate(
                lambda: seconds(lambda: Tokenizer(kind="bpe", vocab_size=8000).fit(read(path))),
                lambda p=other: seconds(p),
                self.times,
            )
            yield (
                f"training BPE, V = 8,000 ({'round trip exact' if exact else 'ROUND TRIP BROKEN'})",
                f"{name}, {ratio.peer:.2f} s",
                f"{ratio.ours:.2f} s",
                str(ratio),
            )

    def normalize(self) -> Iterator[Row]:
        """What a normaliser adds to encoding, in one thread."""
        from seqloom.text.normalize import Normalizer

        path = self.corpus()
        if path is None:
            return
        text = path.read_bytes()
        for recipe in ("case=lower", "sentiment", "topic", "topic,stopwords=remove,stem=porter"):
            spent = min(
                seconds(lambda r=recipe: Normalizer(r).of_bytes(text)) for _ in range(self.times)
            )
            yield f"normalising by {recipe}", "", f"{len(text) / spent / 1e6:.1f} MB/s", ""

    def words(self) -> list[str]:
        found = re.findall("[a-z]+", bundled_text().lower())
        return found[:20_000] if self.quick else found

    def stem(self) -> Iterator[Row]:
        """Running words and different words, each time by a new stemmer."""
        from seqloom.text.word_forms import Stemmer

        running, nltk = self.words(), peer("nltk.stem")
        peers = {
            "porter": lambda: nltk.PorterStemmer(mode=nltk.PorterStemmer.ORIGINAL_ALGORITHM),
            "snowball": lambda: nltk.SnowballStemmer("english"),
            "lancaster": lambda: nltk.LancasterStemmer(),
        }
        if nltk is None:
            del peers["lancaster"]  # ours is NLTK's
        for label, words in (("running", running), ("different", sorted(set(running)))):
            for name, make in peers.items():
                mine = Stemmer(name).all(words)  # type: ignore[arg-type]
                other = map(make().stem, words) if nltk else ()
                equal = np.mean([a == b for a, b in zip(mine, other)] or np.nan)
                ratio = alternate(
                    lambda n=name, w=words: seconds(lambda: Stemmer(n).all(w)),
                    nltk and (lambda m=make, w=words: seconds(lambda: list(map(m().stem, w)))),
                    self.times,
                )
                yield (
                    f"{name} stems of {len(words):,} {label} words ({equal:.2%} equal)",
                    f"NLTK, {len(words) / ratio.peer / 1e3:.0f} k words/s",
                    f"{len(words) / ratio.ours / 1e3:.0f} k words/s",
                    str(ratio),
                )

    def lemma(self) -> Iterator[Row]:
        """Against the lemmas that people wrote into the English Web Treebank, and NLTK's WordNet
        where it is there.
        """
        from seqloom.text.word_forms import Lemmatizer

        folder = data("ud_english_ewt")
        if folder is None:
            return
        rows = [
            line.split("\t")
            for name in glob.glob(str(folder / "*test.conllu"))
            for line in Path(name).read_text("utf-8").splitlines()
            if line[:1].isdigit()
        ]
        rows = [row for row in rows if row[3] in ("NOUN", "VERB", "ADJ", "ADV")]
        lemma = Lemmatizer()
        right = np.mean([lemma(row[1], row[3]).lower() == row[2].lower() for row in rows])
        alone = np.mean([lemma(row[1]).lower() == row[2].lower() for row in rows])
        theirs: Callable[[str, str], str] | None = None
        try:
            tags = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
            wordnet = peer("nltk.stem").WordNetLemmatizer()
            wordnet.lemmatize("mice")
            theirs = lambda word, pos: wordnet.lemmatize(word.lower(), tags[pos])  # noqa: E731
        except (AttributeError, LookupError):
            print("(skipped: nltk or its WordNet data is not installed)")
        found = ""
        if theirs is not None:
            right = [theirs(row[1], row[3]).lower() == row[2].lower() for row in rows]
            found = f"NLTK WordNet, {np.mean(right):.1%}"
        yield (
            f"lemmas of {len(rows):,} nouns, verbs, adjectives, adverbs of UD English EWT test, "
            f"their part of "
            "speech given",
            found,
            f"{right:.1%} ({alone:.1%} without)",
            "",
        )
        if theirs is None:
            return
        pairs = [(row[1], row[3]) for row in rows] * (1 if self.quick else 10)
        ratio = alternate(
            lambda: seconds(lambda: [lemma(word, pos) for word, pos in pairs]),
            lambda: seconds(lambda: [theirs(word, pos) for word, pos in pairs]),
            self.times,
        )
        yield (
            f"lemmas of {len(pairs):,} running words",
            f"NLTK WordNet, {len(pairs) / ratio.peer / 1e3:.0f} k words/s",
            f"{len(pairs) / ratio.ours / 1e3:.0f} k words/s",
            str(ratio),
        )

    def sentence(self) -> Iterator[Row]:
        """Paragraphs of the English Web Treebank: how many of our borders are right, how many of
        its are found.
        """
        from seqloom.text.segment import sentences

        folder = data("ud_english_ewt")
        if folder is None:
            return
        paragraphs: list[list[str]] = [[]]
        for name in glob.glob(str(folder / "*test.conllu")):
            for line in Path(name).read_text("utf-8").splitlines():
                if line.startswith(("# newpar", "# newdoc")):
                    paragraphs.append([])
                if line.startswith("# text = "):
                    paragraphs[-1].append(line[9:].strip())
        ours, gold, both = 0, 0, 0
        for paragraph in filter(None, paragraphs):
            row_offsets = [
                set(np.cumsum([len("".join(s.split())) for s in found])[:-1].tolist())
                for found in (sentences(" ".join(paragraph)), paragraph)
            ]
            ours, gold, both = (
                ours + len(row_offsets[0]),
                gold + len(row_offsets[1]),
                both + len(row_offsets[0] & row_offsets[1]),
            )
        yield (
            "sentences of UD English EWT test (web text, much of it without full stops)",
            "",
            f"precision {both / max(ours, 1):.1%}, recall {both / gold:.1%}",
            "",
        )
