"""Parallel text: forms, columns, numbers as sources, and what is refused in one line."""

import csv
import gzip
import io
import json
import random
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom.data.translation import Parallel, read_parallel
from seqloom.data.translation_forms import first_mismatch
from seqloom.data.translation_report import filter_pairs, report_pairs, seen_sources
from seqloom.errors import ConfigError, DataError, EncodingError

PAIRS = [
    ("Two dogs.", "Zwei Hunde."),
    ('a, "b"', "Käse 😀"),
    ("the cat", "猫在这里"),
    ("no", "nein"),
]
SOURCES, TARGETS = [a for a, _ in PAIRS], [b for _, b in PAIRS]


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def as_csv(header, rows=PAIRS, separator=","):
    file = io.StringIO()
    csv.writer(file, lineterminator="\n", delimiter=separator).writerows(
        [header, *rows] if header else rows
    )
    return file.getvalue()


def as_tsv(header, rows=PAIRS):
    return "".join("\t".join(row) + "\n" for row in ([header] if header else []) + list(rows))


def as_jsonl(make):
    return "".join(json.dumps(make(a, b)) + "\n" for a, b in PAIRS)


TABLES = {  # file, its content, options, names of the sides
    "header.tsv": (as_tsv(("en", "de")), {}, ("en", "de")),
    "region.tsv": (as_tsv(("en_GB", "zh-CN")), {}, ("en_GB", "zh-CN")),
    "bare.tsv": (as_tsv(None), {}, ("source", "target")),
    "by_number.tsv": (
        as_tsv(None, [(b, "x", a) for a, b in PAIRS]),
        {"source": "3", "target": "1"},
        ("source", "target"),
    ),
    "header_by_number.tsv": (
        as_tsv(("de", "en"), [(b, a) for a, b in PAIRS]),
        {"source": "2", "target": "1"},
        ("en", "de"),
    ),
    "by_name.tsv": (
        as_tsv(("german", "other", "english"), [(b, "x", a) for a, b in PAIRS]),
        {"source": "english", "target": "german"},
        ("english", "german"),
    ),
    "one_name.csv": (as_csv(("a", "b"), [(b, a) for a, b in PAIRS]), {"target": "a"}, ("b", "a")),
    "usual.csv": (as_csv(("target", "src"), [(b, a) for a, b in PAIRS]), {}, ("src", "target")),
    "semicolons.csv": (as_csv(("en", "de"), separator=";"), {}, ("en", "de")),
    "crlf.tsv": (as_tsv(("en", "de")).replace("\n", "\r\n"), {}, ("en", "de")),
    "padded.tsv": (as_tsv(("en", "de")).replace("\t", "  \t  "), {}, ("en", "de")),
    "marked.tsv": (b"\xef\xbb\xbf" + as_tsv(("en", "de")).encode(), {}, ("en", "de")),
    "hub.jsonl": (
        as_jsonl(lambda a, b: {"id": "7", "translation": {"en": a, "de": b}}),
        {},
        ("en", "de"),
    ),
    "back.jsonl": (
        as_jsonl(lambda a, b: {"translation": {"de": b, "en": a}}),
        {"source": "en", "target": "de"},
        ("en", "de"),
    ),
    "three.jsonl": (
        as_jsonl(lambda a, b: {"translation": {"de": b, "en": a, "fr": "x"}}),
        {"source": "en", "target": "de"},
        ("en", "de"),
    ),
    "fields.jsonl": (
        as_jsonl(lambda a, b: {"summary": b, "document": a, "id": 1}),
        {},
        ("document", "summary"),
    ),
    "lists.jsonl": (as_jsonl(lambda a, b: [a, b]), {}, ("source", "target")),
    "no_end": (as_tsv(None), {}, ("source", "target")),
    "objects": (as_jsonl(lambda a, b: {"src": a, "tgt": b}), {}, ("src", "tgt")),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(tmp_path, name):
    content, options, names = TABLES[name]
    data = read_parallel(write(tmp_path / name, content), **options)
    assert list(zip(data.sources, data.targets)) == PAIRS
    assert (data.source_name, data.target_name, data.name) == (*names, name)


@pytest.mark.parametrize("nested", [False, True])
def test_parquet(tmp_path, nested):
    polars = pytest.importorskip("polars")
    columns = {"id": list(range(4)), "en": SOURCES, "de": TARGETS}
    if nested:
        columns = {"translation": [{"en": a, "de": b} for a, b in PAIRS]}
    polars.DataFrame(columns).write_parquet(tmp_path / "a.parquet")
    data = read_parallel(tmp_path / "a.parquet")
    assert (data.sources, data.targets, data.source_name, data.target_name) == (
        SOURCES,
        TARGETS,
        "en",
        "de",
    )


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_two_files(tmp_path, end):
    en = write(tmp_path / "train.en", end.join(SOURCES))
    de = write(tmp_path / "train.de.gz", gzip.compress((end.join(TARGETS) + end).encode()))
    data = read_parallel([en, de])
    assert (data.sources, data.targets) == (SOURCES, TARGETS)
    assert (data.name, data.source_name, data.target_name) == ("train.en-de", "en", "de")
    assert data.fingerprint == Parallel.of(PAIRS).fingerprint
    assert read_parallel(en, de).fingerprint == data.fingerprint
    back = read_parallel([en, de], source="de", target="en")
    assert (back.sources, back.targets, back.source_name, back.name) == (
        TARGETS,
        SOURCES,
        "de",
        "train.de-en",
    )
    assert (data.reversed().sources, data.reversed().source_name) == (TARGETS, "de")
    assert read_parallel([en, de], source="English").source_name == "English"


def test_a_name_without_an_end_stands_for_two_files(tmp_path):
    for end, side in (("en", SOURCES), ("de", TARGETS)):
        write(tmp_path / f"valid.{end}", "\n".join(side) + "\n")
    data = read_parallel(tmp_path / "valid", source="de", target="en")
    assert (data.sources, data.name) == (TARGETS, "valid.de-en")


def test_lines_in_other_ways(tmp_path, monkeypatch):
    dates = write(
        tmp_path / "date.txt", "june 1, 1994   _1994-06-01\n\n2/10/93       _1993-02-10\n"
    )
    data = read_parallel(dates, separator="_")
    assert (data.sources, data.targets) == (
        ["june 1, 1994", "2/10/93"],
        ["1994-06-01", "1993-02-10"],
    )
    with pytest.raises(
        DataError, match=r"date\.txt, line 1: no '\|'; there must be one, between source and target"
    ):
        read_parallel(dates, separator="|")
    with pytest.raises(ConfigError, match="separator"):
        read_parallel(dates, separator="_", form="tsv")
    tables = [
        write(tmp_path / f"{k}.tsv", as_tsv(None, PAIRS[2 * k : 2 * k + 2])) for k in range(2)
    ]
    assert read_parallel(tables).targets == TARGETS
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(as_tsv(None).encode())))
    assert read_parallel("-").targets == TARGETS
    wide = write(tmp_path / "wide.tsv", as_tsv(None).encode("utf-16"))
    assert read_parallel(wide, encoding="utf-16").fingerprint == Parallel.of(PAIRS).fingerprint


