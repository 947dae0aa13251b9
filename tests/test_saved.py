"""Saved models of every format: they load and answer as they did, whatever became of the record of
their fit.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from seqloom import NGram, Tokenizer, load, registry, storage
from seqloom.arrays import read_arrays
from seqloom.cli.main import main
from seqloom.contracts import Model
from seqloom.errors import ConfigError, DataError, ModelError, NotFitted
from seqloom.models.word_vectors.configs import WordVectorsConfig
from tests.fuzz.specimens import TEXT
from tests.fuzz.uses import use
from tests.saved import NEWEST, QUANTISED, SAVED, answers, ask

PLACES = sorted(path.parent for path in SAVED.glob("format-*/*/config.json"))
NEW = [path for path in PLACES if path.parent == NEWEST]
ODD = [None, -1, "x", [], {"a": [1]}, float("nan"), "\ud800", 10**30, True]


def same(found, wanted, close=1e-6):
    """Equal, numbers up to rounding."""
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(
            same(found[key], wanted[key], close) for key in wanted
        )
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(same(*pair, close) for pair in zip(found, wanted))
    return found == (
        pytest.approx(wanted, rel=close, abs=close) if isinstance(wanted, float) else wanted
    )


def config_of(place):
    return json.loads((place / "config.json").read_text("utf-8"))


def write_config(place, config):
    (place / "config.json").write_text(json.dumps(config), "utf-8")


@pytest.mark.parametrize("place", NEW, ids=lambda place: place.name)
def test_nothing_is_saved_that_load_refuses(place, tmp_path, monkeypatch):
    """An array with a value that a saved one may not have, as after a fit that went wrong."""
    model = load(place)
    arrays = {name: array.copy() for name, array in model.saved_parts()[0].items()}
    floats = [name for name, array in arrays.items() if array.dtype.kind == "f" and array.size]
    if floats:
        arrays[floats[0]].flat[0] = np.nan
    else:
        arrays["surplus"] = np.zeros(1)
    learnt = config_of(place)["learnt"]
    monkeypatch.setattr(model, "saved_parts", lambda: (arrays, learnt))
    with pytest.raises(ModelError, match="could not be loaded again"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


# ---- formats


def test_every_registered_model_is_there_in_the_newest_format():
    assert {path.name for path in NEW} == {*registry.MODELS, *QUANTISED}, (
        "write them: python -m tests.saved"
    )
    assert {config_of(path)["format_version"] for path in NEW} == {storage.FORMAT_VERSION}
    assert sum(file.stat().st_size for file in SAVED.rglob("*") if file.is_file()) < 1 << 20


@pytest.mark.parametrize("place", PLACES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_saved_models_answer_as_they_did(place):
    """On another processor the inputs of a quantised matrix may be rounded to their other neighbours."""
    close = 1e-2 if place.name in QUANTISED else 1e-6
    assert same(ask(load(place)), answers(place.parent)[place.name], close)


@pytest.mark.parametrize("name", ["hmm-tagger", "gru", "fasttext-classifier", "vectors", "mixture"])
def test_format_1_becomes_format_2(name, tmp_path):
    """Saved again it is what a new model is, but for numbers that no two machines compute alike."""
    load(SAVED / "format-1" / name).save(tmp_path / "m")
    found, wanted = config_of(tmp_path / "m"), config_of(NEWEST / name)
    assert {key: found[key] for key in wanted if key != "fit"} == {
        key: wanted[key] for key in wanted if key != "fit"
    }
    assert list(found) == list(wanted)
    assert found["fit"].keys() == wanted["fit"].keys()
    done = CliRunner().invoke(main, ["info", str(SAVED / "format-1" / name), "--json"])
    assert json.loads(done.stdout)["learnt"] == wanted["learnt"]


def test_the_tokenizer_of_a_saved_model_of_either_format():
    for place in (SAVED / "format-1" / "ngram", NEWEST / "ngram"):
        assert Tokenizer.load(place) == load(place).tokenizer


# ---- the record of the fit


@pytest.mark.parametrize("place", NEW, ids=lambda path: path.name)
def test_nothing_relies_on_the_record_of_the_fit(place, tmp_path):
    wanted, config, copy = (
        ask(load(place)),
        config_of(place),
        shutil.copytree(place, tmp_path / "m"),
    )
    fit = config["fit"]
    assert fit
    records = [{}, -1, "x", None, [1]]
    for i, key in enumerate(fit):
        records += [
            {k: v for k, v in fit.items() if k != key},
            *({**fit, key: ODD[(i + j) % len(ODD)]} for j in (0, 4)),
        ]
    for record in records:
        write_config(copy, config | {"fit": record})
        model = load(copy)
        assert same(ask(model), wanted), record
        assert all((model.label(), model.summary(), str(model.signature())))
        assert model.parameters >= 0


@pytest.mark.parametrize("place", NEW, ids=lambda path: path.name)
def test_a_model_with_a_garbled_record_does_everything(place, tmp_path):
    for i, odd in enumerate([*ODD, None]):
        copy = shutil.copytree(place, tmp_path / str(i))
        for inner in (path.parent for path in copy.rglob("config.json")):  # of its members too
            config = config_of(inner)
            config["fit"] = dict.fromkeys(config["fit"], odd)
            if i == len(ODD):
                del config["fit"]
            write_config(inner, config)
        model = load(copy)
        model.save(tmp_path / f"again{i}")
        assert same(ask(load(tmp_path / f"again{i}")), answers(NEWEST)[place.name])
    use(model)
    if place.name in ("word2vec", "fasttext", "charngram", "glove"):
        model.partial_fit(TEXT)
    for args in (["info"], ["info", "--json"]):
        for i in range(len(ODD) + 1):
            done = CliRunner().invoke(main, [*args, str(tmp_path / str(i))])
            assert done.exit_code == 0, done.output
    if place.name == "ngram":
        assert (
            CliRunner().invoke(main, ["convert", str(copy), str(tmp_path / "m.arpa")]).exit_code
            == 0
        )


def test_a_model_whose_fit_was_broken_off_is_not_fitted():
    model = NGram(order=5).fit(TEXT)
    with pytest.raises(DataError):
        model.fit(7)
    assert model.fitted  # nothing was begun
    with pytest.raises(DataError, match="shorter than the order"):
        model.fit("a b")
    assert (model.fitted, model.learnt, model.fit_info, model.tokenizers) == (False, {}, {}, {})
    with pytest.raises(NotFitted):
        model.save("m")


# ---- tokenizers


class Pair(Model):
    """A model of two languages, which learns nothing but its tokenizers."""

    task = name = "pair"
    config_class = WordVectorsConfig

    def fit(self, data, *, valid=None, memory=None, train=None, device=None, run=None):
        with self.learning():
            self.tokenizers = {
                "source": Tokenizer(kind="word").fit(data[0]),
                "target": Tokenizer(kind="bpe", vocab_size=270, normalize="case=lower").fit(
                    data[1]
                ),
            }
        return self

    def arrays(self):
        return {}

    def array_specs(self, length):
        return {}

    def restore_arrays(self, arrays):
        pass

    def summary(self):
        return "two languages"


@pytest.fixture
def pair(monkeypatch):
    monkeypatch.setitem(registry.MODELS, "pair", registry.Entry(f"{__name__}:Pair", "", "pair", ""))
    return Pair().fit((TEXT, TEXT.upper()))


def test_a_model_has_any_number_of_named_tokenizers(pair, tmp_path):
    for _ in range(2):  # the second takes the place of the first
        pair.save(tmp_path / "m")
        again = load(tmp_path / "m")
        assert again.tokenizers == pair.tokenizers
        assert list(again.tokenizers["target"].encode("THE cat")) == list(
            pair.tokenizers["target"].encode("the cat")
        )
        with pytest.raises(ConfigError, match="no tokenizer named text, but source, target"):
            _ = again.tokenizer
    assert sorted(
        p.relative_to(tmp_path / "m").as_posix() for p in (tmp_path / "m").rglob("*") if p.is_file()
    ) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizers/source/tokenizer.safetensors",
        "tokenizers/target/tokenizer.json",
    ]
    with pytest.raises(ModelError, match="no tokenizer here"):
        Tokenizer.load(tmp_path / "m")


def test_the_one_named_text_is_the_tokenizer(pair, tmp_path):
    pair.tokenizer = text = Tokenizer(kind="char").fit(TEXT)
    assert list(pair.tokenizers) == ["source", "target", "text"]
    assert pair.tokenizer is text
    pair.save(tmp_path / "m")
    assert (tmp_path / "m" / "tokenizer.safetensors").is_file()
    assert load(tmp_path / "m").tokenizer == Tokenizer.load(tmp_path / "m") == text


@pytest.mark.parametrize("name", ["../x", "", "a/b", "x" * 51])
def test_a_tokenizer_with_another_name_is_not_written(pair, tmp_path, name):
    pair.tokenizers[name] = pair.tokenizers["source"]
    with pytest.raises(ModelError, match="name of a tokenizer"):
        pair.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


# ---- devices


def test_networks_are_put_on_the_device(monkeypatch):
    import torch

    from seqloom.training import devices

    assert next(load(NEWEST / "gru").network().parameters()).device.type == "cpu"
    monkeypatch.setattr(devices, "find_device", torch.device)  # which lets meta pass
    for model in (
        load(NEWEST / "gru", device="meta"),
        load(NEWEST / "neural-cache", device="meta").members[0],
    ):
        assert next(model.network().parameters()).device.type == "meta"
    model = load(NEWEST / "gru")
    model.network()  # made before
    assert model.to_device("meta")
    assert next(model.network().parameters()).device.type == "meta"


def test_a_model_that_was_put_on_a_device_answers_the_same():
    for name in ("gpt", "neural-cache"):
        model = load(NEWEST / name, device="cpu:0")
        assert same(ask(model), answers(NEWEST)[name])
        assert "device" not in json.dumps(config_of(NEWEST / name))


@pytest.mark.parametrize("device", ["meta", "gpu9", "cuda:99"])
@pytest.mark.parametrize("name", ["lstm", "neural-cache"])
def test_a_device_that_cannot_be_used(name, device):
    with pytest.raises(ConfigError, match=f"device '{device}' cannot be used") as error:
        load(NEWEST / name, device=device)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["ngram", "mixture", "hmm-tagger", "vectors"])
def test_a_model_without_networks_runs_on_no_device(name):
    assert load(NEWEST / name, device="cpu").name == name
    with pytest.raises(ConfigError, match=f"{name} models do not run on a device"):
        load(NEWEST / name, device="cuda")
    with pytest.raises(ConfigError, match="do not run on a device"):
        registry.model_class(name).load(NEWEST / name, device="cuda")


# ---- docs/format.md


def rows(heading):
    """The cells of the table that has this first line."""
    text = (
        (Path(__file__).parents[1] / "docs" / "format.md").read_text("utf-8").partition(heading)[2]
    )
    lines = text.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_the_table_of_arrays_is_that_of_saved_models():
    table = {
        (model, array): (kind.split(" or "), len(shape.split("×")), note.startswith("only"))
        for models, (array,), kind, shape, note in (
            (names(a), names(b), *rest)
            for a, b, *rest in rows("| model | array | type | shape | |")
        )
        for model in models
    }
    found = {
        (path.name, re.sub(r"\.\d+\.", ".N.", name)): (array.dtype.name, array.ndim)
        for path in NEW
        if path.name in registry.MODELS
        for name, array in read_arrays(path / "model.safetensors").items()
    }
    assert found.keys() <= table.keys()
    for key, (kind, rank) in found.items():
        assert kind in table[key][0], key
        assert rank == table[key][1], key
    assert {key for key, (_, _, optional) in table.items() if not optional} <= found.keys()


def test_arrays_that_depend_on_options_are_in_the_table():
    """By the specs of the models themselves: the adaptive softmax, layer norms, codes of 8 bits."""
    from tests.fuzz.specimens import SPECIMENS

    known = {
        (model, array)
        for models, arrays, *_ in rows("| model | array | type | shape | |")
        for model in names(models)
        for array in names(arrays)
    }
    for name in (
        "nplm-adaptive",
        "gru-before",
        "gru-varied",
        "lstm-plain",
        "lstm-varied",
        "rnn-varied",
        "gpt-learned",
        "fasttext-classifier-quantised",
        "classifier-transformer",
        "classifier-numbers",
        "tagger-gru",
        "seq2seq-deep",
        "seq2seq-numbers",
        "transformer-shared",
    ):
        model = SPECIMENS[name]()
        assert {(model.name, re.sub(r"\.\d+\.", ".N.", array)) for array in model.arrays()} <= known


@pytest.mark.parametrize("bits", [8, 4])
def test_quantised_matrices_are_as_described(bits):
    """Each matrix is one of the table, in the arrays of its own section."""
    from tests.fuzz.specimens import SPECIMENS

    matrices = {
        array
        for models, arrays, *_ in rows("| model | array | type | shape | |")
        if "gpt" in names(models)
        for array in names(arrays)
    }
    table = {
        (cell.removeprefix("`NAME").split("`")[0], kind): len(shape.split("×"))
        for cell, kind, shape, _ in rows("\n| array | type | shape | |")
    }
    found = set()
    for name, array in SPECIMENS[f"gpt-{bits}-bit"]().arrays().items():
        if array.dtype != np.float32:
            ending = next(
                (ending for ending in (".scale", ".minimum") if name.endswith(ending)), ""
            )
            assert re.sub(r"\.\d+\.", ".N.", name.removesuffix(ending)) in matrices
            assert table[ending, array.dtype.name] == array.ndim
            found.add((ending, array.dtype.name))
    assert found == table.keys() - (
        {("", "uint8"), (".minimum", "float16")} if bits == 8 else set()
    )


def test_the_table_of_what_is_learnt():
    table = {name for _, cell, _ in rows("| model | name | |") for name in names(cell)}
    assert table == {
        name for model in registry.MODELS for name in registry.model_class(model).learnt_values
    }


def test_every_key_of_the_config_is_documented():
    keys = {name for cell, *_ in rows("| key | type | |") for name in names(cell)}
    settings = {name for cell, *_ in rows("| key | |") for name in names(cell)}
    for path in NEW:
        config = config_of(path)
        assert config.keys() == keys
        assert all(settings == tokenizer.keys() for tokenizer in config["tokenizers"].values())


def test_members_where_there_are_none_are_refused(tmp_path):
    shutil.copytree(NEWEST / "ngram", tmp_path / "m")
    shutil.copytree(NEWEST / "naive-bayes", tmp_path / "m" / "members" / "0")
    with pytest.raises(ModelError, match="there are members in it"):
        load(tmp_path / "m")


def test_a_network_without_width_is_refused(tmp_path):
    shutil.copytree(NEWEST / "gpt", tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    (tmp_path / "m" / "config.json").write_text(
        json.dumps({**config, "learnt": {**config["learnt"], "width": 0}})
    )
    with pytest.raises(ModelError, match="'width' is 0"):
        load(tmp_path / "m")
