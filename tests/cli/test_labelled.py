"""fit, predict, evaluate and info for classifiers, taggers and hidden Markov models, with bad data
and sudden ends.
"""

import gzip
import json
import signal

import numpy as np
import pytest
from click.testing import CliRunner

from seqloom import HMM, HMMTagger, NaiveBayes, load, read_tagged
from seqloom.cli.main import main
from seqloom.models.hidden.chain import BaumWelch
from seqloom.reporters import PlainReporter
from seqloom.tasks import reading

from .ends import SLOW, end, ended_with_checkpoint
from .test_faults import left

ROWS = [
    ("a lovely warm film", "very good"),
    ("what a lovely story", "very good"),
    ("warm and funny", "very good"),
    ("a dull cold film", "bad"),
    ("cold and boring story", "bad"),
    ("what a dull thing", "bad"),
]
HELD_OUT = [("a warm story", "very good"), ("a lovely cold film", "bad"), ("dull", "bad")]
CONLL = "The DET\ndog NOUN\nbarks VERB\n\nA DET\ncat NOUN\nsleeps VERB\n\nThe DET\ncat NOUN\nbarks VERB\n"
NAMES = "Anna B-PER\nLee I-PER\nmet O\nBob B-PER\n\nin O\nParis B-LOC\n"


def table(rows):
    return "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows)


@pytest.fixture(scope="module")
def place(tmp_path_factory, toy_text):
    """Data and one small model of each kind."""
    made = tmp_path_factory.mktemp("labelled")
    (made / "train.tsv").write_text(table(ROWS))
    (made / "test.tsv").write_text(table(HELD_OUT))
    (made / "train.conll").write_text(CONLL)
    (made / "toy.txt").write_text(toy_text)
    NaiveBayes().fit(made / "train.tsv").save(made / "nb")
    HMMTagger().fit(made / "train.conll").save(made / "tagger")
    HMM(states=3, iterations=4).fit(toy_text).save(made / "hmm")
    return made


# ---- classifiers


def test_a_classifier_from_fit_to_evaluate(seqloom, place):
    said = seqloom(
        "fit",
        "naive-bayes",
        place / "train.tsv",
        "-o",
        "m",
        "--valid",
        place / "test.tsv",
        "--ngrams",
        2,
        "--json",
    ).json()[0]
    assert said["classes"] == ["bad", "very good"]
    assert said["valid"]["metrics"]["texts"] == 3
    shown = seqloom("evaluate", "m", place / "test.tsv")
    assert shown.code == 0
    assert "confusion (rows gold, columns predicted)" in shown.out
    result = seqloom("evaluate", "m", place / "test.tsv", "--json").json()[0]
    assert result == said["valid"]
    errors = {
        (kind["gold"], kind["predicted"]): kind["count"] for kind in result["details"]["errors"]
    }
    assert sum(errors.values()) == 3 - sum(
        result["details"]["confusion"]["counts"][i][i] for i in (0, 1)
    )
    assert result["metrics"]["accuracy"] == pytest.approx(1 - sum(errors.values()) / 3)


def test_rows_without_a_label_are_skipped_by_every_command_that_reads_them(seqloom, tmp_path):
    rows = [f"{'good' if i % 2 else 'dull'} {i},{'' if i == 3 else i % 2}\n" for i in range(30)]
    (tmp_path / "messy.csv").write_text("text,label\n" + "".join(rows))
    skipped = "messy.csv: 1 of 30 rows has no label and was skipped (line 5)"
    for command in (
        ["fit", "majority", "messy.csv", "-o", "m"],
        ["evaluate", "m", "messy.csv"],
        ["compare", "messy.csv", "--rungs", "majority", "--work", "work"],
    ):
        if command[0] != "evaluate":
            refused = seqloom(*command).one_line()
            assert refused.startswith("messy.csv, line 5: no label in column 'label'")
            assert "--unlabelled skip" in refused
        done = seqloom(*command, "--unlabelled", "skip", "--json")
        assert done.code == 0, done.err
        assert done.err.count(skipped) == 1
    assert (
        seqloom("evaluate", "m", "messy.csv", "--unlabelled", "skip", "--json").json()[0][
            "metrics"
        ]["texts"]
        == 29
    )


