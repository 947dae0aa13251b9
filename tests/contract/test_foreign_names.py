"""Names of other libraries are answered with ours, and no row of the table has gone stale."""

import copy
import pickle

import pytest
from click.testing import CliRunner

import seqloom
from seqloom import foreign_names, registry
from seqloom.cli.main import commands, main
from seqloom.decoding.sampling import SamplingConfig
from seqloom.errors import ConfigError
from seqloom.foreign_names import word_of
from seqloom.training.config import TrainConfig
from tests.saved import NEWEST

MODELS = {name: registry.model_class(name) for name in registry.MODELS}
CONFIGS = [*(model.config_class for model in MODELS.values()), TrainConfig, SamplingConfig]
OPTIONS = {name for config in CONFIGS for name in config.__dataclass_fields__}
FLAGS = {"device", "beams", "number", "output"}  # arguments of fit and generate, -o


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: seqloom.Word2Vec(vector_size=9), "'vector_size'; it is called dimensions here"),
        (lambda: seqloom.Word2Vec(random_state=9), "'random_state'; it is called seed here"),
        (
            lambda: seqloom.LSTM(random_state=9),
            r"'random_state'; it is called seed here; it belongs to training: fit\(data, seed=",
        ),
        (lambda: seqloom.HMM(n_components=9), "'n_components'; it is called states here"),
        (
            lambda: seqloom.NaiveBayes(max_features=9),
            "'max_features'; it is called vocab_size here",
        ),
        (
            lambda: seqloom.NaiveBayes(ngram_range=(1, 2)),
            "'ngram_range'; it is called ngrams .* here",
        ),
        (lambda: seqloom.NGram(ngram_range=(1, 2)), "'ngram_range'; it is called order here"),
        (lambda: seqloom.Word2Vec(alpha=0.1), "'alpha'; it is called lr here"),
        (lambda: seqloom.Glove(alpha=0.1, beta=2), "'beta'; "),  # alpha is an option of GloVe
        (
            lambda: seqloom.GPT(device_map="cuda"),
            r"'device_map'; it is called device here; .* fit\(",
        ),
        (
            lambda: seqloom.Word2Vec(workers=4),
            "'workers'; the environment variable SEQLOOM_THREADS",
        ),
        (lambda: seqloom.TrainConfig(learning_rate=1), "'learning_rate'; it is called lr here"),
        (
            lambda: seqloom.load(NEWEST / "ngram").generate("a", max_new_tokens=3),
            "'max_new_tokens'; it is called max_tokens here",
        ),
        (
            lambda: seqloom.NGram().set_params(n_iter=3),
            "'n_iter'; it is called iterations here; it belongs to hmm and mixture",
        ),
    ],
)
def test_options(make, says):
    with pytest.raises(ConfigError, match=f"^unknown option {says}"):
        make()


def test_data_where_options_belong():
    with pytest.raises(ConfigError, match=r"got list; a model is made of options, and fit\(data\)"):
        seqloom.Word2Vec([["to", "be"]], vector_size=9)


@pytest.mark.parametrize(
    ("model", "name", "says"),
    [
        ("word2vec", "most_similar", r"here it is nearest\(query, k=10\)"),
        ("word2vec", "wv", r"here it is vectors, .*model\[word\] are the model's own"),
        ("sentence-encoder", "encode", r"here it is embed\(text\)"),
        ("ngram", "logscore", r"here it is score\(text\)"),
        ("arima", "predict", r"here it is forecast\("),
        ("copy", "predict", r"here it is translate\("),
        ("ngram", "predict", r"here it is generate\("),
        ("bert", "transform", r"here it is hidden\(text\)"),
        ("lstm", "partial_fit", r"train on with fit\(data, start=model\)"),
        ("ngram", "partial_fit", r"together, or mix it .*Mixture\.of"),
        ("majority", "partial_fit", "fit it on the old and the new data together"),
        ("bert", "partial_fit", r"published ones; NeuralClassifier\(encoder="),
        ("ngram", "nonsense", "no attribute 'nonsense'$"),
        ("word2vec", "vector_size", "here it is vectors.dimensions$"),
        ("vectors", "vector_size", "here it is dimensions$"),
        ("lstm", "cuda", r"here it is to_device\(device\)"),
        ("ngram", "train", r"here it is fit\(data\)"),
    ],
)
def test_attributes(model, name, says):
    made = MODELS[model]()
    assert not hasattr(made, name)
    with pytest.raises(AttributeError, match=says):
        getattr(made, name)


def test_train_of_a_network_is_how_it_trains():
    assert seqloom.LSTM().train is None
    assert seqloom.LSTM(train={"steps": 3}).train == TrainConfig(steps=3)
    assert "train" not in dir(seqloom.NGram())


