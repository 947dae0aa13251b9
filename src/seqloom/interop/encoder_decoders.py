"""Encoder-decoders of transformers as `transformer`, and back: what T5, BART and Marian have in common.

A family says which options make our network its own and where its tensors lie (`Layout`). An array of ours is one tensor there,
or several of one shape, one below the other: queries, keys and values; gates and units. So shapes are those of our network,
and reading and writing are one table. What a family's tensors have twice (tied vectors) or could compute (sinusoids) is left
out by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, quoted
from seqloom.interop.hugging_face import CONFIG, ModelDirectory, read_json, write_directory
from seqloom.interop.hugging_face_tokenizer_writer import tokenizer_files
from seqloom.interop.hugging_face_tokenizers import read_tokenizer
from seqloom.interop.tokenizer_files import SETTINGS, TARGET_TOKENIZER, TOKENIZER
from seqloom.models.network.shapes import Shapes
from seqloom.models.sequence.sizes import Sizes
from seqloom.models.translate.shapes import transformer_shapes
from seqloom.models.translate.transformer import Transformer
from seqloom.text.subword_lists import ids_of
from seqloom.text.tokenizer import Tokenizer

GENERATION = "generation_config.json"
MOST_ROWS = 10_000_000
DROPPED = ("encoder.version", "decoder.version")  # marks of old files
ACTIVATIONS = {"relu": "relu", "gelu": "gelu-erf", "gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "swish": "swish",
               "silu": "swish"}  # ours by their names; the first name of each is written
ACTIVATION_NAMES = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}


class Place(NamedTuple):
    """Where an array of ours lies."""

    tensors: tuple[str, ...]
    unused: int = 0  # rows of the tensor before those of the array, which nothing reads
    one_row: bool = False  # a vector here, a matrix of one row there

    def shape(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """Of each of the tensors."""
        rows, *rest = ours
        return (1, rows) if self.one_row else (rows // len(self.tensors) + self.unused, *rest)

    def read(self, directory: ModelDirectory) -> np.ndarray:
        parts = [directory.array(name) for name in self.tensors]
        return parts[0][0] if self.one_row else np.concatenate([part[self.unused:] for part in parts])

    def write(self, array: np.ndarray) -> dict[str, np.ndarray]:
        if self.one_row:
            return {self.tensors[0]: array[None]}
        empty = np.zeros((self.unused, *array.shape[1:]), array.dtype)
        parts = np.split(array, len(self.tensors))
        return {name: np.concatenate([empty, part]) for name, part in zip(self.tensors, parts)}


Layout = Mapping[str, Place]


def linear(ours: str, *theirs: str, bias: bool = True) -> dict[str, Place]:
    """The weight and the bias of a layer; several of theirs lie one below the other in ours."""
    return {f"{ours}.{kind}": Place(tuple(f"{name}.{kind}" for name in theirs)) for kind in ("weight", "bias")[:1 + bias]}


# ---- reading


def read_translator(directory: ModelDirectory, family: str, options: dict[str, Any], learnt: dict[str, Any], layout: Layout, *,
                    surplus: Iterable[str] = (), missing: Mapping[str, np.ndarray] = {},
                    arranged: Callable[[str, np.ndarray], np.ndarray] | None = None) -> Transformer:
    """The model with these options and learnt values. `surplus`: tensors that are not looked at; `missing`: arrays of ours that
    stand for tensors that a file need not have; `arranged`: an array of ours made of the one that was read."""
    try:
        model = Transformer(**options)
    except ConfigError as error:
        directory.fail(str(error))
    rows = directory.whole("vocab_size", 2, MOST_ROWS)
    target_rows = rows if options["shared_vocabulary"] else directory.whole("decoder_vocab_size", 2, MOST_ROWS)
    sizes = Sizes(rows, model.config.d_model)
    shapes = transformer_shapes(model.config, sizes, target_rows)
    found = {name: shape for name, shape in directory.shapes.items() if name not in surplus and not name.endswith(DROPPED)}
    present = {ours: place for ours, place in layout.items() if ours not in missing or found.keys() & set(place.tensors)}
    wanted: Shapes = {name: place.shape(shapes[ours]) for ours, place in present.items() for name in place.tensors}
    directory.check_tensors(found, wanted, family)
    model.tokenizers = read_tokenizers(directory, rows, target_rows)
    model.learnt = {**learnt, "sizes": sizes.to_dict()}
    arrays: dict[str, np.ndarray] = dict(missing)
    with progress.task("reading weights", len(present), "arrays") as bar:
        for ours, place in present.items():
            array = place.read(directory)
            arrays[ours] = np.ascontiguousarray(array if arranged is None else arranged(ours, array), np.float32)
            bar.advance(1)
    model.net.restore(arrays)
    model.fitted = True
    model.fit_info = {"data": directory.path.resolve().name, "data_hash": directory.digest(), "source": "source",
                      "target": "target"}
    return model


def read_tokenizers(directory: ModelDirectory, rows: int, target_rows: int) -> dict[str, Tokenizer]:
    """Those of both sides, whose embeddings have so many rows."""
    source, target = read_tokenizer(directory, rows, "source"), read_tokenizer(directory, target_rows, "target")
    end = directory.whole("eos_token_id", 0, target_rows - 1)
    if {source.eos_id, target.eos_id} != {end}:
        directory.fail(f"the end token of {CONFIG} is {end}, that of its tokenizer {target.eos_id}; they do not belong "
                       "together")
    return {"source": source, "target": source if target == source else target}


def read_learnt(directory: ModelDirectory, longest: int, *, start: int | None = None,
                source_start: int | None = None) -> dict[str, Any]:
    """How texts were given to the model in training, as `transformer` keeps it; `start` where the files name none."""
    values = dict(directory.values)
    if (directory.path / GENERATION).is_file():
        values |= {key: value for key, value in read_json(directory.path / GENERATION).items() if value is not None}
    here = type(directory)(directory.name, values, directory.path, {}, {})
    most = directory.whole("decoder_vocab_size" if values.get("decoder_vocab_size") else "vocab_size", 2, MOST_ROWS) - 1
    first = [here.whole("decoder_start_token_id", 0, most, start)]
    if values.get("forced_bos_token_id") is not None:
        first.append(here.whole("forced_bos_token_id", 0, most))
    never = values.get("bad_words_ids") or []
    if not isinstance(never, list) or not all(isinstance(ids, list) and all(type(i) is int and 0 <= i <= most for i in ids)
                                              for ids in never):
        here.lacks("bad_words_ids", never, "a list of lists of tokens")
    if any(len(ids) != 1 for ids in never):
        progress.say(f"{directory.name}: of bad_words_ids only single tokens are kept out of translations")
    alone = sorted({ids[0] for ids in never if len(ids) == 1})
    return {"longest_source": longest, "longest_target": longest, "start": first,
            **({} if source_start is None else {"source_start": source_start}), **({"never": alone} if alone else {})}


def activation(directory: ModelDirectory, key: str, default: str) -> str:
    name = directory.text(key, default)
    if name not in ACTIVATIONS:
        directory.fail(f"{key} is {quoted(name)}; {', '.join(ACTIVATIONS)} can be converted")
    return ACTIVATIONS[name]


# ---- writing


def write_translator(model: Transformer, target: str | Path, values: dict[str, Any], layout: Layout, *,
                     arranged: Callable[[str, np.ndarray], np.ndarray] | None = None) -> None:
    """A directory with these values of config.json; `arranged`: an array of theirs made of ours."""
    arrays: dict[str, np.ndarray] = {}
    for ours, place in layout.items():
        array = np.asarray(model.weights[ours], np.float32)
        arrays |= place.write(array if arranged is None else arranged(ours, array))
    source, wanted = model.tokenizers["source"], model.target_tokenizer
    files = surrounded(tokenizer_files(source, start=model.source_start), model, values["pad_token_id"])
    if source != wanted:
        files[TARGET_TOKENIZER] = tokenizer_files(wanted)[TOKENIZER]
        progress.say(f"sources and targets are cut into tokens in two ways, and transformers reads one {TOKENIZER}: that of "
                     f"sources; {TARGET_TOKENIZER} is that of targets")
    generation = {key: values[key] for key in ("decoder_start_token_id", "forced_bos_token_id", "bad_words_ids", "eos_token_id",
                                               "pad_token_id") if values.get(key) is not None}
    values = {key: value for key, value in values.items() if key not in ("forced_bos_token_id", "bad_words_ids")}
    files[GENERATION] = json.dumps(generation, indent=2) + "\n"
    write_directory(target, {**values, "is_encoder_decoder": True, "dtype": "float32"},
                    {name: np.ascontiguousarray(array) for name, array in arrays.items()}, files)


def common_values(model: Transformer) -> dict[str, Any]:
    """The values that all families call alike."""
    tokenizer, start = model.target_tokenizer, model.start_ids
    pad = next((i for name in ("<pad>", "[PAD]") if (i := tokenizer.id(name)) is not None), start[0])
    return {"vocab_size": model.sizes.vocab_size, "d_model": model.config.d_model, "eos_token_id": tokenizer.eos_id,
            "pad_token_id": pad, "decoder_start_token_id": start[0],
            "forced_bos_token_id": start[1] if len(start) > 1 else None,
            "bad_words_ids": [[i] for i in model.learnt.get("never", ())] or None}


def refuse_other(model: Transformer, wanted: Mapping[str, Any], family: str) -> None:
    """Refuse a model with another value of one of these options."""
    for name, value in wanted.items():
        if (actual := getattr(model.config, name)) != value:
            raise ConfigError(f"this transformer model has {name} {actual}, and {family} of transformers has {value}; it "
                              "cannot be written for it")


def surrounded(files: dict[str, str], model: Transformer, pad: int) -> dict[str, str]:
    """The files of a tokenizer, where each text has around it what sources of the model have."""
    source = model.tokenizers["source"]
    spec, settings = json.loads(files[TOKENIZER]), json.loads(files[SETTINGS])
    names = {i: token for token, i in ids_of(spec).items()}
    marks = [[] if i is None else [i] for i in (model.source_start, source.eos_id)]
    first, last = ([{"SpecialToken": {"id": names[i], "type_id": 0}} for i in some] for some in marks)
    single, second = ([*first, {"Sequence": {"id": name, "type_id": 0}}, *last] for name in "AB")
    spec["post_processor"] = {
        "type": "TemplateProcessing", "single": single, "pair": [*single, *second],
        "special_tokens": {names[i]: {"id": names[i], "ids": [i], "tokens": [names[i]]} for some in marks for i in some}}
    settings["pad_token"] = names[pad]
    return {TOKENIZER: json.dumps(spec, indent=2, ensure_ascii=False) + "\n", SETTINGS: json.dumps(settings, indent=2) + "\n"}
