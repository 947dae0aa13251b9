"""Series from files and from memory, and every odd thing about times: each is settled and said, or
refused in one line.
"""

import gzip
import json
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest

from seqloom import SeasonalNaive, Series, read_series
from seqloom.data.forecasting import as_series
from seqloom.data.recognise import times_in
from seqloom.data.times import Clock, Step, infer_step, read_times
from seqloom.errors import ConfigError, DataError


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr("seqloom.progress.say", lines.append)
    return lines


def table(tmp_path, text, name="a.csv"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


HOURS = "date,load,temp\n2024-01-01 00:00:00,1,5\n2024-01-01 01:00:00,2,\n2024-01-01 02:00:00,3,7\n"


def test_a_table_with_a_time_column(tmp_path, said):
    series = read_series(table(tmp_path, HOURS))
    assert (series.columns, str(series.step), len(series), said) == (
        ("load", "temp"),
        "1 hour",
        3,
        [],
    )
    (track,) = series.tracks
    np.testing.assert_array_equal(track.values, [[1, 5], [2, np.nan], [3, 7]])
    assert series.times(track).tolist() == [1704067200, 1704070800, 1704074400]
    assert read_series(table(tmp_path, HOURS), value_columns=["temp"]).columns == ("temp",)


@pytest.mark.parametrize("encoding", ["latin-11", "hex", "漢字"])
def test_an_unknown_encoding_is_refused(tmp_path, encoding):
    with pytest.raises(DataError, match=f"unknown encoding '{encoding}'"):
        read_series(table(tmp_path, HOURS), encoding=encoding)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", HOURS.replace(",", "\t")),
        ("semi.csv", HOURS.replace(",", ";")),
        (
            "a.jsonl",
            "".join(
                json.dumps(
                    {"date": f"2024-01-01T{h:02}:00:00Z", "load": h + 1, "temp": [5, None, 7][h]}
                )
                + "\n"
                for h in range(3)
            ),
        ),
    ],
)
def test_other_forms_hold_the_same(tmp_path, name, text):
    first, second = read_series(table(tmp_path, HOURS)), read_series(table(tmp_path, text, name))
    assert first.fingerprint == second.fingerprint


