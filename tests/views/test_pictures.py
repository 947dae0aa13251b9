"""Every picture of the command line from Python: what is in it, and that both are the same to the byte."""

import json
import re

import click
import numpy as np
import pytest
from click.testing import CliRunner

import seqloom
from seqloom import inspect
from seqloom.charts import theme
from seqloom.charts.page import Sheet
from seqloom.charts.theme import specification
from seqloom.cli import plot as flags
from seqloom.cli.main import commands, main
from seqloom.comparison.pictures import HEADINGS
from seqloom.errors import ConfigError, NotFitted
from seqloom.models.word_vectors.debias import bias_direction, debias, report
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.views.catalogue import VIEWS
from seqloom.views.word_vectors import HINT
from tests.legible import lying_on_each_other, written
from tests.test_docs import ROOT, blocks

WORDS = [f"{name}{i}" for i in range(6) for name in ("he", "she", "king", "queen")]


@pytest.fixture(scope="module")
def place(tmp_path_factory, shakespeare):
    """Small models of every kind that is drawn, and what they are drawn on."""
    made = tmp_path_factory.mktemp("models")
    seqloom.HMM(states=3, iterations=4, min_count=1).fit(shakespeare[:4000]).save(made / "hmm")
    rows = "good\twarm film\nbad\tdull film\ngood\tfine film\nbad\tfine film\n" * 5
    (made / "test.tsv").write_text("label\ttext\n" + rows)
    seqloom.NaiveBayes().fit(seqloom.read_labelled(made / "test.tsv")).save(made / "nb")
    small = seqloom.NeuralClassifier(encoder="bag", pooling="attention", d_embed=4)
    small.fit(seqloom.read_labelled(made / "test.tsv"), train=seqloom.TrainConfig(steps=5)).save(
        made / "attention"
    )
    (made / "one.txt").write_text("a warm dull film\n")
    (made / "two.txt").write_text("a warm film\ndull\n")
    (made / "grouped.tsv").write_text(
        "label\ttext\tsite\n"
        + "".join(
            f"{row}\t{'web' if i % 3 else 'mail'}\n" for i, row in enumerate(rows.splitlines())
        )
    )
    (made / "test.conll").write_text("the D\ncat N\nsat V\n\na D\ndog N\nran V\n\n" * 4)
    seqloom.HMMTagger().fit(seqloom.read_tagged(made / "test.conll")).save(made / "tagger")
    seqloom.NGram(order=3, tokenizer="byte", unit="stream").fit(shakespeare[:8000]).save(
        made / "byte"
    )
    (made / "test.txt").write_text(shakespeare[8000:12_000])
    WordVectors.of(WORDS, np.random.default_rng(6).normal(size=(len(WORDS), 5))).save(made / "v")
    for name, factor in (("one", 1.0), ("two", 0.9)):
        (made / name).mkdir()
        (made / name / "log.jsonl").write_text(
            "".join(
                json.dumps(line) + "\n"
                for s in range(1, 6)
                for line in (
                    {
                        "step": s,
                        "tokens": 9 * s,
                        "loss": factor * (4 - s / 9),
                        "lr": 0.1,
                        "norm": 2.0,
                    },
                    {"step": s, "tokens": 9 * s, "valid": factor * (4 - s / 10)},
                )
            )
        )
    return made


def words_of(charts):
    """All that a reader can find in the charts."""
    return json.dumps([specification(chart) for chart in charts.values()], ensure_ascii=False)


def rows_of(chart):
    return [row for values in specification(chart).get("datasets", {}).values() for row in values]


def analogies():
    return [("he0", "king0"), ("she0", "queen0")]


def leaning(model):
    line = bias_direction(model, [("he0", "she0")])
    neutral = ["king1", "queen1", "king2"]
    return inspect.leaning(
        report(model, debias(model, neutral, [], line), direction=line, neutral=neutral)
    )


