"""Tagged sentences: forms, columns, schemes, and what is refused with its line."""

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data import documents
from seqloom.data.recognise import labels_in, tags_in
from seqloom.data.tagging import Tagged, as_tagged, read_tagged
from seqloom.data.tagging_forms import without_tags
from seqloom.errors import ConfigError, DataError

CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
call NN I-NP O

-DOCSTART- -X- O O

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
"""
WORDS = [["EU", "rejects", "German", "call"], ["Peter", "Blackburn"]]
NAMES = [["I-ORG", "O", "I-MISC", "O"], ["I-PER", "I-PER"]]

CONLLU = """# newdoc id = x
# text = Don't go
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVBP\tMood=Imp|Number=Sing\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\tVerbForm=Inf\t0\troot\t_\tSpaceAfter=No
3.1\tgone\tgo\tVERB\tVBN\tNumber=Plur\t_\t_\t_\t_

# text = New York
1\tNew York\tNew York\tPROPN\tNNP\tNumber=Sing\t0\troot\t_\t_
"""


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# ---- forms


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace(" ", "\t"),
        lambda text: text.replace(" ", "   "),
        lambda text: text.replace("\n", " \n"),
        lambda text: "\n\n" + text + "\n \n\n",
    ],
)
def test_conll(tmp_path, change, said):
    data = read_tagged(write(tmp_path / "a.txt", change(CONLL)))
    assert (data.sentences, data.tags, data.scheme, data.name) == (WORDS, NAMES, "iob1", "a.txt")
    assert (len(data), data.n_words, data.tagset) == (2, 6, ["I-MISC", "I-ORG", "I-PER", "O"])
    assert said == []


def test_packed_encoded_and_from_standard_input(tmp_path, monkeypatch):
    expected = read_tagged(write(tmp_path / "a.txt", CONLL.replace("German", "Grüße")))
    text = CONLL.replace("German", "Grüße")
    assert (
        read_tagged(write(tmp_path / "a.txt.gz", gzip.compress(text.encode()))).fingerprint
        == expected.fingerprint
    )
    assert (
        read_tagged(write(tmp_path / "b.txt", text.encode("latin-1")), encoding="latin-1").sentences
        == expected.sentences
    )
    assert (
        read_tagged(write(tmp_path / "c.txt", text.encode("utf-16")), encoding="utf-16").sentences
        == expected.sentences
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    data = read_tagged("-")
    assert (data.sentences, data.tags, data.name) == (expected.sentences, expected.tags, "stdin")
    with pytest.raises(
        DataError, match=r"b\.txt is not UTF-8 text: line 5, byte offset 59 holds 0xFC"
    ):
        read_tagged(tmp_path / "b.txt")


def test_columns_of_conll(tmp_path):
    path = write(tmp_path / "a.txt", CONLL)
    assert read_tagged(path, tag_column=2).tags == [["NNP", "VBZ", "JJ", "NN"], ["NNP", "NNP"]]
    assert read_tagged(path, tag_column=2).scheme is None
    assert (
        read_tagged(path, tag_column="3").tags
        == read_tagged(path, tag_column=-2).tags
        == [["I-NP", "I-VP", "I-NP", "I-NP"], ["I-NP", "I-NP"]]
    )
    with pytest.raises(DataError, match=r"a\.txt has no column 5; it has 4"):
        read_tagged(path, tag_column=5)
    with pytest.raises(
        DataError, match="columns without names; give the number of one, from 1 to 4, not 'ner'"
    ):
        read_tagged(path, tag_column="ner")


def test_conll_keeps_strange_words(tmp_path):
    """Only blanks, tabs and newlines separate; a line may begin with # when it has all columns."""
    words = ["a\u00a0b", "c\u2028d", "e\x0bf", "#", "g\x85"]
    data = read_tagged(
        write(tmp_path / "a.txt", "# id 1\n" + "".join(f"{word} O\n" for word in words))
    )
    assert data.sentences == [words]
    data = read_tagged(
        write(tmp_path / "b.txt", "#begin document\nNew York\tB-LOC\n\n# two\n#\tO\n")
    )
    assert data.sentences == [["New York"], ["#"]]


