"""Dropout kinds: which entries go together, that the mean stays, and where they work in a recurrent stack."""

import pytest
import torch
from torch import nn

from seqloom.nn.cells import LSTMCell
from seqloom.nn.layers import (
    VariationalDropout,
    draw_mask,
    locked_dropout,
    weight_drop,
    word_dropout,
)
from seqloom.nn.recurrent import RecurrentStack


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(5)


def test_variational_mask_is_locked_over_time():
    drop = VariationalDropout(0.4)
    x = torch.ones(6, 9, 500)
    out = drop(x)
    assert out.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    assert (out == out[:, :1]).all(), "one mask a sequence"
    assert not torch.equal(out[0], out[1]), "each sequence its own"
    assert out.mean().item() == pytest.approx(1.0, abs=0.05)
    assert not torch.equal(drop(x), out), "drawn anew for every pass"
    assert drop.eval()(x) is x
    assert VariationalDropout(0.0)(x) is x


def test_locked_over_another_axis():
    out = locked_dropout(torch.ones(9, 4, 50), 0.5, time=0)
    assert (out == out[:1]).all()
    assert not torch.equal(out[:, 0], out[:, 1])


def test_weight_drop_scales_what_stays():
    weight = torch.ones(200, 200, requires_grad=True)
    out = weight_drop(weight, 0.25)
    assert out.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert (out == 0).float().mean().item() == pytest.approx(0.25, abs=0.02)
    out.sum().backward()
    assert torch.equal(weight.grad == 0, out == 0)
    assert weight_drop(weight, 0.25, training=False) is weight
    assert weight_drop(weight, 0.0) is weight


def test_word_dropout_takes_whole_types():
    embedding = nn.Embedding(400, 3)
    ids = torch.arange(400).repeat(2).view(4, 200)  # every type at two places
    out = word_dropout(embedding, ids, 0.3).view(2, 400, 3)
    torch.testing.assert_close(out[0], out[1])
    gone = (out[0] == 0).all(1)
    assert torch.equal(gone, (out[0] == 0).any(1)), "all of a vector or nothing"
    assert gone.float().mean().item() == pytest.approx(0.3, abs=0.08)
    torch.testing.assert_close(out[0][~gone], embedding.weight[~gone] / 0.7)
    torch.testing.assert_close(word_dropout(embedding, ids, 0.0), embedding(ids))


def test_mask_keeps_type():
    assert draw_mask((2, 3), 0.5, torch.zeros(1, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5])
def test_impossible_rates(p):
    with pytest.raises(ValueError, match="below 1"):
        VariationalDropout(p)
    with pytest.raises(ValueError, match="below 1"):
        word_dropout(nn.Embedding(3, 2), torch.zeros(1, 1, dtype=torch.long), p)


def test_dropout_between_layers_only():
    x = torch.randn(2, 6, 4)
    one = RecurrentStack(4, 5, 1, dropout=0.5)
    torch.testing.assert_close(one.train()(x)[0], one.eval()(x)[0])
    two = RecurrentStack(4, 5, 2, dropout=0.5)
    assert not torch.equal(two.train()(x)[0], two.eval()(x)[0])
    torch.testing.assert_close(two.eval()(x)[0], two.eval()(x)[0])


@pytest.mark.parametrize("variational", [True, False])
def test_variational_holds_one_mask_a_sequence(variational, monkeypatch):
    stack = RecurrentStack(4, 50, 2, dropout=0.5, variational=variational)
    seen = []
    run = stack._direction
    monkeypatch.setattr(
        stack, "_direction", lambda cell, x, *rest: seen.append(x) or run(cell, x, *rest)
    )
    stack(torch.randn(3, 6, 4))
    stack(torch.randn(3, 6, 4))
    dropped = [seen[1] == 0, seen[3] == 0]  # what entered the second layer, (T, B, D)
    same = [bool((mask == mask[:1]).all()) for mask in dropped]
    assert same == [variational, variational]
    assert not torch.equal(*dropped), "drawn anew for every pass (E-25)"
    assert not torch.equal(dropped[0][:, 0], dropped[0][:, 1]), "and for every row"


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_weight_drop_takes_entries_of_w_h(cell):
    stack = RecurrentStack(4, 30, cell=cell, weight_drop=0.4)
    x = torch.randn(2, 6, 4)
    torch.manual_seed(1)
    out, _ = stack(x)
    grad = torch.autograd.grad(out.sum(), stack.layers[0].w_h)[0]
    assert 0.3 < (grad == 0).float().mean() < 0.5
    torch.manual_seed(1)
    plain = RecurrentStack(4, 30, cell=cell)
    plain.load_state_dict(stack.state_dict())
    torch.manual_seed(1)
    with torch.no_grad():
        plain.layers[0].w_h.copy_(nn.functional.dropout(stack.layers[0].w_h, 0.4))
    torch.testing.assert_close(out, plain(x)[0])
    assert not torch.equal(stack(x)[0], stack(x)[0])
    stack.eval()
    torch.testing.assert_close(stack(x)[0], stack(x)[0])


def test_recurrent_dropout_is_one_mask_on_h():
    stack = RecurrentStack(4, 6, recurrent_dropout=0.5)
    x = torch.randn(3, 5, 4)
    torch.manual_seed(3)
    out, _ = stack(x)
    torch.manual_seed(3)
    mask = torch.empty(3, 6).bernoulli_(0.5) * 2
    cell, (h, c) = stack.layers[0], stack.start(3)[0]
    assert isinstance(cell, LSTMCell)
    for t in range(5):
        i, f, g, o = (x[:, t] @ cell.w_x.t() + cell.b + (h * mask) @ cell.w_h.t()).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        torch.testing.assert_close(out[:, t], h)
    assert not torch.equal(stack(x)[0], out)
    plain = RecurrentStack(4, 6)
    plain.load_state_dict(stack.state_dict())
    torch.testing.assert_close(stack.eval()(x)[0], plain(x)[0])
