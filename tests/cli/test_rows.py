"""`predict`: one answer for each row, in files that can be continued, and as lines come through a pipe."""

import csv
import io
import json
import os
import select
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from seqloom import Copy, HMMTagger, NaiveBayes, NGram, WordVectors
from seqloom.cli.main import main
from seqloom.cli.resumable import contents
from seqloom.data.documents import Document, Pipe
from seqloom.data.unlabelled import read_pairs
from seqloom.errors import DataError
from seqloom.tasks import reading

from .ends import PATIENCE

TEXTS = [
    ("a lovely day", "good"),
    ("a dull day", "bad"),
    ("lovely film", "good"),
    ("so dull", "bad"),
]
TABLE = (
    'id,when,review\n7,"Jan 1",lovely film\n8,"Jan 2",\n009,"Jan 3","dull,\nso dull"\n10,Jan 4,  \n'
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = tmp_path_factory.mktemp("rows")
    NaiveBayes().fit(TEXTS).save(made / "texts")
    HMMTagger().fit([(["the", "dog"], ["D", "N"]), (["the", "cat"], ["D", "N"])]).save(
        made / "tags"
    )
    NGram(order=2).fit("to be\nor not\n" * 5).save(made / "language")
    Copy().fit([("one", "one"), ("two", "two")]).save(made / "copy")
    WordVectors.of(["to", "be"], np.eye(2, dtype=np.float32)).save(made / "vectors")
    (made / "table.csv").write_text(TABLE)
    return made


ASK = ("--column", "review", "--keep", "id,when")


def test_every_row_has_an_answer_that_can_be_joined(seqloom, place):
    found = seqloom("predict", place / "texts", place / "table.csv", *ASK, "--proba", "--json")
    rows = found.json()
    assert [row["row"] for row in rows] == [1, 2, 3, 4]
    assert [row["id"] for row in rows] == ["7", "8", "009", "10"]
    assert [row["label"] for row in rows] == ["good", None, "bad", None]
    assert [row["text"] for row in rows] == ["lovely film", "", "dull,\nso dull", "  "]
    assert rows[1]["probabilities"] == {"bad": None, "good": None}
    assert "2 of 4 rows have no text, so no answer (first: row 2)" in found.err
    plain = seqloom("predict", place / "texts", place / "table.csv", *ASK).out.splitlines()
    assert plain == [
        "7\tJan 1\tgood\tlovely film",
        "8\tJan 2\t\t",
        "009\tJan 3\tbad\tdull, so dull",
        "10\tJan 4\t\t",
    ]


def test_the_column_may_be_called_as_in_fit(seqloom, place):
    asked = ("predict", place / "texts", place / "table.csv", "--keep", "id,when")
    by_column = seqloom(*asked, "--column", "review").out
    assert seqloom(*asked, "--text-column", "review").out == by_column
    both = seqloom(*asked, "--column", "id", "--text-column", "review")
    assert "--column and --text-column are one column here" in both.err


def test_columns_to_keep_may_be_given_one_by_one(seqloom, place):
    asked = ("predict", place / "texts", place / "table.csv", "--column", "review")
    one_by_one = seqloom(*asked, "--keep", "id", "--keep", "when")
    assert one_by_one.out == seqloom(*asked, "--keep", "id,when").out


def test_a_blank_line_has_an_answer_too(seqloom, place, tmp_path):
    lines = "lovely\n\n  \ndull\n\n"
    rows = seqloom("predict", place / "texts", "--json", stdin=lines).json()
    assert [(row["row"], row["label"]) for row in rows] == list(
        enumerate(["good", None, None, "bad", None], 1)
    )
    tags = seqloom("predict", place / "tags", "--json", stdin="the dog\n\ndog\n").json()
    assert [row["tags"] for row in tags] == [["D", "N"], [], ["N"]]
    assert len(seqloom("predict", place / "texts", "--explain", "--json", stdin=lines).json()) == 5


def test_what_is_kept_never_hides_the_answer(seqloom, place, tmp_path):
    (tmp_path / "gold.jsonl").write_text('{"text": "dull", "label": "good", "row": 5}\n')
    args = ("predict", place / "texts", "gold.jsonl", "--column", "text", "--keep", "label, row")
    assert seqloom(*args, "--json").json() == [
        {"row": 1, "input_label": "good", "input_row": 5, "label": "bad", "text": "dull"}
    ]
    (tmp_path / "more.jsonl").write_text('{"text": "dull"}\n')
    both = seqloom(
        "predict", place / "texts", "gold.jsonl", "more.jsonl", "--column", "text", "--json"
    )
    assert [(row["row"], row["file"]) for row in both.json()] == [
        (1, "gold.jsonl"),
        (1, "more.jsonl"),
    ]


def test_answers_as_tables(seqloom, place, tmp_path):
    def written(name, *args):
        assert (
            seqloom("predict", place / "texts", place / "table.csv", *ASK, *args, "-o", name).code
            == 0
        )
        return tmp_path / name

    rows = list(csv.DictReader(io.StringIO(written("out.csv", "--proba").read_text())))
    said = [json.loads(line) for line in written("out.jsonl", "--proba").read_text().splitlines()]
    columns = "row id when label probabilities.bad probabilities.good text"
    assert list(rows[0]) == columns.split()
    assert [row["id"] for row in rows] == ["7", "8", "009", "10"]
    assert rows[2]["text"] == said[2]["text"] == "dull,\nso dull"
    assert float(rows[0]["probabilities.good"]) == said[0]["probabilities"]["good"]
    assert rows[1]["label"] == rows[1]["probabilities.good"] == ""
    heads, *lines = written("out.tsv").read_text().splitlines()
    assert heads.split("\t") == ["row", "id", "when", "label", "text"]
    assert lines[2].split("\t") == ["3", "009", "Jan 3", "bad", "dull, so dull"]
    printed = seqloom("predict", place / "texts", place / "table.csv", *ASK, "--proba").out
    assert written("out.txt", "--proba").read_text() == printed
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("out.")) == [
        *("out.csv", "out.jsonl", "out.tsv", "out.txt")
    ]