def test_rows_without_a_known_word_have_the_numbers_that_they_have_in_the_file(seqloom, place):
    (place / "gaps.csv").write_text("text,label\na lovely day,\nqqq,good\nlovely,good\n\nqqq,bad\n")
    done = seqloom("evaluate", place / "nb", place / "gaps.csv", "--unlabelled", "skip")
    assert "2 of 3 texts have no known word (rows 2, 4)" in done.err
    done = seqloom("predict", place / "nb", stdin="a lovely day\n\nqqq\n")
    assert "1 of 2 texts has no known word (row 3)" in done.err


def test_texts_without_a_known_word_are_told_once_for_all_batches(seqloom, place, monkeypatch):
    monkeypatch.setattr("seqloom.tasks.reading.BATCH", 3)
    lines = "".join("qqq\n" if i % 4 == 1 else "a lovely day\n" for i in range(40))
    done = seqloom("predict", place / "nb", stdin=lines)
    assert done.err.count("no known word") == 1
    assert "10 of 40 texts have no known word (rows 2, 6, 10, 14, 18, ...); there" in done.err
    labels = "".join(f"{line},{i % 2}\n" for i, line in enumerate(lines.splitlines()))
    for name, words in (("train.csv", "so dull"), ("test.csv", "qqq")):
        (place / name).write_text("text,label\n" + labels.replace("qqq", words))
    arguments = ["--rungs", "bayes-1,bayes-2", "--work", "w", "--curve"]
    done = seqloom("compare", place / "train.csv", "--test", place / "test.csv", *arguments)
    assert done.code == 0, done.err
    # by two rungs and their curves; the rows of a part that was cut out say nothing
    assert done.err.count("no known word") == 1
    assert "10 of 40 texts have no known word; there the prior alone decides" in done.err


def test_words_and_tags_line_by_line_in_every_command(seqloom, tmp_path):
    words = ["to New York", "from Rome", "hello", "Rome to New York"] * 6
    spans = {"New": "B-city", "York": "I-city", "Rome": "B-city"}
    tags = [" ".join(spans.get(word, "O") for word in line.split()) for line in words]
    tabbed = "".join(f"{a}\t{b}\n" for a, b in zip(words, tags))
    for name, text in (("a.tab", tabbed), ("a.tsv", tabbed)):
        (tmp_path / name).write_text(text)
    for name, side in (("seq.in", words), ("seq.out", tags)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in side))
    plain = None
    for data in (["seq.in", "seq.out"], ["a.tab"], ["a.tsv"]):
        held_out = ["--valid", ",".join(data)]
        done = seqloom("fit", "hmm-tagger", *data, "-o", "m", *held_out, "--json").json()[0]
        assert (done["scheme"], done["valid"]["metrics"]["span_f1"]) == ("bio", 1.0)
        result = seqloom("evaluate", "m", *data, "--json").json()[0]
        assert result["metrics"]["span_f1"] == 1.0
        rungs = ["--rungs", "most-frequent", "--work", "w"]
        compared = seqloom("compare", *data, *rungs, "--test", ",".join(data), "--json")
        assert compared.json()[0]["rungs"][0]["span_f1"] == 1.0
        assert "comparing taggers" in compared.err
        answers = seqloom("predict", "m", *data, "--json")
        plain = plain or seqloom("predict", "m", "seq.in", "--json").out
        assert answers.out == plain  # of the words alone
        assert ("left out" in answers.err) == (data != ["a.tsv"])  # there they are a column


