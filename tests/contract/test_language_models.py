"""What every registered language model must do. A new model is tested here by being in the registry."""

import copy
import itertools
import json
import math
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import seqloom
from seqloom import registry, storage
from seqloom.contracts import LanguageModel
from seqloom.contracts.reading import continued_by_steps
from seqloom.decoding.stepper import log_probs_by_steps, select
from seqloom.errors import ConfigError, DataError, ModelError, NotFitted
from seqloom.models.language.mixture import Mixture
from seqloom.models.language.neural_cache import NeuralCache
from seqloom.training.config import TrainConfig

from ..conftest import TOY

NAMES = [name for name, entry in registry.MODELS.items() if entry.task == "language model"]
HELD_OUT = "the dog woke and met a cat\nthe log was on the road\n"


SMALL = {"nplm": {"d_hidden": 12, "d_embed": 6, "order": 3}, "rnn": {"d_hidden": 12}, "lstm": {"d_hidden": 12},
         "gru": {"d_hidden": 12}, "gpt": {"d_model": 12, "n_heads": 2, "n_layers": 2, "context": 16}}


def build(name: str, **options: object) -> LanguageModel:
    if name == "mixture":
        members = [registry.model_class(n)(**{"tokenizer": "whitespace", **options}).fit(TOY) for n in ("ngram", "cache")]
        return Mixture.of(members)
    if name == "neural-cache":
        pytest.importorskip("torch")
        member = fit(build("gru", **{"tokenizer": "whitespace", **options}))
        return NeuralCache.of(member, window=20, theta=3.0, share=0.3)
    if "train" in registry.config_class(name).fit_arguments:
        pytest.importorskip("torch")
        options = {"tokenizer": "whitespace", **SMALL[name], **options}
    return registry.model_class(name)(**options)


def fit(model: LanguageModel, data: object = TOY) -> LanguageModel:
    return model.fit(data, train=TrainConfig(steps=4)) if model.trained else model.fit(data)


@pytest.fixture(scope="module", ids="-".join, params=[
    (name, tok, unit) for name in NAMES for tok, unit in (("whitespace", "line"), ("byte", "stream"))])
def model(request):
    """One for all tests of a kind: a fitted model is read-only."""
    name, tokenizer, unit = request.param
    return fit(build(name, tokenizer=tokenizer, unit=unit))


def test_fit_returns_self_and_unfitted_refuses():
    for name in NAMES:
        fresh = build(name)
        if name != "mixture":
            with pytest.raises(NotFitted, match="fit"):
                fresh.score("a")
            with pytest.raises(NotFitted):
                fresh.generate("a")
        assert fit(fresh) is fresh


def test_probabilities_sum_to_one(model):
    stepper = model.stepper()
    ids, _ = model.encode(HELD_OUT)
    state, log_probs = stepper.start(2)
    for token in ids[:40]:
        assert log_probs.dtype == np.float32
        assert log_probs.shape == (2, model.tokenizer.vocab_size)
        assert np.abs(np.logaddexp.reduce(log_probs.astype(np.float64), axis=1)).max() < 1e-4
        state, log_probs = stepper.step(state, np.array([token, token]))


def test_both_ways_of_scoring_agree(model):
    ids, lengths = model.encode(TOY + HELD_OUT)
    fast = model.sequence_log_probs(ids, lengths)
    slow = log_probs_by_steps(model.stepper(), ids, lengths)
    assert fast.shape == ids.shape
    assert np.allclose(fast, slow, atol=1e-4)


def test_score_is_the_sum_of_token_scores_in_nats(model):
    tokens = model.token_scores("the cat sat")
    assert len(tokens) == len(model.tokenizer.encode("the cat sat")) + 1
    assert model.score("the cat sat") == pytest.approx(sum(tokens), abs=1e-4)
    assert all(t <= 1e-6 for t in tokens)
    both = model.score(["the cat sat", "the dog"])
    assert both == pytest.approx([model.score("the cat sat"), model.score("the dog")])
    assert model.score([]) == []


def test_a_list_is_scored_as_each_text_alone(model):
    texts = ["the cat", "", "a dog met\nthe sea\n", "\n", "the cat sat\non\n\nthe log"]
    for some in (texts, ["the cat sat", "a dog"]):  # texts of several lines, and of one
        assert model.score(some) == pytest.approx([model.score(text) for text in some], rel=1e-6)
        for together, alone in zip(model.token_scores(some), map(model.token_scores, some)):
            assert together == pytest.approx(alone, rel=1e-5, abs=1e-6)
    assert model.score([]) == []
    with pytest.raises(DataError, match="holds int"):
        model.score(["the cat", 3])


def test_perplexity_is_of_the_data(model):
    ids, _ = model.encode(HELD_OUT)
    expected = math.exp(-float(model.text_log_probs(ids).astype(np.float64).mean()))
    assert model.perplexity(HELD_OUT) == pytest.approx(expected, rel=1e-5)


