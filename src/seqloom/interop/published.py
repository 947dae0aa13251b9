"""Published Transformers by name: their layouts as options of the models here, and how many parameters that makes.

    >>> parameters("gpt2"), parameters("bert-base")
    (124439808, 109482240)

They are counted by shapes, so nothing is built; tests build the networks on torch's meta device, where no weight takes
memory, and hold both to the published numbers. Matrices that are shared, such as an output layer's that is the embedding's,
count once.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

from seqloom.errors import ConfigError, suggest_known
from seqloom.models.language.neural_configs import GPTConfig
from seqloom.models.language.shapes import gpt_shapes
from seqloom.models.network.shapes import Shapes, affine, layer_norm, transformer_block, within
from seqloom.models.network.sizes import Size
from seqloom.models.sequence.sizes import Sizes
from seqloom.models.translate.configs import TransformerConfig
from seqloom.models.translate.shapes import transformer_shapes


class Encoder(NamedTuple):
    """BERT (Devlin et al. 2019) and its kin, without what guesses hidden tokens."""

    d_model: int
    n_layers: int
    n_heads: int
    context: int = 512
    n_types: int = 2
    pooler: bool = True
    d_embed: int | None = None  # of token vectors that are then widened
    shared_layers: bool = False


class Layout(NamedTuple):
    vocab_size: int
    config: GPTConfig | TransformerConfig | Encoder


_gpt = partial(GPTConfig, positions="learned", activation="gelu", softmax="full")
_gpt2 = partial(_gpt, context=1024, norm="pre")
_llama = partial(GPTConfig, positions="rope", norm="pre", norm_kind="rms", activation="swiglu", bias=False)
_paper = partial(TransformerConfig, shared_vocabulary=True, n_layers=6, n_decoder_layers=6, norm="post", activation="relu")
_t5 = partial(TransformerConfig, shared_vocabulary=True, positions="t5", norm="pre", norm_kind="rms", norm_epsilon=1e-6,
              bias=False, scaled_attention=False, scaled_embedding=False, scaled_output=True)

LAYOUTS: dict[str, Layout] = {
    "transformer-base": Layout(37_000, _paper(d_model=512, n_heads=8)),
    "transformer-big": Layout(37_000, _paper(d_model=1024, n_heads=16)),
    "gpt": Layout(40_478, _gpt(context=512, d_model=768, n_layers=12, n_heads=12, norm="post")),
    "gpt2": Layout(50_257, _gpt2(d_model=768, n_layers=12, n_heads=12)),
    "gpt2-medium": Layout(50_257, _gpt2(d_model=1024, n_layers=24, n_heads=16)),
    "gpt2-large": Layout(50_257, _gpt2(d_model=1280, n_layers=36, n_heads=20)),
    "gpt2-xl": Layout(50_257, _gpt2(d_model=1600, n_layers=48, n_heads=25)),
    "gpt3": Layout(50_257, _gpt2(context=2048, d_model=12_288, n_layers=96, n_heads=96)),
    "smollm2-135m": Layout(49_152, _llama(context=8192, d_model=576, n_layers=30, n_heads=9, n_kv_heads=3, d_mlp=1536)),
    "llama-7b": Layout(32_000, _llama(context=2048, d_model=4096, n_layers=32, n_heads=32, d_mlp=11_008, tied=False)),
    "llama-3-8b": Layout(128_256, _llama(context=8192, d_model=4096, n_layers=32, n_heads=32, n_kv_heads=8, d_mlp=14_336,
                                         tied=False)),
    "bert-base": Layout(30_522, Encoder(768, 12, 12)),
    "bert-large": Layout(30_522, Encoder(1024, 24, 16)),
    "distilbert": Layout(30_522, Encoder(768, 6, 12, n_types=0, pooler=False)),
    "roberta-base": Layout(50_265, Encoder(768, 12, 12, context=514, n_types=1)),
    "albert-base": Layout(30_000, Encoder(768, 12, 12, d_embed=128, shared_layers=True)),
    "t5-small": Layout(32_128, _t5(d_model=512, n_layers=6, n_decoder_layers=6, n_heads=8, d_mlp=2048)),
    "t5-base": Layout(32_128, _t5(d_model=768, n_layers=12, n_decoder_layers=12, n_heads=12, d_mlp=3072)),
    "t5-large": Layout(32_128, _t5(d_model=1024, n_layers=24, n_decoder_layers=24, n_heads=16, d_mlp=4096)),
    "t5-11b": Layout(32_128, _t5(d_model=1024, n_layers=24, n_decoder_layers=24, n_heads=128, d_head=128, d_mlp=65_536)),
}


def parameters(name: str) -> int:
    """How many a published model has."""
    if name not in LAYOUTS:
        raise ConfigError(f"no published model is known as {name!r}{suggest_known(name, LAYOUTS)}")
    return sum(map(math.prod, shapes(LAYOUTS[name]).values()))


def shapes(layout: Layout) -> Shapes:
    """Of its weights by name."""
    words, c = layout
    if isinstance(c, Encoder):
        return _encoder_shapes(words, c)
    assert c.d_model is not None, "a layout says how wide it is"
    if isinstance(c, GPTConfig):
        return gpt_shapes(c, words, Size(c.d_model))
    return transformer_shapes(c, Sizes(vocab_size=words, d_embed=c.d_model), words)


def _encoder_shapes(vocab_size: int, c: Encoder) -> Shapes:
    narrow, d = c.d_embed or c.d_model, c.d_model
    made: Shapes = {"embedding.weight": (vocab_size, narrow), "position.weight": (c.context, narrow),
                    **({"types.weight": (c.n_types, narrow)} if c.n_types else {}), **within("norm", layer_norm(narrow))}
    if c.d_embed:
        made |= within("projection", affine(d, c.d_embed))
    for i in range(1 if c.shared_layers else c.n_layers):
        made |= within(f"blocks.{i}", transformer_block(d, 4 * d))
    return made | (within("pooler", affine(d, d)) if c.pooler else {})
