"""`seqloom compare` for every task, and its table on terminals: columns are left out, never squeezed."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import termios
from fcntl import ioctl
from struct import pack

import pytest
from rich.console import Console

from seqloom import Corpus, compare, load, progress
from seqloom.cli.compare import Table, shown
from seqloom.comparison.table import chosen, columns, lines
from tests.comparison.test_tasks import reviews, sentences


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    (place / "reviews.tsv").write_text(
        "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in reviews(200))
    )
    for name, seed in (("train", 0), ("dev", 1), ("test", 2)):
        (place / f"{name}.conll").write_text(
            "".join(
                "".join(f"{word} {tag}\n" for word, tag in zip(*pair)) + "\n"
                for pair in sentences(80, seed)
            )
        )
    return place


def test_labels(seqloom, data, tmp_path):
    args = [
        "compare",
        data / "reviews.tsv",
        "--rungs",
        "majority,bayes-1",
        "--work",
        tmp_path / "work",
    ]
    done = seqloom(*args, "--save", tmp_path / "best")
    assert "comparing classifiers" in done.err
    assert "comparing" not in done.out
    assert re.search(r"^majority +\d+\.\d%", done.out, re.MULTILINE)
    assert "reviews.tsv: trained on 160 texts, tested on" in done.out
    assert f"seqloom predict {tmp_path / 'best'} FILE" in done.out.partition("The best is ")[2]
    assert load(tmp_path / "best").task == "classifier"
    (values,) = seqloom(*args, "--json", "-q").json()
    assert values["answer"]["best"] == values["best"] == "bayes-1"
    assert values["answer"]["commands"][0].startswith("seqloom predict ")
    refused = seqloom(*args, "--task", "text", "--column", "text").one_line()
    assert "unknown rung 'majority'" in refused
    assert refused.endswith("it is one of classifiers: --task classification")
    as_text = seqloom(
        "compare", data / "reviews.tsv", "--column", "text", "--rungs", "byte-1", "--no-samples"
    )
    assert "comparing language models: by the options that were given" in as_text.err
    assert (
        "--label-column is for a classifier"
        in seqloom(*args, "--task", "tagging", "--label-column", "x").one_line()
    )


def test_a_place_for_the_best_model_is_checked_before_the_work(seqloom, data, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")
    refused = seqloom("compare", data / "reviews.tsv", "--save", tmp_path / "mine")
    assert "mine" in refused.one_line()
    assert "training" not in refused.err


def test_tags_with_files_for_both(seqloom, data, tmp_path):
    args = [
        "compare",
        data / "train.conll",
        "--valid",
        data / "dev.conll",
        "--work",
        tmp_path,
        "--minutes",
        "0.01",
    ]
    one = seqloom(*args, "--json").json()[0]
    assert one["split"] == "tested on dev.conll"
    both = seqloom(*args, "--test", data / "test.conll", "--json").json()[0]
    assert both["split"] == "validated on dev.conll, tested on test.conll"
    assert [r["name"] for r in both["rungs"]] == [
        "most-frequent",
        "hmm-1",
        "hmm-2",
        "bilstm",
        "bilstm-crf",
    ]


def test_held_out_text(seqloom, tmp_path, shakespeare):
    for name, text in (
        ("a", shakespeare[:9000]),
        ("b", shakespeare[9000:11_000]),
        ("c", shakespeare[11_000:14_000]),
    ):
        (tmp_path / name).write_text(text)
    args = ["compare", "a", "--rungs", "byte-1", "--work", "w", "--json", "-q"]
    both = seqloom(*args, "--valid", "b", "--test", "c").json()[0]
    assert both["bytes"] == {"train": 9000, "valid": 2000, "test": 3000}
    one = seqloom(*args, "--test", "c").json()[0]
    assert one["bytes"]["test"] == 3000
    assert one["bytes"]["train"] + one["bytes"]["valid"] == 9000
    assert one["bytes"]["valid"] == pytest.approx(900, abs=100)


def test_vectors(seqloom, tmp_path, shakespeare):
    (tmp_path / "text").write_text(shakespeare[:60_000])
    (tmp_path / "pairs").write_text("the of 3\nand to 2\nmy your 5\nyou me 1\n")
    args = ["compare", "text", "--on", "pairs", "--rungs", "cbow", "--work", "w"]
    done = seqloom(*args)
    assert "spearman" in done.out
    assert "seqloom nearest" in done.out
    assert "tested on 4 questions" in done.out
    assert (
        "give --on FILE, and no --valid"
        in seqloom("compare", "text", "--task", "vectors").one_line()
    )


# ---- the table


@pytest.fixture(scope="module")
def found(shakespeare, tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    return compare(
        Corpus.from_texts(shakespeare[:20_000]),
        rungs=["uniform", "byte-1", "byte-3", "byte-mixture"],
        work=work,
    )


@pytest.mark.parametrize("width", [200, 120, 100, 80, 60, 40, 20])
def test_columns_that_do_not_fit_are_left_out_whole(found, width):
    every = columns(found.ladder, found)
    kept = chosen(every, found.results, width)
    table = lines(kept, found.results)
    assert max(map(len, table)) <= width
    assert [c.heading for c in kept] == [c.heading for c in every if c in kept]  # in their order
    out = [c for c in every if c not in kept]
    assert not out or max(c.weight for c in out) < min(c.weight for c in kept)
    for row, result in zip(table[2:], found.results):
        for column in kept:
            assert column.cell(result) in row
    headings = [c.heading for c in kept]
    assert headings[0] == "rung"
    if width >= 80:
        assert {"bits/byte", "95 %", "training", "disk"} <= set(headings)


def live(found, width):
    """What is on a terminal of that width at the end."""
    console = Console(
        width=width, height=30, file=io.StringIO(), force_terminal=True, legacy_windows=False
    )
    table = Table()
    table.start(found)
    with shown(table, console):
        for row in found.results:
            with progress.task("training it", 100, "steps") as bar:
                bar.timer.cancel()
                bar.show()
                bar.advance(30)
                progress.current().live.refresh()
                table.add(row)
                progress.say(f"said of {row.name}")
        table.finished = True
    return console.file.getvalue()


def test_the_live_table_at_80_columns(found):
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", live(found, 80)).replace("\r", "\n")
    rows = [line for line in text.splitlines() if line.startswith("byte-mixture")]
    assert rows
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    assert "…" not in rows[-1]
    final = text[text.rindex("rung ") :]
    assert final.splitlines()[0].split() == [
        "rung",
        "bits/byte",
        "95",
        "%",
        "against",
        "best",
        "p",
        "training",
        "disk",
    ]
    assert final.count("\n") == len(found.results) + 2  # and no bar is left
    assert "said of byte-1" in text


def test_bars_are_drawn_below_the_table(found):
    text = live(found, 80)
    assert "training it" in text
    assert "30%" in text


def test_a_real_terminal_of_80_columns(data, tmp_path):
    """Through a pseudo-terminal, as a person sees it."""
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, pack("HHHH", 40, 80, 0, 0))
    command = [
        sys.executable,
        "-m",
        "seqloom.cli",
        "compare",
        str(data / "reviews.tsv"),
        "--rungs",
        "majority,bayes-1",
        "--work",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        command,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(follower)
    seen = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        seen += part
    assert process.wait() == 0
    os.close(leader)
    text = (
        re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())
        .replace("\r\n", "\n")
        .replace("\r", "\n")
    )
    table = text[text.rindex("rung ") :]
    rows = table.partition("\n\n")[0].splitlines()
    assert [row.split()[0] for row in rows if row and row[0] != "─"][:3] == [
        "rung",
        "majority",
        "bayes-1",
    ]
    assert all(len(row) <= 80 for row in rows)
    assert "training bayes-1" in text
    assert "The best is bayes-1" in text


def test_json_has_no_table(seqloom, data, tmp_path):
    done = seqloom(
        "compare", data / "reviews.tsv", "--rungs", "majority", "--work", tmp_path, "--json", "-q"
    )
    assert len(done.out.splitlines()) == 1
    assert json.loads(done.out)["rungs"][0]["name"] == "majority"


def test_models_that_were_trained_elsewhere_are_marked(seqloom, tmp_path):
    (tmp_path / "corpus.txt").write_text("to be or not to be, that is the question\n" * 80)
    assert (
        seqloom(
            "fit", "ngram", "corpus.txt", "-o", "other", "--order", "5", "--tokenizer", "byte"
        ).code
        == 0
    )
    found = seqloom(
        "compare",
        "corpus.txt",
        "--rungs",
        "byte-1,byte-2",
        "--with",
        "other",
        "--work",
        "work",
        "--no-samples",
    )
    assert found.code == 0
    row = next(line for line in found.out.splitlines() if line.startswith("other *"))
    assert " - " in row  # it was not trained here
    assert "* trained elsewhere, on unknown text that may contain the test part" in found.out
    assert "The best that was trained here is byte-2" in found.out
    wrong = seqloom(
        "compare", "corpus.txt", "--rungs", "byte-1", "--with", "nowhere", "--work", "work"
    )
    assert wrong.code == 1
    assert "nowhere: no such directory" in wrong.one_line()
