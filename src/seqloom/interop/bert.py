"""Encoders of the families bert, roberta, distilbert, albert and electra, from directories of transformers.

Every tensor of the body must be one that is known, of the shape that config.json asks for. What guesses hidden tokens is kept
where it is there; heads of other tasks are left out, by name. `read_encoder` gives the parts, whatever model they are for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.config import MOST_WIDTH
from seqloom.errors import ConfigError, quoted, suggest_known
from seqloom.interop.bert_names import ACTIVATIONS, FAMILIES, Family, Names
from seqloom.interop.hugging_face import ModelDirectory
from seqloom.interop.hugging_face_tokenizers import read_tokenizer, special_tokens
from seqloom.models.encode.bert import Bert
from seqloom.models.encode.configs import EncoderLayout
from seqloom.models.encode.shapes import encoder_shapes, head_shapes
from seqloom.models.network.shapes import Shapes
from seqloom.text.tokenizer import Tokenizer

_BUFFERS = ("position_ids", "token_type_ids")  # of earlier versions; they hold 0, 1, 2, ..., and zeros


class Published(NamedTuple):
    """What a directory holds, for a model of any task on an encoder."""

    family: str
    layout: dict[str, Any]  # options of `EncoderLayout`
    head: dict[str, Any] | None  # options of the layer that guesses hidden tokens; None: it has none
    tokenizer: Tokenizer
    marks: dict[str, int]  # for `learnt` (`models.encode.inputs.MARKS`)
    weights: dict[str, np.ndarray]  # by our names
    info: dict[str, Any]  # for `fit_info`

    def body(self) -> dict[str, np.ndarray]:
        """The weights without those of the head."""
        return {name: array for name, array in self.weights.items() if not name.startswith("head.")}


def read_model(directory: ModelDirectory, task: str | None) -> Any:
    """The model for a task, by its name (blanks may be hyphens) or the name of the model. Unless asked otherwise, it is a
    masked language model, or one of sentence vectors where the directory says how to make them."""
    from seqloom.interop.sentence_transformers import is_sentence_encoder

    wanted = task or ("sentence-encoder" if is_sentence_encoder(directory.path) else "bert")
    makers = {name.replace(" ", "-"): maker for name, maker in MAKERS.items()}
    if (name := wanted.replace(" ", "-")) not in makers:
        raise ConfigError(f"an encoder cannot be converted for the task {quoted(wanted)}{suggest_known(name, makers)}")
    return makers[name](directory)


def read_bert(directory: ModelDirectory) -> Bert:
    found = read_encoder(directory)
    model = Bert(**found.layout, **({"head": False} if found.head is None else found.head))
    model.tokenizer, model.learnt, model.fit_info = found.tokenizer, dict(found.marks), found.info
    model.net.restore(found.weights)
    model.fitted = True
    return model


def _read_sentence_encoder(directory: ModelDirectory) -> Any:
    from seqloom.interop.sentence_transformers import read_sentence_encoder  # which needs this file

    return read_sentence_encoder(directory)


MAKERS: dict[str, Callable[[ModelDirectory], Any]] = {
    "bert": read_bert, "masked language model": read_bert,
    "sentence-encoder": _read_sentence_encoder, "sentence vectors": _read_sentence_encoder}


def read_encoder(directory: ModelDirectory) -> Published:
    """The options, the tokenizer and the weights of an encoder."""
    name = directory.text("model_type")
    family = FAMILIES[name]
    tensors = _Tensors(directory, family)
    layout, vocab_size = _layout(directory, name, family, tensors), directory.whole("vocab_size", 2, 10**8)
    head = _head(directory, family) if tensors.has_head() else None
    try:
        config = EncoderLayout(**layout)
    except ConfigError as error:
        directory.fail(str(error))
    shapes = {**encoder_shapes(config, vocab_size), **(head_shapes(config, vocab_size, tied=head["tied"]) if head else {})}
    weights = tensors.read(shapes, config, name)
    tokenizer = read_tokenizer(directory, vocab_size)
    info = {"data": directory.path.name, "data_hash": _digest(weights), "source": "transformers", "family": name}
    return Published(name, layout, head, tokenizer, _marks(directory, tokenizer, name), weights, info)


def _layout(directory: ModelDirectory, name: str, family: Family, tensors: _Tensors) -> dict[str, Any]:
    def whole(option: str, most: int) -> int:
        return directory.whole(family.keys[option], 1, most)

    if directory.flag("is_decoder", False) or directory.flag("add_cross_attention", False):
        directory.fail("it is a decoder, or attends to another text, which is not supported")
    positions = directory.text("position_embedding_type", "absolute")
    if positions != "absolute":
        directory.fail(f"its positions are of the kind {quoted(positions)}; absolute ones can be read")
    for key in ("num_hidden_groups", "inner_group_num"):
        if directory.values.get(key, 1) != 1:
            directory.fail(f"{key} is {quoted(directory.values[key])}; 1 is supported, that is one block for all layers")
    offset = directory.whole("pad_token_id", 0, 999, 1) + 1 if name == "roberta" else 0
    context = whole("context", 1_000_000) - offset
    if context < 4:
        directory.fail(f"it reads {context} tokens at most, which is not enough for a text and its marks")
    d_model = whole("d_model", MOST_WIDTH)
    d_embed = whole("d_embed", MOST_WIDTH) if "d_embed" in family.keys else None
    if name == "electra" and d_embed == d_model:
        d_embed = None
    return {"context": context, "d_model": d_model, "n_layers": whole("n_layers", 1000), "n_heads": whole("n_heads", 10_000),
            "d_mlp": whole("d_mlp", MOST_WIDTH), "d_embed": d_embed, "position_offset": offset,
            "n_types": directory.whole("type_vocab_size", 0, 1000, 2) if family.types else 0,
            "shared_layers": name == "albert", "pooler": tensors.has_pooler(),
            "activation": _activation(directory, family.activation, "gelu_new" if name == "albert" else "gelu"),
            "norm_epsilon": directory.real(family.epsilon, 1e-15, 1.0, 1e-12) if family.epsilon else 1e-12,
            "dropout": directory.real(family.keys["dropout"], 0.0, 0.95, 0.1)}


def _head(directory: ModelDirectory, family: Family) -> dict[str, Any]:
    own = ACTIVATIONS[family.head_activation] if family.head_activation else None
    shared = own is None or own == _activation(directory, family.activation, "gelu")
    return {"head_activation": None if shared else own, "tied": directory.flag("tie_word_embeddings", True)}


def _activation(directory: ModelDirectory, key: str, default: str) -> str:
    name = directory.text(key, default)
    if name not in ACTIVATIONS:
        directory.fail(f"{key} is {quoted(name)}{suggest_known(name, ACTIVATIONS)}")
    return ACTIVATIONS[name]


def _marks(directory: ModelDirectory, tokenizer: Tokenizer, name: str) -> dict[str, int]:
    roles = special_tokens(directory)
    known: tuple[str, ...] = ("cls", "sep", "pad", "mask")
    ids = {role: tokenizer.id(roles[role]) for role in known if role in roles}
    for role in ("cls", "sep"):
        if ids.get(role) is None:
            directory.fail(f"its tokenizer has no {role} token, which stands around every text")
    found = {role: token for role, token in ids.items() if token is not None}
    found.setdefault("pad", found["sep"])  # what is padded is never looked at
    return {**found, "separators": 2 if name == "roberta" else 1}


def _digest(weights: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(np.ascontiguousarray(weights[name]).data)
    return digest.hexdigest()[:16]


class _Tensors:
    """Those of a directory by the names that the newest version would give them, body and heads apart."""

    def __init__(self, directory: ModelDirectory, family: Family) -> None:
        self.directory, self.family = directory, family
        stored = {_renamed(name): name for name in directory.shapes if not name.endswith(_BUFFERS)}
        inside = any(name.startswith(family.body) for name in stored)
        known = ("embeddings.", "embeddings_project.", "encoder.", "transformer.", "pooler.")
        begins = (family.body,) if inside else known
        self.body = {name.removeprefix(family.body): place for name, place in stored.items() if name.startswith(begins)}
        self.heads = {name: place for name, place in stored.items() if not name.startswith(begins)}

    def has_head(self) -> bool:
        return f"{self.family.head['head.dense'][0]}.weight" in self.heads

    def has_pooler(self) -> bool:
        return self.family.pooler is not None and f"{self.family.pooler}.weight" in self.body

    def read(self, shapes: Shapes, config: EncoderLayout, name: str) -> dict[str, np.ndarray]:
        """The weights by our names, each of its shape."""
        family, directory = self.family, self.directory
        places = their_places(family, shapes, 1 if config.shared_layers else config.n_layers)
        bias = f"{family.output}.bias"
        if family.second_bias and bias in self.heads:  # the same array twice, or only there, or an output layer has its own
            own = f"{family.head['head'][0]}.bias"
            second = self.heads.pop(bias)
            self.heads[own] = second if "head.output.weight" in shapes else self.heads.get(own, second)
        every = self.body | self.heads
        wanted = {theirs: (shape[0] // len(names), *shape[1:]) for ours, shape in shapes.items()
                  for names in (places[ours],) for theirs in names}
        left_out = [theirs for theirs in self.heads if theirs not in wanted and theirs != f"{family.output}.weight"]
        found = {theirs: directory.shapes[place] for theirs, place in every.items()
                 if theirs in wanted or theirs in self.body}
        directory.check_tensors(found, wanted, name)
        if left_out:
            progress.say(f"{directory.name}: left out, as they are for other tasks: {', '.join(left_out[:6])}"
                         f"{f' and {len(left_out) - 6:,} more' if len(left_out) > 6 else ''}")
        made = {}
        with progress.task("reading weights", len(shapes), "tensors") as bar:
            for ours, names in places.items():
                parts = [directory.array(every[theirs]) for theirs in names]
                made[ours] = parts[0] if len(parts) == 1 else np.concatenate(parts)
                bar.advance(1)
        return made


def their_places(family: Family, shapes: Shapes, n_blocks: int) -> Names:
    """For each of our names those in the directory, without what stands before those of the body."""
    names = {**family.names(n_blocks), **family.head, "head.output": (family.output,)}
    made = {}
    for ours in shapes:
        part, _, kind = ours.rpartition(".")
        made[ours] = tuple(f"{theirs}.{kind}" for theirs in names[part])
    return made


def _renamed(name: str) -> str:
    """Norms of weights that came from TensorFlow have gamma and beta."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
