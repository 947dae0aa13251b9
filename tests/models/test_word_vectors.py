"""Word vectors: search against brute force, verbs against their formulas and gensim, saving, and
what is refused.
"""

import copy
import json
import os
import signal

import numpy as np
import pytest

import seqloom
from seqloom.errors import ConfigError, DataError, MissingExtra, ModelError, NotFitted
from seqloom.interop.vectors import read_vectors
from seqloom.metrics.word_vectors import read_questions, spearman
from seqloom.models.word_vectors.search import Index
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.models.word_vectors.words import Words
from tests.golden import gensim_answers


@pytest.fixture(scope="module")
def random_vectors():
    rng = np.random.default_rng(5)
    matrix = rng.normal(size=(3000, 20)) * rng.uniform(0.1, 5, (3000, 1))
    matrix[17] = 0  # a word without a direction
    matrix[40] = matrix[39] * 2  # the same direction twice
    return WordVectors.of([f"w{i}" for i in range(3000)], matrix)


@pytest.fixture(scope="module")
def people():
    """king - man + woman = queen to the bit, and some others around."""
    royal, male, female, food = np.eye(4)
    words = {
        "king": royal + male,
        "queen": royal + female,
        "man": male,
        "woman": female,
        "prince": royal + 0.8 * male,
        "bread": food,
        "soup": food + 0.1 * male,
        "rice": food + 0.1 * female,
    }
    return WordVectors.of(words, np.array(list(words.values())))


def cosines(matrix, query):
    matrix, query = matrix.astype(np.float64), query.astype(np.float64)
    lengths = np.linalg.norm(matrix, axis=1)
    return matrix @ query / np.where(lengths > 0, lengths, 1) / np.linalg.norm(query)


# ---- search


@pytest.mark.parametrize("n", [1, 3, 5, 64, 300])
@pytest.mark.parametrize("among", [None, 100])
def test_nearest_is_exact(random_vectors, n, among):
    """One by one (few) and in batches (many), against sorting all cosines in double precision."""
    queries = np.random.default_rng(n).normal(size=(n, 20)).astype(np.float32)
    found = random_vectors.nearest(queries, 7, among=among)
    for query, answer in zip(queries, found):
        every = cosines(random_vectors.matrix[:among], query)
        order = np.argsort(-every, kind="stable")[:7]
        assert [word for word, _ in answer] == [f"w{i}" for i in order]
        assert [score for _, score in answer] == pytest.approx(every[order], abs=1e-6)


def test_pieces_of_a_search_are_put_together(random_vectors, monkeypatch):
    words = [f"w{i}" for i in range(39, 46)]
    one, together = random_vectors.nearest("w39", 30), random_vectors.nearest(words, 30)
    for share in (7, 1000):  # of which seven hold fewer than are asked for
        monkeypatch.setattr("seqloom.models.word_vectors.search.SHARE", share)
        assert random_vectors.nearest("w39", 30) == one
        assert [[w for w, _ in row] for row in random_vectors.nearest(words, 30)] == [
            [w for w, _ in row] for row in together
        ]


def test_a_copy_searches_too(random_vectors, monkeypatch):
    monkeypatch.setattr("seqloom.models.word_vectors.search.SHARE", 7)
    monkeypatch.setenv("SEQLOOM_THREADS", "3")
    expected = random_vectors.nearest("w39", 5)
    assert copy.deepcopy(random_vectors).nearest("w39", 5) == expected