def test_bits_per_byte_only_where_no_byte_is_lost(model):
    if model.tokenizer.lossless:
        nats = -model.score(HELD_OUT)
        assert model.bits_per_byte(HELD_OUT) == pytest.approx(nats / math.log(2) / len(HELD_OUT), rel=1e-5)
        low, high = model.evaluate(HELD_OUT)["bits_per_byte_interval"]
        assert low <= model.bits_per_byte(HELD_OUT) <= high
    else:
        with pytest.raises(ConfigError, match="bits per byte"):
            model.bits_per_byte(HELD_OUT)
        assert model.evaluate(HELD_OUT)["bits_per_byte"] is None


def test_save_and_load_keep_every_bit(model, tmp_path):
    model.save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    assert type(again) is type(model)
    assert again.config == model.config or model.name == "mixture"
    assert again.token_scores(HELD_OUT) == model.token_scores(HELD_OUT)
    assert again.generate("the", max_tokens=8, seed=5) == model.generate("the", max_tokens=8, seed=5)
    assert str(again.signature()) == str(model.signature())
    again.save(tmp_path / "n")
    assert tree(tmp_path / "m") == tree(tmp_path / "n")


def tree(place):
    return {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}


def refuses_damage(model, place):
    """A saved model of any task that lacks its last byte is not loaded."""
    model.save(place)
    path = place / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelError):
        seqloom.load(place)


@pytest.mark.parametrize("name", NAMES)
def test_a_second_run_gives_the_same_files(name, tmp_path):
    for run in ("a", "b"):
        fit(build(name, tokenizer="whitespace", unit="line")).save(tmp_path / run)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


@pytest.mark.parametrize("name", [name for name in NAMES if "train" in registry.config_class(name).fit_arguments])
def test_a_second_run_on_two_threads_gives_the_same_files(name, tmp_path):
    torch = pytest.importorskip("torch")
    size = "d_model" if name == "gpt" else "d_hidden"
    threads = torch.get_num_threads()
    torch.set_num_threads(2)  # the tests run on one
    try:
        for run in ("a", "b"):
            fit(build(name, **{size: 64}), TOY * 10).save(tmp_path / run)
    finally:
        torch.set_num_threads(threads)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_same_seed_same_text_and_rows_do_not_mix(model):
    one = model.generate("the", max_tokens=12, seed=3)
    assert model.generate("the", max_tokens=12, seed=3) == one
    assert model.generate(["the", "a dog"], max_tokens=12, seed=3)[0] == one
    assert "".join(model.stream("the", max_tokens=12, seed=3)) == one
    assert len({model.generate("the", max_tokens=12, seed=s) for s in range(8)}) > 1


def test_one_beam_is_greedy(model):
    assert model.generate("the", max_tokens=6, beams=1) == model.generate("the", max_tokens=6, temperature=0)


def test_a_selected_state_is_a_copy(model):
    stepper = model.stepper()
    state, _ = stepper.start(1)
    for token in model.encode("the cat")[0][:-1]:
        state, _ = stepper.step(state, np.array([token]))
    branch = select(state, np.array([0, 0]))
    for token in model.encode("a dog")[0][:-1]:
        branch, _ = stepper.step(branch, np.array([token, token]))
    following = model.encode("sat")[0][:1]
    _, after = stepper.step(select(state, np.array([0])), following)
    again, _ = stepper.start(1)
    for token in model.encode("the cat")[0][:-1]:
        again, _ = stepper.step(again, np.array([token]))
    assert np.array_equal(after, stepper.step(again, following)[1])


def test_threads_may_share_a_model(model):
    """Whatever eight threads ask at the same time, from the first call on, each gets what one thread alone gets."""
    variants = [False, True] if model.quantizable else [False]
    texts = [model.encode(text)[0] for text in TOY.splitlines()]

    def stepped(stepper, ids):
        found, (state, log_probs) = [], stepper.start(2)
        for token in ids[:12]:
            state, log_probs = stepper.step(state, np.array([token, ids[0]]))
            found.append((log_probs.tobytes(), log_probs))
        assert all(said == log_probs.tobytes() for said, log_probs in found)  # nobody wrote to them since
        return [said for said, _ in found]

    def questions(model):
        for eight_bit in variants:
            verbs = [lambda s=s, e=eight_bit: model.generate("the c", max_tokens=6, seed=s, eight_bit=e) for s in range(2)]
            verbs += [lambda e=eight_bit: model.generate(["a", "the dog"], max_tokens=4, beams=2, eight_bit=e),
                      lambda e=eight_bit: model.complete("the d", 3, eight_bit=e)]
            yield from verbs
            yield from (lambda ids=ids, e=eight_bit: stepped(model.generator(eight_bit=e).stepper, ids) for ids in texts)

    alone = [ask() for ask in questions(model)]
    shared, together = list(questions(copy.copy(model))), threading.Barrier(8)  # a copy has no decoder yet

    def answer(thread):
        together.wait()
        order = np.roll(np.arange(len(shared)), thread)
        return {int(i): shared[i]() for i in order}

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(answer, range(8)):
                assert [found[i] for i in range(len(alone))] == alone
    finally:
        sys.setswitchinterval(interval)