def test_conllu(tmp_path):
    path = write(tmp_path / "a.conllu", CONLLU)
    data = read_tagged(path)
    assert data.sentences == [["Do", "n't", "go"], ["New York"]]
    assert data.tags == [["AUX", "PART", "VERB"], ["PROPN"]]
    assert data.scheme is None
    assert read_tagged(path, tag_column="xpos").tags == [["VBP", "RB", "VB"], ["NNP"]]
    assert read_tagged(path, tag_column="Number").tags == [["Sing", "_", "_"], ["Sing"]]
    assert read_tagged(path, tag_column="feats").tags[0][0] == "Mood=Imp|Number=Sing"
    assert (
        read_tagged(write(tmp_path / "a.txt", CONLLU.rstrip("\n"))).tags == data.tags
    )  # known by its look
    assert read_tagged(tmp_path / "a.txt", form="conllu").fingerprint == data.fingerprint
    with pytest.raises(
        DataError,
        match=r"has no column or feature 'Numbr'; did you mean 'Number'.* It has lemma, upos, xpos",
    ):
        read_tagged(path, tag_column="Numbr")
    with pytest.raises(DataError, match="has nothing in the column xpos"):
        read_tagged(
            write(tmp_path / "b.conllu", "1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n"), tag_column="xpos"
        )


def test_slash(tmp_path):
    path = write(tmp_path / "a.pos", "The/DT cat/NN and/or/CC ././.\n\n\t1\\/2/CD  //SYM \r\nx/Y")
    data = read_tagged(path)
    assert data.sentences == [["The", "cat", "and/or", "./."], ["1\\/2", "/"], ["x"]]
    assert data.tags == [["DT", "NN", "CC", "."], ["CD", "SYM"], ["Y"]]


words = st.text(st.characters(codec="utf-8", exclude_characters=" \t\r\n"), min_size=1, max_size=5)
tokens = st.tuples(words, st.sampled_from(["B-X", "I-X", "O", "N/A", "V"]))
pairs = st.lists(st.lists(tokens, min_size=1, max_size=4), min_size=1, max_size=4)


@given(pairs, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["\t", " ", "  "]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read(tmp_path_factory, pairs, end, gap, last):
    """Any words in CoNLL columns and behind slashes, whatever the chunks of the file."""
    sentences = [
        [word if not word.startswith(("-DOC", "#", "\ufeff")) else f"x{word}" for word, _ in pair]
        for pair in pairs
    ]
    tags = [[tag for _, tag in pair] for pair in pairs]
    folder = tmp_path_factory.mktemp("forms")
    lines = [
        f"{word}{gap}{tag}" for a, b in zip(sentences, tags) for word, tag in [*zip(a, b), ("", "")]
    ]
    conll = end.join(line.strip(" \t") for line in lines) + end * last
    slash = end.join(
        " ".join(f"{word}/{tag.replace('/', '')}" for word, tag in zip(a, b))
        for a, b in zip(sentences, tags)
    )
    patch = pytest.MonkeyPatch()
    patch.setattr(documents, "CHUNK", 5)
    try:
        data = read_tagged(write(folder / "a.txt", conll), form="conll", scheme="none")
        assert (data.sentences, data.tags) == (sentences, tags)
        data = read_tagged(write(folder / "b.txt", slash), form="slash", scheme="none")
        assert (data.sentences, data.tags) == (
            sentences,
            [[tag.replace("/", "") for tag in row] for row in tags],
        )
    finally:
        patch.undo()


def test_several_files(tmp_path):
    write(tmp_path / "1.txt", "a B-X\n")
    write(tmp_path / "2.txt", "b I-X\nc O")
    data = read_tagged([tmp_path / "1.txt", tmp_path / "2.txt"], scheme="none")
    assert (data.sentences, data.name) == ([["a"], ["b", "c"]], "2 files")
    assert (
        read_tagged(str(tmp_path / "*.txt"), scheme="none").sentences
        == read_tagged(tmp_path, scheme="none").sentences
    )
    with pytest.raises(DataError, match="the list of files is empty"):
        read_tagged([])


# ---- what is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a B\nb\n", r"a\.txt, line 2: 1 column where line 1 has 2"),
        ("\n-DOCSTART- O\n\na X O\n\nb O\n", r"a\.txt, line 6: 2 columns where line 4 has 3"),
        ("a X\nb Y Z\n", r"line 2: 3 columns where line 1 has 2"),
        ("a\nb\n", r"line 1: one column; there must be a word and a tag"),
        ("a\tX\nb\t\n", r"line 2: no tag in column 2"),
        ("a\tX\n\tX\n", r"line 2: no word in column 1"),
        ("", "has no sentence"),
        ("\n \n", "has no sentence"),
        ("-DOCSTART- -X- O O\n\n", "has no sentence"),
        ("a/B c/D\nx/Y z\n", r"line 2: 'z' has no slash; each must be word/TAG"),
        ("a/B c/D e/F\nx/Y /Z\n", r"line 2: '/Z' has no word before the slash"),
        ("a/B c/D e/F\nx/Y z/\n", r"line 2: 'z/' has no tag after the slash"),
    ],
)
def test_bad_files(tmp_path, text, message):
    form = "slash" if "/" in text else "auto"
    with pytest.raises(DataError, match=message):
        read_tagged(write(tmp_path / "a.txt", text), form=form)