def test_answers_as_parquet(seqloom, place, tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"n": [3, None, 1], "said": ["the dog", None, "cat"]})
    frame.write_parquet(tmp_path / "in.parquet")
    args = ("predict", place / "tags", "in.parquet", "--column", "said", "--keep", "n")
    assert seqloom(*args, "-o", "out.parquet").code == 0
    assert polars.read_parquet(tmp_path / "out.parquet").to_dicts() == [
        {"row": 1, "n": 3, "words": ["the", "dog"], "tags": ["D", "N"]},
        {"row": 2, "n": None, "words": [], "tags": []},
        {"row": 3, "n": 1, "words": ["cat"], "tags": ["N"]},
    ]


def test_an_interrupted_prediction_goes_on(seqloom, place, tmp_path, monkeypatch):
    (tmp_path / "in.txt").write_text("lovely\n\ndull\nso dull\nlovely day\n")
    args = ("predict", place / "texts", "in.txt", "--proba")
    whole = seqloom(*args).out
    monkeypatch.setattr(reading, "BATCH", 2)
    asked, predict_proba = [], NaiveBayes.predict_proba

    def interrupted(self, texts):
        asked.append(list(texts))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return predict_proba(self, texts)

    monkeypatch.setattr(NaiveBayes, "predict_proba", interrupted)
    found = seqloom(*args, "-o", "out.txt")
    assert "2 lines are in out.txt.part; run the same command with --resume" in found.err
    with (tmp_path / "out.txt.part").open("a") as file:
        file.write('"half')
    assert "unfinished; continue it with --resume" in seqloom(*args, "-o", "out.txt").one_line()
    other = seqloom("predict", place / "texts", "in.txt", "-o", "out.txt", "--resume")
    assert "was begun with other options" in other.one_line()
    assert seqloom(*args, "-o", "out.txt", "--resume").code == 0
    assert asked == [["lovely"], ["dull", "so dull"], ["dull", "so dull"], ["lovely day"]]
    assert (tmp_path / "out.txt").read_text() == whole
    assert not (tmp_path / "out.txt.part").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--resume",), "--resume continues a file; name it with --output"),
        (("--keep", "idd", "--column", "review"), "has no column 'idd'; did you mean 'id'?"),
        (("-o", "a.csv", "--json"), "--json writes lines of JSON, and a.csv is a table"),
        (("-o", "a.csv.gz"), "answers are written uncompressed"),
        (("-o", "no/a.csv"), "no is no directory"),
    ],
)
def test_refused_in_one_line(seqloom, place, args, said):
    assert said in seqloom("predict", place / "texts", place / "table.csv", *args).one_line()


