import doctest
import math

import pytest

torch = pytest.importorskip("torch")

import seqloom.nn.position  # noqa: E402
from seqloom.nn.position import alibi_bias, alibi_slopes, rotary_angles, rotate, sinusoids  # noqa: E402


def test_sinusoids_are_the_papers():
    table = sinusoids(torch.arange(50), 12)
    for position in (0, 1, 7, 49):
        for i in range(6):
            angle = position / 10000 ** (2 * i / 12)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_rotary_products_depend_on_the_distance_alone():
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 16, dtype=torch.float64)

    def product(at_q, at_k):
        cos, sin = rotary_angles(torch.tensor([[at_q], [at_k]], dtype=torch.float64), 16)
        return (rotate(q, cos[0], sin[0]) * rotate(k, cos[1], sin[1])).sum().item()

    assert product(9, 4) == pytest.approx(product(105, 100), abs=1e-9)
    assert product(9, 4) != pytest.approx(product(9, 5), abs=1e-3)
    assert product(3, 3) == pytest.approx((q * k).sum().item(), abs=1e-9)  # turned alike, as if not turned


def test_rotation_is_the_complex_product():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    positions = torch.arange(5, dtype=torch.float64)
    turned = rotate(x, *rotary_angles(positions, 8))
    numbers = torch.complex(x[..., :4], x[..., 4:])
    angles = positions[:, None] * torch.tensor([10000 ** (-2 * i / 8) for i in range(4)], dtype=torch.float64)
    expected = numbers * torch.polar(torch.ones_like(angles), angles)
    torch.testing.assert_close(turned, torch.cat((expected.real, expected.imag), -1), atol=1e-6, rtol=0)


def test_alibi_slopes_are_the_papers():
    assert alibi_slopes(8).tolist() == [2.0 ** -i for i in range(1, 9)]
    sixteen = alibi_slopes(16).tolist()
    assert sixteen == pytest.approx([2 ** (-i / 2) for i in range(1, 17)])
    # 12 heads, as the authors' code has them: those of 8, then every other one of 16
    assert alibi_slopes(12).tolist() == pytest.approx([2.0 ** -i for i in range(1, 9)] + sixteen[0:8:2])
    assert alibi_slopes(1).tolist() == [2.0 ** -8]


def test_alibi_bias_falls_with_the_distance_and_hides_the_future():
    slopes = torch.tensor([0.5, 0.25])
    bias = alibi_bias(slopes, torch.tensor([[2, 3], [0, 1]]), torch.arange(4))
    inf = math.inf
    assert bias[0].tolist() == [[[-1, -0.5, 0, -inf], [-1.5, -1, -0.5, 0]], [[-0.5, -0.25, 0, -inf], [-0.75, -0.5, -0.25, 0]]]
    assert bias[1, 0].tolist() == [[0, -inf, -inf, -inf], [-0.5, 0, -inf, -inf]]


def test_odd_widths_are_refused():
    with pytest.raises(ValueError, match="even width, not 7"):
        sinusoids(torch.arange(3), 7)
    with pytest.raises(ValueError, match="even head width, not 5"):
        rotary_angles(torch.arange(3), 5)


def test_examples():
    outcome = doctest.testmod(seqloom.nn.position)
    assert outcome.attempted > 1
    assert outcome.failed == 0
