"""One door: what lies at a path, the same weights there and back, quantised on the way, and parts
that are checked.
"""

import ast
import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom import interop
from seqloom.errors import ConfigError, DataError, ModelError, SeqloomError
from seqloom.interop import layouts, tensors
from seqloom.interop.opening import FAMILIES, form_of
from seqloom.models.sequence.published import named as name_in_network
from tests.golden import fasttext_models
from tests.interop.llama_files import llama_file
from tests.interop.test_g2p import generated

torch = pytest.importorskip("torch")

from tests.fuzz.published import make_models
from tests.fuzz.specimens import random_encoder

SOURCE = Path(seqloom.__file__).parent


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Models by family, and the directories that were written of them."""
    place, models = tmp_path_factory.mktemp("written"), make_models()
    for name, model in models.items():
        interop.write(model, place / name)
    return place, models


NAMES = ["gpt2", "llama", "marian", "bart", "t5", "bert", "albert", "sentences", "labels", "tags"]


@pytest.mark.parametrize("name", NAMES)
def test_weights_there_and_back(written, name):
    place, models = written
    again, model = interop.open(place / name), models[name]
    assert again.fitted
    assert again.name == model.name
    assert all(
        again.tokenizers[side].encode("the cat").tolist() == tokenizer.encode("the cat").tolist()
        for side, tokenizer in model.tokenizers.items()
    )
    assert again.weights.keys() == model.weights.keys()
    assert all(np.array_equal(again.weights[key], array) for key, array in model.weights.items())
    assert form_of(place / name) == "hugging-face"


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("name", [*NAMES, "tiny.gguf"])
def test_quantised_while_it_is_read(written, name, bits):
    """The same as a model that was read whole and then quantised, to the bit, whatever is done to
    the tensors.
    """
    place, _ = written
    path = place / name if name in NAMES else llama_file(place / name)
    found, whole = interop.open(path, bits=bits), interop.open(path).quantised(bits)
    assert found.bits == bits
    assert found.learnt == whole.learnt
    arrays = found.arrays()
    assert arrays.keys() == whole.arrays().keys()
    assert all(np.array_equal(arrays[key], array) for key, array in whole.arrays().items())


def test_only_one_matrix_at_a_time_is_in_float32(tmp_path):
    model = random_encoder(
        "bert", context=24, d_model=128, n_layers=6, n_heads=2, d_mlp=512, head=False
    )
    interop.write(model, tmp_path / "model")
    interop.open(tmp_path / "model", bits=8)  # so that all modules are loaded
    size = sum(array.nbytes for array in model.weights.values())
    tracemalloc.start()
    try:
        interop.open(tmp_path / "model", bits=8)
        assert tracemalloc.get_traced_memory()[1] < 0.6 * size
        tracemalloc.reset_peak()
        interop.open(tmp_path / "model")
        assert tracemalloc.get_traced_memory()[1] > size
    finally:
        tracemalloc.stop()


def test_what_lies_there(tmp_path):
    (tmp_path / "text").write_text("a b a b c\n" * 5)
    model = seqloom.NGram(order=2).fit(tmp_path / "text")
    model.save(tmp_path / "ngram")
    seqloom.write_arpa(model, tmp_path / "x.arpa")
    (tmp_path / "n-grams").write_bytes(gzip.compress((tmp_path / "x.arpa").read_bytes()))
    (tmp_path / "v").write_text("cat 1 2 3\ndog 2 3 4\n")
    np.savez(tmp_path / "g.npz", **generated(np.random.default_rng(1)))
    llama_file(tmp_path / "llama")
    found = {
        name: form_of(tmp_path / name)
        for name in ("x.arpa", "n-grams", "v", "g.npz", "llama", "text", "ngram", "none")
    }
    assert found == {
        "x.arpa": "arpa",
        "n-grams": "arpa",
        "v": "vectors",
        "g.npz": "g2p",
        "llama": "gguf",
        "text": None,
        "ngram": None,
        "none": None,
    }
    opened = {
        name: interop.open(tmp_path / name).name
        for name in ("x.arpa", "n-grams", "v", "g.npz", "llama")
    }
    assert opened == {
        "x.arpa": "ngram",
        "n-grams": "ngram",
        "v": "vectors",
        "g.npz": "seq2seq",
        "llama": "gpt",
    }
    assert interop.open(tmp_path / "x.arpa").score("a b") == pytest.approx(
        model.score("a b"), abs=1e-5
    )
    path = fasttext_models.recorded("skipgram")[1]
    assert (form_of(path), interop.open(path).name) == ("fasttext", "fasttext")
    packed = tmp_path / "packed.bin.gz"  # it cannot be mapped
    packed.write_bytes(gzip.compress(Path(path).read_bytes()))
    assert form_of(packed) == "vectors"
    with pytest.raises(DataError, match="unpack it first"):
        interop.open(packed)


def test_what_is_refused(tmp_path):
    (tmp_path / "text").write_text("a b a b c\n" * 5)
    model = seqloom.NGram(order=2).fit(tmp_path / "text")
    model.save(tmp_path / "ngram")
    seqloom.write_arpa(model, tmp_path / "x.arpa")
    llama_file(tmp_path / "llama")
    for path, options, error, words in (
        (
            "ngram",
            {},
            DataError,
            "a model of seqloom, not a model of transformers; seqloom.load opens it",
        ),
        ("none", {}, DataError, "no such file"),
        ("text", {}, DataError, "not a file of word vectors"),
        (
            "x.arpa",
            {"bits": 8},
            ConfigError,
            "quantises the weights of a network; .*arpa is of kind ngram",
        ),
        ("llama", {"bits": 3}, ConfigError, "bits is 3; it must be 8 or 4"),
    ):
        with pytest.raises(error, match=words) as caught:
            interop.open(tmp_path / path, **options)
        assert "\n" not in str(caught.value)
    with pytest.raises(
        ConfigError,
        match="m is of kind ngram, which transformers does not have; answerer, bert, ",
    ):
        interop.write(model, tmp_path / "theirs", "m")


@pytest.mark.parametrize(
    ("family", "known"),
    [("bert", "did you mean 'sentence-vectors'"), ("t5", "known: transformer, ")],
)
def test_a_task_that_a_family_does_not_serve(written, family, known):
    with pytest.raises(
        ConfigError, match=f"a {family} cannot be converted for the task 'sentence-vector'; {known}"
    ):
        interop.open(written[0] / family, "sentence-vector")
    assert interop.open(written[0] / "bert", "sentence vectors").name == "sentence-encoder"
    assert interop.open(written[0] / "t5", "translator").name == "transformer"


# ---- the tables


def test_every_array_has_tensors_of_its_own(written):
    """No tensor stands for two arrays, and together they have as many numbers, but for rows that
    nothing reads.
    """
    tables = {
        "gpt2": layouts.GPT2,
        "llama": layouts.LLAMA,
        "marian": layouts.MARIAN,
        "bart": layouts.BART,
        "t5": layouts.T5,
        "bert": layouts.ENCODERS["bert"],
        "albert": layouts.ENCODERS["albert"],
        "sentences": layouts.ENCODERS["bert"],
        "labels": layouts.with_head("bert", "ForSequenceClassification", name_in_network),
        "tags": layouts.with_head("bert", "ForTokenClassification", name_in_network),
    }
    for name, layout in tables.items():
        shapes = tensors.expected_shapes(written[1][name])
        locations = [layout.locate(key, shapes, layout.prefix) for key in shapes]
        named = [tensor for location in locations for tensor in location.shapes]
        assert len(set(named)) == len(named), name
        unused = sum(location.line.skipped * location.shape[-1] for location in locations)
        theirs = sum(np.prod(shape) for location in locations for shape in location.shapes.values())
        assert theirs == sum(map(np.prod, shapes.values())) + unused, name
    assert set(NAMES) - {"sentences", "labels", "tags"} <= FAMILIES.keys()


def test_nobody_else_knows_how_published_models_lie():
    """Other folders open them through the door alone; vectors and ARPA files have functions of
    their own, too.
    """
    found = set()
    for path in SOURCE.rglob("*.py"):
        if path.parent != SOURCE / "interop":
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                    "seqloom.interop"
                ):
                    found.add(node.module)
    assert found == {"seqloom.interop.opening", "seqloom.interop.vectors", "seqloom.interop.arpa"}


# ---- parts


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda a: a | {"norm.weight": np.ones(9, np.float32)},
            "'norm.weight' is float32 9 where float32 8 is needed",
        ),
        (
            lambda a: a | {"norm.weight": np.ones(8)},
            "'norm.weight' is float64 8 where float32 8 is needed",
        ),
        (
            lambda a: a | {"norm.weight": np.full(8, np.nan, np.float32)},
            "'norm.weight' has a value outside",
        ),
        (
            lambda a: {name: array for name, array in a.items() if name != "norm.weight"},
            "'norm.weight' is missing",
        ),
        (lambda a: a | {"further": np.ones(8, np.float32)}, "'further' is unknown"),
    ],
)
def test_arrays_of_parts_are_checked(written, change, words):
    model = written[1]["bert"]
    parts = model.config, model.tokenizers, model.learnt
    again = type(model).from_parts(*parts, model.arrays(), {"data": "here"})
    assert again.fitted
    assert again.fit_info == {"data": "here"}
    assert np.array_equal(again.hidden("the cat").vectors, model.hidden("the cat").vectors)
    with pytest.raises(ModelError, match=words):
        type(model).from_parts(*parts, change(model.arrays()), {})
    with pytest.raises(ModelError, match="'cls' is missing"):
        type(model).from_parts(model.config, model.tokenizers, {}, model.arrays(), {})


def test_what_a_reader_gets_wrong_never_reaches_a_kernel(written, monkeypatch):
    """Were an array read in another shape than the model has, opening would say so."""
    read = tensors.Location.read
    monkeypatch.setattr(
        tensors.Location,
        "read",
        lambda place, *given: read(place, *given)[: len(place.shape) - 2 or None],
    )
    for name in ("gpt2", "bert", "t5"):
        with pytest.raises(SeqloomError, match=f"{name}: the array .* is float32 .* is needed"):
            interop.open(written[0] / name)
