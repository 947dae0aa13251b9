"""The shapes that a saved network is held to are those of the network itself, for every option that changes them."""

import itertools

import pytest
from seqloom.models.language.shapes import gpt_shapes, nplm_shapes, recurrent_shapes
from seqloom.models.network.shapes import recurrent_stack, transformer_block

from seqloom.models.language.gpt_net import GPTLanguageNet
from seqloom.models.language.neural_configs import GPTConfig, GRUConfig, LSTMConfig, NPLMConfig, RNNConfig
from seqloom.models.language.nplm_net import NPLMNet
from seqloom.models.language.recurrent_net import RecurrentNet
from seqloom.models.network.sizes import Size
from seqloom.nn.attention import Attention
from seqloom.nn.recurrent import RecurrentStack
from seqloom.nn.transformer import MLP, Block

SOFTMAXES = ("full", "adaptive", "sampled", "nce")
SIZES = (Size(6), Size(6, d_embed=4), Size(8, d_embed=8))


def shapes_of(network):
    return {name: tuple(value.shape) for name, value in network.state_dict().items()}


def combinations(**options):
    """All of them but those in which an option has no effect, which are refused."""
    every = [dict(zip(options, values)) for values in itertools.product(*options.values())]
    return [each for each in every if each.get("tied", True) or each["softmax"] != "adaptive"]


@pytest.mark.parametrize(("cell", "config_class", "own"), [
    ("rnn", RNNConfig, {"activation": ("tanh",)}),
    ("lstm", LSTMConfig, {"d_projection": (None, 3)}),
    ("gru", GRUConfig, {"reset": ("after", "before")}),
])
def test_recurrent(cell, config_class, own):
    seen = set()
    for options in combinations(softmax=SOFTMAXES, n_layers=(1, 2), tied=(True, False), layer_norm=(True, False),
                                learned_start=(True, False), **own):
        config = config_class(**options)
        for size, vocab_size in zip(SIZES, (3, 11, 40)):
            expected = shapes_of(RecurrentNet(config, cell, vocab_size, size.width, None, size.d_embed))
            assert recurrent_shapes(config, cell, vocab_size, size) == expected
            seen.add(frozenset(expected))
    assert len(seen) > 20


def test_gpt():
    for options in combinations(softmax=SOFTMAXES, tied=(True, False), norm=("pre", "post"), n_layers=(1, 2),
                                positions=("learned", "sinusoidal", "rope", "alibi", "relative", "none")):
        config = GPTConfig(n_heads=2, context=5, **options)
        assert gpt_shapes(config, 23, Size(8)) == shapes_of(GPTLanguageNet(config, 23, 8))
    config = GPTConfig(n_heads=2, positions="relative", max_distance=7)
    assert gpt_shapes(config, 23, Size(8)) == shapes_of(GPTLanguageNet(config, 23, 8))


def test_gpt_with_the_options_of_llama():
    seen = set()
    for options in combinations(norm_kind=("layer", "rms"), norm=("pre", "post"), bias=(True, False), n_kv_heads=(None, 1, 2),
                                activation=("gelu", "swiglu"), d_mlp=(None, 5)):
        config = GPTConfig(n_heads=4, context=5, n_layers=2, **options)
        expected = shapes_of(GPTLanguageNet(config, 23, 8))
        assert gpt_shapes(config, 23, Size(8)) == expected
        seen.add(frozenset(expected.items()))
    assert len(seen) == 72  # without biases the two kinds of norms have the same shapes


def test_nplm():
    for options in combinations(softmax=SOFTMAXES, direct=(True, False), order=(2, 4), d_embed=(None, 3)):
        config = NPLMConfig(**options)
        for size in (Size(6), Size(6, d_embed=5)):
            assert nplm_shapes(config, 23, size) == shapes_of(NPLMNet(config, 23, size.width, None, size.d_embed))


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_stacks_of_other_networks(cell, bidirectional):
    for n_layers, norms, start in itertools.product((1, 3), (False, True), (False, True)):
        made = RecurrentStack(5, 4, n_layers, cell=cell, bidirectional=bidirectional, layer_norm=norms, learned_start=start)
        assert shapes_of(made) == recurrent_stack(cell, 5, 4, n_layers, bidirectional=bidirectional, norms=norms,
                                                  learned_start=start)


@pytest.mark.parametrize("cross", [False, True])
def test_blocks_of_encoders_and_decoders(cross):
    made = Block(6, Attention(6, 2), MLP(6, 10, abs), cross=Attention(6, 3) if cross else None)
    assert shapes_of(made) == transformer_block(6, 10, cross=cross)
