"""The commands for word vectors: convert, nearest, analogy, embed, evaluate."""

import gzip
import sys

import numpy as np
import pytest

from seqloom import load
from tests.golden import fasttext_models

ROWS = {
    "king": "1 1 0 0",
    "queen": "1 0 1 0",
    "man": "0 1 0 0.1",
    "woman": "0 0 1 0.1",
    "bread": "0 0 0 1",
    "cake": "0 0.1 0 1",
}


@pytest.fixture
def vectors(tmp_path):
    (tmp_path / "v.txt").write_text(
        "".join(f"{word} {numbers}\n" for word, numbers in ROWS.items())
    )
    return tmp_path / "v.txt"


def test_a_file_becomes_a_model_and_a_file_again(seqloom, vectors, tmp_path):
    assert "6 words, 4 dimensions" in seqloom("convert", "v.txt", "saved").out
    assert load(tmp_path / "saved")["king"].tolist() == [1, 1, 0, 0]
    seqloom("convert", "saved", "w.bin", "--form", "word2vec-binary")
    assert seqloom("convert", "w.bin", "again", "--json").json()[0]["words"] == 6
    assert (load(tmp_path / "again").matrix == load(tmp_path / "saved").matrix).all()


@pytest.mark.parametrize("name", ["word2vec", "fasttext"])
def test_gensim_reads_what_was_trained_and_converted(seqloom, tmp_path, name):
    KeyedVectors = pytest.importorskip("gensim.models").KeyedVectors
    (tmp_path / "text").write_text("the naïve cat sat on the mat\na dog sat on the cat\n" * 20)
    assert (
        seqloom(
            "fit", name, "text", "-o", "m", "--dimensions", 6, "--min-count", 1, "--epochs", 2, "-q"
        ).code
        == 0
    )
    wanted = load(tmp_path / "m").vectors
    for form in ("word2vec", "word2vec-binary"):
        told = seqloom("convert", "m", "w", "--form", form, "--json").json()[0]
        assert (told["words"], told["dimensions"]) == (len(wanted), 6)
        peer = KeyedVectors.load_word2vec_format(
            str(tmp_path / "w"), binary=form == "word2vec-binary"
        )
        assert peer.index_to_key == list(wanted.words)
        assert peer.vectors.tobytes() == wanted.matrix.tobytes()


def test_a_fasttext_model_file_is_converted_with_its_ngrams(seqloom):
    peer, path = fasttext_models.recorded("skipgram")
    said = seqloom("convert", path, "m").out  # with fastText's end of a sentence
    assert f"{len({*fasttext_models.TEXT.split(), '</s>'})} words, 4 dimensions" in said
    for place in ("m", path):
        found = np.array(seqloom("embed", place, "moonlight").out.split()[1:], float)
        assert found == pytest.approx(peer.get_word_vector("moonlight"), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("form", ["word2vec", "word2vec-binary", "glove"])
def test_gzipped_files_are_converted(seqloom, vectors, tmp_path, form):
    seqloom("convert", "v.txt", "w", "--form", form)  # from file to file
    (tmp_path / "other.name").write_bytes(gzip.compress((tmp_path / "w").read_bytes()))
    assert "6 words, 4 dimensions" in seqloom("convert", "other.name", "saved").out
    assert load(tmp_path / "saved")["cake"].tolist() == pytest.approx([0, 0.1, 0, 1])


def test_files_that_cannot_be_converted(seqloom, vectors, tmp_path):
    (tmp_path / "ragged.txt").write_text("a 1 2 3\nb 1 2\nc 3 4 5\n")
    assert (
        "line 2: expected a word and 3 numbers" in seqloom("convert", "ragged.txt", "m").one_line()
    )
    assert "no such file" in seqloom("convert", "nothing", "m").one_line()
    (tmp_path / "prose.txt").write_text("It was the best of times\n" * 9)
    assert "not a file of word vectors" in seqloom("convert", "prose.txt", "m").one_line()


def test_blank_lines_are_no_questions(seqloom, vectors):
    assert seqloom("nearest", "v.txt", "-", "-n", 1, stdin="king\n\nbread\n\n").out.split()[
        ::3
    ] == ["king", "bread"]


def test_embed_from_stdin_and_as_json(seqloom, vectors, tmp_path):
    assert (
        seqloom("embed", "v.txt", "-", stdin="king\nking\tman\n")
        .out.splitlines()[1]
        .startswith("king man\t0.5\t1\t")
    )
    told = seqloom("embed", "v.txt", "king", "-o", "e.npy", "--json").json()[0]
    assert told == {"output": "e.npy", "texts": 1, "dimensions": 4}


def test_a_saved_model_is_no_text(seqloom, vectors):
    seqloom("convert", "v.txt", "saved")
    assert (
        "saved is a saved model, not text"
        in seqloom("fit", "word2vec", "saved", "-o", "m").one_line()
    )


def test_a_directory_with_a_model_of_another_program_may_hold_text(seqloom, tmp_path):
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "hf" / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}      ")
    (tmp_path / "hf" / "a.txt").write_text("the cat sat on the mat\n" * 9)
    assert (
        seqloom("fit", "word2vec", "hf", "-o", "m", "--dimensions", 4, "--encoding", "utf-8").code
        == 0
    )


