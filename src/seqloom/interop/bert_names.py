"""What the weights of each family of encoders are called in directories of transformers, beside our names.

Our names are the same for all families. Queries, keys and values are one matrix here and three there.
"""

from __future__ import annotations

from dataclasses import dataclass

Names = dict[str, tuple[str, ...]]  # ours, without .weight and .bias: theirs, whose rows follow one another


@dataclass(frozen=True)
class Family:
    model: str  # class names there begin with it
    body: str  # what the names of all but heads begin with, where there is a head
    keys: dict[str, str]  # our options: their values
    block: dict[str, tuple[str, ...]]  # of block {i}
    head: Names
    output: str  # the output layer, whose weight is that of the embedding if tied
    pooler: str | None = None
    projection: str | None = None
    activation: str = "hidden_act"
    epsilon: str | None = "layer_norm_eps"  # None: 1e-12, always
    head_activation: str | None = None  # theirs, where it is the same for all models
    types: bool = True
    second_bias: bool = False  # the output layer's bias is there under the name of the head, too

    def names(self, n_blocks: int) -> Names:
        """All of the body, without `body` before them."""
        made: Names = {"embedding": ("embeddings.word_embeddings",), "position": ("embeddings.position_embeddings",),
                       "types": ("embeddings.token_type_embeddings",), "norm": ("embeddings.LayerNorm",)}
        if self.projection:
            made["projection"] = (self.projection,)
        if self.pooler:
            made["pooler"] = (self.pooler,)
        for i in range(n_blocks):
            made |= {f"blocks.{i}.{ours}": tuple(name.format(i=i) for name in theirs) for ours, theirs in self.block.items()}
        return made


_KEYS = {"d_model": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads",
         "d_mlp": "intermediate_size", "dropout": "hidden_dropout_prob", "context": "max_position_embeddings"}


def _block(place: str, qkv: tuple[str, str, str], out: str, norm1: str, up: str, down: str, norm2: str) -> Names:
    made = {"attention.qkv": qkv, "attention.out": (out,), "norm1": (norm1,), "mlp.up": (up,), "mlp.down": (down,),
            "norm2": (norm2,)}
    return {ours: tuple(f"{place}.{name}" for name in theirs) for ours, theirs in made.items()}


_BERT = _block("encoder.layer.{i}", ("attention.self.query", "attention.self.key", "attention.self.value"),
               "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm")
_DISTILBERT = _block("transformer.layer.{i}", ("attention.q_lin", "attention.k_lin", "attention.v_lin"), "attention.out_lin",
                     "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm")
_ALBERT = _block("encoder.albert_layer_groups.0.albert_layers.0", ("attention.query", "attention.key", "attention.value"),
                 "attention.dense", "attention.LayerNorm", "ffn", "ffn_output", "full_layer_layer_norm")

FAMILIES = {
    "bert": Family("Bert", "bert.", _KEYS, _BERT, {"head.dense": ("cls.predictions.transform.dense",),
                   "head.norm": ("cls.predictions.transform.LayerNorm",), "head": ("cls.predictions",)},
                   "cls.predictions.decoder", pooler="pooler.dense", second_bias=True),
    "roberta": Family("Roberta", "roberta.", _KEYS, _BERT, {"head.dense": ("lm_head.dense",), "head.norm": (
                      "lm_head.layer_norm",), "head": ("lm_head",)}, "lm_head.decoder", pooler="pooler.dense",
                      head_activation="gelu", second_bias=True),
    "distilbert": Family("DistilBert", "distilbert.", {"d_model": "dim", "n_layers": "n_layers", "n_heads": "n_heads",
                         "d_mlp": "hidden_dim", "dropout": "dropout", "context": "max_position_embeddings"}, _DISTILBERT,
                         {"head.dense": ("vocab_transform",), "head.norm": ("vocab_layer_norm",), "head": ("vocab_projector",)},
                         "vocab_projector", activation="activation", epsilon=None, types=False),
    "albert": Family("Albert", "albert.", {**_KEYS, "d_embed": "embedding_size"}, _ALBERT, {"head.dense": (
                     "predictions.dense",), "head.norm": ("predictions.LayerNorm",), "head": ("predictions",)},
                     "predictions.decoder", pooler="pooler", projection="encoder.embedding_hidden_mapping_in",
                     second_bias=True),
    "electra": Family("Electra", "electra.", {**_KEYS, "d_embed": "embedding_size"}, _BERT, {"head.dense": (
                      "generator_predictions.dense",), "head.norm": ("generator_predictions.LayerNorm",), "head": (
                      "generator_lm_head",)}, "generator_lm_head", projection="embeddings_project", head_activation="gelu"),
}

ACTIVATIONS = {"gelu": "gelu-erf", "gelu_python": "gelu-erf", "gelu_new": "gelu", "gelu_pytorch_tanh": "gelu",
               "gelu_fast": "gelu", "relu": "relu"}  # theirs: ours; of two the first is written
