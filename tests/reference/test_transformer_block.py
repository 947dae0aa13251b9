"""Attention and the block of a Transformer: finite differences, the fast layers, and the documents'
examples corrected.
"""

import itertools
import math

import numpy as np
import pytest

from seqloom.reference import (
    MultiHeadAttention,
    TransformerBlock,
    attend,
    attend_backward,
    causal_mask,
    numerical_gradient,
    padding_mask,
)

D, HEADS, INNER = 6, 2, 5
BLOCKS = list(itertools.product(("pre", "post"), ("layer", "rms"), ("relu", "gelu", "swiglu")))


def params(activation="gelu", norm_kind="layer", seed=0):
    rng = np.random.default_rng(seed)
    shapes = {f"{kind}_{name}": (D, D) if kind == "w" else (D,) for name in "qkvo" for kind in "wb"}
    wide = INNER * (2 if activation == "swiglu" else 1)
    shapes |= {
        "w_1": (wide, D),
        "b_1": (wide,),
        "w_2": (D, INNER),
        "b_2": (D,),
        "gamma_1": (D,),
        "gamma_2": (D,),
    }
    if norm_kind == "layer":
        shapes |= {"beta_1": (D,), "beta_2": (D,)}
    return {name: rng.normal(0, 0.6, shape) + ("gamma" in name) for name, shape in shapes.items()}


def masks():
    padded = padding_mask([4, 2])[:, None]  # (B, 1, S)
    return {
        "all": None,
        "causal": causal_mask(4),
        "padded": padded,
        "causal and padded": padded & causal_mask(4),
        "nothing seen": np.array([[[True, False, True, True]] * 4, [[False] * 4] * 4]),
    }


def agrees(loss, pairs):
    for name, array, grad in pairs:
        assert grad.shape == array.shape
        assert np.linalg.norm(grad - numerical_gradient(loss, array)) < 1e-7 * (
            1 + np.linalg.norm(grad)
        ), name


@pytest.mark.parametrize("kind", masks())
def test_attention_agrees_with_finite_differences(kind):
    rng, seen = np.random.default_rng(0), masks()[kind]
    q, k, v, on_out = (rng.normal(size=(2, 4, n)) for n in (3, 3, 5, 5))
    grads = attend_backward(attend(q, k, v, seen), on_out)
    agrees(lambda: float((attend(q, k, v, seen).out * on_out).sum()), zip("qkv", (q, k, v), grads))
    assert np.abs(np.concatenate([g.ravel() for g in grads])).max() > 0.1


@pytest.mark.parametrize("crossed", [False, True])
def test_several_heads_agree_with_finite_differences(crossed):
    rng = np.random.default_rng(1)
    x, memory, on_y = (rng.normal(size=(2, n, D)) for n in (4, 3 if crossed else 4, 4))
    seen = padding_mask([3, 2], memory.shape[1])[:, None]
    layer = MultiHeadAttention(
        {name: array for name, array in params().items() if name[2:] in "qkvo"}, HEADS
    )

    def loss():
        return float((layer.forward(x, memory if crossed else None, seen).y * on_y).sum())

    grads, grad_x, grad_memory = layer.backward(
        layer.forward(x, memory if crossed else None, seen), on_y
    )
    assert grads.keys() == layer.params.keys()
    pairs = [(name, array, grads[name]) for name, array in layer.params.items()]
    agrees(
        loss,
        [
            *pairs,
            ("x", x, grad_x if crossed else grad_x + grad_memory),
            *([("memory", memory, grad_memory)] if crossed else []),
        ],
    )


