"""Files of word vectors: round trips through gensim and fastText, every form by its content, and
what is refused.
"""

import gzip
import struct
import sys

import numpy as np
import pytest

import seqloom
import seqloom.interop.vectors as module
from seqloom.data.vector_files import sniff_vectors, vectors_instead_of_text
from seqloom.errors import ConfigError, DataError
from seqloom.interop.fasttext import convert_fasttext, read_fasttext
from seqloom.interop.vectors import read_vectors, write_vectors
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.registry import model_class
from tests.golden import fasttext_models, gensim_answers
from tests.golden.fasttext_models import QUANTISED, SUPERVISED, UNSUPERVISED

WORDS = ["the", "naïve", "日本", "1998", "</s>", "it's", "nan", "0.5", "-", "\u00a0"]
FORMS = ["word2vec", "word2vec-binary", "glove", "fasttext"]


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(2)
    words = WORDS + [f"word{i}" for i in range(300)]
    matrix = (
        rng.normal(size=(len(words), 7)) * 10.0 ** rng.integers(-12, 12, (len(words), 1))
    ).astype(np.float32)
    return WordVectors.of(words, matrix)


def same(found, wanted):
    return (
        list(found.words) == list(wanted.words)
        and found.matrix.tobytes() == wanted.matrix.tobytes()
    )


# ---- word2vec, GloVe, .vec


@pytest.mark.parametrize("form", FORMS)
def test_written_and_read_to_the_bit(vectors, tmp_path, form):
    path = tmp_path / "name.says.nothing"
    write_vectors(vectors, path, form)
    assert same(read_vectors(path), vectors)
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert same(read_vectors(packed), vectors)
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".partial")] == []