def test_a_forked_process_searches_too(random_vectors, monkeypatch):
    """As in a multiprocessing.Pool of vectors that were asked before: threads do not go along."""
    monkeypatch.setattr("seqloom.models.word_vectors.search.SHARE", 7)
    monkeypatch.setenv("SEQLOOM_THREADS", "2")
    expected = random_vectors.nearest("w39", 5)
    if (child := os.fork()) == 0:
        signal.alarm(20)
        os._exit(0 if random_vectors.nearest("w39", 5) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("width", [1, 2, 31, 32, 33, 300])
def test_search_of_any_width_and_of_clustered_rows(width):
    """Rows that lie so close together that eight bits cannot tell them apart."""
    rng = np.random.default_rng(width)
    matrix = (rng.normal(size=width) + 1e-3 * rng.normal(size=(500, width))).astype(np.float32)
    matrix[::2] *= -1
    index = Index(matrix)
    query = matrix[:1] + 0.01
    rows, scores = index.nearest(query, 20)
    every = cosines(matrix, query[0])
    assert scores[0] == pytest.approx(np.sort(every)[::-1][:20], abs=1e-6)
    assert every[rows[0]] == pytest.approx(scores[0], abs=1e-6)
    many, many_scores = index.nearest(np.repeat(query, 6, axis=0), 20)
    assert many_scores[5] == pytest.approx(scores[0], abs=1e-6)
    assert len(set(many[5].tolist())) == 20


def test_ties_go_to_the_earlier_word():
    made = WordVectors.of([f"w{i}" for i in range(50)], np.ones((50, 3)))
    assert [w for w, _ in made.nearest(np.ones(3), 4)] == ["w0", "w1", "w2", "w3"]
    assert [w for w, _ in made.nearest(np.ones((8, 3)), 4)[7]] == ["w0", "w1", "w2", "w3"]


def test_the_word_itself_is_not_its_neighbour(random_vectors):
    assert random_vectors.nearest("w39", 1)[0][0] == "w40"
    one = [random_vectors.nearest(f"w{i}", 3) for i in range(9)]
    together = random_vectors.nearest([f"w{i}" for i in range(9)], 3)
    assert [[w for w, _ in row] for row in one] == [[w for w, _ in row] for row in together]
    assert random_vectors.nearest("w17", 2)[0][1] == 0.0


def test_one_word_is_answered_as_a_list_is(random_vectors):
    words = list(random_vectors.words[:20])
    phrase = " ".join(words[:2])
    for query in (*words, phrase):
        one, (listed,) = random_vectors.nearest(query, 7), random_vectors.nearest([query], 7)
        assert one == listed
    assert [random_vectors.words.place(word) for word in (*words, "no such word", "")] == [
        *range(20),
        -1,
        -1,
    ]


def test_more_neighbours_than_words(people):
    assert len(people.nearest("king", 100)) == 7
    assert people.nearest([], 3) == []


# ---- the other verbs


def test_analogy_leaves_the_words_of_the_question_out(people):
    assert people.analogy("man", "king", "woman", 1)[0][0] == "queen"
    assert people.analogy("man", "king", "woman", 1, method="mul")[0][0] == "queen"
    answers = people.analogy(["man", "woman"], ["king", "queen"], ["woman", "man"], 2)
    assert [row[0][0] for row in answers] == ["queen", "king"]
    assert not {"man", "woman", "king"} & {w for w, _ in people.analogy("man", "king", "woman", 8)}


@pytest.mark.parametrize("method", ["add", "mul"])
def test_analogy_against_its_formula(random_vectors, method):
    a, b, c = (cosines(random_vectors.matrix, random_vectors[w]) for w in ("w1", "w2", "w3"))
    units = [
        random_vectors[w].astype(float) / np.linalg.norm(random_vectors[w])
        for w in ("w1", "w2", "w3")
    ]
    scores = (b + 1) / 2 * (c + 1) / 2 / ((a + 1) / 2 + 0.001)
    if method == "add":
        scores = cosines(random_vectors.matrix, units[1] - units[0] + units[2])
    scores[[1, 2, 3]] = -9
    order = np.argsort(-scores, kind="stable")[:5]
    found = random_vectors.analogy("w1", "w2", "w3", 5, method=method)
    assert [w for w, _ in found] == [f"w{i}" for i in order]
    assert [s for _, s in found] == pytest.approx(scores[order], abs=1e-5)


@pytest.mark.filterwarnings("ignore:Call to deprecated")
@pytest.mark.parametrize("source", ["recorded", "live"])
def test_verbs_agree_with_gensim(source):
    vectors = read_vectors(gensim_answers.HOME / "vectors.bin")
    peer = (
        gensim_answers.recorded()["verbs"]
        if source == "recorded"
        else gensim_answers.verbs(vectors.words, vectors.matrix)
    )

    def agree(ours, theirs):
        assert [word for word, _ in ours] == [word for word, _ in theirs]
        assert [score for _, score in ours] == pytest.approx(
            [score for _, score in theirs], abs=1e-5
        )

    for word, neighbours in peer["nearest"].items():
        agree(vectors.nearest(word, 10), neighbours)
    assert [w for w, _ in vectors.analogy("word1", "word2", "word3", 5)] == [
        w for w, _ in peer["add"]
    ]
    assert [w for w, _ in vectors.analogy("word1", "word2", "word3", 5, method="mul")] == [
        w for w, _ in peer["mul"]
    ]
    assert vectors.similarity("word8", "word9") == pytest.approx(peer["similarity"], abs=1e-5)
    assert vectors.doesnt_match(gensim_answers.ODD_ONES) == peer["odd"]


def test_similarity_and_the_odd_one_out(people):
    assert people.similarity("man", "woman") == 0.0
    assert people.similarity(["man", "king"], ["man", "man"]) == pytest.approx([1, 0.5**0.5])
    assert people.doesnt_match("bread soup rice king") == "king"


def test_phrases_are_means(people):
    assert people.embed("king bread") == pytest.approx((people["king"] + people["bread"]) / 2)
    both = people.embed(["king", "man woman man"])
    assert both[1] == pytest.approx((2 * people["man"] + people["woman"]) / 3)
    assert "king" not in [w for w, _ in people.nearest("king bread", 8)]
    with_blank = WordVectors.of(["new", "york", "new york"], np.eye(3))
    assert with_blank.embed("new york").tolist() == [0, 0, 1]


def test_unknown_words_of_a_phrase(people):
    assert people.embed("king blah", unknown="skip").tolist() == people["king"].tolist()
    assert people.embed(["blah", "king"], unknown="skip")[0].tolist() == [0, 0, 0, 0]
    assert people.embed("blah", unknown="mean") == pytest.approx(people.matrix.mean(axis=0))
    with pytest.raises(DataError, match="no vector for 'blah'"):
        people.embed("king blah")


def test_clusters(people):
    pytest.importorskip("sklearn")
    groups = people.clusters(2)
    assert sorted(map(len, groups), reverse=True) == [len(g) for g in groups]
    assert {"bread", "soup", "rice"} in [set(g) for g in groups]
    assert people.clusters(1, ["king", "man"]) in ([["king", "man"]], [["man", "king"]])
    with pytest.raises(ConfigError, match="n must be between 1"):
        people.clusters(9)


def test_clusters_without_scikit_learn(people, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.cluster", None)
    with pytest.raises(MissingExtra, match=r"scikit-learn.*seqloom\[maps\]"):
        people.clusters(2)


def test_subset(people):
    part = people.subset(["soup", "king", "soup"])
    assert list(part.words) == ["soup", "king"]
    assert part["king"].tolist() == people["king"].tolist()
    assert list(people.subset(3).words) == ["king", "queen", "man"]
    assert list(people.subset(["nobody", "man"], missing="skip").words) == ["man"]
    with pytest.raises(DataError, match="nobody"):
        people.subset(["man", "nobody"])


# ---- words


def test_every_word_is_found_and_no_other():
    spellings = [f"{i:x}é{i}" for i in range(5000)] + ["", " ", "a b", "\udcff", "日本"]
    words = Words.of(spellings)
    assert words.find(spellings).tolist() == list(range(len(spellings)))
    assert words.find(["0é1", "nothing"]).tolist() == [-1, -1]
    assert list(words) == spellings
    assert words[-1] == "日本"
    assert words[1:3] == spellings[1:3]
    assert "a b" in words
    assert "a  b" not in words


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, before = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(row[-1] + 1, before[j] + 1, before[j - 1] + (x != y)))
    return row[-1]


def test_spelling_distances():
    from seqloom.kernels.alignment import edit_distances

    rng = np.random.default_rng(1)
    spellings = {
        bytes(rng.integers(97, 100, rng.integers(0, 12)).tolist()).decode() for _ in range(400)
    }
    words = Words.of([*spellings, "x" * 70, "a" * 66])
    for asked in ("abc", "a", "cabbage", "a" * 64):
        out = np.empty(len(words), np.int64)
        edit_distances(
            np.frombuffer(bytearray(asked.encode()), np.uint8), words.arena, words.offsets, 100, out
        )
        assert out.tolist() == [edit_distance(asked, word) for word in words]


def test_unknown_words_get_their_neighbours_named(people):
    for wrong, right in (("King", "king"), ("quene", "queen"), ("WOMEN", "woman")):
        with pytest.raises(DataError, match=f"no vector for '{wrong}'; did you mean .*'{right}'"):
            people.nearest(wrong)
    with pytest.raises(DataError, match="no vector for 'xylophone'; there are 8 words"):
        people.similarity("king", "xylophone")


# ---- on disk


def test_saved_and_loaded_to_the_bit(random_vectors, tmp_path):
    made = WordVectors.of(random_vectors.words, random_vectors.matrix, np.arange(3000))
    made.save(tmp_path / "v")
    back = seqloom.load(tmp_path / "v")
    assert isinstance(back, WordVectors)
    assert isinstance(back.matrix.base, np.memmap)
    assert back.matrix.tobytes() == made.matrix.tobytes()
    assert list(back.words) == list(made.words)
    assert back.counts.tolist() == list(range(3000))
    assert back.nearest("w5", 3) == random_vectors.nearest("w5", 3)
    assert back.summary() == "3,000 words, 20 dimensions"
    assert json.loads((tmp_path / "v" / "config.json").read_text())["task"] == "word vectors"


def test_tables_that_contradict_each_other_are_refused(people, tmp_path):
    people.save(tmp_path / "v")
    from seqloom.arrays import read_arrays, write_arrays

    good = {k: np.array(v) for k, v in read_arrays(tmp_path / "v" / "model.safetensors").items()}
    for name, value in (
        ("slots", good["slots"] + 100),
        ("offsets", good["offsets"][::-1].copy()),
        ("bytes", good["bytes"][:5]),
        ("matrix", good["matrix"][:3]),
        ("matrix", good["matrix"].astype(np.float64)),
        ("slots", good["slots"][:-1]),
    ):
        write_arrays(tmp_path / "v" / "model.safetensors", good | {name: value})
        with pytest.raises(ModelError, match="v: "):
            seqloom.load(tmp_path / "v")


# ---- evaluation


def test_analogies_by_section(people, tmp_path):
    path = tmp_path / "questions.txt"
    path.write_text(
        ": royal\nman king woman queen\nwoman queen man king\nman king woman bread\n"
        ": food\nbread soup rice curry\n"
    )
    result = people.evaluate(path)
    assert (result["accuracy"], result["asked"], result["missing"]) == (pytest.approx(2 / 3), 3, 1)
    royal, food = result.details["sections"]
    assert (royal["section"], royal["accuracy"], royal["asked"]) == (
        "royal",
        pytest.approx(2 / 3),
        3,
    )
    assert (food["accuracy"], food["missing"]) == (None, 1)
    assert people.evaluate(path, among=3)["asked"] == 0  # woman is the fourth word
    assert "among:30000|method:add" in str(result.signature)


def test_similarity_sets(people, tmp_path):
    stats = pytest.importorskip("scipy.stats")
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "word1\tword2\tPOS\tScore\tmore\nKing\tprince\tN\t9.5\t1\nking\tman\tN\t7\t2\n"
        "king\tbread\tN\t0.5\t3\nking\tx\tN\t1\t4\nbread\tsoup\tN\t9.5\t5\n"
    )
    result = people.evaluate(path)
    pairs = [
        ("king", "prince", 9.5),
        ("king", "man", 7),
        ("king", "bread", 0.5),
        ("bread", "soup", 9.5),
    ]
    wanted = stats.spearmanr(
        [people.similarity(a, b) for a, b, _ in pairs], [s for _, _, s in pairs]
    ).statistic
    assert result["spearman"] == pytest.approx(wanted)
    assert (result["pairs"], result["missing"]) == (4, 1)
    values = np.random.default_rng(0).integers(0, 5, (2, 50)).astype(float)
    assert spearman(*values) == pytest.approx(stats.spearmanr(*values).statistic)


