"""Where compiled kernels are kept: in a directory that is another as soon as any kernel changes."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numba
import pytest

from seqloom import kernels
from seqloom.kernels import cache_directory, source_stamp, use_cache


@pytest.fixture
def untold(monkeypatch):
    """Nobody has said where."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setattr(numba.config, "CACHE_DIR", numba.config.CACHE_DIR)
    return monkeypatch


@pytest.fixture
def nowhere(tmp_path):
    """A directory in which none can be made, not even by root."""
    (tmp_path / "file").touch()
    return tmp_path / "file"


def test_the_stamp_is_that_of_all_sources(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(name)
    stamp = source_stamp(tmp_path)
    assert stamp.startswith("seqloom-")
    (tmp_path / "notes.txt").write_text("no source")
    assert source_stamp(tmp_path) == stamp
    (tmp_path / "b.py").write_text("changed")
    changed = source_stamp(tmp_path)
    (tmp_path / "c.py").write_text("new")
    assert len({stamp, changed, source_stamp(tmp_path)}) == 3
    assert source_stamp() == source_stamp(Path(kernels.__file__).parent)


def test_the_first_directory_that_can_be_written(untold, tmp_path, nowhere):
    assert (
        cache_directory("seqloom-1", nowhere, tmp_path / "new", tmp_path / "other")
        == tmp_path / "new" / "seqloom-1"
    )
    assert not (tmp_path / "other").exists()


def test_without_any_they_are_kept_where_nobody_else_writes(untold, nowhere):
    found = cache_directory("seqloom-1", nowhere, nowhere / "neither")
    assert found.name == "seqloom-1"
    assert found.parent.stat().st_mode & 0o777 == 0o700
    assert cache_directory("seqloom-1", nowhere).parent != found.parent


def test_what_numba_was_told_holds(untold, tmp_path):
    untold.setenv("NUMBA_CACHE_DIR", str(tmp_path / "chosen"))
    found = cache_directory("seqloom-1", tmp_path / "not")
    assert found == tmp_path / "chosen" / "seqloom-1"
    untold.setenv("NUMBA_CACHE_DIR", str(found))  # as a process has it that this one starts
    assert cache_directory("seqloom-1", tmp_path / "not") == found
    assert (
        cache_directory("seqloom-2", tmp_path / "not") == found / "seqloom-2"
    )  # one with other sources


def test_numba_uses_the_directory(untold, tmp_path):
    use_cache(tmp_path / "seqloom-1")
    assert os.environ["NUMBA_CACHE_DIR"] == numba.config.CACHE_DIR == str(tmp_path / "seqloom-1")


def test_directories_of_sources_that_are_gone_are_removed_beside_the_sources_alone(
    untold, tmp_path
):
    for folder in ("__pycache__", "numba"):  # the second is shared with other installations
        (tmp_path / folder / "seqloom-1").mkdir(parents=True)
        (tmp_path / folder / "seqloom-2" / "deep").mkdir(parents=True)
        (tmp_path / folder / "other").mkdir()
        use_cache(tmp_path / folder / "seqloom-1")
    assert sorted(path.name for path in (tmp_path / "__pycache__").iterdir()) == [
        "other",
        "seqloom-1",
    ]
    assert sorted(path.name for path in (tmp_path / "numba").iterdir()) == [
        "other",
        "seqloom-1",
        "seqloom-2",
    ]


CALLED = "from numba import njit\n@njit(cache=True)\ndef number():\n    return {}\n"
CALLER = (
    "from numba import njit\nfrom toys.called import number\n"
    "@njit(cache=True)\ndef twice():\n    return 2 * number()\n"
)
PROGRAM = """
import os, subprocess, sys
from toys.caller import twice
print(twice())
print(os.environ["NUMBA_CACHE_DIR"])
sys.stdout.flush()
if len(sys.argv) > 1:
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
"""


def test_a_change_of_another_file_is_seen(tmp_path):
    """numba alone would go on with what was compiled of the caller, whose own file did not change."""
    package = tmp_path / "toys"
    package.mkdir()
    shutil.copy(kernels.__file__, package / "__init__.py")
    (package / "caller.py").write_text(CALLER)
    # Python itself takes a file of the same size that is changed within a second for the old one
    places = os.pathsep.join([str(tmp_path), str(Path(kernels.__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"}
    del environment["NUMBA_CACHE_DIR"]
    directories = []
    for number in (1, 2, 3):
        (package / "called.py").write_text(CALLED.format(number))
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, PROGRAM],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        result, directory, *childs = ran.stdout.split()
        assert result == str(2 * number)
        assert childs == [result, directory]  # a process that it starts has the same
        assert list(Path(directory).rglob("caller*.nbi"))
        assert [path.name for path in (package / "__pycache__").glob("seqloom-*")] == [
            Path(directory).name
        ]
        directories.append(directory)
    assert len(set(directories)) == 3


READS = """
import sys
import numpy as np
from seqloom.kernels.maths import TANH, activate

activate(np.zeros((1, 2), np.float32), TANH)  # compiled, if it is not in the cache
print("numba.np.npyimpl" in sys.modules, "scipy.linalg" in sys.modules)
"""


def test_a_cached_kernel_is_read_without_the_compiler():
    """Nor is scipy.linalg imported only to see whether it is there."""
    for _ in range(2):  # the second one finds it in the cache
        done = subprocess.run([sys.executable, "-c", READS], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        if done.stdout.split() == ["False", "False"]:
            return
    raise AssertionError(done.stdout)


def test_numba_knows_of_a_blas_and_asks_for_it_where_one_is_used():
    from numba.np import arraymath, linalg

    assert (find_spec("scipy") is not None) == arraymath._HAVE_BLAS
    assert linalg.ensure_blas is arraymath.ensure_blas
    assert linalg.ensure_blas.__module__ == "numba.np.linalg"
