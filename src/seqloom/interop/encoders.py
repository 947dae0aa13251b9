"""The families bert, roberta, xlm-roberta, distilbert, albert and electra as `bert` and
`sentence-encoder`, and back.

The head for masked tokens is read if the file has one; heads of other tasks (`interop/heads`) are left
out, by name.

A directory of sentence-transformers (https://www.sbert.net) also says how a text gets its vector.
modules.json lists the steps: the encoder, pooling, and possibly a division by the length.
1_Pooling/config.json has the kind of pooling, sentence_bert_config.json the number of tokens that are read.
Any other directory gets mean pooling and unit length, as most such models have. Anything unknown, such as a
further layer, is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seqloom import directories, progress
from seqloom.config import MOST_WIDTH
from seqloom.errors import ConfigError, DataError, quoted
from seqloom.interop.hugging_face import CONFIG, ModelDirectory, read_json, write_directory
from seqloom.interop.hugging_face_tokenizers import (
    Around,
    read_tokenizer,
    special_tokens,
    tokenizer_files,
)
from seqloom.interop.layouts import ENCODERS
from seqloom.interop.tensors import Layout, Parts
from seqloom.interop.tokenizer_files import read_values
from seqloom.interop.values import Keys, shortened, written
from seqloom.models.masked.bert import Bert
from seqloom.models.masked.configs import EncoderLayout, SentenceEncoderConfig
from seqloom.models.masked.inputs import Marks
from seqloom.models.masked.sentence_encoder import SentenceEncoder
from seqloom.text.tokenizer import Tokenizer

ACTIVATIONS = {  # theirs: ours; of two the first is written
    "gelu": "gelu-erf",
    "gelu_python": "gelu-erf",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "relu": "relu",
}
KEYS: Keys = {
    "context": ("max_position_embeddings", 1, 1_000_000),
    "d_model": ("hidden_size", 1, MOST_WIDTH),
    "n_layers": ("num_hidden_layers", 1, 1000),
    "n_heads": ("num_attention_heads", 1, 10_000),
    "d_mlp": ("intermediate_size", 1, MOST_WIDTH),
    "dropout": ("hidden_dropout_prob", 0.0, 0.95, 0.1),
    "n_types": ("type_vocab_size", 0, 1000, 2),
    "norm_epsilon": ("layer_norm_eps", 1e-15, 1.0, 1e-12),
}
NARROW_KEYS: Keys = {**KEYS, "d_embed": ("embedding_size", 1, MOST_WIDTH)}
DISTILBERT_KEYS: Keys = {
    "context": ("max_position_embeddings", 1, 1_000_000),
    "d_model": ("dim", 1, MOST_WIDTH),
    "n_layers": ("n_layers", 1, 1000),
    "n_heads": ("n_heads", 1, 10_000),
    "d_mlp": ("hidden_dim", 1, MOST_WIDTH),
    "dropout": ("dropout", 0.0, 0.95, 0.1),
}


@dataclass(frozen=True)
class Family:
    model: str  # class names there begin with it
    keys: Keys
    activation: str = "hidden_act"
    head_activation: str | None = None  # ours, where it is the same for all models


FAMILIES = {
    "bert": Family("Bert", KEYS),
    "roberta": Family("Roberta", KEYS, head_activation="gelu-erf"),
    "xlm-roberta": Family("XLMRoberta", KEYS, head_activation="gelu-erf"),
    "distilbert": Family("DistilBert", DISTILBERT_KEYS, "activation"),
    "albert": Family("Albert", NARROW_KEYS),
    "electra": Family("Electra", NARROW_KEYS, head_activation="gelu-erf"),
}
ROBERTAS = (
    "roberta",
    "xlm-roberta",
)  # with positions after that of the padding, two marks in pairs
# What the names of a body begin with that was saved alone.
_BODY = ("embeddings.", "embeddings_project.", "encoder.", "transformer.", "pooler.")
MODULES, POOLING, READING = "modules.json", "1_Pooling", "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
_POOLINGS = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
}


# ---- reading


def read_encoder(directory: ModelDirectory, task: str | None) -> Parts:
    """Return the parts of a masked language model, or of one for sentence vectors if that is the task."""
    name = directory.text("model_type")
    layout, tied = ENCODERS[name], directory.flag("tie_word_embeddings", True)
    directory = renamed(directory, layout, tied)
    shapes = directory.shapes
    options = {
        **encoder_options(directory, name),
        "pooler": layout.weight("pooler", shapes) in shapes,
    }
    tokenizer = read_tokenizer(directory, directory.rows(layout.weight("embedding", shapes)))
    guesses = layout.weight("head.dense", shapes) in shapes
    cls: Any = SentenceEncoder if _for_sentences(directory, task) else Bert
    if cls is SentenceEncoder:
        options |= _read_pooling(directory.path, options["context"], tokenizer)
    elif guesses:
        usual = FAMILIES[name].head_activation
        options |= {
            "head_activation": None if usual == options["activation"] else usual,
            "tied": tied,
        }
    else:
        options["head"] = False
    outside = outside_of(directory, layout, layout.head.values() if guesses else ())
    return Parts(
        directory,
        cls,
        options,
        {"text": tokenizer},
        read_marks(directory, tokenizer, name),
        layout,
        directory.record("transformers", family=name),
        left_out=outside,
    )


def _for_sentences(directory: ModelDirectory, task: str | None) -> bool:
    if task is None:
        return (directory.path / MODULES).is_file()
    return task in (SentenceEncoder.name, SentenceEncoder.task.replace(" ", "-"))


def outside_of(directory: ModelDirectory, layout: Layout, read: Iterable[Any]) -> list[str]:
    """Return the tensors outside of the encoder; say which of them are not of the layers that are
    `read`.
    """
    body = layout.prefix_of(directory.shapes) or _BODY
    outside = [tensor for tensor in directory.shapes if not tensor.startswith(body)]
    of_head = {f"{layer}.{kind}" for layer in read for kind in ("weight", "bias")}
    if others := [tensor for tensor in outside if tensor not in of_head]:
        progress.say(
            f"{directory.name}: left out, as they are for other tasks: {shortened(others, 6)}"
        )
    return outside


def renamed(directory: ModelDirectory, layout: Layout, tied: bool) -> ModelDirectory:
    """Return the directory with its tensors by the names that newer versions give them."""
    renamed = {
        name.replace(".gamma", ".weight").replace(".beta", ".bias"): tensor
        for name, tensor in directory.tensors.items()
    }
    bias, second = f"{layout.head['head']}.bias", f"{layout.head['head.output']}.bias"
    if second in renamed:  # the same array twice, or only this one, or that of an untied output
        second_bias = renamed.pop(second)
        renamed[bias] = renamed.get(bias, second_bias) if tied else second_bias
    return replace(directory, tensors=renamed)


def encoder_options(directory: ModelDirectory, name: str) -> dict[str, Any]:
    """Return the values of an encoder as options of an `EncoderLayout`."""
    if directory.flag("is_decoder", False) or directory.flag("add_cross_attention", False):
        directory.fail("it is a decoder, or attends to another text, which is not supported")
    positions = directory.text("position_embedding_type", "absolute")
    if positions != "absolute":
        directory.fail(
            f"its positions are of the kind {quoted(positions)}; absolute ones can be read"
        )
    for key in ("num_hidden_groups", "inner_group_num"):
        if directory.values.get(key, 1) != 1:
            directory.fail(
                f"{key} is {quoted(directory.values[key])}; 1 is supported, that is one block for "
                "all layers"
            )
    family = FAMILIES[name]
    options = {"n_types": 0, **directory.options(family.keys)}
    offset = directory.integer("pad_token_id", 0, 999, 1) + 1 if name in ROBERTAS else 0
    options["context"] -= offset
    if options["context"] < 4:
        directory.fail(
            f"it reads {options['context']} tokens at most, which is not enough for a text and "
            "its marks"
        )
    if name == "electra" and options["d_embed"] == options["d_model"]:
        options["d_embed"] = None
    usual = "gelu_new" if name == "albert" else "gelu"
    return {
        **options,
        "position_offset": offset,
        "shared_layers": name == "albert",
        "activation": directory.choice(family.activation, ACTIVATIONS, usual),
    }


def read_marks(directory: ModelDirectory, tokenizer: Tokenizer, name: str) -> dict[str, int]:
    """Return the tokens around texts as `models.masked.inputs.MARKS` has them."""
    ids = {role: tokenizer.id(token) for role, token in special_tokens(directory).items()}
    marks = {role: i for role in ("cls", "sep", "pad", "mask") if (i := ids.get(role)) is not None}
    for role in ("cls", "sep"):
        if role not in marks:
            directory.fail(f"its tokenizer has no {role} token, which stands around every text")
    marks.setdefault("pad", marks["sep"])  # padding is never read
    return {**marks, "separators": 2 if name in ROBERTAS else 1}


# ---- how a text gets its vector


def _read_pooling(path: Path, context: int, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return how texts get their vectors, as options of a `sentence-encoder`."""
    if not (path / MODULES).is_file():
        return {}
    options, reading = _read_steps(path / MODULES), read_values(path / READING)
    lower = tokenizer.encode("A").tolist() == tokenizer.encode("a").tolist()
    if reading.values.get("do_lower_case") and not lower:
        reading.fail(
            "its texts are put into lower case, which its tokenizer does not do; this cannot be "
            "converted"
        )
    if reading.values.get("max_seq_length") is not None:
        options["longest"] = min(reading.integer("max_seq_length", 4, 1_000_000), context)
    if (prompt := read_values(path / PROMPTS).values.get("default_prompt_name")) is not None:
        progress.say(
            f"{path}: the prompt {quoted(prompt)} is not put before texts by itself; write it "
            "before yours"
        )
    return options