@pytest.mark.parametrize("form", ["word2vec", "glove", "fasttext"])
def test_text_without_polars(vectors, tmp_path, form, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    write_vectors(vectors, tmp_path / "v", form)
    assert same(read_vectors(tmp_path / "v"), vectors)


@pytest.mark.parametrize("form", FORMS)
def test_gensim_reads_what_we_write(vectors, tmp_path, form):
    part = vectors.subset(
        [word for word in vectors.words if word != "\u00a0"]
    )  # gensim takes it for white space
    write_vectors(part, tmp_path / "v", form)
    words, matrix = gensim_answers.read(tmp_path / "v", form)
    assert words == list(part.words)
    assert matrix.tobytes() == part.matrix.tobytes()


@pytest.mark.parametrize("form", FORMS)
def test_we_write_what_gensim_has_read(tmp_path, form):
    """Byte for byte the file that gensim has read to the bit."""
    known = read_vectors(gensim_answers.HOME / "vectors.bin")
    write_vectors(
        known.subset([word for word in known.words if word != "\u00a0"]), tmp_path / "v", form
    )
    assert gensim_answers.digest(tmp_path / "v") == gensim_answers.recorded()["read"][form]


@pytest.mark.parametrize(
    ("name", "options"), [("word2vec", {}), ("fasttext", {"buckets": 1000}), ("glove", {})]
)
def test_gensim_reads_what_we_trained(tmp_path, name, options):
    KeyedVectors = pytest.importorskip("gensim.models").KeyedVectors
    model = model_class(name)(dimensions=6, min_count=1, epochs=2, **options)
    model.fit(["the naïve cat sat on the 日本 mat", "a dog sat on the cat"] * 20)
    for form in ("word2vec", "word2vec-binary"):
        write_vectors(model.vectors, tmp_path / "v", form)
        peer = KeyedVectors.load_word2vec_format(
            str(tmp_path / "v"), binary=form == "word2vec-binary"
        )
        assert peer.index_to_key == list(model.vectors.words)
        assert peer.vectors.tobytes() == model.vectors.matrix.tobytes()
        assert peer["naïve"].tolist() == model.embed("naïve").tolist()
        assert np.ptp(peer.vectors) > 0


@pytest.mark.parametrize("binary", [True, False])
def test_we_read_what_gensim_writes(vectors, tmp_path, binary):
    gensim_answers.write(vectors.words, vectors.matrix, tmp_path / "v", binary)
    assert same(read_vectors(tmp_path / "v"), vectors)


def test_we_read_what_gensim_has_written():
    """Its text is the shortest that tells the float32 apart, so both files hold the same bits."""
    text, binary = (
        read_vectors(gensim_answers.HOME / name) for name in ("vectors.txt", "vectors.bin")
    )
    assert list(text.words) == list(binary.words) == gensim_answers.WORDS
    assert text.matrix.tobytes() == binary.matrix.tobytes()
    raw, at = (gensim_answers.HOME / "vectors.bin").read_bytes(), 0
    for word, row in zip(binary.words, binary.matrix):  # the last bytes of each entry
        at = raw.index(word.encode() + b" ", at) + len(word.encode()) + 1
        assert row.tobytes() == raw[at : at + 28]
        at += 28


def test_binary_with_and_without_newlines(vectors, tmp_path):
    """The tool of 2013 wrote a newline after each vector; Google's own large file has none."""
    write_vectors(vectors, tmp_path / "v", "word2vec-binary")
    raw = f"{len(vectors)} 7\n".encode() + b"".join(
        word.encode() + b" " + row.tobytes() for word, row in zip(vectors.words, vectors.matrix)
    )
    assert len(raw) == (tmp_path / "v").stat().st_size - len(vectors)
    (tmp_path / "google").write_bytes(raw)
    assert same(read_vectors(tmp_path / "google"), vectors)


def test_pieces_of_a_file_are_parsed_alike(vectors, tmp_path, monkeypatch):
    for form in ("glove", "word2vec"):
        write_vectors(vectors, tmp_path / form, form)
        for size in (1, 50, 1000):
            monkeypatch.setattr(module, "PIECE", size)
            assert same(read_vectors(tmp_path / form), vectors)


def test_glove_words_with_blanks(tmp_path):
    path = tmp_path / "v"
    path.write_text("the 1 2 3\n. . . 4 5 6\nof 7 8 9\nat name@domain.com 1 1 1\nto 2 2 2\n")
    found = read_vectors(path)
    assert list(found.words) == ["the", ". . .", "of", "at name@domain.com", "to"]
    assert found[". . ."].tolist() == [4, 5, 6]
    write_vectors(found, path, "glove")
    assert same(read_vectors(path), found)
    for form in ("word2vec", "word2vec-binary", "fasttext"):
        with pytest.raises(DataError, match=r"the word '\. \. \.' contains a space"):
            write_vectors(found, path, form)


@pytest.mark.parametrize("ending", ["", "\n", "\n\n \n", "\r\n"])
def test_ends_of_files(tmp_path, ending):
    (tmp_path / "v").write_bytes(f"a 1 2\nb 3 4{ending}".encode())
    assert read_vectors(tmp_path / "v").matrix.tolist() == [[1, 2], [3, 4]]


def test_bytes_that_are_not_utf8_survive(tmp_path):
    (tmp_path / "v").write_bytes(b"2 2\nab\xff 1 2\ncd 3 4\n")
    found = read_vectors(tmp_path / "v")
    write_vectors(found, tmp_path / "w")
    assert (tmp_path / "w").read_bytes().startswith(b"2 2\nab\xff 1")
    assert found[found.words[0]].tolist() == [1, 2]


def test_a_word_that_stands_twice_keeps_its_first_vector(tmp_path):
    from seqloom import progress

    said = []
    reporter = type(
        "Reporter",
        (),
        {
            "begin": lambda *a: progress._Silent(),
            "end": lambda *a: None,
            "say": lambda self, message: said.append(message),
        },
    )()
    (tmp_path / "v").write_text("a 1 2\nb 3 4\na 5 6\nc 7 8\n")
    with progress.reporting(reporter):
        found = read_vectors(tmp_path / "v")
    assert list(found.words) == ["a", "b", "c"]
    assert found.matrix.tolist() == [[1, 2], [3, 4], [7, 8]]
    assert said
    assert "skipped 1 repeated word, such as 'a'" in said[0]


def test_our_own_directory_is_read_too(vectors, tmp_path):
    vectors.save(tmp_path / "v")
    assert same(read_vectors(tmp_path / "v"), vectors)


# ---- what a file is


@pytest.mark.parametrize("dimensions", [50, 100, 300])
def test_the_first_bytes_of_a_long_vector_file_are_enough(tmp_path, dimensions):
    many = WordVectors.of(
        [f"w{i}" for i in range(99)], np.random.default_rng(0).normal(size=(99, dimensions))
    )
    write_vectors(many, tmp_path / "v", "glove")
    with open(tmp_path / "v", "rb") as file:
        assert vectors_instead_of_text(file.read(8192))  # cut in the middle of a line


def test_a_vector_file_is_told_from_a_text(vectors, tmp_path):
    wide = WordVectors.of(["a", "b", "c"], np.random.default_rng(0).normal(size=(3, 50)))
    for form in FORMS:
        write_vectors(wide, tmp_path / "v", form)
        assert vectors_instead_of_text((tmp_path / "v").read_bytes())
    for text in (
        b"",
        b"to be or not to be\n",
        b"12 34\nan invoice of 1998\n",
        b"1 2 3\n4 5 6\n",
        b"3 4\n1 2\n",
        b"3 1\n1 2\n4 5\n",
        b"chapter 1\nchapter 2\n",
        b"the 1 2 3\nand so on\n",
        b"".join(b" ".join(b"%d" % (i * j % 97) for j in range(20)) + b"\n" for i in range(9)),
    ):  # walks in a graph
        assert vectors_instead_of_text(text) is None
    assert sniff_vectors(b"the 1 2 3\nand so on\n") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"It was the best of times, it was the worst of times\n", "not a file of word vectors"),
        (b"\x80\x04\x95abc", "pickle, as gensim's save.*save_word2vec_format"),
        (b"PK\x03\x04", "zip archive"),
        (b"\x93NUMPY\x01", "NumPy array without words"),
        (b"\x1f\x8b\x08broken", "cannot be read or damaged"),
        (
            b"3 2\na 1 2\nb 3 4\n",
            "first line says 3 words, but 2 lines follow; the file is cut off",
        ),
        (
            b"1 2\na 1 2\nb 3 4\n",
            "first line says 1 words, but 2 lines follow; there is something behind",
        ),
        (b"3 2\na 1 2\nb 3\nc 5 6\n", "v, line 3: expected a word and 2 numbers; got 'b 3'"),
        (b"a 1 2\nb 3 nan\n", r"vector of 'b' \(row 1\) has a value that is not a finite number"),
        (b"a 1 2\nb 3 1e39\n", "vector of 'b'"),
        (b"a 1 2\nb 3 -1e30\n", r"vector of 'b' \(row 1\) is too long"),
        (b"5 4\na \x00\x00\x80\x3f", "cut off: 5 words of 4 dimensions take at least 94 bytes"),
        (
            b"2 1\nlongword \x00\x00\x80\x3fanotherlongword \x00",
            "cut off: the first line says 2 words, it holds 1",
        ),
        (b"1 1\na \x00\x00\x80\x3f\nabcdef", "7 bytes follow the 1 words"),
    ],
)
def test_bad_files(tmp_path, content, message):
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_vectors(tmp_path / "v")
    assert "\n" not in str(caught.value)


