"""A model of one's own in a script: everything works with the primitive alone, and what cannot be
loaded is not saved.
"""

import copy
import json
import math
import os
import pickle
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom import registry
from seqloom.comparison.ab import ab
from seqloom.errors import ConfigError, ModelError
from seqloom.testing import check_classifier, check_language_model, check_tagger
from seqloom.testing.classification import PAIRS
from seqloom.testing.language import HELD_OUT, TEXT
from seqloom.testing.tagging import POS

from . import own_models
from .own_models import Bigram, Frequent, Votes
from .test_docs import blocks, write_modules

pytestmark = pytest.mark.usefixtures("own_registry")


@pytest.fixture
def registered(own_registry):
    for cls in (Bigram, Votes, Frequent):
        seqloom.register(cls)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    "options",
    [{}, {"tokenizer": "byte", "unit": "stream"}, {"k": 2.0, "tokenizer": "char"}],
    ids=str,
)
def test_a_language_model_of_the_primitive_keeps_the_contract(options):
    check_language_model(Bigram(**options))


@pytest.mark.usefixtures("registered")
def test_a_classifier_and_a_tagger_do_too():
    check_classifier(Votes(k=0.5))
    check_tagger(Frequent())


def test_the_defaults_of_a_class():
    model = Bigram(k=0.5)
    assert (model.name, model.k, model.config.tokenizer, model.unit) == (
        "bigram",
        0.5,
        "whitespace",
        "line",
    )
    assert type(model.config).__name__ == "BigramConfig"
    with pytest.raises(ConfigError, match="k must be at least"):
        Bigram(k=0)
    with pytest.raises(ConfigError, match="unknown option"):
        Frequent(colour="red")

    class TwoHMMTagger(Frequent):
        order: int = seqloom.option(2, "how far")
        k: float = seqloom.option(3.0, "another one")

    class WithTable(Bigram):
        context = 1
        k: float = seqloom.option(9.0, "the same with another default")

    assert (TwoHMMTagger.name, Bigram.name) == ("two-hmm-tagger", "bigram")
    assert (TwoHMMTagger().order, TwoHMMTagger().config.k, WithTable().k, Bigram().k) == (
        2,
        3.0,
        9.0,
        0.1,
    )


def test_it_is_a_bigram_however_it_is_asked():
    """The score by hand, for each way in which the model is read."""
    model = Bigram(k=1.0).fit(TEXT)
    ids, lengths = model.encode(HELD_OUT)
    before = np.append(model.tokenizer.eos_id, ids[:-1])
    expected = model.table[before, ids].astype(np.float32)
    assert (model.sequence_log_probs(ids, lengths) == expected).all()
    assert model.score(HELD_OUT) == pytest.approx(float(expected.sum()), abs=1e-4)
    assert model.perplexity(HELD_OUT) == pytest.approx(math.exp(-expected.mean()), rel=1e-6)
    assert (
        model.generate("the", temperature=0, max_tokens=1).strip()
        == model.complete("the ", 1)[0].text
    )


@pytest.mark.parametrize("size", [None, 0, 1, 2, 3])
def test_what_a_model_sees(size):
    """Contexts begin with </s> and are no longer than the model says, in scoring and in stepping,
    in batches too.
    """
    seen = set()

    class Sees(seqloom.LanguageModel):
        context = size

        def fit_ids(self, ids, how):
            pass

        def next_log_probs(self, context):
            seen.add(tuple(context.tolist()))
            return np.full(self.tokenizer.vocab_size, -np.log(self.tokenizer.vocab_size))

    model = Sees(tokenizer="byte", unit="stream").fit("abc")
    end, (a, b, c) = model.tokenizer.eos_id, model.tokenizer.encode("abc").tolist()
    whole = [(end,), (end, a), (end, a, b), (end, a, b, c)]
    expected = {row if size is None else row[len(row) - min(size, len(row)) :] for row in whole}
    model.score("abc")
    assert seen == expected
    seen.clear()
    stepper = model.stepper()
    state, _ = stepper.start(2)
    for token in (a, b, c):
        state, _ = stepper.step(state, np.array([token, token]))
    assert seen == expected
    seen.clear()
    model.generate(["abc", "a", ""], max_tokens=1)
    assert seen == expected


