"""The networks of all tasks as ONNX takes them: named arrays in, named arrays out, any batch size and
any length.

A `Graph` is a model's own network with what stands before and after it in the model: the windows of
`nplm`, the temperature of a classifier, the best path of a CRF, the scale of a series.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqloom.errors import ConfigError
from seqloom.interop import onnx_batches as batches
from seqloom.interop import onnx_rows_net as rows
from seqloom.interop.onnx_batches import Arrays, Draw
from seqloom.models.answering.neural_answerer import NeuralAnswerer
from seqloom.models.classification.neural_classifier import NeuralClassifier
from seqloom.models.forecasting.forecaster import NeuralForecaster
from seqloom.models.language.neural import NeuralLanguageModel
from seqloom.models.language.nplm import NPLM
from seqloom.models.masked.bert import Bert
from seqloom.models.masked.sentence_encoder import SentenceEncoder
from seqloom.models.sequence.model import SequenceModel
from seqloom.models.sequence.sequence_net import tagged_steps
from seqloom.models.tagging.neural_tagger import NeuralTagger
from seqloom.models.translation.model import TranslationModel
from seqloom.nn.recording import over_steps

Axes = dict[str, tuple[str, ...]]  # of arrays by name: those with a name may have any size
IDS: Axes = {"ids": ("batch", "time")}
LENGTHS: Axes = {"lengths": ("batch",)}


class Graph(NamedTuple):
    """A network to be written: `module` takes the inputs in their order and gives the outputs in theirs."""

    module: nn.Module
    inputs: Axes
    outputs: Axes
    draw: Draw
    shortest: int = 1
    longest: int | None = None  # tokens or steps of a row; None: any


def make_graph(model: Any, source: str) -> Graph:
    """Make the graph of a fitted model; `source`: where it was, for messages."""
    for kind, make in _MAKERS.items():
        if isinstance(model, kind):
            return make(model)
    raise ConfigError(
        f"{source} is of kind {model.name}, which is not a network, and ONNX holds networks; "
        "fit a network on the same data, or use seqloom itself"
    )


# ---- language


class _Language(nn.Module):
    def __init__(self, network: Any, vocab_size: int, before: int, eos: int) -> None:
        super().__init__()
        self.network, self.vocab_size, self.before, self.eos = network, vocab_size, before, eos

    def forward(self, ids: Tensor) -> Tensor:
        """Return the log-probabilities (B, T, V) of what follows each of the ids."""
        read = ids
        if self.before:  # a window that reaches back before the text sees its beginning
            read = torch.cat(
                [ids.new_full((1, self.before), self.eos).expand(ids.shape[0], -1), ids], 1
            )
        features, _ = self.network(read)
        log_probs = self.network.output.log_probs(features.flatten(0, 1))
        return log_probs.view(ids.shape[0], ids.shape[1], self.vocab_size)


def _language(model: Any) -> Graph:
    size, eos = model.tokenizer.vocab_size, model.tokenizer.eos_id
    before = model.config.order - 2 if isinstance(model, NPLM) else 0
    longest = model.config.context if getattr(model.config, "positions", "") == "learned" else None
    return Graph(
        _Language(model.network(), size, before, eos),
        IDS,
        {"log_probs": ("batch", "time", "")},
        batches.ids(size),
        longest=longest,
    )


# ---- classifiers and taggers


class _Sequence(nn.Module):
    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__()
        self.network, self.names = model.network(), names
        self.rows = _rows_of(model)

    def batch(self, tensors: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """Return what the network reads."""
        batch = self.rows(dict(zip(self.names, tensors)))
        return rows.spelled(batch) if "spellings" in batch else batch


def _rows_of(model: Any) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """Return a function that makes of whole texts the rows that the network reads."""
    if model.task == "tagger" and model.published is not None:
        marks = model.published.marks
        return partial(rows.marked_words, cls=marks.cls, sep=marks.sep)
    # the tokenizer's file cuts and divides texts for a published encoder
    if model.task == "classifier" and model.published is None:
        size, long = model.config.max_length, model.config.long
        if long == "windows":
            return partial(rows.divided, size=size)
        if long == "sentences":
            return partial(rows.sentences, size=size, end=model.tokenizer.eos_id)
        if not model.sizes.columns:
            return partial(rows.cut, size=size)
    return lambda batch: batch


class _Classes(_Sequence):
    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__(model, names)
        self.example_scores = model.example_scores
        self.temperature, self.shift = model.learnt.get("temperature", 1.0), None
        if model.learnt.get("shift") is not None:
            self.shift = torch.tensor(model.learnt["shift"], dtype=torch.float32)

    def forward(self, *tensors: Tensor) -> Tensor:
        """Return the log-probabilities of the classes (B, C), as the model decides by them."""
        batch = self.batch(tensors)
        scores = self.example_scores(self.network(batch), batch) / self.temperature
        return self.network.output.log_probs(scores if self.shift is None else scores + self.shift)


class _Tags(_Sequence):
    def forward(self, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of the tags (B, T, K), and the best ones (B, T), -1 at padding."""
        batch = self.batch(tensors)
        scores, lengths = self.network(batch), tagged_steps(batch)
        if self.network.output.crf is not None:
            return scores, self.network.output.crf.log_space_paths(scores, lengths)
        beyond = torch.arange(scores.shape[1]) >= lengths.unsqueeze(1)
        return scores, scores.argmax(2).masked_fill(beyond, -1)