def test_other_refusals(vectors, tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_vectors(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="form must be one of"):
        write_vectors(vectors, tmp_path / "v", "csv")
    with pytest.raises(DataError, match="cannot be written"):
        write_vectors(vectors, tmp_path / "no" / "v")
    with pytest.raises(DataError, match="contains a newline"):
        write_vectors(WordVectors.of(["a\nb"], [[1.0]]), tmp_path / "v", "glove")
    (tmp_path / "packed").write_bytes(gzip.compress((793712314).to_bytes(4, "little") + bytes(100)))
    with pytest.raises(DataError, match="unpack it first"):
        read_vectors(tmp_path / "packed")
    late = tmp_path / "late"
    late.write_text("".join(f"w{i} 1 2\n" for i in range(20_000)) + "w 1\n")
    with pytest.raises(DataError, match=r"line 20,001: expected a word and 2 numbers; got 'w 1'"):
        read_vectors(late)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "3 2\na 1 2 3\nb 1 2 3\nc 3 4 5\n",
            "line 2: 'a 1' stands before 2 numbers; most lines have more",
        ),
        (
            "3 4\na 1 2 3\nb 1 2 3\nc 3 4 5\n",
            "line 2: expected a word and 4 numbers; got 'a 1 2 3'",
        ),
        (
            "99999999999 300\na 1 2 3\n",
            "the first line says 99,999,999,999 words, but 1 lines follow",
        ),
        ("a 1 2\nb 1 x\nc 3 4\n", "line 2: expected a word and 2 numbers; got 'b 1 x'"),
    ],
)
def test_lines_that_do_not_fit_the_others_are_named(tmp_path, text, message):
    (tmp_path / "v").write_text(text)
    with pytest.raises(DataError, match=message):
        read_vectors(tmp_path / "v")