def test_bad_conllu(tmp_path):
    with pytest.raises(
        DataError, match=r"a\.conllu, line 9: 3 columns where CoNLL-U has 10, between tabs"
    ):
        read_tagged(write(tmp_path / "a.conllu", CONLLU.replace("# text = New York", "1\ta\tb")))
    with pytest.raises(
        DataError, match=r"line 5: 'two' in the first column, which must number the words"
    ):
        read_tagged(write(tmp_path / "a.conllu", CONLLU.replace("2\tn't", "two\tn't")))
    with pytest.raises(DataError, match="has no sentence"):
        read_tagged(write(tmp_path / "a.conllu", "# nothing\n\n1-2\t" + "\t".join("_" * 9) + "\n"))


def test_bad_arguments(tmp_path):
    path = write(tmp_path / "a.txt", "a/B\n")
    with pytest.raises(
        ConfigError,
        match="form must be one of auto, conll, conllu, slash, lines; got 'conl'; did you mean 'conl",
    ):
        read_tagged(path, form="conl")
    with pytest.raises(DataError, match="has words as word/TAG and no column 2"):
        read_tagged(path, tag_column=2)
    with pytest.raises(ConfigError, match="scheme must be one of"):
        read_tagged(path, scheme="iobes")
    with pytest.raises(DataError, match="no such file"):
        read_tagged(tmp_path / "b.txt")
    with pytest.raises(DataError, match="unknown encoding"):
        read_tagged(path, encoding="utf-9")


# ---- schemes


GOOD = "a B-X\nb I-X\nc O\n\n" * 5


def test_bad_steps_are_counted_and_read(tmp_path, said):
    path = write(tmp_path / "a.txt", GOOD + "d O\ne I-X\n\nf I-Y\n")
    data = read_tagged(path)
    assert data.scheme == "bio"
    assert said == [
        f"warning: {path}, line 22: I-X after O, where a span begins with B-X; 2 such places among 7 spans, "
        "read as conlleval does (scheme bio)"
    ]
    assert data.tags[-2:] == [["O", "I-X"], ["I-Y"]]
    assert data.converted("bio").tags[-2:] == [["O", "B-X"], ["B-Y"]]
    assert data.converted("bioes").tags[0] == ["B-X", "E-X", "O"]
    said.clear()
    assert read_tagged(path, scheme="bio") == data
    assert len(said) == 1


def test_lines_are_right_where_lines_were_left_out(tmp_path, said):
    text = (
        CONLLU.replace("AUX", "O")
        .replace("PART", "I-X")
        .replace("VERB", "O")
        .replace("PROPN", "B-X")
    )
    read_tagged(write(tmp_path / "a.conllu", text + "\n" + text.replace("I-X", "B-X")))
    assert said[0].startswith(f"warning: {tmp_path}/a.conllu, line 5: I-X after O")


def test_a_declared_scheme_must_fit(tmp_path, said):
    path = write(tmp_path / "a.txt", CONLL)
    with pytest.raises(
        DataError,
        match=r"a\.txt, line 3: I-ORG after O, .*; 3 such places among 3 spans: .* not in bio, the "
        r"declared scheme; they look like iob1 \(scheme='iob1'\)$",
    ):
        read_tagged(path, scheme="bio")
    with pytest.raises(
        DataError,
        match=r"line 3: NNP is not a tag of bio, the declared scheme; the tags look like plain ones",
    ):
        read_tagged(path, tag_column=2, scheme="bio")
    bioes = write(tmp_path / "b.txt", GOOD + "d B-X\ne E-X\n")
    with pytest.raises(
        DataError, match=r"b\.txt, line 22: E-X is not a tag of iob1, .* look like bioes"
    ):
        read_tagged(bioes, scheme="iob1")
    with pytest.raises(DataError, match=r"c\.txt, line 3: I-X before O, where its span needs E-X"):
        read_tagged(write(tmp_path / "c.txt", GOOD), scheme="bioes")
    assert read_tagged(path, scheme="none").scheme is None
    assert read_tagged(path, scheme=None).scheme is None
    assert said == []