@pytest.mark.parametrize(("norm", "norm_kind", "activation"), BLOCKS, ids=str)
def test_a_block_agrees_with_finite_differences(norm, norm_kind, activation):
    rng = np.random.default_rng(2)
    x, on_y = rng.normal(size=(2, 2, 3, D))
    block = TransformerBlock(
        params(activation, norm_kind), HEADS, norm=norm, norm_kind=norm_kind, activation=activation
    )
    grads, grad_x = block.backward(block.forward(x, causal_mask(3)), on_y)
    assert grads.keys() == block.params.keys()
    agrees(
        lambda: float((block.forward(x, causal_mask(3)).y * on_y).sum()),
        [("x", x, grad_x), *((name, array, grads[name]) for name, array in block.params.items())],
    )


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize(("norm", "norm_kind", "activation"), BLOCKS, ids=str)
def test_the_fast_block_is_this_one(norm, norm_kind, activation, kind):
    torch = pytest.importorskip("torch")
    from functools import partial

    from seqloom.nn.attention import Attention, Mask, make_mask
    from seqloom.nn.transformer import ACTIVATIONS, MLP, Block, SwiGLU, make_norm

    seen = masks()[kind]
    p = params(activation, norm_kind)
    block = TransformerBlock(p, HEADS, norm=norm, norm_kind=norm_kind, activation=activation)
    mlp = SwiGLU(D, INNER) if activation == "swiglu" else MLP(D, INNER, ACTIVATIONS[activation])
    fast = Block(
        D, Attention(D, HEADS), mlp, norm=norm, make_norm=partial(make_norm, norm_kind)
    ).double()

    def named(values):
        """Under the fast block's names."""
        found = {"attention.out.weight": values["w_o"], "attention.out.bias": values["b_o"]}
        found |= {
            f"attention.qkv.{name}": np.concatenate([values[f"{kind}_{part}"] for part in "qkv"])
            for name, kind in (("weight", "w"), ("bias", "b"))
        }
        for part, i in (("up", 1), ("down", 2)):
            found |= {f"mlp.{part}.weight": values[f"w_{i}"], f"mlp.{part}.bias": values[f"b_{i}"]}
            found |= {
                f"norm{i}.weight": values[f"gamma_{i}"],
                **({f"norm{i}.bias": values[f"beta_{i}"]} if norm_kind == "layer" else {}),
            }
        return found

    fast.load_state_dict({name: torch.from_numpy(array) for name, array in named(p).items()})
    x, on_y = np.random.default_rng(3).normal(size=(2, 2, 4, D))
    trace = block.forward(x, seen)
    inputs = torch.from_numpy(x).requires_grad_()
    mask = (
        Mask()
        if seen is None
        else make_mask(torch.from_numpy(np.broadcast_to(seen, (2, 4, 4)).copy())[:, None])
    )
    y, _ = fast(inputs, mask)
    np.testing.assert_allclose(trace.y, y.detach().numpy(), rtol=1e-9, atol=1e-11)
    (y * torch.from_numpy(on_y)).sum().backward()
    grads, grad_x = block.backward(trace, on_y)
    np.testing.assert_allclose(grad_x, inputs.grad.numpy(), rtol=1e-8, atol=1e-10)
    theirs = {name: parameter.grad.numpy() for name, parameter in fast.named_parameters()}
    for name, grad in named(grads).items():
        np.testing.assert_allclose(grad, theirs[name], rtol=1e-8, atol=1e-10, err_msg=name)


# ---- the documents' examples and claims


def test_the_worked_example_with_its_second_row_right():
    """Two tokens of width 4, d = 2. In print the second row is [13.0, 15.2] and the weights are
    [0.1, 0.9]; scores of this size leave nothing to the smaller one, with those numbers too.
    """
    x = np.array([[1.0, 2, 3, 4], [5, 6, 7, 8]])
    w = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]])
    a = attend(x @ w, x @ w, x @ w)
    np.testing.assert_allclose(a.q, [[5, 6], [11.4, 14]])
    np.testing.assert_allclose(a.scores * math.sqrt(2), [[61, 141], [141, 325.96]])
    np.testing.assert_allclose(a.scores, [[43.13, 99.70], [99.70, 230.49]], atol=0.005)
    np.testing.assert_allclose(a.weights, [[2.7e-25, 1], [1.6e-57, 1]], rtol=0.02)
    np.testing.assert_allclose(a.out, [[11.4, 14], [11.4, 14]])
    printed = np.array([[5, 6], [13.0, 15.2]])
    assert attend(printed, printed, printed).weights[0, 0] < 1e-29


