"""This tree against another checkout of seqloom, job by job in turns: did a change make anything slower?

    python -m benchmarks.against ../old/src            # corpora through $SEQLOOM_DATA

Each job runs in a process of its own, times itself after a first run that compiles and reads, and
prints seconds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.side_by_side import SMOKE, alternate, data, sized, table

TIMED = """
import sys, time
from pathlib import Path
{job}
once()
start = time.perf_counter()
once()
print(time.perf_counter() - start)
"""
TEXT = "import seqloom\ncorpus = seqloom.read(Path(sys.argv[1]))\n"
TRAIN = """from seqloom import {cls}, TrainConfig
text = Path(sys.argv[1]).read_text()[:100_000]
train = TrainConfig(steps=STEPS, evaluate_every=STEPS, batch_size=16, optimizer='adamw')
def once(): {cls}({options}).fit(text, train=train)""".replace("STEPS", str(sized(40, 2)))
JOBS = {
    "file to ids, words": TEXT
    + "from seqloom import Tokenizer\nfrom seqloom.data.encode import encode_corpus\n"
    "def once(): encode_corpus(Tokenizer(kind='word').fit(corpus), corpus, unit='line')",
    "NGram(order=5).fit": TEXT + "def once(): seqloom.NGram(order=5).fit(corpus)",
    "LSTM, width 256, 40 steps": TRAIN.format(
        cls="LSTM", options="d_hidden=256, dropout=0.2, input_dropout=0.1, tokenizer='byte'"
    ),
    "GPT, 2 x 128, dropout 0.1, 40 steps": TRAIN.format(
        cls="GPT",
        options="n_layers=2, d_model=128, n_heads=4, context=64, dropout=0.1, tokenizer='byte'",
    ),
    "Word2Vec, one pass": TEXT
    + "def once(): seqloom.Word2Vec(epochs=1, tokenizer='word').fit(corpus)",
    "NaiveBayes(ngrams=2), fit and "
    "predict": "from seqloom import NaiveBayes\nrows = [line.split(' ', 1)[::-1] for line in "
    "Path(sys.argv[2]).read_text().splitlines()] * 5\n"
    "def once(): NaiveBayes(ngrams=2).fit([tuple(r) for r in rows]).predict([r[0] for r in rows])",
}


def run(quick: bool, only: str) -> None:
    """Only this tree, to see that all jobs run."""
    compare(None, 1, only)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.against",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("other", help="the src folder of the other checkout")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", default="", help="run only the jobs whose name contains this")
    arguments = parser.parse_args()
    compare(arguments.other, arguments.times, arguments.only)


def compare(other: str | None, times: int, only: str) -> None:
    files = [data("wikitext-2", "train.txt"), data("sst2", "stsa.binary.train")]
    if None in files:
        return
    here = str(Path(__file__).parent.parent / "src")
    with tempfile.TemporaryDirectory(prefix="seqloom-against-") as work:

        def seconds(tree: str, job: str) -> float:
            kept = (
                {}
                if SMOKE
                else {"NUMBA_CACHE_DIR": str(Path(work) / ("ours" if tree == here else "other"))}
            )
            done = subprocess.run(
                [sys.executable, "-c", TIMED.format(job=JOBS[job]), *map(str, files)],
                text=True,
                check=True,
                capture_output=True,
                env={**os.environ, "PYTHONPATH": tree, **kept},
            )
            return float(done.stdout.split()[-1])

        rows = []
        for job in [job for job in JOBS if only in job]:
            if other:
                seconds(here, job), seconds(other, job)
            ratio = alternate(
                lambda job=job: seconds(here, job),
                other and (lambda job=job: seconds(other, job)),
                times,
            )
            shown = f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})"
            print(job, shown, file=sys.stderr, flush=True)
            rows.append((job, f"{ratio.peer:.2f} s", f"{ratio.ours:.2f} s", shown))
    table("this tree against another", rows, ("job", "other", "this", "this against the other"))


if __name__ == "__main__":
    main()