BIO, IOB1, BIOES = (
    "a B-X\nb I-X\nc O\n\n",
    "a I-X\nb I-X\nc O\n\n",
    "a B-X\nb E-X\nc O\n\nd S-X\n\n",
)


@pytest.mark.parametrize(
    ("text", "scheme", "place", "count"),
    [
        (
            BIO * 3 + IOB1,
            "bio",
            "line 13: I-X after O, where a span begins with B-X",
            "1 such place among 4",
        ),
        (IOB1 * 3 + BIO, "iob1", "line 13: B-X after O", "1 such place among 4"),
        (BIO * 2 + IOB1 * 2, "bio", "line 9: I-X after O", "2 such places among 4"),
        (
            BIOES * 3 + BIO,
            "bioes",
            "line 21: I-X before O, where its span needs E-X",
            "1 such place among 7",
        ),
        (BIO + BIOES, "bioes", "line 3: I-X before O", "1 such place among 3"),
        (IOB1 + BIOES + BIO, "bioes", "line 1: I-X after O", "3 such places among 4"),
    ],
)
def test_schemes_mixed_in_one_file_lose_no_span(tmp_path, said, text, scheme, place, count):
    """The scheme is the one that fewest tags break, bioes where E or S occur; the first place that
    breaks it is said.
    """
    path = write(tmp_path / "a.txt", text)
    data = read_tagged(path)
    assert data.scheme == scheme
    assert len(said) == 1
    assert said[0].startswith(f"warning: {path}, {place}")
    assert said[0].endswith(f"; {count} spans, read as conlleval does (scheme {scheme})")
    right = [["B-X"] if words == ["d"] else ["B-X", "I-X", "O"] for words in data.sentences]
    assert data.converted("bio").tags == right


# ---- in memory


def test_of():
    data = Tagged.of([(["a", "b"], ["B-X", "I-X"]), ((), ()), (("c",), ("O",))], name="mine")
    assert data == Tagged([["a", "b"], [], ["c"]], [["B-X", "I-X"], [], ["O"]], "mine", "bio")
    assert Tagged.of([(["a"], ["N"])]).scheme is None
    for rows in ([2], slice(2, 3), np.array([False, False, True])):
        assert (data.part(rows).sentences, data.part(rows).tags) == ([["c"]], [["O"]])
    assert data.converted("iob1").tags == [["I-X", "I-X"], [], ["O"]]
    assert data.converted("iob1").scheme == "iob1"
    assert data.tags[0] == ["B-X", "I-X"]
    with pytest.raises(
        DataError, match="the tags of sentences mark no spans, so they cannot be written in bio"
    ):
        Tagged.of([(["a"], ["N"])]).converted("bio")
    with pytest.raises(ConfigError, match="scheme must be one of"):
        data.converted("x")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(["a", "b"], ["N"])], "sentence 1 of sentences has 2 words and 1 tags"),
        ([(["a"], ["N"]), "ab"], "sentence 2 of sentences must be a pair of lists"),
        ([("a", "N")], "must be a pair of lists"),
        ([(["a"], [1])], "sentence 1 of sentences holds 1; words and tags must be text"),
        ([(["\ud800"], ["N"])], "half of a surrogate pair"),
        ([], "has no sentence"),
    ],
)
def test_bad_pairs(pairs, message):
    with pytest.raises(DataError, match=message):
        Tagged.of(pairs)


def test_bad_scheme_in_memory():
    with pytest.raises(DataError, match="sentence 2 of sentences: S-X is not a tag of bio"):
        Tagged.of([(["a"], ["B-X"]), (["b"], ["S-X"])], scheme="bio")


def test_fingerprint():
    base = Tagged.of([(["a", "b"], ["N", "V"])])
    assert base.fingerprint == Tagged.of([(["a", "b"], ["N", "V"])], name="other").fingerprint
    others = [
        Tagged.of([(["ab"], ["NV"])]),
        Tagged.of([(["a", "b"], ["V", "N"])]),
        Tagged.of([(["a"], ["N"]), (["b"], ["V"])]),
        Tagged.of([(["a", "c"], ["N", "V"])]),
        Tagged.of([(["a", "b"], ["NV", ""])]),
    ]
    assert len({data.fingerprint for data in [base, *others]}) == 6
    assert len(base.fingerprint) == 64


