"""The recurrent encoder-decoder: all steps at once equal one by one, padding leaves no trace, and
the gradients are right.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from seqloom.encoder_table import ENCODERS
from seqloom.nn.encoders import make_encoder
from seqloom.nn.memory import SCORES
from seqloom.nn.readers import NumberReader, TokenReader
from seqloom.nn.seq2seq import Seq2Seq, summary_of
from seqloom.traces import Trace

V, D = 11, 6
SOURCES = {"ids": torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]]), "lengths": torch.tensor([5, 3])}
INPUTS = torch.tensor([[0, 3, 1, 4], [0, 9, 9, 2]])


def make(encoder="bigru", *, numbers=False, own=True, **options):
    torch.manual_seed(0)
    reader = NumberReader(3) if numbers else TokenReader(9, D) if own else None
    made = None if encoder is None else make_encoder(encoder, 3 if numbers else D, 4, 1, n_heads=2)
    net = (
        Seq2Seq(reader, made, V, D, 8, **{"cell": "gru", "attention": "additive", **options})
        .double()
        .eval()
    )
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return net


VARIANTS = {
    "plain": {"attention": None},
    "plain lstm": {"attention": None, "cell": "lstm", "n_layers": 2},
    "every step": {"attention": None, "every_step": True},
    "untied": {"tied": False, "attention": None},
    **{score: {"attention": score} for score in SCORES},
    "coverage": {"coverage": True},
    "input feeding": {"input_feeding": True},
    "fed deep lstm": {"input_feeding": True, "cell": "lstm", "n_layers": 2, "attention": "dot"},
    "all": {"input_feeding": True, "coverage": True, "every_step": True, "cell": "rnn"},
    "one network": {
        "encoder": None,
        "own": False,
        "attention": None,
        "cell": "lstm",
        "n_layers": 2,
    },
    "one network that looks back": {"encoder": None, "own": False, "attention": "scaled"},
    **{encoder: {"encoder": encoder} for encoder in ENCODERS},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_all_steps_at_once_are_one_by_one(name):
    net = make(**VARIANTS[name])
    with torch.no_grad():
        memory = net.encode(SOURCES)
        whole = net.features(memory, INPUTS)
        traced = Trace()
        torch.testing.assert_close(net.features(memory, INPUTS, traced), whole)
        state = net.start(memory)
        for t in range(INPUTS.shape[1]):
            step = Trace()
            features, state = net.step(memory, state, INPUTS[:, t], step)
            torch.testing.assert_close(features, whole[:, t])
            assert step.keys() == traced.keys()
            for part, value in step.items():
                torch.testing.assert_close(value, traced[part][..., t : t + 1, :])
        assert ("cross.weights" in traced) == (net.attention is not None)
    assert whole.shape == (2, 4, 8 if name == "untied" else D)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_source_is_read_as_if_it_were_alone(name):
    net = make(**VARIANTS[name])
    with torch.no_grad():
        together = net.features(net.encode(SOURCES), INPUTS)
        alone = net.features(
            net.encode({"ids": SOURCES["ids"][1:, :3], "lengths": torch.tensor([3])}), INPUTS[1:]
        )
        filled = {**SOURCES, "ids": SOURCES["ids"].masked_fill(SOURCES["ids"] == 0, 8)}
        other = net.features(net.encode(filled), INPUTS)
        unlike = net.features(net.encode({**filled, "lengths": torch.tensor([5, 5])}), INPUTS)
    torch.testing.assert_close(together[1], alone[0])
    torch.testing.assert_close(other, together, atol=1e-12, rtol=0)
    assert not torch.allclose(unlike[1], together[1])  # the lengths do something


@pytest.mark.parametrize(
    "name",
    ["every step", "additive", "coverage", "all", "fed deep lstm", "one network that looks back"],
)
def test_gradients_are_the_finite_differences(name):
    net = make(**VARIANTS[name])
    names, values = zip(*net.named_parameters())
    targets = torch.tensor([[3, 1, 4, 0], [9, 9, 2, 0]])

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self):
            features = net.features(net.encode(SOURCES), INPUTS)
            return net.output.loss(features.flatten(0, 1), targets.flatten())

    whole = Loss()
    loss = whole()
    gradients = torch.autograd.grad(loss, values)
    generator = torch.Generator().manual_seed(3)
    for parameter, gradient, name in zip(values, gradients, names):
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            parameter.add_(1e-5 * direction)
            above = whole()
            parameter.sub_(2e-5 * direction)
            below = whole()
            parameter.add_(1e-5 * direction)
        torch.testing.assert_close(
            ((above - below) / 2e-5), (gradient * direction).sum(), atol=1e-7, rtol=1e-5, msg=name
        )


def test_sources_may_be_numbers():
    net = make(numbers=True)
    values = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        together = net.features(
            net.encode({"values": values, "lengths": SOURCES["lengths"]}), INPUTS
        )
        alone = net.features(
            net.encode({"values": values[1:, :3], "lengths": torch.tensor([3])}), INPUTS[1:]
        )
    torch.testing.assert_close(together[1], alone[0])


def test_the_summary_is_the_end_of_each_direction():
    torch.manual_seed(0)
    encoder = make_encoder("bilstm", D, 4)
    x = torch.randn(2, 5, D)
    vectors = encoder(x, SOURCES["lengths"])
    _, state = encoder.stack(x, lengths=SOURCES["lengths"])
    h, _, h_reverse, _ = state[0]
    torch.testing.assert_close(
        summary_of(encoder, vectors, SOURCES["lengths"]), torch.cat([h, h_reverse], 1)
    )


def test_what_cannot_be():
    with pytest.raises(ValueError, match="input feeding and coverage need attention"):
        make(attention=None, coverage=True)
    with pytest.raises(ValueError, match="one network that reads and writes"):
        make(None)
