"""fit, evaluate, forecast and anomalies of forecasters, from a table to a picture; compare and ab
on a series.
"""

import json

import numpy as np
import pytest

from seqloom import SeasonalNaive, load, read_series


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = tmp_path_factory.mktemp("series")
    rng = np.random.default_rng(0)
    rows = [
        f"2024-01-{1 + h // 24:02} "
        f"{h % 24:02}:00:00,{10 + 3 * np.sin(h / 24 * 2 * np.pi) + 0.3 * rng.normal():.3f}"
        for h in range(20 * 24)
    ]
    (made / "whole.csv").write_text("date,load\n" + "\n".join(rows) + "\n")
    (made / "train.csv").write_text("date,load\n" + "\n".join(rows[: 15 * 24]) + "\n")
    odd = rows.copy()
    odd[18 * 24] = f"{rows[18 * 24].split(',')[0]},99"
    (made / "odd.csv").write_text("date,load\n" + "\n".join(odd) + "\n")
    SeasonalNaive(horizon=12).fit(made / "train.csv").save(made / "model")
    return made


def test_from_fit_to_forecast(seqloom, place):
    said = seqloom(
        "fit", "linear-window", place / "train.csv", "-o", "m", "--horizon", 12, "--json"
    ).json()[0]
    assert (said["columns"], said["season"], said["window"], said["step"]) == (
        ["load"],
        24,
        60,
        [3600, "second"],
    )
    result = seqloom("evaluate", "m", place / "whole.csv", "--json").json()[0]
    assert result["metrics"]["forecasts"] == 5 * 24 - 12 + 1  # from the end of the training data on
    assert result["metrics"]["mse"] == load("m").evaluate(read_series(place / "whole.csv"))["mse"]
    shown = seqloom("evaluate", "m", place / "whole.csv", "--horizon", 3)
    assert "horizon     mse" in shown.out
    assert "forecasting from 2024-01-15 23:00:00 on, where the training data ended" in shown.err
    rows = seqloom("forecast", "m", place / "train.csv", "--horizon", 3, "--json").json()
    assert [row["time"] for row in rows] == [
        "2024-01-16",
        "2024-01-16 01:00:00",
        "2024-01-16 02:00:00",
    ]
    assert all(
        row["low_95"] <= row["low_80"] <= row["forecast"] <= row["high_80"] <= row["high_95"]
        for row in rows
    )
    table = seqloom(
        "forecast", "m", "-", "--horizon", 2, stdin=(place / "train.csv").read_text()
    ).out
    assert table.splitlines()[0].split() == [
        "time",
        "column",
        "forecast",
        "low_80",
        "high_80",
        "low_95",
        "high_95",
    ]
    assert seqloom("info", "m").code == 0


def test_a_forecast_from_the_middle_of_the_data(seqloom, place):
    whole = seqloom(
        "forecast", place / "model", place / "whole.csv", "--since", "2024-01-16", "--json"
    ).json()
    assert whole == seqloom("forecast", place / "model", place / "train.csv", "--json").json()


@pytest.mark.parametrize("command", ["forecast", "anomalies", "evaluate"])
def test_the_former_name_of_since(seqloom, place, command):
    """Still accepted, with one line about it; not in the help; refused beside the new one."""
    asked = (command, place / "model", place / "whole.csv", "--json")
    new, old = seqloom(*asked, "--since", "2024-01-17"), seqloom(*asked, "--start", "2024-01-17")
    assert (new.code, old.code) == (0, 0)
    assert new.out == old.out != seqloom(*asked).out
    assert old.err.replace(new.err, "").splitlines() == ["--start is now called --since"]
    both = seqloom(*asked, "--since", "2024-01-17", "--start", "2024-01-17").one_line()
    assert both == "--start is the former name of --since; give one of them"
    shown = seqloom(command, "--help").out
    assert "--since TIME" in shown
    assert "--start" not in shown


def test_the_former_name_of_since_in_compare(seqloom, place):
    asked = ("compare", place / "whole.csv", "--rungs", "naive", "--work", "work", "--json")
    new, old = seqloom(*asked, "--since", "2024-01-17"), seqloom(*asked, "--start", "2024-01-17")
    assert json.loads(new.out)["rungs"][0]["mse"] == json.loads(old.out)["rungs"][0]["mse"]
    assert "--start is now called --since" in old.err.splitlines()
    assert "--start" not in seqloom("compare", "--help").out


