"""What composed models (reader, encoder, head) of any task share: held-out examples, pretrained
vectors, training, and sizes as they are saved.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqloom import progress
from seqloom.arrays import Length, Spec
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.saving import Kind, optional
from seqloom.contracts.starting import Origin
from seqloom.data.examples import hashed_order
from seqloom.errors import ModelError
from seqloom.kernels.parallel import parallel_map
from seqloom.models.masked.inputs import encoder_shapes
from seqloom.models.network.first_layer import FirstLayer, open_first_layer, same_width
from seqloom.models.network.network import NetworkModel, check_held_out, prepare, train_model
from seqloom.models.sequence.configs import D_EMBED, EncoderConfig, Sizes, is_sizes, read_sizes
from seqloom.models.sequence.published import (
    EPOCHS,
    EVALUATIONS,
    Opened,
    Published,
    check_match,
    fine_tuning,
    is_published,
    named,
    open_encoder,
    slower,
)
from seqloom.traces import Trace, Traced, by_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import torch

    from seqloom.models.sequence.inputs import Encoded
    from seqloom.models.sequence.sequence_net import SequenceTraining
    from seqloom.runtime.composition import SequenceNetwork
    from seqloom.runtime.declarations import Examples
    from seqloom.training.config import TrainConfig
    from seqloom.training.trainable import DelayedGroup

MIN_EXAMPLES_TO_HOLD_OUT = 50  # examples, below which none are held out
MAX_EXAMPLES_WITHOUT_TORCH = 8  # examples up to which torch's calls take longer than the arithmetic


class SequenceModel(NetworkModel):
    config: Any
    config_class: ClassVar[type[EncoderConfig]]
    sequence_values: ClassVar[dict[str, Kind]] = {
        "sizes": is_sizes,
        "published": optional(is_published),
        **NetworkModel.network_values,
    }
    inputs_16_bit = True
    unused_training_options: ClassVar[dict[str, str]] = {
        "truncation": "examples are read whole; leave it out",
        "random_truncation": "examples are read whole; leave it out",
    }

    @property
    def sizes(self) -> Sizes:
        return read_sizes(self.learnt)

    @property
    def published(self) -> Published | None:
        """Return the converted encoder that it builds on, if any."""
        saved = self.learnt.get("published")
        return None if saved is None else Published.from_dict(saved, self.tokenizer.vocab_size)

    def settled_options(self) -> dict[str, Any]:
        sized = (
            {"d_embed": self.sizes.d_embed}
            if self.sizes.d_embed and not self.config.published
            else {}
        )
        return self.config.all_options() | sized

    def trace(self, example: Any, *patterns: str) -> Traced:
        """Return what the network computes while it reads an example: gates, states, weights of
        attention (`seqloom.traces` has their names).

        `patterns`: the wanted names, such as `*.gates.f`; none: all.
        """
        self.check_fitted()
        encoded, names = self.steps_of(example)
        trace = Trace(*patterns)
        self.runtime()(encoded.examples(), trace)
        return Traced(names, by_text(trace))

    def steps_of(self, example: Any) -> tuple[Encoded, list[str]]:
        """Return an example as the network reads it, and a name for each step of it."""
        raise NotImplementedError

    def array_specs(self, length: Length) -> dict[str, Spec]:
        check_match(self.config.encoder, self.learnt)
        n_chars = len(self.learnt.get("characters", ()))
        if self.sizes.characters != (n_chars + 2 if n_chars else 0):
            raise ModelError(
                f"{self.sizes.characters} vectors of characters for {n_chars} characters: the file is damaged"
            )
        return super().array_specs(length)

    def label(self) -> str:
        return f"{Path(self.config.encoder).name}-{self.name}{self.bits_label}"


def open_published(model: SequenceModel) -> Opened:
    """Open the encoder of the directory that the options name; it and its tokenizer become part of
    the model.
    """
    opened = open_encoder(model.config.encoder)
    model.tokenizer, model.learnt["published"] = opened.tokenizer, opened.published.to_dict()
    model.fit_info["encoder"] = opened.digest
    return opened


def take_published(model: SequenceModel, start: Origin) -> Opened | None:
    """Return the published encoder of a model to start from, if it has one."""
    published = model.published
    if published is None:
        return None
    model.fit_info["encoder"] = start.model.recorded("encoder", "")
    names = map(named, encoder_shapes(published.layout, model.tokenizer.vocab_size))
    return Opened(published, model.tokenizer, {name: start.weights[name] for name in names})


def without_torch(model: SequenceModel, examples: int) -> bool:
    """Return whether so many examples are read without torch: for a few, its calls take longer than
    the arithmetic.
    """
    few = examples <= MAX_EXAMPLES_WITHOUT_TORCH and model.net.on_cpu
    return few or model.reads_by_steps()  # called last, as it imports torch


def outputs(model: SequenceModel, encoded: Encoded) -> Iterator[tuple[Examples, np.ndarray]]:
    """Yield groups of neighbouring examples with the head's outputs, without torch."""
    network: SequenceNetwork = model.runtime()
    parts = [encoded.examples(*bounds) for bounds in encoded.groups()]
    if len(parts) == 1:
        return iter([(parts[0], network(parts[0]))])
    return zip(parts, parallel_map(network, parts))


