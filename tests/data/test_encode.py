"""A corpus as ids: units, files, interrupted runs."""

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from seqloom.data import encode as encoding
from seqloom.data.corpus import Corpus, read
from seqloom.data.encode import encode_corpus
from seqloom.errors import DataError, NotFitted, SeqloomError
from seqloom.text.tokenizer import Tokenizer


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_BLOCK", 1000)


@pytest.fixture
def words(shakespeare: str) -> Tokenizer:
    return Tokenizer(kind="word").fit(shakespeare[:100_000])


def test_units(tmp_path: Path) -> None:
    for name, text in (("a", "x y\nz"), ("b", "y\n\n"), ("c", "")):
        (tmp_path / name).write_text(text)
    corpus, tokenizer = read(tmp_path), Tokenizer(kind="whitespace").fit(["x y z"])
    x, y, z = (tokenizer.id(token) for token in "xyz")
    assert encode_corpus(tokenizer, corpus, unit="line").tolist() == [x, y, 0, z, 0, y, 0, 0]
    assert encode_corpus(tokenizer, corpus, unit="document").tolist() == [x, y, z, 0, y, 0]
    assert encode_corpus(tokenizer, corpus, unit="stream").tolist() == [x, y, z, y, 0]
    chars = Tokenizer(kind="char").fit(corpus)
    assert chars.decode(encode_corpus(chars, corpus, unit="stream")) == "x y\nzy\n\n"


def test_size_of_numbers() -> None:
    small, large = (
        Tokenizer(kind="whitespace").fit(" ".join(map(str, range(n)))) for n in (65_534, 65_535)
    )
    assert (small.vocab_size, large.vocab_size) == (65_536, 65_537)
    corpus = Corpus.from_texts("1 2")
    assert encode_corpus(small, corpus, unit="stream").dtype == np.uint16
    assert encode_corpus(large, corpus, unit="stream").dtype == np.uint32


