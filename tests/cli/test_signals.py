"""Ctrl-C and SIGTERM wherever they come: one line that says how to go on, 130 and 143, nothing lost
and nothing mixed.
"""

import os
import signal
import subprocess
import sys

import pytest

from .ends import PATIENCE, SLOW, _hears_ctrl_c, end, started
from .test_faults import end_in

BOTH = pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["interrupt", "terminate"]
)
VECTORS = (
    "fit",
    "word2vec",
    "text",
    "--dimensions",
    8,
    "--min-count",
    1,
    "--epochs",
    4,
    "--deterministic",
    "-q",
)


@pytest.fixture(autouse=True)
def text(tmp_path, toy_text):
    (tmp_path / "text").write_text(toy_text * 4)
    return tmp_path / "text"


# ---- where signals come


@pytest.mark.parametrize(
    ("label", "how", "code"),
    [("encoding", signal.SIGINT, 130), ("counting tokens", signal.SIGTERM, 143)],
)
def test_before_the_first_checkpoint(tmp_path, label, how, code):
    args = ("fit", "hmm", "text", "-o", "m", "--states", 2, "--tokenizer", "word")
    assert end_in(label, how, tmp_path, *args) == (
        code,
        "\ninterrupted before the first checkpoint; the same command starts over\n",
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["text"]


def test_while_steps_are_timed(tmp_path):
    pytest.importorskip("torch")
    slow = """
import time
from seqloom.models.language.language_net import LanguageTraining

def loss(*_):
    print("now", flush=True)
    time.sleep(3000)

LanguageTraining.loss = loss
from seqloom.cli.main import run
run()
"""
    args = (
        "fit",
        "nplm",
        "text",
        "-o",
        "m",
        "--tokenizer",
        "byte",
        "--d-hidden",
        8,
        "--minutes",
        1,
        "-q",
    )
    assert end(slow, args, signal.SIGTERM, tmp_path) == (
        143,
        "\ninterrupted before the first checkpoint; the same command starts over\n",
    )


def test_a_comparison_says_that_it_goes_on(tmp_path, shakespeare):
    (tmp_path / "text").write_text(shakespeare[:6000])
    args = ("compare", "text", "--rungs", "uniform,byte-1", "--work", "w", "-o", "report")
    code, err = end_in("training byte-1", signal.SIGTERM, tmp_path, *args)
    assert code == 143
    assert (
        err.splitlines()[-1]
        == "interrupted; finished rungs are kept; run the same command to resume"
    )
    assert not (tmp_path / "report").exists()
    assert len(list((tmp_path / "w").rglob("result.json"))) == 1


@BOTH
def test_a_signal_inside_a_callback_is_not_lost(tmp_path, how, code):
    """Where an exception can only be dropped, as in the callbacks of numba and llvmlite."""
    dropping = """
import ctypes, time
import seqloom.storage

@ctypes.CFUNCTYPE(None)
def callback():
    print("now", flush=True)
    time.sleep(3000)

def read(directory):
    callback()
    for _ in range(30_000):
        time.sleep(0.1)

seqloom.storage.read_config = read
from seqloom.cli.main import run
run()
"""
    assert end(dropping, ("info", "text"), how, tmp_path) == (
        code,
        "\ninterrupted; what was finished is kept\n",
    )


@BOTH
def test_a_signal_that_a_library_swallows_is_not_lost(tmp_path, how, code):
    """Before Python 3.13 hasattr in C swallows whatever is raised."""
    swallowing = """
import ctypes, time
import seqloom.storage

class Attributes:
    def __getattr__(self, name):
        print("now", flush=True)
        time.sleep(3000)

def read(directory):
    try:
        ctypes.pythonapi.PyObject_HasAttrString(ctypes.py_object(Attributes()), b"name")
    except SystemError:
        pass
    for _ in range(30_000):
        time.sleep(0.1)

seqloom.storage.read_config = read
from seqloom.cli.main import run
run()
"""
    assert end(swallowing, ("info", "text"), how, tmp_path) == (
        code,
        "\ninterrupted; what was finished is kept\n",
    )


def test_a_signal_that_was_obeyed_is_not_repeated(tmp_path):
    """As tuning obeys it, which ends with the best that there is."""
    obeying = """
import time
import seqloom.storage

def read(directory):
    try:
        print("now", flush=True)
        time.sleep(3000)
    except KeyboardInterrupt as error:
        error.obey()
    time.sleep(0.3)
    raise SystemExit(0)

seqloom.storage.read_config = read
from seqloom.cli.main import run
run()
"""
    assert end(obeying, ("info", "text"), signal.SIGINT, tmp_path) == (0, "")


@pytest.mark.parametrize("hook", ["_object_getbuffer_hook", "_object_compiled_hook"])
def test_a_signal_inside_llvm_waits_until_it_has_returned(tmp_path, hook):
    """LLVM may crash after a callback that ended early."""
    compiling = f"""
import os, signal
import numba
from numba.core.codegen import JITCPUCodegen

library = JITCPUCodegen._library_class
whole, ended = library.{hook}, []

def interrupted(*args):
    os.kill(os.getpid(), signal.SIGINT)
    result = whole(*args)
    ended.append(1)
    return result

library.{hook} = interrupted

def read(directory):
    try:
        numba.njit(lambda x: x + 1)(1)
    finally:
        print(len(ended), flush=True)

import seqloom.storage
seqloom.storage.read_config = read
from seqloom.cli.main import run
print("now", flush=True)
run()
"""
    with started(compiling, ("info", "text"), tmp_path) as child:
        out, err = child.communicate(timeout=PATIENCE)
    assert (child.returncode, err.decode()) == (130, "\ninterrupted; what was finished is kept\n")
    assert int(out) > 0


def test_a_signal_inside_compiled_text_ends_with_130(tmp_path):
    """CPython ends by SIGINT itself after a KeyboardInterrupt in an exec of text, as dataclasses
    and numba have them.
    """
    compiling = """
import time
import seqloom.kernels.parallel, seqloom.storage

def read(directory):
    exec("print('now', flush=True); time.sleep(3000)", {"time": time})

seqloom.storage.read_config = read
from seqloom.cli.main import run
run()
"""
    (tmp_path / "slow.py").write_text(compiling)
    with started(
        "import os, sys; os.execv(sys.executable, [sys.executable, '-m', 'slow', *sys.argv[1:]])",
        ("info", "text"),
        tmp_path,
    ) as child:
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=PATIENCE)
    assert child.returncode == 130