def held_out(
    share: float,
    data: Any,
    options: FitOptions,
    examples: Iterable[Any],
    kinds: Sequence[Iterable[Any]],
) -> tuple[Any, Any]:
    """Return training and held-out data: as given, or a part in hashed order, with equal examples on
    the same side. `kinds`: labels or tags of each example; an example with one that no training
    example has stays in training.
    """
    if options.valid is not None and len(options.valid):
        return data, options.valid
    if len(data) < MIN_EXAMPLES_TO_HOLD_OUT or not share:
        return data, None
    order, may_begin = hashed_order(examples)
    cut = next(
        (i for i in range(round(len(order) * (1 - share)), len(order)) if may_begin[i]), len(order)
    )
    if cut == len(order):
        return data, None
    seen = set(chain.from_iterable(kinds[i] for i in order[:cut]))
    held = [i for i in order[cut:] if seen.issuperset(kinds[i])]
    if not held:
        return data, None
    progress.say(
        f"holding out {share:.0%} of the data to choose the best weights; valid=... gives other data"
    )
    return data.part(np.setdiff1d(order, held)), data.part(np.sort(held))


def first_layer(
    model: SequenceModel, tokens: list[str], counts: np.ndarray, seed: int
) -> FirstLayer | None:
    c = model.config
    first = open_first_layer(
        c.pretrained,
        tokens,
        counts,
        check_width=same_width("d_embed", c.d_embed, c.pretrained),
        unknown=c.pretrained_unknown,
        seed=seed,
    )
    if first is not None:
        model.fit_info["pretrained"] = first.facts
    return first


def embed_width(d_embed: int | None, first: FirstLayer | None) -> int:
    return first.dimensions if first is not None else d_embed or D_EMBED


def train_sequence(
    model: SequenceModel,
    make_task: Callable[[TrainConfig, torch.device], SequenceTraining],
    options: FitOptions,
    valid: Any,
    opened: Opened | None = None,
) -> None:
    """Train the network of the task and store it in the model. `opened`: its published encoder."""
    from seqloom.training.trainable import DelayedGroup

    config, device = prepare(model.name, options)
    if valid is None:
        check_held_out(config)
    c, published = model.config, model.published
    groups: list[DelayedGroup] = []
    tuned = published is not None and not c.frozen
    if tuned:
        config = fine_tuning(config)
    task = make_task(config, device)
    if published is not None and tuned:
        groups = slower(published, c, config)
        task.enough_epochs, task.evaluations = EPOCHS, EVALUATIONS
    elif c.pretrained is not None and c.pretrained_training == "gradual":
        groups = [DelayedGroup(("reader.embedding.weight",), c.pretrained_frozen_for)]
    if options.start is not None and opened is not None and c.frozen:  # the head alone is trained
        head = {
            name: weight
            for name, weight in options.start.weights.items()
            if name not in opened.weights
        }
        options = replace(options, start=replace(options.start, weights=head))
    train_model(
        model,
        task,
        config,
        device,
        options,
        groups,
        valid=None if valid is None else valid.fingerprint,
        vectors=model.fit_info.get("pretrained", {}).get("vectors"),
        **({"encoder": model.fit_info["encoder"]} if c.published else {}),
    )
    if opened is not None and c.frozen:
        model.net.restore({**opened.weights, **model.net.weights})


def features_of(
    model: SequenceModel, opened: Opened, device: torch.device, pool: Any = None
) -> Callable[[Encoded], Encoded]:
    """Return a function that replaces examples by the vectors of a frozen encoder."""
    from seqloom.models.sequence.published import frozen_features
    from seqloom.models.sequence.sequence_net import InitialWeights, make_reader_and_encoder

    reader_and_encoder = make_reader_and_encoder(
        model.config,
        model.sizes,
        InitialWeights(weights=opened.weights),
        opened.published,
        opened.tokenizer.vocab_size,
    )
    return frozen_features(*reader_and_encoder, device, pool)


def further_words(
    first: FirstLayer | None, is_known: Callable[[str], bool], most: int
) -> tuple[list[str], np.ndarray]:
    """Return at most so many words of pretrained vectors that the training data lacks, the first of
    their file, and their vectors.
    """
    if first is None or not most:
        return [], np.zeros((0, 0), np.float32)
    words = first.vectors.words
    chosen = [
        (i, word) for i in range(min(len(words), 4 * most)) if not is_known(word := words[i])
    ][:most]
    return [word for _, word in chosen], np.array(
        first.vectors.matrix[[i for i, _ in chosen]], np.float32
    )
