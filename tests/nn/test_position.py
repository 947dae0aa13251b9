import math

import pytest

torch = pytest.importorskip("torch")

from seqloom.nn.attention import Attention, Mask, make_mask, seen_keys
from seqloom.nn.position import (
    alibi_bias,
    alibi_slopes,
    relative_rows,
    relative_scores,
    rotary_angles,
    rotate,
    sinusoids,
)
from seqloom.nn.transformer import ACTIVATIONS, MLP, Block, GPTNet, causal_positions


def test_sinusoids_are_the_papers():
    table = sinusoids(torch.arange(50), 12)
    for position in (0, 1, 7, 49):
        for i in range(6):
            angle = position / 10000 ** (2 * i / 12)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_the_table_of_the_documents():
    """Six dimensions, positions 0 to 3; the text has 0.0025, 0.0050, 0.0075 in the fifth and 0.1389
    in the third.
    """
    table = sinusoids(torch.arange(4, dtype=torch.float64), 6)
    expected = [
        [0, 1, 0, 1, 0, 1],
        [0.8415, 0.5403, 0.0464, 0.9989, 0.0022, 1.0],
        [0.9093, -0.4161, 0.0927, 0.9957, 0.0043, 1.0],
        [0.1411, -0.9900, 0.1388, 0.9903, 0.0065, 1.0],
    ]
    torch.testing.assert_close(
        table, torch.tensor(expected, dtype=torch.float64), atol=5e-5, rtol=0
    )


def test_sinusoids_are_bounded_unique_and_shift_linearly():
    """PE(p + k) = M_k PE(p), where M_k turns each pair by k times its frequency, whatever p is."""
    table = sinusoids(torch.arange(300, dtype=torch.float64), 16)
    assert table.abs().max() <= 1
    assert torch.cdist(table, table).fill_diagonal_(1).min() > 0.1
    for k in (1, 17):
        turn = torch.zeros(16, 16, dtype=torch.float64)
        for i, f in enumerate(10000 ** (-torch.arange(0, 16, 2).double() / 16)):
            c, s = torch.cos(k * f), torch.sin(k * f)
            turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[c, s], [-s, c]])
        torch.testing.assert_close(table[k:], table[:-k] @ turn.T, atol=1e-4, rtol=0)


def test_interpolated_rotary_positions_are_those_of_the_trained_range():
    """With a scale of 4 position 40 is turned as position 10 was, and 41 stands between 10 and 11."""
    plain, scaled = (
        rotary_angles(torch.arange(64, dtype=torch.float64), 8, scale=scale) for scale in (1.0, 4.0)
    )
    for a, b in zip(plain, scaled):
        torch.testing.assert_close(b[::4], a[:16])
    between = torch.atan2(scaled[1][41], scaled[0][41]) % (2 * math.pi)
    torch.testing.assert_close(
        between[1:],
        (10.25 * torch.tensor([10000 ** (-2 * i / 8) for i in range(4)])).double()[1:],
        atol=1e-5,
        rtol=0,
    )


@pytest.mark.parametrize("distances", [range(3), range(-2, 3), range(-20, 21)], ids=str)
def test_relative_positions_are_those_of_shaw(distances):
    """Each key by itself with the vector of its distance added: e_ij = q_i . (k_j + a_ij) /
    sqrt(d), by loops.
    """
    torch.manual_seed(0)
    q, k, table = (
        torch.randn(*shape, dtype=torch.float64)
        for shape in ((2, 3, 5, 4), (2, 3, 6, 4), (len(distances), 4))
    )
    distance = torch.arange(5)[:, None] - torch.arange(6)
    ours = q / 2 @ k.transpose(2, 3) + relative_scores(
        q / 2, table, relative_rows(distance, distances)[None]
    )
    for i in range(5):
        for j in range(6):
            clipped = max(distances[0], min(distances[-1], i - j))
            expected = (q[:, :, i] * (k[:, :, j] + table[clipped - distances[0]])).sum(
                -1
            ) / math.sqrt(4)
            torch.testing.assert_close(ours[:, :, i, j], expected)


@pytest.mark.parametrize("dropout", [0.0, 1e-9], ids=["fused", "written out"])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_relative_positions_in_a_layer_under_a_mask(kv_heads, dropout):
    """Both directions, padding and grouped heads; a row without keys gives zeros and no NaN."""
    torch.manual_seed(0)
    layer = Attention(
        8, 4, n_kv_heads=kv_heads, distances=range(-2, 3), dropout=dropout, bias=False
    ).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    keep = torch.tensor([[True, True, True, False, False], [False] * 5])
    positions = torch.arange(5)
    _, places = causal_positions(positions[None], relative=True)
    y, _ = layer(x, make_mask(keep[:, None, None]), places)
    q, k, v = layer.qkv(x[0]).split((8, 2 * kv_heads, 2 * kv_heads), -1)
    expected = torch.zeros(5, 8, dtype=torch.float64)
    for head in range(4):
        own, group = slice(2 * head, 2 * head + 2), head * kv_heads // 4
        shared = slice(2 * group, 2 * group + 2)
        for i in range(5):
            near = [layer.relative.weight[max(-2, min(2, i - j)) + 2] for j in range(3)]
            scores = torch.stack(
                [q[i, own] @ (k[j, shared] + near[j]) / math.sqrt(2) for j in range(3)]
            )
            expected[i, own] = torch.softmax(scores, 0) @ v[:3, shared]
    torch.testing.assert_close(y[0], layer.out(expected), atol=1e-7, rtol=0)
    assert (y[1] == 0).all()
    assert all(
        g.isfinite().all() for g in torch.autograd.grad(y.square().sum(), (x, *layer.parameters()))
    )


