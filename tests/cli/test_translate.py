"""fit, translate, score, evaluate and compare of translators; a translation of many lines that is
interrupted and goes on.
"""

import json
import signal

import numpy as np
import pytest

import seqloom as library
from seqloom.cli.resumable import contents
from seqloom.cli.translate import Job
from seqloom.decoding.configs import TranslationConfig
from seqloom.tasks.reading import TextReading
from tests.fuzz.specimens import SPECIMENS
from tests.own_models import Backwards

from .ends import end, started

PAIRS = [
    ("das Haus", "the house"),
    ("das Buch", "the book"),
    ("ein Buch", "a book"),
    ("ein Hund", "a dog"),
]
LINES = [f"das Haus {i} ein Buch" for i in range(40)]
SLOWLY = """
import sys
import seqloom.cli.translate as translate

translate.PORTION = 7
lines = translate.Job.lines

def slowly(self, number, source, best):
    print("now", flush=True)
    sys.stdin.readline()
    return lines(self, number, source, best)

translate.Job.lines = slowly
from seqloom.cli.main import run
run()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = tmp_path_factory.mktemp("translators")
    (made / "pairs.tsv").write_text("de\ten\n" + "".join(f"{a}\t{b}\n" for a, b in PAIRS))
    library.Dictionary().fit(PAIRS).save(made / "model")
    library.Dictionary(iterations=1).fit(PAIRS).save(made / "other")
    library.Copy().fit(PAIRS).save(made / "copy")
    (made / "lines").write_text("\n".join(LINES) + "\n")
    return made


def test_from_fit_to_translation(seqloom, place):
    said = seqloom("fit", "dictionary", place / "pairs.tsv", "-o", "m", "--json").json()[0]
    assert (said["source"], said["target"], said["pairs"], said["longest_target"]) == (
        "de",
        "en",
        4,
        3,
    )
    found = seqloom("translate", "m", stdin="das Haus\n\nein  Hund!\n")
    assert (found.out, found.err) == ("the house\n\na  dog!\n", "")
    row = seqloom("translate", "m", "--json", stdin="das Haus\n").json()[0]
    assert (row["source"], row["text"], row["finished"]) == ("das Haus", "the house", True)
    assert row["log_prob"] == pytest.approx(
        library.load("m").score("das Haus", "the house"), abs=1e-5
    )
    assert (
        seqloom("translate", "m", "--nbest", 2, stdin="das Haus\nein Hund\n")
        .out.splitlines()[1]
        .startswith("2\t-")
    )
    found = seqloom("translate", "m", "--nbest", 2, "--json", stdin="das Haus\n").json()[0]
    assert [one["text"] for one in found["translations"]] == ["the house"]
    assert seqloom("info", "m").code == 0


def test_two_files_and_columns(seqloom, place, tmp_path):
    (tmp_path / "train.de").write_text("".join(f"{a}\n" for a, _ in PAIRS))
    (tmp_path / "train.en").write_text("".join(f"{b}\n" for _, b in PAIRS))
    said = seqloom("fit", "dictionary", "train.de", "train.en", "-o", "m", "--json").json()[0]
    assert (said["source"], said["target"]) == ("de", "en")
    seqloom(
        "fit", "dictionary", place / "pairs.tsv", "-o", "back", "--source", "en", "--target", "de"
    )
    assert seqloom("translate", "back", stdin="the book").out == "das Buch\n"
    (tmp_path / "table.csv").write_text("id,text\n1,das Haus\n2,ein Buch\n")
    assert seqloom("translate", "m", "table.csv", "--column", "text").out == "the house\na book\n"


def test_scores_of_pairs(seqloom, place):
    model = library.load(place / "model")
    rows = seqloom("score", place / "model", place / "pairs.tsv", "--json").json()
    assert [(row["source"], row["target"]) for row in rows] == PAIRS
    assert [row["score"] for row in rows] == pytest.approx(
        model.score(*map(list, zip(*PAIRS))), abs=1e-5
    )
    assert (
        seqloom("score", place / "model", place / "pairs.tsv")
        .out.splitlines()[0]
        .endswith("\tdas Haus\tthe house")
    )
    tokens = seqloom("score", place / "model", place / "pairs.tsv", "--tokens", "--json").json()
    assert [row["token"] for row in tokens[:3]] == ["the", "house", "</s>"]
    assert sum(row["log_prob"] for row in tokens[:3]) == pytest.approx(rows[0]["score"], abs=1e-5)
    refused = seqloom("score", place / "model", place / "pairs.tsv", "--colour").one_line()
    assert "is a translator" in refused


def test_evaluate_and_its_chart(seqloom, place, tmp_path):
    result = seqloom(
        "evaluate", place / "model", place / "pairs.tsv", "--json", "--chart", "q.svg"
    ).json()[0]
    assert result["metrics"]["exact_match"] == 1.0
    assert result["metrics"]["bleu"] == library.load(place / "model").evaluate(PAIRS)["bleu"]
    assert any("tok:13a" in note for note in result["notes"])
    assert sum(row["pairs"] for row in result["details"]["lengths"]) == len(PAIRS)
    assert (tmp_path / "q.svg").read_text().startswith("<svg")
    assert "mean_length" in seqloom("evaluate", place / "model", place / "pairs.tsv").out


def test_an_alignment_is_drawn(seqloom, place, tmp_path):
    done = seqloom("translate", place / "model", "--chart", "a.svg", stdin="das Haus\n")
    assert done.out == "the house\n"
    drawn = (tmp_path / "a.svg").read_text()
    assert all(word in drawn for word in ("das", "Haus", "the", "house"))
    assert (
        "one line of text"
        in seqloom("translate", place / "model", "--chart", "a.svg", stdin="a\nb\n").one_line()
    )


def test_what_is_refused(seqloom, place):
    for args, message in (
        (("--resume",), "name it with --output"),
        (("--search", "sample", "--nbest", 2), "--nbest is for beam search"),
        (("--with", place / "copy"), "do not write token by token"),
        (("--temperature", 2), "temperature has no effect with"),
        (("-o", "no/such/place"), "is no directory"),
    ):
        assert (
            message in seqloom("translate", place / "model", *args, stdin="das Haus\n").one_line()
        )


def test_an_ensemble_from_the_command_line(seqloom, tmp_path, own_registry):
    library.register(Backwards)
    for name in ("a", "b"):
        Backwards().fit([("abc", "cba")]).save(tmp_path / name)
    assert (
        seqloom("translate", "a", "--with", "b", "--beams", 2, stdin="ab\nabc\n").out == "ba\ncba\n"
    )


def test_draws_do_not_depend_on_portions(monkeypatch):
    model, lines = Backwards().fit([("abc", "cba")]), ["abcab"] * 9
    how = TranslationConfig(search="sample", temperature=4.0)
    monkeypatch.setattr("seqloom.cli.translate.PORTION", 4)
    answers = list(Job(model, [], how, None, False).answers([iter(lines)]))
    assert [number for number, _, _ in answers] == list(range(1, 10))
    texts = [best[0].text for _, _, best in answers]
    assert texts == [best[0].text for best in model.translations(lines, how)]
    assert texts[:4] != texts[4:8]
    assert [
        best[0].text
        for _, _, best in Job(model, [], how, None, False).answers([iter(lines[3:])], done=3)
    ] == texts[3:]


def test_odd_pairs_are_dropped_if_asked(seqloom, tmp_path):
    rows = [*PAIRS, PAIRS[0], ("Berlin", "Berlin"), ("ein Haus", "")]
    (tmp_path / "odd.tsv").write_text("de\ten\n" + "".join(f"{a}\t{b}\n" for a, b in rows))
    for drop, left in (("nothing", 7), ("empty", 6), ("duplicates", 5), ("copies", 5), ("all", 4)):
        said = seqloom(
            "fit",
            "dictionary",
            "odd.tsv",
            "-o",
            f"m-{drop}",
            "--drop",
            drop,
            "--json",
            "--valid",
            "odd.tsv",
        )
        assert said.json()[0]["pairs"] == left
        assert ("dropped" in said.err) == (left < 7)
    assert "1 with an empty side, 1 copies, 1 duplicates" in said.err


def test_long_lines_are_said_once(seqloom, tmp_path, own_registry, monkeypatch):
    library.register(Backwards)
    Backwards().fit([("abc", "cba")]).save(tmp_path / "m")
    monkeypatch.setattr("seqloom.cli.translate.PORTION", 2)
    err = seqloom("translate", "m", stdin="abcc\nab\nabc\nabcb\nabca\n").err
    assert err.count("longer than any") == 1
    assert "3 of 5 sources are longer than any in training (3 tokens)" in err


def test_a_line_that_is_too_long_can_be_allowed_on_the_way(
    seqloom, tmp_path, own_registry, monkeypatch
):
    library.register(Backwards)
    Backwards().fit([("abc", "cba")]).save(tmp_path / "m")
    monkeypatch.setattr("seqloom.cli.translate.PORTION", 2)
    (tmp_path / "lines").write_text("ab\nca\nab\n" + "a" * 1025 + "\n")
    args = ("translate", "m", "lines", "-o", "out", "--max-tokens", "3")
    refused = seqloom(*args).err
    assert "source 4 has 1,025 tokens, more than 1,024" in refused
    assert "or allow it: --max-source 1025" in refused
    assert seqloom(*args, "--resume", "--max-source", "1025").code == 0
    assert (tmp_path / "out").read_text() == "ba\nac\nba\naaa\n"


def test_translations_that_do_not_end_are_said_once(seqloom, tmp_path, own_registry, monkeypatch):
    library.register(Backwards)
    Backwards().fit([("abc", "cba")]).save(tmp_path / "m")
    monkeypatch.setattr("seqloom.cli.translate.PORTION", 2)
    err = seqloom("translate", "m", "--max-tokens", 2, stdin="abcc\nab\na\nabcb\nabca\n").err
    assert err.count("did not end") == 1
    assert "4 of 5 translations did not end and were cut off after 2 tokens" in err
    drawn = seqloom("translate", "m", "--max-tokens", 2, "--chart", "a.svg", stdin="abc\n")
    assert "1 of 1 translations did not end" in drawn.err


def test_arrays_from_files_and_lines(seqloom, tmp_path):
    """The same answers from a file of NumPy, from numbers and from JSON, each in its line."""
    pytest.importorskip("torch")
    vectors = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    model = library.Seq2Seq(tokenizer="char", d_hidden=8, d_embed=8, dropout=0.0)
    model.fit(
        library.Parallel.of(vectors, ["ab", "ba"] * 10), train=library.TrainConfig(steps=3)
    ).save(tmp_path / "m")
    wanted = "".join(f"{text}\n" for text in model.translate(list(vectors[:4])))
    np.save(tmp_path / "x.npy", vectors[:4])
    np.savez(tmp_path / "x.npz", *vectors[:4])
    rows = [[float(value) for value in vector] for vector in vectors[:4]]
    lines = {
        "numbers": [" ".join(map(str, row)) for row in rows],
        "json": [json.dumps(row) for row in rows],
        "frames": [json.dumps([row]) for row in rows],
        "objects": [json.dumps({"x": row, "n": 1}) for row in rows],
        "source": [json.dumps({"source": row}) for row in rows],
    }
    for name, some in lines.items():
        column = ("--column", "x") if name == "objects" else ()
        assert seqloom("translate", "m", *column, stdin="\n".join(some)).out == wanted
    for name in ("x.npy", "x.npz"):
        assert seqloom("translate", "m", name).out == wanted
    assert "translations" in seqloom("translate", "m", "x.npy", "--nbest", 2, "--json").json()[0]
    seqloom("translate", "m", "x.npy", "-o", "out.txt")
    assert (tmp_path / "out.txt").read_text() == wanted
    for given, message in (
        ("1 2 a", "line 1: 'a' is not a number"),
        ("[1, 2", "line 1: not valid JSON"),
        ('{"y": [1]}', "--column says"),
        ("1 2", "has 2 columns"),
        ("1 2 3\n \n\n4 5 6\n", "stdin, line 2 is blank; each line must have numbers"),
    ):
        assert message in seqloom("translate", "m", stdin=given).one_line()
    assert len(seqloom("translate", "m", stdin="1 2 3\r\n4 5 6\r\n\r\n").out.splitlines()) == 2
    sheet = library.inspect.alignment(model, vectors[0], "ab")
    assert (sheet.data["source"], sheet.data["weights"].shape) == (["1"], (3, 1))


# ---- interruptions


@pytest.fixture
def whole(seqloom, place):
    """What an undisturbed run gives."""
    return seqloom("translate", place / "model", place / "lines").out


@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_an_interrupted_translation_goes_on(seqloom, place, tmp_path, whole, how, code):
    args = ("translate", place / "model", place / "lines", "-o", "out")
    ended, err = end(SLOWLY, args, how, tmp_path, lines=12)
    assert ended == code
    done = (tmp_path / "out.part").read_bytes()
    assert 10 <= done.count(b"\n") < 40
    assert not (tmp_path / "out").exists()
    if how != signal.SIGKILL:
        assert "lines are in out.part; run the same command with --resume to continue" in err
    assert "continue it with --resume, or delete it" in seqloom(*args).one_line()
    (tmp_path / "out.part").write_bytes(done + b"half a l")
    resumed = seqloom(*args, "--resume")
    assert f"continuing out after line {done.count(bytes([10]))}" in resumed.err
    assert (tmp_path / "out").read_text() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_the_n_best_of_a_line_stay_together(seqloom, place, tmp_path):
    args = ("translate", place / "model", place / "lines", "-o", "out", "--nbest", 2)
    assert seqloom(*args).code == 0
    whole = (tmp_path / "out").read_bytes()
    assert end(SLOWLY, args, signal.SIGKILL, tmp_path, lines=5)[0] == -9
    assert seqloom(*args, "--resume").code == 0
    assert (tmp_path / "out").read_bytes() == whole


def test_another_model_or_text_does_not_go_on(seqloom, place, tmp_path):
    (tmp_path / "lines").write_text("\n".join(LINES))
    args = ("translate", place / "model", "lines", "-o", "out")
    assert end(SLOWLY, args, signal.SIGKILL, tmp_path, lines=5)[0] == -9
    other = seqloom("translate", place / "other", "lines", "-o", "out", "--resume")
    assert "begun with another model;" in other.one_line()
    changed = seqloom(*args, "--resume", "--beams", 3, "--nbest", 2, "--json").one_line()
    assert (
        "begun with other options (beams was 5, is 3; nbest was not given, is 2; json was off, is "
        "on); give the" in changed
    )
    (tmp_path / "lines").write_text("something else\n")
    assert "begun with another text;" in seqloom(*args, "--resume").one_line()
    both = seqloom(*args, "--resume", "--encoding", "latin-1").one_line()
    assert (
        "begun with another text and other options (encoding was utf-8, is latin-1); give the same"
        in both
    )
    (tmp_path / "out.part.json").write_text("[1]")
    assert "cannot be read" in seqloom(*args, "--resume").one_line()
    (tmp_path / "out.part.json").write_text("{")
    assert "cannot be read" in seqloom(*args, "--resume").one_line()


def test_one_at_a_time(seqloom, place, tmp_path):
    args = ("translate", place / "model", place / "lines", "-o", "out")
    with started(SLOWLY, args, tmp_path, lines=3):
        assert "is being written by process" in seqloom(*args, "--resume").one_line()


def test_standard_input_is_resumed_by_its_lines(seqloom, place, tmp_path, whole):
    (tmp_path / "out.part").write_text("".join(f"{line}\n" for line in whole.splitlines()[:3]))
    facts = {
        "model": contents(place / "model"),
        "options": TranslationConfig().to_dict(),
        "nbest": None,
        "json": False,
        "reading": TextReading().to_dict(),
        "text": [],
    }
    (tmp_path / "out.part.json").write_text(json.dumps(facts))
    assert (
        seqloom(
            "translate", place / "model", "-o", "out", "--resume", stdin="\n".join(LINES[:2])
        ).code
        == 1
    )
    assert (
        seqloom("translate", place / "model", "-o", "out", "--resume", stdin="\n".join(LINES)).code
        == 0
    )
    assert (tmp_path / "out").read_text() == whole


def test_a_sentence_from_a_pipe_needs_neither_torch_nor_numba(process, place):
    code = (
        "import sys; sys.argv = ['seqloom', 'translate', sys.argv[1]]\nfrom seqloom.cli.main "
        "import run\ntry:\n    run()\n"
        "except SystemExit: pass\nprint(*({'torch', 'numba', 'scipy'} & set(sys.modules)))"
    )
    for name, said in (("model", "the house"), ("copy", "das Haus")):
        assert process(place / name, python=code, stdin=b"das Haus\n").out == f"{said}\n\n"


@pytest.mark.parametrize("bits", ["8", "4"])
def test_fewer_bits(seqloom, tmp_path, bits):
    pytest.importorskip("torch")
    SPECIMENS["transformer"]().save(tmp_path / "model")
    SPECIMENS["seq2seq"]().save(tmp_path / "recurrent")
    assert (
        f"transformer-1+2x8-{bits}bit" in seqloom("convert", "model", "small", "--bits", bits).out
    )
    assert json.loads(seqloom("info", "small", "--json").out)["learnt"]["bits"] == int(bits)
    found = seqloom(
        "translate", "small", "--beams", 2, "--max-tokens", 5, "--json", stdin="abc\n\nzebra\n"
    ).json()
    assert [row["source"] for row in found] == ["abc", "", "zebra"]
    assert "bits a weight already" in seqloom("convert", "small", "more", "--bits", "4").one_line()
    assert (
        f"seq2seq-bigru-gru-additive-{bits}bit"
        in seqloom("convert", "recurrent", "x", "--bits", bits).out
    )
    assert (
        len(seqloom("translate", "x", "--max-tokens", 5, "--json", stdin="abc\nzebra\n").json())
        == 2
    )