def test_predict_in_all_its_forms(seqloom, place):
    model, texts = load(place / "nb"), ["a lovely day", "nichts davon 我们", "cold\tand dull"]
    lines = "\r\n".join(texts) + "\r\n"
    plain = seqloom("predict", place / "nb", stdin=lines)
    assert [line.split("\t")[0] for line in plain.out.splitlines()] == model.predict(texts)
    assert "1 of 3 texts has no known word (row 2); there the prior alone decides" in plain.err
    assert [
        row["label"] for row in seqloom("predict", place / "nb", "--json", stdin=lines).json()
    ] == model.predict(texts)
    probs = model.predict_proba(texts)
    head, *rows = seqloom("predict", place / "nb", "-", "--proba", stdin=lines).out.splitlines()
    assert head.split("\t") == ["label", "bad", "very good", "text"]
    assert [row.split("\t")[1:3] for row in rows] == [[f"{p:.4f}" for p in row] for row in probs]
    assert [row.split("\t")[3] for row in rows] == [" ".join(text.split()) for text in texts]
    found = seqloom("predict", place / "nb", "--proba", "--json", stdin=lines).json()
    assert [row["probabilities"] for row in found] == [
        dict(zip(model.classes, row)) for row in probs.tolist()
    ]
    assert [row["text"] for row in found] == texts


@pytest.mark.parametrize(
    ("model", "texts"),
    [
        ("nb", ["a lovely day"] * 20 + ["a dull day and so on and so on"] * 20),
        ("tagger", ["The cat sleeps", "", "A dog"] * 10),
    ],
)
def test_many_rows_are_read_a_few_at_a_time_in_their_order(
    seqloom, place, monkeypatch, model, texts
):
    """No more than so many texts or characters at once; one bar tells of all of them."""
    lines = "\n".join(texts) + "\n"
    whole = seqloom("predict", place / model, "--json", stdin=lines)
    monkeypatch.setattr(reading, "BATCH", 7)
    monkeypatch.setattr(reading, "MAX_CHARACTERS", 100)
    begun, advanced, sizes = [], [], []

    class Watching(PlainReporter):
        def begin(self, label, total, unit):
            made = super().begin(label, total, unit)
            begun.append((label, total, unit))
            if label == "predicting":
                made.advance = advanced.append
            else:
                sizes.append(total)
            return made

    monkeypatch.setattr("seqloom.cli.options.reporter_for", lambda quiet: Watching())
    assert seqloom("predict", place / model, "--json", stdin=lines).out == whole.out
    assert [row for row in begun if row[0] == "predicting"] == [
        ("predicting", len(lines.encode()), "bytes")
    ]
    assert max(sizes) == (7 if all(texts) else 5)  # blank rows are not asked for
    assert min(sizes) < 7
    assert 0.5 * len(lines) < sum(advanced) <= len(lines)


def test_what_predict_says_can_be_read_again_as_data(seqloom, place, tmp_path):
    (tmp_path / "said.jsonl").write_text(
        seqloom("predict", place / "nb", "--json", stdin="a warm day\ndull\n").out
    )
    assert (
        seqloom("evaluate", place / "nb", "said.jsonl", "--json").json()[0]["metrics"]["accuracy"]
        == 1
    )


def test_a_table_is_predicted_by_its_column(seqloom, place, tmp_path):
    assert (
        "say which with --column" in seqloom("predict", place / "nb", place / "test.tsv").one_line()
    )
    named = seqloom(
        "predict", place / "nb", place / "test.tsv", "--column", "text", "--json"
    ).json()
    assert [row["text"] for row in named] == [text for text, _ in HELD_OUT]


