"""Strangers' models: whatever is in the directory, loading and using it ends in an answer or in one
clear line.
"""

import json
import shutil

import numpy as np
import pytest

from seqloom import NGram, Tokenizer, load
from seqloom.arrays import LARGE, Spec, check_arrays, lengths, read_arrays, write_arrays
from seqloom.errors import ModelError, SeqloomError
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.registry import MODELS
from tests.fuzz import damage
from tests.fuzz.specimens import SPECIMENS, TEXT


def test_every_registered_model_is_attacked():
    assert {
        name
        for name in MODELS
        if any(key == name or key.startswith(f"{name}-") for key in SPECIMENS)
    } == MODELS.keys()


def test_damaged_models_are_refused_or_work():
    counts = damage.run(200, seed=20, workers=1)  # as other tests run beside it
    assert counts.wrong == []
    assert counts.tried == 200
    assert min(counts.refused, counts.worked) > 20  # else the damage is not what it is meant to be


def test_a_process_that_dies_is_counted(tmp_path, monkeypatch):
    """The attack itself must see a crash, and a process that does not answer in time."""
    worker = damage.Worker(tmp_path, 0)
    assert worker.attempt(damage.CRASH) == ("wrong", "a crash -> the process ended with -6")
    monkeypatch.setattr(damage, "SECONDS", 0.1)
    assert worker.attempt(damage.CRASH)[0] == "wrong"
    assert worker.process is None


# ---- what an array must be


def test_specs_say_what_is_wrong():
    good = {"a": np.arange(3), "b": np.ones((3, 2), np.float32)}
    specs = {
        "a": Spec("int64", (3,), 0, 2),
        "b": Spec("float32 float64", (lengths(good)("a"), 2)),
        "c": Spec("int8", (1,), optional=True),
    }
    check_arrays(good, specs)
    for name, bad, words in (
        ("a", np.arange(4), "is int64 4 where int64 3 is needed"),
        ("a", np.arange(1, 4), "outside 0 to 2"),
        ("a", np.arange(3.0), "float64 3"),
        ("b", np.float32(1), "float32 alone"),
        ("b", np.full((3, 2), np.nan), "outside"),
        ("b", np.full((3, 2), np.inf), "outside"),
        ("b", np.ones((3, 2), np.int32), "float32 or float64 3 x 2"),
        ("d", np.zeros(1), "'d' is unknown"),
    ):
        with pytest.raises(ModelError, match="damaged") as error:
            check_arrays({**good, name: bad}, specs)
        assert words in str(error.value)
    with pytest.raises(ModelError, match="'a' is missing"):
        check_arrays({"b": good["b"]}, specs)
    with pytest.raises(ModelError, match="'x' is missing"):
        lengths(good)("x")


def test_large_tables_of_floats_are_not_read_through_but_indices_are():
    size = LARGE // 4 + 1
    assert Spec("float32", (size,)).fault(np.full(size, np.nan, np.float32)) == ""
    assert "outside" in Spec("int32", (size,), 0, 5).fault(np.full(size, 6, np.int32))


# ---- what crashed


@pytest.fixture(scope="module")
def specimens(tmp_path_factory):
    place = tmp_path_factory.mktemp("specimens")
    for name in (
        "ngram",
        "lstm",
        "gru",
        "gpt",
        "nplm",
        "hmm-tagger-1",
        "mixture",
        "naive-bayes",
        "ngram-add-k",
        "gpt-8-bit",
        "gpt-4-bit",
        "bert",
        "bert-8-bit",
        "bert-4-bit",
        "transformer",
        "transformer-8-bit",
        "transformer-4-bit",
    ):
        SPECIMENS[name]().save(place / name)
    return place


@pytest.fixture
def copy(specimens, tmp_path):
    def make(name):
        return shutil.copytree(specimens / name, tmp_path / "m")

    return make


