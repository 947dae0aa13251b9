"""Pairs of texts from the command line: tables in every form, files and standard input, and what is
refused in one line.
"""

import json

import pytest

from tests.models.test_composition import make_encoder

pytest.importorskip("torch")

ROWS = [
    ("the cat sat", "the cat", "yes"),
    ("the log", "a cat", "no"),
    ("the cat on a log", "cat", "yes"),
    ("a, log", "", "no"),
]
NAMES = ("premise", "hypothesis", "label")
COLUMNS = ("--text-column", "premise", "--pair-column", "hypothesis")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = tmp_path_factory.mktemp("pairs")
    make_encoder(made / "encoder")
    (made / "data.tsv").write_text("".join("\t".join(row) + "\n" for row in [NAMES, *ROWS]))
    (made / "data.csv").write_text(
        "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in [NAMES, *ROWS])
    )
    (made / "data.jsonl").write_text(
        "".join(json.dumps(dict(zip(NAMES, row))) + "\n" for row in ROWS)
    )
    return made


@pytest.fixture
def fitted(seqloom, place):
    assert (
        seqloom(
            "fit",
            "classifier",
            place / "data.tsv",
            "-o",
            "m",
            "--encoder",
            place / "encoder",
            "--frozen",
            "--steps",
            2,
            *COLUMNS,
        ).code
        == 0
    )
    return "m"


def test_fit_evaluate_and_predict_in_every_form(seqloom, place, fitted):
    shown = seqloom(
        "fit",
        "classifier",
        place / "data.jsonl",
        "-o",
        "again",
        "--encoder",
        place / "encoder",
        "--frozen",
        "--steps",
        2,
        *COLUMNS,
        "--valid",
        place / "data.csv",
    )
    assert "4 pairs, 2 classes" in shown.out
    assert "1 of 8 texts is empty" in shown.err
    results = [
        seqloom("evaluate", model, place / f"data.{form}", *COLUMNS, "--json").json()[0]["metrics"]
        for model in (fitted, "again")
        for form in ("tsv", "csv", "jsonl")
    ]
    assert all(result == results[0] for result in results)
    answers = [
        seqloom("predict", fitted, place / f"data.{form}", *COLUMNS, "--json").json()
        for form in ("tsv", "csv", "jsonl")
    ]
    assert answers[0] == answers[1] == answers[2]
    assert [(row["text"], row["pair"]) for row in answers[0]] == [row[:2] for row in ROWS]
    plain = seqloom("predict", fitted, place / "data.csv", *COLUMNS).out.splitlines()
    assert [tuple(line.split("\t")[1:]) for line in plain] == [row[:2] for row in ROWS]


def test_standard_input(seqloom, place, fitted):
    wanted = seqloom("predict", fitted, place / "data.tsv", *COLUMNS, "--json").json()
    for form in ("tsv", "jsonl"):
        assert (
            seqloom(
                "predict",
                fitted,
                "-",
                *COLUMNS,
                "--json",
                stdin=(place / f"data.{form}").read_text(),
            ).json()
            == wanted
        )
    lines = "".join(f"{a}\t{b}\n" for a, b, _ in ROWS)
    assert seqloom("predict", fitted, "--json", stdin=lines).json() == wanted
    head, *rows = seqloom("predict", fitted, "--proba", stdin=lines).out.splitlines()
    assert head.split("\t") == ["label", "no", "yes", "text", "pair"]
    assert [row.split("\t")[3:] for row in rows] == [list(row[:2]) for row in ROWS]
    explained = seqloom("predict", fitted, "--explain", "--chart", "why.html", stdin=lines)
    assert "the cat sat | the cat" in explained.out
    assert (
        seqloom("predict", fitted, "--explain", "--json", stdin=lines).json()[0]["pair"]
        == "the cat"
    )


def test_what_predict_says_can_be_read_again_as_data(seqloom, place, fitted, tmp_path):
    (tmp_path / "said.jsonl").write_text(
        seqloom("predict", fitted, place / "data.tsv", *COLUMNS, "--json").out
    )
    assert (
        seqloom("evaluate", fitted, "said.jsonl", "--pair-column", "pair", "--json").json()[0][
            "metrics"
        ]["accuracy"]
        == 1
    )


