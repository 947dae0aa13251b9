"""First values: variances, orthogonality of each gate's block, and the forget bias set once."""

import math

import pytest
import torch
from torch import nn

from seqloom.nn.initialisation import he, initialise, orthogonal, scaled_residual, uniform, xavier
from seqloom.nn.recurrent import RecurrentStack


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(11)


def test_xavier_looks_at_one_gate():
    weight = xavier(torch.empty(4 * 300, 100), blocks=4)
    limit = math.sqrt(6 / (100 + 300))
    assert weight.abs().max() <= limit
    assert weight.abs().max() > 0.99 * limit
    assert weight.var().item() == pytest.approx(2 / 400, rel=0.05)
    assert xavier(torch.empty(4 * 300, 100)).var().item() == pytest.approx(2 / 1300, rel=0.05)


def test_he():
    assert he(torch.empty(900, 200), 3).var().item() == pytest.approx(2 / 200, rel=0.05)


def test_uniform():
    weight = uniform(torch.empty(300, 300))
    assert weight.abs().max() <= 0.1
    assert weight.var().item() == pytest.approx(0.2**2 / 12, rel=0.05)
    assert uniform(torch.empty(300, 300), limit=0.02).abs().max() <= 0.02


def test_scaled_residual():
    assert scaled_residual(torch.empty(500, 500), 12).std().item() == pytest.approx(
        0.02 / math.sqrt(24), rel=0.05
    )
    assert scaled_residual(torch.empty(500, 500), 2, std=0.1).std().item() == pytest.approx(
        0.05, rel=0.05
    )


@pytest.mark.parametrize("width", [40, 16])
def test_orthogonal_block_by_block(width):
    """The second width is a projection: fewer columns than rows, so the columns are orthonormal."""
    weight = orthogonal(torch.empty(3 * 40, width), blocks=3)
    for block in weight.chunk(3):
        torch.testing.assert_close(block.t() @ block, torch.eye(width), atol=1e-5, rtol=0)
    first, second, _ = weight.chunk(3)
    assert (first - second).abs().max() > 0.01


def test_a_stack_begins_right():
    """Recurrent blocks orthogonal, biases zero, the forget gate's 1 and only that (E-21)."""
    stack = RecurrentStack(10, 20, 2, bidirectional=True)
    for layer in stack.layers:
        for cell in (layer, layer.reverse):
            assert cell.b.tolist() == [0.0] * 20 + [1.0] * 20 + [0.0] * 40
            for block in cell.w_h.chunk(4):
                torch.testing.assert_close(block @ block.t(), torch.eye(20), atol=1e-5, rtol=0)
            limit = math.sqrt(6 / (cell.d_in + 20))
            assert 0.9 * limit < cell.w_x.abs().max() <= limit
    assert RecurrentStack(4, 3, forget_bias=2.5).layers[0].b[3:6].tolist() == [2.5] * 3
    gru = RecurrentStack(4, 3, cell="gru").layers[0]
    assert not gru.b.any()
    assert not gru.b_h.any()


def test_initialise_resets_everything_by_the_given_methods():
    stack = RecurrentStack(6, 8, cell="lstm", layer_norm=True, learned_start=True, d_projection=4)
    net = nn.Sequential(nn.Linear(5, 6), stack)
    with torch.no_grad():
        for value in net.parameters():
            value.fill_(7.0)
    initialise(net, weights="uniform", recurrent="uniform")
    cell = stack.layers[0]
    for weight in (net[0].weight, cell.w_x, cell.w_h, cell.w_p):
        assert 0.0 < weight.abs().max() <= 0.1
    assert not net[0].bias.any()
    assert not cell.start_h.any()
    assert not cell.start_c.any()
    assert cell.b[8:16].tolist() == [1.0] * 8
    assert cell.b.sum().item() == 8.0
    assert cell.norm_c.weight.tolist() == [1.0] * 8
    assert not cell.norm_x.bias.any()


def test_a_generator_decides():
    def filled(seed):
        stack = RecurrentStack(3, 4)
        initialise(stack, generator=torch.Generator().manual_seed(seed))
        return torch.cat([value.flatten() for value in stack.parameters()])

    assert torch.equal(filled(1), filled(1))
    assert not torch.equal(filled(1), filled(2))
