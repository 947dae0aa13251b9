"""Whether units know of each other, in training as in scoring; and what is said of the training
text and the valid one.
"""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from seqloom import GPT, GRU, LSTM, NPLM, RNN, TrainConfig
from seqloom.models.language.language_net import LanguageTraining
from seqloom.models.network.first_layer import Size
from seqloom.training import loop
from seqloom.training.batches import Separate
from seqloom.training.devices import on_device
from seqloom.training.update import leading

NETWORKS = [RNN, LSTM, GRU, NPLM, GPT]
CPU = torch.device("cpu")
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "no", "dog"]


def lines(seed, many=60):
    rng = np.random.default_rng(seed)
    return "".join(" ".join(rng.choice(WORDS, rng.integers(0, 14))) + "\n" for _ in range(many))


TEXT = lines(0)


def made(cls, **options):
    width = (
        {"d_model": 8, "n_heads": 2, "n_layers": 2, "context": 16}
        if cls is GPT
        else {"d_hidden": 8}
    )
    still = {"dropout": 0.0} | ({"input_dropout": 0.0} if cls in (RNN, LSTM, GRU) else {})
    return cls(**{"tokenizer": "whitespace", "unit": "line", **width, **still, **options})


def fitted(cls, steps=4, place=None, **options):
    train = {"steps": steps, "lr": 0.02, "batch_size": 4} | (
        {} if cls is GPT else {"truncation": 5}
    )
    return made(cls, **options).fit(TEXT, train=TrainConfig(**train), run=place)


