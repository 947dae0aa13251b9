"""word2vec, fastText and charngram: every option does something, training goes on with new words,
and what they claim.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import seqloom
from seqloom import registry
from seqloom.errors import ConfigError, DataError
from seqloom.kernels.features import ngram_buckets
from seqloom.models.word_vectors import learning
from seqloom.models.word_vectors.reading import END
from seqloom.models.word_vectors.windows import NGRAM_REGIONS, WORD_REGIONS, Chunks, random_rows
from seqloom.models.word_vectors.words import Words
from tests.contract.test_embedders import ANIMALS, MACHINES, lines

SMALL = {"min_count": 2, "dimensions": 8, "epochs": 2, "window": 3, "deterministic": True}


def fit(name="word2vec", text=None, **options):
    chosen = {**SMALL, **options}
    if name == "glove":
        del chosen["deterministic"]  # it always is
    return registry.model_class(name)(**chosen).fit(lines(200) if text is None else text)


@pytest.fixture(scope="module")
def usual():
    return fit()


@pytest.mark.parametrize(
    "options",
    [
        {"architecture": "cbow"},
        {"loss": "hs"},
        {"loss": "softmax"},
        {"window": 2},
        {"shrink": False},
        {"negatives": 2},
        {"noise_exponent": 0.0},
        {"sample": 0.01},
        {"epochs": 3},
        {"lr": 0.05},
        {"seed": 5},
        {"unit": "stream"},
    ],
    ids=lambda options: "-".join(map(str, next(iter(options.items())))),
)
def test_every_option_changes_what_is_learnt(usual, options):
    other = fit(**options)
    assert other.input.shape == usual.input.shape
    assert np.abs(other.input - usual.input).max() > 1e-6


def test_which_words_have_vectors():
    text = ["a a a b b c", "a b d d"]
    assert list(fit(text=text, min_count=2).vectors.words) == ["a", "b", "d"]
    assert list(fit(text=text, min_count=3).vectors.words) == ["a", "b"]
    assert list(fit(text=text, min_count=1, vocab_size=4).vectors.words) == [
        "a",
        "b",
    ]  # two are for </s> and <unk>


def test_which_matrix_is_the_embedding(usual):
    assert (usual.vectors.matrix == usual.input).all()
    output, both = fit(vectors="output"), fit(vectors="sum")
    assert (output.vectors.matrix == usual.output).all()
    assert (both.vectors.matrix == usual.input + usual.output).all()
    with pytest.raises(ConfigError, match="tree"):
        fit(vectors="sum", loss="hs")


@pytest.mark.parametrize("loss", ["ns", "hs", "softmax"])
def test_the_loss_is_that_of_one_prediction(loss):
    """Before anything is learnt all outputs are zero: every answer is half yes, or one of V."""
    model = fit(loss=loss, lr=1e-8, epochs=1, **({"negatives": 3} if loss == "ns" else {}))
    size = len(model.words)
    expected = {"ns": 4 * np.log(2), "softmax": np.log(size)}.get(loss)
    if (
        expected is None
    ):  # a tree: the length of the way, where words are read evenly enough; between shortest and longest
        assert np.log(2) < model.fit_info["losses"][0] < size * np.log(2)
    else:  # noise that is the word itself does not count
        assert expected * 0.9 < model.fit_info["losses"][0] <= expected + 1e-5


def test_lock_free_is_as_good(monkeypatch):
    monkeypatch.setenv("SEQLOOM_THREADS", "2")
    free, ordered = (
        fit(text=lines(1200), deterministic=order, epochs=4).fit_info["losses"][-1]
        for order in (False, True)
    )
    assert free == pytest.approx(ordered, rel=0.05)


def test_questions_are_spelled_as_the_text_was():
    model = fit("fasttext", text=[line.title() for line in lines(200)], normalize="case=lower")
    assert (model.embed("Cat") == model.embed("cat")).all()
    assert (model.rows(["CAT"]) == model.rows(["cat"])).all()
    assert model.nearest("CAT", 5) == model.nearest("cat", 5)
    assert "cat" not in dict(model.nearest("The Cat", 50))
    assert model.analogy("Cat", "Dog", "Cow", 3) == model.analogy("cat", "dog", "cow", 3)
    assert fit("word2vec", normalize="case=lower").knows("CAT")
    assert not fit("word2vec").knows("CAT")


@pytest.mark.parametrize("n_regions", [WORD_REGIONS, NGRAM_REGIONS])
def test_a_long_text_is_read_at_several_regions_at_once(n_regions):
    text = np.arange(3_000_000, dtype=np.uint32)
    chunks = Chunks.of(len(text), n_regions)
    read = [chunks.ids(text, i) for i in range(chunks.number)]
    assert [np.count_nonzero(ids != END) for ids in read] == [
        chunks.size(i) for i in range(chunks.number)
    ]
    assert {np.count_nonzero(ids == END) for ids in read} == {n_regions}  # none crosses regions
    assert (np.sort(np.concatenate(read))[: len(text)] == text).all()  # all of it, once
    assert np.ptp(read[0][read[0] != END]) > len(text) // 2
    short = Chunks.of(20_000, n_regions)
    assert (
        np.concatenate([short.ids(text, i)[:-1] for i in range(short.number)]) == text[:20_000]
    ).all()


def test_words_of_the_list_are_not_spelled_again():
    model = fit(text=["adhesion of 25 apples"] * 9, normalize="case=lower,stem=porter")
    assert "adhes" in model.words
    assert model.knows("adhes")  # which would be stemmed once more
    assert (model.embed("Adhesion") == model.embed("adhes")).all()


def test_analogies_are_asked_and_judged_as_the_text_was_spelled(tmp_path):
    model = fit(text=["running dogs chased cats"] * 9, normalize="case=lower,stem=porter", epochs=1)
    (tmp_path / "questions.txt").write_text(
        "Running chased dogs cats\n"
    )  # only one word is left for an answer
    assert [word for word, _ in model.analogy("Running", "chased", "dogs")] == ["cat"]
    found = model.evaluate(tmp_path / "questions.txt")
    assert (found["asked"], found["missing"], found["accuracy"]) == (1, 0, 1)


def test_texts_are_taken_apart_as_the_tokenizer_does():
    text = ["good king, my lord.", "北京 is a city, my king."] * 20
    model = fit(text=text, tokenizer="word", normalize="case=lower")
    wanted = model.rows(["good", "king", ",", "my", "lord", "."]).mean(axis=0)
    assert model.embed("Good king, my LORD.") == pytest.approx(wanted)
    with pytest.raises(DataError, match="no vector for"):
        model.embed("caf\udce9")  # a byte that is not UTF-8
    assert model.embed("北京") == pytest.approx(model.rows(["北", "京"]).mean(axis=0))
    assert not {"king", ","} & {word for word, _ in model.nearest("king,", 99)}


def test_a_word_list_from_a_file_needs_no_other_option(tmp_path):
    (tmp_path / "list.txt").write_text("cat\ndog\nthe\n")
    model = seqloom.Word2Vec(vocab_file=str(tmp_path / "list.txt"), dimensions=4, epochs=1).fit(
        lines(200)
    )
    assert sorted(model.words) == ["cat", "dog", "the"]
    with pytest.raises(ConfigError, match="taken whole"):
        seqloom.Word2Vec(vocab_file=str(tmp_path / "list.txt"), min_count=3).fit(lines(200))


@pytest.mark.parametrize("name", ["word2vec", "fasttext", "glove"])
def test_words_that_all_stand_alone_teach_nothing(name):
    with pytest.raises(DataError, match=r"no two words of .* are next to each other in one line"):
        fit(name, text=["cat", "dog"] * 99)


def test_what_is_unknown_must_be_said_rightly():
    with pytest.raises(
        ConfigError, match="unknown must be one of refuse, skip, mean; got 'ignore'"
    ):
        fit().embed("zzz", unknown="ignore")


def test_nothing_is_near_a_word_without_any_ngram():
    model = fit("fasttext")
    assert not model.embed("ЖЖЖ").any()
    with pytest.raises(DataError, match="'ЖЖЖ' has no neighbours"):
        model.nearest(["cat", "ЖЖЖ"])


def test_analogies_of_phrases():
    """A phrase is the mean of its words, none of which is an answer."""
    model = fit()
    found = model.analogy("the cat", "dog", "cow", len(model.words))
    assert not {"the", "cat", "dog", "cow"} & {word for word, _ in found}
    two = fit(text=["cats do not like dogs"] * 9, normalize="sentiment", epochs=1)
    assert [word for word, _ in two.analogy("don't", "cats", "dogs")] == ["like"]


@pytest.mark.parametrize("memory", [None, 1])
def test_a_text_without_any_of_the_words(tmp_path, memory):
    (tmp_path / "list.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match="none of the 2 words is in"):
        seqloom.Word2Vec(vocab_file=str(tmp_path / "list.txt"), min_count=1).fit(
            ["other words"], memory=memory
        )


# ---- going on


@pytest.mark.parametrize("name", ["word2vec", "fasttext", "charngram", "glove"])
def test_training_goes_on_with_new_words(name, tmp_path):
    first = fit(name)
    old = first.embed("cat")
    seen, before = first.counts.copy(), list(first.words)
    first.save(tmp_path / "old")
    again = seqloom.load(tmp_path / "old")
    text = ["a zebra and a lynx eat green grass"] * 100
    assert again.partial_fit(text) is again
    assert set(before) < set(again.words)
    assert {"zebra", "lynx"} <= set(again.words)
    assert again.counts[again.words.find(before)].sum() == seen.sum() + 100 * sum(
        w in before for w in text[0].split()
    )
    assert (np.diff(again.counts) <= 0).all()  # the frequent words first, as before
    assert again.words.find(["zebra"])[0] < len(again.words) - 2
    if name in ("word2vec", "glove"):
        assert (again.embed("cat") == old).all()  # not in the new text
        assert (again.embed("grass") != first.embed("grass")).any()
    started = fit(name, text=text, start=str(tmp_path / "old"))
    assert (started.vectors.matrix == again.vectors.matrix).all()
    assert started.fit_info["start"] == first.fit_info["data_hash"]


@pytest.mark.parametrize("name", ["word2vec", "fasttext", "charngram", "glove"])
def test_the_words_that_went_on_begin_where_they_were(name):
    first = fit(name, epochs=5)
    known = {word: first.embed(word) for word in ("grass", "eats")}
    first.config = replace(first.config, lr=1e-8)
    first.partial_fit(["green grass eats"] * 3)
    assert all(np.abs(first.embed(word) - old).max() < 1e-6 for word, old in known.items())


def test_what_cannot_go_on(tmp_path):
    fit().save(tmp_path / "w")
    for options, says in (
        ({"dimensions": 9}, "dimensions is 9"),
        ({"normalize": "case=lower"}, "normalize"),
    ):
        with pytest.raises(ConfigError, match=says):
            fit(**options, start=str(tmp_path / "w"))
    with pytest.raises(ConfigError, match="start must be a saved fasttext model"):
        fit("fasttext", start=str(tmp_path / "w"))


@pytest.mark.parametrize(
    "where", ["trained.train_windows", "fasttext._composed", "fasttext.NgramRows.reordered"]
)
def test_a_broken_off_partial_fit_leaves_the_model(monkeypatch, where):
    model = fit("fasttext")
    before, info, tokenizer = model.vectors.matrix.copy(), dict(model.fit_info), model.tokenizer
    monkeypatch.setattr(f"seqloom.models.word_vectors.{where}", lambda *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.partial_fit(["a zebra eats"] * 9)
    assert model.fit_info == info
    assert model.tokenizer is tokenizer
    assert (model.embed(list(model.words)) == before).all()
    monkeypatch.undo()
    assert model.input.shape == (len(model.words) + len(model.layout.buckets), 8)
    assert model.similarity("horses", "horse") > 0.3


@pytest.mark.parametrize("stop", [4, 5, 51])
def test_the_log_of_a_run_that_goes_on_is_the_same(tmp_path, monkeypatch, stop):
    """More chunks than lines, so that a checkpoint may come between two lines."""

    def run(name, ends_at):
        def work(epoch, chunk):
            return epoch * 64 + chunk if epoch * 64 + chunk != ends_at else 1 / 0, 1

        with suppress(ZeroDivisionError):
            learning.learn(
                learning.Passes("test", [1] * 64, 7),
                work,
                {"x": np.zeros(3)},
                deterministic=True,
                run=tmp_path / name,
            )
        return (tmp_path / name / "log.jsonl").read_text()

    monkeypatch.setattr(learning, "CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(learning, "SHARE_OF_TIME", 1e9)
    logs = run("whole", None), (run("twice", stop), run("twice", None))[1]
    assert logs[0] == logs[1]
    assert logs[0].count("\n") == 150


# ---- words made of n-grams


def brute_force(word, shortest, longest):
    framed = f"<{word}>"
    return [
        framed[i : i + n]
        for i in range(len(framed))
        for n in range(shortest, longest + 1)
        if i + n <= len(framed)
    ]


def bucket_of(gram, buckets):
    h = 2166136261
    for byte in gram.encode():
        h = ((h ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619) % 2**32
    return h % buckets


@pytest.mark.parametrize(
    ("name", "aggregate"),
    [
        ("fasttext", "mean"),
        ("charngram", "sum"),
        ("charngram", "mean"),
        ("charngram", "weighted"),
        ("charngram", "attention"),
    ],
)
def test_a_word_is_made_of_its_n_grams(name, aggregate):
    options = {"aggregate": aggregate} if name == "charngram" else {}
    model = fit(name, min_ngram=2, max_ngram=4, buckets=5000, lr=0.2, **options)
    size = len(model.words)

    def made(word, rows, kinds):
        weights = np.array(
            [model.layout.weights[k] if len(model.layout.weights) else 0.0 for k in kinds]
        )
        shares = (
            np.ones(len(rows)) if aggregate == "sum" else np.exp(weights) / np.exp(weights).sum()
        )
        return shares @ model.input[rows]

    for word in ("cat", "plane", "a", "tramcar", "grün"):
        places = [
            model.layout.buckets.tolist().index(b)
            for gram in brute_force(word, 2, 4)
            if (b := bucket_of(gram, 5000)) in model.layout.buckets
        ]
        rows = [size * (name == "fasttext") + k for k in places]
        if name == "fasttext" and word in model.vectors.words:
            rows, places = [model.words.find([word])[0], *rows], [0, *places]
        assert model.embed(word) == pytest.approx(made(word, rows, places), abs=1e-5)
    assert (model.embed("ßß") == 0).all()  # nothing of it was ever seen
    if aggregate == "attention":
        assert np.abs(model.layout.weights).max() > 1e-4  # they began at zero
    if aggregate == "weighted":  # an n-gram that few words have counts more

        def weight(gram):
            return model.layout.weights[
                np.searchsorted(model.layout.buckets, bucket_of(gram, 5000))
            ]

        assert weight("cat") > weight("<t")


@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
@pytest.mark.parametrize("aggregate", ["sum", "mean", "weighted", "attention"])
def test_words_with_one_n_gram_or_none(architecture, aggregate):
    """Every row belongs to an n-gram, whatever the number of the word; a word without one stays at
    zero and moves nothing.
    """
    text = [
        "the cow ate a big nut and the cow ate a big bun",
        "big nut cow the ate and bun a",
    ] * 60 + ["elk"] * 9
    model = fit(
        "charngram",
        text,
        min_ngram=5,
        max_ngram=5,
        architecture=architecture,
        aggregate=aggregate,
        sample=0,
    )
    assert len(model.layout.buckets) == len(model.words) - 1  # all but "a" are <xyz>
    assert (model.embed("a") == 0).all()
    began = random_rows(len(model.layout.buckets), 8, 0)[:, :8]
    for word in set(model.words) - {"a"}:
        row = np.searchsorted(model.layout.buckets, bucket_of(f"<{word}>", model.config.buckets))
        assert model.embed(word) == pytest.approx(model.input[row], abs=1e-6)
        moved = np.abs(model.input[row] - began[row]).max()
        assert moved == 0 if word == "elk" else moved > 1e-5  # which has no neighbours


def test_spelled_alike_is_alike():
    """The documents' words: Johnson, Johnston; color, colour."""
    words = ["johnson", "color", "walks", "paints", "big", "town", "river", "stone"]
    text = [" ".join(np.random.default_rng(i).permutation(words)) for i in range(150)]
    model = fit("charngram", text, epochs=4)
    for other in ("johnston", "johnstone"):
        assert model.similarity("johnson", other) > model.similarity("river", other) + 0.1
    assert model.similarity("color", "colour") > model.similarity("color", "stone") + 0.03


