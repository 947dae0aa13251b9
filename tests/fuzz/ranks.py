"""Networks of every kind in one, two and four processes, which must have the same bytes. Then `fit
--processes R` with processes that are killed at random moments: one of the ranks by SIGKILL, after
which the launcher goes on by itself, or the launcher, after which the command is run again with another
number of processes.

However often something died, the model in the end has the bytes of an undisturbed run in one process. After
a rank has died, training must go on within 10 seconds, which the log of the run tells.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from seqloom.data.corpus import bundled
from tests.fuzz.counts import Counts
from tests.fuzz.kills import CODES, MODEL, _alike, _digests, _hears_ctrl_c
from tests.fuzz.specimens import SPECIMENS
from tests.training.several import NETWORKS, in_groups

PROMPT = 10.0  # seconds until training goes on
PATIENCE = 300.0
SHARDS = ("--shards", "4", "--batch-size", "8", "--evaluate-every", "50", "--dropout", "0.1")
COMMANDS = {
    "lstm": (
        "lstm",
        "text",
        *("--tokenizer", "byte", "--d-hidden", "64", "--steps", "400", "--truncation", "32"),
    ),
    "gpt": (
        "gpt",
        "text",
        *("--tokenizer", "byte", "--d-model", "48", "--n-layers", "2", "--n-heads", "2"),
        *("--context", "32", "--steps", "300", "--accumulate", "2", "--average", "tail"),
    ),
    "classifier": ("classifier", "labelled.tsv", "--d-hidden", "32", "--steps", "400"),
    "transformer": (
        "transformer",
        "pairs.tsv",
        *("--tokenizer", "char", "--d-model", "32", "--n-heads", "2", "--steps", "300"),
    ),
}


def run(count: int, seed: int) -> Counts:
    counts, draw = Counts(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="seqloom-ranks-") as folder:
        compare(Path(folder), counts)
        count += counts.tried
        attack = Attack(Path(folder), counts)
        while counts.tried < count:
            attack.on(draw.choice(list(COMMANDS)), draw)
    print(f"{attack.killed} ranks and {attack.ended} launchers were ended", file=sys.stderr)
    if attack.waits:
        waits = sorted(attack.waits)
        print(
            f"training went on {waits[len(waits) // 2]:.1f} s after a rank had died (median of "
            f"{len(waits)}; at most {waits[-1]:.1f} s)",
            file=sys.stderr,
        )
    return counts


TRAINED = [
    "nplm",
    "rnn",
    "lstm",
    "gru",
    "gpt",
    "classifier",
    "tagger",
    "answerer",
    "seq2seq",
    "transformer",
    "forecaster",
]
UPDATES = {"steps": 2, "shards": 4, "accumulate": 2, "clip_at": 0.1}


def compare(place: Path, counts: Counts) -> None:
    """Fit networks of every kind in one process of a group, in two and in four."""
    specimens = [
        name
        for name in SPECIMENS
        if name.split("-")[0] in TRAINED and not name.endswith(("-bit", "-bits"))
    ]
    for job in (
        {"names": list(NETWORKS), "train": UPDATES | {"gradient_noise": 0.01}},
        {"names": specimens, "train": UPDATES, "specimens": True},
    ):
        groups = [{"job": job, "environments": [{}] * size} for size in (1, 2, 4)]
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        answers = in_groups(groups, place)
        failed = [said for group in answers for code, said in group if code]
        if failed:
            counts.wrong += failed
            continue
        found = [json.loads(said) for group in answers for _, said in group]
        for name in job["names"]:
            digests = {each[name] for each in found}
            if len(digests) == 1:
                counts.worked += 1
            else:
                counts.wrong.append(f"{name} has other bytes in several processes")


class Attack:
    def __init__(self, place: Path, counts: Counts) -> None:
        self.place, self.counts, self.waits = place, counts, list[float]()
        self.killed = self.ended = 0
        self.expected: dict[str, dict[str, str]] = {}
        self.seconds: dict[str, float] = {}
        text = bundled().text()
        (place / "text").write_text(text[:60_000])
        lines = [line for line in text[:120_000].splitlines() if line.strip()]
        (place / "labelled.tsv").write_text(
            "".join(f"{'long' if len(x) > 40 else 'short'}\t{x}\n" for x in lines)
        )
        (place / "pairs.tsv").write_text(
            "".join(f"{x[:20].strip()}\t{x[:20].strip()[::-1]}\n" for x in lines[:400])
        )

    def on(self, name: str, draw: random.Random) -> None:
        """Disturb a command once or more, until it has ended by itself."""
        if name not in self.expected:
            begun = time.monotonic()
            self._end(self._start(name, 1))
            self.seconds[name] = time.monotonic() - begun
            self.expected[name] = _digests(self.place / "out", MODEL)
        self._clean()
        trail: list[str] = []
        wrong = ""
        for _ in range(draw.randint(1, 3)):
            processes = draw.choice([2, 2, 4])
            child = self._start(name, processes)
            if draw.random() < 0.7:
                wrong = self._kill_rank(child, draw, trail, processes, self.seconds[name])
            else:
                wrong = self._end_launcher(child, draw, trail, processes, self.seconds[name])
            if wrong or (self.place / "out").exists():
                break
        else:
            wrong = self._end(self._start(name, draw.choice([1, 2])))
        there = _digests(self.place / "out", MODEL)
        if not wrong and (not there or not _alike(there, self.expected[name])):
            wrong = "other bytes in the end"
        left = sorted(p.name for p in self.place.iterdir() if p.name.startswith(("out.", ".out")))
        if not wrong and left:
            wrong = f"left behind: {left}"
        if wrong:
            self.counts.wrong.append(f"{name}, {', '.join(trail)}: {wrong}")
        else:
            self.counts.worked += 1

    def _kill_rank(
        self,
        child: subprocess.Popen[bytes],
        draw: random.Random,
        trail: list[str],
        processes: int,
        seconds: float,
    ) -> str:
        """Kill a random rank, and wait for the end."""
        delay = draw.uniform(0.5, 1.5 * seconds)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(delay)
        ranks = _children(child.pid)
        if ranks:
            index = draw.randrange(len(ranks))
            trained = self._logged()
            with contextlib.suppress(ProcessLookupError):
                os.kill(ranks[index], signal.SIGKILL)
            begun = time.monotonic()
            self.killed += 1
            trail.append(f"rank {index} of {processes} killed after {delay:.2f} s")
            if trained:
                self._wait_until_it_goes_on(child, begun, processes)
        return self._end(child)

    def _wait_until_it_goes_on(
        self, child: subprocess.Popen[bytes], begun: float, processes: int
    ) -> None:
        since = time.time()
        while child.poll() is None and time.monotonic() - begun < PATIENCE:
            if self._logged() > since + 0.5:
                if processes == 2:  # the machines that this runs on have two cores
                    self.waits.append(time.monotonic() - begun)
                return
            time.sleep(0.02)

    def _logged(self) -> float:
        """Return when the log of the run was written last."""
        try:
            return (self.place / "out.run" / "log.jsonl").stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def _end_launcher(
        self,
        child: subprocess.Popen[bytes],
        draw: random.Random,
        trail: list[str],
        processes: int,
        seconds: float,
    ) -> str:
        """End the launcher by a signal; its processes must end too."""
        how, delay = (
            draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]),
            draw.uniform(0.5, seconds),
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(delay)
        ranks = _children(child.pid)
        child.send_signal(how)
        self.ended += child.poll() is None
        trail.append(f"{how.name} to the launcher of {processes} after {delay:.2f} s")
        try:
            err = child.communicate(timeout=PATIENCE)[1].decode()
        except subprocess.TimeoutExpired:  # whoever lives holds its stderr
            return self._give_up(child, ranks)
        begun = time.monotonic()
        while any(_runs(pid) for pid in ranks):
            if time.monotonic() - begun > PROMPT:
                return f"ranks went on without their launcher for {PROMPT} s"
            time.sleep(0.05)
        if "Traceback" in err or "Exception ignored" in err:
            return f"a trace: {err}"
        if how in CODES and child.returncode not in (0, CODES[how]):
            return f"ended with {child.returncode}: {err}"
        return ""

    def _end(self, child: subprocess.Popen[bytes]) -> str:
        """Wait for the end, which must be a good one."""
        try:
            err = child.communicate(timeout=PATIENCE)[1].decode()
        except subprocess.TimeoutExpired:
            return self._give_up(child, _children(child.pid))
        if "Traceback" in err:
            return f"a trace: {err}"
        return f"ended with {child.returncode}: {err}" if child.returncode else ""

    def _give_up(self, child: subprocess.Popen[bytes], ranks: list[int]) -> str:
        child.kill()
        for pid in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return f"no end within {PATIENCE} s: {child.communicate()[1].decode()}"

    def _clean(self) -> None:
        import shutil

        for path in self.place.glob("out*"):
            shutil.rmtree(path)

    def _start(self, name: str, processes: int) -> subprocess.Popen[bytes]:
        several = ("--processes", str(processes)) if processes > 1 else ()
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "seqloom.cli", "fit", *COMMANDS[name], "-o", "out"),
                *SHARDS,
                *several,
            ],
            cwd=self.place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=_hears_ctrl_c,
            env={**os.environ, "SEQLOOM_CACHE": str(self.place / "cache")},
        )


def _children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
