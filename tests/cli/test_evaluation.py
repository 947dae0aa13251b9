"""evaluate with slices, groups, words and latency, and robustness, from the command line."""

import json
import random

import pytest

import seqloom as library
from seqloom.data.classification_forms import Choice


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = tmp_path_factory.mktemp("evaluation")
    draw = random.Random(0)
    rows = [
        (draw.choice("pn"), draw.choice(["web", "mail"]), draw.choice(["f", "m"]))
        for _ in range(80)
    ]
    lines = [
        (
            " ".join(
                draw.choice(("good" if label == "p" else "bad", "the", "film"))
                for _ in range(draw.randint(2, 8))
            ),
            label,
            source,
            group,
        )
        for label, source, group in rows
    ]
    (made / "test.tsv").write_text(
        "text\tlabel\tsource\tthe group\n" + "".join("\t".join(line) + "\n" for line in lines)
    )
    (made / "test.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "text": text,
                    "label": label,
                    "source": source,
                    "meta": {"new": group == "f"},
                    "tags": [1],
                }
            )
            + "\n"
            for text, label, source, group in lines
        )
    )
    library.NaiveBayes().fit(made / "test.tsv").save(made / "nb")
    (made / "test.conll").write_text("the D\ncat N\nsat V\n\na D\ndog N\n\n" * 4)
    library.HMMTagger().fit(made / "test.conll").save(made / "tagger")
    return made


def test_slices_and_groups(seqloom, place):
    asked = [
        "evaluate",
        place / "nb",
        place / "test.tsv",
        "--slice-by",
        "source",
        "--slice-by",
        "length",
        "--group-by",
        "the group",
        "--error-words",
        3,
    ]
    result = seqloom(*asked, "--json").json()[0]
    data = library.read_labelled(place / "test.tsv", columns=["source", "the group"])
    same = library.load(place / "nb").evaluate(
        data, slice_by=["source", "length"], group_by="the group", error_words=3
    )
    assert result == json.loads(json.dumps(same.to_dict()))
    shown = seqloom(*asked).out
    assert "slices, the worst first" in shown
    assert "source: web" in shown
    assert "groups by the group" in shown
    assert "gaps between groups (largest rate less smallest)" in shown
    assert "demographic_parity_gap" in shown
    first, second = (seqloom(*asked[:3], "--slice-by", name).out for name in ("source", "length"))
    assert "source: web" in first
    assert "source: web" not in second


def test_columns_of_other_files(seqloom, place):
    rows = seqloom(
        "evaluate", place / "nb", place / "test.jsonl", "--slice-by", "meta.new", "--json"
    ).json()[0]
    assert {row["slice"] for row in rows["details"]["slices"]} == {"true", "false"}
    by_number = seqloom(
        "evaluate",
        place / "nb",
        "-",
        "--form",
        "tsv",
        "--slice-by",
        "3",
        "--text-column",
        "1",
        "--label-column",
        "2",
        "--json",
        stdin="good\tp\tx\nbad\tn\ty\n",
    ).json()[0]
    assert {row["slice"] for row in by_number["details"]["slices"]} == {"x", "y"}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            ["test.tsv", "--slice-by", "sauce"],
            "test.tsv has no column 'sauce'; did you mean 'source'?",
        ),
        (["test.tsv", "--group-by", "gender"], "test.tsv has no column 'gender'"),
        (
            ["test.jsonl", "--slice-by", "tags"],
            "test.jsonl, line 1, column 'tags': a list, not a single value",
        ),
        (
            ["test.ft", "--slice-by", "source"],
            "of the form fasttext and has no columns; leave out the further column 'source'",
        ),
        (["folders", "--group-by", "source"], "holds folders per class and has no columns"),
    ],
)
def test_columns_that_are_not_there(seqloom, place, args, says):
    (place / "test.ft").write_text("__label__p good\n")
    (place / "folders" / "p").mkdir(parents=True, exist_ok=True)
    (place / "folders" / "p" / "1.txt").write_text("good")
    assert says in seqloom("evaluate", place / "nb", place / args[0], *args[1:]).one_line()


def test_taggers(seqloom, place):
    asked = ["evaluate", place / "tagger", place / "test.conll"]
    result = seqloom(
        *asked, "--slice-by", "class", "--slice-by", "length", "--latency", "--json"
    ).json()[0]
    assert {row["by"] for row in result["details"]["slices"]} == {"tag", "length in words"}
    assert result["metrics"]["latency_p50_ms"] > 0
    assert "there is no such column" in seqloom(*asked, "--slice-by", "genre", "-q").one_line()
    assert "--group-by is for a classifier" in seqloom(*asked, "--group-by", "x").one_line()


def test_robustness(seqloom, place, tmp_path):
    asked = ["robustness", place / "nb", place / "test.tsv"]
    rows = seqloom(*asked, "--json").json()[0]["details"]["robustness"]
    assert [row["perturbation"] for row in rows] == [
        "typos",
        "lower",
        "upper",
        "truncated",
        "lengthened",
        "shuffled",
    ]
    chosen = seqloom(
        *asked,
        "--perturb",
        "typos",
        "--perturb",
        "upper",
        "--typo-rate",
        0.3,
        "--seed",
        4,
        "--json",
    ).json()[0]
    same = library.robustness(
        library.load(place / "nb"),
        library.read_labelled(place / "test.tsv"),
        perturb=["typos", "upper"],
        typo_rate=0.3,
        seed=4,
    )
    assert chosen == json.loads(json.dumps(same.to_dict()))
    assert "answers changed" in seqloom(*asked).out
    tagger = seqloom(
        "robustness", place / "tagger", place / "test.conll", "--chart", tmp_path / "a.svg"
    )
    assert tagger.code == 0
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    assert "is not one of typos, lower" in seqloom(*asked, "--perturb", "noise").one_line()
    assert (
        "--typo-rate has no effect without typos"
        in seqloom(*asked, "--perturb", "upper", "--typo-rate", 0.3).one_line()
    )
    assert (
        "robustness is for a classifier or a tagger"
        in seqloom("robustness", _language(tmp_path), "x").one_line()
    )


def _language(place):
    library.NGram(order=1).fit("a b\n").save(place / "lm")
    return place / "lm"


def test_what_a_choice_names():
    assert Choice().named() == {}
    assert Choice(None, "y", None, ("z",)).named() == {"label": "y", "further": "z"}