def edit_arrays(place, **changes):
    arrays = {
        name: np.array(array) for name, array in read_arrays(place / "model.safetensors").items()
    }
    write_arrays(
        place / "model.safetensors",
        arrays | {name: change(arrays[name]) for name, change in changes.items()},
    )


def edit_config(place, section, **changes):
    config = json.loads((place / "config.json").read_text())
    inner = config
    for key in section.split("."):
        inner = inner[key] if key else inner
    inner.update(changes)
    (place / "config.json").write_text(json.dumps(config))


def refused(place):
    """The one line, which names the directory."""
    with pytest.raises(ModelError) as error:
        load(place)
    message = str(error.value)
    assert str(place) in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("lstm", "recurrent.layers.0.b"),
        ("gru", "recurrent.layers.0.b"),
        ("gpt", "blocks.1.mlp.up.weight"),
        ("nplm", "hidden.weight"),
        ("gpt-8-bit", "embedding.weight"),
        ("gpt-8-bit", "blocks.0.mlp.up.weight.scale"),
        ("gpt-4-bit", "blocks.0.mlp.up.weight"),
        ("gpt-4-bit", "blocks.0.mlp.up.weight.minimum"),
        ("bert-8-bit", "head.dense.weight"),
        ("bert-8-bit", "embedding.weight.scale"),
        ("bert-4-bit", "head.output.weight"),
        ("bert-4-bit", "blocks.1.attention.qkv.weight.minimum"),
        ("transformer-8-bit", "decoder.0.cross.qkv.weight"),
        ("transformer-4-bit", "decoder.0.mlp.up.weight.scale"),
        ("transformer-4-bit", "decoder_entrance.bias.weight"),
    ],
)
def test_a_network_whose_array_was_cut(copy, name, array):
    place = copy(name)
    edit_arrays(place, **{array: lambda a: a[:1]})
    assert array in refused(place)


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("gpt-8-bit", 4),
        ("gpt-4-bit", 8),
        ("gpt-8-bit", 3),
        ("gpt", 8),
        ("bert-8-bit", 4),
        ("bert-4-bit", 8),
        ("bert-4-bit", 3),
        ("bert", 8),
        ("transformer-8-bit", 4),
        ("transformer-4-bit", 8),
        ("transformer-8-bit", 3),
        ("transformer", 8),
    ],
)
def test_quantised_arrays_with_another_number_of_bits(copy, name, bits):
    place = copy(name)
    edit_config(place, "learnt", bits=bits)
    assert "bits" in refused(place) if bits == 3 else "array" in refused(place)


@pytest.mark.parametrize(("name", "tiles"), [("gpt-8-bit", 10), ("bert-8-bit", 1)])
def test_quantised_arrays_with_another_number_of_blocks(copy, name, tiles):
    place = copy(name)
    edit_arrays(place, **{"blocks.0.mlp.up.weight": lambda a: a[:, :8].copy()})
    assert (
        f"'blocks.0.mlp.up.weight' is int8 {tiles} x 8 x 16 x 4 where int8 {tiles} x 16 x 16 x 4 is needed"
        in refused(place)
    )