def test_sums_are_text(tmp_path):
    path = write(tmp_path / "sums.tsv", "16\t91\n3\t4\n")
    assert (read_parallel(path).sources, read_parallel(path).targets) == (["16", "3"], ["91", "4"])
    rows = write(tmp_path / "sums.jsonl", '{"input": "3+4", "output": 7}\n')
    assert read_parallel(rows).targets == ["7"]


def test_empty_sides_are_kept_and_counted(tmp_path, said):
    path = write(tmp_path / "a.tsv", "a\t\nb\tc\n\td\n")
    assert read_parallel(path).sources == ["a", "b", ""]
    assert "a.tsv: 2 of 3 pairs have an empty side" in said[-1]


@pytest.fixture
def said(monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr("seqloom.progress.say", lines.append)
    return lines


BAD = {  # content or None, options, what is said
    "tabless.tsv": (
        "one\ntwo\n",
        {},
        r"has one column, '1'; there must be one of sources and .* \(in TSV with a tab",
    ),
    "empty.tsv": ("", {}, "empty.tsv is empty; give a file with some pairs"),
    "empty.en": ("\n\n", {}, "empty.en is empty; give a file with some pairs"),
    "plain.en": (
        "one\ntwo\n",
        {},
        "name the file with the other side too, source first.* csv, tsv, jsonl, parquet, or",
    ),
    "latin.tsv": (
        "a\tn\xe4\n".encode("latin-1"),
        {},
        "latin.tsv is not UTF-8 text: line 1, byte offset 3",
    ),
    "three.tsv": (
        "a\tb\tc d\ne\tf\tg\n",
        {},
        "has the columns 1, 2, 3; say which is the source with --source",
    ),
    "named.tsv": (
        as_tsv(("en", "de")),
        {"source": "eng"},
        "no column 'eng'; did you mean 'en'.* It has en, de; in a table w",
    ),
    "twice.tsv": (
        as_tsv(("en", "de")),
        {"source": "en", "target": "en"},
        "'en' cannot be both source and target",
    ),
    "ragged.tsv": (
        "a\tb\nc\n",
        {"source": "1", "target": "2"},
        "line 2: 1 fields where the first row has 2",
    ),
    "null.jsonl": (
        '{"en": "a", "de": "b"}\n{"en": "a", "de": null}\n',
        {},
        "line 2: the value of column 'de' is missing",
    ),
    "words.jsonl": (
        '{"en": ["a", "b"], "de": "b"}\n',
        {},
        r"line 1: .* is a list of words; join them",
    ),
    "mixed.jsonl": (
        '{"x": [1, 2], "de": "b"}\n{"x": "a", "de": "b"}\n',
        {},
        "line 2: the source is 'a'; it must be an array",
    ),
    "widths.jsonl": (
        '{"x": [1, 2], "de": "b"}\n{"x": [1], "de": "b"}\n',
        {},
        "row 2 of .* has a source of the width 1",
    ),
    "missing": (None, {}, "no such file: .*missing"),
    "form.tsv": (
        "a\tb\n",
        {"form": "tvs"},
        "form must be one of auto, lines, .*did you mean 'tsv'",
    ),
    "lines.tsv": (
        "a\tb\n",
        {"form": "lines"},
        "line-aligned files come in pairs, source and target, and 1 was given",
    ),
}


def test_three_files_of_lines(tmp_path):
    paths = [tmp_path / f"a.{end}" for end in ("en", "de", "fr")]
    for path in paths:
        path.write_text("a b\nc\n")
    wrong = (
        r"a\.en has one text in each line: line-aligned files come in pairs, source and target, "
        r"and 3 were given; "
        "give two, with all sources in one and all targets in the other$"
    )
    with pytest.raises(DataError, match=wrong):
        read_parallel(paths)


@pytest.mark.parametrize("name", BAD)
def test_refused_in_one_line(tmp_path, name):
    content, options, message = BAD[name]
    path = tmp_path / name if content is None else write(tmp_path / name, content)
    with pytest.raises((DataError, ConfigError), match=message) as error:
        read_parallel(path, **options)
    assert "\n" not in str(error.value)


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(DataError, match="is a directory; name the file of pairs in it"):
        read_parallel(tmp_path)
    with pytest.raises(DataError, match="the list of files is empty"):
        read_parallel([])


def test_unequal_lines_are_refused_with_the_place(tmp_path):
    rng = random.Random(3)
    lengths = [rng.randint(2, 30) for _ in range(300)]
    en = ["a" * n for n in lengths]
    de = ["b" * max(1, round(1.2 * n + rng.gauss(0, 1))) for n in lengths]
    files = [
        write(tmp_path / "x.en", "\n".join(en)),
        write(tmp_path / "x.de", "\n".join(de[:120] + de[121:])),
    ]
    with pytest.raises(
        DataError,
        match=r"x\.en has 300 lines and .*x\.de 299; .* near line 12[0-3] \('a+' beside 'b+'\)",
    ):
        read_parallel(files)
    assert abs(first_mismatch(en[:50] + en[51:], de) - 50) <= 2
    assert (
        abs(first_mismatch(en, [text for k, text in enumerate(de) if k not in (77, 160, 161)]) - 77)
        <= 2
    )
    write(files[1], "\n".join(de[:298]))
    with pytest.raises(DataError, match="the first 298 seem to match"):
        read_parallel(files)
    write(files[1], "\n".join(de[:100]))
    with pytest.raises(DataError, match="are they the same part of the data"):
        read_parallel(files)


def test_lines_of_one_length_do_not_say_where_they_stop_matching(tmp_path):
    rng = random.Random(3)
    dates = [
        write(tmp_path / "x.free", "\n".join("a" * rng.randint(5, 30) for _ in range(300))),
        write(tmp_path / "x.iso", "\n".join(["2024-01-01"] * 290)),
    ]
    with pytest.raises(
        DataError,
        match=r"290; where they stop matching cannot be told, since the lines of .*x\.iso are all",
    ):
        read_parallel(dates)


def test_pairs_in_memory():
    polars = pytest.importorskip("polars")
    wanted = Parallel.of(PAIRS)
    assert (wanted.sources, wanted.targets, len(wanted), wanted.numeric) == (
        SOURCES,
        TARGETS,
        4,
        False,
    )
    assert Parallel.of(wanted) is wanted
    frame = {"en": SOURCES, "de": TARGETS}
    for given in (
        frame,
        polars.DataFrame(frame),
        (SOURCES, TARGETS),
        [{"en": a, "de": b} for a, b in PAIRS],
        [{"translation": {"en": a, "de": b}} for a, b in PAIRS],
        iter(PAIRS),
        np.array(PAIRS),
    ):
        assert Parallel.of(given).fingerprint == wanted.fingerprint
    assert Parallel.of(SOURCES, TARGETS).fingerprint == wanted.fingerprint
    assert Parallel.of({"id": [1] * 4, **frame}, source="de", target="en").sources == TARGETS
    assert wanted.part([2, 0]).sources == [SOURCES[2], SOURCES[0]]
    assert wanted.part(slice(1)).fingerprint == Parallel.of(PAIRS[:1]).fingerprint
    assert Parallel.of([("ab", "c")]).fingerprint != Parallel.of([("a", "bc")]).fingerprint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (7, "cannot read pairs from a int"),
        ("a\tb", "cannot read pairs from a str"),
        ("pairs.tsv", r"seqloom.read_parallel\('pairs.tsv'\)"),
        ([], "pairs has no pairs"),
        ([("a",)], "row 1 of pairs must be a pair"),
        ([("a", None)], "row 1 of pairs: the target is missing"),
        ([("a", ["b", "c"])], "row 1 of pairs: the target is a list of words"),
        ((["a"], ["b", "c"]), "1 sources and 2 targets"),
        ({"a": ["b"]}, "one column, 'a'"),
        ([("\ud800", "b")], "surrogate|character"),
        ([([1.0, np.inf], "b")], "infinite"),
        ([(np.zeros((2, 2, 2)), "b")], r"the shape \(2, 2, 2\)"),
    ],
)
def test_refused_in_memory(given, message):
    with pytest.raises(DataError, match=message):
        Parallel.of(given)


