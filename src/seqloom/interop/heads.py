"""Published encoders with a head for classes, tags, multiple choice or spans of a context as `classifier`,
`tagger` and `answerer`, and back.

config.json names the class of a model (`architectures`), whose end is its kind of head, and the labels
(`id2label`). Where the head is on the first mark of a text, a further layer is before it, of which each
family has its own activation (`layouts.HEADS`). A tag is read from the first subword of a word. Multiple
choice is a score for each pair of a context and a choice.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.arrays import pack_words
from seqloom.data import spans
from seqloom.encoder_table import ENCODER_NAMES
from seqloom.errors import ConfigError, quoted
from seqloom.interop import encoders
from seqloom.interop.hugging_face import ModelDirectory, write_directory
from seqloom.interop.hugging_face_tokenizers import read_tokenizer
from seqloom.interop.layouts import ENCODERS, HEADS, with_head
from seqloom.interop.tensors import Parts
from seqloom.models.answering.neural_answerer import NeuralAnswerer
from seqloom.models.classification.neural_classifier import NeuralClassifier
from seqloom.models.masked.configs import EncoderLayout
from seqloom.models.masked.inputs import Marks
from seqloom.models.sequence.configs import Sizes
from seqloom.models.sequence.model import SequenceModel
from seqloom.models.sequence.published import Published, named
from seqloom.models.tagging.neural_tagger import UNKNOWN, NeuralTagger

CLASSES, CHOICES, TAGS = "ForSequenceClassification", "ForMultipleChoice", "ForTokenClassification"
SPANS = "ForQuestionAnswering"
PAIRS = "pairs"  # the task of a classifier whose examples are pairs of texts
KINDS = {  # the heads that are read for a task, the first one if a directory names no class
    "classifier": (CLASSES, CHOICES),
    PAIRS: (CLASSES, CHOICES),
    "tagger": (TAGS,),
    "answerer": (SPANS,),
}
ONE, SEVERAL = "single_label_classification", "multi_label_classification"
# our own values in config.json; transformers keeps them
READS_PAIRS, NO_ANSWER = "reads_pairs", "no_answer_threshold"
# What was learnt, where a file says it: the tasks of GLUE and its kin that compare two texts.
_COMPARE = {"mnli", "snli", "mrpc", "qqp", "qnli", "rte", "wnli", "paws", "anli", "sick"}
_COMPARED = ("entail", "contradict", "paraphrase", "duplicate")  # in names of their labels


# ---- reading


def read_encoder(directory: ModelDirectory, task: str | None) -> Parts:
    """Return the parts of a model with a head if the directory has such a head and no other task is
    wanted, else those of an encoder.
    """
    kind = _kind(directory, task)
    if kind is None:
        return encoders.read_encoder(directory, task)
    name = directory.text("model_type")
    head, whole = HEADS[kind][name], ENCODERS[name]
    directory = encoders.renamed(directory, whole, True)
    shapes, layout = directory.shapes, with_head(name, kind, named)
    tokenizer = read_tokenizer(directory, directory.rows(whole.weight("embedding", shapes)))
    published = Published(
        _layout(directory, name),
        Marks.of(encoders.read_marks(directory, tokenizer, name), tokenizer.vocab_size),
    )
    tensor = f"{head.lines['output.linear']}.weight"
    if len(shapes.get(tensor, ())) != 2:
        directory.fail(f"it lacks the tensor {quoted(tensor)}")
    options: dict[str, Any] = {"encoder": _encoder_name(directory)}
    learnt: dict[str, Any] = {"published": published.to_dict()}
    width, further = published.layout.d_model, {}
    cls: Any = {TAGS: NeuralTagger, SPANS: NeuralAnswerer}.get(kind, NeuralClassifier)
    if kind == TAGS:
        learnt |= _tags(_labels(directory, shapes[tensor][0]))
        learnt["sizes"] = Sizes(1, width).to_dict()
        options |= {"crf": False, "work_in": "data"}
        further = pack_words([UNKNOWN])  # nothing says which words it has seen
    elif kind == SPANS:
        # None, unless the best span is likelier: as those that learnt from SQuAD 2 are used.
        learnt["threshold"] = directory.real(NO_ANSWER, 0.0, 1.0, 0.5)
        learnt["sizes"] = Sizes(tokenizer.vocab_size, width).to_dict()
    else:
        context = published.layout.context
        options |= {"pooling": "first", "head_layer": head.activation, "max_length": context}
        learnt |= (
            _choices(directory, name) if kind == CHOICES else _classes(directory, tensor, task)
        )
        learnt["sizes"] = Sizes(tokenizer.vocab_size, width).to_dict()
    pooler = whole.weight("pooler", shapes).removesuffix(
        "weight"
    )  # some have one that nothing reads
    return Parts(
        directory,
        cls,
        options,
        {"text": tokenizer},
        learnt,
        layout,
        directory.record("transformers", family=name),
        left_out=[
            *encoders.outside_of(directory, layout, layout.head.values()),
            *(tensor for tensor in shapes if tensor.startswith(pooler)),
        ],
        further=further,
    )


def _kind(directory: ModelDirectory, task: str | None) -> str | None:
    """Return the kind of head that is read, if any: as the class of the model is named and the task
    wants it.
    """
    classes = directory.values.get("architectures") or []
    if not isinstance(classes, list) or not all(isinstance(one, str) for one in classes):
        directory.lacks("architectures", classes, "a list of names")
    found = next((kind for kind in HEADS for one in classes if one.endswith(kind)), None)
    read = [kind for kinds in KINDS.values() for kind in kinds]
    if task is None:
        return found if found in read else None
    if task not in KINDS:
        return None
    if found not in KINDS[task] and classes:
        directory.fail(
            f"it is a {quoted(', '.join(classes))}, which has no head of a {task}; convert it without "
            "--task, or train one on the encoder (fit --encoder)"
        )
    return found or KINDS[task][0]


def _layout(directory: ModelDirectory, name: str) -> EncoderLayout:
    try:
        return EncoderLayout(**encoders.encoder_options(directory, name))
    except ConfigError as error:
        directory.fail(str(error))


def _encoder_name(directory: ModelDirectory) -> str:
    """Return what the encoder is called among the options: the directory's name, never that of an
    encoder that is trained here.
    """
    name = Path(directory.name).absolute().name or directory.text("model_type")
    return f"./{name}" if name in ENCODER_NAMES else name


def _labels(directory: ModelDirectory, rows: int) -> list[str]:
    """Return the labels in the order of the scores."""
    table = directory.values.get("id2label")
    if table is None:
        return [f"LABEL_{i}" for i in range(rows)]
    labels = [table.get(str(i)) for i in range(len(table))] if isinstance(table, dict) else []
    texts = [label for label in labels if isinstance(label, str)]
    if not labels or len(set(texts)) != len(labels):
        directory.lacks("id2label", table, "a different text for each number from 0 on")
    if len(texts) != rows:
        directory.fail(f"id2label has {len(texts):,} labels, its head scores {rows:,}")
    return texts


def _tags(tags: list[str]) -> dict[str, Any]:
    scheme = spans.detect([[tag] for tag in tags])
    return {"tags": tags, "scheme": scheme, "working_tags": tags, "working_scheme": scheme}


def _classes(directory: ModelDirectory, tensor: str, task: str | None) -> dict[str, Any]:
    rows = directory.shapes[tensor][0]
    problem = directory.values.get("problem_type") or ("regression" if rows == 1 else ONE)
    if problem == "regression":
        directory.fail(
            "its head gives a number, not a class (regression), which is not supported; --task bert "
            "converts the encoder alone"
        )
    if problem not in (ONE, SEVERAL):
        directory.fail(f"problem_type is {quoted(problem)}; {ONE} and {SEVERAL} can be converted")
    labels = _labels(directory, rows)
    pairs = task == PAIRS or (task is None and _compares(directory, labels))
    return {
        "classes": labels,
        **({"multi_label": True} if problem == SEVERAL else {}),
        **({"pairs": True} if pairs else {}),
    }


def _compares(directory: ModelDirectory, labels: list[str]) -> bool:
    """Return whether it reads pairs of texts, as far as a file says."""
    if READS_PAIRS in directory.values:
        return directory.flag(READS_PAIRS, False)
    task = str(directory.values.get("finetuning_task")).lower()
    pairs = task in _COMPARE or any(word in label.lower() for label in labels for word in _COMPARED)
    if pairs:
        progress.say(
            f"{directory.name}: by its labels or its task it compares two texts, so it reads pairs; "
            "--task classifier is for single texts"
        )
    return pairs


def _choices(directory: ModelDirectory, name: str) -> dict[str, Any]:
    usual = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}
    for key, value in usual.items() if name == "electra" else ():
        if directory.values.get(key, value) != value:
            directory.fail(f"{key} is {quoted(directory.values[key])}; {value} is supported")
    return {"classes": ["chosen"], "multi_label": True, "pairs": True, "choices": True}


# ---- writing


def write_classifier(model: NeuralClassifier, target: str | Path) -> None:
    """Write a directory for the classifiers of transformers, or for multiple choice.

    Temperature and threshold become part of its weights, so probabilities are those of the model.
    """
    c, published = model.config, _published(model)
    kind = CHOICES if model.learnt.get("choices") else CLASSES
    name = encoders.family_of(published.layout, model.tokenizer)
    if name == "bert" and c.head_layer == HEADS[kind]["electra"].activation:
        name = (
            "electra"  # which differs from BERT in its head alone, if its token vectors are as wide
        )
    needed = HEADS[kind][name].activation
    if (c.pools, c.head_layer, c.long) != ("first", needed, "truncate"):
        raise ConfigError(
            f"a {name} classifier of transformers has pooling first, head_layer {needed} and long truncate, "
            f"this one pooling {c.pools}, head_layer {c.head_layer} and long {c.long}; fit one with these "
            "options"
        )
    weights, temperature = dict(model.weights), model.learnt.get("temperature", 1.0)
    for part in ("weight", "bias"):
        weights[f"output.linear.{part}"] = weights[f"output.linear.{part}"] / temperature
    if (shift := model.learnt.get("shift")) is not None:
        weights["output.linear.bias"] = weights["output.linear.bias"] + np.array(shift)
    values: dict[str, Any] = {}
    if kind == CLASSES:
        values = {
            **_label_values(model.classes),
            "problem_type": SEVERAL if model.multi_label else ONE,
            READS_PAIRS: model.reads_pairs,
        }
    _write(model, target, name, kind, values, weights, min(c.max_length, published.layout.context))


def write_tagger(model: NeuralTagger, target: str | Path) -> None:
    """Write a directory for the token classifiers of transformers."""
    layout = _published(model).layout
    if model.config.crf:
        raise ConfigError(
            "this tagger has a conditional random field, which transformers has not; fit one without it "
            "(--no-crf)"
        )
    name, values = encoders.family_of(layout, model.tokenizer), _label_values(model.tags)
    _write(model, target, name, TAGS, values, dict(model.weights), layout.context)


def write_answerer(model: NeuralAnswerer, target: str | Path) -> None:
    """Write a directory for question answering in transformers."""
    layout, values = _published(model).layout, {NO_ANSWER: model.threshold}
    name = encoders.family_of(layout, model.tokenizer)
    _write(model, target, name, SPANS, values, dict(model.weights), layout.context)


def _published(model: SequenceModel) -> Published:
    if (published := model.published) is None:
        raise ConfigError(
            f"this {model.name} has the encoder {model.config.encoder}, which transformers has not; one "
            f"on a converted encoder can be written (fit {model.name} --encoder DIR)"
        )
    return published


def _label_values(labels: list[Any]) -> dict[str, Any]:
    names = list(map(str, labels))
    return {
        "id2label": {str(i): label for i, label in enumerate(names)},
        "label2id": {label: i for i, label in enumerate(names)},
    }


def _write(
    model: SequenceModel,
    target: str | Path,
    name: str,
    kind: str,
    values: dict[str, Any],
    weights: dict[str, np.ndarray],
    longest: int,
) -> None:
    """Write a model with a head of this kind; `longest`: the most tokens that are read of a text."""
    layout, marks = _published(model).layout, _published(model).marks
    write_directory(
        target,
        {**encoders.encoder_values(layout, name, marks, model.tokenizer, kind), **values},
        with_head(name, kind, named).write(weights),
        encoders.marked_tokenizer(model.tokenizer, marks, replace(layout, context=longest)),
    )