def _inputs(model: SequenceModel) -> tuple[Axes, Draw, int | None]:
    """Return what the reader of a composed network takes."""
    sizes, published = model.sizes, model.published
    if sizes.columns:
        draw = batches.together(batches.values(sizes.columns, sizes.missing), batches.lengths)
        return {"values": ("batch", "time", ""), **LENGTHS}, draw, None
    inputs: Axes = {**IDS, **LENGTHS}
    draws: list[Draw] = [batches.lengths]
    if published is not None:
        return (
            inputs,
            batches.together(batches.ids(model.tokenizer.vocab_size), *draws),
            published.layout.context,
        )
    if sizes.characters:
        inputs |= {"spellings": ("batch", "time", "letters")}
        draws.append(batches.spellings(sizes.characters))
    return inputs, batches.together(batches.ids(sizes.vocab_size + sizes.further), *draws), None


def _classifier(model: NeuralClassifier) -> Graph:
    inputs, draw, longest = _inputs(model)
    examples = "batch"
    if model.reads_pairs and model.published is not None:
        inputs, draw = _with_types(inputs, draw, model.published.layout.n_types)
    if model.config.long != "truncate" and model.published is not None:
        examples = "documents"  # a row is a sentence or a window of one
        inputs |= {"counts": (examples,)}
        draw = batches.together(draw, batches.counts)
    elif model.config.long == "sentences":
        draw = batches.together(
            draw, batches.sentences(model.sizes.vocab_size, model.tokenizer.eos_id)
        )
    module = _Classes(model, list(inputs))
    return Graph(module, inputs, {"log_probs": (examples, "")}, draw, longest=longest)


def _with_types(inputs: Axes, draw: Draw, n_types: int) -> tuple[Axes, Draw]:
    """Add the types of the tokens where the network tells types apart."""
    if n_types < 2:
        return inputs, draw
    return {**inputs, "types": ("batch", "time")}, batches.together(
        draw, batches.ids(n_types, "types")
    )


def _tagger(model: NeuralTagger) -> Graph:
    inputs, draw, longest = _inputs(model)
    steps = "time"
    if model.published is not None:
        steps = "words"
        inputs = {
            "ids": ("rows", "time"),
            "places": ("batch", steps, ""),
        }  # several rows of a long sentence
        draw, longest = batches.places(model.tokenizer.vocab_size), longest and longest - 2
    outputs: Axes = {"scores": ("batch", steps, ""), "tags": ("batch", steps)}
    return Graph(_Tags(model, list(inputs)), inputs, outputs, draw, longest=longest)


# ---- answerers