def test_sources_may_be_numbers(tmp_path):
    frames = [np.arange(6.0).reshape(3, 2), np.ones((1, 2))]
    data = Parallel.of(frames, ["a b", "c"])
    assert data.numeric
    assert [array.shape for array in data.sources] == [(3, 2), (1, 2)]
    assert {array.dtype for array in data.sources} == {np.dtype("float32")}
    vectors = Parallel.of(np.ones((2, 5)), ["a", "b"])
    assert [array.shape for array in vectors.sources] == [(1, 5)] * 2
    objects = [
        {"features": array.tolist(), "caption": text} for array, text in zip(frames, data.targets)
    ]
    rows = "".join(json.dumps(row) + "\n" for row in objects)
    read = read_parallel(write(tmp_path / "a.jsonl", rows))
    assert read.fingerprint == data.fingerprint
    assert (read.source_name, read.part([1]).sources[0].tolist()) == ("features", [[1.0, 1.0]])
    with pytest.raises(DataError, match="arrays of numbers; this needs texts"):
        _ = data.source_texts


ODD = Parallel.of(
    [
        ("a b", "x y"),
        ("a b", "x  y"),
        ("c", "c "),
        ("", "z"),
        ("d " * 9, "w " * 8),
        ("e", "v v v v"),
        ("猫在这里", "the cat is here"),
        ("a b", "other"),
        ("", "z"),
    ],
    name="odd",
)