def test_no_columns_to_keep_in_plain_text(seqloom, place, tmp_path):
    (tmp_path / "a.txt").write_text("lovely\n")
    found = seqloom("predict", place / "texts", "a.txt", "--keep", "id").one_line()
    assert "a.txt is plain text and has no column 'id'" in found


def test_outputs_replace_neither_devices_nor_what_is_read(seqloom, place, tmp_path):
    (tmp_path / "a.csv").write_text("text\nlovely\n")
    table = ["predict", place / "texts", "a.csv", "--column", "text", "-o"]
    assert "is what is read" in seqloom(*table, "./a.csv").one_line()
    assert "no regular file" in seqloom(*table, "/dev/stdout").one_line()
    (tmp_path / "b.csv").write_text("old\n")
    (tmp_path / "link.csv").symlink_to("b.csv")
    assert seqloom(*table, "link.csv").code == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert "lovely" in (tmp_path / "b.csv").read_text()


def test_an_error_before_the_first_answer_leaves_nothing(seqloom, place, tmp_path):
    (tmp_path / "a.csv").write_text("text\nlovely\n")
    command = ["predict", place / "texts", "a.csv", "-o", "out.csv", "--column"]
    assert "txt" in seqloom(*command, "txt").one_line()
    assert not [path.name for path in tmp_path.iterdir() if "part" in path.name]
    assert seqloom(*command, "text").code == 0


def test_kept_columns_with_names_of_the_answer_are_all_there(seqloom, place, tmp_path):
    (tmp_path / "a.csv").write_text("text,label,input_label\nlovely,1,2\n")
    keep = ["--column", "text", "--keep", "input_label,label", "--json"]
    (found,) = seqloom("predict", place / "texts", "a.csv", *keep).json()
    assert (found["input_label"], found["input_input_label"]) == ("2", "1")


def test_a_pattern_is_recorded_by_its_files(tmp_path):
    (tmp_path / "a.txt").write_text("one")
    pattern = str(tmp_path / "*.txt")
    before = contents(pattern)
    (tmp_path / "a.txt").write_text("two")
    assert contents(pattern) != before != [pattern]


# ---- pipes


class Resident:
    """A command in a thread, between two pipes: `answer` waits for a line, not for time."""

    def __init__(self, monkeypatch, *args):
        (given, self._ask), (self._said, out) = os.pipe(), os.pipe()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(os.fdopen(given, "rb")))
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(os.fdopen(out, "wb")))
        self.error, self._waiting, self._args = None, b"", [str(arg) for arg in args]
        self._thread = threading.Thread(target=self._run, args=[sys.stdout], daemon=True)
        self._thread.start()

    def _run(self, out):
        try:
            main.main(self._args, standalone_mode=False)
        except DataError as error:
            self.error = error
        finally:
            out.close()

    def tell(self, text):
        os.write(self._ask, text.encode())

    def line(self):
        """The next line of the answer; empty at the end."""
        while b"\n" not in self._waiting:
            assert select.select([self._said], [], [], PATIENCE)[0], "no answer"
            if not (more := os.read(self._said, 1 << 16)):
                break
            self._waiting += more
        line, _, self._waiting = self._waiting.partition(b"\n")
        return line.decode()

    def close(self):
        """End what it is told."""
        if self._ask is not None:
            os.close(self._ask)
        self._ask = None

    def end(self):
        self.close()
        assert self.line() == ""
        self._thread.join(PATIENCE)
        return self.error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        self._thread.join(PATIENCE)
        os.close(self._said)


