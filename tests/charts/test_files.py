"""Pictures and pages as files: of the right kind, small, self-contained, whole."""

import re
import struct
import zlib

import altair as alt
import pytest
import vl_convert

from seqloom.charts import theme
from seqloom.charts.page import Page, Sheet
from seqloom.charts.theme import specification, version
from seqloom.errors import ConfigError, SeqloomError


def chart(n=3):
    values = [{"a": i, "b": i * i} for i in range(n)]
    return alt.Chart(alt.InlineData(values=values)).mark_point().encode(x="a:Q", y="b:Q")


def pixels(png):
    """Width, height and the bytes of the picture, decompressed."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    body, at, size = b"", 8, None
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        content = png[at + 8 : at + 8 + length]
        assert (
            zlib.crc32(kind + content)
            == struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0]
        )
        size = struct.unpack(">II", content[:8]) if kind == b"IHDR" else size
        body += content if kind == b"IDAT" else b""
        at += 12 + length
    return size, zlib.decompress(body)


def test_png_is_smaller_and_the_same_picture():
    fast = vl_convert.vegalite_to_png(specification(chart()), vl_version=version(), scale=1.5)
    small = theme.smaller_png(fast)
    assert pixels(small) == pixels(fast)
    assert len(small) < len(fast) / 2


def test_save_writes_what_the_ending_says(tmp_path):
    for kind in theme.KINDS:
        Sheet("picture", lambda page: {"picture": chart()}).save(tmp_path / f"picture.{kind}")
    (width, height), _ = pixels((tmp_path / "picture.png").read_bytes())
    assert width > 1.5 * theme.WIDTH
    assert height > 1.5 * theme.HEIGHT
    assert (tmp_path / "picture.svg").read_text().startswith("<svg")
    assert "<!DOCTYPE html>" in (tmp_path / "picture.html").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "picture.html",
        "picture.png",
        "picture.svg",
    ]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("picture.pgn", "did you mean 'png'"),
        ("picture", ".png, .svg or .html"),
        ("none/picture.png", "no directory"),
    ],
)
def test_bad_names_are_refused_before_the_work(tmp_path, name, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        theme.check_target(tmp_path / name)


def test_what_cannot_be_written_is_said(tmp_path):
    (tmp_path / "taken.png").mkdir()
    with pytest.raises(SeqloomError, match=r"taken\.png: cannot be written"):
        theme.write(tmp_path / "taken.png", b"x")
    assert [p.name for p in tmp_path.iterdir()] == ["taken.png"]


def test_too_many_rows_are_refused(monkeypatch):
    assert theme.MOST_ROWS == 5000
    monkeypatch.setattr(theme, "MOST_ROWS", 50)
    assert specification(chart(50))
    both = alt.vconcat(chart(3), alt.layer(chart(51), chart(2)))
    with pytest.raises(ValueError, match="51 rows: aggregate"):
        specification(both)


def test_a_page_loads_nothing_and_has_vega_once():
    page = Page("Two charts").chart(chart(), "first").text("a < b").chart(chart(), "second").html()
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=|<link|@import|url\(", markup)
    scripts = re.findall(r"<script([^>]*)>", page)
    assert not any("src" in attributes for attributes in scripts)
    assert page.count("window.vegaEmbed=") == 1
    assert len(page.encode()) < 1_200_000
    assert "a &lt; b" in page


def test_a_page_without_charts_has_no_scripts():
    assert "<script" not in Page("Words").text("only words").html()


def test_nothing_in_the_data_can_end_a_script_or_become_markup():
    evil = "</script><script>alert(1)</script><img src=x>"
    values = [{"a": evil, "b": 1}]
    page = Page(evil).chart(
        alt.Chart(alt.InlineData(values=values)).mark_bar().encode(x="a:N", y="b:Q"), evil
    )
    page.heading(evil).text(evil).table([evil], [[evil]]).folded(evil, evil).listing([evil])
    text = page.html()
    assert evil not in text
    assert "<img src=x" not in text
    assert text.count("</script>") == len(re.findall(r"^<script", text, re.MULTILINE)) == 3


def test_charts_of_a_page_take_the_width_of_the_window():
    fluid, fixed = specification(chart(), responsive=True), specification(chart())
    assert fluid["width"] == "container"
    assert fixed["width"] == theme.WIDTH
    assert fluid["config"]["axis"]["labelFontSize"] >= 12
