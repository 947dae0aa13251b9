"""Shared by all tests: one thread for torch in each worker, Ctrl-C, and small texts."""

import os
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

# Every worker would start as many threads as there are cores, and threads of torch spin while they
# wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as of a job in the background; tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

from hypothesis import HealthCheck, settings

from seqloom.testing.language import TEXT as TOY

# How long an example takes, or takes to be drawn, depends on the machine.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def toy_text() -> str:
    return TOY


@pytest.fixture(scope="session")
def shakespeare() -> str:
    from seqloom import bundled

    return bundled().text()


@pytest.fixture
def own_registry():
    """Models that are registered while a test runs are forgotten after it."""
    from seqloom.registry import MODELS

    before = dict(MODELS)
    yield MODELS
    MODELS.clear()
    MODELS.update(before)


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names of directories that nobody has used; none is made for the many tests that keep nothing."""
    place = tmp_path_factory.mktemp("caches")
    return (place / str(number) for number in count())


@pytest.fixture(autouse=True)
def _own_cache(_caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons kept by the user must not leak into tests."""
    monkeypatch.setenv("SEQLOOM_CACHE", str(next(_caches)))