@pytest.mark.parametrize(
    "kind", ["whitespace", "word", "char", "byte", "bpe", "unigram", "wordpiece"]
)
@pytest.mark.parametrize("unit", ["line", "document", "stream"])
def test_blocks_and_threads_change_nothing(
    kind: str, unit, shakespeare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shakespeare[:20_000] + "\n\n  last line, not closed"
    sizes = {"bpe": 400, "unigram": 300, "wordpiece": 300}
    tokenizer = Tokenizer(kind=kind, vocab_size=sizes.get(kind)).fit(text)
    whole = np.append(tokenizer.encode(text, newline_ends=unit == "line"), tokenizer.eos_id)
    for threads in ("1", "2"):
        monkeypatch.setenv("SEQLOOM_THREADS", threads)
        assert np.array_equal(encode_corpus(tokenizer, Corpus.from_texts(text), unit=unit), whole)


def test_file_is_written_and_used_again(
    words: Tokenizer, shakespeare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, path = Corpus.from_texts(shakespeare[:50_000]), tmp_path / "ids"
    expected = encode_corpus(words, corpus, unit="line")
    assert np.array_equal(encode_corpus(words, corpus, unit="line", path=path), expected)
    assert path.read_bytes() == expected.astype("<u2").tobytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ids", "ids.json"]
    about = json.loads((tmp_path / "ids.json").read_text())
    assert about == {
        "format_version": 1,
        "dtype": "<u2",
        "tokenizer": words.fingerprint,
        "corpus": corpus.fingerprint,
        "unit": "line",
        "count": len(expected),
    }
    monkeypatch.setattr(encoding, "encoded_blocks", None)  # would fail if it encoded again
    assert np.array_equal(encode_corpus(words, corpus, unit="line", path=path), expected)


def test_file_of_something_else_is_replaced(
    words: Tokenizer, shakespeare: str, tmp_path: Path
) -> None:
    path = tmp_path / "ids"
    first, second = (Corpus.from_texts(shakespeare[low : low + 10_000]) for low in (0, 10_000))
    encode_corpus(words, first, unit="line", path=path)
    for tokenizer, unit in ((words, "line"), (words, "stream"), (Tokenizer(), "stream")):
        expected = encode_corpus(tokenizer, second, unit=unit)
        assert np.array_equal(encode_corpus(tokenizer, second, unit=unit, path=path), expected)
    path.write_bytes(path.read_bytes()[:-2])
    assert np.array_equal(encode_corpus(Tokenizer(), second, unit="stream", path=path), expected)


class Interrupted(Tokenizer):
    """Stops working after some blocks, and counts them."""

    def __init__(self, inner: Tokenizer, limit: int) -> None:
        super().__init__(inner.config)
        self._fitted, self.limit, self.done = inner._fitted, limit, 0

    def encode_block(self, data: bytes, newline_ends: bool) -> np.ndarray:
        if self.done == self.limit:
            raise KeyboardInterrupt
        self.done += 1
        return super().encode_block(data, newline_ends)


@pytest.mark.parametrize(
    "damage", ["garbage", "cut to the journal", "shorter than the journal", "broken journal"]
)
def test_interrupted_run_goes_on(
    words: Tokenizer, shakespeare: str, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQLOOM_THREADS", "1")
    corpus, path = Corpus.from_texts(shakespeare[:50_000]), tmp_path / "ids"
    partial, journal = tmp_path / "ids.partial", tmp_path / "ids.journal"
    with pytest.raises(KeyboardInterrupt):
        encode_corpus(Interrupted(words, 21), corpus, unit="line", path=path)
    assert not path.exists()
    entry = json.loads(journal.read_text())
    assert entry["blocks"] == 16
    valid = entry["count"] * 2
    if damage == "garbage":
        partial.write_bytes(partial.read_bytes()[:valid] + b"half a block")
    elif damage == "cut to the journal":
        partial.write_bytes(partial.read_bytes()[:valid])
    elif damage == "shorter than the journal":
        partial.write_bytes(partial.read_bytes()[: valid - 1])
    else:
        journal.write_text("{")
    second = Interrupted(words, -1)
    ids = encode_corpus(second, corpus, unit="line", path=path)
    encode_corpus(words, corpus, unit="line", path=tmp_path / "whole")
    assert path.read_bytes() == (tmp_path / "whole").read_bytes() == ids.tobytes()
    total = sum(1 for _ in corpus.blocks(words.cut, 1000))
    assert second.done == (total - 16 if damage in ("garbage", "cut to the journal") else total)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ids", "ids.json", "whole", "whole.json"]


def test_interrupted_just_before_the_end(
    shakespeare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the stream is not written twice."""
    corpus, path = Corpus.from_texts(shakespeare[:8000]), tmp_path / "ids"
    with monkeypatch.context() as patch:
        replace = os.replace

        def interrupted(source: Path, target: Path) -> None:
            if target == path:
                raise KeyboardInterrupt
            replace(source, target)

        patch.setattr(encoding.os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            encode_corpus(Tokenizer(), corpus, unit="stream", path=path)
    assert json.loads((tmp_path / "ids.journal").read_text())["blocks"] == 8
    assert encode_corpus(Tokenizer(), corpus, unit="stream", path=path).tolist() == [
        *shakespeare[:8000].encode(),
        256,
    ]


def test_partial_of_other_input_is_not_used(
    words: Tokenizer, shakespeare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQLOOM_THREADS", "1")
    path = tmp_path / "ids"
    with pytest.raises(KeyboardInterrupt):
        encode_corpus(
            Interrupted(words, 21), Corpus.from_texts(shakespeare[:50_000]), unit="line", path=path
        )
    other = Corpus.from_texts(shakespeare[50_000:90_000])
    assert np.array_equal(
        encode_corpus(words, other, unit="line", path=path),
        encode_corpus(words, other, unit="line"),
    )


def test_a_job_in_between_is_not_mixed_in(
    words: Tokenizer, shakespeare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal of the first must not vouch for what the second has written since."""
    monkeypatch.setenv("SEQLOOM_THREADS", "1")
    corpus, path = Corpus.from_texts(shakespeare[:50_000]), tmp_path / "ids"
    for tokenizer, blocks in (
        (words, 9),
        (Tokenizer(), 7),
    ):  # of bytes there are more than of words
        with pytest.raises(KeyboardInterrupt):
            encode_corpus(Interrupted(tokenizer, blocks), corpus, unit="line", path=path)
    assert np.array_equal(
        encode_corpus(words, corpus, unit="line", path=path),
        encode_corpus(words, corpus, unit="line"),
    )


@pytest.mark.parametrize("blocks", [3, 12])
def test_a_full_disk_leaves_nothing_or_says_that_it_goes_on(
    words: Tokenizer, shakespeare: str, tmp_path: Path, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQLOOM_THREADS", "1")
    corpus, path = Corpus.from_texts(shakespeare[:50_000]), tmp_path / "ids"

    class Full(Interrupted):
        def encode_block(self, data: bytes, newline_ends: bool) -> np.ndarray:
            if self.done == self.limit:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().encode_block(data, newline_ends)

    with pytest.raises(DataError, match="cannot be written") as failed:
        encode_corpus(Full(words, blocks), corpus, unit="line", path=path)
    kept = sorted(p.name for p in tmp_path.iterdir())
    assert kept == ([] if blocks == 3 else ["ids.journal", "ids.partial"])
    assert ("ids.partial; run the same command to resume" in str(failed.value)) == (blocks == 12)
    again = Interrupted(words, -1)
    encode_corpus(again, corpus, unit="line", path=path)
    assert again.done == sum(1 for _ in corpus.blocks(words.cut, 1000)) - (0 if blocks == 3 else 8)


def test_two_writers_of_one_file(
    words: Tokenizer, shakespeare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQLOOM_THREADS", "1")
    corpus, path = Corpus.from_texts(shakespeare[:10_000]), tmp_path / "ids"
    refused = []

    class Slow(Interrupted):
        def encode_block(self, data: bytes, newline_ends: bool) -> np.ndarray:
            if not refused:
                with ThreadPoolExecutor(1) as other, pytest.raises(SeqloomError) as error:
                    other.submit(encode_corpus, words, corpus, unit="stream", path=path).result()
                refused.append(str(error.value))
            return super().encode_block(data, newline_ends)

    ids = encode_corpus(Slow(words, -1), corpus, unit="line", path=path)
    assert refused == [
        f"{path}: process {os.getpid()} is writing it; wait until it has ended, or choose another name"
    ]
    assert np.array_equal(ids, encode_corpus(words, corpus, unit="line"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ids", "ids.json"]


def test_not_fitted() -> None:
    with pytest.raises(NotFitted):
        encode_corpus(Tokenizer(kind="word"), Corpus.from_texts("a"), unit="line")
