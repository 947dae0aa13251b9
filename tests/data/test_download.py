"""Downloads from a local server: whole, resumed, broken in every way."""

import hashlib
import os
import socket
from pathlib import Path

import pytest

from seqloom.data import catalogue as module
from seqloom.data.catalogue import download
from seqloom.errors import DataError
from tests.data.server import Server, serving

DATA = bytes(range(256)) * 2000
SHA = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server():
    with serving({"a.txt": DATA}) as found:
        yield found


def fetch(
    server: Server, target: Path, *, name: str = "a.txt", size: int = len(DATA), sha256: str = SHA
) -> None:
    download(server.url + name, target, size=size, sha256=sha256)


def test_whole(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "a.txt"
    fetch(server, target)
    assert target.read_bytes() == DATA
    assert os.listdir(target.parent) == ["a.txt"]
    fetch(server, target)  # it is there
    assert len(server.asked) == 1


def test_cut_connection_is_resumed(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    server.cut = 100_000
    for have in (100_000, 200_000):
        with pytest.raises(
            DataError,
            match=rf"connection was cut after {have:,} of 512,000 bytes of .*a\.txt; run the same",
        ):
            fetch(server, target)
        assert not target.exists()
        assert (tmp_path / "a.txt.partial").stat().st_size == have
    server.cut = 0
    fetch(server, target)
    assert target.read_bytes() == DATA
    assert [wanted for _, wanted in server.asked] == [None, "bytes=100000-", "bytes=200000-"]
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_server_that_cannot_resume(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "a.txt.partial").write_bytes(b"x" * 1000)
    fetch(server, tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_bytes() == DATA


def test_what_was_left_behind(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.txt.partial").write_bytes(DATA)  # all there, killed before it got its name
    fetch(server, tmp_path / "a.txt")
    assert server.asked == []
    (tmp_path / "b.txt.partial").write_bytes(DATA + b"more")
    fetch(server, tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_bytes() == DATA


def test_wrong_checksum(server: Server, tmp_path: Path) -> None:
    for content, message in (
        (DATA[:-1] + b"x", "wrong checksum of .*a.txt: .* the download was discarded"),
        (DATA + b"x", "is longer than the expected 512,000 bytes"),
        (DATA[:1000], "cut after 1,000 of 512,000"),
    ):
        server.files["a.txt"] = content
        with pytest.raises(DataError, match=message):
            fetch(server, tmp_path / "a.txt")
        assert not (tmp_path / "a.txt").exists()
    with pytest.raises(
        DataError, match="cut after 1,000"
    ):  # the server has nothing more: 416, then from the start
        fetch(server, tmp_path / "a.txt")
    server.files["a.txt"] = DATA
    fetch(server, tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_bytes() == DATA


def test_not_there(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"b\.txt no longer exists \(404\); set SEQLOOM_DATA"):
        fetch(server, tmp_path / "b.txt", name="b.txt")
    server.status = 503
    with pytest.raises(
        DataError, match="the server answers 503 Service Unavailable; try again later"
    ):
        fetch(server, tmp_path / "a.txt")
    assert os.listdir(tmp_path) == []


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/a.txt"
        with pytest.raises(
            DataError,
            match=r"cannot reach 127\.0\.0\.1 \(Connection refused\); check the network, or set",
        ):
            download(url, tmp_path / "a.txt", size=1, sha256=SHA)
        closed.listen()  # takes the call and never answers
        monkeypatch.setattr(module, "TIMEOUT", 0.2)
        with pytest.raises(DataError, match=r"cannot reach 127\.0\.0\.1 \(timed out\)"):
            download(url, tmp_path / "a.txt", size=1, sha256=SHA)
    with pytest.raises(DataError, match=r"cannot reach no-such-host\.invalid"):
        download("http://no-such-host.invalid/a.txt", tmp_path / "a.txt", size=1, sha256=SHA)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_full_disk(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.txt.partial").symlink_to("/dev/full")
    with pytest.raises(
        DataError, match=r"disk full while downloading .*a\.txt to .*; make room, then run the same"
    ):
        fetch(server, tmp_path / "a.txt")
    assert not (tmp_path / "a.txt").exists()


def test_nowhere_to_write(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        DataError, match=r"cannot write .*file.*; set SEQLOOM_CACHE to another directory"
    ):
        fetch(server, tmp_path / "file" / "a.txt")


def test_two_at_once(server: Server, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    with open(tmp_path / "a.txt.partial", "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(DataError, match=r"another process is downloading a\.txt; wait for it"):
            fetch(server, tmp_path / "a.txt")
