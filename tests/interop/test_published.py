"""Parameters of published models: by shapes, by the networks on torch's meta device, and as the
world counts them.
"""

import pytest

torch = pytest.importorskip("torch")

from seqloom.errors import ConfigError
from seqloom.interop.published import LAYOUTS, parameters, shapes
from seqloom.models.language.configs import GPTConfig
from seqloom.models.language.language_net import GPTLanguageNet
from seqloom.models.masked.configs import BertConfig
from seqloom.models.translation.configs import TransformerConfig
from seqloom.nn.encoder_decoder import EncoderDecoder

# Of transformers' models, or of the papers where there are none (GPT-3); without heads that only
# training needs.
COUNTS = {
    "gpt": 116_534_784,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "gpt3": 174_604_259_328,
    "smollm2-135m": 134_515_008,
    "llama-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "distilbert": 66_362_880,
    "roberta-base": 124_645_632,
    "albert-base": 11_683_584,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-11b": 11_307_321_344,
    "transformer-base": 63_082_496 + 37_000,
    "transformer-big": 214_245_376 + 37_000,  # ours has a bias for each token
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_counts(name):
    assert parameters(name) == COUNTS[name]


def meta(layout):
    words, c = layout
    with torch.device("meta"):
        if isinstance(c, GPTConfig):
            return GPTLanguageNet(c, words, c.d_model)
        if isinstance(c, TransformerConfig):
            return EncoderDecoder(
                None,
                c.d_model,
                words,
                c.d_model,
                c.n_heads,
                n_layers=c.n_layers,
                n_decoder_layers=c.n_decoder_layers,
                d_head=c.d_head,
                d_mlp=c.d_mlp,
                positions=c.positions,
                buckets=c.buckets,
                norm=c.norm,
                norm_kind=c.norm_kind,
                bias=c.bias,
                tied=c.tied,
            )
        bert = pytest.importorskip("seqloom.nn.bert")
        return bert.BertNet(
            words,
            c.context + c.position_offset,
            c.d_model,
            c.n_layers,
            c.n_heads,
            d_embed=c.d_embed,
            n_types=c.n_types,
            shared_layers=c.shared_layers,
            pooler=c.pooler,
            head=False,
        )


@pytest.mark.parametrize("name", LAYOUTS)
def test_networks_on_the_meta_device(name):
    network = meta(LAYOUTS[name])
    assert {key: tuple(value.shape) for key, value in network.state_dict().items()} == shapes(
        LAYOUTS[name]
    )
    assert all(p.device.type == "meta" for p in network.parameters())
    assert sum(p.numel() for p in network.parameters()) == COUNTS[name]


@pytest.mark.parametrize(
    "name",
    ["gpt2", "bert-base", "distilbert", "albert-base", "roberta-base", "t5-small", "llama-3-8b"],
)
def test_transformers_counts_the_same(name):
    theirs = pytest.importorskip("transformers")
    words, c = LAYOUTS[name]
    wide = {
        "hidden_size": c.d_model,
        "num_hidden_layers": c.n_layers,
        "num_attention_heads": c.n_heads,
    }
    with torch.device("meta"):
        model = {
            "gpt2": lambda: theirs.GPT2LMHeadModel(theirs.GPT2Config()),
            "bert-base": lambda: theirs.BertModel(theirs.BertConfig()),
            "distilbert": lambda: theirs.DistilBertModel(theirs.DistilBertConfig()),
            "albert-base": lambda: theirs.AlbertModel(
                theirs.AlbertConfig(**wide, intermediate_size=3072)
            ),
            "roberta-base": lambda: theirs.RobertaModel(
                theirs.RobertaConfig(
                    vocab_size=words,
                    max_position_embeddings=c.context + c.position_offset,
                    type_vocab_size=1,
                )
            ),
            "t5-small": lambda: theirs.T5Model(theirs.T5Config()),
            "llama-3-8b": lambda: theirs.LlamaForCausalLM(
                theirs.LlamaConfig(
                    **wide,
                    vocab_size=words,
                    num_key_value_heads=c.n_kv_heads,
                    intermediate_size=c.d_mlp,
                )
            ),
        }[name]()
    assert parameters(name) == model.num_parameters()


def test_every_kind_is_there_and_others_are_refused():
    assert COUNTS.keys() == LAYOUTS.keys()
    assert {type(layout.config) for layout in LAYOUTS.values()} == {
        GPTConfig,
        TransformerConfig,
        BertConfig,
    }
    with pytest.raises(ConfigError, match="no published model is known as 'gpt4'"):
        parameters("gpt4")
