"""Datasets by name: where they are found, and what is said when they are not."""

import hashlib
import os
from pathlib import Path

import pytest

from seqloom.data import catalogue
from seqloom.data.catalogue import Entry, File
from seqloom.data.corpus import as_corpus, bundled, read
from seqloom.errors import DataError
from tests.data.server import serving

NAMES = [
    "ptb",
    "wikitext-2",
    "tinyshakespeare",
    "text8_prefix",
    "names",
    "multi30k",
    "dates",
    "ud_english_ewt",
    "conll2003",
    "sst2",
    "wordeval",
    "series",
]
TEXTS = {"train.txt": b"one\ntwo\n", "more/test.txt": b"three\n"}


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEQLOOM_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch):
    """A dataset on a local server."""
    with serving({f"toy/{path}": data for path, data in TEXTS.items()}) as server:
        files = tuple(
            File(path.split("/")[-1][:-4], path, len(data), hashlib.sha256(data).hexdigest())
            for path, data in TEXTS.items()
        )
        monkeypatch.setattr(
            catalogue,
            "entries",
            lambda: {"toy": Entry("toy", "a toy", "free", files, f"{server.url}toy/")},
        )
        yield server


def test_entries_are_sound() -> None:
    assert list(catalogue.entries()) == NAMES
    for entry in catalogue.entries().values():
        parts = [file.part for file in entry.files]
        assert len(set(parts)) == len(parts) == len({file.path for file in entry.files})
        assert all(len(file.sha256) == 64 and file.size > 0 for file in entry.files)
        assert all("/" not in part for part in parts)
        assert entry.url is None or entry.url.startswith("https://")
        assert entry.url is None or entry.url.endswith("/")
        assert entry.url or entry.source or entry.name == "tinyshakespeare"


def test_the_bundled_text_needs_nothing() -> None:
    corpus = read("data:tinyshakespeare")
    assert corpus.fingerprint == bundled().fingerprint
    assert corpus.fingerprint == catalogue.entries()["tinyshakespeare"].files[0].sha256
    assert corpus.name == "tinyshakespeare"


def test_below_seqloom_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ptb").mkdir()
    (tmp_path / "ptb" / "ptb.train.txt").write_text("no it was n't\n")
    (tmp_path / "ptb" / "ptb.valid.txt").write_text("black monday\n")
    monkeypatch.setenv("SEQLOOM_DATA", str(tmp_path))
    assert read("data:ptb").text() == read("data:ptb/train").text() == "no it was n't\n"
    assert (read("data:ptb").name, read("data:ptb/valid").text()) == ("ptb/train", "black monday\n")
    assert read(["data:ptb/train", "data:ptb/valid"]).text() == "no it was n't\nblack monday\n"
    with pytest.raises(DataError, match="'ptb' is not on this machine"):
        read("data:ptb/test")
    with pytest.raises(DataError, match=r"give seqloom\.read\('data:ptb'\)"):
        as_corpus("data:ptb")
    assert as_corpus("data: a text").text() == "data: a text"


def test_wrong_names() -> None:
    with pytest.raises(
        DataError, match=r"unknown dataset 'ptbb'; did you mean 'ptb'\? \(known: ptb, wikitext-2"
    ):
        read("data:ptbb")
    with pytest.raises(DataError, match=r"unknown dataset 'zzz'; known: ptb"):
        read("data:zzz")
    with pytest.raises(
        DataError,
        match=r"'ptb' has no part 'trian'; did you mean 'train'\? Its parts are train, valid, test",
    ):
        read("data:ptb/trian")


def test_not_here() -> None:
    with pytest.raises(
        DataError,
        match=r"'ptb' is not on this machine and cannot be downloaded \(LDC.*\); take it "
        r"from .*LDC99T42.*, and set SEQLOOM_DATA to a folder that holds ptb/ptb\.train\.txt",
    ):
        read("data:ptb")


def test_download_into_the_cache(toy) -> None:
    assert read("data:toy").text() == "one\ntwo\n"
    place = Path(os.environ["SEQLOOM_CACHE"], "data", "toy")
    assert (place / "train.txt").read_bytes() == TEXTS["train.txt"]
    assert catalogue.get("toy") == [place / "train.txt", place / "more" / "test.txt"]
    assert catalogue.get("toy/test") == [place / "more" / "test.txt"]
    assert [path for path, _ in toy.asked] == ["/toy/train.txt", "/toy/more/test.txt"]


def test_broken_download(toy, tmp_path: Path) -> None:
    toy.files["toy/train.txt"] = b"one\ntow\n"
    with pytest.raises(DataError, match="wrong checksum"):
        read("data:toy/train")
    toy.cut = 3
    with pytest.raises(DataError, match="cut after 3 of 8 bytes"):
        read("data:toy/train")
    toy.cut, toy.files["toy/train.txt"] = 0, TEXTS["train.txt"]
    assert read("data:toy/train").text() == "one\ntwo\n"
    assert toy.asked[-1] == ("/toy/train.txt", "bytes=3-")
