"""Lists, generators, arrays, columns and frames as data; names of files are refused."""

import numpy as np
import pytest

import seqloom
from seqloom.data.classification import as_labelled
from seqloom.data.corpus import Corpus, as_corpus
from seqloom.data.examples import values
from seqloom.errors import DataError
from seqloom.text.file_names import looks_like_file, refuse_existing_file
from seqloom.text.tokenizer import Tokenizer

TEXTS, LABELS = ["a fine film", "dull"], [1, 0]


class Column:
    """As much of a pandas Series as is asked for."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)

    def to_list(self):
        return list(self.rows)


class Frame:
    """As much of a pandas DataFrame: iterating over it gives the names of its columns."""

    def __init__(self, columns):
        self.data, self.columns = columns, np.array(list(columns), object)

    def __iter__(self):
        return iter(self.columns)

    def __getitem__(self, name):
        return Column(self.data[name])


def polars_frame(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def pandas_frame(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


FRAMES = pytest.mark.parametrize("frame", [Frame, polars_frame, pandas_frame])


@FRAMES
def test_columns_and_frames(frame):
    table = frame({"Label": LABELS, "text": TEXTS, "id": [7, 8]})
    labelled = as_labelled(TEXTS, LABELS)
    assert as_labelled(table) == labelled
    assert as_labelled(table["text"], table["Label"]) == labelled
    assert as_labelled((table["text"], table["Label"])) == labelled
    assert as_labelled(frame({"words": TEXTS, "label": LABELS})) == labelled
    assert all(type(label) is int for label in as_labelled(table).labels)
    for data in (table, table["text"], frame({"x": TEXTS})):
        assert as_corpus(data).text() == "a fine film\ndull\n"


@FRAMES
def test_frames_of_which_nothing_is_known(frame):
    with pytest.raises(
        DataError,
        match=r"the frame has the columns a, b, c; give the two to use: \(frame\['text'\]",
    ):
        as_labelled(frame({"a": TEXTS, "b": LABELS, "c": LABELS}))
    with pytest.raises(
        DataError, match=r"2 columns of text among a, b; give one of its columns: frame\['a'\]"
    ):
        as_corpus(frame({"a": TEXTS, "b": TEXTS}))
    with pytest.raises(
        DataError, match=r"a frame with the columns a, b; give one of them: frame\['a'\]"
    ):
        as_labelled(frame({"a": TEXTS, "b": TEXTS}), LABELS)


def test_a_missing_value_is_named():
    with pytest.raises(DataError, match="row 2 of texts: nan is not text"):
        as_labelled(Column(["a", float("nan")]), LABELS)
    with pytest.raises(DataError, match="row 2 of texts: the label is None"):
        as_labelled(TEXTS, [1, None])


def test_arrays_and_generators():
    assert (
        as_corpus(np.array(TEXTS)).text()
        == as_corpus(text for text in TEXTS).text()
        == as_corpus(tuple(TEXTS)).text()
    )
    assert as_labelled(np.array(TEXTS)[:, None], np.array(LABELS)) == as_labelled(TEXTS, LABELS)
    assert as_labelled(np.array(TEXTS, object), LABELS) == as_labelled(
        (text for text in TEXTS), (n for n in LABELS)
    )
    assert as_labelled(np.array([["a", "x"], ["b", "y"]])).labels == ["x", "y"]
    assert all(type(value) is str for value in values(np.array(TEXTS)))
    for wrong in (b"text", {"a": 1}, 3, None):
        with pytest.raises(DataError, match="is not text; give a list of texts"):
            as_corpus(wrong)
    with pytest.raises(
        DataError, match="the labels of texts: expected a list or a column, got a str: 'x'"
    ):
        as_labelled(TEXTS, "x")


def test_lists_of_words_are_taken_as_they_are():
    words = [["don't", "stop"], [], ["now\u00a0here"]]
    for given in (
        words,
        iter(words),
        [tuple(sentence) for sentence in words],
        [np.array(s, object) for s in words],
    ):
        corpus = as_corpus(given)
        assert corpus.text() == "don't stop\n\nnow\u00a0here\n"
        assert corpus.of_words
    assert not as_corpus(TEXTS).of_words
    for bad, message in (
        (
            [["New York"]],
            "sentence 1 has the word 'New York'; a word may not be empty or contain a space",
        ),
        ([["a"], [""]], "sentence 2 has the word ''"),
        ([["a"], "b"], "sentence 2 is a text, the ones before"),
        ([["a", 3]], "sentence 1 holds 3; words must be text"),
    ):
        with pytest.raises(DataError, match=message):
            as_corpus(bad)


@pytest.mark.parametrize(
    "name", ["missing.txt", "data/*.txt", "Notes.TXT", "x.jsonl.gz", "./notes", "~/notes", r"C:\a"]
)
def test_names_of_files_are_seen(name):
    assert looks_like_file(name)
    with pytest.raises(
        DataError,
        match=r"looks like a file name, but a str is taken as the text itself; give Path\(",
    ):
        as_corpus(name)
    with pytest.raises(DataError, match="looks like a file name"):
        Tokenizer(kind="char").fit(name)
    assert Corpus.from_texts(name).text() == name  # who means it can say so


@pytest.mark.parametrize(
    "text", ["a.b", "and/or", "see notes.txt", "e.g.", "", "1.5", "end.\n", "a\nb.txt", "x" * 5000]
)
def test_other_texts_are_not(text):
    assert not looks_like_file(text)


def test_what_exists_is_seen_without_an_ending(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not looks_like_file("notes")
    (tmp_path / "notes").mkdir()
    assert looks_like_file("notes")
    refuse_existing_file("notes")  # one text among many may be that word
    refuse_existing_file("index.html")
    (tmp_path / "index.html").write_text("x")
    with pytest.raises(
        DataError, match=r"'index.html' is the name of a file.*Path\('index.html'\)\.read_text\(\)"
    ):
        refuse_existing_file("index.html")


def test_a_list_of_nothing_but_names():
    with pytest.raises(
        DataError,
        match=r"a list holds the texts themselves; give seqloom\.read\(\['a\.txt', \.\.\.\]\)",
    ):
        as_corpus(["a.txt", "b.txt"])
    assert (
        as_corpus(["a.txt", "is a name"]).text()
        == as_corpus(iter(["a.txt", "is a name"])).text()
        == "a.txt\nis a name\n"
    )


def test_a_list_of_paths(tmp_path):
    with pytest.raises(DataError, match=r"give seqloom\.read\(\["):
        as_corpus([tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize(
    "reader", ["read", "read_labelled", "read_tagged", "read_series", "read_parallel"]
)
@pytest.mark.parametrize("data", [[1, 2.5], 3, None, {"a": [1]}, Frame({"a": Column([1])})])
def test_readers_of_files_say_where_data_in_memory_goes(reader, data):
    with pytest.raises(DataError, match=f"^{reader} reads files, not a .*; fit, evaluate"):
        getattr(seqloom, reader)(data)