def test_as_tagged(tmp_path):
    data = Tagged.of([(["a"], ["N"])])
    assert as_tagged(data) is data
    assert as_tagged([(["a"], ["N"])]) == data
    assert as_tagged(write(tmp_path / "a.txt", "a N\n")).sentences == [["a"]]
    assert (
        as_tagged(iter([(["a"], ["N"])]))
        == as_tagged([["a"]], [["N"]])
        == as_tagged(iter([["a"]]), iter([["N"]]))
        == data
    )
    assert as_tagged(np.array([["a", "b"]]), np.array([["N", "V"]])).sentences == [["a", "b"]]
    for wrong in ({"a": "N"}, b"a", 3, "a N"):
        with pytest.raises(
            DataError, match=r"cannot read tags from a .*; give sentences and their tags, a list"
        ):
            as_tagged(wrong)
    with pytest.raises(DataError, match="has tags of its own"):
        as_tagged(data, [["N"]])
    with pytest.raises(DataError, match="sentences has 2 sentences and the tags of 1"):
        as_tagged([["a"], ["b"]], [["N"]])
    for name in (str(tmp_path / "a.txt"), "missing.conllu"):
        with pytest.raises(DataError, match=r"looks like a file name.*seqloom\.read_tagged"):
            as_tagged(name)


def test_badly_encoded_files_of_a_directory_are_skipped(tmp_path, said):
    (tmp_path / "d").mkdir()
    write(tmp_path / "d" / "a.conll", "Zoe N\nruns V\n")
    write(tmp_path / "d" / "b.conll", "Zoë N\n".encode("latin-1"))
    assert len(read_tagged(tmp_path / "d", form="conll")) == 1
    assert said == [f"{tmp_path}/d: skipped 1 file: not valid UTF-8 (b.conll)"]
    with pytest.raises(DataError, match=r"b\.conll is not UTF-8 text"):
        read_tagged(tmp_path / "d", form="conll", strict=True)


@pytest.mark.parametrize(
    "text",
    ["text\tlabel\ngood\tpos\ndull\tneg\n", "a good film\tpos\ndull\tneg\nso so\tneg\n"],
    ids=["header", "several words"],
)
def test_texts_with_labels_are_no_words_with_tags(tmp_path, text):
    path = write(tmp_path / "a.tsv", text)
    with pytest.raises(
        DataError,
        match=r"a\.tsv looks like texts with labels, .*Fit a classifier, or give form='conll'",
    ):
        read_tagged(path)
    assert read_tagged(path, form="conll").n_words == 3


# ---- words and tags line by line

LINES = "to New York\tO B-city I-city\nhello\tO\n\n#1 from Rome\tO O B-city\n"
LINE_WORDS = [["to", "New", "York"], ["hello"], ["#1", "from", "Rome"]]
LINE_TAGS = [["O", "B-city", "I-city"], ["O"], ["O", "O", "B-city"]]


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.iob", "atis", "a.txt.gz"])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace(" ", "  ").replace("\t", " \t "),
        lambda text: text.replace("\n", " \n").rstrip("\n"),
        lambda text: "\ufeffSentence\ttags\n" + text,
    ],
)
def test_words_a_tab_and_tags(tmp_path, name, change, said):
    text = change(LINES).encode()
    data = read_tagged(write(tmp_path / name, gzip.compress(text) if ".gz" in name else text))
    assert (data.sentences, data.tags, data.scheme) == (LINE_WORDS, LINE_TAGS, "bio")
    assert said == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a b c\tO O O\nd e f\tO O O\ng h\tO\n",
            r"a\.txt, line 3: 2 words and 1 tag; a line must",
        ),
        ("a b c\tO B-x\n", r"a\.txt, line 1: 3 words and 2 tags; a line must have words, a tab"),
        ("a b c\tO O O\nd e\tO O\ng h\n", r"a\.txt, line 3: no tab; a line must have words, a tab"),
        ("a b c\tO O O\nd e\tO O\na b\tO O\tx\n", r"a\.txt, line 3: 2 tabs"),
        ("a b\tB-x B-x\nd e f\tO I-x B-y\n d\tB-x\n", None),
        ("good fun\t+\nso dull\t-\n", "looks like texts with labels"),
    ],
)
def test_bad_lines(tmp_path, text, message, said):
    path = write(tmp_path / "a.txt", text)
    if message is None:
        assert read_tagged(path).tags[2] == ["B-x"]
        assert "a.txt, line 2: I-x after O" in said[0]
        return
    with pytest.raises(DataError, match=message):
        read_tagged(path)
    with pytest.raises(DataError, match="no column '2'"):
        read_tagged(path, form="lines", tag_column="2")