@pytest.mark.usefixtures("registered")
def test_it_goes_with_other_models(tmp_path):
    own = Bigram().fit(TEXT)
    mixture = seqloom.Mixture.of(
        [own, seqloom.NGram(order=3).fit(TEXT, tokenizer=own.tokenizer)]
    ).fit(HELD_OUT)
    assert mixture.generate("the", max_tokens=3, seed=1)
    mixture.save(tmp_path / "mix")
    assert seqloom.load(tmp_path / "mix").score(HELD_OUT) == mixture.score(HELD_OUT)
    figures = ab(TEXT, a={"k": 0.1}, b={"k": 5.0}, model="bigram", folds=2)
    assert figures["nats per token"].difference > 0.1
    assert (
        pickle.loads(pickle.dumps(own)).score("the cat")
        == copy.deepcopy(own).score("the cat")
        == own.score("the cat")
    )


class Steps:
    """A stepper without sizes of its own."""

    def __init__(self, table, first):
        self.table, self.first = table.astype(np.float32), first

    def start(self, n):
        return (np.zeros(n),), np.tile(self.table[self.first], (n, 1))

    def step(self, state, ids):
        return state, self.table[ids]


class StepBigram(Bigram):
    """The same by a stepper"""

    def stepper(self, *, eight_bit=False):
        return Steps(self.table, self.tokenizer.eos_id)


def test_a_stepper_needs_no_sizes():
    seqloom.register(StepBigram)
    check_language_model(StepBigram())
    slow, fast = Bigram().fit(TEXT), StepBigram().fit(TEXT)
    assert slow.generate("the", seed=2, max_tokens=9) == fast.generate("the", seed=2, max_tokens=9)
    assert seqloom.Mixture.of([fast, slow]).fit(TEXT).generate("the", seed=2, max_tokens=5)


# ---- saving, loading and names


def test_an_init_of_ones_own_may_take_what_it_likes(tmp_path):
    @seqloom.register
    class Starts(Bigram):
        def __init__(self, start, k=1.0):
            super().__init__(k=k)
            self.start = start

    Starts([3], 2.0).fit(TEXT).save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    assert (again.start, again.k, type(again)) == ([3], 2.0, Starts)
    assert again.parameters == again.tokenizer.vocab_size**2
    check_language_model(again)
    check_language_model(again, TEXT)


def test_what_is_not_registered_is_not_saved(tmp_path):
    model = Bigram().fit(TEXT)
    with pytest.raises(
        ModelError, match=r"cannot save a Bigram: it is not registered.*@seqloom.register"
    ):
        model.save(tmp_path / "m")
    with pytest.raises(ModelError, match="cannot save a Bigram"):  # a member neither
        seqloom.Mixture.of([model, seqloom.NGram().fit(TEXT, tokenizer=model.tokenizer)]).fit(
            TEXT
        ).save(tmp_path / "m")
    assert not list(tmp_path.iterdir())

    class Mine(seqloom.NGram):
        pass

    with pytest.raises(
        ModelError, match="cannot save a Mine"
    ):  # and would come back as an n-gram model
        Mine().fit(TEXT).save(tmp_path / "m")


def test_loading_says_which_name_is_missing(tmp_path, own_registry):
    assert seqloom.register(Bigram) is Bigram
    Bigram().fit(TEXT).save(tmp_path / "m")
    del own_registry["bigram"]
    with pytest.raises(
        ModelError, match=r"no model named 'bigram' is known here; import the module"
    ):
        seqloom.load(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    for name in ("tests.own_models:Bigram", "os:system"):  # a path is not followed
        (tmp_path / "m" / "config.json").write_text(json.dumps(config | {"model": name}))
        with pytest.raises(ModelError, match="no model named"):
            seqloom.load(tmp_path / "m")


def test_registering(own_registry):
    @seqloom.register
    class Bigram(own_models.Bigram):
        """Defined a first time"""

    first = Bigram

    @seqloom.register
    class Bigram(own_models.Bigram):  # as a notebook does when a cell is run again
        """Defined anew.

        It has more to say."""

    assert registry.model_class("bigram") is Bigram is not first
    assert own_registry["bigram"].summary == "Defined anew"
    with pytest.raises(ConfigError, match="already a model named 'bigram'"):
        seqloom.register(own_models.Bigram)

    class Other(own_models.Bigram):
        name = "ngram"

    with pytest.raises(ConfigError, match="already a model named 'ngram'"):
        seqloom.register(Other)
    with pytest.raises(ModelError, match="the name 'ngram' is that of another model"):
        Other().fit(TEXT).save("nowhere")
    for wrong in (Bigram(), "bigram", int):
        with pytest.raises(ConfigError, match="register takes a class"):
            seqloom.register(wrong)


class Keeps(Frequent):
    """Keeps what it is given"""

    value = None

    def fit_sentences(self, data, how):
        super().fit_sentences(data, how)
        self.value = copy.deepcopy(self.given)

    given = None


def keep(value, tmp_path):
    seqloom.register(Keeps)
    Keeps.given = value
    try:
        Keeps().fit(POS).save(tmp_path / "m")
    finally:
        Keeps.given = None
    return seqloom.load(tmp_path / "m").value


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 2.5, -math.inf, "a\n漢", [1, [2.0, "x"], {}], {"a": {"b": [None]}}, []],
    ids=repr,
)
def test_plain_values_come_back_the_same(value, tmp_path):
    found = keep(value, tmp_path)
    assert (found, type(found)) == (value, type(value))


