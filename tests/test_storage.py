"""The saved-model directory: replaced in one step, left-overs put right, nothing of anybody else's
touched.
"""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from seqloom import NGram, Uniform, directories, load, storage
from seqloom.errors import ModelError


@pytest.fixture(scope="module")
def models():
    return [NGram(order=n).fit("a b c\na c b\nb c\n") for n in (1, 2)]


@pytest.fixture(params=[True, False], ids=["exchange", "two renames"])
def any_system(request, monkeypatch):
    """As it is here, and as it is where the system cannot exchange two names."""
    if not request.param:
        monkeypatch.setattr(directories, "_exchange", lambda a, b: False)


def names(place):
    return sorted(p.name for p in place.iterdir())


def test_replacing(any_system, models, tmp_path):
    for model in (*models, models[0]):
        model.save(tmp_path / "m")
        assert load(tmp_path / "m").config.order == model.config.order
        assert names(tmp_path) == ["m"]


def test_an_empty_directory_is_taken_and_parents_are_made(any_system, models, tmp_path):
    (tmp_path / "m").mkdir()
    models[0].save(tmp_path / "m")
    models[0].save(tmp_path / "a" / "b" / "m")
    assert load(tmp_path / "m").config == load(tmp_path / "a" / "b" / "m").config


def test_a_link_to_a_model_stays_a_link(any_system, models, tmp_path):
    models[0].save(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    models[1].save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "real").config.order == 2
    assert names(tmp_path) == ["link", "real"]


@pytest.mark.parametrize("content", ["notes.txt", ".git", "config.json"])
def test_what_is_not_a_model_is_left_alone(models, tmp_path, content):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / content).write_text("mine")
    with pytest.raises(ModelError, match="not a saved model"):
        models[0].save(tmp_path / "m")
    assert names(tmp_path / "m") == [content]


def test_a_failed_rename_brings_the_earlier_model_back(models, tmp_path, monkeypatch):
    monkeypatch.setattr(directories, "_exchange", lambda a, b: False)
    models[0].save(tmp_path / "m")
    rename, calls = os.replace, []

    def failing(a, b):
        calls.append((a, b))
        if len(calls) == 3:
            raise OSError(5, "Input/output error")
        rename(a, b)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(ModelError, match="Input/output error"):
        models[1].save(tmp_path / "m")
    assert len(calls) == 4
    assert load(tmp_path / "m").config.order == 1
    assert names(tmp_path) == ["m"]


def test_left_overs_of_dead_processes(models, tmp_path):
    """Also of a process that had our own number, as in a container where every run has the same one."""
    dead = next(pid for pid in range(2**22 - 2, 2, -1) if not directories._alive(pid))
    for pid in (dead, os.getpid()):
        (tmp_path / f".m.{pid}-99.partial" / "members").mkdir(parents=True)
    (tmp_path / ".m.1-0.partial").mkdir()  # process 1 lives
    (tmp_path / f".mm.{dead}-0.partial").mkdir()  # of another model
    models[0].save(tmp_path / "m")
    assert names(tmp_path) == [".m.1-0.partial", f".mm.{dead}-0.partial", "m"]


def test_a_death_between_two_renames_is_put_right(models, tmp_path):
    dead = next(pid for pid in range(2**22 - 2, 2, -1) if not directories._alive(pid))
    models[0].save(tmp_path / "m")
    (tmp_path / "m").rename(tmp_path / f".m.{dead}-0.partial.old")
    with pytest.raises(RuntimeError), storage.writing(tmp_path / "m"):
        raise RuntimeError("the next save fails too")
    assert load(tmp_path / "m").config.order == 1
    assert names(tmp_path) == ["m"]


def test_another_writer_may_come_first(any_system, models, tmp_path, monkeypatch):
    """Both find nothing there; the other one's model is in place just before ours is."""
    rename = os.replace

    def late(source, target):
        monkeypatch.setattr(os, "replace", rename)
        models[1].save(tmp_path / "m")
        rename(source, target)

    monkeypatch.setattr(os, "replace", late)
    models[0].save(tmp_path / "m")
    assert load(tmp_path / "m").config.order == 1
    assert names(tmp_path) == ["m"]


def test_two_threads_save_to_one_place(models, tmp_path):
    with ThreadPoolExecutor(6) as pool:  # which hands on what goes wrong in a thread
        list(pool.map(lambda model: model.save(tmp_path / "m"), models * 3))
    assert load(tmp_path / "m").config.order in (1, 2)
    assert names(tmp_path) == ["m"]


