"""Files elsewhere, through fsspec: the same corpora and models as from files here; no secret is shown."""

import http.server
import os
import threading
from functools import partial
from pathlib import Path

import pytest

fsspec = pytest.importorskip("fsspec")

import seqloom
from seqloom import NGram, progress
from seqloom.errors import DataError, MissingExtra, ModelError
from seqloom.places import Place, local_file, shown
from tests.cli.conftest import seqloom as command  # noqa: F401
from tests.conftest import TOY


@pytest.fixture
def memory():
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.pipe("/b/a.txt", TOY.encode())
    files.pipe("/b/parts/one.txt", TOY[:80].encode())
    files.pipe("/b/parts/two.csv", b"text\nto be\nnot to be\n")
    files.pipe("/b/parts/.hidden", b"\0\1")
    yield files
    files.store.clear()


def test_a_text_elsewhere_is_the_text(memory, tmp_path):
    (tmp_path / "a.txt").write_text(TOY)
    there, here = seqloom.read("memory://b/a.txt"), seqloom.read(tmp_path / "a.txt")
    assert there.fingerprint == here.fingerprint
    assert list(there.lines()) == list(here.lines())
    assert [part.fingerprint for part in there.split()] == [
        part.fingerprint for part in here.split()
    ]


def test_directories_patterns_tables_and_packed_files(memory):
    import gzip

    memory.pipe("/b/packed.txt.gz", gzip.compress(TOY.encode()))
    assert seqloom.read("memory://b/packed.txt.gz").text() == TOY
    assert seqloom.read("memory://b/parts").text() == TOY[:80] + "to be\nnot to be\n"
    assert seqloom.read("memory://b/parts/*.txt").text() == TOY[:80]
    assert list(seqloom.read("memory://b/parts/two.csv", column="text").lines()) == [
        "to be",
        "not to be",
    ]


def test_a_model_goes_there_and_comes_back(memory, monkeypatch, tmp_path):
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    model = NGram(order=2).fit(TOY)
    model.save("memory://b/model")
    again = seqloom.load("memory://b/model")
    assert again.score("the cat") == model.score("the cat")
    other = NGram(order=3).fit(TOY)
    other.save("memory://b/model")
    assert seqloom.load("memory://b/model").config.order == 3
    with pytest.raises(ModelError, match="there is no directory with files"):
        seqloom.load("memory://b/nothing")


def test_commands_take_addresses(command, memory, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    ran = command("fit", "ngram", "memory://b/a.txt", "-o", "memory://b/model", "--order", "2")
    assert ran.code == 0, ran.err
    (tmp_path / "a.txt").write_text(TOY)
    there = command("evaluate", "memory://b/model", "memory://b/a.txt", "--json").json()[0]
    assert command("fit", "ngram", "a.txt", "-o", "model", "--order", "2").code == 0
    assert command("evaluate", "model", "a.txt", "--json").json()[0]["metrics"] == there["metrics"]
    (tmp_path / "rows.tsv").write_text("yes\tto be\nno\tnot to be\n")
    assert command("fit", "naive-bayes", "rows.tsv", "-o", "nb").code == 0
    ran = command("predict", "nb", "memory://b/a.txt", "-o", "memory://b/answers.csv")
    assert ran.code == 0, ran.err
    assert len(memory.cat("/b/answers.csv").splitlines()) == TOY.count("\n") + 1
    said = command("fit", "lstm", "memory://b/a.txt", "-o", "memory://b/net").one_line()
    assert "checkpoints need a directory on this machine" in said


def test_a_file_is_sent_only_when_it_is_whole(memory):
    with pytest.raises(ZeroDivisionError), local_file("memory://b/out.txt") as path:
        Path(path).write_text(str(1 / 0))
    assert not memory.exists("/b/out.txt")


def test_what_is_missing_is_said_without_secrets(memory, monkeypatch):
    with pytest.raises(DataError, match=r"no such file: memory://b/none\.txt"):
        seqloom.read("memory://b/none.txt")
    assert shown("s3://key:word@bucket/a?token=9") == "s3://bucket/a"

    def reject(self, path, **options):
        raise RuntimeError("AccessDenied for key:word")

    monkeypatch.setattr(type(memory), "isfile", reject)
    with pytest.raises(DataError) as caught:
        seqloom.read("memory://key:word@b/a.txt")
    assert "word" not in str(caught.value)
    assert "cannot be reached (RuntimeError)" in str(caught.value)


def test_a_missing_library_is_named(monkeypatch):
    def missing(url):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(
        MissingExtra, match=r"reading s3:// needs another package; pip install 'seqloom\[s3\]'"
    ):
        Place("s3://bucket/a.txt")


def test_a_web_server(tmp_path):
    pytest.importorskip("aiohttp")
    (tmp_path / "a.txt").write_text(TOY)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=tmp_path)
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        told = []

        class Listener:
            def begin(self, *what):
                return self

            def advance(self, amount=1):
                pass

            def end(self, task):
                pass

            def say(self, message):
                told.append(message)

        with progress.reporting(Listener()):
            corpus = seqloom.read(f"{base}/a.txt?signature=secret")
        assert corpus.text() == TOY
        assert (
            "secret" not in f"{corpus!r} {corpus.name} {told} {[d.name for d in corpus.documents]}"
        )
        with pytest.raises(DataError, match="no such file"):
            seqloom.read(f"{base}/none.txt")
        server.shutdown()
    assert os.path.exists(tmp_path / "a.txt")
