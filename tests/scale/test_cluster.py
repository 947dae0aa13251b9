"""Tasks on two workers: results are files, found again; failures are repeated and named."""

import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from seqloom.errors import ConfigError, MissingExtra, SeqloomError
from seqloom.scale import cluster as clusters
from seqloom.scale import work as works
from seqloom.scale.addresses import ClusterError, Place, checked_address, security_of
from seqloom.scale.cluster import Cluster
from seqloom.scale.work import RESULT, Task, perform, versions, working
from tests.conftest import TOY


def task(name, label="a task", **arguments):
    return Task(f"tests.scale.tasks:{name}", arguments, label)


@pytest.mark.parametrize(
    "address",
    [
        "tcp://head:8786",
        "head:8786",
        "ws://10.0.0.7:1",
        "tcp://127.0.0.1.evil.org:9",
        "inproc://127.0.0.1:5",
    ],
)
def test_an_address_that_is_not_local_is_refused_without_tls(address):
    with pytest.raises(ConfigError, match="over TLS only: tls://"):
        checked_address(address)


@pytest.mark.parametrize(
    "address", ["tls://head:8786", "tcp://[::1]:8786", "localhost:8786", "tcp://127.8.0.1:1"]
)
def test_local_ones_and_tls_are_taken(address):
    assert checked_address(address).endswith(address.removeprefix("tcp://"))


@pytest.mark.parametrize(
    "where", ["0", "257", "99999999999999", "head", "tcp://", "tcp://localhost:0", "²"]
)
def test_what_is_no_cluster_is_refused(where):
    with pytest.raises(ConfigError, match="cluster "):
        Place.named(where)


def test_a_scheduler_file_names_the_address(tmp_path):
    file = tmp_path / "scheduler.json"
    file.write_text('{"address": "tcp://127.0.0.1:4444"}')
    assert Place.named(str(file)).address == "tcp://127.0.0.1:4444"
    file.write_text('{"address": "tcp://10.1.2.3:4444"}')
    with pytest.raises(ConfigError, match="TLS"):
        Place.named(str(file))
    file.write_text("[]")
    with pytest.raises(ConfigError, match="not a scheduler file"):
        Place.named(str(file))


def test_where_nobody_listens_is_said_in_one_line():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ClusterError, match=f"there is no cluster at tcp://127.0.0.1:{port}"):
        Cluster(f"127.0.0.1:{port}").__enter__()


def test_a_server_that_is_no_scheduler_is_refused():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]

        def answer():
            with_client, _ = server.accept()  # the look whether somebody listens
            with_client.close()
            client, _ = server.accept()
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + b"x" * 64)
            client.close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(ClusterError, match="no Dask scheduler"):
            Cluster(f"127.0.0.1:{port}").__enter__()


def test_tls_needs_certificates():
    with pytest.raises(ConfigError, match="no certificates"):
        security_of("tls://head:8786")


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"seqloom\[scale\]"):
        Cluster("2")


# ---- one task


def job(folder, task, **others):
    return {
        "function": task.function,
        "arguments": task.arguments,
        "name": task.name,
        "work": str(folder),
        "run": "now",
        "versions": versions(),
        **others,
    }


def test_a_worker_of_another_version_is_refused(work):
    found = perform(job(work, task("write"), versions={**versions(), "numpy": "0.1", "torch": "9"}))
    assert "the worker has numpy" in found["error"]
    assert "instead of 0.1" in found["error"]
    assert "torch" in found["error"]


def test_a_worker_that_does_not_see_the_directory_says_so(tmp_path):
    found = perform(job(tmp_path / "elsewhere", task("write")))
    assert "does not see the directory" in found["error"]


def test_a_name_is_a_hash_of_function_and_values():
    names = {
        Task("f", {"a": 1}, "x").name,
        Task("f", {"a": 1}, "another label").name,
        Task("f", {"a": 2}, "x").name,
        Task("g", {"a": 1}, "x").name,
    }
    assert len(names) == 3


# ---- many


def test_results_are_files_in_order_and_found_again(cluster, work, tmp_path, said):
    log = tmp_path / "log"
    tasks = [task("write", text="x" * n, log=str(log)) for n in range(1, 7)]
    assert [one["length"] for one in cluster.do(tasks, work, "writing")] == list(range(1, 7))
    assert sorted(log.read_text().split()) == ["x" * n for n in range(1, 7)]
    assert {path.name for path in work.iterdir() if path.is_dir()} == {one.name for one in tasks}
    for one in tasks:
        assert (work / one.name / "text").read_text() == one.arguments["text"]
    assert said == ["said once"]
    cluster.do(tasks, work, "again")
    assert len(log.read_text().split()) == 6  # nothing was done twice