CASES = {  # the command, the call, headings of the charts, words in them
    "states of an hmm": (
        ["info", "hmm", "--text", "we are strong", "--chart"],
        lambda: inspect.states(seqloom.load("hmm"), "we are strong"),
        [
            "Belief about the state, token by token",
            "Moves between states",
            "Forgetting: distance of two beliefs that began apart",
        ],
        ['["we", "are", "strong", "</s>"]', "words read", "hmm3"],
    ),
    "an hmm on a text of its own": (
        ["info", "hmm", "--chart"],
        lambda: inspect.states(seqloom.load("hmm")),
        None,
        [],
    ),
    "tags": (
        ["info", "tagger", "--chart"],
        lambda: inspect.states(seqloom.load("tagger")),
        ["Which tag follows which"],
        ['"N"'],
    ),
    "costs": (
        ["evaluate", "byte", "test.txt", "--chart"],
        lambda: inspect.portrait(seqloom.load("byte"), seqloom.read("test.txt")),
        ["Bits along the text", "What the tokens cost", "Calibration"],
        ["ngram3", "probability that the model gave"],
    ),
    "errors of a classifier": (
        ["evaluate", "nb", "test.tsv", "--chart"],
        lambda: inspect.errors(seqloom.load("nb").evaluate(seqloom.read_labelled("test.tsv"))),
        ["Confusion", "Calibration"],
        ["good", "bad", "predicted", "how often it was right"],
    ),
    "errors of a tagger": (
        ["evaluate", "tagger", "test.conll", "--chart"],
        lambda: inspect.errors(seqloom.load("tagger").evaluate(seqloom.read_tagged("test.conll"))),
        ["Confusion"],
        ["predicted"],
    ),
    "slices and groups": (
        [
            "evaluate",
            "nb",
            "grouped.tsv",
            "--slice-by",
            "length",
            "--slice-by",
            "class",
            "--group-by",
            "site",
            "--chart",
        ],
        lambda: inspect.errors(
            seqloom.load("nb").evaluate(
                seqloom.read_labelled("grouped.tsv", columns=["site"]),
                slice_by=["length", "class"],
                group_by="site",
            )
        ),
        ["Confusion", "Calibration", "Slices", "Groups"],
        ["class: good", "length in characters: ", '"name": "mail"'],
    ),
    "robustness": (
        [
            "robustness",
            "nb",
            "test.tsv",
            "--perturb",
            "upper",
            "--perturb",
            "typos",
            "--typo-rate",
            "0.2",
            "-q",
            "--chart",
        ],
        lambda: inspect.robustness(
            seqloom.robustness(
                seqloom.load("nb"),
                seqloom.read_labelled("test.tsv"),
                perturb=["upper", "typos"],
                typo_rate=0.2,
            )
        ),
        ["Robustness"],
        ['"name": "upper"', "difference in accuracy to the data as it is"],
    ),
    "explanation": (
        ["predict", "nb", "one.txt", "--explain", "--chart"],
        lambda: inspect.explanation(seqloom.load("nb"), "a warm dull film"),
        ["Text", "Largest shares"],
        ['"token": "warm"', "for good", "for bad", "nats"],
    ),
    "explanation by a network": (
        ["predict", "attention", "one.txt", "--explain", "--chart"],
        lambda: inspect.explanation(seqloom.load("attention"), "a warm dull film"),
        ["Text", "Attention", "Largest shares"],
        ['"token": "</s>"', '"side": "attention"', "(prior)"],
    ),
    "explanations": (
        ["predict", "nb", "two.txt", "--explain", "--chart"],
        lambda: inspect.explanation(seqloom.load("nb"), ["a warm film", "dull"]),
        ["1. a warm film: good", "2. dull: bad"],
        [],
    ),
    "training": (
        ["plot", "one", "two", "--by", "tokens", "-o"],
        lambda: inspect.training_curves(["one", "two"], by="tokens"),
        ["Loss", "Learning rate", "Gradient norm"],
        ["tokens read", "two: 3.150 held out at 45 tokens", "nats per token"],
    ),
    "map": (
        ["plot", "v", "-o"],
        lambda: inspect.word_map(seqloom.load("v")),
        ["Word vectors"],
        ["queen5", "first principal"],
    ),
    "clusters": (
        ["plot", "v", "--top", "9", "--clusters", "2", "-s", "3", "-o"],
        lambda: inspect.word_map(seqloom.load("v"), top=9, clusters=2, seed=3),
        ["Word vectors"],
        ["he2"],
    ),
    "groups": (
        ["plot", "v", "--words", "a=he0,he1", "--words", "b=king3,she4", "-o"],
        lambda: inspect.word_map(seqloom.load("v"), {"a": ["he0", "he1"], "b": ["king3", "she4"]}),
        ["Word vectors"],
        ["king3", '"group": "b"'],
    ),
    "star": (
        ["plot", "v", "--near", "he1", "-n", "4", "--among", "20", "-o"],
        lambda: inspect.neighbours(seqloom.load("v"), "he1", 4, among=20),
        ["Word vectors"],
        ['"word": "he1"', "further"],
    ),
    "map of neighbours": (
        ["plot", "v", "--near", "he1", "--method", "pca", "-o"],
        lambda: inspect.neighbours(seqloom.load("v"), "he1", method="pca"),
        ["Word vectors"],
        ['"group": "near"'],
    ),
    "analogies": (
        ["plot", "v", "--analogy", "he0:king0,she0:queen0", "-o"],
        lambda: inspect.analogies(seqloom.load("v"), analogies()),
        ["Word vectors"],
        ["king0 - he0 + she0"],
    ),
    "leaning": (
        [
            "bias",
            "v",
            "--direction",
            "he0:she0",
            "--neutralise",
            "king1,queen1,king2",
            "--equalise",
            "none",
            "--chart",
        ],
        lambda: leaning(seqloom.load("v")),
        ["Leaning towards he0 and she0"],
        ["king2", "hollow: after"],
    ),
    "text": (
        ["data", "describe", "test.txt", "--kinds", "word", "--sizes", "100", "--chart"],
        lambda: inspect.description(_describe("test.txt")),
        None,
        ["word 100", "held-out"],
    ),
}