def test_arrays_come_back_the_same_wherever_they_are(tmp_path):
    value = {
        "layers": [np.arange(6).reshape(2, 3), np.float32([-np.inf, 1])],
        "on": np.array([True]),
        "none": np.zeros((0, 4)),
        "scalar": np.float64(0.1),
        "k": 3,
        "turned": np.arange(6.0).reshape(2, 3).T,
    }
    found = keep(value, tmp_path)
    assert found.keys() == value.keys()
    assert (found["scalar"], found["k"]) == (0.1, 3)
    for a, b in zip(
        [*found["layers"], found["on"], found["none"], found["turned"]],
        [*value["layers"], value["on"], value["none"], value["turned"]],
    ):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({1, 2}, "the set {1, 2}"),
        (Counter("aab"), "the Counter"),
        ((1, 2), "the tuple"),
        ({1: 2}, "a dict with the key 1"),
        (math.nan, "the float nan"),
        (np.array(["a"]), "an array of type <U1"),
        (np.array([np.nan]), "holds NaN"),
        (object(), "the object"),
        ([{"x": {3}}], "'value.0.x'"),
        ({"$array": "table"}, "a dict with the key '$array'"),
        (2**70, "the int"),
        ("\ud800", "half a character"),
        (np.array([1j]), "complex128"),
        (b"bytes", "the bytes"),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_what_would_not_come_back_the_same_is_refused(value, says, tmp_path):
    with pytest.raises(ModelError) as error:
        keep(value, tmp_path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "m").exists()


def test_nested_too_deeply(tmp_path):
    value = []
    for _ in range(40):
        value = [value]
    with pytest.raises(ModelError, match="nested so deeply"):
        keep(value, tmp_path)


def test_a_class_that_cannot_read_what_it_wrote_is_refused(tmp_path):
    class Unreadable(Frequent):
        def __init__(self):
            super().__init__()

        def arrays(self):
            return {}

        def restore_arrays(self, arrays):
            pass

    class Swallows(Unreadable):
        k: float = seqloom.option(1.0, "never handed on")

        def __init__(self, config=None, **options):
            seqloom.Tagger.__init__(self, **options)

    class Forgets(Frequent):
        def arrays(self):
            return {"a": np.zeros(2)}

        def restore_arrays(self, arrays):
            self.best = arrays["b"]

    class Records(Frequent):
        def fit_sentences(self, data, how):
            super().fit_sentences(data, how)
            self.fit_info["mean"] = np.float32(2)

    class Shadows(Frequent):
        def fit_sentences(self, data, how):
            super().fit_sentences(data, how)
            self.task = "mine"

    for cls, says in (
        (Unreadable, "could not be loaded again"),
        (Forgets, "could not be loaded again"),
        (Swallows, "would come back as"),
        (Records, "fit_info 'mean'"),
        (Shadows, "'task' of Shadows"),
    ):
        seqloom.register(cls)
        with pytest.raises(ModelError, match=says):
            cls(**{"k": 2.0} if cls is Swallows else {}).fit(POS).save(tmp_path / "m")
        assert not list(tmp_path.iterdir())


def test_saved_attributes_are_not_trusted(tmp_path):
    seqloom.register(Frequent)
    Frequent().fit(POS).save(tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    good = json.loads(path.read_text())
    for damage in (
        {"predict": 1},
        {"config": {}},
        {"task": "x"},
        {"__class__": 1},
        {"a b": 1},
        {"x": {"$array": "none"}},
        3,
        [1],
    ):
        attributes = (
            {**good["learnt"]["attributes"], **damage} if isinstance(damage, dict) else damage
        )
        path.write_text(json.dumps(good | {"learnt": good["learnt"] | {"attributes": attributes}}))
        with pytest.raises(ModelError, match="damaged"):
            seqloom.load(tmp_path / "m")
    seqloom.HMMTagger().fit(POS).save(
        tmp_path / "hmm"
    )  # a model that saves its own arrays has none
    path = tmp_path / "hmm" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"learnt": config["learnt"] | {"attributes": {"x": 1}}}))
    with pytest.raises(ModelError, match="attributes"):
        seqloom.load(tmp_path / "hmm")


