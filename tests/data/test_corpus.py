"""Corpora: sources, encodings, blocks, splits, and what is refused."""

import gc
import gzip
import hashlib
import io
import lzma
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data import documents
from seqloom.data.corpus import Corpus, as_corpus, bundled, overlap, read
from seqloom.errors import DataError, MissingExtra
from seqloom.text.boundaries import cut_before_space, cut_between_characters, cut_nowhere
from tests.text.strategies import texts

TEXT = "first line\nsecond, naïve line\n第三行 😀\n"


def write(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def content(corpus: Corpus) -> bytes:
    return b"".join(block.data for block in corpus.blocks(cut_between_characters))


# ---- sources


def test_file(tmp_path: Path) -> None:
    corpus = read(write(tmp_path / "a.txt", TEXT))
    assert corpus.text() == TEXT
    assert list(corpus.lines()) == TEXT.split("\n")[:-1]
    assert corpus.n_bytes == len(TEXT.encode())
    assert corpus.fingerprint == hashlib.sha256(TEXT.encode()).hexdigest()
    assert corpus.name == "a.txt"
    assert content(corpus) == content(corpus) == TEXT.encode()


def zstd(data: bytes) -> bytes:
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstd)]
)
def test_compressed(tmp_path: Path, suffix: str, pack) -> None:
    text = TEXT * 3000
    packed = pack(text.encode())
    corpus = read(write(tmp_path / f"a.txt{suffix}", packed))
    assert corpus.n_bytes is None
    assert corpus.text() == text
    assert corpus.fingerprint == read(write(tmp_path / "a.txt", text)).fingerprint
    assert corpus.n_bytes == len(text.encode())
    train, valid, test = corpus.split()
    assert train.text() + valid.text() + test.text() == text
    two = read(
        write(tmp_path / f"two{suffix}", pack(b"one\n") + pack(b"two\n"))
    )  # several streams in one file
    assert two.text() == "one\ntwo\n"
    for broken in (packed[: len(packed) // 2], packed[:-1], b"not packed at all"):
        with pytest.raises(DataError, match=rf"b{suffix}.*complete copy"):
            content(read(write(tmp_path / f"b{suffix}", broken)))


def test_zst_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(MissingExtra, match=r"pip install 'seqloom\[zst\]'"):
        read(write(tmp_path / "a.zst", b"x"))


def test_directory_list_and_pattern(tmp_path: Path) -> None:
    write(tmp_path / "b.txt", "two\n")
    write(tmp_path / "a" / "z.txt", "one\n")
    write(tmp_path / "c.txt.gz", gzip.compress(b"three\n"))
    write(tmp_path / "d.bin", b"\x00\xff\xfe\x80" * 100)
    write(tmp_path / "empty.txt", b"")
    write(tmp_path / ".hidden", "no\n")
    write(tmp_path / ".git" / "x", "no\n")
    corpus = read(tmp_path)
    assert corpus.text() == "one\ntwo\nthree\n"
    assert [block.ends_document for block in corpus.blocks(cut_before_space)] == [True] * 3
    assert read(str(tmp_path / "*.txt")).text() == "two\n"
    assert read(str(tmp_path / "**" / "*.txt")).text() == "one\ntwo\n"
    assert read([tmp_path / "b.txt", str(tmp_path / "a" / "z.txt")]).text() == "two\none\n"
    listed = read([tmp_path / "b.txt", tmp_path / "a" / "z.txt"])
    assert (
        listed.fingerprint != Corpus.from_texts(listed.text()).fingerprint
    )  # two documents are not one


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    corpus = read("-")
    assert corpus.name == "stdin"
    assert corpus.text() == corpus.text() == TEXT
    assert corpus.n_bytes == len(TEXT.encode())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(TEXT,))
    writer.start()
    corpus = read(tmp_path / "pipe")
    writer.join()
    assert corpus.text() == corpus.text() == TEXT


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="no way to open a file without a name again"
)
def test_a_killed_process_leaves_nothing_of_its_input(tmp_path: Path) -> None:
    code = "import time, seqloom; c = seqloom.read('-'); print(c.text(), end='', flush=True); time.sleep(60)"
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout:
        child.stdin.write(b"one\ntwo\n")
        child.stdin.close()
        assert child.stdout.readline() + child.stdout.readline() == b"one\ntwo\n"
        child.kill()
        child.wait()
    assert [p.name for p in tmp_path.iterdir() if p.name != "cache"] == []


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no way to ask")
def test_input_that_nobody_reads_any_more_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode() * 10)))
    part = read("-").split().test
    assert len(set(os.listdir("/proc/self/fd")) - before) == 1
    assert (TEXT * 10).endswith(part.text())  # a part keeps it open
    del part
    gc.collect()
    assert not set(os.listdir("/proc/self/fd")) - before