def same(a, b):
    return all(np.array_equal(w, b.weights[name]) for name, w in a.weights.items())


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=40),
    st.integers(1, 12),
    st.none() | st.integers(1, 3),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
)
@settings(deadline=None, max_examples=150)
def test_every_token_once_after_its_own_unit_alone(lengths, window, rows, before, carried, vary):
    ids = np.concatenate(
        [[*range(100 * unit + 1, 100 * unit + length), 0] for unit, length in enumerate(lengths)]
    )
    if len(ids) < 6:
        return
    batches = Separate(
        ids,
        0,
        batch_size=rows,
        window=window,
        before=before,
        carried=carried,
        vary=vary and carried,
    )
    cursor, seen, kept = (1, 0), [], {}
    for _ in range(batches.length((1, 0))):
        assert cursor[0] == 1
        batch = batches.batch(cursor)
        mask = np.ones(batch["targets"].shape, bool) if batch.mask is None else batch.mask
        assert batch.count == mask.sum() > 0
        assert batch["inputs"].shape == (len(mask), before + mask.shape[1])
        for row, there in enumerate(mask):
            targets, inputs = (
                batch["targets"][row, there],
                batch["inputs"][row, : before + there.sum()],
            )
            assert there[: len(targets)].all()  # padding is on the right
            assert (inputs[before + 1 :] == targets[:-1]).all()
            if not batch.fresh:  # it goes on with the unit that this row held
                assert inputs[before] == kept[row]
            words = [w for w in (*inputs, *targets) if w]
            assert len({w // 100 for w in words}) <= 1  # one unit, whatever is seen before it
            seen += targets.tolist()
        kept = {row: batch["targets"][row, there][-1] for row, there in enumerate(mask)}
        cursor = batch.following
    assert cursor == (2, 0)
    assert sorted(seen) == sorted(ids.tolist())


@pytest.mark.parametrize("cls", NETWORKS)
def test_training_without_carry_is_another_training(cls):
    carried, alone = fitted(cls), fitted(cls, carry=False)
    assert not same(carried, alone)
    assert same(alone, fitted(cls, carry=False))


def parts(cls, ids, carry, **train):
    """A network, its batches and its task, without training."""
    model = (
        made(cls, carry=carry, learned_start=True)
        if cls in (RNN, LSTM, GRU)
        else made(cls, carry=carry)
    )
    model.tokenizer = model.make_tokenizer(TEXT)
    size, config = Size(8), TrainConfig(**train)
    task = LanguageTraining(
        model, model.layers.batches(model, ids, config), size, ids, None, config
    )
    torch.manual_seed(0)
    return model, task, task.build()


def gradient_of_the_last(cls, ids, unit, carry):
    """Of what the tokens of one unit cost, whose words are nowhere else."""
    _, task, network = parts(cls, ids, carry, batch_size=1)
    cursor, state = (0, 0), None
    while cursor[0] == 0:
        batch = task.batches.batch(cursor)
        tensors = on_device(batch, CPU)
        features, state = network(tensors["inputs"], None if batch.fresh else state)
        chosen = torch.isin(tensors["targets"], torch.tensor(unit))
        if chosen.any():
            network.output.loss(features[chosen], tensors["targets"][chosen]).backward()
        cursor = batch.following
    return {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("cls", NETWORKS)
def test_a_units_gradient_knows_nothing_of_the_unit_before(cls):
    unit = [7, 8, 7, 8]
    for carry in (True, False):
        one, other = (
            gradient_of_the_last(cls, np.array([*before, 0, *unit, 0]), unit, carry)
            for before in ([2, 3, 4, 5], [4, 4, 2, 6, 3, 3])
        )
        assert one.keys() == other.keys()
        assert all(torch.allclose(one[name], other[name], atol=1e-7) for name in one) is not carry


@pytest.mark.parametrize("cls", NETWORKS)
def test_what_is_trained_is_what_is_scored(cls):
    """The losses of one epoch add up to the score of the text, unit by unit."""
    model, task, network = parts(cls, np.zeros(8, np.int64), False)
    ids, lengths = model.encode(TEXT)
    assert lengths.max() > 5 > 1 == lengths.min()
    model, task, network = parts(
        cls, ids, False, batch_size=3, **({} if cls is GPT else {"truncation": 5})
    )
    network.eval()
    cursor, state, total = (0, 0), None, 0.0
    while cursor[0] == 0:
        batch = task.batches.batch(cursor)
        state = None if batch.fresh else leading(state, len(batch["inputs"]))
        with torch.no_grad():
            loss, state = task.loss(network, on_device(batch, CPU), state)
        total, cursor = total + float(loss), batch.following
    with torch.inference_mode():
        assert total == pytest.approx(-model.flat_log_probs(network, ids, lengths).sum(), rel=1e-5)


@pytest.mark.parametrize("cls", [LSTM, GPT])
def test_without_carry_cut_off_and_resumed_is_the_same_to_the_bit(cls, tmp_path, monkeypatch):
    whole, loss = fitted(cls, steps=30, carry=False, dropout=0.1), LanguageTraining.loss
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)  # after every step
    for fail_at in (9, 8):
        calls = []

        def broken(*arguments, calls=calls, fail_at=fail_at):
            calls.append(1)
            if len(calls) == fail_at:
                raise RuntimeError("pulled the plug")
            return loss(*arguments)

        monkeypatch.setattr(LanguageTraining, "loss", broken)
        with pytest.raises(RuntimeError, match="plug"):
            fitted(cls, steps=30, carry=False, dropout=0.1, place=tmp_path / "r")
    monkeypatch.setattr(LanguageTraining, "loss", loss)
    assert same(whole, fitted(cls, steps=30, carry=False, dropout=0.1, place=tmp_path / "r"))


def test_bits_per_byte_of_the_valid_text_are_its_own(tmp_path):
    """Long tokens in one text, single bytes in the other: what is shown while it trains is what
    evaluation says.
    """
    model = made(LSTM, tokenizer="bpe", vocab_size=300, carry=False)
    valid = "qzx jvk wxyz\n" * 20
    model.fit(TEXT, valid=valid, train=TrainConfig(steps=3), run=tmp_path / "r")
    lines = [json.loads(line) for line in (tmp_path / "r" / "log.jsonl").read_text().splitlines()]
    shown = min(line["bits_per_byte"] for line in lines if "valid" in line)
    assert shown == pytest.approx(model.bits_per_byte(valid), rel=1e-3)
    ids, _ = model.encode(TEXT)
    train = [line for line in lines if "valid" not in line]
    assert train[0]["bits_per_byte"] == pytest.approx(
        train[0]["loss"] / np.log(2) * len(ids) / len(TEXT), rel=1e-3
    )


@pytest.mark.parametrize("carry", [True, False])
@pytest.mark.parametrize("cls", NETWORKS)
def test_epochs_are_passes_over_the_text(cls, carry):
    model = made(cls, carry=carry).fit(TEXT, train=TrainConfig(epochs=1.5, batch_size=2))
    assert model.fit_info["epochs"] == pytest.approx(1.5, abs=0.1)