def test_since_is_for_forecasters(seqloom, tmp_path):
    from seqloom import NGram

    NGram(order=2).fit("a b a c\n").save(tmp_path / "ngram")
    (tmp_path / "text").write_text("a b\n")
    for flag in ("--since", "--start"):
        line = seqloom("evaluate", "ngram", "text", flag, "2024-01-01", "-q").one_line()
        assert "--since is for a forecaster; ngram is a language model" in line


def test_anomalies(seqloom, place):
    shown = seqloom("anomalies", place / "model", place / "odd.csv", "--rate", 0.01)
    assert "2024-01-19" in shown.out.splitlines()[1]
    assert "steps are above the threshold" in shown.out
    found = seqloom("anomalies", place / "model", place / "odd.csv", "--json").json()[0]
    assert found["anomalies"][0]["value"] == 99
    assert found["steps"] == 5 * 24
    first = seqloom("anomalies", place / "model", place / "odd.csv", "--rate", 0.5, "--top", 1)
    assert "2024-01-20" in first.out.splitlines()[1]  # when yesterday's 99 was expected
    assert first.out.splitlines()[2].endswith("; this is the one with the highest score")
    again = seqloom("anomalies", place / "model", place / "train.csv")
    assert "was fitted on" in again.err
    assert "The training data itself is looked at as a whole" in " ".join(
        seqloom("anomalies", "--help").out.split()
    )


def test_numbers_without_times(seqloom, place):
    """From a pipe, with the season that the frequency of the rows implies."""
    rows = [line.split(",")[1] for line in (place / "whole.csv").read_text().splitlines()[1:]]
    piped = "\n".join(rows) + "\n"
    asked = ("fit", "seasonal-naive", "-o", "m", "--horizon", 3, "--json")
    said = seqloom(*asked, "--frequency", "1h", stdin=piped).json()[0]
    assert (said["season"], said["step"], said["columns"]) == (24, [1, "row"], ["value"])
    ahead = seqloom("forecast", "m", "-", "--json", stdin=piped).json()
    assert [row["time"] for row in ahead] == ["480", "481", "482"]
    assert [row["forecast"] for row in ahead] == [float(row) for row in rows[-24:-21]]
    assert "rows are counted as steps" in seqloom(*asked, stdin=piped).err


def test_several_seasons(seqloom, place):
    said = seqloom(
        "fit",
        "naive",
        place / "whole.csv",
        "-o",
        "m",
        "--horizon",
        3,
        "--seasons",
        "24,168",
        "--json",
    ).json()[0]
    assert (said["season"], said["seasons"]) == (24, [24, 168])
    done = seqloom(
        "compare", place / "whole.csv", "--rungs", "naive", "--seasons", "24,168", "--work", "work"
    )
    assert done.code == 0


def test_pictures(seqloom, place, tmp_path):
    pytest.importorskip("vl_convert")
    for args in (
        ("forecast", "--since", "2024-01-18", "--chart", "f.svg"),
        ("anomalies", "--chart", "a.svg"),
        ("evaluate", "--chart", "e.svg"),
    ):
        assert seqloom(args[0], place / "model", place / "odd.csv", *args[1:]).code == 0
        assert "<svg" in (tmp_path / args[-1]).read_text()
    assert "forecast" in (tmp_path / "f.svg").read_text()
    wrong = seqloom("forecast", place / "model", place / "whole.csv", "--chart", "f.bmp").one_line()
    assert "a chart is written as .png, .svg or .html" in wrong


def test_several_series_with_what_is_known_in_advance(seqloom, tmp_path):
    text = "day,shop,sold,holiday\n" + "".join(
        f"2024-{1 + d // 28:02}-{1 + d % 28:02},{shop},"
        f"{'' if d >= 84 else 10 * (d % 7 == 6) + k},{d % 7 == 6:d}\n"
        for k, shop in enumerate(("a", "b"))
        for d in range(91)
    )
    (tmp_path / "s.csv").write_text(text)
    reading = ("--key-column", "shop", "--known-columns", "holiday")
    assert (
        seqloom(
            "fit", "linear-window", "s.csv", "-o", "m", "--horizon", 5, "--window", 7, *reading
        ).code
        == 0
    )
    rows = seqloom("forecast", "m", "s.csv", *reading, "--json").json()
    assert [(row["key"], row["column"]) for row in rows] == [("a", "sold")] * 5 + [
        ("b", "sold")
    ] * 5
    late = seqloom("forecast", "m", "s.csv", "--since", "2024-04-06", *reading, "-q").one_line()
    assert "ends at 2024-03-28, more than a step before 2024-04-06" in late
    (tmp_path / "short.csv").write_text(
        "".join(line + "\n" for line in text.splitlines() if ",," not in line)
    )
    assert (
        "holiday must be known 5 steps"
        in seqloom("forecast", "m", "short.csv", *reading, "-q").one_line()
    )


