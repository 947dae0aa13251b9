"""GGUF: blocks against numbers worked out by hand and against the package gguf, and files that lie
about themselves.
"""

import struct
import tracemalloc

import numpy as np
import pytest

from seqloom.errors import DataError
from seqloom.interop.gguf import FORMATS, kept_blocks, read_gguf, to_floats
from seqloom.runtime.quantised import Blocks
from tests.interop.gguf_files import LIST, STRING, U32, gguf

F32, F16, Q4_0, Q4_1, Q8_0, Q4_K, Q6_K = (FORMATS[kind] for kind in (0, 1, 2, 3, 8, 12, 14))
HUGE = 2**60


def half(value):
    return np.float16(value).tobytes()


def floats(form, raw):
    return to_floats(np.frombuffer(raw, np.uint8), form)


def test_plain_numbers():
    assert floats(F32, struct.pack("<3f", 1.5, -2, 3e30)).tolist() == [1.5, -2, np.float32(3e30)]
    assert floats(F16, half(1.5) + half(-65504)).tolist() == [1.5, -65504]


def test_blocks_of_32():
    assert floats(Q8_0, half(0.5) + bytes(range(-16 % 256, 256)) + bytes(range(16))).tolist() == [
        q / 2 for q in range(-16, 16)
    ]
    packed = bytes(low | (15 - low) << 4 for low in range(16))  # 0 to 15, and then 15 to 0
    numbers = [*range(16), *range(15, -1, -1)]
    assert floats(Q4_0, half(0.5) + packed).tolist() == [(q - 8) / 2 for q in numbers]
    assert floats(Q4_1, half(0.5) + half(-3) + packed).tolist() == [q / 2 - 3 for q in numbers]
    two = floats(Q4_0, half(1) + packed + half(2) + packed)
    assert two.tolist() == [q - 8 for q in numbers] + [2 * (q - 8) for q in numbers]


def test_q4_k():
    scales, minima = [1, 2, 3, 63, 17, 33, 62, 48], [5, 0, 63, 7, 16, 34, 9, 61]
    packed = [scales[j] | (scales[j + 4] >> 4) << 6 for j in range(4)]
    packed += [minima[j] | (minima[j + 4] >> 4) << 6 for j in range(4)]
    packed += [(scales[j + 4] & 15) | (minima[j + 4] & 15) << 4 for j in range(4)]
    numbers = np.random.default_rng(0).integers(0, 16, (8, 32))
    pairs = b"".join(bytes((numbers[2 * i] | numbers[2 * i + 1] << 4).tolist()) for i in range(4))
    found = floats(Q4_K, half(0.5) + half(0.25) + bytes(packed) + pairs).reshape(8, 32)
    wanted = 0.5 * np.array(scales)[:, None] * numbers - 0.25 * np.array(minima)[:, None]
    assert found.tolist() == wanted.tolist()


def test_q6_k():
    rng = np.random.default_rng(1)
    numbers, scales = rng.integers(0, 64, 256), rng.integers(-128, 128, 16)
    low, high = np.zeros(128, int), np.zeros(64, int)
    for k, q in enumerate(numbers):
        part, quarter, place = k // 128, k % 128 // 32, k % 32
        low[64 * part + 32 * (quarter % 2) + place] |= (q & 15) << 4 * (quarter // 2)
        high[32 * part + place] |= (q >> 4) << 2 * quarter
    raw = bytes(low.tolist()) + bytes(high.tolist()) + scales.astype(np.int8).tobytes() + half(0.5)
    assert floats(Q6_K, raw).tolist() == (0.5 * np.repeat(scales, 16) * (numbers - 32)).tolist()


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: form.name)
def test_blocks_are_those_of_the_package_gguf(form, monkeypatch):
    gguf_package = pytest.importorskip("gguf")
    monkeypatch.setattr("seqloom.interop.gguf.PORTION", 2)  # several portions
    raw = np.random.default_rng(2).integers(0, 256, (50, form.size), np.uint8)
    if form.size > 4:
        for at in (
            (0, 2) if form.name in ("Q4_1", "Q4_K") else (208,) if form.name == "Q6_K" else (0,)
        ):  # scales, finite
            raw[:, at : at + 2] = (
                np.random.default_rng(3).normal(size=(50, 1)).astype("<f2").view(np.uint8)
            )
    wanted = gguf_package.quants.dequantize(raw, gguf_package.GGMLQuantizationType[form.name])
    assert np.array_equal(
        to_floats(raw.ravel(), form), wanted.astype(np.float32).ravel(), equal_nan=True
    )