@pytest.mark.parametrize("place", ["v.txt", "saved"])
def test_questions(seqloom, vectors, place):
    seqloom("convert", "v.txt", "saved")
    near = seqloom("nearest", place, "bread", "-n", "1", "--json").json()[0]
    assert near["nearest"][0]["word"] == "cake"
    assert near["nearest"][0]["cosine"] == pytest.approx(1 / 1.01**0.5, abs=1e-5)
    assert seqloom("analogy", place, "man", "king", "woman", "-n", "1").out.split()[1] == "queen"
    assert seqloom("nearest", place, "-", stdin="king\nman\n").out.splitlines()[0] == "king"


def test_approximate_questions(seqloom, tmp_path):
    pytest.importorskip("usearch")
    rows = np.random.default_rng(0).normal(size=(300, 5)).round(3)
    (tmp_path / "v.txt").write_text(
        "".join(f"w{i} {' '.join(map(str, row))}\n" for i, row in enumerate(rows.tolist()))
    )
    for question in (
        ["nearest", "v.txt", "w7", "w8"],
        ["nearest", "v.txt", "w9", "--among", 50],
        ["analogy", "v.txt", "w1", "w2", "w3"],
    ):
        found = seqloom(*question, "--approximate")
        assert found.out == seqloom(*question).out
        assert "w" in found.out
    assert (
        "use add"
        in seqloom(
            "analogy", "v.txt", "w1", "w2", "w3", "--method", "mul", "--approximate"
        ).one_line()
    )


def test_approximate_without_its_library(seqloom, vectors, monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    done = seqloom("nearest", "v.txt", "king", "--approximate")
    assert done.code == 1
    assert "pip install 'seqloom[approximate]'" in done.one_line()


def test_embed(seqloom, vectors, tmp_path):
    words = seqloom("embed", "v.txt", "king", "king queen").out.splitlines()
    assert words == ["king\t1\t1\t0\t0", "king queen\t1\t0.5\t0.5\t0"]
    assert seqloom("embed", "v.txt", "-o", "a.npy", stdin="king\nnowhere\n").code == 1
    seqloom("embed", "v.txt", "-o", "a.npy", "--unknown", "skip", stdin="king\nnowhere\n")
    assert np.load(tmp_path / "a.npy").tolist() == [[1, 1, 0, 0], [0, 0, 0, 0]]


def test_evaluate_on_a_file(seqloom, vectors, tmp_path):
    (tmp_path / "analogies.txt").write_text(
        ": family\nman king woman queen\nman king woman bread\n"
    )
    seqloom("convert", "v.txt", "saved")
    found = seqloom("evaluate", "saved", "--on", "analogies.txt", "--json").json()[0]
    assert found["metrics"]["accuracy"] == pytest.approx(0.5)
    assert "--on FILE" in seqloom("evaluate", "saved", "analogies.txt").one_line()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nearest", "v.txt", "kinq"], "did you mean 'king'"),
        (["nearest", "missing", "king"], "no such directory"),
        (["embed", "v.txt", "king", "-o", "a.txt"], ".npy"),
        (["score", "saved", "v.txt"], "score is for a language model"),
        (["fit", "vectors", "v.txt", "-o", "m"], "seqloom convert SOURCE TARGET"),
    ],
)
def test_faults(seqloom, vectors, args, said):
    seqloom("convert", "v.txt", "saved")
    done = seqloom(*args)
    assert done.code != 0
    assert said in done.one_line()


def test_a_file_of_vectors_is_judged_by_section(seqloom, vectors, tmp_path):
    (tmp_path / "q.txt").write_text(
        ": royal\nman king woman queen\n: places\nathens greece oslo norway\n"
    )
    done = seqloom("evaluate", "v.txt", "--on", "q.txt")
    assert "royal      1.0000      1        0" in done.out
    assert "places          -      0        1" in done.out
    assert "skipped 1 question with a word that has no vector" in done.out
    for more in (("--chart", "a.png"), ("--against", "v.txt"), ("--sparsity",)):
        assert (
            f"{more[0]} is for a language model"
            in seqloom("evaluate", "v.txt", *more, "--on", "q.txt").err
        )
    assert "--on FILE only" in seqloom("evaluate", "v.txt", "q.txt", "--on", "q.txt").err