def test_loading_a_network_and_stepping_need_no_torch(specimens):
    import subprocess
    import sys

    program = (
        "import sys\nsys.modules['torch'] = None\nimport seqloom\n"
        "for name in ('lstm', 'gpt', 'nplm', 'gpt-4-bit'):\n"
        f"    model = seqloom.load(r'{specimens}/' + name)\n"
        "    print(model.generate(max_tokens=3), model.score('the cat'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_links_lead_to_a_lower_level(copy):
    """A chain of links through nodes of one level was longer than the kernel's room for it."""
    place = copy("ngram")

    def chain(contexts):
        contexts[1:-1, 2] = np.arange(len(contexts) - 2)  # each to the one before
        return contexts

    edit_arrays(place, contexts=chain)
    assert "damaged" in refused(place)


def test_orders_of_an_n_gram_model(tmp_path):
    """The longest chain of contexts that there can be."""
    text = " ".join(f"w{i}" for i in range(90))
    model = NGram(order=60).fit(text)
    model.save(tmp_path / "m")
    assert (
        load(tmp_path / "m").generate(
            "w3 " + " ".join(f"w{i}" for i in range(4, 80)), max_tokens=3, temperature=0
        )
        == " w80 w81 w82"
    )
    from seqloom.kernels.ngram_query import DEEPEST
    from seqloom.models.language.configs import NGramConfig

    assert NGramConfig.__dataclass_fields__["order"].metadata["maximum"] < DEEPEST


@pytest.mark.parametrize(
    ("name", "array", "value"),
    [
        ("hmm-tagger-1", "rows", 99),
        ("hmm-tagger-1", "tags", 99),
        ("hmm-tagger-1", "rows", -1),
        ("naive-bayes", "weights", np.nan),
        ("naive-bayes", "temperature", 0.0),
        ("mixture", "weights", 0.9),
        ("gpt", "norm.bias", np.inf),
        ("gpt-8-bit", "embedding.weight.scale", np.nan),
        ("gpt-4-bit", "blocks.0.attention.qkv.weight.scale", np.inf),
        ("gpt-4-bit", "blocks.0.mlp.down.weight.minimum", np.nan),
    ],
)
def test_values_that_cannot_be(copy, name, array, value):
    place = copy(name)

    def change(old):
        old.reshape(-1)[-1] = value
        return old

    edit_arrays(place, **{array: change})
    refused(place)


def test_probabilities_that_do_not_sum_to_one(copy):
    """Which shows only when they are used."""
    place = copy("ngram")

    def change(contexts):
        contexts.view(np.float32)[1:-1, 3] -= 2.0
        return contexts

    edit_arrays(place, contexts=change)
    with pytest.raises(ModelError, match="do not sum to one"):
        load(place).generate(max_tokens=5)


@pytest.mark.parametrize(
    ("smoothing", "order"),
    [("modified-kneser-ney", 3), ("add-k", 3), ("maximum-likelihood", 2), ("witten-bell", 1)],
)
def test_sums_of_distributions_are_those_of_their_rows(smoothing, order):
    trie = NGram(order=order, smoothing=smoothing).fit(TEXT).trie
    trie.inner_log_probs[3:20:5] -= 1.5  # so that they are not all one
    trie.leaf_log_probs[::7] += 0.3
    rows, sums = trie.distributions(np.arange(len(trie.backoffs)))
    assert np.allclose(sums, np.exp(rows.astype(np.float64)).sum(axis=1), atol=1e-5)
    assert len(sums) < 2 or np.ptp(sums) > 0.01


def test_a_network_that_overflows(copy):
    """All its weights are numbers; what it says is none."""
    place = copy("gpt")
    edit_arrays(place, **{"embedding.weight": lambda a: a * np.float32(1e12)})
    model = load(place)
    for ask in (lambda: model.generate(max_tokens=5), lambda: model.complete("the c")):
        with pytest.raises(ModelError, match="probability"):
            ask()


def test_large_vectors_are_looked_at_when_they_are_used(tmp_path, monkeypatch):
    words = WordVectors.of(["a", "b", "c"], np.eye(3))
    words.save(tmp_path / "m")
    edit_arrays(tmp_path / "m", matrix=lambda a: np.where(np.diag([0, 1, 0]), np.nan, a))
    assert "'matrix' has a value outside" in refused(tmp_path / "m")
    monkeypatch.setattr("seqloom.arrays.LARGE", 8)
    model = load(tmp_path / "m")
    for ask in (
        lambda: model.embed("b"),
        lambda: model.similarity("a", "b"),
        lambda: model.nearest("a"),
    ):
        with pytest.raises(SeqloomError, match=r"not a finite number|not a number"):
            ask()


@pytest.mark.parametrize(
    ("section", "changes"),
    [
        ("", {"config": []}),
        ("", {"learnt": -1}),
        ("", {"tokenizers": 5}),
        ("", {"model": ["x"]}),
        ("", {"task": None}),
        ("", {"format_version": True}),
        ("", {"format_version": 3}),
        ("", {"note": "\ud800"}),
        ("config", {"order": 1e400}),
        ("learnt", {"classes": ["x"]}),
        ("tokenizers.text", {"kind": "byte"}),
        ("tokenizers.text", {"eos": ["x"], "kind": "bpe"}),
        ("tokenizers", {"text": 5}),
        ("tokenizers", {"other": {"kind": "word"}}),
        *(
            ("tokenizers", {name: {"kind": "byte"}})
            for name in ("", "..", "a/b", "/tmp", "a\n", "a" * 51, "\u00e4", "a b")
        ),
    ],
)
def test_a_config_with_other_values(copy, section, changes):
    place = copy("ngram")
    edit_config(place, section, **changes)
    refused(place)


def test_what_was_learnt_is_checked(copy):
    place = copy("hmm-tagger-1")
    edit_config(place, "learnt", working_tags=["D", "D"])
    assert "'working_tags' is ['D', 'D']" in refused(place)
    edit_config(place, "learnt", working_tags=["D", "N", "V"], x=1)
    assert "its learned values include 'x'" in refused(place)
    config = json.loads((place / "config.json").read_text())
    del config["learnt"]["working_scheme"]  # null where there is none
    del config["learnt"]["x"]
    (place / "config.json").write_text(json.dumps(config))
    assert "'working_scheme' is missing" in refused(place)


@pytest.mark.parametrize("changes", [{"eos": ["x"]}, {"eos": "nope"}, {"kind": "unigram"}])
def test_other_settings_of_a_tokenizer(copy, changes):
    place = copy("ngram-add-k")
    edit_config(place, "tokenizers.text", **changes)
    refused(place)
    with pytest.raises(ModelError):
        Tokenizer.load(place)


def test_word_vectors_with_a_tokenizer_of_bytes(tmp_path):
    WordVectors.of(["a", "b"], np.eye(2)).save(tmp_path / "m")
    edit_config(tmp_path / "m", "tokenizers", text={"kind": "byte"})
    assert "makes no words" in refused(tmp_path / "m")


def test_a_config_nested_without_end(copy):
    place = copy("ngram")
    (place / "config.json").write_text(
        '{"format": "seqloom", "fit": ' + "[" * 100_000 + "]" * 100_000 + "}"
    )
    refused(place)


# ---- members


def test_members_in_members_have_a_limit(copy, tmp_path):
    place = copy("mixture")
    for name in ("0", "1"):
        shutil.rmtree(place / "members" / name)
        (place / "members" / name).symlink_to(place, target_is_directory=True)
    assert "members in members" in refused(place)


def test_a_mixture_without_members_reads_no_other_directories(copy, specimens):
    place = copy("mixture")
    shutil.rmtree(place / "members")
    edit_config(place, "config", members=[str(specimens / "ngram")] * 2)
    assert "2 weights for 0 members" in refused(place)


def test_members_that_are_no_language_models(copy, specimens):
    place = copy("mixture")
    shutil.rmtree(place / "members" / "0")
    shutil.copytree(specimens / "naive-bayes", place / "members" / "0")
    assert "language models" in refused(place)


# ---- tokenizer.json


@pytest.fixture(scope="module")
def bpe(tmp_path_factory):
    place = tmp_path_factory.mktemp("bpe")
    Tokenizer(kind="bpe", vocab_size=270).fit(TEXT).save(place / "t")
    return json.loads((place / "t" / "tokenizer.json").read_text())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda model, whole: model["vocab"].update(zzz=4294967294), "go from 0 to 4294967294"),
        (lambda model, whole: model["vocab"].update(zzz=-1), "go from -1"),
        (lambda model, whole: model["vocab"].update(zzz=5), "two tokens have one id"),
        (lambda model, whole: model["vocab"].update(zzz=5.5), "not a whole number"),
        (lambda model, whole: model.update(continuing_subword_prefix="aaaa"), "the merge of"),
        (lambda model, whole: model["merges"].append(["a", "zzzz"]), "the merge of"),
        (lambda model, whole: model["merges"].append("a b c"), "not a pair of tokens"),
        (lambda model, whole: model.update(unk_token="zzzz"), "unk_token"),
        (lambda model, whole: model.update(vocab=[], merges=[]), "not a table"),
        (lambda model, whole: whole.update(model=7), "no model"),
        (
            lambda model, whole: whole.update(
                normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}
            ),
            "is cut off",
        ),
        (
            lambda model, whole: whole["added_tokens"].append({"id": 1 << 31, "content": "x"}),
            "2147483648",
        ),
    ],
)
def test_a_tokenizer_json_is_checked_before_the_library_sees_it(bpe, tmp_path, capfd, change, says):
    whole = json.loads(json.dumps(bpe))
    change(whole["model"], whole)
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    with pytest.raises(ModelError, match=r"tokenizer\.json") as error:
        Tokenizer.load(tmp_path / "tokenizer.json")
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""