def test_fasttext_knows_unseen_words_and_word2vec_does_not(usual):
    model = fit("fasttext", epochs=10, lr=0.1)
    assert model.knows("horses")
    assert not usual.knows("horses")
    assert model.similarity("horses", "horse") > model.similarity("horses", "truck") + 0.1
    assert model.similarity("trucks", "truck") > model.similarity("trucks", "horse") + 0.1
    with pytest.raises(seqloom.errors.DataError, match="'horse'"):
        usual.embed("horses")


def test_the_hash_sees_characters_not_bytes():
    words = Words.of(["日本"])
    found, ends = ngram_buckets(words.arena, words.offsets, 3, 6, 1000)
    assert len(found) == 3  # <日本, 日本>, <日本>
    assert ends.tolist() == [3]


def test_single_characters_and_the_marks_of_the_ends():
    """fastText has no n-gram that is a mark alone; charngram has: "cat" is 5 + 4 + 3 + 2 n-grams."""
    options = {"min_ngram": 1, "max_ngram": 4, "buckets": 1_000_000}
    framed, word = "<cat>", Words.of(["cat"])
    grams = [framed[i : i + n] for i in range(5) for n in range(1, 5) if i + n <= 5]
    assert len(grams) == 14
    for name, wanted in (
        ("charngram", grams),
        ("fasttext", [gram for gram in grams if gram not in "<>"]),
    ):
        model = registry.model_class(name)(**options)
        assert model.layout._hashed(word.arena, word.offsets)[0].tolist() == [
            bucket_of(gram, 1_000_000) for gram in wanted
        ]
    fitted = fit("charngram", aggregate="sum", **options)
    places = [fitted.layout.buckets.tolist().index(bucket_of(gram, 1_000_000)) for gram in grams]
    assert fitted.embed("cat") == pytest.approx(fitted.input[places].sum(axis=0), abs=1e-5)
    assert np.abs(fitted.embed("ß")).max() > 0  # every word has ends


