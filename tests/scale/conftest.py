"""One local cluster of two workers for all tests of a process, and one for what must begin and end itself."""

import os

import pytest


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Two workers on this machine."""
    pytest.importorskip("distributed")
    from seqloom.scale.cluster import Cluster

    with Cluster("2") as started:
        yield started


@pytest.fixture(scope="session")
def address(cluster):
    """The address of the scheduler, as `--cluster` takes it."""
    found = cluster.address
    assert found.startswith("tcp://127.0.0.1:")
    return found


@pytest.fixture
def work(tmp_path):
    """A directory of partial results."""
    from seqloom.scale.work import working

    with working(None, os.fspath(tmp_path / "work")) as folder:
        yield folder


@pytest.fixture
def said():
    """What is said while a test runs."""
    from seqloom import progress

    class Listener:
        def __init__(self):
            self.said = []

        def begin(self, label, total, unit):
            return self

        def advance(self, amount=1):
            pass

        def note(self, text):
            pass

        def end(self, task):
            pass

        def say(self, message):
            self.said.append(message)

    listener = Listener()
    with progress.reporting(listener):
        yield listener.said
