"""Arrays in safetensors files: exact, mapped, defended."""

from pathlib import Path

import numpy as np
import pytest

from seqloom.arrays import read_arrays, write_arrays
from seqloom.errors import ModelError


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    kinds = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
    arrays = {kind: np.arange(7).astype(kind) for kind in kinds}
    arrays |= {"empty": np.empty((0, 3), np.int32), "matrix": np.arange(6.0).reshape(2, 3).T, "scalar": np.array(2.5)}
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
    for broken in (b"", b"\x00", whole[:8], whole[:60], whole[:-1], whole + b"x", b"\xff" * 100, b"{" * 300):
        path.write_bytes(broken)
        with pytest.raises(ModelError, match=r"a\.safetensors"):
            read_arrays(path)
    with pytest.raises(ModelError, match="no such file"):
        read_arrays(tmp_path / "none")
