"""Real commands ended at random moments by SIGINT, SIGTERM or SIGKILL, and then run again to their end.

However often a command was ended, the last run must give what an undisturbed one gives, to the byte
where that is promised; until then the output is absent, or the one that was there before. SIGINT
ends with 130 and SIGTERM with 143, promptly and with one line; nothing shows a trace.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

from seqloom.data.corpus import bundled
from tests.interop.llama_files import llama_file

from .counts import Counts
from .specimens import random_encoder

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
PROMPT = 10.0  # seconds that an answer may take on a busy machine
LINE = re.compile(
    r"interrupted.*(the same command to resume|with --resume to continue|starts over|what was "
    r"finished is kept"
    r"|before it started)"
)


@dataclass(frozen=True)
class Command:
    """A command line, and which of the files in its output are the same whenever it is run."""

    name: str
    args: tuple[str, ...]
    output: str  # a file or a directory
    same: tuple[str, ...]  # patterns of those files; without any the output only has to be whole
    check: tuple[str, ...] = ()  # a command that must work on the output


MODEL = ("config.json", "model.safetensors", "tokenizer.*")
VECTORS = ("--dimensions", "16", "--epochs", "12", "--min-count", "2")
USE = ("info", "out")


NETWORK = ("--steps", "60", "--evaluate-every", "20", "--d-hidden", "16")
ON_ENCODER = (
    "--encoder",
    "encoder",
    "--steps",
    "30",
    "--batch-size",
    "4",
    "--evaluate-every",
    "10",
)
TRANSLATOR = ("--tokenizer", "char", "--steps", "30", "--evaluate-every", "10")


def _fit(name: str, data: str, *options: str) -> Command:
    return Command(name, ("fit", name, data, "-o", "out", *options), "out", MODEL, USE)


COMMANDS = (
    _fit("ngram", "text", "--order", "4", "--tokenizer", "bpe", "--vocab-size", "800"),
    _fit("naive-bayes", "labelled.tsv", "--ngrams", "2"),
    _fit("hmm", "text", "--states", "12", "--iterations", "40", "--tolerance", "0"),
    _fit("word2vec", "text", *VECTORS, "--deterministic"),
    _fit("glove", "text", *VECTORS),
    _fit(
        "fasttext-classifier",
        "labelled.tsv",
        "--dimensions",
        "16",
        "--epochs",
        "60",
        "--deterministic",
    ),
    _fit(
        "lstm",
        "text",
        "--tokenizer",
        "byte",
        "--d-hidden",
        "32",
        "--steps",
        "60",
        "--batch-size",
        "8",
        "--truncation",
        "16",
        "--evaluate-every",
        "20",
    ),
    _fit("classifier", "labelled.tsv", *NETWORK),
    _fit("tagger", "tagged.conll", *NETWORK),
    _fit("forecaster", "series.csv", "--horizon", "7", *NETWORK),
    _fit("seq2seq", "pairs.tsv", "--d-hidden", "16", "--d-embed", "16", *TRANSLATOR),
    _fit(
        "transformer",
        "pairs.tsv",
        "--d-model",
        "16",
        "--n-layers",
        "1",
        "--n-heads",
        "2",
        *TRANSLATOR,
    ),
    replace(_fit("classifier", "labelled.tsv", *ON_ENCODER), name="classifier-published"),
    replace(_fit("classifier", "labelled.tsv", *ON_ENCODER, "--frozen"), name="classifier-frozen"),
    replace(_fit("tagger", "tagged.conll", *ON_ENCODER), name="tagger-published"),
    Command(
        "translate", ("translate", "translator", "sources", "-o", "out", "--resume"), "out", ("",)
    ),
    Command("convert-gguf", ("convert", "llama.gguf", "out", "--bits", "4"), "out", MODEL, USE),
    Command("convert-published", ("convert", "theirs", "out"), "out", MODEL, USE),
    Command(
        "compare",
        (
            "compare",
            "text",
            "--rungs",
            "uniform,byte-1,byte-3,bpe-2,byte-mixture",
            "--work",
            "work",
            "-o",
            "out",
            "--no-curve",
            "--no-samples",
        ),
        "out",
        ("comparison.json",),
    ),
    Command(
        "tokenize-save",
        ("tokenize", "text", "--kind", "unigram", "--vocab-size", "2000", "--save", "out"),
        "out",
        ("*",),
    ),
    Command(
        "tokenize-ids", ("tokenize", "long", "--kind", "word", "--ids-file", "out"), "out", ("",)
    ),
    Command("convert-arpa", ("convert", "model", "out.arpa"), "out.arpa", ("",)),
    Command("convert-model", ("convert", "model.arpa", "out"), "out", MODEL, USE),
)


def run(count: int, seed: int, commands: Sequence[Command] = COMMANDS) -> Counts:
    counts, draw = Counts(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="seqloom-kills-") as folder:
        attack = Attack(Path(folder), counts)
        while counts.tried < count:
            attack.on(draw.choice(commands), draw, count - counts.tried)
    return counts


class Attack:
    """The files that the commands read, and what each gives when nobody disturbs it."""

    def __init__(self, place: Path, counts: Counts) -> None:
        self.place, self.counts = place, counts
        self.expected: dict[str, tuple[dict[str, str], float]] = {}
        text = bundled().text()
        (place / "text").write_text(text[:120_000])
        (place / "long").write_text(text * 8)
        lines = [line for line in text[:200_000].splitlines() if line.strip()]
        (place / "labelled.tsv").write_text(
            "".join(f"{'long' if len(x) > 40 else 'short'}\t{x}\n" for x in lines)
        )
        (place / "tagged.conll").write_text("".join(f"{_tagged(x)}\n" for x in lines[:600]))
        (place / "series.csv").write_text(
            "date,load\n"
            + "".join(
                f"{date(2022, 1, 1) + timedelta(d)},{d % 7 + len(lines[d]) / 50}\n"
                for d in range(500)
            )
        )
        (place / "pairs.tsv").write_text(
            "".join(f"{x[:20].strip()}\t{x[:20].strip()[::-1]}\n" for x in lines[:400])
        )
        (place / "sources").write_text("".join(f"{x[:20]}\n" for x in lines[:3000]))
        random_encoder("bert", context=64, d_model=32, n_layers=2, n_heads=2, d_mlp=48).save(
            place / "encoder"
        )
        llama_file(place / "llama.gguf")
        self._whole("convert", "encoder", "theirs", "--form", "hugging-face")
        self._whole(
            "fit",
            "seq2seq",
            "pairs.tsv",
            "-o",
            "translator",
            "--d-hidden",
            "8",
            "--d-embed",
            "8",
            "--tokenizer",
            "char",
            "--steps",
            "5",
        )
        self._whole("fit", "ngram", "text", "-o", "model", "--order", "3")
        self._whole("convert", "model", "model.arpa")

    def on(self, command: Command, draw: random.Random, most: int) -> None:
        """Disturb a command once or more, then let it end."""
        digests, seconds = self._undisturbed(command)
        earlier = draw.random() < 0.5
        self._clean(command)
        if earlier:
            self._put(self.place / f"kept-{command.name}", self.place / command.output)
        before = _digests(self.place / command.output, ("*",))
        trail: list[str] = []
        for _ in range(min(draw.randint(1, 4), most)):
            how, delay = (
                draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]),
                draw.uniform(0.3, seconds),
            )
            trail.append(f"{how.name} after {delay:.2f} s")
            wrong = self._end(command, how, delay)
            there = _digests(self.place / command.output, ("*",))
            if not wrong and there != before and not _alike(there, digests):
                wrong = f"neither the earlier output nor the new one is there: {sorted(there)}"
            self._note(command, trail, wrong)
        found = self._start(command.args).communicate(timeout=300)[1].decode()
        whole = _alike(_digests(self.place / command.output, command.same), digests)
        wrong = "" if whole else f"other bytes in the end ({found})"
        left = sorted(
            p.name
            for p in self.place.iterdir()
            if p.name.startswith((f".{command.output}", f"{command.output}."))
        )
        if not wrong and [
            name for name in left if name not in (command.output, f"{command.output}.json")
        ]:
            wrong = f"left behind: {left}"
        if not wrong and command.check:
            checked = self._start(command.check)
            wrong = checked.communicate(timeout=300)[1].decode() if checked.wait() else ""
        if wrong:
            self._note(command, trail, wrong)

    def _note(self, command: Command, trail: list[str], wrong: str) -> None:
        if wrong:
            self.counts.wrong.append(f"{command.name}, {', '.join(trail)}: {wrong}")
        else:
            self.counts.worked += 1

    def _end(self, command: Command, how: signal.Signals, delay: float) -> str:
        """Start it, send the signal after a while; what was wrong with its answer."""
        child = self._start(command.args)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(delay)
        over = child.poll() is not None
        begun = time.monotonic()
        child.send_signal(how)
        try:
            err = child.communicate(timeout=60)[1].decode()
        except subprocess.TimeoutExpired:
            child.kill()
            return f"no answer within a minute; {child.communicate()[1].decode()}"
        took = time.monotonic() - begun
        if "Traceback" in err or "Exception ignored" in err:
            return f"a trace: {err}"
        if over or child.returncode == 0:
            return "" if child.returncode == 0 else f"it failed by itself: {err}"
        if how == signal.SIGKILL:
            return "" if child.returncode == -how else f"ended with {child.returncode}: {err}"
        lines = [line for line in err.splitlines() if line.startswith("interrupted")]
        if child.returncode != CODES[how] or len(lines) != 1 or not LINE.fullmatch(lines[0]):
            return f"ended with {child.returncode} and said: {err}"
        return f"the answer took {took:.1f} s" if took > PROMPT else ""

    def _undisturbed(self, command: Command) -> tuple[dict[str, str], float]:
        if command.name not in self.expected:
            self._clean(command)
            self._whole(*command.args)  # also compiles
            self._put(self.place / command.output, self.place / f"kept-{command.name}")
            self._clean(command)
            begun = time.monotonic()
            self._whole(*command.args)
            self.expected[command.name] = (
                _digests(self.place / command.output, command.same),
                time.monotonic() - begun,
            )
        return self.expected[command.name]

    def _put(self, source: Path, target: Path) -> None:
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)

    def _clean(self, command: Command) -> None:
        for path in self.place.glob("*"):
            if path.name == "work" or path.name.startswith(command.output):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _whole(self, *args: str) -> None:
        child = self._start(args)
        err = child.communicate(timeout=300)[1].decode()
        assert child.returncode == 0, f"{args}: {err}"

    def _start(self, args: tuple[str, ...]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "seqloom.cli", *args],
            cwd=self.place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=_hears_ctrl_c,
            env={**os.environ, "SEQLOOM_CACHE": str(self.place / "cache")},
        )


def _tagged(line: str) -> str:
    """A sentence of columns, whose tags are of the words' first letters."""
    return "".join(f"{word} {'B-NAME' if word[0].isupper() else 'O'}\n" for word in line.split())


def _hears_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _digests(output: Path, patterns: tuple[str, ...]) -> dict[str, str]:
    """Hashes of the files that are there, by name; of a report without what clocks decide."""
    paths = (
        [output]
        if output.is_file()
        else [p for pattern in patterns if pattern for p in output.glob(pattern)]
    )
    found = {}
    for path in paths:
        data = path.read_bytes() if path.is_file() else b""
        if path.name == "comparison.json":
            data = re.sub(rb'"(\w*seconds|\w*_per_second|peak_memory|disk)": [^\n]*', b"", data)
        found[path.name] = hashlib.sha256(data).hexdigest()
    return found


def _alike(found: dict[str, str], wanted: dict[str, str]) -> bool:
    return all(found.get(name) == digest for name, digest in wanted.items())