def _read_steps(path: Path) -> dict[str, Any]:
    try:
        modules = json.loads(directories.read_small_file(path))
        names = [str(module["type"]).rpartition(".")[2] for module in modules]
        homes = [str(module["path"]) for module in modules]
    except (OSError, ValueError, RecursionError, LookupError, TypeError) as error:
        raise DataError(
            f"{path}: damaged ({error}); it must be a list of steps, each with a type and a path"
        ) from None
    if names[:2] != ["Transformer", "Pooling"] or names[2:] not in ([], ["Normalize"]):
        raise DataError(
            f"{path}: the steps {', '.join(names) or 'are none'}; Transformer, Pooling and "
            "Normalize can be converted, in this order"
        )
    if homes[0]:
        raise DataError(
            f"{path}: its encoder is in {quoted(homes[0])}; convert that directory with --task "
            "sentence-vectors"
        )
    if Path(homes[1]).name != homes[1]:
        raise DataError(f"{path}: the path {quoted(homes[1])} is not one of this directory")
    return {"pooling": _pooling(path.parent / homes[1] / CONFIG), "unit_length": len(names) == 3}


def _pooling(path: Path) -> str:
    values = read_json(path)
    poolings = {
        **{key: name for name, key in _POOLINGS.items()},
        **{name: name for name in _POOLINGS},
    }
    named_poolings = [
        key for key, value in values.items() if key.startswith("pooling_mode_") and value is True
    ]
    if isinstance(named := values.get("pooling_mode"), str):  # as newer versions write it
        named_poolings = [named]
    if len(named_poolings) != 1 or named_poolings[0] not in poolings:
        raise DataError(
            f"{path}: pooling by {', '.join(map(quoted, named_poolings)) or 'nothing'}; one of "
            f"{', '.join(_POOLINGS)} can be converted"
        )
    return poolings[named_poolings[0]]


