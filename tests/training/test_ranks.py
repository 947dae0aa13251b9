"""Several real processes that train one network, and the launcher that starts them."""

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from click.testing import CliRunner

from seqloom.cli import several
from seqloom.cli.main import main
from seqloom.errors import TrainingError

from .several import hashes, in_groups

# `make fuzz ARGS=ranks` has those of all kinds, in four processes too.
QUICK = ["lstm", "gpt", "classifier", "tagger", "forecaster", "transformer"]
ALL = {
    "steps": 3,
    "shards": 4,
    "accumulate": 2,
    "clip_at": 0.1,
    "average": "tail",
    "gradient_noise": 0.01,
    "batch_size": 6,
}


def test_several_processes(tmp_path):
    """Four shards in one process and in two: the same bytes of networks of every task, with dropout,
    accumulation, clipping, averages and carried states. Then what is refused: threads that differ, and a rank
    that is started twice, while the others go on. Torch's own division of one network; and a run of minutes.
    """
    equal, threads, twice, divided, timed = in_groups(
        [
            {"job": {"names": QUICK, "train": ALL}, "environments": [{}, {}]},
            {
                "job": {"names": ["gpt"], "train": {"steps": 2}},
                "environments": [{"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "2"}],
            },
            {
                "job": {"names": [], "train": {}},
                "environments": [{"RANK": rank, "WORLD_SIZE": "2"} for rank in "011"],
            },
            {"job": {"divided": True}, "environments": [{}, {}]},
            {
                "job": {"names": ["gpt"], "train": {"minutes": 0.01}},
                "environments": [{}, {}],
            },
        ],
        tmp_path,
    )
    assert [code for code, _ in equal] == [0, 0], equal
    first, second = (json.loads(said) for _, said in equal)
    assert first == second == hashes(QUICK, ALL)

    assert threads == 2 * [
        (
            2,
            "ConfigError: the number of threads differs between the processes of this run: 1 in rank 0, 2 in "
            "rank 1; the bits depend on it, so set OMP_NUM_THREADS alike for all",
        )
    ]

    assert twice[0][0] == 0, twice
    assert sorted(code for code, _ in twice[1:]) == [0, 2], twice
    second = next(said for code, said in twice if code == 2)
    assert second == ("ConfigError: rank 1 has been started twice; start ranks 0 to 1 once each")

    for code, said in divided:
        assert code == 0, divided
        found = json.loads(said)
        assert found["outputs"] < 1e-5
        assert found["gradients"] < 1e-5
        assert 0.4 < found["share"] < 0.6

    assert timed[0] == timed[1]  # both went by one clock
    assert timed[0][0] == 0, timed


# ---- the launcher

STUB = """
import os, signal, sys, time
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
{body}
"""


@pytest.fixture
def launch(tmp_path, monkeypatch):
    """launch(body, restarts): processes that do what `body` says, started as those of `fit` are."""

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


def test_a_process_that_is_killed_is_started_again_with_all_others(launch, tmp_path, monkeypatch):
    monkeypatch.setattr(several, "_GRACE", 0.2)
    body = f"""
open({str(tmp_path)!r} + f"/{{attempt}}-{{rank}}", "w").close()
if attempt < 2 and rank == 1: os.kill(os.getpid(), signal.SIGKILL)
if attempt < 2: time.sleep(100)
"""
    assert launch(body) == 0
    assert {p.name for p in tmp_path.glob("?-?")} == {
        f"{a}-{r}" for a in range(3) for r in range(2)
    }


def test_the_last_start_ends_with_what_happened(launch):
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
    *("fit", "lstm", "text", "-o", "m", "--tokenizer", "byte", "--d-hidden", "8", "--steps", "6"),
    *("--batch-size", "4", "--truncation", "8", "--dropout", "0.2", "--average", "tail", "-q"),
]


@pytest.fixture
def folder(tmp_path, toy_text, monkeypatch):
    (tmp_path / "text").write_text(toy_text * 4)
    # as it is before the directory is another one
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(os.path.abspath, sys.path)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(place):
    return {
        path.name: path.read_bytes() for path in place.iterdir() if path.name != "training.jsonl"
    }


def test_the_command_in_two_processes_and_in_one(folder, monkeypatch, capfd):
    """The same bytes, all of them, and nothing left behind."""
    command = [*FIT, "--processes", "2"]
    monkeypatch.setattr(sys, "argv", ["seqloom", *command])
    assert CliRunner().invoke(main, command).exit_code == 0
    said = capfd.readouterr()
    assert said.out.startswith("m: lstm-1x8, byte-257")
    assert said.err == ""
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
            "2 shards of an update cannot be shared evenly by 4 processes; give as many shards or a "
            "multiple, such as 4,",
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
            ["lstm", "text", "--device", "cuda:1"],
            {"RANK": "0", "WORLD_SIZE": "2"},
            "device 'cuda:1' cannot be shared by several processes",
        ),
        (
            ["lstm", "text"],
            {"RANK": "0", "WORLD_SIZE": "2"},
            "RANK and WORLD_SIZE are set, but not MASTER_ADDR and MASTER_PORT",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused_at_once(folder, monkeypatch, options, environment, says):
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    found = CliRunner().invoke(main, ["fit", *options, "-o", "m"], env=environment)
    assert says in str(found.exception)
    assert getattr(found.exception, "exit_code", None) == 2
    assert not (folder / "m").exists()