def sides(tmp_path, names=("seq.in", "seq.out"), text=LINES):
    rows = [line.split("\t") if line else ["", ""] for line in text.split("\n")]
    return [
        write(tmp_path / name, "\n".join(row[side] for row in rows))
        for side, name in enumerate(names)
    ]


@pytest.mark.parametrize("names", [("seq.in", "seq.out"), ("words.txt", "tags.txt")])
def test_a_file_of_words_and_one_of_tags(tmp_path, names, said):
    both = sides(tmp_path, names)
    for data in (read_tagged(both), as_tagged(tuple(both)), read_tagged(both, form="lines")):
        assert (data.sentences, data.tags, data.scheme) == (LINE_WORDS, LINE_TAGS, "bio")
        assert data.name == names[0]
    assert said == []
    assert (
        tags_in(tuple(both))
        == f"{names[1]} has as many tags, such as B-city, as {names[0]} has words"
    )
    with pytest.raises(DataError, match=f"{names[1]} holds tags; give the file of the words first"):
        read_tagged(both[::-1])
    with pytest.raises(DataError, match="line 2: 1 column where"):
        read_tagged([both[0]] * 2)  # the words twice
    with pytest.raises(DataError, match="a list has tags of its own"):
        as_tagged(both, [["O"]])


def test_files_of_sentences_of_one_length_are_no_columns(tmp_path):
    words, tags = sides(tmp_path, text="to Rome\tO B-city\nfrom Bern\tO B-city\n" * 3)
    data = read_tagged([words, tags])
    assert data.sentences == [["to", "Rome"], ["from", "Bern"]] * 3
    assert data.tags == [["O", "B-city"]] * 6
    with pytest.raises(DataError, match="holds tags; give the file of the words first"):
        read_tagged([tags, words])
    write(tags, "O B-city\n" * 5)
    with pytest.raises(DataError, match=r"line 6: 2 words in .*, but 0 tags in"):
        read_tagged([words, tags])


def test_files_of_words_and_tags_that_do_not_match(tmp_path):
    words, tags = sides(tmp_path)
    write(tags, tags.read_text().replace("O O B-city", "O B-city"))
    with pytest.raises(
        DataError, match=r"line 4: 3 words in .*seq\.in, but 2 tags in .*seq\.out; there"
    ):
        read_tagged([words, tags])
    write(tags, "O B-city I-city\nO\n")
    with pytest.raises(DataError, match=r"line 4: 3 words in .*seq\.in, but 0 tags in"):
        read_tagged([words, tags], form="lines")
    for empty in (words, tags):
        write(empty, "\n")
    with pytest.raises(DataError, match="has no sentence"):
        read_tagged([words, tags], form="lines")


def test_two_files_of_another_form_are_read_one_after_the_other(tmp_path):
    for text in (CONLL, CONLLU, "the/D dog/N\na/D\n", LINES):
        both = [write(tmp_path / name, text) for name in ("a.x", "b.x")]
        one = read_tagged(both[0])
        assert read_tagged(both).tags == one.tags * 2
        assert not tags_in(tuple(both))


def test_lines_are_recognised_only_by_clear_signs(tmp_path):
    def found(name, text):
        return [bool(tags_in(write(tmp_path / name, text))), bool(labels_in(tmp_path / name))]

    tags = "".join(f"flight {i} to Rome\tO O O B-city\n" for i in range(9))
    assert found("a.tsv", tags) == [True, False]  # the tags come again and again, as labels do
    assert found("a.tsv", tags.replace("B-city", "N")) == [True, False]
    assert found("a.txt", tags) == [False, False]
    assert found("a.tsv", "".join(f"{i} b c\tun deux {i}\n" for i in range(9))) == [False, False]
    assert found("a.tsv", "3 1 2\t2 1 3\n2 3 1\t1 3 2\n" * 5) == [False, False]  # reversed
    assert found("a.tsv", "".join(f"good {i}\tx\nbad {i}\ty\n" for i in range(9))) == [False, True]
    same = [write(tmp_path / name, "a b\nc d e\n" * 4) for name in ("t.en", "t.de")]
    assert not tags_in(tuple(same))


def test_tags_of_lines_are_left_out_where_they_are_known():
    assert without_tags("to New York\tO B-city I-city", {"O", "B-city"}) == "to New York"
    for line in ("to New York\tO O", "to Rome\tand back", "a\tb\tO", "to Rome"):
        assert without_tags(line, {"O", "B-city"}) == line
