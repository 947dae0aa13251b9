"""Packed files that expand beyond all text are refused; others are read as before."""

import gzip
import lzma
import os

import pytest

from seqloom import read, read_vectors
from seqloom.data import pieces
from seqloom.errors import ConfigError, DataError


def packed(place, suffix, data):
    if suffix == ".zst":
        zstandard = pytest.importorskip("zstandard")
        place.write_bytes(zstandard.ZstdCompressor().compress(data))
    else:
        place.write_bytes({".gz": gzip.compress, ".xz": lzma.compress}[suffix](data))
    return place


@pytest.mark.parametrize("suffix", pieces.COMPRESSED)
def test_a_bomb_is_refused_in_one_line_and_the_limit_can_be_raised(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "MIN_UNPACKED_LIMIT", 1 << 20)
    bomb = packed(tmp_path / f"a.txt{suffix}", suffix, b"a" * (8 << 20))
    with pytest.raises(DataError, match=f"unpacks to more than 200 times .* set {pieces.VARIABLE}"):
        _ = read(bomb).fingerprint
    monkeypatch.setenv(pieces.VARIABLE, "100000")
    assert len(read(bomb).text()) == 8 << 20
    monkeypatch.setenv(pieces.VARIABLE, "many")
    with pytest.raises(ConfigError, match="whole number"):
        _ = read(bomb).fingerprint


def test_what_is_small_may_expand_far(tmp_path):
    assert len(read(packed(tmp_path / "a.txt.gz", ".gz", b"line\n" * (1 << 20))).text()) == 5 << 20


@pytest.mark.parametrize("suffix", pieces.COMPRESSED)
def test_a_bomb_behind_much_packed_text_is_refused_where_it_begins(suffix, tmp_path):
    """What is allowed follows from what was read so far, not from the size of the whole file."""
    bomb = packed(tmp_path / f"a.txt{suffix}", suffix, b"a" * (40 << 20))
    with open(bomb, "ab") as file:
        file.write(os.urandom(1 << 20))  # for which 200 MB would be allowed
    sizes = []
    with pytest.raises(DataError, match="unpacks to more than 200 times"):
        sizes.extend(map(len, pieces.unpacked(bomb, "a", suffix, 1 << 20)))
    assert sum(sizes) <= 35 << 20


@pytest.mark.parametrize("suffix", pieces.COMPRESSED)
def test_a_bomb_is_refused_before_any_work_on_it(suffix, tmp_path):
    """Rows of two bytes, of which five million would be read first."""
    bomb = packed(tmp_path / f"a.csv{suffix}", suffix, b"1\n" * (8 << 20))
    with pytest.raises(DataError, match="unpacks to more than 200 times"):
        next(pieces.unpacked(bomb, "a", suffix, 1 << 16))


def test_pieces_are_small_however_well_they_pack(tmp_path, monkeypatch):
    monkeypatch.setenv(pieces.VARIABLE, "100000")
    place = packed(tmp_path / "a.txt.zst", ".zst", b"a" * (64 << 20))
    assert max(map(len, pieces.unpacked(place, "a", ".zst", 1 << 20))) < 40 << 20


def test_vectors_are_refused_too(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "MIN_UNPACKED_LIMIT", 1 << 20)
    with pytest.raises(DataError, match="unpacks to more than"):
        read_vectors(packed(tmp_path / "v.txt.gz", ".gz", b"word 0 0 0\n" * (1 << 20)))