def test_without_positions_a_block_is_equivariant_and_a_decoder_still_tells_order():
    """Shuffled in, shuffled out; with rotary positions not. A causal mask alone breaks the
    symmetry, from two blocks on.
    """
    torch.manual_seed(0)
    block = Block(8, Attention(8, 2), MLP(8, 16, ACTIVATIONS["gelu"])).double()
    x, order = torch.randn(1, 6, 8, dtype=torch.float64), torch.tensor([3, 0, 5, 1, 2, 4])
    with torch.no_grad():
        torch.testing.assert_close(
            block(x[:, order], Mask())[0], block(x, Mask())[0][:, order], atol=1e-12, rtol=0
        )
        near = make_mask(seen_keys(torch.arange(6)[None], torch.arange(6), window=1))
        assert not torch.allclose(
            block(x[:, order], near)[0], block(x, near)[0][:, order], atol=1e-3
        )

        def last(n_layers, positions, ids):
            torch.manual_seed(0)
            net = GPTNet(9, 8, 8, n_layers, 2, positions=positions).double()
            for p in net.parameters():
                torch.nn.init.normal_(p, 0.1, 0.4)
            return net.features(torch.tensor([ids]))[0][0, -1]

        for n_layers, positions, blind in (
            (1, "none", True),
            (2, "none", False),
            (1, "relative", False),
        ):
            a, b = last(n_layers, positions, [1, 2, 3, 4]), last(n_layers, positions, [3, 1, 2, 4])
            assert torch.allclose(a, b, atol=1e-9) == blind


def test_rotary_products_depend_on_the_distance_alone():
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 16, dtype=torch.float64)

    def product(at_q, at_k):
        cos, sin = rotary_angles(torch.tensor([[at_q], [at_k]], dtype=torch.float64), 16)
        return (rotate(q, cos[0], sin[0]) * rotate(k, cos[1], sin[1])).sum().item()

    assert product(9, 4) == pytest.approx(product(105, 100), abs=1e-9)
    assert product(9, 4) != pytest.approx(product(9, 5), abs=1e-3)
    assert product(3, 3) == pytest.approx(
        (q * k).sum().item(), abs=1e-9
    )  # turned alike, as if not turned


def test_rotation_is_the_complex_product():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    positions = torch.arange(5, dtype=torch.float64)
    turned = rotate(x, *rotary_angles(positions, 8))
    numbers = torch.complex(x[..., :4], x[..., 4:])
    angles = positions[:, None] * torch.tensor(
        [10000 ** (-2 * i / 8) for i in range(4)], dtype=torch.float64
    )
    expected = numbers * torch.polar(torch.ones_like(angles), angles)
    torch.testing.assert_close(
        turned, torch.cat((expected.real, expected.imag), -1), atol=1e-6, rtol=0
    )


def test_alibi_slopes_are_the_papers():
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    sixteen = alibi_slopes(16).tolist()
    assert sixteen == pytest.approx([2 ** (-i / 2) for i in range(1, 17)])
    # 12 heads, as the authors' code has them: those of 8, then every other one of 16
    assert alibi_slopes(12).tolist() == pytest.approx(
        [2.0**-i for i in range(1, 9)] + sixteen[0:8:2]
    )
    assert alibi_slopes(1).tolist() == [2.0**-8]


def test_alibi_bias_falls_with_the_distance_and_its_mask_hides_the_future():
    slopes = torch.tensor([0.5, 0.25])
    positions, inf = torch.tensor([[2, 3], [0, 1]]), math.inf
    assert alibi_bias(slopes, positions[:, :1], torch.arange(3))[:, 1, 0].tolist() == [
        [-0.5, -0.25, 0],
        [0, 0.25, 0.5],
    ]
    bias = causal_positions(positions, [2, 0], slopes)[0].scores
    assert bias[0].tolist() == [
        [[-1, -0.5, 0, -inf], [-1.5, -1, -0.5, 0]],
        [[-0.5, -0.25, 0, -inf], [-0.75, -0.5, -0.25, 0]],
    ]
    assert bias[1, 0].tolist() == [[0, -inf, -inf, -inf], [-0.5, 0, -inf, -inf]]
    near = causal_positions(positions, [2, 0], slopes, window=1)[0].scores
    assert near[0, 0].tolist() == [[-inf, -0.5, 0, -inf], [-inf, -inf, -0.5, 0]]


def test_odd_widths_are_refused():
    with pytest.raises(ValueError, match="even width, not 7"):
        sinusoids(torch.arange(3), 7)
    with pytest.raises(ValueError, match="even head width, not 5"):
        rotary_angles(torch.arange(3), 5)
