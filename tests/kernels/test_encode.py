import numpy as np
import pytest

from seqloom.kernels.encode import QUERIES, add_gelu_erf, attend_texts, multiply_pieces
from tests.twins import encode as twin


def test_gelu_is_the_function_with_erf():
    x = np.linspace(-12, 12, 4001, dtype=np.float32).reshape(1, -1)
    bias = np.full(x.shape[1], 0.25, np.float32)
    expected = twin.gelu(x.astype(np.float64) + 0.25)
    found = add_gelu_erf(x, bias)
    assert found is x
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("width", "n_heads", "lengths"), [
    (32, 2, [1, 2, 15, 16, 17, 33]), (12, 3, [5, 1, 40]), (40, 2, [20, 3]), (8, 1, [QUERIES + 1, 2 * QUERIES, 3])])
def test_attention_stays_within_each_text(width, n_heads, lengths):
    rng = np.random.default_rng(0)
    borders = np.cumsum([0, *lengths])
    qkv, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((borders[-1], 3 * width), 3 * width))
    out = np.empty((len(qkv), width), np.float32)
    attend_texts(qkv, bias, borders, n_heads, out)
    np.testing.assert_allclose(out, twin.attend_texts(qkv.astype(np.float64) + bias, borders, n_heads), atol=1e-5)


def test_pieces_of_a_product():
    rng = np.random.default_rng(0)
    a, b, out = (rng.normal(size=shape).astype(np.float32) for shape in ((16, 30), (30, 32), (16, 32)))
    multiply_pieces(a, b, out, 9, 20, 29)
    np.testing.assert_allclose(out[:9, :20], (a[:, :29] @ b[:29])[:9, :20], atol=1e-5)
