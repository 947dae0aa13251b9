"""A network that answers questions by a span of a context: reader, encoder, and two scores for each token,
that the answer begins and that it ends there (Devlin et al. 2019, section 4.2; with encoders that are
trained here Weissenborn et al. 2017).

    >>> facts = [(f"what is {a} ?", f"{a} is {b} . c is d .", b) for a in "xyz" for b in "pqrs"]
    >>> model = NeuralAnswerer(encoder="gru", d_hidden=32).fit(facts, train=TrainConfig(steps=60))
    >>> model.predict("what is y ?", "y is q . c is d .").text
    'q'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.batching import ranges
from seqloom.contracts.answering import Answerer, Found
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.saving import Kind, names, optional
from seqloom.data.answering import Questions
from seqloom.errors import ModelError
from seqloom.metrics.answering import answer_scores
from seqloom.models.answering.configs import NeuralAnswererConfig
from seqloom.models.answering.windows import WindowInputs, Windows
from seqloom.models.classification.beginning import begin_with_texts
from seqloom.models.sequence.configs import Sizes
from seqloom.models.sequence.model import (
    SequenceModel,
    features_of,
    held_out,
    open_published,
    outputs,
    take_published,
    train_sequence,
    without_torch,
)
from seqloom.models.sequence.streaming import take_reader_and_encoder
from seqloom.runtime.composition import SequenceNetwork, SpanHead
from seqloom.runtime.weights import Weights
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from seqloom.models.sequence.inputs import Encoded
    from seqloom.models.sequence.published import Opened
    from seqloom.models.sequence.sequence_net import InitialWeights, SequenceTraining


class NeuralAnswerer(SequenceModel, Answerer):
    name = "answerer"
    config_class = NeuralAnswererConfig
    learnt_values: ClassVar[dict[str, Kind]] = {
        **Answerer.learnt_values,
        **SequenceModel.sequence_values,
        "characters": optional(names),
    }

    # ---- fitting

    def fit_questions(self, data: Questions, options: FitOptions) -> None:
        # Questions on one context are on the same side.
        nothing: list[tuple[Any, ...]] = [()] * len(data)
        data, valid = held_out(self.config.hold_out, data, options, data.contexts, nothing)
        opened, start = self._begin(data, options)
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
            self.choose_threshold(valid)

    def _begin(self, data: Questions, options: FitOptions) -> tuple[Opened | None, InitialWeights]:
        """Set what the network needs before it is built; return its published encoder, if any, and
        its initial weights.
        """
        from seqloom.models.sequence.sequence_net import InitialWeights

        c = self.config
        if options.start is not None:
            opened = take_published(self, options.start)
            if opened is None:
                return None, self._continue(data)
        elif c.published:
            opened = open_published(self)
            layout = opened.published.layout
            self.learnt["sizes"] = Sizes(opened.tokenizer.vocab_size, layout.d_model).to_dict()
        else:
            seed = (options.train or TrainConfig()).seed
            start = begin_with_texts(self, data.texts, seed)
            self.window_inputs()  # which refuses a tokenizer that loses the places of its tokens
            self.tokenizer.locate("")
            return None, start
        if c.frozen:
            return opened, InitialWeights(d_precomputed=opened.published.layout.d_model)
        return opened, InitialWeights(weights=opened.weights if options.start is None else None)

    def _continue(self, data: Questions) -> InitialWeights:
        """Return what a network that starts from a fitted model needs of the data."""
        from seqloom.models.sequence.sequence_net import InitialWeights

        size = self.sizes.vocab_size
        ids = np.concatenate([self.tokenizer.encode(text) for text in data.texts])
        return InitialWeights(
            counts=np.bincount(ids, minlength=size)[:size],
            word_dropout=self.config.word_dropout,
            unk_id=self.tokenizer.unk_id,
        )

    def _reading(self, opened: Opened | None, device: torch.device) -> Callable[[Encoded], Encoded]:
        """Return a function applied to windows before training: a frozen encoder that reads them once,
        or the identity.
        """
        if opened is None or not self.config.frozen:
            return lambda encoded: encoded
        features = features_of(self, opened, device)

        def read(encoded: Encoded) -> Encoded:
            vectors = features(encoded)
            vectors.steps["allowed"] = encoded.steps["allowed"]
            return vectors

        return read

    def _task(
        self,
        data: Questions,
        valid: Questions | None,
        start: InitialWeights,
        train: TrainConfig,
        read: Callable[[Encoded], Encoded],
    ) -> SequenceTraining:
        from seqloom.models.sequence.sequence_net import SequenceTraining, example_batches
        from seqloom.training.trainable import Criterion

        def losses(network: Any, batch: Any) -> torch.Tensor:
            return network.output.loss(network(batch.arrays), batch["targets"], batch["allowed"])

        held_out_score = None
        if valid is not None:
            held = self._encode(valid.pairs)
            inputs = read(held.encoded)

            def held_out_score(network: Any) -> float:
                found = self._best(held, self._scores(network, inputs), len(valid))
                texts = [
                    context[one.start : one.end] if one.no_answer <= self.threshold else ""
                    for context, one in zip(valid.contexts, found)
                ]
                return float(answer_scores(valid, texts)[:, 1].mean())

        windows = self._encode(data.pairs)
        batches = example_batches(read(windows.encoded), train, windows.targets(data.answers))
        return SequenceTraining(
            batches,
            Criterion("F1", higher_is_better=True),
            lambda: self.build_fitted(start),
            losses,
            held_out_score,
            "windows",
        )

    # ---- the network

    def build_fitted(self, start: InitialWeights | None = None) -> torch.nn.Module:
        from seqloom.models.sequence.sequence_net import make_reader_and_encoder
        from seqloom.nn import composition

        c, sizes = self.config, self.sizes
        reader, encoder = make_reader_and_encoder(c, sizes, start, self.published, sizes.vocab_size)
        head = composition.SpanHead(encoder.d_out)
        return composition.SequenceNetwork(reader, encoder, head, dropout=c.drops)

    def take_runtime(self, weights: Weights) -> SequenceNetwork:
        sizes = self.sizes
        reader, encoder = take_reader_and_encoder(
            weights, self.config, sizes, self.published, sizes.vocab_size
        )
        return SequenceNetwork(reader, encoder, SpanHead(weights.within("output"), encoder.d_out))

    def array_specs(self, length: Length) -> dict[str, Spec]:
        sizes = self.sizes
        if self.tokenizer.vocab_size != sizes.vocab_size + sizes.further:
            raise ModelError(
                f"{sizes.vocab_size + sizes.further:,} token vectors for a vocabulary of "
                f"{self.tokenizer.vocab_size:,}: tokenizer and weights are of different models"
            )
        return super().array_specs(length)

    # ---- answering

    def window_inputs(self) -> WindowInputs:
        """Return what turns questions and contexts into windows."""
        return WindowInputs(
            self.config, self.tokenizer, self.published, self.learnt.get("characters")
        )

    def _encode(self, pairs: list[tuple[str, str]]) -> Windows:
        return self.window_inputs().encode(pairs)

    def steps_of(self, example: Any) -> tuple[Encoded, list[str]]:
        encoded = self._encode([example]).encoded
        return encoded, [self.tokenizer.token(i) for i in encoded.steps["ids"].tolist()]

    def _scores(self, network: Any, encoded: Encoded) -> np.ndarray:
        """Return the scores of all steps, (N, 2), by the network of torch."""
        import torch

        from seqloom.models.sequence.sequence_net import batches_of

        out = np.zeros((int(encoded.row_offsets[-1]), 2), np.float32)
        lengths = encoded.lengths
        with torch.inference_mode():
            for chosen, batch in batches_of(network, encoded):
                scores = network(batch).float().cpu().numpy()
                inside = np.arange(scores.shape[1]) < lengths[chosen][:, None]
                out[ranges(encoded.row_offsets[chosen], lengths[chosen])] = scores[inside]
        return out

    def _best(self, windows: Windows, scores: np.ndarray, questions: int) -> list[Found]:
        return windows.best(scores, questions, self.config.max_answer)

    def find_spans(self, pairs: list[tuple[str, str]]) -> list[Found]:
        return self._best(*self.window_scores(pairs), len(pairs)) if pairs else []

    def window_scores(self, pairs: list[tuple[str, str]]) -> tuple[Windows, np.ndarray]:
        """Return the windows of questions on contexts, and the scores (N, 2) of all their steps: that
        the answer begins, and that it ends there.
        """
        windows = self._encode(pairs)
        if without_torch(self, len(windows.examples)):
            parts = [scores for _, scores in outputs(self, windows.encoded)]
            return windows, np.concatenate(parts)
        return windows, self._scores(self.network(), windows.encoded)
