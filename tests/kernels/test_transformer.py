"""The parts of a block: Python and compiled code give the same bits, and both what the formulas say."""

import numpy as np
import pytest

from seqloom.kernels import transformer
from seqloom.kernels.attention import store_tokens
from seqloom.kernels.maths import ACTIVATIONS
from seqloom.kernels.matmul import pack
from seqloom.kernels.transformer import Heads, Norm, Rotation
from seqloom.runtime.attention import Scratch
from seqloom.runtime.quantised import Quantised
from tests.sharing import shared_by
from tests.twins import attention as attention_twin
from tests.twins import maths as twin

D, N_HEADS, N_KEYS, D_HEAD = 24, 4, 2, 6
D_QUERIES, D_KEYS = N_HEADS * D_HEAD, N_KEYS * D_HEAD
LENGTHS = np.array([5, 0, 70, 1])
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
NO_DISTANCES, NO_RELATIVE = np.empty((N_HEADS, 0), np.float32), np.empty((0, D_HEAD), np.float32)
NO_WEIGHTS = np.empty((0, 0, 0), np.float32)
EPSILON = np.float32(1e-5)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def matrix(rows, columns, seed, kind="float32"):
    """As kernels take it, with a bias; its floats; and the bias."""
    weight, bias = (
        normal(rows, columns, seed=seed) / np.float32(columns**0.5),
        normal(rows, seed=seed + 100),
    )
    if kind == "float32":
        return pack(weight, bias), weight, bias
    quantised = Quantised.of(weight, 8)
    return quantised.tiles(bias, inputs_16_bit=True), quantised.floats(), bias


def norm_of(kind):
    return Norm(
        normal(D, seed=50),
        normal(D, seed=51) if kind == "layer" else np.empty(0, np.float32),
        EPSILON,
    )


def normed(x, norm):
    return (
        twin.layer_norm(x, norm.weight, norm.bias, EPSILON)
        if len(norm.bias)
        else twin.rms_norm(x, norm.weight, EPSILON)
    )


def around(x, pre, norm, change):
    """What a part makes of x (N, D), by what it adds."""
    return x + change(normed(x, norm)) if pre else normed(x + change(x), norm)


def heads(window=1 << 40):
    return Heads(N_HEADS, D_HEAD, D_KEYS, np.float32(D_HEAD**-0.5), window)


def seen_by(
    queries, keys, values, offsets_of, *, causal, window=1 << 40, by_distance=None, relative=None
):
    """What each query (N, heads d) sees of the keys and values of its sequence, one at a time."""
    out = np.zeros((len(queries), D_QUERIES))
    for r in range(len(LENGTHS)):
        own = slice(*offsets_of[r : r + 2])
        for row in range(OFFSETS[r], OFFSETS[r + 1]):
            for head in range(N_HEADS):
                column = head * N_KEYS // N_HEADS * D_HEAD
                q = slice(head * D_HEAD, head * D_HEAD + D_HEAD)
                out[row, q], _ = attention_twin.attend(
                    queries[row, q],
                    keys[own, column : column + D_HEAD],
                    values[own, column : column + D_HEAD],
                    place=row - OFFSETS[r],
                    causal=causal,
                    window=window,
                    scale=D_HEAD**-0.5,
                    distances=None if by_distance is None else by_distance[head],
                    relative=relative,
                )
    return out


def by_threads(part, make, x):
    """What a part makes of x; by one thread and by several it is the same to the bit."""
    found = x.copy()
    shown = make(part, found)
    with shared_by(3):
        again = x.copy()
        np.testing.assert_array_equal(make(part, again), shown)
        np.testing.assert_array_equal(again, found)
    return found


SELF = {
    "plain": {},
    "later tokens too": {"causal": False},
    "a window": {"window": 3},
    "rotary": {"rotary": True},
    "by distance": {"by_distance": normal(N_HEADS, 9, seed=20)},
    "both sides, by distance": {"causal": False, "by_distance": normal(N_HEADS, 9, seed=20)},
    "relative": {"relative": normal(12, D_HEAD, seed=21)},
}