def test_labels_with_tabs_and_newlines_stay_in_their_column(seqloom, tmp_path):
    rows = [{"text": "one", "label": "x\ty\nz"}, {"text": "two", "label": "q"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert seqloom("fit", "naive-bayes", "a.jsonl", "-o", "m").code == 0
    assert seqloom("predict", "m", stdin="one\n").out == "x y z\tone\n"
    assert (
        seqloom("predict", "m", "--proba", stdin="two\n").out.splitlines()[0]
        == "label\tq\tx y z\ttext"
    )
    assert seqloom("predict", "m", "--json", stdin="one\n").json()[0]["label"] == "x\ty\nz"


def test_explain(seqloom, place):
    explained = seqloom(
        "predict", place / "nb", "--explain", "--json", stdin="lovely lovely film\nnichts\n"
    )
    assert explained.err == ""  # said by the explanations, not once more for each text
    first, second = explained.json()
    assert (first["label"], first["against"], first["shares"][0]["feature"]) == (
        "very good",
        "bad",
        "lovely",
    )
    parts = (
        first["prior"]
        + first["absent"]
        + first["others"]
        + sum(share["nats"] for share in first["shares"])
    )
    assert first["log_odds"] == pytest.approx(parts)
    assert second["shares"] == []
    shown = seqloom("predict", place / "nb", "--explain", stdin="lovely lovely film\nnichts\n").out
    assert "very good rather than bad: +" in shown
    assert "lovely x2" in shown
    assert "no word of it is known" in shown


def test_one_class_only(seqloom, tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabel\none line\tonly")
    assert (
        "a.tsv has only one class, 'only'" in seqloom("fit", "naive-bayes", "a.tsv", "-o", "m").err
    )
    assert seqloom("predict", "m", stdin="anything\n").out == "only\tanything\n"
    assert "only one class" in seqloom("predict", "m", "--explain", stdin="anything\n").one_line()


@pytest.mark.parametrize("ending", ["png", "svg", "html"])
def test_pictures(seqloom, place, tmp_path, ending):
    start = {"png": b"\x89PNG", "svg": b"<svg", "html": b"<!doctype html>"}[ending]
    for args in (
        ["evaluate", place / "nb", place / "test.tsv"],
        ["evaluate", place / "tagger", place / "train.conll"],
        ["info", place / "tagger"],
        ["info", place / "hmm", "--text", "the cat sat 👍"],
    ):
        target = tmp_path / f"{args[0]}.{ending}"
        assert seqloom(*args, "--chart", target).code == 0
        assert target.read_bytes().lower().startswith(start.lower())
        target.unlink()


# ---- data in many forms, and its faults


@pytest.mark.parametrize(
    "change",
    [
        str,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: "\n" + text + "\n\n",
    ],
)
@pytest.mark.parametrize("source", ["file", "packed", "stdin"])
def test_odd_but_good_data(seqloom, tmp_path, change, source):
    for kind, suffix, good in (
        ("naive-bayes", ".tsv", "text\tlabel\n我们 去\t好\n👍🏽 bad day\t坏\n"),
        ("hmm-tagger", ".conll", "我们\tPRON\n去\tVERB\n\n👍🏽\tSYM\n"),
    ):
        data = change(good).encode()
        (tmp_path / f"a{suffix}").write_bytes(data)
        (tmp_path / f"a{suffix}.gz").write_bytes(gzip.compress(data))
        path = {"file": f"a{suffix}", "packed": f"a{suffix}.gz", "stdin": "-"}[source]
        fitted = seqloom("fit", kind, path, "-o", "m", "--json", stdin=data)
        assert fitted.json()[0].get("classes", fitted.json()[0].get("tags")) in (
            ["坏", "好"],
            ["PRON", "SYM", "VERB"],
        )
        assert seqloom("predict", "m", stdin="我们 👍🏽\n").code == 0


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.tsv", b"", "a.tsv has no labelled text"),
        (
            "a.tsv",
            b"text\tlabel\na b\tx\nc d\n",
            "a.tsv, line 3: 1 fields where the first row has 2",
        ),
        ("a.tsv", b"text\tlabel\na b\tx\nc d\t\n", "a.tsv, line 3: no label"),
        ("a.tsv", b"text\tlabel\nx\tcaf\xe9\n", "a.tsv is not UTF-8 text: line 2"),
        ("a.tsv", b"x\ty\tz\n1\t2\t3\n", "say which holds the text with --text-column"),
        ("a.csv", b'text,label\n"a b,x\nc,y\n', "a.csv, line 2: an opening quote is never closed"),
        (
            "a.jsonl",
            b'{"text": "a", "label": 1}\n{"text": "b"}\n',
            "a.jsonl, line 2: no label in column 'label'",
        ),
        ("a.jsonl", b'{"text": "a", "label": 1}\n{"text": \n', "a.jsonl, line 2"),
        ("a.txt", b"__label__x a\n__label__x __label__y b\n", "a.txt, line 2: several labels"),
        ("folder", {}, "no text file in the directory folder"),
        ("folder", {"pos": {}}, "no text file in the directory folder/pos"),
    ],
)
def test_bad_labelled_data(seqloom, tmp_path, name, content, says):
    bad_data(seqloom, tmp_path, "naive-bayes", name, content, says)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.conll", b"", "a.conll has no sentence"),
        ("a.conll", b"a D\nb\n", "a.conll, line 2: 1 column where line 1 has 2"),
        ("a.conll", b"a\tD\nb\t\n", "a.conll, line 2: no tag in column 2"),
        ("a.conll", b"caf\xe9 N\n", "a.conll is not UTF-8 text: line 1"),
        (
            "a.conllu",
            b"1\ta\ta\t_\t_\t_\t0\troot\t_\t_\n",
            "nothing in the column upos; say which with --tag-column",
        ),
        ("a.conllu", b"1\ta\ta\tX\n", "a.conllu, line 1: 4 columns where CoNLL-U has 10"),
        ("a.txt", b"the/D dog/N barks\n", "a.txt, line 1: 'barks' has no slash"),
        ("folder", {}, "no text file in the directory folder"),
    ],
)
def test_bad_tagged_data(seqloom, tmp_path, name, content, says):
    bad_data(seqloom, tmp_path, "hmm-tagger", name, content, says)