def test_parquet_and_frames(tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {
            "date": [datetime(2024, 1, 1, h) for h in range(3)],
            "load": [1, 2, 3],
            "temp": [5.0, None, 7.0],
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    wanted = read_series(table(tmp_path, HOURS)).fingerprint
    assert read_series(tmp_path / "a.parquet").fingerprint == wanted
    assert as_series(frame).fingerprint == wanted
    assert Series.of({name: frame[name].to_list() for name in frame.columns}).fingerprint == wanted
    assert Series.of(frame.drop("date"), frame["date"]).fingerprint == wanted


def test_times_in_the_index_of_a_frame_or_a_column():
    pandas = pytest.importorskip("pandas")
    times = pandas.date_range("2024-03-30 22:00", periods=6, freq="h", tz="Europe/Berlin")
    frame = pandas.DataFrame({"load": range(6)}, index=times)
    wanted = Series.of({"time": times.to_list(), "load": list(range(6))})
    for given in (frame, frame["load"], frame.rename_axis("when")):
        assert as_series(given).fingerprint == wanted.fingerprint
    assert Series.of(frame["load"].rename(None)).columns == ("value",)
    dated = frame.assign(
        date=times + pandas.Timedelta("1D")
    )  # a column that is called so comes first
    assert as_series(dated).tracks[0].first == wanted.tracks[0].first + 24 * 3600
    assert Series.of(frame.reset_index(drop=True)).clock.rows


@pytest.mark.parametrize("shape", [(0,), (0, 3), (1, 0), (3, 0)])
def test_an_array_without_values(shape):
    for data in (np.empty(shape), np.empty(shape).tolist()):
        with pytest.raises(DataError, match=r"^series has no values; give some$"):
            Series.of(data)


def test_packed_files_and_standard_columns(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(HOURS.encode()))
    assert (
        read_series(tmp_path / "a.csv.gz").fingerprint
        == read_series(table(tmp_path, HOURS)).fingerprint
    )


def test_numbers_without_times():
    series = Series.of([1, None, 3.5])
    assert (series.columns, str(series.step), series.clock.rows) == (("value",), "1 row", True)
    wide = Series.of(np.arange(6).reshape(3, 2), columns=["a", "b"])
    assert wide.tracks[0].values.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert Series.of({"x": [1, 2], "y": [3, 4]}).columns == ("x", "y")


@pytest.mark.parametrize(
    ("name", "text", "column"),
    [
        ("s.csv", "1.5\n2.5\n3.5\n", "value"),
        ("s.txt", "1.5\n2.5\n3.5\n", "value"),
        ("s.csv", "load\n1.5\n2.5\n3.5\n", "load"),
        ("s.txt", "load\r\n1.5\r\n2.5\r\n3.5\r\n", "load"),
        ("s.csv", ",load\n0,1.5\n1,2.5\n2,3.5\n", "load"),
        ("s.csv", "index,load\n0,1.5\n1,2.5\n2,3.5\n", "load"),
        ("s.csv", "i,load\n0,1.5\n1,2.5\n2,3.5\n", "load"),
        ("s.csv", "0,1.5\n1,2.5\n2,3.5\n", "value"),
        ("s.tsv", "load\tStep\n1.5\t0\n2.5\t1\n3.5\t2\n", "load"),
        ("s.jsonl", '{"load": 1.5}\n{"load": 2.5}\n{"load": 3.5}\n', "load"),
    ],
)
def test_tables_without_times(tmp_path, name, text, column):
    """They are read as the same numbers in Python are."""
    (tmp_path / name).write_text(text)
    read, made = read_series(tmp_path / name), Series.of([1.5, 2.5, 3.5])
    assert (read.columns, read.step, read.clock) == ((column,), made.step, made.clock)
    np.testing.assert_array_equal(read.tracks[0].values, made.tracks[0].values)
    assert read.tracks[0].first == 0
    assert bool(times_in(tmp_path / name)) == (name != "s.txt")


def test_rows_are_counted_where_nothing_says_their_times(tmp_path, said):
    path = tmp_path / "s.txt"
    path.write_text("1\n2\n\n4\n\n")  # an empty line is a missing value, at the end it is none
    series = read_series(path)
    np.testing.assert_array_equal(series.tracks[0].values[:, 0], [1, 2, np.nan, 4])
    assert "s.txt has no column of times, so its rows are counted as steps" in said[0]
    (tmp_path / "k.csv").write_text("shop,sold\na,1\nb,5\na,2\nb,6\na,3\n")
    keyed = read_series(tmp_path / "k.csv", key_column="shop")
    assert [track.values[:, 0].tolist() for track in keyed.tracks] == [[1, 2, 3], [5, 6]]
    assert (keyed.step.count, [track.first for track in keyed.tracks]) == (1, [0, 0])
    (tmp_path / "gap.csv").write_text("t,v\n5,1\n6,2\n8,4\n")
    assert read_series(tmp_path / "gap.csv").tracks[0].first == 5
    assert len(read_series(tmp_path / "gap.csv")) == 4


def test_the_frequency_of_rows(tmp_path, said):
    path = tmp_path / "s.txt"
    path.write_text("".join(f"{k % 24}\n" for k in range(96)))
    hourly = read_series(path, frequency="1h")
    assert (hourly.step.season, read_series(path).step.season) == (24, 1)
    assert hourly.step == read_series(path).step  # a model of the one takes the other
    assert hourly.fingerprint == read_series(path).fingerprint
    assert Series.of([1.0, 2.0], frequency="1mo").step.season == 12
    assert SeasonalNaive(horizon=2).fit(hourly).season == 24
    with pytest.raises(ConfigError, match="has times, 1 hour apart; leave out the frequency"):
        read_series(table(tmp_path, HOURS), frequency="1h")
    with pytest.raises(ConfigError, match="frequency must be a number and a unit"):
        read_series(path, frequency="often")
    with pytest.raises(ConfigError, match=r"1 hour does not suit .* with frequency="):
        read_series(path, step="1h")


def test_several_series_by_a_key(tmp_path, said):
    text = "day,shop,sold,holiday\n" + "".join(
        f"2024-02-{d:02},{shop},{d if d < 10 else ''},{d % 7 == 0:d}\n"
        for shop in ("b", "a")
        for d in range(1, 13)
    )
    series = read_series(table(tmp_path, text), key_column="shop", known_columns=["holiday"])
    assert [track.key for track in series.tracks] == ["a", "b"]
    assert [(len(track), len(track.known)) for track in series.tracks] == [
        (9, 12),
        (9, 12),
    ]  # what is known goes on
    assert (series.columns, series.known_columns, str(series.step)) == (
        ("sold",),
        ("holiday",),
        "1 day",
    )
    with pytest.raises(
        DataError, match=r"12 of 24 rows have the time of another row; .*key_column"
    ):
        read_series(table(tmp_path, text), value_columns=["sold"])
    with pytest.raises(DataError, match="line 3: no key in column 'shop'"):
        read_series(
            table(tmp_path, "day,shop,sold\n2024-02-01,a,1\n2024-02-02,,2\n"), key_column="shop"
        )


def test_several_files_are_several_series(tmp_path):
    paths = [table(tmp_path, HOURS, f"{name}.csv") for name in ("x", "y")]
    assert [track.key for track in read_series(paths).tracks] == ["x", "y"]


# ---- odd times


def test_rows_out_of_order_are_sorted(tmp_path, said):
    lines = HOURS.splitlines()
    series = read_series(table(tmp_path, "\n".join([lines[0], *lines[:0:-1]])))
    assert series.fingerprint == read_series(table(tmp_path, HOURS)).fingerprint
    assert "2 rows come before an earlier one and were sorted by time" in said[0]


def test_equal_times_are_averaged(tmp_path, said):
    days = "".join(f"2024-01-{d:02},{d}\n" for d in range(1, 22))
    series = read_series(table(tmp_path, f"date,v\n{days}2024-01-21,31\n"))
    assert series.tracks[0].values[-1, 0] == 26
    assert "1 row has the time of another row and was averaged with it" in said[0]


def test_gaps_and_crooked_times(tmp_path, said):
    minutes = [0, 5, 10, 16, 20, 40, 45]
    text = "timestamp,v\n" + "".join(f"2024-01-01 00:{m:02}:00,{m}\n" for m in minutes)
    series = read_series(table(tmp_path, text))
    values = series.tracks[0].values[:, 0]
    assert str(series.step) == "5 minutes"
    np.testing.assert_array_equal(values, [0, 5, 10, 16, 20, np.nan, np.nan, np.nan, 40, 45])
    assert "1 time lies beside the steps of 5 minutes" in said[0]
    assert "3 of 10 steps of 5 minutes have no row and count as missing" in said[0]
    longer = read_series(tmp_path / "a.csv", step="15min")
    np.testing.assert_array_equal(
        longer.tracks[0].values[:, 0], [2.5, 15.333333333333334, np.nan, 42.5]
    )
    with pytest.raises(DataError, match="too irregular"):
        read_series(table(tmp_path, "time,v\n0,1\n1,2\n2,3\n9000,1\n"))


@pytest.mark.parametrize(
    ("times", "step", "season"),
    [
        (["1949-01", "1949-02", "1949-03"], "1 month", 12),
        (["2024-01-31", "2024-02-29", "2024-03-31"], "1 month", 12),
        (["2024-01-01", "2024-04-01", "2024-07-01"], "1 quarter", 4),
        (["2020-01-01", "2021-01-01", "2022-01-01"], "1 year", 1),
        (["2024-01-01", "2024-01-08", "2024-01-15"], "1 week", 52),
        (["2024/1/1", "2024/1/2", "2024/1/3"], "1 day", 7),
        ([1700000000, 1700000060, 1700000120], "1 minute", 1440),
        ([1700000000000, 1700000030000], "30 seconds", 2880),
        ([date(2024, 1, 1), date(2024, 1, 2)], "1 day", 7),
        ([0, 2, 4, 6], "2 rows", 1),
        (
            ["2024-01-01T00:00:00+01:00", "2024-01-01T00:30:00+01:00", "2024-01-01T01:00:00+01:00"],
            "30 minutes",
            48,
        ),
    ],
)
def test_the_step_is_inferred(times, step, season):
    clock, seconds = read_times(times)
    found = infer_step(clock, seconds)
    assert (str(found), found.season) == (step, season)
    slots, beside = clock.slots(seconds, found)
    assert slots.tolist() == list(range(len(times)))
    assert beside == 0
    np.testing.assert_array_equal(clock.grid(int(seconds[0]), found, len(times)), seconds)


def test_summer_time(said):
    """25 hours on the day that clocks are put back, 23 on the other; a local day is a step all the same."""
    start = datetime(2024, 10, 27, tzinfo=UTC) - timedelta(hours=2)
    from zoneinfo import ZoneInfo

    moments = [
        (start + timedelta(hours=h)).astimezone(ZoneInfo("Europe/Berlin")) for h in range(26)
    ]
    local = [at.replace(tzinfo=None).isoformat() for at in moments]
    assert len(set(local)) == 25  # two o'clock comes twice
    series = Series.of(list(range(26)), local, time_zone="Europe/Berlin")
    assert (len(series), str(series.step)) == (26, "1 hour")
    assert series.times(series.tracks[0]).tolist() == [int(at.timestamp()) for at in moments]
    assert series.clock.show(int(moments[3].timestamp())) == "2024-10-27 02:00:00+01:00"
    assert not said
    Series.of(
        [1, 2, 3],
        ["2024-03-31 01:00", "2024-03-31 02:00", "2024-03-31 04:00"],
        time_zone="Europe/Berlin",
    )
    assert "1 time did not exist in Europe/Berlin" in said[0]
    days = Series.of(
        [1, 2, 3], ["2024-03-30", "2024-03-31", "2024-04-01"], time_zone="Europe/Berlin"
    )
    assert (str(days.step), len(days)) == ("1 day", 3)


def test_offsets_are_read(tmp_path):
    aware = Series.of([1, 2], ["2024-01-01T01:00:00+01:00", "2024-01-01T02:00:00+01:00"])
    assert aware.times(aware.tracks[0])[0] == 1704067200
    with pytest.raises(DataError, match=r"without an offset.*all must be of one kind"):
        Series.of([1, 2], ["2024-01-01T01:00:00Z", "2024-01-01T02:00:00"])


def test_calendar_features_follow_the_clock_on_the_wall():
    noon = int(datetime(2024, 7, 1, 10, tzinfo=UTC).timestamp())  # a Monday, 12 o'clock in Berlin
    sine = Clock("Europe/Berlin").calendar(np.array([noon]))[0]
    np.testing.assert_allclose(sine[[0, 3]], [0, -1], atol=1e-9)  # noon: half of the circle
    np.testing.assert_allclose(sine[[1, 4]], [0, 1], atol=1e-9)  # Monday begins the week
    angle = 2 * np.pi * 182 / 365.25
    np.testing.assert_allclose(sine[[2, 5]], [np.sin(angle), np.cos(angle)], atol=1e-9)
    assert Clock(rows=True).calendar(np.arange(3)).shape == (3, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("date,v\n2024-01-01,1\n2024-01-02,x\n", "line 3, column 'v': 'x' is not a number"),
        ("date,v\n2024-01-01,1\nsoon,2\n", "line 3: 'soon' is not a time"),
        ("date,v\n2024-01-01,1\n2024-01-02\n", "line 3: 1 fields where the first row has 2"),
        ("date,v\n2024-01-01,1\n2024-01-02,inf\n", "'inf' is not a number that can be learnt from"),
        ("date,v\n2024-01-01,1\n2024-01-02,1e308\n", "line 3, column 'v': '1e308' .* beyond"),
        ("date,v,w\n2024-01-01,1,1\n2024-01-02,1,-1e154\n", "line 3, column 'w': '-1e154' .*"),
        ("date,v\n2024-01-01,1\n2024-01-02," + "9" * 400 + "\n", "line 3, column 'v': '999"),
        ("date,v\n2024-01-01,1\n", "needs at least 2 different times"),
        ("a,b\nx,2\ny,3\n", "no column of times among a, b"),
        ("Datum,b\n31.01.2024,2\n01.02.2024,3\n", "no column of times among Datum, b"),
        ("date,v\n2024-01-01,\n2024-01-02,\n", "no column of numbers"),
        ("", "is empty"),
        ("date,name\n2024-01-01,a\n2024-01-02,b\n", "no column of numbers besides date"),
        ("date,v\n2024-01-01,1\n5,2\n", "is a number, '2024-01-01' is a time"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as error:
        read_series(table(tmp_path, text))
    assert "\n" not in str(error.value)


def test_whole_numbers_of_hundreds_of_digits(tmp_path):
    """JSON has them, and no float does."""
    path = tmp_path / "s.jsonl"
    path.write_text(f'{{"date": "2024-01-01", "v": 1}}\n{{"date": "2024-01-02", "v": {10**400}}}\n')
    with pytest.raises(DataError, match=r"s\.jsonl, line 2, column 'v': 1000.* beyond"):
        read_series(path)
    with pytest.raises(DataError, match=r"row 2 of series.* beyond"):
        Series.of([1.0, 10**400])


def test_wrong_arguments(tmp_path):
    path = table(tmp_path, HOURS)
    for options, message in (
        ({"step": "soon"}, "step must be"),
        ({"time_zone": "Mars/Base"}, "unknown time zone"),
        ({"time_column": "dat"}, "no column 'dat'"),
        ({"value_columns": ["date"]}, "column 'date': .* is not a number"),
        ({"value_columns": ["load"], "key_column": "load"}, "cannot be a value"),
        ({"step": "1row"}, "does not suit"),
    ):
        with pytest.raises((DataError, ConfigError), match=message):
            read_series(path, **options)
    for bad, message in (
        ([[1, 2], [3]], "row 2 of series has 1 numbers"),
        ("a.csv", "file name"),
        (7, "cannot read a series"),
        (np.array([1.0, np.inf]), "row 2 of series: inf is not a number that can be learnt"),
        (np.array([1.0, -1e154]), r"row 2 of series: -1e\+154 .* beyond 1e\+25"),
        (np.zeros((2, 2, 2)), "one or two dimensions"),
    ):
        with pytest.raises(DataError, match=message):
            as_series(bad)
    with pytest.raises(DataError, match="2 values and 3 times"):
        Series.of([1, 2], [1, 2, 3])


# ---- parts


def test_parts_keep_what_comes_before_as_history():
    series = Series.of(np.arange(10.0))
    middle = series.between(0.4, 0.8)
    assert (len(middle), middle.tracks[0].begin, len(middle.tracks[0])) == (4, 4, 8)
    assert middle.alone().tracks[0].values[:, 0].tolist() == [4, 5, 6, 7]
    assert series.between(2, 5).alone().times(series.between(2, 5).alone().tracks[0]).tolist() == [
        2,
        3,
        4,
    ]
    assert (series.starting(7).tracks[0].begin, len(series.before(7))) == (7, 7)
    after = series.between(6, 10).alone()
    joined = after.following(series.between(0, 5))  # step 5 is missing between them
    np.testing.assert_array_equal(
        joined.tracks[0].values[:, 0], [0, 1, 2, 3, 4, np.nan, 6, 7, 8, 9]
    )
    assert joined.tracks[0].begin == 6
    assert series.following(series) is not None
    assert series.following(series).tracks[0].begin == 0  # which does not come before it


def test_columns_by_name(tmp_path):
    series = read_series(table(tmp_path, HOURS))
    turned = series.like(("temp",), ("load",))
    assert (turned.columns, turned.known_columns) == (("temp",), ("load",))
    assert turned.tracks[0].known[:, 0].tolist() == [1, 2, 3]
    with pytest.raises(DataError, match="no column 'wind', which the model learned from"):
        series.like(("wind",), ())


def test_a_series_is_recognised(tmp_path):
    assert (
        times_in(table(tmp_path, HOURS))
        == f"{tmp_path / 'a.csv'} has a column of times ('date') beside numbers"
    )
    for text in (
        "text,label\ngood,a\nbad,b\n",
        "date,text\n2024-01-01,hello\n2024-01-02,world\n",
        "a,b\n1,2\n3,4\n",
    ):
        assert times_in(table(tmp_path, text)) == ""


def test_steps_are_written_and_read():
    for text, shown in (
        ("15min", "15 minutes"),
        ("1h", "1 hour"),
        ("2d", "2 days"),
        ("1q", "1 quarter"),
        ("24h", "24 hours"),
    ):
        assert str(Step.parse(text)) == shown