def test_columns_by_number_and_what_is_left_to_be_found(seqloom, place, tmp_path):
    (tmp_path / "bare.tsv").write_text("".join("\t".join(row) + "\n" for row in ROWS))
    on = ("--encoder", place / "encoder", "--frozen", "--steps", 1)
    assert (
        seqloom(
            "fit",
            "classifier",
            "bare.tsv",
            "-o",
            "a",
            *on,
            "--text-column",
            1,
            "--pair-column",
            2,
            "--label-column",
            3,
        ).code
        == 0
    )
    assert (
        seqloom(
            "fit", "classifier", place / "data.tsv", "-o", "b", *on, "--pair-column", "hypothesis"
        ).code
        == 0
    )
    rows = [
        seqloom("predict", model, place / "data.jsonl", *COLUMNS, "--proba", "--json").json()
        for model in "ab"
    ]
    assert rows[0] == rows[1]
    both = ("--both", f"encoder={place / 'encoder'}", "--both", "steps=1", "--folds", 2)
    assert (
        seqloom(
            "ab",
            place / "data.tsv",
            "--model",
            "classifier",
            "--a",
            "frozen=true",
            "--b",
            "frozen=false",
            *both,
            *COLUMNS,
        ).code
        == 0
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("predict", "m", "{data}"),
            "say which holds the pair with --text-column and --pair-column",
        ),
        (
            ("predict", "m", "{data}", "--pair-column", "hypothesis"),
            "say which holds the first text with --text-column",
        ),
        (
            ("predict", "m", "{data}", "--text-column", "premise"),
            "say which holds the second text with --pair-column",
        ),
        (
            ("predict", "m", "{data}", "--text-column", "premise", "--pair-column", "premise"),
            "cannot be both texts of a pair",
        ),
        (
            ("predict", "m", "{data}", "--text-column", "premise", "--pair-column", "hypo"),
            "did you mean 'hypothesis'",
        ),
        (
            ("predict", "m", "{data}", "--column", "premise"),
            "--column is for models that read single texts",
        ),
        (
            ("predict", "nb", "{data}", *COLUMNS),
            "--pair-column is for models that read pairs of texts",
        ),
        (
            ("evaluate", "m", "{data}", "--text-column", "premise"),
            "reads pairs of texts, but example 1 is no pair",
        ),
        (("evaluate", "nb", "{data}", *COLUMNS), "reads single texts, but example 1 is a pair"),
        (
            ("fit", "naive-bayes", "{data}", "-o", "x", *COLUMNS),
            "naive-bayes models read single texts",
        ),
        (("fit", "classifier", "{data}", "-o", "x", *COLUMNS), "encoder bilstm reads single texts"),
        (
            ("fit", "classifier", "{data}", "-o", "x", *COLUMNS, "--label-column", "hypothesis"),
            "cannot be text and label",
        ),
        (
            (
                "fit",
                "classifier",
                "{data}",
                "-o",
                "x",
                "--text-column",
                "premise",
                "--pair-column",
                "premise",
            ),
            "both texts of a pair",
        ),
        (
            ("fit", "classifier", "lines.txt", "-o", "x", "--form", "lines", "--pair-column", "b"),
            "leave out the pair column 'b'",
        ),
        (
            ("robustness", "m", "{data}", *COLUMNS),
            "pairs of texts; robustness perturbs single texts",
        ),
    ],
    ids=str,
)
def test_refusals_are_one_line(arguments, message, seqloom, place, fitted, tmp_path):
    (tmp_path / "lines.txt").write_text("yes a cat\nno a log\n")
    assert (
        seqloom(
            "fit", "naive-bayes", place / "data.tsv", "-o", "nb", "--text-column", "premise"
        ).code
        == 0
    )
    assert (
        message
        in seqloom(
            *(str(one).format(data=place / "data.tsv") for one in arguments), "-q"
        ).one_line()
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('{"premise": "a"}\n', "no column 'hypothesis'"),
        ('{"premise": "a", "hypothesis": 3}\n', "a number, not text"),
        ("premise\nonly\n", "no column 'hypothesis'"),
        ("premise\thypothesis\na\tb\nc\n", "line 3: 1 fields where the first row has 2"),
    ],
    ids=str,
)
def test_rows_without_a_second_text(given, message, seqloom, fitted):
    null = '{"premise": "a", "hypothesis": null}\n'
    (answer,) = seqloom("predict", fitted, *COLUMNS, "--json", stdin=null).json()
    assert answer == {"row": 1, "label": None, "text": "a", "pair": None}
    assert message in seqloom("predict", fitted, *COLUMNS, "-q", stdin=given).one_line()
    assert (
        "has one column; this model reads pairs"
        in seqloom("predict", fitted, "-q", stdin="no tab\n").one_line()
    )
