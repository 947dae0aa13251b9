"""`fit` with word vectors as the first layer."""

import json
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom import load
from seqloom.models.word_vectors.word_vectors import WordVectors

FIT = ("fit", "lstm", "text", "-o", "m", "--d-hidden", 6, "--steps", 4, "--pretrained", "vectors")


@pytest.fixture(autouse=True)
def matrix(tmp_path, toy_text):
    (tmp_path / "text").write_text(toy_text)
    words = sorted(set(toy_text.split()))[:10]
    matrix = np.random.default_rng(0).normal(size=(10, 5)).astype(np.float32)
    WordVectors.of(words, matrix).save(tmp_path / "vectors")
    return dict(zip(words, matrix))


def test_fit_frozen(seqloom, tmp_path, matrix):
    done = seqloom(
        *FIT, "--tokenizer", "word", "--pretrained-training", "frozen", "--no-tied", "--json"
    )
    assert done.code == 0, done.err
    assert done.json()[0]["pretrained"]["found"] == 10
    assert "10 of 22 tokens have a vector" in done.err
    shutil.rmtree(tmp_path / "vectors")
    model = load(tmp_path / "m")
    for word, vector in matrix.items():
        assert np.array_equal(model.weights["embedding.weight"][model.tokenizer.id(word)], vector)
    assert seqloom("score", "m", "text", "-q").code == 0
    shown = seqloom("info", "m", "--json").json()[0]
    assert json.dumps(shown).count('"found": 10') == 1


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (
            ["--pretrained", "nowhere", "--tokenizer", "word"],
            2,
            "pretrained: nowhere: no such directory or file",
        ),
        (
            ["--d-embed", 7, "--tokenizer", "word"],
            2,
            "--d-embed is 7, but the vectors of vectors have 5 dimensions",
        ),
        ([], 2, "the tokenizer bpe splits words; give tokenizer whitespace or word"),
        (
            ["--tokenizer", "word", "--pretrained-unknown", "subword"],
            2,
            "these vectors have nothing to build",
        ),
        (["--tokenizer", "word", "--pretrained-training", "thawed"], 2, "'thawed'"),
        (["--tokenizer", "word", "--pretrained", "text"], 1, "text: not a file of word vectors"),
        (
            ["--tokenizer", "word", "--vocab-file", "strange"],
            1,
            "pretrained: vectors: none of the 4 tokens, such as",
        ),
    ],
)
def test_faults(seqloom, tmp_path, options, code, says):
    (tmp_path / "strange").write_text("zebra\ngiraffe\n")
    failed = seqloom(*FIT, *options, "-q")
    assert says in failed.one_line()
    assert failed.code == code
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "strange",
        "text",
        "vectors",
    ]