@pytest.mark.parametrize("given", SELF.values(), ids=SELF)
@pytest.mark.parametrize("pre", [True, False])
@pytest.mark.parametrize(
    ("norm_kind", "kind"), [("layer", "float32"), ("rms", "float32"), ("layer", "8 bits")]
)
def test_self_attention(given, pre, norm_kind, kind):
    causal, window, rotary = (
        given.get(name, default)
        for name, default in (("causal", True), ("window", 1 << 40), ("rotary", False))
    )
    by_distance, relative = given.get("by_distance"), given.get("relative")
    qkv, w_qkv, b_qkv = matrix(D_QUERIES + 2 * D_KEYS, D, 1, kind)
    out, w_out, b_out = matrix(D, D_QUERIES, 2, kind)
    norm, x = norm_of(norm_kind), normal(OFFSETS[-1], D, seed=3)
    positions = np.concatenate([np.arange(length) for length in LENGTHS])
    angles = (
        np.random.default_rng(4).uniform(-4, 4, (100, D_HEAD // 2)) if rotary else np.empty((0, 0))
    )
    rotation = Rotation(
        np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32), positions
    )

    def make(run, x):
        scratch = Scratch(OFFSETS, D_KEYS)
        weights = np.zeros((len(x), N_HEADS, 70), np.float32)
        run(
            x,
            pre,
            norm,
            qkv,
            out,
            heads(window),
            0,
            scratch.tokens,
            causal,
            rotation,
            NO_DISTANCES if by_distance is None else by_distance,
            NO_RELATIVE if relative is None else relative,
            weights,
        )
        return weights

    def change(inner):
        inner = inner @ w_qkv.T + b_qkv
        if rotary:
            inner = twin.rotate(inner, positions, N_HEADS + N_KEYS, angles)
        queries, keys, values = np.split(inner, [D_QUERIES, D_QUERIES + D_KEYS], axis=1)
        seen = seen_by(
            queries,
            keys,
            values,
            OFFSETS,
            causal=causal,
            window=window,
            by_distance=by_distance,
            relative=relative,
        )
        return seen @ w_out.T + b_out

    found = by_threads(transformer.self_attention, make, x)
    expected = around(x.astype(np.float64), pre, norm, change)
    np.testing.assert_allclose(found, expected, atol=2e-5 if kind == "float32" else 5e-3)


@pytest.mark.parametrize("pre", [True, False])
@pytest.mark.parametrize("kind", ["float32", "8 bits"])
def test_cross_attention(pre, kind):
    """Sources of other lengths than their targets, one of them empty."""
    query, w_query, b_query = matrix(D_QUERIES, D, 1, kind)
    out, w_out, b_out = matrix(D, D_QUERIES, 2, kind)
    norm, x = norm_of("layer"), normal(OFFSETS[-1], D, seed=3)
    sources = np.concatenate([[0], np.cumsum([130, 2, 3, 0])])
    memory = normal(sources[-1], 2 * D_KEYS, seed=5)
    scratch = Scratch(sources, D_KEYS, n_layers=2)
    store_tokens(memory, 0, D_KEYS, 1, *scratch.tokens)
    tokens = scratch.tokens._replace(starts=OFFSETS[:-1].copy(), counts=LENGTHS)

    def make(run, x):
        weights = np.full((len(x), N_HEADS, 130), np.nan, np.float32)
        run(x, pre, norm, query, out, heads(), 1, tokens, NO_DISTANCES, weights)
        return weights

    def change(inner):
        seen = seen_by(
            inner @ w_query.T + b_query,
            *np.split(memory.astype(np.float64), 2, axis=1),
            sources,
            causal=False,
        )
        return seen @ w_out.T + b_out

    found = by_threads(transformer.cross_attention, make, x)
    expected = around(x.astype(np.float64), pre, norm, change)
    np.testing.assert_allclose(found, expected, atol=2e-5 if kind == "float32" else 5e-3)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("pre", [True, False])
@pytest.mark.parametrize(
    ("norm_kind", "kind"), [("layer", "float32"), ("rms", "float32"), ("layer", "8 bits")]
)
def test_perceptron(name, pre, norm_kind, kind):
    d_mlp = 40
    up, w_up, b_up = matrix(d_mlp * (2 if name in twin.GATED else 1), D, 1, kind)
    down, w_down, b_down = matrix(D, d_mlp, 2, kind)
    norm, x = norm_of(norm_kind), normal(9, D, seed=3)

    def make(run, x):
        run(x, pre, norm, up, down, ACTIVATIONS.index(name))
        return 0

    def change(inner):
        return twin.activate(inner @ w_up.T + b_up, name) @ w_down.T + b_down

    found = by_threads(transformer.perceptron, make, x)
    expected = around(x.astype(np.float64), pre, norm, change)
    np.testing.assert_allclose(found, expected, atol=5e-5 if kind == "float32" else 1e-2)


def test_no_tokens():
    norm, x = norm_of("layer"), np.empty((0, D), np.float32)
    up, down = matrix(40, D, 1)[0], matrix(D, 40, 2)[0]
    transformer.perceptron(x, True, norm, up, down, ACTIVATIONS.index("relu"))