@pytest.mark.parametrize("name", ["penalty", "solver", "max_iter", "random_state"])
def test_what_a_logistic_regression_does_not_need(name):
    says = f"^unknown option '{name}'; it is not needed: fit always finds the one optimum for C"
    with pytest.raises(ConfigError, match=says):
        seqloom.Logistic(**{name: 1})
    flag = foreign_names.answer_flag(f"--{name.replace('_', '-')}", {"C": "--C"})
    assert flag.startswith("It is not needed: fit always")


def test_a_tagger_without_tag_says_what_tags():
    with pytest.raises(NotImplementedError, match=r"hmm-tagger tags sentences by predict\("):
        seqloom.HMMTagger().tag(["a"])


def test_continuing_works_as_the_sentence_says():
    text, train = "to be or not to be\n" * 20, TrainConfig(steps=1)
    network = seqloom.RNN(d_hidden=4, tokenizer="char").fit(text, train=train)
    assert network.fit(text, start=network, train=train).fitted
    old, new = (seqloom.NGram(order=n).fit(text) for n in (1, 2))
    assert seqloom.Mixture.of([old, new]).fit(text).fitted


def test_an_unknown_attribute_spoils_no_copy():
    model = seqloom.load(NEWEST / "word2vec")
    for same in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert same.parameters == model.parameters
    with pytest.raises(
        AttributeError, match="has no classes_ before fit"
    ):  # a property's own words
        _ = seqloom.NaiveBayes().classes_


def test_a_word_in_brackets():
    for name in ("word2vec", "fasttext", "glove", "vectors"):
        model = seqloom.load(NEWEST / name)
        word = model.vectors.words[0]
        assert (model[word] == model.embed(word)).all()
        assert (model[[word, word]] == model.embed([word, word])).all()
        assert word in model
        assert "no such word" not in model


def test_names_of_the_package():
    for name, ours in (("KeyedVectors", "WordVectors"), ("LogisticRegression", "Logistic")):
        with pytest.raises(AttributeError, match=f"{name!r}; here it is seqloom.{ours}$"):
            getattr(seqloom, name)
    with pytest.raises(AttributeError, match="'Word2vec'; did you mean 'Word2Vec'"):
        _ = seqloom.Word2vec
    for ours in foreign_names.PUBLIC:
        assert getattr(seqloom, ours)
    for name in " ".join(foreign_names.PUBLIC.values()).split():
        assert name not in dir(seqloom)


def usage_error(*args):
    return CliRunner().invoke(main, args, standalone_mode=False).exception


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("train", "here it is seqloom fit MODEL DATA -o OUT"),
        ("finetune", "here it is seqloom fit MODEL DATA -o OUT --start SAVED"),
        ("Server", "`seqloom serve MODEL` answers requests over HTTP"),
        ("nn", "here it is seqloom nearest SAVED WORD"),
        ("comprae", "did you mean 'compare'"),
    ],
)
def test_commands(word, says):
    assert f"unknown command '{word}'; {says}" in str(usage_error(word))


def test_flags():
    known = {"dimensions": "--dimensions", "architecture": "--architecture"}
    assert foreign_names.answer_flag("--vector-size", known) == "It is --dimensions here."
    assert foreign_names.answer_flag("--sg", known).startswith("It is --architecture ('skip-gram'")
    assert foreign_names.answer_flag("--steps", {"horizon": "--horizon"}) == "It is --horizon here."
    assert "SEQLOOM_THREADS" in foreign_names.answer_flag("--n-jobs", known)
    assert foreign_names.answer_flag("--colour", known) is None


# ---- the table


def test_each_row_names_something_of_ours():
    assert {word_of(row) for row in foreign_names.OPTIONS} <= OPTIONS | FLAGS
    for row in foreign_names.ATTRIBUTES:
        assert any(hasattr(model, word_of(row)) for model in MODELS.values()), row
    for row in foreign_names.COMMANDS:
        assert row.startswith("--") or row.split()[0] in commands(), row


def test_each_name_is_answered():
    for name in " ".join(foreign_names.ATTRIBUTES.values()).split():
        lacking = [model for model in MODELS.values() if not hasattr(model, name)]
        assert any(foreign_names.answer_attribute(name, model) for model in lacking), name
    for name in " ".join(foreign_names.COMMANDS.values()).split():
        assert name not in commands(), f"{name} is a command itself"


@pytest.mark.parametrize("table", ["NO_OPTION", "PUBLIC", "COMMANDS", "NO_COMMAND"])
def test_no_name_stands_in_two_rows(table):
    names = " ".join(getattr(foreign_names, table).values()).split()
    assert sorted(names) == sorted(set(names))
