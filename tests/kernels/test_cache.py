"""Where compiled loops are kept when nothing can be written."""

import os
from pathlib import Path

import numba
import pytest

from seqloom import kernels


@pytest.fixture
def untold(monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    yield monkeypatch
    os.environ.pop("NUMBA_CACHE_DIR", None)


def test_one_place_is_enough(untold, tmp_path):
    (tmp_path / "file").touch()
    kernels.keep_somewhere(tmp_path / "file" / "no", tmp_path / "new" / "numba")
    assert "NUMBA_CACHE_DIR" not in os.environ


def test_without_any_they_are_kept_where_nobody_else_writes(untold, tmp_path):
    (tmp_path / "file").touch()
    kernels.keep_somewhere(tmp_path / "file" / "no", tmp_path / "file" / "neither")
    made = Path(os.environ["NUMBA_CACHE_DIR"])
    assert made.stat().st_mode & 0o777 == 0o700
    assert str(made) == numba.config.CACHE_DIR


def test_what_numba_was_told_stays(untold, tmp_path):
    untold.setenv("NUMBA_CACHE_DIR", "chosen")
    (tmp_path / "file").touch()
    kernels.keep_somewhere(tmp_path / "file" / "no")
    assert os.environ["NUMBA_CACHE_DIR"] == "chosen"
