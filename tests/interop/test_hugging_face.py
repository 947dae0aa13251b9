"""Directories of transformers: what is read of config.json and safetensors files, and files that
lie about themselves.
"""

import json
import os
import pickle
import struct
import warnings

import numpy as np
import pytest

from seqloom import directories
from seqloom.arrays import MAX_WEIGHT
from seqloom.errors import ModelError, SeqloomError
from seqloom.interop.hugging_face import is_directory, read_directory, write_directory
from seqloom.interop.sentencepiece import read_sentencepiece
from seqloom.text.subword_file import read_engine

VALUES = {"model_type": "toy", "n": 3}
HUGE = 1 << 60


def tensors(header, data=b"", *, length=None):
    """A safetensors file: a header, or bytes in its place, and what follows it."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def entry(shape, start, end, kind="F32"):
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


@pytest.fixture
def make(tmp_path):
    """Write files by name, read the directory."""

    def make(*, values=VALUES, **files):
        for name, content in {"config__json": values, **files}.items():
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            (tmp_path / name.replace("__", ".").replace("_of_", "-of-")).write_bytes(raw)
        return read_directory(tmp_path)

    return make


def refused(words, call):
    with pytest.raises(SeqloomError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


# ---- what is read


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("F64", "<f8"),
        ("F32", "<f4"),
        ("F16", "<f2"),
        ("I64", "<i8"),
        ("I32", "<i4"),
        ("U8", "u1"),
        ("BOOL", "?"),
    ],
)
def test_number_formats(make, kind, form):
    raw = np.array([[0, 1, 2], [3, 4, 5]]).astype(form)
    header = {"__metadata__": {"format": "pt"}, "w": entry([2, 3], 3, 3 + raw.nbytes, kind)}
    found = make(model__safetensors=tensors(header, b"xyz" + raw.tobytes()))
    assert found.shapes == {"w": (2, 3)}
    assert found.array("w").dtype == np.float32
    assert np.array_equal(found.array("w"), raw.astype(np.float32))


def test_bfloat16_is_the_upper_half_of_float32(make):
    wide = np.array([1.0, -0.5, 3.0e38 / 2**100, 7.25], np.float32)
    upper = (wide.view(np.uint32) >> 16).astype("<u2").tobytes()
    found = make(model__safetensors=tensors({"w": entry([4], 0, 8, "BF16")}, upper))
    assert np.allclose(found.array("w"), wide, rtol=1 / 128)
    assert found.array("w")[[0, 1, 3]].tolist() == [1.0, -0.5, 7.25]


def test_empty_and_single_numbers(make):
    found = make(
        model__safetensors=tensors(
            {"none": entry([0, 5], 0, 0), "one": entry([], 0, 4)}, np.float32(3).tobytes()
        )
    )
    assert found.array("none").shape == (0, 5)
    assert found.array("one") == 3


def test_several_files(make):
    def file(name):
        return tensors({name: entry([2], 0, 8)}, np.arange(2, dtype=np.float32).tobytes())

    index = {"weight_map": {"a": "m-1-of-2.safetensors", "b": "m-2-of-2.safetensors"}}
    parts = {"m-1_of_2__safetensors": file("a"), "m-2_of_2__safetensors": file("b")}
    found = make(model__safetensors__index__json=index, **parts)
    assert found.shapes == {"a": (2,), "b": (2,)}
    assert found.array("b").tolist() == [0, 1]
    refused("'a' is in another file too", lambda: make(**{"m-2_of_2__safetensors": file("a")}))


def test_a_directory_is_written_and_read_again(tmp_path):
    arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(2, np.float32)}
    write_directory(tmp_path / "d", VALUES, arrays, {"tokenizer.json": "{}"})
    found = read_directory(tmp_path / "d")
    assert (found.values, found.shapes) == (VALUES, {"w": (2, 3), "b": (2,)})
    assert np.array_equal(found.array("w"), arrays["w"])
    assert is_directory(tmp_path / "d")
    assert not is_directory(tmp_path)


def test_it_is_written_as_the_library_reads_it(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    write_directory(tmp_path / "d", VALUES, {"w": np.ones((2, 3), np.float32)}, {})
    assert (
        safetensors.load_file(tmp_path / "d" / "model.safetensors")["w"].tolist()
        == np.ones((2, 3)).tolist()
    )


# ---- pickled weights


def test_pickled_weights(tmp_path, make):
    torch = pytest.importorskip("torch")
    torch.save(
        {"w": torch.nn.Parameter(torch.ones(2, 3)), "half": torch.ones(2, dtype=torch.bfloat16)},
        tmp_path / "pytorch_model.bin",
    )
    found = make()
    assert found.shapes == {"w": (2, 3), "half": (2,)}
    assert found.array("half").tolist() == [1, 1]
    torch.save({"w": torch.tensor([1.0, float("nan")])}, tmp_path / "pytorch_model.bin")
    refused("'w' has values that are not finite", lambda: make().array("w"))


def test_pickled_weights_in_several_files(tmp_path, make):
    torch = pytest.importorskip("torch")
    for name in "ab":
        torch.save({name: torch.ones(2)}, tmp_path / f"part-{name}.bin")
    index = {"weight_map": {"a": "part-a.bin", "b": "part-b.bin"}}
    assert make(pytorch_model__bin__index__json=index).shapes == {"a": (2,), "b": (2,)}
    (tmp_path / "part-b.bin").unlink()
    refused(r"part-b\.bin: is missing", make)


class Trap:
    def __reduce__(self):
        return print, ("reached",)


def test_a_pickled_file_runs_nothing(tmp_path, make, capsys):
    torch = pytest.importorskip("torch")
    torch.save({"w": Trap()}, tmp_path / "pytorch_model.bin")
    refused(
        r"cannot be read as weights alone \(Unsupported global: GLOBAL print was not an allowed "
        r"global by default\)",
        make,
    )
    assert "reached" not in capsys.readouterr().out
    (tmp_path / "pytorch_model.bin").write_bytes(
        pickle.dumps({"w": Trap()})
    )  # with a protocol that torch warns of
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused(r"cannot be read as weights alone \(Unsupported operand 149\)", make)
    assert "reached" not in capsys.readouterr().out
    for content in ([1, 2], {"w": 3}, {"w": torch.ones(2).to_sparse()}):
        torch.save(content, tmp_path / "pytorch_model.bin")
        refused("holds something else than named tensors", make)
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK\3\4" + bytes(50))
    refused("cannot be read as weights alone", make)


# ---- files that lie

LIES = [
    (b"", "its header would have 0 bytes, the file has 0"),
    (b"abc", "damaged or cut off"),
    (tensors({}, length=HUGE), "its header would have 1,152,921,504,606,846,976 bytes"),
    (tensors(b"{" * 5000), "not a list of tensors"),
    (tensors(b"[" * 200_000), "not a list of tensors"),
    (tensors(b"\xff\xfe{}"), "not a list"),
    (tensors([1]), "not a list of tensors"),
    (tensors(b'{"a": 1' + b"0" * 5000 + b"}"), "not a list of tensors"),
    (tensors(b'{"a": {}, "a": {}}'), "each with one name"),
    (tensors({"w": 3}), "'w' has no type, shape or place"),
    (tensors({"w": {"dtype": "F32"}}), "no type, shape or place"),
    (tensors({"w": entry([2], 0, 8, ["F32"])}, bytes(8)), "no type, shape"),
    (tensors({"w": entry([2.0], 0, 8)}, bytes(8)), "no type"),
    (tensors({"w": entry([True], 0, 4)}, bytes(8)), "no type, shape"),
    (tensors({"w": entry([-2, -1], 0, 8)}, bytes(8)), "no type"),
    (tensors({"w": entry([1] * 40, 0, 4)}, bytes(4)), "no type, shape"),
    (tensors({"w": entry([0, HUGE], 0, 0)}), "no type, shape"),
    (tensors({"w": entry("ab", 0, 4)}, bytes(4)), "no type, shape"),
    (
        tensors({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}, bytes(8)),
        "no type, shape",
    ),
    (
        tensors({"w": entry([2], 0, 2, "F8_E4M3")}, bytes(8)),
        "of the type 'F8_E4M3', which cannot be read",
    ),
    (tensors({"w": entry([3], 0, 12)}, bytes(8)), "'w' of 3 does not fit its place"),
    (tensors({"w": entry([3], 0, 8)}, bytes(8)), "does not fit its place"),
    (tensors({"w": entry([2], 8, 0)}, bytes(8)), "does not fit its place"),
    (tensors({"w": entry([1 << 20, 1 << 20], 0, 1 << 40)}), "does not fit its place"),
    (
        tensors({"w": entry([2**32, 2**32], 0, 0)}),
        "does not fit its place",
    ),  # 2^64 would wrap around to nothing
    (tensors({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, bytes(12)), "two tensors overlap"),
    (tensors({"a": entry([2], 0, 8), "b": entry([2], 0, 8)}, bytes(8)), "two tensors overlap"),
]


@pytest.mark.parametrize(("raw", "words"), LIES, ids=[words for _, words in LIES])
def test_a_file_that_lies_is_refused_in_one_line(make, raw, words):
    refused(words, lambda: make(model__safetensors=raw))


def test_more_tensors_than_can_be_read(make):
    header = (
        b"{"
        + b",".join(
            b'"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(100_001)
        )
        + b"}"
    )
    refused(
        "it has 100,001 tensors; at most 100,000 can be read",
        lambda: make(model__safetensors=tensors(header)),
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2 * MAX_WEIGHT])
def test_weights_that_are_no_numbers(make, value):
    raw = np.array([1, value, 2], np.float32).tobytes()
    found = make(model__safetensors=tensors({"w": entry([3], 0, 12)}, raw))
    refused("'w' has values that are not finite numbers or beyond", lambda: found.array("w"))


def test_a_file_cut_off_anywhere(make):
    raw = tensors({"w": entry([2, 3], 0, 24)}, bytes(24))
    for end in range(len(raw)):
        refused("damaged|cut off|fit", lambda end=end: make(model__safetensors=raw[:end]))


def test_damaged_bytes_give_one_line_or_a_tensor(make):
    rng = np.random.default_rng(0)
    raw = tensors({"w": entry([2, 3], 0, 24), "b": entry([2], 24, 32)}, bytes(32))
    for _ in range(300):
        damaged = bytearray(raw)
        damaged[rng.integers(len(raw))] = rng.integers(256)
        try:
            found = make(model__safetensors=bytes(damaged))
            for name in found.shapes:
                found.array(name)
        except SeqloomError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, r"there are no weights in it; expected model\.safetensors"),
        ({"values": {"n": 1}}, "model_type"),
        ({"values": [1]}, "must hold names and values"),
        ({"values": b"{"}, "damaged"),
        ({"values": b"\xff"}, "damaged"),
        ({"values": b"[" * 200_000}, "damaged"),
        (
            {"model__safetensors__index__json": {"weight_map": {"a": "../x.safetensors"}}},
            "names no files of this directory",
        ),
        (
            {"model__safetensors__index__json": {"weight_map": {"a": "/etc/passwd"}}},
            "names no files of this directory",
        ),
        ({"model__safetensors__index__json": {"weight_map": {"a": 3}}}, "names no files"),
        ({"model__safetensors__index__json": {"weight_map": {}}}, "names no files"),
        ({"model__safetensors__index__json": {}}, "names no files"),
        ({"model__safetensors__index__json": {"weight_map": {"a": ".."}}}, "is missing"),
        (
            {"model__safetensors__index__json": {"weight_map": {"a": "x.safetensors"}}},
            r"x\.safetensors: is missing",
        ),
    ],
    ids=str,
)
def test_a_directory_that_is_none(make, files, words):
    refused(words, lambda: make(**files))


def test_a_file_of_values_is_never_large(make, monkeypatch):
    monkeypatch.setattr(directories, "MOST_BYTES", 10)
    refused("has more than 0 MiB", make)


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_a_file_without_an_end_is_not_read(kind, tmp_path):
    if kind == "pipe":
        os.mkfifo(tmp_path / "endless")
    for name in ("config.json", "modules.json", "tokenizer.json", "spiece.model"):
        (tmp_path / name).symlink_to("/dev/zero" if kind == "device" else tmp_path / "endless")
    refused("not a regular file", lambda: read_directory(tmp_path))
    assert not is_directory(tmp_path)
    refused("not a regular file", lambda: read_sentencepiece(tmp_path / "spiece.model"))
    with pytest.raises(ModelError, match="not a regular file"):
        read_engine(tmp_path / "tokenizer.json")


def test_a_directory_that_is_not_there(tmp_path):
    refused("cannot be read", lambda: read_directory(tmp_path / "none"))
    assert not is_directory(tmp_path / "none")


def test_commands_that_want_a_model_of_seqloom_say_how_to_get_one(tmp_path):
    from seqloom.errors import ModelError
    from seqloom.storage import load

    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(ModelError, match="seqloom convert DIR OUT makes one of it"):
        load(tmp_path)
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + bytes(20))
    with pytest.raises(ModelError, match=r"a GGUF file: seqloom convert \S+x\.gguf OUT"):
        load(tmp_path / "x.gguf")
