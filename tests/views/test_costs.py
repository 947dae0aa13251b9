"""One model on one text: `evaluate --chart` and `score --colour`, and the same from Python."""

import re

import pytest
from click.testing import CliRunner

from seqloom import NGram
from seqloom.cli.main import main
from seqloom.views import portrait, surprise

CODES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def places(shakespeare, tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    NGram(order=3, tokenizer="byte", unit="stream").fit(shakespeare[:20_000]).save(place / "byte")
    NGram(order=2).fit(shakespeare[:20_000]).save(place / "words")
    (place / "test.txt").write_text(shakespeare[20_000:30_000])
    return place


def run(*args, text=None):
    return CliRunner().invoke(main, list(map(str, args)), input=text)


@pytest.mark.parametrize("name", ["byte", "words"])
@pytest.mark.parametrize("kind", ["png", "svg", "html"])
def test_chart_of_an_evaluation(places, tmp_path, name, kind):
    done = run(
        "evaluate", places / name, places / "test.txt", "--chart", tmp_path / f"costs.{kind}", "-q"
    )
    assert done.exit_code == 0, done.output
    assert "perplexity" in done.output
    data = (tmp_path / f"costs.{kind}").read_bytes()
    assert data.startswith({"png": b"\x89PNG", "svg": b"<svg", "html": b"<!DOCTYPE html>"}[kind])
    if kind != "png":
        for title in (b"Bits along the text", b"What the tokens cost", b"Calibration"):
            assert title in data
    if kind == "html":
        assert (b"A passage" in data) == (
            name == "byte"
        )  # where words are lost there is no passage to show
        assert len(data) < 1_500_000


def test_a_wrong_name_is_refused_before_the_work(places):
    done = run("evaluate", places / "byte", places / "none.txt", "--chart", "costs.jpg")
    assert done.exit_code != 0
    assert ".png, .svg or .html" in str(done.exception)


def test_the_line_along_the_text_is_the_evaluation(places, shakespeare):
    import seqloom

    model, text = seqloom.load(places / "byte"), shakespeare[20_000:30_000]
    spec = portrait(model, text).charts["Bits along the text"].to_dict()
    rows = [row for rows in spec["datasets"].values() for row in rows]
    assert next(r["mean"] for r in rows if "mean" in r) == pytest.approx(
        model.bits_per_byte(text), rel=1e-6
    )
    assert len([r for r in rows if "cost" in r]) == 200


def test_a_model_that_finds_tokens_impossible_can_be_drawn(tmp_path):
    model = NGram(order=2, smoothing="maximum-likelihood").fit("a b c\na b d\n")
    portrait(model, "a b c\nd b a\n").save(tmp_path / "costs.svg")
    assert (tmp_path / "costs.svg").exists()


@pytest.mark.parametrize("flag", ["--colour", "--color"])
def test_colours_are_not_sent_into_a_pipe(places, flag, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    done = run("score", places / "byte", flag, text="to be\nor not\n")
    assert done.exit_code == 0
    assert done.output.splitlines()[1::2] == ["to be↵", "or not↵"]
    assert all(re.fullmatch("[0-5]+", line) for line in done.output.splitlines()[2::2])


@pytest.mark.parametrize("flag", ["--force-colour", "--force-color"])
def test_unless_forced(places, flag, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    done = run("score", places / "words", flag, text="to be\nor xyzzy\n")
    assert "\x1b[38;5;" in done.output
    assert CODES.sub("", done.output).splitlines()[1:] == ["to be↵", "or <unk>↵"]
    assert done.output.startswith("bits per token: ")


def test_colours_stand_alone(places):
    for other in ("--tokens", "--json"):
        done = run("score", places / "byte", "--colour", other, text="x\n")
        assert done.exit_code != 0
        assert "without --tokens and --json" in str(done.exception)


def test_from_python(places, monkeypatch):
    import seqloom

    monkeypatch.delenv("FORCE_COLOR", raising=False)
    shown = surprise(seqloom.load(places / "byte"), "to be")
    assert CODES.sub("", shown).endswith("\nto be")
    plain = surprise(seqloom.load(places / "words"), "to be or not", colour=False)
    assert (
        run("score", places / "words", "--colour", text="to be or not\n").output
        == plain.removesuffix("\n") + "\n"
    )