def test_the_report_counts_each_pair_once():
    report = report_pairs(ODD, max_words=8, max_ratio=3)
    assert report.counts == {
        "with an empty side": 2,
        "longer than 8 words": 1,
        "of lengths more than 3 times apart": 1,
        "copies": 1,
        "duplicates": 1,
        "other targets": 1,
    }
    assert report.examples["other targets"] == [(8, "a b", "other")]
    assert report.to_dict()["pairs"] == 9
    assert "  3: c | c" in str(report)


def test_filtered_pairs_and_what_was_dropped(said):
    assert filter_pairs(ODD, max_words=8, max_ratio=3).sources == [
        "a b",
        "a b",
        "c",
        "猫在这里",
        "a b",
    ]
    assert said == [
        "odd: dropped 4 of 9 pairs (2 with an empty side, 1 longer than 8 words, 1 of lengths more "
        "than 3 times "
        "apart)"
    ]
    assert len(filter_pairs(ODD, drop_copies=True, drop_duplicates=True)) == 5
    clean = ODD.part([0, 6])
    assert filter_pairs(clean, max_words=8) is clean
    with pytest.raises(DataError, match=r"none of 1 pairs is left \(1 longer than 1 words\)"):
        filter_pairs(ODD.part([0]), max_words=1)
    with pytest.raises(ConfigError, match="max_ratio must be at least 1"):
        filter_pairs(ODD, max_ratio=0.5)