def bad_data(seqloom, tmp_path, kind, name, content, says):
    """One line that names file and line, for fit and for evaluate; nothing is written."""
    if isinstance(content, dict):
        for folder in ("", *content):
            (tmp_path / name / folder).mkdir()
    else:
        (tmp_path / name).write_bytes(content)
    failed = seqloom("fit", kind, name, "-o", "m", "-q")
    assert says in failed.one_line()
    assert failed.code == 1
    assert left(tmp_path) == [name]


def test_a_scheme_is_detected_declared_or_refused(seqloom, tmp_path):
    (tmp_path / "a.conll").write_text(NAMES)
    (tmp_path / "bad.conll").write_text(NAMES.replace("in O\nParis B-LOC", "in O\nParis I-LOC"))
    assert seqloom("fit", "hmm-tagger", "a.conll", "-o", "m", "--json").json()[0]["scheme"] == "bio"
    assert (
        seqloom("fit", "hmm-tagger", "a.conll", "-o", "m", "--scheme", "none", "--json").json()[0][
            "scheme"
        ]
        is None
    )
    warned = seqloom("fit", "hmm-tagger", "bad.conll", "-o", "m").err
    assert "bad.conll, line 7: I-LOC after O, where a span begins with B-LOC" in warned
    refused = seqloom("fit", "hmm-tagger", "a.conll", "-o", "m", "--scheme", "bioes").one_line()
    assert "a.conll, line 3: I-PER before O" in refused
    assert "--scheme bio" in refused


def test_plain_lines_are_read_with_a_remark(seqloom, tmp_path):
    """A text without labels can look like one: it is said what was taken for the label."""
    (tmp_path / "a.txt").write_text("good one two\nbad three\n")
    assert (
        "a.txt: the first word of each line is taken as its label"
        in seqloom("fit", "naive-bayes", "a.txt", "-o", "m").err
    )


# ---- taggers