def test_standard_input_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("seqloom.data.sources._REOPENED", tmp_path / "nothing")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    corpus = read("-")
    assert corpus.text() == corpus.text() == TEXT


def test_a_long_line_is_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joining what there is with every chunk would copy half a gigabyte here."""
    monkeypatch.setattr(documents, "CHUNK", 1024)
    chunks, grown = documents.Document.unchecked, []

    def watched(self):
        for chunk in chunks(self):
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            yield chunk
            grown.append(tracemalloc.get_traced_memory()[1] - before)

    monkeypatch.setattr(documents.Document, "unchecked", watched)
    tracemalloc.start()
    try:
        assert [
            len(line) for line in Corpus.from_texts("a\n" + "x" * (1 << 20) + "\n\nb").lines()
        ] == [1, 1 << 20, 0, 1]
    finally:
        tracemalloc.stop()
    assert len(grown) > 1000
    assert sum(memory > 1 << 16 for memory in grown) <= 2


def test_open_lines(tmp_path: Path) -> None:
    corpus = read(
        [write(tmp_path / "a", "x"), write(tmp_path / "b", "y\n"), write(tmp_path / "c", "")]
    )
    assert (corpus.open_lines, corpus.ends_with_newline) == (1, True)
    assert not Corpus.from_texts("x").ends_with_newline


def test_texts() -> None:
    assert Corpus.from_texts("a\nb").text() == "a\nb"
    assert Corpus.from_texts(["a", "b"]).text() == "a\nb\n"
    assert as_corpus(["a"]).text() == "a\n"
    corpus = Corpus.from_texts("x")
    assert as_corpus(corpus) is corpus
    for empty in ("", []):
        with pytest.raises(DataError, match="empty"):
            Corpus.from_texts(empty)
    with pytest.raises(DataError, match="surrogate"):
        Corpus.from_texts("\udcff")


def test_bundled() -> None:
    corpus = bundled()
    assert corpus.n_bytes == 1_115_394
    assert corpus.text().startswith("First Citizen:\n")


# ---- encodings


def test_marks_and_line_ends(tmp_path: Path) -> None:
    corpus = read(write(tmp_path / "a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n"))
    assert corpus.text() == "one\r\ntwo\r\n"
    assert corpus.n_bytes == 10
    assert read(write(tmp_path / "a.gz", gzip.compress(b"\xef\xbb\xbfone"))).text() == "one"
    inner = "a\ufeffb"
    assert read(write(tmp_path / "b.txt", inner)).text() == inner


@pytest.mark.parametrize(
    "encoding", ["latin-1", "utf-16", "utf-16-le", "cp1252", "utf-8-sig", "UTF8"]
)
def test_other_encodings(tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        documents.Document._raw, "__defaults__", (0, 3)
    )  # characters across borders of chunks
    text = "naïve café\nzwei Zeilen\n"
    corpus = read(write(tmp_path / "a.txt", text.encode(encoding)), encoding=encoding)
    assert corpus.text() == text
    assert content(corpus) == text.encode()
    train, valid, test = corpus.split((0.4, 0.3, 0.3))
    assert train.text() + valid.text() + test.text() == text


def test_wrong_encoding_says_where(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"fine\nalso fine\nna\xefve\n")
    with pytest.raises(
        DataError, match=r"a\.txt is not UTF-8.*line 3, byte offset 17.*0xEF.*encoding='latin-1'"
    ):
        content(read(path))
    far = write(tmp_path / "far.txt", b"x" * 99 + b"\n" + "好\n".encode() * 600_000 + b"\xff")
    with pytest.raises(DataError, match=f"line 600002, byte offset {100 + 4 * 600_000} "):
        content(read(far))
    with pytest.raises(DataError, match="line 1, byte offset 2 "):
        content(read(write(tmp_path / "cut.txt", "ab好".encode()[:-1])))
    with pytest.raises(DataError, match="line 2, byte offset 7 "):
        content(read(write(tmp_path / "mark.txt", b"\xef\xbb\xbfone\n\x80")))
    with pytest.raises(DataError, match=r"utf-16.*byte offset 8"):
        content(read(write(tmp_path / "odd", "abc".encode("utf-16") + b"\x00"), encoding="utf-16"))
    with pytest.raises(DataError, match="unknown encoding 'latin-11'"):
        read(path, encoding="latin-11")
    with pytest.raises(DataError, match="unknown encoding 'undefined'"):  # a codec that only raises
        read(path, encoding="undefined")
    with pytest.raises(DataError, match="unknown encoding 'hex'"):
        read(path, encoding="hex")


def test_utf16_is_recognised(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"UTF-16 text.*encoding='utf-16'"):
        read(write(tmp_path / "a.txt", TEXT.encode("utf-16")))
    with pytest.raises(DataError, match="UTF-16"):
        read(tmp_path)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path / "corpus.txt", TEXT)
    with pytest.raises(DataError, match=r"no such file.*corpsu\.txt; did you mean 'corpus\.txt'"):
        read(tmp_path / "corpsu.txt")
    with pytest.raises(DataError, match="no such file"):
        read(str(tmp_path / "*.md"))
    with pytest.raises(DataError, match="binary"):
        read(write(tmp_path / "x.bin", bytes(range(256)) * 50))
    with pytest.raises(DataError, match="empty"):
        read(write(tmp_path / "empty.txt", b""))
    with pytest.raises(DataError, match="empty"):
        content(read(write(tmp_path / "empty.gz", gzip.compress(b""))))
    with pytest.raises(DataError, match="at least one"):
        read([])
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="no text file"):
        read(tmp_path / "none")
    assert read(write(tmp_path / "nul.txt", b"a\0b")).text() == "a\0b"  # NUL in valid UTF-8 is text


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything"
)
def test_no_permission(tmp_path: Path) -> None:
    path = write(tmp_path / "d" / "a.txt", TEXT)
    path.chmod(0)
    with pytest.raises(DataError, match="permission"):
        read(path)
    path.parent.chmod(0)
    try:
        with pytest.raises(DataError, match="cannot read the directory"):
            read(path.parent)
    finally:
        path.parent.chmod(0o700)


# ---- blocks


@given(
    parts=st.lists(texts, min_size=1, max_size=4), size=st.integers(1, 30), chunk=st.integers(1, 9)
)
@settings(max_examples=60, deadline=None)
def test_blocks(parts: list[str], size: int, chunk: int) -> None:
    data = [part.encode() for part in parts]
    corpus = Corpus([documents.Document(str(i), data=part) for i, part in enumerate(data)], "test")
    patch = pytest.MonkeyPatch()
    patch.setattr(documents, "CHUNK", chunk)
    try:
        if not any(data):
            with pytest.raises(DataError, match="empty"):
                list(corpus.blocks(cut_before_space, size))
            return
        blocks = list(corpus.blocks(cut_before_space, size))
        assert b"".join(block.data for block in blocks) == b"".join(data)
        assert sum(block.ends_document for block in blocks) == sum(map(bool, data))
        assert all(block.data for block in blocks)
        assert corpus.text() == "".join(parts)
    finally:
        patch.undo()
    assert blocks == list(
        corpus.blocks(cut_before_space, size)
    )  # borders do not depend on how it was read


def test_a_block_grows_until_it_can_be_cut(tmp_path: Path) -> None:
    corpus = read(write(tmp_path / "a.txt", b"x" * 1000 + b" " + b"y" * 1000))
    assert [len(block.data) for block in corpus.blocks(cut_before_space, 10)] == [1000, 1001]
    assert [len(block.data) for block in corpus.blocks(cut_nowhere, 10)] == [2001]


# ---- files that are not text, in a directory


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    write(tmp_path / "d" / "good.txt", TEXT)
    write(tmp_path / "d" / "image.txt", b"\x7fELF\0\0\xff\xfe" * 500)
    write(
        tmp_path / "d" / "latin.txt", ("plain\n" * 5000 + "naïve\n").encode("latin-1")
    )  # not at its beginning
    write(tmp_path / "d" / "sub" / "wide.txt", "wide".encode("utf-16"))
    return tmp_path / "d"


@pytest.mark.parametrize("pattern", ["", "**/*.txt"], ids=["directory", "pattern"])
def test_files_that_are_not_text_are_skipped_and_reported(
    mixed: Path, said: list[str], pattern: str
) -> None:
    place = mixed / pattern
    assert read(place).text() == TEXT
    assert said == [
        f"{place}: skipped 1 binary file",
        f"{place}: skipped 2 files: not valid UTF-8 (latin.txt, wide.txt)",
    ]
    with pytest.raises(DataError, match=r"image\.txt looks like a binary file"):
        read(place, strict=True)
    (mixed / "image.txt").unlink()
    with pytest.raises(DataError, match=r"latin\.txt is not UTF-8 text: line 5001"):
        read(place, strict=True)


def test_a_file_named_directly_is_not_skipped(mixed: Path) -> None:
    with pytest.raises(DataError, match=r"latin\.txt is not UTF-8 text: line 5001"):
        read([mixed / "good.txt", mixed / "latin.txt"]).text()


def test_tables_and_other_encodings_are_skipped_too(tmp_path: Path, said: list[str]) -> None:
    write(tmp_path / "d" / "a.csv", "text\nhello\n")
    write(tmp_path / "d" / "b.csv", "text\nnaïve\n".encode("latin-1"))
    assert read(tmp_path / "d", column="text").text() == "hello\n"
    write(tmp_path / "e" / "a.txt", "plain".encode("utf-16"))
    for i in range(7):
        write(tmp_path / "e" / f"b{i}.txt", b"odd")
    assert read(tmp_path / "e", encoding="utf-16").text() == "plain"
    assert said == [
        f"{tmp_path}/d: skipped 1 file: not valid UTF-8 (b.csv)",
        f"{tmp_path}/e: skipped 7 files: not valid utf-16 (b0.txt, b1.txt, b2.txt, b3.txt, b4.txt, "
        f"and 2 more)",
    ]


def test_where_no_file_is_text_the_first_is_named(mixed: Path) -> None:
    with pytest.raises(DataError, match="matches binary files only"):
        read(mixed / "im*")
    (mixed / "good.txt").unlink()
    with pytest.raises(DataError, match=r"latin\.txt is not UTF-8 text.*encoding='latin-1'"):
        read(mixed)


# ---- splits and overlap


def test_split_ends_at_lines(shakespeare: str) -> None:
    splits = Corpus.from_texts(shakespeare).split((0.8, 0.1, 0.1))
    train, valid, test = splits
    assert train.text() + valid.text() + test.text() == shakespeare
    assert all(part.text().endswith("\n") for part in splits)
    assert abs((train.n_bytes or 0) / len(shakespeare) - 0.8) < 0.001
    assert splits.description == "contiguous 80/10/10 by bytes"
    again = Corpus.from_texts(shakespeare).split()
    assert splits.fingerprint == again.fingerprint
    assert splits.fingerprint != Corpus.from_texts(shakespeare).split((0.7, 0.2, 0.1)).fingerprint
    inner = train.split((0.5, 0.25, 0.25))
    assert inner.train.text() + inner.valid.text() + inner.test.text() == train.text()


def test_split_without_lines() -> None:
    words = Corpus.from_texts("word " * 1000)
    assert all(part.text().endswith(" ") for part in words.split())
    runs = Corpus.from_texts("好" * 1000)
    assert "".join(part.text() for part in runs.split()) == "好" * 1000
    with pytest.raises(DataError, match="too small"):
        Corpus.from_texts("ab").split()
    for wrong in ((0.5, 0.5), (1.0, 0.0, 0.0), (0.5, 0.2, 0.2)):
        with pytest.raises(DataError, match="sum to 1"):
            words.split(wrong)


def notes(folder: Path, names: list[str], sizes: list[int]) -> Corpus:
    folder.mkdir()
    for i, (name, size) in enumerate(zip(names, sizes)):
        write(folder / name, "".join(f"line {k} of note {i}\n" for k in range(size)))
    return read(folder)


def names_of(part: Corpus) -> list[str]:
    return [Path(document.name).name for document in part.documents]


def test_several_files_are_split_by_whole_files_whatever_their_names(tmp_path: Path) -> None:
    plain = [f"{i:02}.txt" for i in range(30)]
    sizes = [20 + 3 * (i % 7) for i in range(30)]
    corpus = notes(tmp_path / "notes", plain, sizes)
    splits = corpus.split()
    assert splits.description == "whole files 80/10/10 by bytes in the order of their hashes"
    assert sorted(name for part in splits for name in names_of(part)) == plain
    assert (
        names_of(splits.test) != sorted(plain)[-len(names_of(splits.test)) :]
    )  # not the last ones by name
    for part, share in zip(splits, (0.8, 0.1, 0.1)):
        assert share / 1.3 < (part.n_bytes or 0) / (corpus.n_bytes or 0) < share * 1.3
    renamed = notes(tmp_path / "zettel", [f"{99 - i}.md" for i in range(30)], sizes).split()
    assert renamed.fingerprint == splits.fingerprint
    assert [part.text() for part in renamed] == [part.text() for part in splits]


def test_copies_of_a_file_stay_in_one_part(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for i in range(60):
        write(tmp_path / "notes" / f"{i}.txt", f"this is the note number {i % 20} here\n" * 10)
    splits = read(tmp_path / "notes").split()
    texts = [{text for _, text in part.each_document()} for part in splits]
    assert [len(part.documents) for part in splits] == [48, 6, 6]
    assert not texts[0] & texts[1] | texts[0] & texts[2] | texts[1] & texts[2]


@pytest.mark.parametrize("sizes", [[200, 200, 200], [2000, *[10] * 8]], ids=["few", "one large"])
def test_files_that_cannot_be_held_out_whole_are_each_cut(
    tmp_path: Path, said: list[str], sizes: list[int]
) -> None:
    corpus = notes(tmp_path / "notes", [f"{i}.txt" for i in range(len(sizes))], sizes)
    splits = corpus.split()
    assert splits.description == "contiguous 80/10/10 by bytes of every file"
    assert said == [
        "notes: too few files, or one too large, to hold out whole files; each file is split into contiguous "
        "parts"
    ]
    assert [sorted(names_of(part)) for part in splits] == [
        [f"{i}.txt" for i in range(len(sizes))]
    ] * 3
    for part, share in zip(splits, (0.8, 0.1, 0.1)):
        assert abs((part.n_bytes or 0) / (corpus.n_bytes or 0) - share) < 0.01
        assert all(text.endswith("\n") for _, text in part.each_document())
    again = notes(tmp_path / "other", [f"{9 - i}.txt" for i in range(len(sizes))], sizes).split()
    assert again.fingerprint == splits.fingerprint


def test_a_file_larger_than_a_part_is_trained_on(tmp_path: Path) -> None:
    corpus = notes(tmp_path / "notes", [f"{i}.txt" for i in range(21)], [200, *[20] * 20])
    splits = corpus.split()
    assert "0.txt" in names_of(splits.train)
    assert splits.description.startswith("whole files")


def test_overlap() -> None:
    train = Corpus.from_texts([f"this is line number {i} of many" for i in range(100)])
    test = Corpus.from_texts(
        ["  this is line number 7 of many ", "short", "this line is nowhere else at all"]
    )
    assert overlap(train, test) == 0.5
    assert overlap(train, Corpus.from_texts("short")) == 0.0


def test_a_spread_part_is_from_all_over():
    lines = [f"line {i:04}\n" for i in range(1000)]
    corpus = Corpus.from_texts("".join(lines))
    small, large = corpus.spread(0.1, 10), corpus.spread(0.5, 10)
    assert small.text() == "".join(
        f"line {i:04}\n" for k in range(10) for i in range(100 * k, 100 * k + 10)
    )
    assert set(small.lines()) < set(large.lines())
    assert large.n_bytes == 5000
    assert corpus.spread(1.0, 7).text() == corpus.text()


def test_a_spread_part_of_several_documents():
    parts = ["a\n" * 100, "b\n" * 300, "c\n" * 600]
    corpus = Corpus(
        [*(document for text in parts for document in Corpus.from_texts(text).documents)], "x"
    )
    found = corpus.spread(0.2, 10).text()
    assert (found.count("a"), found.count("b"), found.count("c")) == (20, 60, 120)
