"""A binary file of vectors is told as such, whatever its bytes are."""

import struct

import pytest

from seqloom import read
from seqloom.errors import DataError


def test_binary_vectors_without_a_zero_byte(tmp_path):
    rows = b"".join(
        word + b" " + struct.pack("<2f", 1.2345, -2.3456) + b"\n" for word in (b"cat", b"dog")
    )
    assert b"\0" not in rows
    (tmp_path / "v.bin").write_bytes(b"2 2\n" + rows)
    with pytest.raises(DataError, match="word2vec's binary format, not text"):
        read(tmp_path / "v.bin").text()