def test_a_tagger_from_fit_to_evaluate(seqloom, place, tmp_path):
    (tmp_path / "a.conll").write_text(NAMES)
    said = seqloom(
        "fit", "hmm-tagger", "a.conll", "-o", "m", "--valid", "a.conll", "--json"
    ).json()[0]
    assert said["tags"] == ["B-LOC", "B-PER", "I-PER", "O"]
    result = seqloom("evaluate", "m", "a.conll", "--json").json()[0]
    assert result == said["valid"]
    assert (result["metrics"]["span_f1"], result["metrics"]["spans"]) == (1, 3)
    assert "spans (as conlleval counts them)" in seqloom("evaluate", "m", "a.conll").out


def test_predicted_tags_can_be_read_again_as_data(seqloom, place, tmp_path):
    tagged = seqloom("predict", place / "tagger", stdin="The cat sleeps\n\nA dog 我们\n")
    (tmp_path / "said.conll").write_text(tagged.out)
    found = seqloom(
        "predict", place / "tagger", "--json", stdin="The cat sleeps\n\nA dog 我们\n"
    ).json()
    tags = ["DET", "NOUN", "VERB"]
    assert found[0] == {"row": 1, "words": ["The", "cat", "sleeps"], "tags": tags}
    assert found[1] == {"row": 2, "words": [], "tags": []}
    again = read_tagged(tmp_path / "said.conll")
    assert again.sentences == [row["words"] for row in found if row["words"]]
    assert again.tags == [row["tags"] for row in found if row["tags"]]


def test_a_tag_never_seen(seqloom, place, tmp_path):
    (tmp_path / "a.conll").write_text("The DET\ncat XX\n")
    shown = seqloom("evaluate", place / "tagger", "a.conll")
    assert "tags that the model never saw: 'XX'; their words (1) count as wrong" in shown.out
    assert "1  XX -> NOUN" in shown.out


# ---- the hidden Markov language model


def test_an_hmm_from_fit_to_info(seqloom, place, tmp_path):
    said = seqloom(
        "fit",
        "hmm",
        place / "toy.txt",
        "-o",
        "m",
        "--states",
        3,
        "--iterations",
        4,
        "--valid",
        place / "toy.txt",
        "--json",
    ).json()[0]
    assert said["log_likelihoods"] == sorted(said["log_likelihoods"])
    assert said["valid"]["metrics"]["nats"] == pytest.approx(-said["log_likelihood"], rel=1e-6)
    assert left(tmp_path) == ["m"]  # the checkpoints are gone
    info = seqloom("info", "m")
    assert "state 2" in info.out
    words = seqloom("info", "m", "--json").json()[0]["states"]
    top = load("m").top_words(1)
    assert [words[f"state {i}"].split()[0] for i in range(3)] == [state[0][0] for state in top]
    assert len(seqloom("score", "m", place / "toy.txt", "--json").json()) == 7
    assert seqloom("generate", "m", "--seed", 1, "--max-tokens", 5).code == 0
    assert seqloom("info", "m", "--json").json()[0]["fit"]["bic"] == pytest.approx(said["bic"])


def test_info_shows_lists_and_control_characters_for_people(seqloom, tmp_path, place):
    assert "classes          bad, very good\n" in seqloom("info", place / "nb").out
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\r\n")
    seqloom(
        "fit",
        "hmm",
        "a.txt",
        "-o",
        "m",
        "--tokenizer",
        "char",
        "--states",
        1,
        "--iterations",
        20,
        "--tolerance",
        0,
    )
    shown = seqloom("info", "m").out
    assert "\\r " in shown
    assert "\r" not in shown
    assert max(map(len, shown.splitlines())) < 200
    assert seqloom("info", "m", "--chart", "m.svg").code == 0  # one state forgets at once: no curve


