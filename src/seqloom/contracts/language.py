"""A probability for every text.

A language model writes `next_log_probs(context)`: the tokens so far in, the log-probabilities of
the next one out; or, not to read the context again for each token, `stepper()`: a state that a
token moves forward. From either come scoring, perplexity, bits per byte, generation and completion.
Faster scoring of known text overrides `sequence_log_probs` (`seqloom.testing` compares the two).

Units of text: with `unit="line"` each line is a sequence and `</s>` is its newline; with `document`
each file is; with `stream` the whole text, with one `</s>` at its end. `score` is a natural logarithm.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np

from seqloom.config import TextConfig, Unit
from seqloom.contracts.base import Model
from seqloom.contracts.fitting import FitOptions, text_record
from seqloom.contracts.reading import (
    PORTION,
    Reading,
    TextReading,
    continued_by_context,
    continued_by_steps,
    score_batch,
    sums,
    tally,
)
from seqloom.contracts.starting import check_tokenizer_alone
from seqloom.contracts.transforming import TextTransformer, hidden_of, mean_states
from seqloom.data.corpus import Corpus, as_corpus
from seqloom.data.encode import encode_corpus
from seqloom.decoding.generation import Decoders, draft_of
from seqloom.decoding.stepper import ContextStepper, Stepper, sized, stepper_log_probs
from seqloom.errors import ConfigError, DataError
from seqloom.metrics import bootstrap
from seqloom.metrics.language import SegmentCosts, corpus_bytes, unit_lengths
from seqloom.metrics.result import Result, Signature, Value
from seqloom.text.file_names import refuse_existing_file
from seqloom.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from seqloom.contracts.fitting import Train
    from seqloom.decoding.completion import Suggestion
    from seqloom.decoding.generation import Generator
    from seqloom.models.language.dynamic import DynamicEvaluation


class LanguageModel(TextTransformer, Model):
    """A probability for every text."""

    task: ClassVar[str] = "language model"
    public_names = (
        "tokenizer encode score token_scores perplexity bits_per_byte evaluate generate stream "
        "complete hidden"
    )
    threaded: ClassVar[bool] = False  # whether scoring is faster on several Python threads
    config_class: ClassVar[type[TextConfig]] = TextConfig
    primitives: ClassVar[tuple[str, ...]] = ("next_log_probs", "stepper")
    members: list[LanguageModel]

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._decoders = Decoders()

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the decoders, for copies, which may be fitted apart from this model."""
        return self.__dict__ | {"_decoders": Decoders()}

    @property
    def quantizable(self) -> bool:
        """Return whether its weights can be rounded to 8 bits."""
        return self.trained

    @property
    def context(self) -> int | None:
        """Return the number of past tokens that it can see; None: all."""
        return None

    @property
    def unit(self) -> Unit:
        """Return what one sequence is: line, document or stream."""
        return self.config.unit

    @property
    def carry(self) -> bool:
        """Return whether its state crosses units, so that a whole text is one sequence."""
        return False

    # ---- what a model writes

    @abstractmethod
    def fit_ids(self, ids: np.ndarray, options: FitOptions) -> None:
        """Learn from token ids; every unit is closed by `</s>`."""

    def next_log_probs(self, context: np.ndarray) -> np.ndarray:
        """Return the natural-log probability (V,) of each token that may come next. `context`: the ids
        of the sequence so far, int64, which begins with the `</s>` of the sequence before; only the
        last `self.context` of them where that is a number.

        For a model that writes no stepper.
        """
        raise NotImplementedError

    def stepper(self, *, eight_bit: bool = False) -> Stepper:
        """Return the model as a state that a token moves forward; `eight_bit`: with its weights, if it
        has any, rounded to 8 bits.

        Threads share it, so it changes nothing of its own after it was made, and all that it gives
        out are new arrays.
        """
        return ContextStepper(
            self.next_log_probs, self.tokenizer.vocab_size, self.tokenizer.eos_id, self.context
        )

    def sized_stepper(self, *, eight_bit: bool = False) -> Stepper:
        """Return `stepper`, with the sizes of the tokenizer where it says none of its own."""
        return sized(
            self.stepper(eight_bit=eight_bit), self.tokenizer.vocab_size, self.tokenizer.eos_id
        )

    def sequence_log_probs(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the natural-log probability of each token, float32, flat like `ids`: sequences of
        `lengths` tokens, `</s>` included.

        This is the slow way that every model has.
        """
        return stepper_log_probs(self.stepper(), ids, lengths)

    def text_log_probs(self, ids: np.ndarray) -> np.ndarray:
        """Return the natural-log probability of each token of one text of units that `</s>` closes."""
        lengths = np.array([len(ids)]) if self.carry else unit_lengths(ids, self.tokenizer.eos_id)
        return self.sequence_log_probs(ids, lengths)

    def hidden_states(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the state before each token, float32 (N, D), of sequences of `lengths` tokens; for a
        model that has such a vector.
        """
        raise ConfigError(
            f"{self.name} models have no hidden state; take an nplm, rnn, lstm, gru, gpt or hmm"
        )

    @property
    def portion(self) -> int:
        """Return the number of tokens of a long text to score at a time."""
        return PORTION

    def continue_log_probs(self, ids: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        """Return the log-probabilities of the next stretch of one sequence, and the state to hand in
        with the one after it; None at its beginning.
        """
        continued = continued_by_steps if self.context is None else continued_by_context
        return continued(self, ids, state)

    def reading(self) -> Reading:
        """Return a function that scores consecutive portions of one text: ids to log-probabilities."""
        return TextReading(self)

    # ---- fitting

    def fit(
        self,
        data: Any,
        *,
        valid: Any = None,
        tokenizer: Tokenizer | None = None,
        memory: int | str | None = None,
        train: Train = None,
        device: str | None = None,
        run: str | Path | None = None,
        start: str | Path | Model | None = None,
        **training: Any,
    ) -> Self:
        """Learn. `data`: a Corpus, a Path, the text itself, or a list, generator or column of units, which
        are texts or lists of words.

        `tokenizer`: a fitted one to share between models; else one is made as the config says. `memory`: how
        much counting may use before it goes to disk, in bytes or like "800M". For networks: `train` says how
        (`train={"steps": 200}`, a TrainConfig, or its options by themselves: `steps=200`), `device` where,
        and `run` is a directory for checkpoints, from which a run that was cut off goes on;
        `start`: a saved model of the same kind, whose weights, tokenizer and options training starts from.
        """
        options = self.fit_options(memory, train, device, run, start=start, training=training)
        check_tokenizer_alone(tokenizer, options)
        corpus = as_corpus(data)
        with self.learning(options):
            if options.start is None:
                self.tokenizer = tokenizer or self._make_tokenizer(corpus)
            ids = encode_corpus(self.tokenizer, corpus, unit=self.unit)
            if valid is not None and self.trained:  # other models do not use it
                options = replace(
                    options, valid=encode_corpus(self.tokenizer, as_corpus(valid), unit=self.unit)
                )
            units = int(np.count_nonzero(ids == self.tokenizer.eos_id))
            self.fit_info = text_record(corpus, len(ids), units)
            self.fit_ids(ids, options)
        self._decoders = Decoders()  # only now: decoders made during the fit have the old weights
        return self

    def make_tokenizer(self, data: Any) -> Tokenizer:
        """Make the tokenizer that `fit` would make from this text."""
        return self._make_tokenizer(as_corpus(data))

    # ---- the verbs

    def check_fitted(self) -> None:
        if not self.tokenizers:  # with a tokenizer it may be asked while it is still being fitted
            super().check_fitted()

    def summary(self) -> str:
        tokens = self.recorded("tokens", 0)  # which an ARPA file does not tell
        return self.tokenizer.label() + (f", {tokens:,} tokens" if tokens else "")

    def encode(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of a text, `</s>` at the end of each unit, and how many each unit has."""
        tokenizer = self.tokenizer
        by_line = self.unit == "line"
        if by_line and text.endswith("\n"):
            text = text[:-1]
        ids = np.append(tokenizer.encode(text, newline_ends=by_line), tokenizer.eos_id).astype(
            np.int64
        )
        return ids, unit_lengths(ids, tokenizer.eos_id)

    @overload
    def score(self, text: str) -> float: ...
    @overload
    def score(self, text: list[str]) -> list[float]: ...
    def score(self, text: str | list[str]) -> float | list[float]:
        """Return the natural-log probability of the whole text, the end symbol of each unit included."""
        if isinstance(text, str):
            refuse_existing_file(text)
            return float(sums(score_batch(self, [text]))[0])
        return [score for scored in self._scores(text) for score in sums(scored).tolist()]

    @overload
    def token_scores(self, text: str) -> list[float]: ...
    @overload
    def token_scores(self, text: list[str]) -> list[list[float]]: ...
    def token_scores(self, text: str | list[str]) -> list[float] | list[list[float]]:
        """Return the natural-log probability of each token; the tokens are `tokenizer.encode(text)`
        with `</s>` at each unit's end.
        """
        if isinstance(text, str):
            refuse_existing_file(text)
            return score_batch(self, [text])[0].tolist()
        return [
            part.tolist()
            for log_probs, starts in self._scores(text)
            for part in np.split(log_probs, starts[1:])
        ]

    def _scores(self, texts: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield what `score_batch` gives, for one batch of texts after another."""
        from seqloom.kernels.parallel import parallel_map, text_batches

        self.check_fitted()
        if wrong := [text for text in texts if not isinstance(text, str)]:
            raise DataError(
                f"expected a text or a list of texts; the list holds {type(wrong[0]).__name__}"
            )
        one, batches = partial(score_batch, self), text_batches(texts)
        return parallel_map(one, batches) if self.threaded else map(one, batches)

    def hidden(self, texts: str | Sequence[str]) -> Any:
        """Return tokens and vectors of a text: the state after each token, from which the next one is
        predicted, `</s>` before the first one included; for a list, a list.
        """
        return hidden_of(self, texts)

    def text_vectors(self, texts: list[str]) -> np.ndarray:
        return mean_states(self, texts)

    def perplexity(self, data: Any) -> float:
        """Return exp of the mean negative log-probability of a token, end symbols included."""
        return tally(self, as_corpus(data)).perplexity

    def bits_per_byte(self, data: Any) -> float:
        """Return the cross-entropy of the data in bits per byte; needs a lossless tokenizer."""
        value = self.evaluate(data, samples=0)["bits_per_byte"]
        if not isinstance(value, float):
            raise ConfigError(f"bits per byte need a lossless tokenizer; {self.tokenizer.loses()}")
        return value

    def evaluate(
        self,
        data: Any,
        *,
        split: str | None = None,
        samples: int = 1000,
        dynamic: bool = False,
        dynamic_lr: float | None = None,
    ) -> Result:
        """Compute likelihoods of held-out data with a bootstrap interval, and the signature that
        reproduces them.

        `dynamic`: a copy of a network learns from each stretch of the data after it was scored, at
        the rate `dynamic_lr`.
        """
        corpus, tokenizer = as_corpus(data), self.tokenizer
        self.remark_training_data(corpus.name, corpus.fingerprint, corpus.file_hashes)
        if dynamic_lr is not None and not dynamic:
            raise ConfigError("dynamic_lr is for dynamic evaluation; turn it on with dynamic")
        adapting = self.adapting(dynamic_lr) if dynamic else None
        costs = SegmentCosts(tokenizer, self.unit, corpus) if samples else None
        totals = tally(self, corpus, adapting.reading() if adapting else None, costs)
        metrics: dict[str, Value] = dict(totals.summary(corpus_bytes(corpus, self.unit)))
        notes: list[str] = []
        if not tokenizer.lossless:
            metrics["bits_per_byte"] = None
            notes.append(f"no bits per byte: {tokenizer.loses()}")
        if metrics["zero_tokens"]:
            notes.append(
                f"{metrics['zero_tokens']:,} tokens have probability zero, so the perplexity is infinite; "
                "smooth more: another smoothing than maximum-likelihood, or a larger k"
            )
        if costs is not None:
            low, high = bootstrap.interval(*costs.result(), samples=samples)
            name = "bits_per_byte_interval" if tokenizer.lossless else "nats_per_token_interval"
            scale = math.log(2) if tokenizer.lossless else 1.0
            metrics[name] = (low / scale, high / scale)
        signature = self.signature(corpus, split)
        if adapting is not None:
            signature = replace(signature, extras={**signature.extras, "dynamic": str(adapting)})
        return Result(metrics, signature, tuple(notes))

    def adapting(self, lr: float | None) -> DynamicEvaluation:
        """Return dynamic evaluation with this learning rate; for networks."""
        raise ConfigError(
            f"dynamic evaluation is for networks, which learn by gradients; this model is {self.name}"
        )

    def signature(self, corpus: Corpus | None = None, split: str | None = None) -> Signature:
        """Return everything that the model's results depend on."""
        return Signature(
            model=self.label(),
            tokenizer=self.tokenizer_label(),
            unit=self.unit,
            carry=self.carry,
            context=self.context,
            split=split,
            data=corpus.fingerprint[:8] if corpus else None,
            extras=self.training_extras(),
        )

    def generate(
        self,
        prompt: str | list[str] = "",
        *,
        stop: Sequence[str] = (),
        beams: int | None = None,
        length_penalty: float = 1.0,
        eight_bit: bool = False,
        draft: LanguageModel | None = None,
        draft_tokens: int = 4,
        **options: Any,
    ) -> Any:
        """Continue a prompt, or a list of prompts; return the new text only.

        `options` are those of `SamplingConfig`: max_tokens, min_tokens, allow_eos, temperature,
        top_k, top_p, repetition_penalty, seed. A model whose unit is a stream does not end its text
        unless `allow_eos` says so. With `beams` the likeliest text is searched for instead of
        drawn. `eight_bit`: a network's weights are rounded to 8 bits, which is faster and a little
        less exact. `draft`: a quicker model with the same tokenizer that proposes `draft_tokens`
        tokens at a time, which this model checks together; texts are distributed as without it.
        """
        from seqloom.decoding.sampling import SamplingConfig

        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        config = SamplingConfig.from_dict(options)
        self.remark_prompts(prompts)
        texts = self.generator(eight_bit=eight_bit).generate(
            prompts, config, stop, beams, length_penalty, draft_of(draft, draft_tokens)
        )
        return texts[0] if isinstance(prompt, str) else texts

    def stream(
        self,
        prompt: str = "",
        *,
        stop: Sequence[str] = (),
        eight_bit: bool = False,
        draft: LanguageModel | None = None,
        draft_tokens: int = 4,
        **options: Any,
    ) -> Iterator[str]:
        """Yield what `generate` gives for one prompt, piece by piece as it is drawn."""
        from seqloom.decoding.sampling import SamplingConfig

        self.remark_prompts([prompt])
        return self.generator(eight_bit=eight_bit).stream(
            prompt, SamplingConfig.from_dict(options), stop, draft_of(draft, draft_tokens)
        )

    def remark_prompts(self, prompts: Sequence[str]) -> None:
        """Say which part of the prompts the model will not see; nothing for an n-gram model, where it
        is no surprise.
        """

    def complete(self, text: str = "", n: int = 5, *, eight_bit: bool = False) -> list[Suggestion]:
        """Return the n most likely next words, or completions of the last word if it is unfinished."""
        from seqloom.decoding.completion import Completer

        if n < 1:
            raise ConfigError(f"n must be at least 1; got {n}")
        return Completer(self.generator(eight_bit=eight_bit)).complete(text, n)

    def generator(self, *, eight_bit: bool = False) -> Generator:
        """Return the decoder of `generate`, `stream` and `complete`, shared by calls and threads until
        the model is fitted again.
        """
        tokenizer = self.tokenizer
        if eight_bit and not self.quantizable:
            raise ConfigError(
                f"eight_bit rounds the weights of networks; this model is {self.name}"
            )
        return self._decoders.get(
            eight_bit, self._member_decoders(), partial(self._make_generator, tokenizer, eight_bit)
        )

    def _make_generator(self, tokenizer: Tokenizer, eight_bit: bool) -> Generator:
        from seqloom.decoding.generation import Generator

        return Generator(
            self.sized_stepper(eight_bit=eight_bit),
            tokenizer,
            by_line=self.unit == "line",
            endless=self.unit == "stream",
        )

    def _member_decoders(self) -> list[Decoders]:
        return [decoders for m in self.members for decoders in (m._decoders, *m._member_decoders())]