# ---- writing


def write_encoder(model: Bert | SentenceEncoder, target: str | Path) -> None:
    """Write a directory that transformers opens, and sentence-transformers if it is for sentence vectors."""
    c, marks, weights = model.config, model.marks, dict(model.weights)
    name, head = family_of(c, model.tokenizer), getattr(c, "head", False)
    layout = ENCODERS[name]
    values = {
        **encoder_values(c, name, marks, model.tokenizer, "ForMaskedLM" if head else "Model"),
        "tie_word_embeddings": not head or c.tied,
    }
    tensors = layout.write(weights, layout.prefix if head else "")
    if "head.output.weight" in weights:
        tensors[f"{layout.head['head.output']}.bias"] = weights["head.bias"]
    files = marked_tokenizer(model.tokenizer, marks, c)
    if isinstance(model, SentenceEncoder):
        files |= _pooling_files(c)
    write_directory(target, values, tensors, files)


def encoder_values(
    config: EncoderLayout, name: str, marks: Marks, tokenizer: Tokenizer, kind: str
) -> dict[str, Any]:
    """Return the values of an encoder of a family; `kind`: the end of the name of its class there."""
    c, family = config, FAMILIES[name]
    options = {
        **c.to_dict(),
        "context": c.context + c.position_offset,
        "d_mlp": c.d_mlp or 4 * c.d_model,
        "d_embed": c.d_embed or c.d_model,
    }
    return {
        "model_type": name,
        "architectures": [f"{family.model}{kind}"],
        "vocab_size": tokenizer.vocab_size,
        **written(options, family.keys),
        family.activation: {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}[
            c.activation
        ],
        "attention_dropout" if name == "distilbert" else "attention_probs_dropout_prob": c.dropout,
        # where positions begin
        "pad_token_id": c.position_offset - 1 if name in ROBERTAS else marks.pad,
        "bos_token_id": marks.cls,
        "eos_token_id": marks.sep,
        "dtype": "float32",
    }


