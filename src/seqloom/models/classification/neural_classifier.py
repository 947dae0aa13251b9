"""A network that puts a label on a sequence: reader, encoder, pooling, softmax (or a sigmoid for
each of several labels).

The encoder is an option, so that the mean of word vectors, a CNN, an LSTM and a Transformer can be
compared under the same conditions. It reads texts, or arrays of numbers (T,) or (T, C): sensors,
heartbeats, frames of audio; with a published encoder also pairs of texts.

    >>> pairs = [("good fun", "+"), ("dull", "-")] * 8
    >>> model = NeuralClassifier(encoder="bag").fit(pairs, train=TrainConfig(steps=40))
    >>> model.predict("good")
    '+'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts.classification import Classifier
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.saving import Kind, names, one_of, optional
from seqloom.data.classification import Labelled
from seqloom.encoder_table import find_encoder
from seqloom.errors import ConfigError, ModelError
from seqloom.models.classification import explanation
from seqloom.models.classification.beginning import begin
from seqloom.models.classification.configs import NeuralClassifierConfig
from seqloom.models.classification.decisions import (
    balanced_weights,
    best_shift,
    best_temperature,
    check_decidable,
    is_shift,
    is_temperature,
    label_targets,
    log_probs_of,
    log_softmax,
    odds,
    quality,
    shifted,
)
from seqloom.models.classification.explanation import Explanation
from seqloom.models.sequence.inputs import (
    Encoded,
    NumberInputs,
    TextInputs,
    as_row,
    is_numbers,
)
from seqloom.models.sequence.model import (
    SequenceModel,
    features_of,
    held_out,
    outputs,
    train_sequence,
    without_torch,
)
from seqloom.models.sequence.published import PublishedInputs
from seqloom.models.sequence.streaming import (
    ClassStream,
    check_encoder,
    check_pieces,
    take_reader_and_encoder,
)
from seqloom.runtime.composition import LabelHead, Pooling, RunningPool, Sentences, SequenceNetwork
from seqloom.runtime.weights import Weights
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from seqloom.models.sequence.published import Opened
    from seqloom.models.sequence.sequence_net import InitialWeights, SequenceTraining


class NeuralClassifier(SequenceModel, Classifier):
    name = "classifier"
    public_names = "attention choose explain stream trace"
    config_class = NeuralClassifierConfig
    learns_several = learns_pairs = True
    learnt_values: ClassVar[dict[str, Kind]] = {
        **Classifier.learnt_values,
        **SequenceModel.sequence_values,
        "characters": optional(names),
        "choices": optional(one_of(True)),
        "temperature": optional(is_temperature),
        "shift": optional(is_shift),
    }

    @property
    def reads_numbers(self) -> bool:
        return self.fitted and self.sizes.columns > 0

    def is_example(self, value: Any) -> bool:
        return super().is_example(value) or is_numbers(value)

    # ---- fitting

    def fit_examples(self, data: Labelled, options: FitOptions) -> None:
        single = {label: (label,) for label in data.classes}  # one tuple for all of a class
        labels = data.labels if data.multi_label else [single[label] for label in data.labels]
        data, valid = held_out(self.config.hold_out, data, options, data.examples, labels)
        several, held = self.multi_label, valid is not None
        check_decidable(self.config, data.name, len(self.classes), several=several, held_out=held)
        opened, start = begin(self, data, options.start, (options.train or TrainConfig()).seed)
        train_sequence(
            self,
            lambda train, device: self._task(
                data, valid, start, train, self._reading(opened, device)
            ),
            options,
            valid,
            opened,
        )
        if valid is not None:
            self._decide(valid)

    def settled_options(self) -> dict[str, Any]:
        return super().settled_options() | {"pooling": self.config.pools}

    def _reading(
        self, opened: Opened | None, device: torch.device
    ) -> Callable[[list[Any]], Encoded]:
        """Return the function that turns examples into the input of the trained network: steps, or the
        features of a frozen encoder.
        """
        if opened is None or not self.config.frozen:
            return self.encode
        from seqloom.nn.composition import Pooling

        kind = self.config.pools  # attention learns, so it needs the vectors of all steps
        features = features_of(
            self,
            opened,
            device,
            None if kind == "attention" else Pooling(kind, opened.published.layout.d_model),
        )
        return lambda examples: features(self.encode(examples))

    def _task(
        self,
        data: Labelled,
        valid: Labelled | None,
        start: InitialWeights,
        train: TrainConfig,
        read: Callable[[list[Any]], Encoded],
    ) -> SequenceTraining:
        from seqloom.models.sequence.sequence_net import SequenceTraining, example_batches
        from seqloom.training.trainable import Criterion

        targets, several = self._targets(data), self.multi_label
        weights, balanced = None, self.config.class_weights == "balanced" and not several
        if balanced:
            weights = balanced_weights(targets, len(self.classes))

        def losses(network: Any, batch: Any) -> torch.Tensor:
            scores = self.example_scores(network(batch.arrays), batch.arrays)
            return network.output.loss(scores, batch["targets"], batch.arrays.get("weights"))

        evaluate, criterion = (
            None,
            Criterion("nats")
            if several
            else Criterion("balanced accuracy" if balanced else "accuracy", higher_is_better=True),
        )
        if valid is not None:
            held, held_targets = read(valid.examples), self._targets(valid)

            def evaluate(network: Any) -> float:
                log_probs = self._log_probs(network, held)
                return quality(log_probs, held_targets, several=several, balanced=balanced)

        return SequenceTraining(
            example_batches(read(data.examples), train, targets, weights),
            criterion,
            lambda: self.build_fitted(start),
            losses,
            evaluate,
        )

    def _targets(self, data: Labelled) -> np.ndarray:
        """Return indices of the labels among the classes (n,), -1 for others; of several labels, zeros
        and ones (n, C).
        """
        return label_targets(data.labels, self.classes, several=self.multi_label)

    def _decide(self, valid: Labelled) -> None:
        """Choose temperature and threshold on held-out data."""
        c, targets = self.config, self._targets(valid)
        if c.calibrate == "none" and not c.tune_threshold:
            return
        log_probs = self._log_probs(self.network(), self.encode(valid.examples))
        if c.calibrate == "temperature":
            self.learnt["temperature"] = best_temperature(log_probs, targets, self.multi_label)
        if c.tune_threshold:
            self.learnt["shift"] = best_shift(self._settled(log_probs), targets, self.multi_label)

    # ---- the network

    def build_fitted(self, start: InitialWeights | None = None) -> torch.nn.Module:
        from seqloom.models.sequence.sequence_net import make_reader_and_encoder
        from seqloom.nn import composition

        c = self.config
        reader, encoder = make_reader_and_encoder(
            c, self.sizes, start, self.published, self.sizes.vocab_size
        )
        bidirectional, sentences, width = c.both_ways, None, encoder.d_out
        if c.long == "sentences":
            upper = find_encoder("bigru").make_network(
                width, c.d_hidden, c.n_sentence_layers, {}, dropout=c.drops
            )
            sentences = composition.Sentences(
                composition.Pooling(c.pools, width, bidirectional=bidirectional), upper
            )
            bidirectional, width = True, upper.d_out
        head = composition.LabelHead(
            width,
            len(self.classes),
            composition.Pooling(c.pools, width, bidirectional=bidirectional),
            several=self.multi_label,
            label_smoothing=c.label_smoothing,
            layer=c.head_layer,
            dropout=c.drops,
        )
        return composition.SequenceNetwork(
            reader, encoder, head, sentences=sentences, dropout=c.drops
        )

    def take_runtime(self, weights: Weights) -> SequenceNetwork:
        c, sizes = self.config, self.sizes
        reader, encoder = take_reader_and_encoder(
            weights, c, sizes, self.published, sizes.vocab_size
        )
        both_ways, sentences, width = c.both_ways, None, encoder.d_out
        if c.long == "sentences":
            sentence_weights = weights.within("sentences")
            upper = find_encoder("bigru").take(
                sentence_weights.within("encoder"), width, c.d_hidden, c.n_sentence_layers, {}
            )
            sentences = Sentences(
                Pooling(
                    sentence_weights.within("pooling"), c.pools, width, bidirectional=both_ways
                ),
                upper,
            )
            both_ways, width = True, upper.d_out
        output = weights.within("output")
        pooling = Pooling(output.within("pooling"), c.pools, width, bidirectional=both_ways)
        return SequenceNetwork(
            reader,
            encoder,
            LabelHead(output, width, len(self.classes), pooling, c.head_layer),
            sentences=sentences,
        )

    def array_specs(self, length: Length) -> dict[str, Spec]:
        sizes, shift = self.sizes, self.learnt.get("shift")
        if sizes.vocab_size and self.tokenizer.vocab_size != sizes.vocab_size + sizes.further:
            raise ModelError(
                f"{sizes.vocab_size + sizes.further:,} token vectors for a vocabulary of "
                f"{self.tokenizer.vocab_size:,}: tokenizer and weights are of different models"
            )
        if self.reads_pairs and not (self.config.published and self.config.long == "truncate"):
            raise ModelError(
                "it reads pairs of texts, but its options are for single ones: the file is damaged"
            )
        if self.learnt.get("choices") and (len(self.classes), self.reads_pairs) != (1, True):
            raise ModelError("it scores choices, but not by pairs of texts: the file is damaged")
        if shift is not None and len(shift) != len(self.classes):
            raise ModelError(
                f"{len(shift)} shifts for {len(self.classes)} classes: the file is damaged"
            )
        return super().array_specs(length)

    # ---- predicting

    def encode(self, examples: list[Any]) -> Encoded:
        """Encode examples as the network reads them."""
        if self.sizes.columns:
            return NumberInputs(
                self.sizes, self.config.max_length if self.config.long == "windows" else None
            ).encode(examples)
        inputs = self.text_inputs()
        if self.reads_pairs:
            assert isinstance(inputs, PublishedInputs)
            return inputs.encode_pairs(examples)
        return inputs.encode(examples)

    def steps_of(self, example: Any) -> tuple[Encoded, list[str]]:
        self.check_examples([example])
        encoded = self.encode([example])
        if self.sizes.columns:
            return encoded, list(map(str, range(int(encoded.row_offsets[-1]))))
        positions, words = explanation.steps_in_text(self, example)
        return encoded, [words[i] for i in positions.tolist()]

    def text_inputs(self) -> TextInputs | PublishedInputs:
        c, published = self.config, self.published
        if published is not None:
            return PublishedInputs(published, self.tokenizer, max_length=c.max_length, long=c.long)
        return TextInputs(
            self.tokenizer,
            max_length=c.max_length,
            long=c.long,
            characters=self.learnt.get("characters"),
        )

    def example_scores(self, scores: torch.Tensor, batch: Any) -> torch.Tensor:
        """Return the scores of the classes of each example (B, C); with windows, the mean over those of
        the document.
        """
        if self.config.long != "windows":
            return scores
        from seqloom.nn.composition import mean_by_example

        return mean_by_example(scores, batch["counts"])

    def _log_probs(self, network: Any, encoded: Encoded) -> np.ndarray:
        """Compute log-probabilities without temperature and shift, float64 (n, C)."""
        import torch

        from seqloom.models.sequence.sequence_net import batches_of

        log_probs = np.empty((len(encoded), len(self.classes)))
        with torch.inference_mode():
            for chosen, batch in batches_of(network, encoded):
                log_probs[chosen] = (
                    network.output.log_probs(self.example_scores(network(batch), batch).double())
                    .cpu()
                    .numpy()
                )
        return log_probs

    def _settled(self, log_probs: np.ndarray) -> np.ndarray:
        return shifted(
            log_probs,
            self.learnt.get("temperature", 1.0),
            self.learnt.get("shift"),
            self.multi_label,
        )

    def class_log_probs(self, examples: list[Any]) -> np.ndarray:
        encoded = self.encode(examples)
        if without_torch(self, len(examples)):
            return self._settled(log_probs_of(self._scores(encoded), self.multi_label))
        return self._settled(self._log_probs(self.network(), encoded))

    def _scores(self, encoded: Encoded) -> np.ndarray:
        """Return the scores of the classes of each example (E, C), without torch; with windows, their
        mean.
        """
        scores_of_parts = []
        for part, scores in outputs(self, encoded):
            if self.config.long == "windows":
                starts = part.first_row[:-1]
                scores = np.add.reduceat(scores, starts) / np.diff(part.first_row)[:, None].astype(
                    np.float32
                )
            scores_of_parts.append(scores)
        return (
            np.concatenate(scores_of_parts)
            if scores_of_parts
            else np.empty((0, len(self.classes)), np.float32)
        )

    def choose(self, context: str, choices: Sequence[str]) -> list[tuple[str, float]]:
        """Return the choices with their probabilities, the likeliest first, where the model was
        published for multiple choice: each is scored as the second text of a pair.
        """
        self.check_fitted()
        if not self.learnt.get("choices"):
            raise ConfigError(
                f"choose: this {self.name} was not published for multiple choice; call predict"
            )
        if isinstance(choices, str) or not len(choices):
            raise ConfigError("choose: give a list of choices, at least one")
        log_odds = odds(self.log_probs([(context, choice) for choice in choices]))
        probs = np.exp(log_softmax(log_odds.T)[0])
        return [(choices[i], float(probs[i])) for i in np.argsort(-probs, kind="stable").tolist()]

    def stream(self) -> ClassStream:
        """Start a stream of probabilities for an example that is still coming in: `feed(word)`, or
        `feed(row)` of numbers, returns what `predict_proba` returns for the input so far. For
        encoders that read in one direction.
        """
        self.check_fitted()
        c = self.config
        check_encoder(c)
        if c.long != "truncate":
            raise ConfigError(
                f"stream: long {c.long} divides a text when all of it is there; fit a model with "
                f"long truncate, "
                "or call predict"
            )
        network: SequenceNetwork = self.runtime()
        encoder_and_pool = network.encoder, RunningPool(network.output.pooling)

        def probs(vector: np.ndarray) -> dict[Any, float]:
            scores = network.output.scores(vector[None])
            probabilities = np.exp(self._settled(log_probs_of(scores, self.multi_label)))[0]
            return dict(zip(self.classes, probabilities.tolist()))

        if self.sizes.columns:
            return ClassStream(
                *encoder_and_pool,
                lambda row: network.read(self.encode([as_row(row)]).examples()),
                probs,
            )
        check_pieces(self.tokenizer)

        def read(text: str) -> np.ndarray:
            encoded = self.encode([text])
            return network.read(encoded.examples())[
                : int((encoded.steps["ids"] != self.tokenizer.eos_id).sum())
            ]

        return ClassStream(
            *encoder_and_pool, read, probs, network.read(self.encode([""]).examples()), c.max_length
        )

    def explain(
        self,
        text: Any,
        n: int = 10,
        *,
        label: Any = None,
        against: Any = None,
        method: str | None = None,
    ) -> Explanation:
        """Return the tokens that decided for a class (the likeliest) against another (the likeliest
        other), in nats, by integrated gradients; or by `method` occlusion, or attention.
        """
        self.check_fitted()
        if self.sizes.columns or len(self.classes) == 1:
            raise ConfigError("only texts of several classes are explained, no numbers")
        self.check_examples([text])
        return explanation.explain(self, text, n, label, against, method)

    def attention(self, text: Any) -> list[tuple[str, float]]:
        """Return, with pooling attention, the tokens of a text, or of a pair, and the weight of each
        in its vector.
        """
        self.check_fitted()
        self.check_examples([text])
        return explanation.attention(self, text)
