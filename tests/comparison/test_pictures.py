"""The report as people see it: every picture is there, the page is small, needs no network, and
trusts no text.
"""

import dataclasses
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from seqloom import Corpus, compare
from seqloom.charts.theme import specification
from seqloom.cli.main import main
from seqloom.comparison.curve import CurvePoint
from seqloom.comparison.language import LanguageLadder
from seqloom.comparison.pictures import details, drawn, pictures, shown_first
from seqloom.comparison.report import markdown, overtaking, report_page, write_report
from seqloom.comparison.result import Comparison, Skipped

RUNGS = ["uniform", "byte-1", "byte-4", "bpe-2", "byte-mixture"]
NAMES = ("ladder", "quality-time", "quality-size", "curve", "passage", "calibration", "overview")
EVIL = "</script><script>alert('&')</script>\n"


@pytest.fixture(scope="module")
def found(shakespeare, tmp_path_factory):
    lines = shakespeare[:30_000].splitlines(keepends=True)
    text = "".join(line + (EVIL if i % 10 == 0 else "") for i, line in enumerate(lines))
    work = tmp_path_factory.mktemp("work")
    return compare(Corpus.from_texts(text, "<b>piece</b>"), rungs=RUNGS, work=work, curve=True)


@pytest.fixture(scope="module")
def report(found, tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    write_report(found, place)
    return place


def test_everything_is_written(report):
    words = {"report.html", "report.md", "comparison.json"}
    assert {p.name for p in report.iterdir()} == words | {f"{n}.png" for n in NAMES}
    for name in NAMES:
        assert (report / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_is_small_and_loads_nothing(report):
    page = (report / "report.html").read_text()
    assert len(page.encode()) < 3_000_000
    assert page.count("window.vegaEmbed=") == 1
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=|<link|@import|url\(", markup)
    for heading in (
        "The ladder",
        "Quality against training time",
        "Quality against size",
        "Learning curve",
        "Which rung predicts what",
        "Calibration",
        "Samples",
        "Signatures",
    ):
        assert f"<h2>{heading}</h2>" in page
    assert len(re.findall("<div class=chart id=", page)) == len(json.loads(charts(page))) == 5


def charts(page):
    return re.search(r'<script type="application/json" id=charts>(.*?)</script>', page, re.DOTALL)[
        1
    ]


def test_no_text_becomes_markup(report):
    page = (report / "report.html").read_text()
    assert "<b>piece" not in page
    assert EVIL.strip() not in page
    assert len(re.findall("^<script", page, re.MULTILINE)) == 4  # passage, vega, data, drawing
    assert '["\\u003c",' in page  # it is there, as data


def test_the_page_has_the_numbers(report, found):
    page = (report / "report.html").read_text()
    for r in found.results:
        assert f"<td>{r.bits_per_byte:.3f}</td>" in page
        assert r.signature in page.replace("&#x27;", "'")
    assert f"Best: {found.best.name}" in page


def test_markdown_shows_the_pictures_and_the_curve(report, found):
    text = (report / "report.md").read_text()
    assert set(re.findall(r"!\[[a-z-]+\]\(([a-z-]+)\.png\)", text)) == set(NAMES) - {"overview"}
    assert f"| byte-4 | {found.curve['byte-4'][0].value:.3f} |" in text


def test_json_has_what_was_drawn(report, found):
    values = json.loads((report / "comparison.json").read_text())
    assert values["curve"]["byte-4"][-1]["bits_per_byte"] == values["rungs"][2]["bits_per_byte"]
    assert set(values["calibration"]) == {
        "byte-4",
        "bpe-2",
        "byte-mixture",
    }  # the best of each group
    assert (
        sum(b["hits"] for b in values["calibration"]["bpe-2"]["bins"])
        == values["calibration"]["bpe-2"]["positions"]
    )


def test_the_page_says_which_rung_overtakes(found):
    a, b = (
        [CurvePoint(10, 3.0, 0.0), CurvePoint(20, 2.9, 0.0)],
        [CurvePoint(10, 3.5, 0.0), CurvePoint(20, 2.0, 0.0)],
    )
    assert (
        overtaking(dataclasses.replace(found, curve={"a": a, "b": b}))
        == "Best: a from 10 bytes on, b from 20 bytes on."
    )
    assert (
        overtaking(dataclasses.replace(found, curve={"a": a})) == "a is the best with every amount."
    )


def test_groups_and_choices(found):
    groups = [found.ladder.group(r) for r in found.results]
    assert groups == ["calibration", "byte n-gram", "byte n-gram", "bpe n-gram", "mixture"]
    assert [r.name for r in drawn(found.results)] == RUNGS[1:]
    assert shown_first(found)[-1] == found.best.name
    assert len(shown_first(found)) == 2


def test_pictures_of_an_earlier_report_are_removed(report, found, tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.png").write_bytes(b"old")
    (tmp_path / "mine.png").write_bytes(b"kept")
    short = dataclasses.replace(found, curve={}, bench=None)
    write_report(short, tmp_path)
    assert not (tmp_path / "curve.png").exists()
    assert not (tmp_path / "passage.png").exists()
    assert (tmp_path / "mine.png").read_bytes() == b"kept"
    assert (tmp_path / "ladder.png").read_bytes().startswith(b"\x89PNG")
    assert "Learning curve" not in (tmp_path / "report.html").read_text()


def test_a_report_is_there_whole_or_not_at_all(found, tmp_path, monkeypatch):
    """Wherever it ends: while the last part is made, or while the last file is written."""
    monkeypatch.setattr("seqloom.charts.theme.png", lambda chart: b"drawn")
    short, place, write = (
        dataclasses.replace(found, curve={}, bench=None),
        tmp_path / "report",
        Path.write_bytes,
    )

    def killed(*_):
        raise KeyboardInterrupt

    def contents():
        return {p.name: p.read_bytes() for p in tmp_path.glob("**/*") if p.is_file()}

    for before in ({}, {"report.md": b"earlier", "curve.png": b"earlier"}):
        if before:
            place.mkdir()
        for name, data in before.items():
            (place / name).write_bytes(data)
        for target, broken in (
            ("seqloom.comparison.report.report_page", killed),
            (
                "pathlib.Path.write_bytes",
                lambda path, data: killed() if "report.html" in path.name else write(path, data),
            ),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(target, broken)
                with pytest.raises(KeyboardInterrupt):
                    write_report(short, place)
            assert contents() == before
            assert place.exists() == bool(before)
    write_report(short, place)
    assert contents().keys() == {
        "comparison.json",
        "report.md",
        "report.html",
        *(f"{name}.png" for name in NAMES),
    } - {"curve.png", "passage.png", "calibration.png"}


def test_nothing_trained_is_a_page_too(tmp_path):
    empty = Comparison(
        "x",
        "f" * 64,
        "split",
        {"train": 1, "valid": 1, "test": 1},
        0.5,
        LanguageLadder(),
        skipped=[Skipped("byte-1", "no time")],
    )
    assert pictures(empty, details(empty)) == {}
    assert "No rung was trained" in report_page(empty, details(empty)).html()
    assert "No rung was trained" in markdown(empty)
    write_report(empty, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"report.html", "report.md", "comparison.json"}


def test_only_the_ruler_can_be_drawn():
    one = compare("to be or not to be\n" * 200, rungs=["uniform"], curve=True)
    charts = pictures(one, details(one))
    assert "ladder" in charts
    assert "curve" not in charts
    assert all(specification(chart) for chart in charts.values())


def test_the_command(tmp_path, shakespeare):
    (tmp_path / "corpus.txt").write_text(shakespeare[:20_000])
    args = [
        "compare",
        str(tmp_path / "corpus.txt"),
        "--rungs",
        "byte-2,byte-3",
        "--no-samples",
        "-q",
    ]
    plain = CliRunner().invoke(main, args)
    assert plain.exit_code == 0
    assert "learning curve" not in plain.output
    curved = CliRunner().invoke(main, [*args, "--curve"])
    assert "learning curve" in curved.output
    shown = curved.output.partition("learning curve")[2].partition("\n\n")[0]
    assert len(shown.strip().splitlines()) == 4  # title, header, two rungs
    report = CliRunner().invoke(main, [*args, "--no-curve", "-o", str(tmp_path / "report")])
    assert "report.html\n\nThe best is " in report.output
    assert not (tmp_path / "report" / "curve.png").exists()
    assert (tmp_path / "report" / "report.html").stat().st_size < 3_000_000