def _describe(path):
    from seqloom.data.describe import describe

    return describe(seqloom.read(path), kinds=("word",), sizes=(100,))


@pytest.mark.parametrize("name", CASES)
def test_the_command_and_the_call_draw_the_same(place, tmp_path, monkeypatch, name):
    monkeypatch.chdir(place)
    command, call, headings, words = CASES[name]
    sheet = call()
    assert isinstance(sheet, Sheet)
    assert headings is None or list(sheet.charts) == headings
    found = words_of(sheet.charts)
    for word in words:
        assert word in found.replace('\\"', '"'), word
    for kind in ("svg", "html"):
        done = CliRunner().invoke(main, [*command, str(tmp_path / f"command.{kind}"), "-q"])
        assert done.exit_code == 0, (done.output, done.exception)
        sheet.save(tmp_path / f"call.{kind}")
        first, second = ((tmp_path / f"{name}.{kind}").read_text() for name in ("call", "command"))
        assert re.sub(r"\bclip\d+", "clip", first) == re.sub(
            r"\bclip\d+", "clip", second
        )  # vl-convert goes on counting
    svg = (tmp_path / "call.svg").read_text()
    for text in (sheet.title, *sheet.summary, *sheet.charts):
        assert text in written(svg), text
    assert lying_on_each_other(svg) == []
    page = (tmp_path / "call.html").read_text()
    assert f"<h1>{sheet.title}</h1>" in page
    assert re.findall('aria-label="(.*?)"', page)[: len(sheet.charts)] == [
        heading if heading != sheet.title else ": ".join([heading, *sheet.summary])
        for heading in sheet.charts
    ]
    assert (HINT in page) == (sheet.title == "Word vectors")


def test_png_and_one_chart_of_several(place, tmp_path):
    sheet = inspect.states(seqloom.load(place / "hmm"), "the king")
    sheet.save(tmp_path / "all.png")
    one = sheet["Moves between states"]
    one.save(tmp_path / "one.png")
    one.save(tmp_path / "one.html")
    size = {
        name: np.frombuffer((tmp_path / f"{name}.png").read_bytes()[16:24], ">u4")
        for name in ("all", "one")
    }
    assert (size["all"] > size["one"]).all()
    assert (tmp_path / "one.html").read_text().count("class=chart id") == 1
    assert [row["text"] for row in rows_of(one.charts["Moves between states"])] == [
        row["text"] for row in rows_of(sheet.charts["Moves between states"])
    ]
    with pytest.raises(KeyError, match="did you mean 'Moves between states'"):
        sheet["Move between states"]
    with pytest.raises(ConfigError, match=re.escape(".png, .svg or .html")):
        sheet.save(tmp_path / "all.gif")


def test_numbers_are_those_of_the_model(place):
    model = seqloom.load(place / "hmm")
    data = inspect.states(model, "the king is").data
    assert data["tokens"] == model.beliefs("the king is")[0]
    np.testing.assert_array_equal(data["beliefs"], model.beliefs("the king is")[1])
    np.testing.assert_array_equal(data["transitions"], model.chain.transitions)
    assert len(data["forgetting"]) == 100
    tags = inspect.states(seqloom.load(place / "tagger")).data
    assert tags["states"] == seqloom.load(place / "tagger").tags
    np.testing.assert_allclose(tags["transitions"].sum(axis=1), 1)
    runs = inspect.training_curves(place / "one")
    assert runs.data[0]["best"] == {"steps": 5.0, "loss": 3.5}
    assert runs.summary == [f"{place / 'one'}: 5 steps, least held-out loss 3.5000 nats per token"]