def test_a_file_by_two_writers_at_once(tmp_path):
    """Each writes one of its own; what a dead process left is swept."""
    dead = next(pid for pid in range(2**22 - 2, 2, -1) if not directories._alive(pid))
    (tmp_path / f".a.txt.{dead}-0.partial").write_text("of the dead")
    with directories.writing_file(tmp_path / "a.txt") as first:
        first.write_text("first")
        with directories.writing_file(tmp_path / "a.txt") as second:
            second.write_text("second")
        assert (tmp_path / "a.txt").read_text() == "second"
    assert (tmp_path / "a.txt").read_text() == "first"
    assert names(tmp_path) == ["a.txt"]


def test_loading_says_where_the_trouble_is(models, tmp_path):
    models[0].save(tmp_path / "m")
    (tmp_path / "m" / "members").mkdir()
    (tmp_path / "m" / "members" / ".DS_Store").write_text("")
    assert load(tmp_path / "m").config.order == 1
    for bad, words in (
        (tmp_path / "none", "no such directory"),
        (tmp_path / "m" / "README.md", "not a directory"),
    ):
        with pytest.raises(ModelError, match=words) as error:
            load(bad)
        assert str(error.value).startswith(str(bad))
    arpa = tmp_path / "model.arpa"
    arpa.write_text("\\data\\\n")
    with pytest.raises(ModelError, match="seqloom convert"):
        load(arpa)
    kenlm = tmp_path / "model.binary"
    kenlm.write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    with pytest.raises(ModelError, match="KenLM binary"):
        load(kenlm)


# ---- names and files of other programs

FOREIGN = {
    "lm.arpa": (
        b"\\data\\\nngram 1=2\n",
        r"ARPA file: seqloom\.read_arpa\('.*lm\.arpa'\) reads it",
    ),
    "lm.binary": (b"mmap lm http://kheafield.com/code", "KenLM binary"),
    "small.gguf": (b"GGUF\x03\0\0\0", r"GGUF file: seqloom convert .*small\.gguf OUT"),
    "v.txt": (
        b"2 12\n" + b"to " + b"0.5 " * 12 + b"\nbe " + b"0.25 " * 12 + b"\n",
        r"word2vec's text format: seqloom\.read_vectors\('.*v\.txt'\)",
    ),
    "v.bin": (
        (793712314).to_bytes(4, "little") + b"\0" * 60,
        r"seqloom\.read_vectors\('.*v\.bin'\)",
    ),
    "weights.safetensors": (b"\x08\0\0\0\0\0\0\0{}", "seqloom convert DIR OUT makes a model"),
    "pytorch_model.bin": (b"PK\x03\x04", "seqloom convert DIR OUT makes a model"),
    "model.pkl": (b"\x80\x04\x95", r"a pickle, which could run code.*seqloom\.read_vectors"),
    "notes.txt": (b"to be or not\n", "a saved model is a directory with config.json$"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_another_program_names_what_reads_it(name, tmp_path):
    content, says = FOREIGN[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=says):
        load(tmp_path / name)


def test_a_file_of_a_saved_model_names_its_directory(tmp_path):
    NGram(order=1).fit("a b\n").save(tmp_path / "m")
    for name in ("config.json", "model.safetensors"):
        with pytest.raises(ModelError, match=r"give the directory that the file is in: .*m$"):
            load(tmp_path / "m" / name)


def test_the_name_of_a_file_becomes_a_directory_and_that_is_said(tmp_path):
    model = NGram(order=1).fit("a b\n")
    with pytest.warns(UserWarning, match=r"x\.pkl becomes a directory.*seqloom\.load reads it"):
        model.save(tmp_path / "x.pkl")
    assert load(tmp_path / "x.pkl").fitted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.save(tmp_path / "model-1.5")  # no ending of files


def test_a_model_whose_small_files_are_large_is_refused_unread(tmp_path):
    """A stranger's config.json of five gigabytes, which takes no space, took ten of memory."""
    Uniform().fit("to be\n").save(tmp_path / "m")
    with (tmp_path / "m" / "training.jsonl").open("wb") as file:
        file.truncate(directories.MOST_BYTES + 1)
    assert len(load(tmp_path / "m").history) == 0
    with (tmp_path / "m" / "config.json").open("r+b") as file:
        file.truncate(directories.MOST_BYTES + 1)
    with pytest.raises(ModelError, match=r"config.json: cannot be read \(has more than 64 MiB"):
        load(tmp_path / "m")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("m.onnx", "looks like an ONNX file, .* load the model it was made of"),
        ("m.keras", "looks like weights of Keras, which seqloom does not read"),
        ("m.model", r"a tokenizer of SentencePiece, .* seqloom\.read_vectors reads"),
    ],
)
def test_files_of_other_programs_that_are_not_read(tmp_path, name, says):
    (tmp_path / name).write_bytes(b"\x08\x07" + bytes(100))
    with pytest.raises(ModelError, match=says):
        load(tmp_path / name)