@pytest.mark.parametrize("form", ["glove", "word2vec"])
def test_a_phrase_may_end_in_a_number(tmp_path, monkeypatch, form):
    said = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    lines = "a 1 2\nroute 66 1 2\nto infinity 3 4\nb 3 4\n"
    (tmp_path / "v").write_text(lines if form == "glove" else f"4 2\n{lines}")
    assert list(read_vectors(tmp_path / "v").words) == ["a", "route 66", "to infinity", "b"]
    assert said == [
        f"{tmp_path / 'v'}, line {2 + (form == 'word2vec')}: 'route 66' stands before 2 numbers "
        f"and was taken as "
        "one word, 1 more like it"
    ]


def test_a_text_that_begins_with_a_table_is_a_text():
    row = b" ".join(b"%.1f" % (i / 3) for i in range(12))
    assert (
        vectors_instead_of_text(
            b"Mean temperatures\n" + b"January " + row + b"\nFebruary " + row + b"\n" * 3
        )
        is None
    )
    assert (
        vectors_instead_of_text(b"2024 15\nJanuary " + row + b"\nFebruary " + row + b"\n") is None
    )
    assert vectors_instead_of_text(b"January " + row + b"\nFebruary " + row + b"\n") is not None


@pytest.mark.parametrize("text", ["a 1 2\nb c 3 4\n", "2 2\na 1 2\nb 3 4\n"])
def test_a_mark_of_the_byte_order_is_no_part_of_a_word(tmp_path, text):
    (tmp_path / "v").write_text(text, encoding="utf-8-sig")
    found = read_vectors(tmp_path / "v")
    assert found.words[0] == "a"
    assert found.matrix.tolist() == [[1, 2], [3, 4]]


# ---- fastText's model files


@pytest.fixture(params=["recorded", "live"])
def model_of(request, tmp_path):
    """A model of fastText's by its name, with its file: as it was once trained, and trained now
    where fastText is installed.
    """
    return (
        fasttext_models.recorded
        if request.param == "recorded"
        else lambda name: fasttext_models.train(name, tmp_path)
    )


def agrees(model, path, words=("moonlight", "catsat", "日本日", "é", "zzz")):
    """Every word's vector, also of words that were not in the text, and both matrices."""
    file = read_fasttext(path)
    found = read_vectors(path)
    assert [word for word in found.words] == model.get_words()
    for word in found.words:
        assert found[word] == pytest.approx(model.get_word_vector(word), rel=1e-5, abs=1e-7), word
    assert file.unseen(words) == pytest.approx(
        np.array([model.get_word_vector(word) for word in words]), rel=1e-5, abs=1e-7
    )
    return file


@pytest.mark.parametrize("name", ["skipgram", "cbow", "no-ngrams", "single-letters"])
def test_unsupervised_models(model_of, name):
    model, path = model_of(name)
    file = agrees(model, path)
    assert file.labels == []
    assert file.options["model"] == UNSUPERVISED[name]["model"]
    words, counts = model.get_words(include_freq=True)
    found = read_vectors(path)
    assert found.counts.tolist() == counts.tolist()
    assert found.knows("neverseen") == (file.options["maxn"] > 0)
    if found.knows("neverseen"):
        assert found.embed("neverseen") == pytest.approx(
            model.get_word_vector("neverseen"), abs=1e-6
        )  # by its n-grams
    assert file.output.rows(np.arange(len(words))) == pytest.approx(model.get_output_matrix())


@pytest.mark.parametrize("name", ["skipgram", "single-letters", "tree"])
def test_an_unsupervised_model_converted_has_unseen_words_and_learns_further(
    model_of, tmp_path, name
):
    model, path = model_of(name)
    convert_fasttext(path).save(tmp_path / "ours")
    ours = seqloom.load(tmp_path / "ours")
    words = [*model.get_words(), "moonlight", "日本日", "é"]
    assert ours.rows(words) == pytest.approx(
        np.array([model.get_word_vector(word) for word in words]), rel=1e-5, abs=1e-7
    )
    assert ours.config.loss == UNSUPERVISED[name].get("loss", "ns")
    assert ours.parameters > 60 * 4
    before, table = ours.embed("cats"), ours.input.copy()
    ours.partial_fit(["the zebra sat on the cats"] * 40)
    assert {"zebra", "cats", "日本"} <= set(ours.words)
    assert 0 < np.abs(ours.embed("cats") - before).max() < 0.5
    for word in ("日本", "</s>"):  # which the new text does not have
        assert (ours.input[ours.words.find([word])[0]] == table[model.get_word_id(word)]).all()
    assert ours.embed("</s>") == pytest.approx(
        model.get_word_vector("</s>")
    )  # it has no n-grams that could have changed