def test_the_key_column_is_remembered(seqloom, tmp_path):
    header, rows = (
        "day,shop,sold",
        [
            f"2024-{1 + d // 28:02}-{1 + d % 28:02},{shop},{10 * (d % 7 == 6) + shop + d % 3}"
            for shop in (1, 2)
            for d in range(84)
        ],
    )
    (tmp_path / "s.csv").write_text("\n".join([header, *rows]) + "\n")
    (tmp_path / "one.csv").write_text(
        "\n".join(row.replace(",1,", ",") for row in [header.replace(",shop", ""), *rows[:84]])
    )
    (tmp_path / "town.csv").write_text((tmp_path / "s.csv").read_text().replace("shop", "town"))
    assert (
        seqloom(
            "fit", "linear-window", "s.csv", "-o", "m", "--horizon", 5, "--key-column", "shop"
        ).code
        == 0
    )
    for command in (("forecast",), ("anomalies", "--rate", 0.1), ("evaluate",)):
        found = seqloom(*command, "m", "s.csv", "--json").json()
        assert found == seqloom(*command, "m", "s.csv", "--key-column", "shop", "--json").json()
        assert (
            seqloom(*command, "m", "one.csv").code == 0
        )  # a file of one series needs no such column
        assert found == seqloom(*command, "m", "town.csv", "--key-column", "town", "--json").json()
        assert "rows have the time of another row" in seqloom(*command, "m", "town.csv").one_line()
    model = load("m")
    assert model.key_column == "shop"
    assert [track.key for track in model.forecast(tmp_path / "s.csv").tracks] == ["1", "2"]
    cells = [row.split(",") for row in rows]
    frame = {
        "day": [c[0] for c in cells],
        "shop": [int(c[1]) for c in cells],
        "sold": [float(c[2]) for c in cells],
    }
    assert model.forecast(frame).rows() == model.forecast(tmp_path / "s.csv").rows()
    wrong = seqloom("forecast", "m", "s.csv", "--key-column", "shp").one_line()
    assert "no column 'shp'; did you mean 'shop'?" in wrong


def test_what_is_wrong_is_one_line(seqloom, place, tmp_path):
    (tmp_path / "bad.csv").write_text("date,load\n2024-01-01,1\n2024-01-02,x\n")
    for args, message in (
        (("forecast", place / "model", "bad.csv"), "line 3, column 'load': 'x' is not a number"),
        (
            ("forecast", place / "model", place / "whole.csv", "--horizon", 13),
            "horizon must be from 1 to 12",
        ),
        (("forecast", place / "model", "missing.csv"), "no such file"),
        (
            ("anomalies", place / "model", place / "whole.csv", "--since", "soon"),
            "'soon' is not a time",
        ),
        (
            ("fit", "naive", place / "train.csv", "-o", "m", "--horizon", 400),
            "too few to learn to forecast 400",
        ),
        (
            ("fit", "naive", place / "train.csv", "-o", "m", "--time-zone", "Mars"),
            "unknown time zone",
        ),
        (("predict", place / "model", place / "whole.csv"), "predict is for"),
    ):
        assert message in seqloom(*args).one_line()


def test_compare_and_ab(seqloom, place):
    done = seqloom(
        "compare",
        place / "whole.csv",
        "--rungs",
        "naive,seasonal-naive,linear",
        "--work",
        "work",
        "--json",
    )
    found = json.loads(done.out)
    assert "has a column of times ('date') beside numbers" in done.err
    values = {rung["name"]: rung["mse"] for rung in found["rungs"]}
    assert values["linear"] < values["seasonal-naive"] < values["naive"]
    done = seqloom(
        "compare",
        place / "whole.csv",
        "--horizon",
        6,
        "--season",
        12,
        "--since",
        "2024-01-17",
        "--save",
        "best",
        "--rungs",
        "naive,seasonal-naive",
        "--work",
        "work",
        "--json",
    ).json()[0]
    assert [rung["forecasts"] for rung in done["rungs"]] == [4 * 24 - 6 + 1] * 2
    assert done["rungs"][1]["mse"] > values["seasonal-naive"]  # half a day ago is no season
    assert load("best").horizon == 6
    wrong = seqloom("compare", place / "whole.csv", "--task", "text", "--horizon", 6).one_line()
    assert "--horizon is for a forecaster" in wrong
    shown = seqloom(
        "ab", place / "whole.csv", "--a", "naive", "--b", "seasonal-naive", "--folds", 2, "-q"
    )
    assert shown.out.splitlines()[-1].startswith("B is better: MSE -")