def test_forms_of_questions():
    tagged = read_questions(b"good better rough JJ_JJR rougher\n", "x")
    assert tagged.sections == {"JJ_JJR": [("good", "better", "rough", "rougher")]}
    assert read_questions(b"a,b,3.5\nc,d,1\n", "x").pairs == [("a", "b", 3.5), ("c", "d", 1.0)]
    assert read_questions(b"tiger cat 7.35\n# remark\n", "x").pairs == [("tiger", "cat", 7.35)]
    with pytest.raises(DataError, match="line 2: neither four words"):
        read_questions(b"a b c d\nonly two\n", "x")
    with pytest.raises(DataError, match="no analogies"):
        read_questions(b"some header\n", "x")


# ---- what is refused


def test_bad_input(people):
    with pytest.raises(DataError, match="the word 'a' appears twice, at positions 0 and 2"):
        WordVectors.of(["a", "b", "a"], np.eye(3))
    with pytest.raises(
        DataError, match=r"vector of 'b' \(row 1\) has a value that is not a finite"
    ):
        WordVectors.of(["a", "b"], [[1, 2], [3, np.nan]])
    with pytest.raises(DataError, match="vector of 'a'"):
        WordVectors.of(["a", "b"], [[1, 1e39], [3, 4]])
    with pytest.raises(DataError, match="2 words and 3 vectors"):
        WordVectors.of(["a", "b"], np.eye(3))
    with pytest.raises(DataError, match="one row a word; got 1 dimensions"):
        WordVectors.of(["a"], [1.0])
    with pytest.raises(DataError, match="real numbers"):
        WordVectors.of(["a"], [["x"]])
    with pytest.raises(DataError, match="there are no vectors"):
        WordVectors.of([], np.zeros((0, 5)))
    with pytest.raises(DataError, match="a query has 5 dimensions, these vectors have 4"):
        people.nearest(np.ones(5))
    with pytest.raises(DataError, match="query has a value that is not"):
        people.nearest(np.array([1, np.inf, 0, 0]))
    with pytest.raises(ConfigError, match="k must be at least 1"):
        people.nearest("king", 0)
    with pytest.raises(ConfigError, match="equal length; these have 1, 2 and 1"):
        people.analogy(["man"], ["king", "queen"], ["woman"])
    with pytest.raises(ConfigError, match="three words or three lists"):
        people.analogy("man", ["king"], "woman")
    with pytest.raises(ConfigError, match="add, mul"):
        people.analogy("man", "king", "woman", method="sum")
    with pytest.raises(ConfigError, match="at least three words"):
        people.doesnt_match("king queen")
    with pytest.raises(NotFitted):
        WordVectors().nearest("king")
    with pytest.raises(ConfigError, match="read_vectors"):
        WordVectors().fit("some text")


def test_fit_takes_finished_vectors():
    made = WordVectors().fit((["a", "b"], np.eye(2)))
    assert made["b"].tolist() == [0, 1]
    assert made.parameters == 4


def test_constants_of_kernels_that_are_repeated():
    from seqloom.kernels import alignment
    from seqloom.models.word_vectors import words

    assert words._LONGEST_ASKED == alignment.MAX_WORD_BYTES


def test_an_embedder_with_vectors_for_unseen_words(people):
    """What fastText will be: the verbs ask `unseen` for what is not in the list."""

    class Guessing(WordVectors):
        def unseen(self, words):
            return np.full((len(words), 4), [1.0, 1.0, 0.0, 0.0])

    model = Guessing().fit((list(people.words), people.matrix))
    assert model.nearest("Kaiser", 1)[0] == ("king", pytest.approx(1))
    assert model.knows("Kaiser")
    assert not people.knows("Kaiser")
    assert model.similarity("Kaiser", "man") == pytest.approx(0.5**0.5)
    assert model.embed(["Kaiser", "man"], unknown="skip")[0].tolist() == [1, 1, 0, 0]
