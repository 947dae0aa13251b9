"""One decoder for all calls of a fitted model: made once, never of weights that are gone, never
carried to another process.
"""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import seqloom
from seqloom import NGram
from seqloom.decoding import generation
from seqloom.errors import ConfigError
from seqloom.models.language.mixture import Mixture

from ..conftest import TOY

OTHER = "my house is my castle\nmy castle is small\n" * 3


def fitted(text=TOY, order=3):
    return NGram(order=order, tokenizer="byte", unit="stream").fit(text)


def greedy(model):
    return model.generate("", max_tokens=20, temperature=0)


def test_it_is_made_once_however_many_threads_ask(monkeypatch):
    made, model, barrier, own = [], fitted(), Barrier(8), NGram.stepper
    monkeypatch.setattr(NGram, "stepper", lambda self, **how: made.append(how) or own(self, **how))

    def ask(_):
        barrier.wait()
        return model.generator()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    model.generate("the", max_tokens=2)
    model.complete("the")
    assert list(model.stream("the", max_tokens=2))
    assert made == [{"eight_bit": False}]


def test_fitting_again_drops_it():
    model = fitted()
    before = greedy(model)
    assert greedy(model.fit(OTHER)) == greedy(fitted(OTHER)) != before


def test_fitting_a_member_again_drops_it():
    members = fitted(), fitted(order=2)
    mixture = Mixture.of(members).fit(TOY)
    outer = Mixture.of([mixture, members[1]]).fit(TOY)
    before = greedy(outer), greedy(mixture)
    members[0].fit(OTHER)
    fresh = copy.deepcopy(outer)  # has no decoder
    assert (greedy(outer), greedy(mixture)) == (greedy(fresh), greedy(fresh.members[0])) != before
    assert outer.generator() is outer.generator()


def test_what_was_made_while_the_model_learnt_is_dropped(monkeypatch):
    model, own = fitted(), NGram.fit_ids

    def fit_ids(self, ids, how):
        greedy(self)  # another thread might
        own(self, ids, how)

    monkeypatch.setattr(NGram, "fit_ids", fit_ids)
    assert greedy(model.fit(OTHER)) == greedy(copy.deepcopy(model))


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]
)
def test_a_copy_has_decoders_of_its_own(duplicate):
    model = fitted()
    expected = greedy(model)
    twin = duplicate(model)
    assert greedy(twin) == expected
    assert twin.generator() is not model.generator()
    twin.fit(OTHER)
    assert greedy(model) == expected != greedy(twin)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_network_is_fitted_apart(duplicate):
    pytest.importorskip("torch")
    from seqloom import LSTM, TrainConfig

    model = LSTM(d_hidden=8, tokenizer="byte").fit("the cat sat\n" * 20, train=TrainConfig(steps=2))
    score = model.score("the cat")
    twin = duplicate(model)
    assert twin.score("the cat") == score
    twin.fit("1 2 3 4\n" * 20, train=TrainConfig(steps=5))
    assert model.score("the cat") == score != twin.score("the cat")


def test_it_is_not_saved(tmp_path):
    model = fitted()
    model.save(tmp_path / "unused")
    greedy(model)
    model.save(tmp_path / "used")
    for file in (tmp_path / "unused").iterdir():
        assert file.read_bytes() == (tmp_path / "used" / file.name).read_bytes()
    assert greedy(seqloom.load(tmp_path / "used")) == greedy(model)


def test_an_error_while_making_leaves_nothing_behind(monkeypatch):
    model = fitted()
    with monkeypatch.context() as patch:
        patch.setattr(NGram, "stepper", lambda self, **how: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            greedy(model)
    with ThreadPoolExecutor(1) as other:
        assert other.submit(
            generation._making.acquire, blocking=False
        ).result()  # which fails where this thread still has it
        other.submit(generation._making.release).result()
    assert greedy(model) == greedy(fitted())


def test_eight_bit_is_refused_where_there_are_no_weights():
    for model in (fitted(), Mixture.of([fitted(), fitted(order=2)]).fit(TOY)):
        for use in (model.generate, model.stream, model.complete):
            with pytest.raises(
                ConfigError,
                match=f"^eight_bit rounds the weights of networks; this model is {model.name}",
            ):
                use("the", eight_bit=True)


def test_eight_bit_is_a_variant_beside_the_plain_one():
    pytest.importorskip("torch")
    from seqloom import LSTM
    from seqloom.models.language.neural_cache import NeuralCache
    from seqloom.training.config import TrainConfig

    network = LSTM(d_hidden=16, tokenizer="byte", unit="stream").fit(
        TOY, train=TrainConfig(steps=3)
    )
    mixture = Mixture.of([network, fitted()], iterations=1).fit(TOY)
    for model in (
        network,
        mixture,
        NeuralCache.of(network, window=5, theta=1.0, share=0.1).fit(TOY),
    ):
        plain = model.complete("the c")
        rounded = model.complete("the c", eight_bit=True)
        assert rounded != plain
        assert [p for _, p in rounded] == pytest.approx([p for _, p in plain], rel=0.2)
        assert model.complete("the c") == plain
        assert model.generator() is not model.generator(eight_bit=True)
        assert model.generator(eight_bit=True) is model.generator(eight_bit=True)
        assert len(model.generate("the c", eight_bit=True, max_tokens=5)) > 0
        assert "".join(model.stream("the", eight_bit=True, max_tokens=5, seed=1)) == model.generate(
            "the", eight_bit=True, max_tokens=5, seed=1
        )