# ---- files

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)
BLOCK = half(1) + bytes(32)  # of Q8_0


@pytest.fixture
def read(tmp_path):
    def read(raw):
        (tmp_path / "x.gguf").write_bytes(raw)
        return read_gguf(tmp_path / "x.gguf")

    return read


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("alignment", [None, 8, 64])
def test_a_file_is_read(read, version, alignment):
    values = {
        "name": "näme",
        "n": 7,
        "x": 0.5,
        "yes": True,
        "no": False,
        "words": ["a", "", "ü"],
        "numbers": [3, -1],
    }
    if alignment:
        values["general.alignment"] = alignment
    tensors = [("a", WEIGHTS), ("b", (2, 32), 8, 2 * BLOCK), ("c", WEIGHTS[0] + 1)]
    file = read(gguf(values, tensors, version=version, alignment=alignment or 32))
    assert {**file.values, "numbers": file.values["numbers"].tolist()} == values
    assert file.array("a").tolist() == WEIGHTS.tolist()
    assert file.array("b").tolist() == np.zeros((2, 32)).tolist()
    assert file.array("c").tolist() == [1, 2, 3]
    assert (
        file.text("name"),
        file.integer("n", 0, 9),
        file.real("x", 0, 1),
        file.flag("no", True),
    ) == ("näme", 7, 0.5, False)
    assert file.integer("absent", 0, 9, 3) == 3
    for ask in (
        lambda: file.text("n"),
        lambda: file.integer("n", 8, 9),
        lambda: file.integer("yes", 0, 9),
        lambda: file.texts("x"),
        lambda: file.real("x", 1, 2),
        lambda: file.flag("n", True),
        lambda: file.text("absent"),
    ):
        with pytest.raises(DataError, match="it must be"):
            ask()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"PK\3\4" + bytes(100), "not a GGUF file"),
        (b"GG", "cut off"),
        (gguf(version=1), "of version 1;"),
        (gguf(version=3 << 24), "big-endian"),
        (gguf(counts=(HUGE, 0)), "tensors do not fit"),
        (gguf(counts=(0, HUGE)), "values do not fit"),
        (
            gguf({"k": struct.pack("<IQ", STRING, HUGE)}),
            "'k' would take 1,152,921,504,606,846,976 bytes",
        ),
        (gguf({"k": struct.pack("<IIQ", LIST, STRING, HUGE)}), "texts of k do not fit"),
        (gguf(counts=(10**6, 0)) + bytes(24 * 10**6), "has 1,000,000 tensors; at most 20,000"),
        (gguf(counts=(0, 10**6)) + bytes(13 * 10**6), "has 1,000,000 values; at most 10,000"),
        (
            gguf({"k": ["x"] * 5, "l": struct.pack("<IIQ", LIST, STRING, (1 << 20) - 4)})
            + bytes(8 << 20),
            "'l' it has 1,048,577 texts; at most 1,048,576",
        ),
        (gguf({"k": struct.pack("<IIQ", LIST, U32, HUGE)}), "numbers of k do not fit"),
        (gguf({"k": struct.pack("<IIQ", LIST, LIST, 1)}), "list of lists"),
        (gguf({"k": struct.pack("<II", 99, 1)}), "type 99"),
        (gguf({"k": struct.pack("<IIQ", LIST, 99, 1)}), "list of type 99"),
        (gguf({"k": struct.pack("<IQ", STRING, 1) + b"\xff"}), "not UTF-8"),
        (gguf({b"\xff": 1}), "not UTF-8"),
        (gguf({"k" * 70_000: 1}), "a key of 70,000 bytes"),
        (
            b"GGUF"
            + struct.pack("<IQQ", 3, 0, 2)
            + 2 * (struct.pack("<Q", 1) + b"k" + struct.pack("<II", U32, 1)),
            "appears twice",
        ),
        (gguf({"general.alignment": 0}), "power of two"),
        (gguf({"general.alignment": 48}), "power of two"),
        (gguf({"general.alignment": "8"}), "power of two"),
        (gguf({"general.alignment": 1 << 31}), "power of two"),
        (gguf(tensors=[("a", WEIGHTS), ("a", WEIGHTS)]), "appears twice"),
        (gguf(tensors=[("a", WEIGHTS), ("b", WEIGHTS)], offsets=[0, 0]), "'a' and 'b' overlap"),
        (gguf(tensors=[("a", WEIGHTS)], offsets=[32]), "would end at byte"),
        (gguf(tensors=[("a", WEIGHTS)], offsets=[HUGE]), "would end at byte"),
        (gguf(tensors=[("a", WEIGHTS), ("b", WEIGHTS)], offsets=[0, 5]), "not at a multiple of 32"),
        (gguf(tensors=[("a", (HUGE, 4), 0, b"")]), "would end at byte"),
        (
            gguf(tensors=[("a", (2**32, 2**32), 0, b"")]),
            "would end at byte",
        ),  # 2^64 would wrap around to nothing
        (gguf(tensors=[("a", (0, 4), 0, b"")]), "is not made of blocks"),
        (gguf(tensors=[("a", (4, 31), 8, bytes(200))]), "not made of blocks of 32, as Q8_0 is"),
        (gguf(tensors=[("a", (1,) * 5, 0, bytes(4))]), "has 5 dimensions"),
        (gguf(tensors=[("a", (), 0, bytes(4))]), "has 0 dim"),
        (gguf(tensors=[("a", (32,), 6, bytes(22))]), "stored as Q5_0, which cannot be read"),
        (gguf(tensors=[("a", (32,), 99, bytes(22))]), "stored as type 99"),
        (gguf(tensors=[("a", (4, 4), 0, bytes(60))])[:-30], "would end at byte"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_file_that_lies_is_refused_in_one_line(read, raw, words):
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=words) as caught:
            read(raw)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert "x.gguf: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_truncation_is_refused(read):
    raw = gguf(
        {"a": "text", "b": [1, 2], "c": ["x", "y"]}, [("t", WEIGHTS), ("u", (32,), 8, BLOCK)]
    )
    whole = len(raw) - (-34 % 32)  # what is filled up behind the last tensor is nobody's
    for size in range(1, whole):
        with pytest.raises(DataError):
            read(raw[:size])
    assert read(raw[:whole]).array("u").tolist() == [0] * 32


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(read, bad):
    weights = WEIGHTS.copy()
    weights[1, 1] = bad
    with pytest.raises(DataError, match=r"the tensor 'a' has values that are not finite"):
        read(gguf(tensors=[("a", weights)])).array("a")
    with pytest.raises(DataError, match="not finite"):
        read(gguf(tensors=[("a", (32,), 8, half(bad) + bytes([1] * 32))])).array("a")


