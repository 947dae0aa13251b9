"""What all neural language models share: fitting by the training engine, scoring in batches, saving.

A model has `layers`, which say how its network is built, what the training batches look like, and
how it steps. Scoring runs the network over whole texts with torch, or without it token by token;
stepping needs no torch (`runtime/language`), and the contract tests prove that both agree. A
sequence begins as if `</s>` had just been read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqloom import progress
from seqloom.arrays import Length, Spec
from seqloom.contracts import FitOptions, LanguageModel
from seqloom.contracts.reading import continued_by_steps
from seqloom.contracts.saving import Kind, optional, positive
from seqloom.decoding.stepper import check_scores
from seqloom.errors import ConfigError, ModelError
from seqloom.models.language.configs import NeuralConfig
from seqloom.models.network.first_layer import (
    FirstLayer,
    Size,
    check_early,
    choose_width,
    default_dropout,
    open_first_layer,
    passes,
    same_width,
    token_spellings,
)
from seqloom.models.network.network import (
    NetworkModel,
    check_held_out,
    has_torch,
    prepare,
    train_model,
)
from seqloom.models.network.tracing import trace_text
from seqloom.runtime.weights import Weights
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    import torch

    from seqloom.data.corpus import Corpus
    from seqloom.models.language.dynamic import DynamicEvaluation
    from seqloom.text.tokenizer import Tokenizer

    class Mixin(NetworkModel, LanguageModel): ...
else:
    Mixin = NetworkModel

HELD_OUT = 0.05  # share of the tokens that is held out where no valid text was given
PORTION_BY_STEPS = 1 << 13  # tokens that are scored at a time without torch, to show progress
_MIN_TOKENS_TO_HOLD_OUT = 2000


@dataclass
class Past:
    """What a network remembers of a sequence that is read in portions."""

    read: int = 0  # tokens
    # The last of them, as many as it needs.
    ids: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    state: Any = None  # of a recurrent network

    def joined(self, ids: np.ndarray) -> np.ndarray:
        """Return the remembered tokens and the next ones."""
        return np.concatenate([self.ids, ids.astype(np.int64)])

    def advance(self, ids: np.ndarray, keep: int) -> None:
        """Add tokens that were read; keep the last `keep` of all."""
        joined = self.joined(ids)
        self.read, self.ids = self.read + len(ids), joined[max(len(joined) - keep, 0) :]


class Layers(ABC):
    """How the network of a language model is built, trained and read, given the options of the model;
    all models of a class share one.
    """

    width_option: ClassVar[str] = "d_hidden"
    embed_option: ClassVar[str] = "d_embed"
    depth_option: ClassVar[str] = "n_layers"  # shown before the width in a label

    @abstractmethod
    def build(
        self, model: NeuralLanguageModel, size: Size, counts: torch.Tensor | None = None
    ) -> torch.nn.Module:
        """Build the network, with initial weights from torch's random state; `counts`: of the tokens in
        the training text.
        """

    @abstractmethod
    def take_runtime(self, model: NeuralLanguageModel, weights: Weights) -> Any:
        """Build the network without torch."""

    @abstractmethod
    def stepper(self, model: NeuralLanguageModel, network: Any) -> Any:
        """Return the Stepper of a network without torch."""

    @abstractmethod
    def body_cost(self, config: Any, width: int) -> float:
        """Return the multiplications of the forward pass for one token, without the output layer; used
        to choose the width.
        """

    @abstractmethod
    def batches(self, model: NeuralLanguageModel, ids: np.ndarray, train: TrainConfig) -> Any:
        """Return training batches of the ids."""

    @abstractmethod
    def flat_features(
        self,
        model: NeuralLanguageModel,
        network: Any,
        ids: np.ndarray,
        lengths: np.ndarray,
        max_tokens: int | None = None,
        past: Past | None = None,
    ) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
        """Yield positions in `ids` (N,) and the features from which the output layer predicts these
        tokens (N, D).

        `max_tokens`: of a sequence that are yielded at a time; those of one sequence come in order.
        `past`: of a single sequence, before these ids; updated to after them.
        """

    def default_embed(self, width: int) -> int:
        """Return the width of token vectors if none is given."""
        return width

    def check_options(self, config: Any) -> None:  # noqa: B027 - most have none
        """Refuse options without effect, once dropout is settled."""

    def check_vectors(self, config: Any, dimensions: int) -> None:
        """Refuse pretrained vectors of that width where another is asked for."""
        same_width(self.embed_option, getattr(config, self.embed_option), config.pretrained)(
            dimensions
        )


class NeuralLanguageModel(Mixin):
    """Written before the contract: `class LSTM(NeuralLanguageModel, LanguageModel)`."""

    config_class: ClassVar[type[NeuralConfig]]
    learnt_values: ClassVar[dict[str, Kind]] = {
        "width": positive,
        "d_embed": optional(positive),
        **NetworkModel.network_values,
    }
    layers: ClassVar[Layers]
    public_names = "trace"
    trace = trace_text

    @property
    def carry(self) -> bool:
        return self.config.carry

    def label(self) -> str:
        c, layers = self.config, self.layers
        width = self.learnt.get("width", getattr(c, layers.width_option))
        return f"{self.name}-{getattr(c, layers.depth_option)}x{width}{self.bits_label}"

    # ---- fitting

    def _make_tokenizer(self, corpus: Corpus) -> Tokenizer:
        check_early(self.config.pretrained, self.config.tokenizer)
        return super()._make_tokenizer(corpus)

    def fit_ids(self, ids: np.ndarray, options: FitOptions) -> None:
        config, device = prepare(self.name, options)
        from seqloom.models.language.language_net import LanguageTraining
        from seqloom.training.trainable import DelayedGroup

        ids, valid = (ids, options.valid) if options.valid is not None else self._held_out(ids)
        if valid is None or not len(valid):
            check_held_out(config)
        first = self._first_layer(ids, config.seed)
        batches = self.layers.batches(self, ids, config)
        d_embed = first.dimensions if first else self.learnt.get("d_embed")
        size = self.size_for(
            config,
            len(ids),
            self.tokenizer.vocab_size,
            d_embed,
            updates=batches.length((0, 0)) / config.usual_batches,
        )
        if size.chosen:
            progress.say(f"chose {self.layers.width_option}={size.width} for this text and time")
        self.learnt["width"] = size.width
        facts = {"tokenizer": self.tokenizer.label()}
        if first:
            self.learnt["d_embed"], self.fit_info["pretrained"] = first.dimensions, first.facts
            facts["vectors"] = first.facts["vectors"]
        groups = []
        if self.config.pretrained_training == "gradual":
            groups = [DelayedGroup(("embedding.weight",), self.config.pretrained_frozen_for)]
        task = LanguageTraining(self, batches, size, ids, valid, config, first)
        task.chosen = {self.layers.width_option: size.width} if size.chosen else {}
        if self.config.dropout is None:
            task.chosen["dropout"] = size.dropout
        train_model(self, task, config, device, options, groups, **facts)

    def _first_layer(self, ids: np.ndarray, seed: int) -> FirstLayer | None:
        c, counts = self.config, np.bincount(ids, minlength=self.tokenizer.vocab_size)
        if c.pretrained is None:
            return None
        check_early(c.pretrained, self.tokenizer.kind)
        first = open_first_layer(
            c.pretrained,
            token_spellings(self.tokenizer),
            counts,
            check_width=partial(self.layers.check_vectors, c),
            unknown=c.pretrained_unknown,
            seed=seed,
        )
        if (
            first
            and c.pretrained_training == "frozen"
            and getattr(c, "tied", False)
            and c.softmax != "adaptive"
        ):
            progress.say(
                "the output layer is tied to the token vectors, so it is frozen too; tied=False "
                "gives it its own "
                "weights"
            )
        return first

    def size_for(
        self,
        train: TrainConfig,
        tokens: int,
        vocab_size: int,
        d_embed: int | None = None,
        *,
        updates: float | None = None,
    ) -> Size:
        """Return the width of the options, or one for this amount of text and training; `d_embed`: width
        of the pretrained vectors.

        `updates`: their number in one pass over the tokens.
        """
        c, layers = self.config, self.layers
        fixed_width = (
            d_embed
            if d_embed and layers.width_option == layers.embed_option
            else getattr(c, layers.width_option)
        )
        fixed_width = fixed_width or self.learnt.get("width")  # of a model to start from
        outputs = min(vocab_size, c.samples) if c.softmax in ("sampled", "nce") else vocab_size

        def cost(width: int) -> float:
            body = layers.body_cost(c, width)
            muon = (
                4 * width * body * (updates or tokens / 1024) / tokens
                if train.rule == "muon"
                else 0.0
            )
            # Muon: twelve products of each matrix with one of this width, at each update.
            return body + muon + outputs * width

        width = fixed_width or choose_width(train, tokens, cost, multiple=getattr(c, "multiple", 1))
        size = Size(
            width,
            fixed_width is None,
            d_embed,
            default_dropout(passes(train, tokens, cost(width), updates)),
        )
        layers.check_options(settled(c, size))
        return size

    def settled_options(self) -> dict[str, Any]:
        layers, width = self.layers, self.learnt["width"]
        d_embed = (
            self.learnt.get("d_embed")
            or getattr(self.config, layers.embed_option)
            or layers.default_embed(width)
        )
        return self.config.all_options() | {
            layers.embed_option: d_embed,
            layers.width_option: width,
        }

    def _held_out(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Hold out the last tokens of the text for evaluation, unless it is very small."""
        if len(ids) < _MIN_TOKENS_TO_HOLD_OUT:
            return ids, None
        cut = int(len(ids) * (1 - HELD_OUT))
        if not self.carry:  # whole units, as they are scored
            ends = np.flatnonzero(ids[:cut] == self.tokenizer.eos_id)
            cut = int(ends[-1]) + 1 if len(ends) else cut
        progress.say(
            f"holding out the last {HELD_OUT:.0%} of the text to choose the best weights; valid=... "
            f"gives another text"
        )
        return ids[:cut], ids[cut:]

    # ---- scoring

    @property
    def fitted_size(self) -> Size:
        return Size(self.learnt["width"], d_embed=self.learnt.get("d_embed"))

    def build_fitted(self) -> torch.nn.Module:
        return self.layers.build(self, self.fitted_size)

    def take_runtime(self, weights: Weights) -> Any:
        return self.layers.take_runtime(self, weights)

    @property
    def portion(self) -> int:
        return super().portion if has_torch() and not self.bits else PORTION_BY_STEPS

    def sequence_log_probs(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        if self.reads_by_steps():
            return check_scores(super().sequence_log_probs(np.asarray(ids), np.asarray(lengths)))
        return check_scores(
            self.flat_log_probs(self.network(), np.asarray(ids), np.asarray(lengths))
        )

    def continue_log_probs(self, ids: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        if self.reads_by_steps():
            log_probs, state = continued_by_steps(self, ids, state)
            return check_scores(log_probs), state
        past = Past() if state is None else state
        log_probs = self.flat_log_probs(self.network(), ids, np.array([len(ids)]), past)
        return check_scores(log_probs), past

    def stepper(self, *, eight_bit: bool = False) -> Any:
        self.check_fitted()
        network = (
            self.take_runtime(Weights(self.weights, eight_bit=True))
            if eight_bit
            else self.runtime()
        )
        return self.layers.stepper(self, network)

    def flat_log_probs(
        self, network: Any, ids: np.ndarray, lengths: np.ndarray, past: Past | None = None
    ) -> np.ndarray:
        """Compute `sequence_log_probs` by the network."""
        import torch

        log_probs = np.empty(len(ids), np.float32)
        with torch.inference_mode():
            for positions, features in self.layers.flat_features(
                self, network, ids, lengths, past=past
            ):
                log_probs[positions] = token_log_probs(network, features, ids[positions])
        return log_probs

    def hidden_states(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return self.sequence_features(ids, lengths, scored=False)[0]

    def sequence_features(
        self,
        ids: np.ndarray,
        lengths: np.ndarray,
        past: Past | None = None,
        *,
        scored: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute the stepper's `features` before each token, float32 (N, D), and
        `sequence_log_probs`, in one pass; without `scored` these may be zeros.
        """
        if self.reads_by_steps():
            return self._features_by_steps(np.asarray(ids), np.asarray(lengths), past)
        network, log_probs, vectors = (
            self.network(),
            np.zeros(len(ids), np.float32),
            np.empty((0, 0), np.float32),
        )
        import torch

        with torch.inference_mode():
            for positions, features in self.layers.flat_features(
                self, network, np.asarray(ids), np.asarray(lengths), past=past
            ):
                if scored:
                    log_probs[positions] = token_log_probs(network, features, ids[positions])
                rows = features.float().cpu().numpy()
                if not len(vectors):
                    vectors = np.empty((len(ids), rows.shape[1]), np.float32)
                vectors[positions] = rows
        return vectors, check_scores(log_probs)

    def _features_by_steps(
        self, ids: np.ndarray, lengths: np.ndarray, past: Past | None
    ) -> tuple[np.ndarray, np.ndarray]:
        stepper: Any = self.stepper()
        features, position = [], 0
        log_probs = np.empty(len(ids), np.float32)
        for length in lengths.tolist():
            state, following = (
                stepper.start(1) if past is None or past.state is None else past.state
            )
            for token in ids[position : position + length].tolist():
                features.append(stepper.features(state)[0])
                log_probs[position] = following[0, token]
                state, following = stepper.step(state, np.array([token]))
                position += 1
            if past is not None:
                past.state = state, following
        return np.stack(features), check_scores(log_probs)

    def adapting(self, lr: float | None) -> DynamicEvaluation:
        if self.bits:
            raise ConfigError(
                f"weights of {self.bits} bits cannot be trained, which dynamic evaluation does; "
                "use the model that it was made of"
            )
        from seqloom.models.language.dynamic import DynamicEvaluation

        return DynamicEvaluation(self, lr)

    # ---- persistence

    def array_specs(self, length: Length) -> dict[str, Spec]:
        size, n_vectors = self.tokenizer.vocab_size, length("embedding.weight")
        if n_vectors != size and not self.bits:
            raise ModelError(
                f"{n_vectors:,} token vectors for a vocabulary of {size:,}: "
                "tokenizer and weights are of different models"
            )
        return super().array_specs(length)


def token_log_probs(network: Any, features: torch.Tensor, targets: np.ndarray) -> np.ndarray:
    """Compute the natural-log probability of each target (N,) after features (N, D)."""
    import torch

    target_ids = torch.from_numpy(targets.astype(np.int64)).to(features.device)
    return network.output.token_log_probs(features, target_ids).float().cpu().numpy()


def settled(config: Any, size: Size) -> Any:
    """Return the options, with a dropout chosen by the number of passes over the text if none is given."""
    values = {"dropout": size.dropout if config.dropout is None else config.dropout}
    if hasattr(config, "input_dropout") and config.input_dropout is None:
        values["input_dropout"] = values["dropout"] / 2
    return replace(config, **values)