def test_what_fails_three_times_is_named_and_the_rest_is_finished(cluster, work, tmp_path):
    log, failed = tmp_path / "log", tmp_path / "failed"
    tasks = [task("write", text=str(n), log=str(log)) for n in range(4)]
    tasks[1:1] = [task("fail", "part seven", why="no good", log=str(failed))]
    with pytest.raises(SeqloomError) as caught:
        cluster.do(tasks, work, "working")
    assert str(caught.value).startswith(
        "part seven failed 3 times: no good; the other 4 of 5 parts are done and kept in"
    )
    assert failed.read_text() == "no good\n" * 3
    assert sorted(log.read_text().split()) == list("0123")
    assert not list(work.glob(".*.partial"))


def test_a_worker_that_dies_costs_its_task_only(cluster, work, tmp_path):
    log = tmp_path / "log"
    tasks = [task("write", text=str(n), log=str(log)) for n in range(5)]
    tasks.insert(2, task("die_once", mark=str(tmp_path / "mark")))
    found = cluster.do(tasks, work, "working")
    assert found[2] == {"alive": True}
    assert sorted(set(log.read_text().split())) == list("01234")


def test_an_interruption_stops_the_tasks_and_leaves_no_halves(cluster, work, tmp_path, monkeypatch):
    mark = tmp_path / "begun"
    tasks = [task("wait", mark=str(mark))]

    def interrupted(self, bar):
        while not mark.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(clusters._Job, "_take", interrupted)
    monkeypatch.setattr(cluster, "_local", None)  # as if it were somebody else's
    with pytest.raises(KeyboardInterrupt):
        cluster.do(tasks, work, "waiting")
    deadline = time.monotonic() + 60
    while list(work.glob(".*.partial")):
        assert time.monotonic() < deadline, "the task goes on"
        time.sleep(0.02)
    assert not (work / tasks[0].name).exists()


# ---- the directory


def test_the_directory_goes_when_all_is_done_and_stays_when_not(tmp_path):
    with working(tmp_path / "out", None) as folder:
        assert folder == tmp_path / "out.work"
        (folder / "result").mkdir()
    assert not folder.exists()
    with suppress(RuntimeError), working(tmp_path / "out", None) as folder:
        (folder / ".x.partial").mkdir()
        raise RuntimeError
    assert list(folder.glob("*.partial"))
    with working(tmp_path / "out", None) as folder:
        assert not list(folder.glob("*.partial"))


def test_a_directory_with_other_things_is_refused(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").touch()
    with (
        pytest.raises(ConfigError, match="holds other things"),
        working(None, str(tmp_path / "photos")),
    ):
        raise AssertionError
    assert (tmp_path / "photos" / "a.png").exists()


def test_two_jobs_on_one_output_are_refused(tmp_path):
    refused = []

    def second():
        try:
            with working(tmp_path / "out", None):
                raise AssertionError
        except SeqloomError as error:
            refused.append(str(error))

    with working(tmp_path / "out", None):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert f"is used by process {os.getpid()}" in refused[0]


def test_a_result_without_its_record_is_none(tmp_path):
    (tmp_path / "x").mkdir()
    assert works.result_of(tmp_path / "x") is None
    (tmp_path / "x" / RESULT).write_text("{")
    assert works.result_of(tmp_path / "x") is None


def test_models_are_checked_when_they_are_loaded(tmp_path):
    from seqloom import NGram
    from seqloom.errors import DataError

    NGram(order=2).fit(TOY).save(tmp_path / "model")
    (digest,) = works.contents(str(tmp_path / "model"))
    first = works.model_at(str(tmp_path / "model"), digest)
    assert works.model_at(str(tmp_path / "model"), digest) is first
    with pytest.raises(DataError, match="another model"):
        works.model_at(str(tmp_path / "model"), "0" * 16)


def test_a_file_that_changed_is_refused(tmp_path):
    from seqloom.errors import DataError

    file = Path(tmp_path / "text")
    file.write_text("one")
    stamp = works.Stamp.of(file)
    stamp.check()
    file.write_text("other")
    with pytest.raises(DataError, match="has changed while it was read"):
        stamp.check()
    file.unlink()
    with pytest.raises(DataError, match="No such file"):
        stamp.check()