class _Spans(_Sequence):
    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__(model, names)
        self.most, self.inputs = model.config.max_answer, model.window_inputs()

    def forward(self, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the first token of the best span of each context and the one after its last (B, 2), the
        log-probability of this span (B,), and the probability that there is no answer (B,).
        """
        batch, texts, shift = rows.questions(dict(zip(self.names, tensors)), self.inputs)
        allowed = batch["allowed"]
        scores = self.network(batch).masked_fill(~allowed.unsqueeze(2), -math.inf)
        begins, ends = torch.log_softmax(scores, 1).unbind(2)
        count = torch.cumsum(allowed.to(torch.int64), 1)
        longer = count.unsqueeze(1) - count.unsqueeze(2)  # (B, T, T), from each step to each other
        steps = torch.arange(begins.shape[1])
        inside = (steps > 0).unsqueeze(1) & (steps >= steps.unsqueeze(1)) & (longer < self.most)
        sums = (begins.unsqueeze(2) + ends.unsqueeze(1)).masked_fill(~inside, -math.inf)
        best, at = sums.flatten(1).max(1)
        spans = torch.stack([at // begins.shape[1], at % begins.shape[1] + 1], 1) + shift
        own = torch.arange(tensors[0].shape[0]).unsqueeze(1) == texts
        score, row = best.unsqueeze(0).masked_fill(~own, -math.inf).max(1)
        nothing = (begins[:, 0] + ends[:, 0]).unsqueeze(0).masked_fill(~own, math.inf).min(1).values
        spans = spans[row].masked_fill((score == -math.inf).unsqueeze(1), 0)
        return spans, score, torch.sigmoid(nothing - score)


def _answerer(model: NeuralAnswerer) -> Graph:
    inputs: Axes = {"question": ("batch", "question_time"), **IDS, "kinds": ("batch", "time")}
    sizes = model.sizes
    characters = sizes.characters if model.published is None else 0
    if characters:
        inputs |= {"spellings": ("batch", "all_times", "letters")}
    size = model.tokenizer.vocab_size if model.published else sizes.vocab_size + sizes.further
    draw = batches.questions(size, model.window_inputs().longest_question, characters)
    outputs: Axes = {"spans": ("batch", ""), "scores": ("batch",), "no_answer": ("batch",)}
    return Graph(_Spans(model, list(inputs)), inputs, outputs, draw)


# ---- masked models and sentence vectors


class _Masked(nn.Module):
    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, ids: Tensor, lengths: Tensor, *types: Tensor) -> tuple[Tensor, ...]:
        """Return the vectors (B, T, D), and with a head the log-probabilities (B, T, V), at each position."""
        keep = torch.arange(ids.shape[1]) < lengths.unsqueeze(1)
        hidden = self.network(ids, *(types or (None,)), keep)
        if self.network.head is None:
            return (hidden,)
        return hidden, torch.log_softmax(self.network.logits(hidden), 2)


class _SentenceVectors(nn.Module):
    def __init__(self, model: SentenceEncoder) -> None:
        from seqloom.nn.composition import Pooling

        super().__init__()
        c = model.config
        self.network, self.unit_length = model.network(), c.unit_length
        self.pooling = None if c.pooling == "cls" else Pooling(c.pooling, c.d_model)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return the vectors of texts (B, D)."""
        keep = torch.arange(ids.shape[1]) < lengths.unsqueeze(1)
        hidden = self.network(ids, None, keep)
        vectors = hidden[:, 0] if self.pooling is None else self.pooling(hidden, lengths)
        return F.normalize(vectors, dim=1) if self.unit_length else vectors


def _masked(model: Bert) -> Graph:
    size, c = model.tokenizer.vocab_size, model.config
    inputs, draw = _with_types(
        {**IDS, **LENGTHS}, batches.together(batches.ids(size), batches.lengths), c.n_types
    )
    outputs: Axes = {"vectors": ("batch", "time", "")}
    if c.head:
        outputs |= {"log_probs": ("batch", "time", "")}
    return Graph(_Masked(model.network()), inputs, outputs, draw, longest=c.context)


def _sentences(model: SentenceEncoder) -> Graph:
    draw = batches.together(batches.ids(model.tokenizer.vocab_size), batches.lengths)
    outputs: Axes = {"vectors": ("batch", "")}
    return Graph(
        _SentenceVectors(model), {**IDS, **LENGTHS}, outputs, draw, longest=model.config.context
    )


# ---- translators


class _Translation(nn.Module):
    def __init__(self, network: Any, read: str) -> None:
        super().__init__()
        self.network, self.read = network, read

    def forward(self, source: Tensor, lengths: Tensor, targets: Tensor) -> Tensor:
        """Return the log-probabilities (B, U, V) of what follows each of the target's ids."""
        memory = self.network.encode({self.read: source, "lengths": lengths})
        return self.network.output.log_probs(self.network.features(memory, targets))


def _translator(model: TranslationModel) -> Graph:
    sizes, size = model.sizes, model.target_tokenizer.vocab_size
    read = "values" if sizes.columns else "ids"
    inputs: Axes = {
        read: ("batch", "time", "") if sizes.columns else ("batch", "time"),
        **LENGTHS,
        "targets": ("batch", "target_time"),
    }
    source = (
        batches.values(sizes.columns, sizes.missing)
        if sizes.columns
        else batches.ids(sizes.vocab_size)
    )

    def targets(rows: int, steps: int, rng: np.random.Generator) -> Arrays:
        most = steps + 2 if model.longest is None else min(steps + 2, model.longest)
        return batches.ids(size, "targets")(rows, most, rng)

    return Graph(
        _Translation(model.network(), read),
        inputs,
        {"log_probs": ("batch", "target_time", "")},
        batches.together(source, batches.lengths, targets),
        longest=model.longest,
    )


# ---- forecasters


class _Forecast(nn.Module):
    mean: Tensor
    std: Tensor

    def __init__(self, model: NeuralForecaster) -> None:
        super().__init__()
        self.network, self.window, self.columns = model.network(), model.window, len(model.columns)
        self.separate, self.missing = model.config.columns == "separate", model.learnt["missing"]
        for name in ("mean", "std"):
            values = torch.from_numpy(np.asarray(model.scale[name], np.float32))
            self.register_buffer(name, values)

    def forward(self, values: Tensor, *known: Tensor) -> tuple[Tensor, Tensor]:
        """Return the expected values (B, H, C), and their quantiles of 10 and 90 % (B, H, C, 2)."""
        scaled = (values - self.mean) / self.std
        past, absent = scaled[:, -self.window :], None
        if self.missing:
            absent = past.isnan().to(past.dtype)
            past = _filled(scaled)[:, -self.window :]
        ahead = known[0] if known else None
        if self.separate:  # columns are rows
            past = past.transpose(1, 2).reshape(-1, self.window, 1)
            if absent is not None:
                absent = absent.transpose(1, 2).reshape(-1, self.window, 1)
            if ahead is not None:
                ahead = ahead.repeat_interleave(self.columns, 0)
        y = self.network(past, ahead, absent)
        if self.separate:
            y = y.view(-1, self.columns, y.shape[1], 3).transpose(1, 2)
        y = y * self.std[:, None] + self.mean[:, None]
        return y[..., 0], y[..., 1:]


def _filled(values: Tensor) -> Tensor:
    """Replace missing values (B, T, C) by the last one before them, or by 0 if there is none."""

    def step(now: Tensor, last: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        last = torch.where(now.isnan(), last, now)
        return last, (last,)

    filled, _ = over_steps(step, [values.transpose(0, 1)], (torch.zeros_like(values[:, 0]),))
    return filled.transpose(0, 1)


def _forecaster(model: NeuralForecaster) -> Graph:
    if model.longer_seasons:
        raise ConfigError(
            "this forecaster takes the mean course of a longer season off its values, by their times, "
            "which is no part of the network; fit one with fewer seasons, or use seqloom itself"
        )
    inputs: Axes = {"values": ("batch", "time", "")}
    draws = [batches.values(len(model.columns), model.learnt["missing"])]
    if model.n_known:
        inputs |= {"known": ("batch", "", "")}
        shape = (model.window + model.horizon, model.n_known)
        draws.append(
            lambda rows, steps, rng: {"known": rng.normal(size=(rows, *shape)).astype(np.float32)}
        )
    outputs: Axes = {"forecast": ("batch", "", ""), "quantiles": ("batch", "", "", "")}
    return Graph(_Forecast(model), inputs, outputs, batches.together(*draws), shortest=model.window)


_MAKERS: dict[type, Callable[[Any], Graph]] = {
    NeuralLanguageModel: _language,
    NeuralClassifier: _classifier,
    NeuralTagger: _tagger,
    NeuralAnswerer: _answerer,
    Bert: _masked,
    SentenceEncoder: _sentences,
    TranslationModel: _translator,
    NeuralForecaster: _forecaster,
}