@pytest.mark.parametrize("raw", [None, b""])
def test_no_file(tmp_path, raw):
    if raw is not None:
        (tmp_path / "x").write_bytes(raw)
    with pytest.raises(DataError, match="is empty" if raw is not None else "no such file"):
        read_gguf(tmp_path / "x")


@pytest.mark.parametrize(("kind", "bits"), [(8, 8), (2, 4), (3, 4)])
def test_blocks_of_as_many_bits_are_kept_exactly(kind, bits):
    """What quantised models keep of Q8_0, Q4_0 and Q4_1 stands for the same numbers, to the bit,
    with rows in any order.
    """
    rng, form = np.random.default_rng(0), FORMATS[kind]
    raw = rng.integers(0, 256, (20 * 3, form.size)).astype(np.uint8)
    raw[:, 1] &= 0x3F  # scales and minima that are finite
    if form.name == "Q4_1":
        raw[:, 3] &= 0xBF
    expected = to_floats(raw.ravel(), form).reshape(20, 96)
    blocks = kept_blocks(raw.ravel(), (20, 96), form, bits)
    assert np.array_equal(blocks.tiles().floats(), expected)
    order = rng.permutation(20)
    assert np.array_equal(
        Blocks.stacked([blocks[order], blocks]).tiles().floats(),
        np.concatenate([expected[order], expected]),
    )
    assert kept_blocks(raw.ravel(), (20, 96), form, 12 - bits) is None
