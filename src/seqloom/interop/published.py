"""Published Transformers by name: their sizes as options of the models here, and their numbers of parameters.

    >>> parameters("gpt2"), parameters("bert-base")
    (124439808, 109482240)

They are counted by shapes, so nothing is built; tests build the networks on torch's meta device, where no
weight takes memory, and compare both with the published numbers. Shared matrices, such as those of a tied
output layer, count once.
"""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

from seqloom.errors import ConfigError, suggest_known
from seqloom.interop.tensors import expected_shapes
from seqloom.interop.values import Shapes
from seqloom.models.language.configs import GPTConfig
from seqloom.models.masked.configs import BertConfig
from seqloom.models.sequence.configs import Sizes
from seqloom.models.translation.configs import TransformerConfig
from seqloom.registry import model_class


class Layout(NamedTuple):
    vocab_size: int
    config: GPTConfig | BertConfig | TransformerConfig


_gpt = partial(GPTConfig, positions="learned", activation="gelu", softmax="full")
_gpt2 = partial(_gpt, context=1024, norm="pre")
_llama = partial(
    GPTConfig, positions="rope", norm="pre", norm_kind="rms", activation="swiglu", bias=False
)
_bert = partial(BertConfig, head=False, pooler=True)
_paper = partial(
    TransformerConfig,
    shared_vocabulary=True,
    n_layers=6,
    n_decoder_layers=6,
    norm="post",
    activation="relu",
)
_t5 = partial(
    TransformerConfig,
    shared_vocabulary=True,
    positions="t5",
    norm="pre",
    norm_kind="rms",
    norm_epsilon=1e-6,
    bias=False,
    scaled_attention=False,
    scaled_embedding=False,
    scaled_output=True,
)

LAYOUTS: dict[str, Layout] = {
    "transformer-base": Layout(37_000, _paper(d_model=512, n_heads=8)),
    "transformer-big": Layout(37_000, _paper(d_model=1024, n_heads=16)),
    "gpt": Layout(40_478, _gpt(context=512, d_model=768, n_layers=12, n_heads=12, norm="post")),
    "gpt2": Layout(50_257, _gpt2(d_model=768, n_layers=12, n_heads=12)),
    "gpt2-medium": Layout(50_257, _gpt2(d_model=1024, n_layers=24, n_heads=16)),
    "gpt2-large": Layout(50_257, _gpt2(d_model=1280, n_layers=36, n_heads=20)),
    "gpt2-xl": Layout(50_257, _gpt2(d_model=1600, n_layers=48, n_heads=25)),
    "gpt3": Layout(50_257, _gpt2(context=2048, d_model=12_288, n_layers=96, n_heads=96)),
    "smollm2-135m": Layout(
        49_152, _llama(context=8192, d_model=576, n_layers=30, n_heads=9, n_kv_heads=3, d_mlp=1536)
    ),
    "llama-7b": Layout(
        32_000,
        _llama(context=2048, d_model=4096, n_layers=32, n_heads=32, d_mlp=11_008, tied=False),
    ),
    "llama-3-8b": Layout(
        128_256,
        _llama(
            context=8192,
            d_model=4096,
            n_layers=32,
            n_heads=32,
            n_kv_heads=8,
            d_mlp=14_336,
            tied=False,
        ),
    ),
    "bert-base": Layout(30_522, _bert()),
    "bert-large": Layout(30_522, _bert(d_model=1024, n_layers=24, n_heads=16)),
    "distilbert": Layout(30_522, _bert(n_layers=6, n_types=0, pooler=False)),
    "roberta-base": Layout(50_265, _bert(position_offset=2, n_types=1)),
    "albert-base": Layout(30_000, _bert(d_embed=128, shared_layers=True)),
    "t5-small": Layout(
        32_128, _t5(d_model=512, n_layers=6, n_decoder_layers=6, n_heads=8, d_mlp=2048)
    ),
    "t5-base": Layout(
        32_128, _t5(d_model=768, n_layers=12, n_decoder_layers=12, n_heads=12, d_mlp=3072)
    ),
    "t5-large": Layout(
        32_128, _t5(d_model=1024, n_layers=24, n_decoder_layers=24, n_heads=16, d_mlp=4096)
    ),
    "t5-11b": Layout(
        32_128,
        _t5(d_model=1024, n_layers=24, n_decoder_layers=24, n_heads=128, d_head=128, d_mlp=65_536),
    ),
}
_MARKS = {"cls": 0, "sep": 0, "pad": 0, "separators": 1}


def parameters(name: str) -> int:
    """Return how many parameters a published model has."""
    if name not in LAYOUTS:
        raise ConfigError(f"no published model is known as {name!r}{suggest_known(name, LAYOUTS)}")
    return sum(map(math.prod, shapes(LAYOUTS[name]).values()))


def shapes(layout: Layout) -> Shapes:
    """Return the shapes of its weights by name."""
    size, c = layout
    tokenizer: Any = SimpleNamespace(vocab_size=size, eos_id=0)  # all that shapes depend on
    if isinstance(c, GPTConfig):
        model = model_class("gpt").with_parts(c, {"text": tokenizer}, {"width": c.d_model})
    elif isinstance(c, BertConfig):
        model = model_class("bert").with_parts(c, {"text": tokenizer}, _MARKS)
    else:
        learnt = {
            "sizes": Sizes(size, c.d_model).to_dict(),
            "longest_source": 1,
            "longest_target": 1,
        }
        model = model_class("transformer").with_parts(
            c, {"source": tokenizer, "target": tokenizer}, learnt
        )
    return expected_shapes(model)