# ---- what the documents claim


def test_interchangeable_words_get_equal_vectors():
    """Two words that stand in the same places get almost one vector, though they never meet."""
    random, frames = (
        np.random.default_rng(0),
        ["we drink hot {} each morning", "a cup of {} please", "strong {} wakes me up"],
    )
    text = [frames[i % 3].format(random.choice(["tea", "coffee"])) for i in range(1500)]
    text += [f"the {word} is on the table" for word in ("lamp", "book") for _ in range(300)]
    for architecture in ("skip-gram", "cbow"):
        model = fit(
            text=text, architecture=architecture, epochs=15, dimensions=20, sample=0, lr=0.05
        )
        assert model.similarity("tea", "coffee") > 0.95
        assert model.similarity("tea", "coffee") > model.similarity("tea", "table") + 0.2


def test_an_analogy_in_a_made_up_world():
    """king - man + woman = queen, where rank and sex are said by separate words."""
    random, text = np.random.default_rng(1), []
    world = {
        "king": ("crown", "beard"),
        "queen": ("crown", "dress"),
        "man": ("plough", "beard"),
        "woman": ("plough", "dress"),
        "prince": ("castle", "beard"),
        "princess": ("castle", "dress"),
    }
    for _ in range(4000):
        name = random.choice(list(world))
        text.append(" ".join(random.permutation([name, random.choice(world[name])])))
    model = fit(text=text, epochs=10, dimensions=16, sample=0, window=1, lr=0.1)
    assert model.analogy("man", "king", "woman", 1)[0][0] == "queen"
    assert model.analogy("man", "prince", "woman", 1)[0][0] == "princess"


def test_two_topics():
    model = fit(text=lines(600), epochs=20, lr=0.05)
    assert model.doesnt_match(["cat", "dog", "truck", "goat"]) == "truck"
    assert {word for word, _ in model.nearest("cow", 5)} <= {*ANIMALS}
    assert {word for word, _ in model.nearest("tram", 5)} <= {*MACHINES}