def family_of(config: EncoderLayout, tokenizer: Tokenizer) -> str:
    """Return the family that has this layout; what none of them has is refused. XLM-RoBERTa is a
    RoBERTa with pieces of SentencePiece.
    """
    c = config
    head = getattr(c, "head", False)
    head_activation = getattr(c, "head_activation", None) if head else None
    if c.shared_layers:
        name = "albert"
    elif c.position_offset:
        name = "xlm-roberta" if tokenizer.kind == "unigram" else "roberta"
    elif c.d_embed or head_activation:
        name = "electra"
    else:
        name = "bert" if c.n_types else "distilbert"
    family, own = FAMILIES[name], FAMILIES[name].head_activation
    fits = {
        "types": bool(c.n_types) == ("n_types" in family.keys),
        "d_embed": bool(c.d_embed) == (name == "albert") or name == "electra",
        "position_offset": not c.position_offset or name in ROBERTAS,
        "pooler": not c.pooler or "pooler" in ENCODERS[name].body,
        "norm_epsilon": "norm_epsilon" in family.keys or c.norm_epsilon == 1e-12,
        "head_activation": not head or (head_activation or c.activation) == (own or c.activation),
    }
    if wrong := [option for option, fit in fits.items() if not fit]:
        raise ConfigError(
            f"transformers has no encoder with this layout: {wrong[0]} does not suit {name}, "
            "the nearest family"
        )
    return name


def marked_tokenizer(tokenizer: Tokenizer, marks: Marks, config: EncoderLayout) -> dict[str, str]:
    """Return the files of a tokenizer that puts the marks around texts and knows their roles."""
    cls, sep, types = marks.cls, marks.sep, config.n_types > 1
    around = Around(
        [cls], [sep], [sep] * (marks.separators - 1), int(types and marks.separators == 1)
    )
    roles = {"cls": cls, "sep": sep, "pad": marks.pad, "bos": cls, "eos": sep, "mask": marks.mask}
    inputs = ["input_ids", *(["token_type_ids"] if types else []), "attention_mask"]
    return tokenizer_files(
        tokenizer, config.context, around=around, roles=roles, further={"model_input_names": inputs}
    )


def _pooling_files(config: SentenceEncoderConfig) -> dict[str, str]:
    """Return the files that say how texts get their vectors, by name."""
    c = config
    steps = {
        "Transformer": "",
        "Pooling": POOLING,
        **({"Normalize": "2_Normalize"} if c.unit_length else {}),
    }
    modules = [
        {"idx": i, "name": str(i), "path": home, "type": f"sentence_transformers.models.{name}"}
        for i, (name, home) in enumerate(steps.items())
    ]
    modes = {key: name == c.pooling for name, key in _POOLINGS.items()}
    files = {
        MODULES: modules,
        f"{POOLING}/{CONFIG}": {"word_embedding_dimension": c.d_model, **modes},
        READING: {"max_seq_length": c.longest or c.context, "do_lower_case": False},
    }
    return {name: json.dumps(values, indent=2) + "\n" for name, values in files.items()}