def test_complete_suggests_likely_words(model):
    found = model.complete("the ", 3)
    assert 0 < len(found) <= 3
    assert [p for _, p in found] == sorted((p for _, p in found), reverse=True)
    assert all(0 < p <= 1 and word for word, p in found)


def test_signature_names_model_tokenizer_unit_and_data(model):
    signature = model.evaluate(HELD_OUT).signature.to_dict()
    assert {"model", "tokenizer", "data", "unit", "carry", "version"} <= set(signature)
    assert model.evaluate(TOY).signature.to_dict()["data"] != signature["data"]


def test_using_a_model_does_not_change_it(model):
    before = {name: array.copy() for name, array in model.arrays().items()}
    model.evaluate(HELD_OUT)
    model.generate("the", max_tokens=5)
    assert all(np.array_equal(before[name], array) for name, array in model.arrays().items())


@pytest.mark.parametrize("name", NAMES)
def test_bad_data_is_refused_in_one_line(name):
    for bad, words in ((iter([]), "empty"), ("", "empty"), ([], "empty"), (3, "int")):
        with pytest.raises(DataError) as error:
            fit(build(name), bad)
        assert words in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_option_is_refused(name):
    with pytest.raises(ConfigError, match="no_such_option"):
        registry.model_class(name)(no_such_option=1)


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "m")
    return tmp_path / "m"


def test_damaged_directories_are_refused(saved, tmp_path):
    def broken(change):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(saved, copy)
        change(copy)
        with pytest.raises(ModelError) as error:
            seqloom.load(copy)
        assert "\n" not in str(error.value)
        return str(error.value)

    def edit(**values):
        def change(copy):
            path = copy / "config.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | values))
        return change

    def cut(copy):
        path = copy / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1] if path.stat().st_size > 60 else b"")

    assert "upgrade" in broken(edit(format_version=99))
    assert "another program" in broken(edit(format="other"))
    assert "config.json" in broken(lambda c: (c / "config.json").unlink())
    assert "damaged" in broken(lambda c: (c / "config.json").write_text("{"))
    assert "model.safetensors" in broken(lambda c: (c / "model.safetensors").unlink())
    assert "model.safetensors" in broken(cut)
    assert broken(edit(config={"no_such": 1}))


def test_writing_never_leaves_half_a_directory(saved, model, monkeypatch):
    good = tree(saved)

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "card", fail)
    with pytest.raises(ModelError, match="No space left"):
        model.save(saved)
    assert tree(saved) == good
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_several_files_without_final_newlines_are_charged_for_them(model, tmp_path):
    """Each line is paid for with its newline, also where a file lacks the last one."""
    (tmp_path / "a.txt").write_text("the cat")
    (tmp_path / "b.txt").write_text("the dog sat\na cat")
    files = seqloom.read([tmp_path / "a.txt", tmp_path / "b.txt"])
    result = model.evaluate(files)
    if model.unit == "line":
        assert result["bytes"] == 7 + 17 + 2
        texts = ["the cat\nthe dog sat\na cat"] if model.carry else ["the cat", "the dog sat", "a cat"]
        assert result["nats"] == pytest.approx(-sum(model.score(texts)), rel=1e-5)
    else:
        assert result["bytes"] == 7 + 17


def test_a_text_in_portions_scores_as_in_one_go(model):
    ids, _ = model.encode(TOY + HELD_OUT)
    whole = model.text_log_probs(ids)
    for sizes in ([7, 1, 30], [5], [100]):
        reading, at, found = model.reading(), 0, []
        for size in itertools.cycle(sizes):
            found.append(reading(ids[at:at + size]))
            at += size
            if at >= len(ids):
                break
        assert np.concatenate(found) == pytest.approx(whole, abs=2e-6)


def test_portions_do_not_change_the_evaluation(model, monkeypatch):
    text = TOY * 3 + HELD_OUT
    one = model.evaluate(text).to_dict()
    monkeypatch.setattr(type(model), "portion", property(lambda self: 40))
    many = model.evaluate(text).to_dict()
    assert many["signature"] == one["signature"]
    for name, value in one["metrics"].items():
        assert many["metrics"][name] == (value if value is None else pytest.approx(value, rel=1e-6)), name


def test_a_model_without_a_way_of_its_own_goes_on_by_steps(model):
    ids, _ = model.encode("the cat sat")
    first, state = continued_by_steps(model, ids[:2], None)
    second, _ = continued_by_steps(model, ids[2:], state)
    assert np.concatenate([first, second]) == pytest.approx(model.sequence_log_probs(ids, np.array([len(ids)])), abs=1e-4)