def test_numeric_pairs_are_filtered_by_frames_and_equal_arrays():
    data = Parallel.of(
        [np.ones((3, 2)), np.ones((3, 2)), np.ones((9, 2)), np.zeros((3, 2))], ["a", "a", "b", "c"]
    )
    assert (
        len(filter_pairs(data, max_words=8, max_ratio=1, drop_copies=True, drop_duplicates=True))
        == 2
    )
    assert report_pairs(data).examples["duplicates"] == [(2, "3 x 2 numbers", "a")]
    assert seen_sources(data, data.part([0])).tolist() == [True, True, False, False]


def test_sources_in_a_file_of_numpy(tmp_path):
    texts = write(tmp_path / "captions.txt", "a\nb\n")
    np.save(tmp_path / "features.npy", np.arange(8.0).reshape(2, 4))
    data = read_parallel([tmp_path / "features.npy", texts], target="caption")
    assert [array.tolist() for array in data.sources] == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]
    assert (data.targets, data.source_name, data.target_name) == (["a", "b"], "source", "caption")
    np.savez(tmp_path / "frames.npz", np.ones((3, 2)), np.zeros((1, 2)))
    assert [array.shape for array in read_parallel([tmp_path / "frames.npz", texts]).sources] == [
        (3, 2),
        (1, 2),
    ]
    np.save(tmp_path / "three.npy", np.ones((3, 4)))
    np.save(tmp_path / "one.npy", np.ones(()))
    np.save(tmp_path / "objects.npy", np.array([{}]))
    np.save(tmp_path / "beyond.npy", np.array([[1.0, 2.0], [1.0, 1e300]]))
    write(tmp_path / "broken.npz", b"PK\x03\x04 no")
    for name, message in (
        ("three.npy", "has 3 arrays and .* 2 lines"),
        ("missing.npy", "no such file"),
        ("one.npy", "not a file"),
        ("beyond.npy", r"row 2 .*: the source holds a number that is infinite or beyond 1e\+15"),
        ("objects.npy", "not a file of arrays"),
        ("broken.npz", "not a file of arrays"),
    ):
        with pytest.raises(DataError, match=message):
            read_parallel([tmp_path / name, texts])


def test_it_is_public():
    assert seqloom.Parallel is Parallel
    assert seqloom.read_parallel is read_parallel
    assert issubclass(EncodingError, DataError)