@pytest.mark.parametrize(
    ("args", "talk"),
    [
        (("predict", "texts"), [("lovely\n", ["good\tlovely"]), ("dull\n\n", ["bad\tdull", "\t"])]),
        (("predict", "tags"), [("the dog\n", ["the\tD", "dog\tN", ""]), ("cat\n", ["cat\tN", ""])]),
        (
            ("predict", "texts", "--column", "t", "--keep", "n"),
            [('{"t": "dull", "n": 1}\n', ["1\tbad\tdull"]), ('{"n": 2}\n', ["2\t\t"])],
        ),
        (("predict", "texts", "--encoding", "latin-1"), [("dull\n", ["bad\tdull"])] * 2),
        (("translate", "copy"), [("one two\n", ["one two"]), ("zwölf\n", ["zwölf"])]),
        (("score", "language"), [("to be\n", ["\tto be"]), ("or not\n", ["\tor not"])]),
        (("embed", "vectors"), [("to\n", ["to\t1\t0"]), ("be\nto\n", ["be\t0\t1", "to\t1\t0"])]),
        (
            ("nearest", "vectors", "-"),
            [("to\n", ["to", "  0"]), ("be\n", ["be", "  0"])],
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value[0], str) else "",
)
def test_lines_of_a_pipe_are_answered_before_the_next_come(place, monkeypatch, args, talk):
    monkeypatch.chdir(place)
    with Resident(monkeypatch, *args) as running:
        for told, answers in talk:
            running.tell(told)
            for answer in answers:
                line = running.line()
                assert line == answer or (answer and args[0] != "predict" and answer in line)
        assert running.end() is None


def test_an_unknown_word_does_not_end_a_process_that_stays(seqloom, place):
    found = seqloom("nearest", place / "vectors", "-", "--json", stdin="to\nwhat\nbe\n")
    assert [(row["word"], len(row["nearest"])) for row in found.json()] == [
        *(("to", 1), ("what", 0), ("be", 1))
    ]
    assert found.err.count("no vector for 'what'") == 1
    assert "no vector for 'what'" in seqloom("nearest", place / "vectors", "what").one_line()
    refused = seqloom("embed", place / "vectors", stdin="to\nwhat\n").one_line()
    assert refused.endswith("; --unknown skip or --unknown mean goes on without it")
    assert (
        len(
            seqloom(
                "embed", place / "vectors", "--unknown", "skip", stdin="to\nwhat\n\n"
            ).out.splitlines()
        )
        == 3
    )


def test_pairs_of_texts_as_they_come():
    given, told = os.pipe()
    os.write(told, b"a\tb\n")
    pairs = read_pairs(Document("stdin", pipe=Pipe(os.fdopen(given, "rb"))))
    assert [row.example for row in next(pairs)] == [("a", "b")]
    os.write(told, b"c\t\n")
    assert [row.example for row in next(pairs)] == [("c", "")]
    os.close(told)
    assert next(pairs, None) is None


def test_half_a_line_waits_for_its_end(place, monkeypatch):
    with Resident(monkeypatch, "predict", place / "texts", "--json") as running:
        running.tell("dull\nlo")
        assert json.loads(running.line())["text"] == "dull"
        running.tell("vely\nlovely film")
        assert json.loads(running.line()) == {"row": 2, "label": "good", "text": "lovely"}
        running.close()
        assert json.loads(running.line()) == {"row": 3, "label": "good", "text": "lovely film"}
        assert running.end() is None


def test_what_is_not_text_in_a_pipe_is_named_by_its_line(place, monkeypatch):
    with Resident(monkeypatch, "predict", place / "texts") as running:
        running.tell("dull\n")
        assert running.line() == "bad\tdull"
        os.write(running._ask, b"lovely\nd\xff\n")
        assert running.line() == ""
        said = str(running.end())
    assert said.startswith("stdin is not UTF-8 text: line 3, byte offset 13 holds 0xFF")


def test_a_pipe_by_its_name(place, monkeypatch, tmp_path):
    """As in <(command) and after mkfifo."""
    os.mkfifo(tmp_path / "requests")
    with (
        Resident(monkeypatch, "predict", place / "texts", tmp_path / "requests") as running,
        Path(tmp_path / "requests").open("w") as requests,
    ):
        for line in ("dull", "so dull"):
            requests.write(f"{line}\n")
            requests.flush()
            assert running.line() == f"bad\t{line}"