@BOTH
def test_a_library_that_does_not_listen_is_left_alone(tmp_path, how, code):
    """A tokenizer is trained in Rust, which hears no signal until it is done."""
    deaf = """
import hashlib
import seqloom.text.subword_training as training

def train(*_):
    print("now", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # many minutes, without Python

training._bpe = train
from seqloom.cli.main import run
run()
"""
    found = end(deaf, ("tokenize", "text", "--kind", "bpe", "--save", "t", "-q"), how, tmp_path)
    assert found == (code, "\ninterrupted; what was finished is kept\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["text"]


# ---- two at once


def test_a_second_writer_is_refused_with_the_number_of_the_first(seqloom, tmp_path):
    slow = SLOW.format(module="word_vectors.learning")
    with started(slow, (*VECTORS, "-o", "m", "--seed", 1), tmp_path, lines=2) as first:
        for more in ([], ["--restart"]):
            failed = seqloom(*VECTORS, "-o", "m", "--seed", 2, *more)
            assert failed.one_line() == (
                f"m.run: process {first.pid} is training there; wait until it has ended, "
                "or choose another output"
            )
            assert failed.code == 1
        first.communicate(timeout=PATIENCE)
        assert first.returncode == 0
    assert seqloom(*VECTORS, "-o", "alone", "--seed", 1).code == 0
    for name in ("model.safetensors", "training.jsonl"):
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_a_killed_process_leaves_no_lock(seqloom, tmp_path):
    assert (
        end(
            SLOW.format(module="word_vectors.learning"),
            (*VECTORS, "-o", "m"),
            signal.SIGKILL,
            tmp_path,
            lines=2,
        )[0]
        == -9
    )
    assert (tmp_path / "m.run" / "run.lock").exists()
    assert seqloom(*VECTORS, "-o", "m").code == 0
    assert not (tmp_path / "m.run").exists()


@pytest.mark.parametrize("same", [True, False], ids=["same options", "other options"])
def test_what_another_run_left_without_a_checkpoint_is_not_mixed_in(seqloom, tmp_path, same):
    left = tmp_path / "m.run"
    with started(
        SLOW.format(module="word_vectors.learning").replace("= 0.0, 1e9", "= 1e9, 1e9"),
        (*VECTORS, "-o", "m", "--seed", 1 if same else 2),
        tmp_path,
        lines=3,
    ) as child:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert sorted(p.name for p in left.iterdir()) == ["log.jsonl", "run.json", "run.lock"]
    (left / "best.safetensors").write_bytes(b"of somebody else")
    (left / "tensorboard").mkdir()
    (left / "tensorboard" / "events").write_bytes(b"of somebody else")
    assert seqloom(*VECTORS, "-o", "m", "--seed", 1).code == 0
    assert seqloom(*VECTORS, "-o", "alone", "--seed", 1).code == 0
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == sorted(
        p.name for p in (tmp_path / "alone").iterdir()
    )
    assert (tmp_path / "m" / "training.jsonl").read_bytes() == (
        tmp_path / "alone" / "training.jsonl"
    ).read_bytes()


def test_a_place_without_locks_still_works(seqloom, tmp_path, monkeypatch):
    monkeypatch.setattr("seqloom.directories.fcntl", None)
    assert seqloom(*VECTORS, "-o", "m").code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "text"]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["interrupt", "terminate"],
)
@pytest.mark.parametrize("module", ["seqloom._version", "seqloom.cli.main", "click"])
def test_a_signal_while_the_program_is_loaded_leaves_no_trace(module, number, code):
    """As if it came while a module is imported: the handlers stand before that."""
    early = (
        "import builtins, os, runpy, signal, sys\nwhole = builtins.__import__\n"
        "def slow(name, *rest, **more):\n"
        f"    name == {module!r} and os.kill(os.getpid(), {int(number)})\n"
        "    return whole(name, *rest, **more)\n"
        "builtins.__import__ = slow\nsys.argv = ['-m']\nsys.orig_argv = ['-m', 'seqloom.cli']\n"
        "runpy.run_module('seqloom.cli', run_name='__main__', alter_sys=True)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", early], capture_output=True, text=True, preexec_fn=_hears_ctrl_c
    )
    assert ended.returncode == code
    assert ended.stderr == "interrupted before it started\n"


@BOTH
def test_a_signal_ends_the_process_at_once(tmp_path, how, code):
    """Python, when it ends, takes down what is loaded: torch takes seconds, and here it would take
    an hour.
    """
    slow = """
import atexit, time

class Heavy:
    def __del__(self):
        time.sleep(3000)

heavy = Heavy()
from seqloom.cli.__main__ import run
from seqloom.models.language.ngram import NGram

def fit_ids(*_):
    print("now", flush=True)
    time.sleep(3000)

NGram.fit_ids = fit_ids
atexit.register(lambda: open("ended", "w").close())
run()
"""
    found = end(slow, ("fit", "ngram", "text", "-o", "m", "-q"), how, tmp_path)
    assert found == (code, "\ninterrupted; what was finished is kept\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ended", "text"]
