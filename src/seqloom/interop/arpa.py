r"""ARPA files: the text format of n-gram models that SRILM, KenLM and others exchange.

Probabilities there are log10; ours are natural logarithms. A literal `<s>`, `</s>` or `<unk>` of the corpus, and
characters that would break a line, are written with a backslash, so every model survives the round trip.
A model read from ARPA splits text at white space. Files of pruned models may lack a prefix or a suffix of an
n-gram: a missing prefix is filled in with its backed-off probability, a missing suffix is stepped over.
"""

from __future__ import annotations

import gzip
import io
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.models.language.explicit import from_levels
from seqloom.models.language.ngram import NGram
from seqloom.models.language.trie import Trie
from seqloom.text.tokenizer import Tokenizer

LN10 = math.log(10)
NEVER = -99.0  # log10 of zero, by convention
UNKNOWN = -100.0  # log10 for <unk> where the file has none, as KenLM has it
BATCH = 50_000
SPECIAL = ("<s>", "</s>", "<unk>")


def write_arpa(model: NGram, path: str | Path) -> None:
    """Write an n-gram model; compressed where the name ends in .gz."""
    trie, tokenizer = model.trie, model.tokens()
    if not trie.chained:
        raise ConfigError(f"{model.config.smoothing} cannot be written as ARPA: its unseen words do not back off")
    names = [_escape(tokenizer.token(i)) for i in range(tokenizer.vocab_size)] + ["<s>"]
    names[tokenizer.eos_id] = "</s>"
    if tokenizer.unk_id is not None:
        names[tokenizer.unk_id] = "<unk>"
    sizes = np.diff(trie.level_starts[1:])
    target = Path(path)
    partial = target.with_name(f".{target.name}.partial")
    try:
        with _open(partial, "wt", gzipped=target.name.endswith(".gz")) as file, \
                progress.task("writing ARPA", int(sizes.sum()), "n-grams") as bar:
            file.write("\\data\\\n" + "".join(f"ngram {k}={n}\n" for k, n in enumerate(sizes, 1)))
            for k, (size, lines) in enumerate(zip(sizes, _levels(trie, names)), 1):
                file.write(f"\n\\{k}-grams:\n")
                for batch in lines:
                    file.write(batch)
                bar.advance(int(size))
            file.write("\n\\end\\\n")
        partial.replace(target)
    except OSError as error:
        raise ModelError(f"{path}: cannot be written ({error.strerror or error})") from error
    finally:
        partial.unlink(missing_ok=True)


def _levels(trie: Trie, names: list[str]) -> Iterator[Iterator[str]]:
    """For each order the lines of its n-grams, in batches."""
    lookup = np.array(names, dtype=object)
    prefixes = np.array([""], dtype=object)
    for k in range(1, trie.order + 1):
        lo, hi, below = (int(trie.level_starts[i]) for i in (k, k + 1, k - 1))
        parents = np.repeat(np.arange(lo - below), np.diff(trie.first[below : lo + 1].astype(np.int64)))
        words = lookup[trie.words[lo:hi]]
        ngrams = words if k == 1 else prefixes[parents] + " " + words
        log_probs = np.maximum(trie.log_probs[lo:hi].astype(np.float64) / LN10, NEVER)
        backoffs = trie.backoffs[lo:hi].astype(np.float64) / LN10 if k < trie.order else None
        yield _lines(ngrams, log_probs, backoffs)
        prefixes = ngrams


def _lines(ngrams: np.ndarray, log_probs: np.ndarray, backoffs: np.ndarray | None) -> Iterator[str]:
    for lo in range(0, len(ngrams), BATCH):
        part = slice(lo, lo + BATCH)
        if backoffs is None:
            yield "".join(f"{p:.8g}\t{g}\n" for p, g in zip(log_probs[part].tolist(), ngrams[part]))
        else:
            yield "".join(f"{p:.8g}\t{g}\t{b:.8g}\n"
                          for p, g, b in zip(log_probs[part].tolist(), ngrams[part], backoffs[part].tolist()))


def read_arpa(path: str | Path) -> NGram:
    """An n-gram model from an ARPA file, plain or gzipped."""
    source = Path(path)
    if not source.is_file():
        raise DataError(f"{path}: no such file")
    with open(source, "rb") as raw:
        head = raw.read(8)
    if head.startswith(b"mmap lm"):
        raise DataError(f"{path}: a KenLM binary, whose layout belongs to KenLM; convert the ARPA file that it was built from")
    try:
        with _open(source, "rt", gzipped=head.startswith(b"\x1f\x8b")) as file:
            levels, vocabulary = _Reader(file, str(path)).read()
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged or not UTF-8 text ({error})") from None
    words = [w for w in vocabulary if w not in SPECIAL]
    tokenizer = Tokenizer.from_tokens([_unescape(w) for w in words])
    ids = {w: i for i, w in enumerate(words, tokenizer.vocab_size - len(words))}
    assert tokenizer.unk_id is not None
    ids |= {"</s>": tokenizer.eos_id, "<unk>": tokenizer.unk_id, "<s>": tokenizer.vocab_size}
    renumber = np.array([ids[w] for w in vocabulary], np.int64)
    levels = [(renumber[grams], log_probs, backoffs) for grams, log_probs, backoffs in levels]
    model = NGram(order=len(levels), smoothing="imported")
    model.tokenizer = tokenizer
    model.trie = from_levels(levels, tokenizer.vocab_size)
    model.fit_info = {"data": source.name, "source": "ARPA",
                      "ngrams": {str(k): len(level[0]) for k, level in enumerate(levels, 1)}}
    return model