def test_a_comparison_is_its_report(tmp_path, shakespeare):
    from seqloom.comparison.report import write_report

    found = seqloom.compare(
        shakespeare[:12_000], rungs=["byte-1", "byte-2"], work=tmp_path / "work"
    )
    write_report(found, tmp_path / "report")
    sheet = inspect.comparison(found)
    sheet.save(tmp_path / "report.html")
    sheet.save(tmp_path / "overview.png")
    sheet["ladder"].save(tmp_path / "ladder.png")
    for name in ("report.html", "overview.png", "ladder.png"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "report" / name).read_bytes()
    assert sheet.title in written(theme.svg(sheet.picture()))
    assert {"ladder", "quality-time", "passage", "calibration"} <= set(sheet.charts)
    for name in sheet.charts:
        svg = theme.svg(sheet.charts[name])
        assert HEADINGS[name] in written(svg)
        assert f"<h2>{HEADINGS[name]}</h2>" in (tmp_path / "report.html").read_text()
        assert lying_on_each_other(svg) == []
    assert {row["name"] for row in rows_of(sheet.charts["ladder"]) if "name" in row} == {
        "byte-1",
        "byte-2",
    }
    assert [
        f"{name}.png" for name in sheet.charts if not (tmp_path / "report" / f"{name}.png").exists()
    ] == []


def test_what_cannot_be_drawn_is_said(place):
    with pytest.raises(ConfigError, match="this model is ngram"):
        inspect.states(seqloom.load(place / "byte"))
    with pytest.raises(ConfigError, match="`seqloom predict` tags a text"):
        inspect.states(seqloom.load(place / "tagger"), "a text")
    with pytest.raises(NotFitted):
        inspect.states(seqloom.HMM())
    with pytest.raises(ConfigError, match="no confusion matrix"):
        inspect.errors(seqloom.load(place / "byte").evaluate("a text"))
    with pytest.raises(ConfigError, match="there is no view 'explanation' of ngram models"):
        inspect.explanation(seqloom.load(place / "byte"), "a text")
    with pytest.raises(ConfigError, match="1 to 20 texts; 21 are given"):
        inspect.explanation(seqloom.load(place / "nb"), ["a text"] * 21)
    with pytest.raises(ConfigError, match="words and top draw different maps"):
        inspect.word_map(seqloom.load(place / "v"), ["he0", "he1"], top=3)
    with pytest.raises(ConfigError, match="did you mean 'steps'"):
        inspect.training_curves(place / "one", by="step")
    with pytest.raises(ConfigError, match="no run given"):
        inspect.training_curves([])
    with pytest.raises(ConfigError, match="nothing to draw"):
        inspect.leaning(report(seqloom.load(place / "v")))
    with pytest.raises(AttributeError, match="no attribute 'word_maps'"):
        _ = inspect.word_maps


# ---- the table of the documentation


def options():
    """(command, flags, help) of every option of every command."""

    def walk(path, command):
        if isinstance(command, click.Group):
            context = click.Context(command, **main.context_settings)
            for name in command.list_commands(context):
                yield from walk(f"{path} {name}", command.get_command(context, name))
        else:
            for option in command.params:
                if isinstance(option, click.Option):
                    yield path, option.opts, option.help or ""

    for name in commands():
        yield from walk(
            f"seqloom {name}", main.get_command(click.Context(main, **main.context_settings), name)
        )


def by_name(command):
    """Whether a command is a view with the same name in Python."""
    group, _, name = command.rpartition(" ")
    return group == "seqloom inspect" and name.replace("-", "_") in inspect.__all__


def test_every_option_that_draws_has_its_call_in_the_documentation():
    page = ROOT / "docs" / "evaluation.md"
    section = (
        page.read_text(encoding="utf-8")
        .partition("\n## Pictures from Python")[2]
        .partition("\n## ")[0]
    )
    rows = [
        line.strip("| ").split(" | ")
        for line in section.splitlines()
        if line.startswith("| `seqloom ")
    ]
    plain = {"--json", "--quiet", "--debug", "--verbose"}
    drawing = [
        (command, its)
        for command, its, about in options()
        if not plain & set(its)
        and not by_name(command)
        and (command == "seqloom plot" or re.search(r"\.png|\.svg|\.html|coloured by", about))
    ]
    known = {
        ("seqloom info", "--chart"),
        ("seqloom plot", "--output"),
        ("seqloom compare", "--output"),
        ("seqloom evaluate", "--chart"),
        ("seqloom data describe", "--chart"),
        ("seqloom score", "--colour"),
        ("seqloom bias", "--chart"),
        *(("seqloom plot", flag) for flag in flags.WHAT.values()),
    }
    assert known <= {(command, flag) for command, its in drawing for flag in its}
    for command, its in drawing:
        named = "|".join(map(re.escape, its))
        assert any(re.match(rf"`{command} .*({named})\b", row[0]) for row in rows), (
            f"{command} {its[-1]} is not in the table"
        )
    run = "\n".join(blocks(page, "python"))
    for _, call in rows:
        assert call.strip("`") in run, call
    named = {name for _, call in rows for name in re.findall(r"inspect\.(\w+)", call)}
    views = {name.replace("-", "_") for name in VIEWS}
    assert named - views == set(inspect.__all__) - views
