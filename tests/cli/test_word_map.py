"""`seqloom plot` of word vectors: which picture, its numbers, and flags that do not apply."""

import json
import re

import numpy as np
import pytest

from seqloom.models.word_vectors.word_vectors import WordVectors


@pytest.fixture
def vectors(tmp_path):
    rng = np.random.default_rng(6)
    words = [",", "12", *(f"{name}{i}" for i in range(8) for name in ("fruit", "tool"))]
    made = WordVectors.of(
        words, np.tile([[3.0, 0, 0, 0], [0, 3, 0, 0]], (9, 1)) + rng.normal(size=(18, 4))
    )
    made.save(tmp_path / "v")
    return made


def test_a_map_of_the_first_words(seqloom, vectors, tmp_path):
    done = seqloom("plot", "v")
    told = r"16 words, first principal component, \d+% of the variance, second, \d+%\nwritten to v.png\n"
    assert re.fullmatch(told, done.out)
    assert (tmp_path / "v.png").read_bytes().startswith(b"\x89PNG")
    (found,) = seqloom("plot", "v/", "--top", 6, "--json").json()
    assert [w["word"] for w in found["words"]] == [
        "fruit0",
        "tool0",
        "fruit1",
        "tool1",
        "fruit2",
        "tool2",
    ]  # no signs
    assert not (tmp_path / "v.json").exists()
    seqloom("convert", "v", "v.txt")
    assert seqloom("plot", "v.txt", "--top", 6, "-o", "w.svg").code == 0
    assert ">fruit2<" in (tmp_path / "w.svg").read_text()


def test_groups_clusters_and_files(seqloom, vectors, tmp_path):
    groups = ("--words", "red=fruit1,fruit2", "--words", "tool1,tool2", "--words", "fruit7")
    (found,) = seqloom("plot", "v", *groups, "--json").json()
    assert [(w["word"], w["group"]) for w in found["words"]] == [
        ("fruit1", "red"),
        ("fruit2", "red"),
        ("tool1", "group 2"),
        ("tool2", "group 2"),
        ("fruit7", "group 3"),
    ]
    (tmp_path / "g.json").write_text(json.dumps({"one": ["fruit1"], "two": ["tool1", "tool2"]}))
    (found,) = seqloom("plot", "v", "--words", "g.json", "--json").json()
    assert [w["group"] for w in found["words"]] == ["one", "two", "two"]
    (tmp_path / "w.txt").write_text("fruit3\ntool4\n")
    (found,) = seqloom("plot", "v", "--words", "w.txt", "--json").json()
    assert [w["word"] for w in found["words"]] == ["fruit3", "tool4"]
    pytest.importorskip("sklearn")
    (found,) = seqloom("plot", "v", "--clusters", 2, "--method", "tsne", "--json").json()
    assert found["method"] == "tsne"
    assert (
        len({(w["group"], w["word"][:4]) for w in found["words"]}) == 2
    )  # the clusters are fruit and tools


def test_surroundings_and_analogies(seqloom, vectors, tmp_path):
    done = seqloom("plot", "v", "--near", "fruit1", "-n", 4, "-o", "n.html")
    assert done.out == "fruit1, its 4 nearest, and theirs\nwritten to n.html\n"
    page = (tmp_path / "n.html").read_text()
    assert "The wheel zooms" in page
    (found,) = seqloom("plot", "v", "--near", "fruit1", "-n", 4, "--json").json()
    assert {b["word"]: pytest.approx(b["cosine"]) for b in found["near"]} == dict(
        vectors.nearest("fruit1", 4)
    )
    (found,) = seqloom("plot", "v", "--near", "fruit1", "-n", 4, "--method", "pca", "--json").json()
    assert [w["word"] for w in found["words"]] == [
        "fruit1",
        *(w for w, _ in vectors.nearest("fruit1", 4)),
    ]
    done = seqloom(
        "plot", "v", "--analogy", "fruit1:tool1,fruit2:tool2,fruit3:tool3", "-o", "a.svg"
    )
    assert done.out == "fruit1 to tool1, fruit2 to tool2, fruit3 to tool3\nwritten to a.svg\n"
    assert ">tool3<" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["v", "--top", 5, "--near", "fruit1"], "--top and --near draw different pictures"),
        (["v", "--words", "fruit1,tol1"], "did you mean 'tool1'"),
        (["v", "--near", "frut1"], "did you mean 'fruit1'"),
        (["v", "--analogy", "fruit1:tool1,fruit2:tol2"], "did you mean 'tool2'"),
        (["v", "--analogy", "fruit1:tool1"], "at least two pairs"),
        (["v", "--analogy", "fruit1:tool1,fruit2:tool2", "--method", "tsne"], "leave out --method"),
        (["v", "--number", 3], "give --near WORD"),
        (["v", "--among", 3], "--among is for --near"),
        (["v", "--near", "fruit1", "--clusters", 3], "--clusters colours a map"),
        (["v", "--top", 5, "--by", "steps"], "leave out --by"),
        (["v", "--by", "steps"], "no log.jsonl or training.jsonl there"),
        (["v", "v2", "--top", 5], "of one model; 2 are given"),
        (["run", "--near", "fruit1"], "run does not hold any"),
        (["none", "--top", 5], "there is no none"),
        (["v", "-o", "a.gif"], ".png, .svg or .html"),
    ],
)
def test_faults(seqloom, vectors, tmp_path, args, said):
    (tmp_path / "run").mkdir()
    assert said in seqloom("plot", *args).one_line()


def test_training_of_vectors_is_drawn_by_steps(seqloom, vectors, tmp_path):
    (tmp_path / "v" / "training.jsonl").write_text(
        '{"step": 1, "loss": 3.0}\n{"step": 2, "loss": 2.5}\n'
    )
    assert "least training loss 2.5000" in seqloom("plot", "v", "--by", "steps").out
    assert "words, first principal" in seqloom("plot", "v").out