Level = tuple[np.ndarray, np.ndarray, np.ndarray]  # word ids (n, k), natural-log probabilities, back-off weights


class _Reader:
    """Reads section by section and checks what it reads; errors name the line."""

    def __init__(self, file: IO[str], name: str) -> None:
        self.file, self.name, self.line = file, name, 0

    def read(self) -> tuple[list[Level], list[str]]:
        counts = self._header()
        vocabulary: dict[str, int] = {}
        levels = []
        with progress.task("reading ARPA", sum(counts), "n-grams") as bar:
            for k, count in enumerate(counts, 1):
                levels.append(self._section(k, count, vocabulary, last=k == len(counts)))
                bar.advance(count)
        if self._next_text() != "\\end\\":
            self._fail("expected \\end\\; the file goes on after its last section, or is cut off")
        missing = [w for w in ("<s>", "</s>") if w not in vocabulary]
        if missing:
            self._fail(f"the unigrams lack {' and '.join(missing)}")
        if "<unk>" not in vocabulary:
            vocabulary["<unk>"] = len(vocabulary)
            grams, log_probs, backoffs = levels[0]
            levels[0] = (np.append(grams, [[vocabulary["<unk>"]]], axis=0),
                         np.append(log_probs, np.float32(UNKNOWN * LN10)), np.append(backoffs, np.float32(0)))
            progress.say(f"{self.name} has no <unk>; unknown words get log10 probability {UNKNOWN:g}")
        return levels, list(vocabulary)

    def _header(self) -> list[int]:
        for line in self.file:
            self.line += 1
            if line.strip() == "\\data\\":
                break
            if self.line > 1000:
                break
        else:
            self._fail("no \\data\\ section; this is not an ARPA file")
        counts: list[int] = []
        for line in self.file:
            self.line += 1
            text = line.strip()
            found = re.fullmatch(r"ngram\s+(\d+)\s*=\s*(\d+)", text)
            if found and int(found[1]) == len(counts) + 1:
                counts.append(int(found[2]))
            elif text:
                break
        if not counts or text != "\\1-grams:":
            self._fail("expected 'ngram 1=COUNT', 'ngram 2=COUNT', ... and then \\1-grams:")
        return counts

    def _section(self, k: int, count: int, vocabulary: dict[str, int], last: bool) -> Level:
        if k > 1 and self._next_text() != f"\\{k}-grams:":
            self._fail(f"expected \\{k}-grams: here; the number of {k - 1}-grams in the header may be wrong")
        grams = np.empty((count, k), np.int64)
        values = np.zeros((count, 2), np.float64)
        for i in range(count):
            fields = self.file.readline().split()
            self.line += 1
            if len(fields) not in ((k + 1,) if last else (k + 1, k + 2)):
                self._fail(f"expected a probability, {k} words and a back-off weight; "
                           f"the header promises {count:,} {k}-grams and this is number {i + 1:,}")
            try:
                values[i, : len(fields) - k] = float(fields[0]), *map(float, fields[k + 1 :])
                if k == 1:
                    vocabulary[fields[1]] = i
                grams[i] = [vocabulary[w] for w in fields[1 : k + 1]]
            except ValueError:
                self._fail(f"not a number: {fields[0]!r}")
            except KeyError as error:
                self._fail(f"{error.args[0]!r} is not among the unigrams")
        if k == 1 and len(vocabulary) != count:
            self._fail("a word stands twice among the unigrams")
        if np.isnan(values).any() or values[:, 0].max(initial=0) > 1e-5:
            self._fail(f"a log10 probability of the {k}-grams is above 0 or not a number")
        log_probs = np.where(values[:, 0] <= NEVER, -np.inf, values[:, 0] * LN10)
        return grams, log_probs.astype(np.float32), (values[:, 1] * LN10).astype(np.float32)

    def _next_text(self) -> str:
        for line in self.file:
            self.line += 1
            if line.strip():
                return line.strip()
        return ""

    def _fail(self, message: str) -> None:
        raise DataError(f"{self.name}, line {self.line}: {message}")


def _open(path: Path, mode: str, gzipped: bool) -> IO[str]:
    if gzipped:
        return io.TextIOWrapper(gzip.open(path, mode[0] + "b", compresslevel=3) if mode[0] == "w"  # type: ignore[arg-type]
                                else gzip.open(path, "rb"), encoding="utf-8", newline="\n")
    return open(path, mode, encoding="utf-8", newline="\n")


def _escape(token: str) -> str:
    if token in SPECIAL:
        return "\\" + token
    return "".join(f"\\u{{{ord(c):x}}}" if c == "\\" or c.isspace() or not c.isprintable() else c for c in token)


def _unescape(word: str) -> str:
    if word.startswith("\\") and word[1:] in SPECIAL:
        return word[1:]
    return re.sub(r"\\u\{([0-9a-f]+)\}", lambda m: chr(int(m[1], 16)), word)
