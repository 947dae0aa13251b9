"""Shared by all tests: one thread for torch in each worker, Ctrl-C, and small texts."""

import importlib
import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

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


TOYS = Path(__file__).parent / "toys"


def _forget_toys() -> None:
    """Let the modules of tests/toys be imported, and so registered, anew."""
    for name in [name for name in sys.modules if (TOYS / f"{name}.py").exists()]:
        del sys.modules[name]


@pytest.fixture
def own_registry():
    """Models, cells and encoders that are registered while a test runs are forgotten after it."""
    from seqloom.encoder_table import CELLS, ENCODERS
    from seqloom.registry import MODELS

    tables: list[dict[str, Any]] = [MODELS, CELLS, ENCODERS]
    before = [dict(table) for table in tables]
    _forget_toys()
    yield MODELS
    for table, known in zip(tables, before):
        table.clear()
        table.update(known)
    _forget_toys()


@pytest.fixture
def toy_cell(own_registry, monkeypatch):
    """The cell of another package (tests/toys), registered while a test runs."""
    monkeypatch.syspath_prepend(str(TOYS))
    return importlib.import_module("toy_cell")


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names of directories that nobody has used; none is made for the many tests that keep nothing."""
    place = tmp_path_factory.mktemp("caches")
    return (place / str(number) for number in count())


@pytest.fixture(autouse=True)
def _own_cache(_caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons kept by the user must not leak into tests."""
    monkeypatch.setenv("SEQLOOM_CACHE", str(next(_caches)))
