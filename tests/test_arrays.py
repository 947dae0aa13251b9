"""Arrays in safetensors files: exact, mapped, defended."""

import os
from pathlib import Path

import numpy as np
import pytest

from seqloom.arrays import LINE, aligned, give_back, read_arrays, write_arrays
from seqloom.errors import ModelError
from seqloom.models.workspace import Workspace, resident


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    kinds = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
    arrays = {kind: np.arange(7).astype(kind) for kind in kinds}
    arrays |= {
        "empty": np.empty((0, 3), np.int32),
        "matrix": np.arange(6.0).reshape(2, 3).T,
        "scalar": np.array(2.5),
    }
    write_arrays(path, arrays)
    found = read_arrays(path)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert type(found[name]) is np.ndarray
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(found[name], array)
        assert found[name].flags.aligned
    found["f8"][0] = 99  # copy on write: the file stays
    assert read_arrays(path)["f8"][0] == 0


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_arrays(path, {"x": np.arange(100)})
    whole = path.read_bytes()
    for broken in (
        b"",
        b"\x00",
        whole[:8],
        whole[:60],
        whole[:-1],
        whole + b"x",
        b"\xff" * 100,
        b"{" * 300,
    ):
        path.write_bytes(broken)
        with pytest.raises(ModelError, match=r"a\.safetensors"):
            read_arrays(path)
    with pytest.raises(ModelError, match="no such file"):
        read_arrays(tmp_path / "none")


def test_written_arrays_are_for_whom_new_files_are(tmp_path):
    before = os.umask(0o022)
    try:
        write_arrays(tmp_path / "a", {"x": np.arange(3)})
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_an_array_file_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    write_arrays(tmp_path / "a", {"x": np.arange(3)})
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ModelError, match="cannot be read: Permission denied"):
        read_arrays(tmp_path / "a")


def test_the_file_is_what_the_library_would_write(tmp_path: Path) -> None:
    from safetensors.numpy import save

    rng = np.random.default_rng(0)
    for size in (0, 1, 7):
        arrays = {
            f"{name} é{kind}": rng.integers(0, 2, (size, 3)).astype(kind)
            for name in "ba"
            for kind in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")
        }
        arrays |= {
            "turned": np.arange(6.0).reshape(2, 3).T,
            "big": np.arange(4, dtype=">i4"),
            "scalar": np.array(2.5, "f4"),
        }
        write_arrays(tmp_path / "a", arrays)
        plain = {
            name: np.array(array, array.dtype.newbyteorder("<"), order="C")
            for name, array in arrays.items()
        }
        assert (tmp_path / "a").read_bytes() == save(plain)


def test_what_was_changed_in_a_mapped_model_is_written(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", {"x": np.zeros(100_000)})
    found = read_arrays(tmp_path / "a")
    found["x"][5:] = 1.0  # in memory alone: the map is copy-on-write
    write_arrays(tmp_path / "b", found)
    write_arrays(tmp_path / "c", found)
    assert read_arrays(tmp_path / "c")["x"].sum() == 99_995


def test_writing_a_large_scratch_array_holds_little_of_it(tmp_path: Path) -> None:
    array = Workspace(on_disk=True).empty(16 << 20, np.float32)  # 64 MB
    array[:] = 1.0
    give_back(array)
    before = resident()
    write_arrays(tmp_path / "a", {"x": array})
    assert resident() - before < 32 << 20
    assert array[-1] == 1.0


@pytest.mark.parametrize(
    "array",
    [
        np.arange(7, dtype=np.int8),
        np.arange(60, dtype=np.float32).reshape(12, 5).T,
        np.empty((0, 3)),
    ],
)
def test_an_aligned_copy_begins_with_a_cache_line(array):
    for _ in range(5):
        copy = aligned(array)
        assert copy.ctypes.data % LINE == 0 or not copy.size
        assert copy.flags.c_contiguous
        assert copy.dtype == array.dtype
        assert np.array_equal(copy, array)