def test_of_four_ways_to_mask_only_one_is_right_for_a_row_without_keys():
    """In print a mask is -10000 or -1e9 or -inf; the first two overflow or are ignored, the third
    gives NaN.
    """
    q, k, v = np.random.default_rng(0).normal(size=(3, 1, 4))
    q, k, v = q, np.stack([k[0], -k[0], v[0]]), np.eye(3)
    free = attend(q, k, v).weights[0]

    def softmax(s):
        powers = np.exp(s - s.max())
        return powers / powers.sum()

    scores = (q @ k.T / 2)[0]
    np.testing.assert_allclose(softmax(scores - 10000), free)  # as if nothing were hidden
    np.testing.assert_allclose(
        softmax(np.full(3, -1e9)), [1 / 3] * 3
    )  # uniform over what is hidden
    with np.errstate(invalid="ignore"):
        assert np.isnan(softmax(np.full(3, -np.inf))).all()
    assert attend(q, k, v, np.zeros((1, 3), bool)).out.tolist() == [[0, 0, 0]]
    assert float(np.finfo(np.float16).min) > -1e9


def test_a_causal_mask_has_its_diagonal():
    """Without it, as one place in print has it, the first step would see nothing."""
    assert causal_mask(4).diagonal().all()
    assert causal_mask(4).sum() == 10
    x, later = np.random.default_rng(0).normal(size=(2, 4, 3))
    later[:2] = x[:2]
    for seen, same in ((causal_mask(4), True), (None, False)):
        assert (
            np.allclose(attend(x, x, x, seen).out[:2], attend(later, later, later, seen).out[:2])
            == same
        )


@pytest.mark.parametrize("d", [4, 64, 512])
def test_scores_have_variance_one_after_scaling_and_unscaled_ones_saturate(d):
    q, k = np.random.default_rng(0).normal(size=(2, 400, d))
    scores = attend(q, k, k).scores
    assert scores.var() == pytest.approx(1, abs=0.03)
    assert (scores * math.sqrt(d)).var() == pytest.approx(d, rel=0.03)

    def slope(scores):  # of the largest weight of a row with respect to its own score
        top = np.exp(scores - scores.max(axis=1, keepdims=True))
        top = (top / top.sum(axis=1, keepdims=True)).max(axis=1)
        return (top * (1 - top)).mean()

    if d == 512:
        assert slope(scores[:, :3] * math.sqrt(d)) < 0.2 * slope(scores[:, :3])


def test_without_positions_order_only_moves_the_rows():
    """Two orders of the same words give the same vectors in another order; the means are equal, the
    sequences are not.
    """
    block = TransformerBlock(params(), HEADS)
    x, order = np.random.default_rng(0).normal(size=(1, 5, D)), np.array([4, 0, 3, 1, 2])
    y, moved = block.forward(x).y, block.forward(x[:, order]).y
    np.testing.assert_allclose(moved, y[:, order], atol=1e-12)
    np.testing.assert_allclose(moved.mean(axis=1), y.mean(axis=1), atol=1e-12)
    assert not np.allclose(moved, y)


def test_without_relu_a_block_is_still_not_linear():
    """In print the non-linearity is what keeps the stack from one linear map; attention is not
    linear either.
    """
    layer = MultiHeadAttention(
        {name: array for name, array in params().items() if name[2:] in "qkvo"}, HEADS
    )
    for name in "qkvo":
        layer.params[f"b_{name}"][:] = 0
    x, z = np.random.default_rng(0).normal(size=(2, 1, 3, D))
    assert not np.allclose(
        layer.forward(x + z).y, layer.forward(x).y + layer.forward(z).y, atol=0.1
    )


def test_the_perceptron_is_two_convolutions_of_width_one():
    torch = pytest.importorskip("torch")
    import torch.nn.functional as F

    from seqloom.nn.transformer import ACTIVATIONS, MLP

    torch.manual_seed(0)
    mlp, x = MLP(D, INNER, ACTIVATIONS["relu"]), torch.randn(2, 7, D)
    inner = F.relu(F.conv1d(x.transpose(1, 2), mlp.up.weight[:, :, None], mlp.up.bias))
    y = F.conv1d(inner, mlp.down.weight[:, :, None], mlp.down.bias).transpose(1, 2)
    torch.testing.assert_close(mlp(x), y)


def test_a_width_that_heads_do_not_divide():
    with pytest.raises(ValueError, match="a width of 6 cannot be divided among 4 heads"):
        MultiHeadAttention(params(), 4)