def test_only_what_the_class_made_is_saved():
    """Nothing that the contract itself keeps in a model, before or after it is used."""
    models = {
        "table": Bigram().fit(TEXT),
        "votes": Votes().fit(PAIRS),
        "best usual": Frequent().fit(POS),
    }
    models["table"].generate("the", max_tokens=2)
    models["votes"].evaluate(PAIRS)
    models["best usual"].evaluate(POS)
    for names, model in models.items():
        assert model.saved_parts()[1]["attributes"].keys() == set(names.split())


def test_classes_that_cannot_be_used_are_refused_when_they_are_made():
    with pytest.raises(TypeError, match="writes neither next_log_probs nor stepper"):
        type("A", (seqloom.LanguageModel,), {"fit_ids": lambda self, ids, how: None})()
    with pytest.raises(TypeError, match="writes neither tag nor tag_ids"):
        type("A", (seqloom.Tagger,), {"fit_sentences": lambda self, data, how: None})()
    with pytest.raises(TypeError, match="has no type"):
        type("A", (Frequent,), {"k": seqloom.option(1, "x")})
    with pytest.raises(TypeError, match="cannot have an option named predict"):
        type(
            "A",
            (Frequent,),
            {"predict": seqloom.option(1, "x"), "__annotations__": {"predict": int}},
        )
    with pytest.raises(TypeError, match="one of arrays and restore_arrays"):
        type("A", (Frequent,), {"arrays": lambda self: {}})


def test_answers_of_the_wrong_shape_are_named():
    class Flat(Bigram):
        def next_log_probs(self, context):
            return np.zeros(3)

    class Short(Votes):
        def class_log_probs(self, texts):
            return [0.0]

    class Odd(Frequent):
        def tag(self, words):
            return ["NEVER"] * len(words)

    class Few(Frequent):
        def tag(self, words):
            return []

    for model, call, says in (
        (Flat().fit(TEXT), lambda m: m.score("a"), r"shape \(3,\)"),
        (Short().fit(PAIRS), lambda m: m.predict("a"), r"shape \(1,\); it must be \(1, 3\)"),
        (Odd().fit(POS), lambda m: m.predict("a"), "'NEVER', which is not one of self.tags"),
        (Few().fit(POS), lambda m: m.predict("a"), "0 tags for 1 words"),
    ):
        with pytest.raises(ModelError, match=says):
            call(model)


# ---- as a package

PAGE = Path(__file__).parent.parent / "docs" / "own-model.md"


def test_commands_know_the_models_of_a_package(tmp_path):
    """The package of docs/own-model.md, as it is installed, and the commands that the page shows."""
    home = tmp_path / "package"
    (home / "mymodels-1.0.dist-info").mkdir(parents=True)
    assert write_modules(PAGE, home) == ["mymodels"]
    project = tomllib.loads(blocks(PAGE, "toml")[0])
    points = "".join(
        f"{name} = {target}\n"
        for name, target in project["project"]["entry-points"]["seqloom.models"].items()
    )
    (home / "mymodels-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: mymodels\nVersion: 1.0\n"
    )
    (home / "mymodels-1.0.dist-info" / "entry_points.txt").write_text(f"[seqloom.models]\n{points}")
    for name, text in (("corpus.txt", TEXT * 3), ("test.txt", HELD_OUT)):
        (tmp_path / name).write_text(text)
    (tmp_path / "reviews.tsv").write_text(
        "label\ttext\n" + "".join(f"{label}\t{text}\n" for text, label in PAIRS)
    )
    (tmp_path / "train.conll").write_text(
        "\n".join("".join(f"{w}\t{t}\n" for w, t in zip(*pair)) for pair in POS)
    )
    script = (
        blocks(PAGE, "sh")[0]
        + 'seqloom complete bigram "the "\nseqloom score bigram test.txt\nseqloom info bigram\n'
    )
    path = os.pathsep.join([str(home), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [
            "bash",
            "-euo",
            "pipefail",
            "-c",
            f'seqloom() {{ "{sys.executable}" -m seqloom "$@"; }}\n{script}',
        ],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "bigram" / "config.json").read_text())["config"]["k"] == 0.5
    assert "The last token decides" in done.stdout
    assert "good" in done.stdout
    assert "the\tDET\ndog\tNOUN\nbarks\tVERB\n" in done.stdout
    alone = subprocess.run(
        [sys.executable, "-m", "seqloom", "score", "bigram", "test.txt"],
        cwd=tmp_path,
        text=True,
        capture_output=True,
    )
    assert alone.returncode == 1
    assert "is known here; import the module" in alone.stderr