# ---- what does not belong together


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["predict", "hmm"], "predict is for a classifier, a tagger or an answerer; "),
        (
            ["score", "nb"],
            "score is for a language model, a translator or a masked language model; ",
        ),
        (
            ["score", "tagger"],
            "score is for a language model, a translator or a masked language model; ",
        ),
        (["generate", "nb"], "generate is for a language model; "),
        (["predict", "tagger", "--proba"], "--proba is for a classifier; "),
        (["predict", "nb", "--proba", "--explain"], "--proba has no effect with --explain;"),
        (
            ["evaluate", "tagger", "train.conll", "--text-column", "2"],
            "--text-column is for a classifier; tagger is a tagger",
        ),
        (
            ["evaluate", "nb", "test.tsv", "--scheme", "bio"],
            "--scheme is for a tagger; nb is a classifier",
        ),
        (["evaluate", "nb", "test.tsv", "--against", "nb"], "--against is for a language model; "),
        (
            ["evaluate", "hmm", "toy.txt", "--form", "tsv"],
            "--form is for a classifier, a tagger, a forecaster or a translator; hmm is a language model",
        ),
        (
            ["evaluate", "nb", "test.tsv", "--chart", "a.gif"],
            "a chart is written as .png, .svg or .html",
        ),
        (["info", "nb", "--chart", "a.png"], "only for hidden Markov models"),
        (["info", "tagger", "--chart", "a.png", "--text", "a"], "`seqloom predict` tags a text"),
        (["info", "hmm", "--text", "a"], "give --chart FILE too"),
        (
            ["fit", "naive-bayes", "train.tsv", "-o", "m", "--variant", "multinom"],
            "did you mean 'multinomial'?",
        ),
        (["fit", "naive-bayes", "train.tsv", "-o", "m", "--k", "0"], "k must be at least"),
        (
            ["fit", "naive-bayes", "train.tsv", "-o", "m", "--calibrate", "temperature"],
            "needs held-out texts; give valid",
        ),
        (
            ["fit", "naive-bayes", "train.tsv", "-o", "m", "--states", "2"],
            "No such option '--states'",
        ),
        (
            ["fit", "hmm-tagger", "train.conll", "-o", "m", "--order", "3"],
            "order must be at most 2",
        ),
        (["fit", "hmm", "toy.txt", "-o", "m", "--states", "0"], "states must be at least 1"),
    ],
)
def test_wrong_options(seqloom, place, monkeypatch, args, says):
    monkeypatch.chdir(place)
    before = left(place)
    failed = seqloom(*args, "-q") if args[0] == "fit" else seqloom(*args, stdin="a\n")
    assert says in failed.one_line()
    assert failed.code == 2
    assert left(place) == before


# ---- sudden ends


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "kill"])
def test_em_goes_on_to_the_bit_after_any_end(seqloom, place, tmp_path, monkeypatch, how):
    args = [
        "fit",
        "hmm",
        place / "toy.txt",
        "--states",
        3,
        "--iterations",
        8,
        "--restarts",
        3,
        "--tolerance",
        0,
        "-q",
        "-o",
    ]
    slow = SLOW.format(module="hidden.chain")
    ended_with_checkpoint(
        end(slow, [*args, "m"], how, tmp_path, lines=11), how
    )  # in the second restart
    assert left(tmp_path) == ["m.run"]
    other = seqloom(*[4 if arg == 3 else arg for arg in args], "m")
    assert "m.run holds an unfinished run with other settings" in other.one_line()

    steps, iterate = [], BaumWelch.iterate
    monkeypatch.setattr(
        BaumWelch, "iterate", lambda self: (steps.append(self.restart), iterate(self))[1]
    )
    assert seqloom(*args, "m").code == 0
    assert steps[0] == 1
    assert len(steps) < 18
    assert seqloom(*args, "whole").code == 0
    for name in ("model.safetensors", "config.json", "training.jsonl"):
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert left(tmp_path) == ["m", "whole"]