def replace(pattern, content):
    form = "Regex" if pattern in ("", "x*", " {2,}") else "String"
    return {"type": "Replace", "pattern": {form: pattern}, "content": content}


def sequence(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


@pytest.mark.parametrize(
    "steps",
    [
        sequence(*[replace("a", "aaaa")] * 12),
        sequence(*[replace("a", "bb"), replace("b", "aa")] * 12),
        sequence(*[replace("", "x")] * 24),
        sequence(*[replace("x*", "xx")] * 24),
        sequence(sequence(*[replace("a", "\ufdfa"), {"type": "NFKC"}, replace("\u0635", "a")] * 9)),
        sequence(*[{"type": "Prepend", "prepend": "ab"}, replace("a", "aaaa")] * 12),
        sequence({"type": "ByteLevel"}, *[{"type": "ByteLevel"}] * 20),
        {"type": "Prepend", "prepend": "x" * 60_000},
        replace("a", "x" * 60_000),
        sequence(*[{"type": "NFC"}] * 100_000),
    ],
)
def test_a_tokenizer_json_that_makes_much_of_little_is_refused(bpe, tmp_path, steps):
    (tmp_path / "tokenizer.json").write_text(json.dumps(bpe | {"normalizer": steps}))
    with pytest.raises(ModelError, match=r"may make .* characters of one|write too much") as error:
        Tokenizer.load(tmp_path / "tokenizer.json")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "steps",
    [
        sequence(replace(" ", "\u2581"), {"type": "Prepend", "prepend": "\u2581"}),
        sequence(*(replace(mark, "...") for mark in "\u2026\u22ef\u22ee\u22f0\u22f1\ufe19")),
        sequence({"type": "NFKD"}, {"type": "Lowercase"}, replace(" {2,}", " "), {"type": "NFKC"}),
    ],
)
def test_usual_normalisers_are_read(bpe, tmp_path, steps):
    (tmp_path / "tokenizer.json").write_text(json.dumps(bpe | {"normalizer": steps}))
    Tokenizer.load(tmp_path / "tokenizer.json").encode("a b\u2026")


def test_a_tokenizer_json_with_a_name_twice(bpe, tmp_path):
    text = json.dumps(bpe).replace('"model": {', '"model": {"vocab": {}, ', 1)
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ModelError, match="appears twice"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_tokenizer_json_that_is_too_long(tmp_path):
    with open(tmp_path / "tokenizer.json", "wb") as file:
        file.truncate((1 << 26) + 1)
    with pytest.raises(ModelError, match="64 MiB"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_wordpiece_that_would_take_for_ever(tmp_path):
    whole = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordPiece",
            "vocab": {"[UNK]": 0, "a": 1},
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 10**9,
        },
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    with pytest.raises(ModelError, match="max_input_chars_per_word"):
        Tokenizer.load(tmp_path / "tokenizer.json")
