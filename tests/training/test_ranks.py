"""Several real processes that train one network, and the launcher that starts them."""

import json
import os
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")

from .several import NETWORKS, PATIENCE, hashes, in_processes

ALL = {
    "steps": 3,
    "shards": 4,
    "accumulate": 2,
    "clip_at": 0.1,
    "average": "tail",
    "gradient_noise": 0.01,
    "batch_size": 6,
}


def test_networks_of_every_task_have_the_same_bytes(tmp_path):
    """Four shards in one process and in two: dropout, accumulation, clipping, averages, carried states."""
    names = list(NETWORKS)
    done = in_processes(2, tmp_path, {"names": names, "train": ALL})
    assert [code for code, _, _ in done] == [0, 0], [err for _, _, err in done]
    first, second = (json.loads(out) for _, out, _ in done)
    assert first == second == hashes(names, ALL)


# ---- refused


def refused(place, size=2, train=None, names=("gpt",), **more):
    """What each of several processes says that end with an error."""
    done = in_processes(size, place, {"names": list(names), "train": train or {"steps": 2}}, **more)
    return [(code, err.strip().splitlines()[-1] if err.strip() else "") for code, _, err in done]


def test_threads_that_differ_are_refused_by_all(tmp_path):
    said = refused(tmp_path, OMP_NUM_THREADS=["1", "2"])
    for code, line in said:
        assert code == 2, said
        assert line == (
            "ConfigError: the number of threads differs between the processes of this run: 1 in rank 0, "
            "2 in rank 1; the bits depend on it, so set OMP_NUM_THREADS alike for all"
        )


def test_a_rank_that_is_started_twice(tmp_path):
    """The second says so and ends; the others go on, and find each other as if nothing had happened."""
    done = in_processes(
        3, tmp_path, {"names": [], "train": {}}, RANK=["0", "1", "1"], WORLD_SIZE=["2"] * 3
    )
    codes = [code for code, _, _ in done]
    assert codes[0] == 0, done
    assert sorted(codes[1:]) == [0, 2], done
    twice = next(err for code, _, err in done if code == 2)
    assert "rank 1 has been started twice; start ranks 0 to 1 once each" in twice


# ---- the launcher

STUB = """
import os, signal, sys, time
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
{body}
"""


@pytest.fixture
def launch(tmp_path, monkeypatch):
    """launch(body, restarts): processes that do what `body` says, started as those of `fit` are."""
    from seqloom.cli import several

    def run(body, restarts=3, processes=2):
        (tmp_path / "stub.py").write_text(STUB.format(body=body))
        start = subprocess.Popen
        monkeypatch.setattr(
            several.subprocess,
            "Popen",
            lambda command, **how: start([sys.executable, str(tmp_path / "stub.py")], **how),
        )
        return several.launch(["fit"], processes, restarts, "m.run")

    return run


def test_a_process_that_is_killed_is_started_again_with_all_others(launch, tmp_path):
    begun = time.monotonic()
    body = f"""
open({str(tmp_path)!r} + f"/{{attempt}}-{{rank}}", "w").close()
if attempt < 2 and rank == 1: os.kill(os.getpid(), signal.SIGKILL)
if attempt < 2: time.sleep(100)
"""
    assert launch(body) == 0
    assert {p.name for p in tmp_path.glob("?-?")} == {
        f"{a}-{r}" for a in range(3) for r in range(2)
    }
    assert time.monotonic() - begun < 60


def test_the_last_start_ends_with_what_happened(launch):
    from seqloom.errors import TrainingError

    with pytest.raises(
        TrainingError, match=r"rank 0 was ended by SIGSEGV, and restarts=1 allows no further "
    ):
        launch("if rank == 0: os.kill(os.getpid(), signal.SIGSEGV)", restarts=1)


def test_an_error_of_the_user_is_not_tried_again(launch, capfd):
    """Its line is shown, once, whichever process says it; those that have lost it say nothing."""
    body = """
if rank == 1: print("seqloom: text: no such file", file=sys.stderr)
sys.exit(75 if rank == 0 else 2 if attempt == 0 else 0)
"""
    assert launch(body) == 2
    assert capfd.readouterr().err == "rank 1: seqloom: text: no such file\n"


def test_what_dies_after_the_model_is_saved_is_not_started_again(launch):
    body = """
open(os.environ["SEQLOOM_MEETING"] + ".saved", "w").close()
os.kill(os.getpid(), signal.SIGKILL) if attempt == 0 else sys.exit(1)
"""
    assert launch(body) == 0


FIT = [
    "fit",
    "lstm",
    "text",
    "-o",
    "m",
    "--tokenizer",
    "byte",
    "--d-hidden",
    "8",
    "--steps",
    "6",
    "--batch-size",
    "4",
    "--truncation",
    "8",
    "--dropout",
    "0.2",
    "--average",
    "tail",
    "-q",
]


@pytest.fixture
def folder(tmp_path, toy_text, monkeypatch):
    (tmp_path / "text").write_text(toy_text * 4)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(place):
    return {
        path.name: path.read_bytes() for path in place.iterdir() if path.name != "training.jsonl"
    }


def test_the_command_in_two_processes_and_in_one(folder):
    """The same bytes, all of them, and nothing left behind."""
    from click.testing import CliRunner

    from seqloom.cli.main import main

    done = subprocess.run(
        [sys.executable, "-P", "-m", "seqloom", *FIT, "--processes", "2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("m: lstm-1x8, byte-257")
    assert sorted(path.name for path in folder.iterdir()) == ["m", "text"]
    shared = contents(folder / "m")
    assert CliRunner().invoke(main, [*FIT, "--shards", "2"]).exit_code == 0
    assert shared == contents(folder / "m")


@pytest.mark.parametrize(
    ("options", "environment", "says"),
    [
        (
            ["lstm", "text", "--processes", "2", "--shards", "3"],
            {},
            "3 shards of an update cannot be shared evenly by 2 processes",
        ),
        (
            ["lstm", "text", "--processes", "4", "--shards", "2"],
            {},
            "2 shards of an update cannot be shared evenly by 4 processes; give as many shards or a multiple, "
            "such as 4,",
        ),
        (["lstm", "-", "--processes", "2"], {}, "standard input can be read by one process"),
        (["lstm", "--processes", "2"], {}, "standard input can be read by one process"),
        (
            ["lstm", "text", "--processes", "4"],
            {"RANK": "0", "WORLD_SIZE": "2"},
            "--processes is 4, but torchrun has started 2",
        ),
        (
            ["ngram", "text"],
            {"RANK": "0", "WORLD_SIZE": "2"},
            "fit ngram works in one process, and 2 were started",
        ),
        (
            ["lstm", "text"],
            {"RANK": "0", "WORLD_SIZE": "2"},
            "RANK and WORLD_SIZE are set, but not MASTER_ADDR and MASTER_PORT",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused_at_once(folder, monkeypatch, options, environment, says):
    from click.testing import CliRunner

    from seqloom.cli.main import main

    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    found = CliRunner().invoke(main, ["fit", *options, "-o", "m"], env=environment)
    assert says in str(found.exception)
    assert getattr(found.exception, "exit_code", None) == 2
    assert not (folder / "m").exists()