@pytest.mark.parametrize("name", ["min-count-0", "epoch-0", "window-0", "sample-2", "label"])
def test_options_of_other_ranges_do_not_hinder_a_conversion(model_of, name):
    model, path = model_of(name)
    ours = convert_fasttext(path)
    assert ours.embed("catsat") == pytest.approx(
        model.get_word_vector("catsat"), rel=1e-5, abs=1e-7
    )
    assert len(ours.counts) == len(ours.words)


def test_what_has_no_rows_of_its_own_is_converted_to_words(model_of, monkeypatch):
    said = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    assert convert_fasttext(model_of("word-ngrams")[1]).name == "vectors"
    assert "only the vectors of its" in said.pop()
    for none in ("no-ngrams", "no-lengths"):
        assert convert_fasttext(model_of(none)[1]).name == "vectors"
    assert not said


@pytest.mark.parametrize("name", SUPERVISED)
def test_supervised_models(model_of, name):
    model, path = model_of(name)
    file = agrees(model, path)
    assert [label.decode() for label in file.labels] == model.get_labels()
    assert file.options["loss"] == SUPERVISED[name].get("loss", "softmax")


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_models(model_of, name):
    model, path = model_of(name)
    file = agrees(model, path)
    assert (file.pruned is not None) == ("cutoff" in QUANTISED[name])
    assert type(file.input).__name__ == "Quantised"
    assert type(file.output).__name__ == ("Quantised" if "qout" in QUANTISED[name] else "Dense")


def test_a_cut_model_file_is_refused_wherever_it_is_cut(tmp_path):
    raw = fasttext_models.recorded("word-ngrams")[1].read_bytes()
    for size in (*range(4, 200, 7), 250, len(raw) // 2, len(raw) - 200, len(raw) - 1):
        (tmp_path / "cut").write_bytes(raw[:size])
        with pytest.raises(DataError, match=r"cut: .*(the file is cut off|damaged)"):
            read_vectors(tmp_path / "cut")


@pytest.mark.parametrize(
    ("at", "form", "value", "message"),
    [
        (4, "<i", 99, "version 99"),
        (8, "<i", -5, "options make no sense"),
        (8, "<i", 9, "input matrix is .* ask for"),
        (40, "<i", 100_000, "input matrix is"),
        (64, "<i", 3, "do not make 3 entries"),
    ],
)
def test_damaged_model_files(tmp_path, at, form, value, message):
    raw = bytearray(fasttext_models.recorded("skipgram")[1].read_bytes())
    struct.pack_into(form, raw, at, value)
    (tmp_path / "m.bin").write_bytes(raw)
    with pytest.raises(DataError, match=message):
        read_fasttext(tmp_path / "m.bin")


def fnv(data):
    h = 2166136261
    for byte in data:
        h = ((h ^ (byte | 0xFFFFFF00 if byte >= 128 else byte)) * 16777619) & 0xFFFFFFFF
    return h


def test_character_ngrams_without_fasttext():
    """The slow way over Python strings; the counts of running, runner and runs are the documents',
    less the word itself.
    """
    from seqloom.kernels.features import ngram_buckets
    from seqloom.text.vocabulary import padded

    words = ["running", "runner", "runs", "日本é", "", "a"]
    for low, high in ((3, 6), (1, 3), (2, 2)):
        wanted = []
        for word in words:
            framed = f"<{word}>"
            wanted.append(
                [
                    fnv(framed[i : i + n].encode()) % 1000
                    for i in range(len(framed))
                    for n in range(low, high + 1)
                    if i + n <= len(framed) and not (n == 1 and (i == 0 or i + n == len(framed)))
                ]
            )
        spelled = [word.encode() for word in words]
        offsets = np.concatenate([[0], np.cumsum([len(s) for s in spelled])]).astype(np.int64)
        found, ends = ngram_buckets(padded(b"".join(spelled)), offsets, low, high, 1000)
        assert [part.tolist() for part in np.split(found, ends[:-1])] == wanted
        if (low, high) == (3, 6):
            assert [len(part) for part in wanted[:3]] == [22, 18, 10]


def test_glove_does_not_count_its_unknown_word(tmp_path):
    """`glove -write-header 1` says V and writes V + 1 lines."""
    path = tmp_path / "v.txt"
    path.write_text("2 3\na 1 2 3\nb 4 5 6\n<unk> 7 8 9\n")
    assert list(read_vectors(path).words) == ["a", "b", "<unk>"]
    path.write_text("2 3\na 1 2 3\nb 4 5 6\nc 7 8 9\n")
    with pytest.raises(DataError, match="something behind"):
        read_vectors(path)