def test_a_place_that_is_no_model_is_left_alone(seqloom, place, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine\n")
    (tmp_path / "m.run").mkdir()
    (tmp_path / "m.run" / "notes.txt").write_text("mine\n")
    for kind, data, out in (
        ("naive-bayes", "train.tsv", "full"),
        ("hmm-tagger", "train.conll", "full"),
        ("hmm", "toy.txt", "full"),
        ("hmm", "toy.txt", "m"),
    ):
        failed = seqloom("fit", kind, place / data, "-o", out, "-q")
        assert "exists and is not a" in failed.one_line()
        assert failed.code == 1
    assert left(tmp_path) == ["full", "m.run"]


def test_series_of_numbers_from_file_to_prediction(tmp_path):
    rng = np.random.default_rng(0)
    lines = [
        f"{'ab'[i % 2]}\t" + "\t".join(f"{x:.3f}" for x in rng.normal(3 * (i % 2), 1, 6))
        for i in range(40)
    ]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "new.tsv").write_text("0\t0\t0\t0\t0\t0\n3\t3\t3\t3\t3\t3\n")
    runner = CliRunner()
    done = runner.invoke(
        main,
        [
            "fit",
            "classifier",
            str(tmp_path / "train.tsv"),
            "-o",
            str(tmp_path / "m"),
            "--encoder",
            "cnn",
            "--d-hidden",
            "8",
            "--steps",
            "60",
        ],
    )
    assert done.exit_code == 0, done.output
    done = runner.invoke(main, ["predict", str(tmp_path / "m"), str(tmp_path / "new.tsv")])
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["a", "b"]
    done = runner.invoke(
        main,
        [
            "compare",
            str(tmp_path / "train.tsv"),
            "--rungs",
            "majority,cnn",
            "--minutes",
            "0.01",
            "--work",
            str(tmp_path / "w"),
            "--json",
        ],
    )
    assert done.exit_code == 0, done.output
    assert [rung["name"] for rung in json.loads(done.stdout.splitlines()[-1])["rungs"]] == [
        "majority",
        "cnn",
    ]
    done = runner.invoke(main, ["predict", str(tmp_path / "m")], input="1\tx\n")
    assert str(done.exception) == "line 1: 'x' is not a number"
    given = "\t".join(["1"] * 30)
    done = runner.invoke(
        main, ["predict", str(tmp_path / "m"), "--json"], input=f"{given}\n\n{given}\n"
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["row"], row["label"] is None) for row in rows] == [
        (1, False),
        (2, True),
        (3, False),
    ]
    done = runner.invoke(main, ["predict", str(tmp_path / "m"), "--keep", "id"], input="1\t2\n")
    assert "has no column 'id'" in str(done.exception)


def test_labels_before_series_are_not_read_as_values(seqloom, tmp_path):
    """As `fit` and `evaluate` read the same file; a label that is a number is known by the length
    of the series.
    """
    rng = np.random.default_rng(0)
    rows = [(i % 2, " ".join(f"{x:.3f}" for x in rng.normal(3 * (i % 2), 1, 6))) for i in range(40)]
    (tmp_path / "bare.txt").write_text("".join(f"{row}\n" for _, row in rows))
    (tmp_path / "odd.txt").write_text(
        "".join(f"{9.5 if i else label} {row}\n" for i, (label, row) in enumerate(rows))
    )
    for name, classes in (("numbers", "01"), ("names", ("run", "walk"))):
        (tmp_path / f"{name}.txt").write_text(
            "".join(f"{classes[label]} {row}\n" for label, row in rows)
        )
        assert (
            seqloom(
                "fit",
                "classifier",
                f"{name}.txt",
                "-o",
                name,
                "--form",
                "numbers",
                "--encoder",
                "cnn",
                "--d-hidden",
                8,
                "--steps",
                40,
            ).code
            == 0
        )
        whole = seqloom("predict", name, f"{name}.txt", "--json")
        assert (
            whole.err.count("the first value of each line is taken as its label and left out") == 1
        )
        bare = seqloom("predict", name, "bare.txt", "--json")
        assert "label" not in bare.err
        assert [row["label"] for row in whole.json()] == [row["label"] for row in bare.json()]
    odd = seqloom("predict", "numbers", "odd.txt")
    assert (
        "line 1 has 7 values, one more than the series in training; if the first is a label, leave it out"
        in odd.err
    )
    assert odd.code == 0
