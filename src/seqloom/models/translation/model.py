"""What the networks that translate share: tokenizers of both sides, training on pairs, the Stepper,
scores and alignments.

A model defines its network (`build_fitted`, `take_runtime`). Networks have one interface: `encode`
gives the memory of a batch of sources, `features` reads given targets all at once, `start` and
`step` go token by token; `output` predicts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.config import MOST_TOKENS
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.saving import Kind
from seqloom.contracts.translation import Translator
from seqloom.contracts.translations import ReadSources
from seqloom.data.translation import Parallel
from seqloom.decoding.configs import TranslationConfig
from seqloom.decoding.stepper import Stepper, check_scores
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.models.network.network import NetworkModel, check_held_out, prepare, train_model
from seqloom.models.network.tracing import trace_pair
from seqloom.models.sequence.configs import Sizes, is_sizes, read_sizes
from seqloom.models.sequence.inputs import Encoded, NumberInputs, check_numbers
from seqloom.models.translation.pairs import (
    Decoder,
    EncodedPairs,
    EncodedSources,
    PairBatches,
    encode_texts,
    hold_out,
    in_source_order,
    make_tokenizer,
    short_enough,
    without_start,
)
from seqloom.runtime.readers import NumberReader, TokenReader
from seqloom.runtime.weights import Weights
from seqloom.traces import Trace

if TYPE_CHECKING:
    import torch

    from seqloom.models.sequence.sequence_net import InitialWeights, SequenceTraining
    from seqloom.models.translation.translation_net import NetworkDecoder
    from seqloom.training.config import TrainConfig

    class Mixin(NetworkModel, Translator): ...
else:
    Mixin = NetworkModel

TOKENS = 4096  # of a batch, both sides and padding
TOKENS_PER_PASS = 1 << 13  # tokens of both sides that are scored together
BLEU_PAIRS = 300  # held-out pairs that are translated where BLEU selects the weights
MAX_EPOCHS = 60.0  # where the time suffices for them


class TranslationModel(Mixin):
    """A mixin, written before the contract: `class Seq2Seq(TranslationModel, Translator)`."""

    config: Any
    learnt_values: ClassVar[dict[str, Kind]] = {
        **Translator.learnt_values,
        "sizes": is_sizes,
        **NetworkModel.network_values,
    }
    unused_training_options: ClassVar[dict[str, str]] = {
        "truncation": "pairs are read whole; leave it out",
        "random_truncation": "pairs are read whole; leave it out",
    }
    public_names = "trace"
    trace = trace_pair
    reverse_source: ClassVar[bool] = False

    # ---- what a network writes

    @abstractmethod
    def build_fitted(self, start: InitialWeights | None = None) -> torch.nn.Module:
        """Build the network, with weights from torch's random state; `start`: scales of the data."""

    @property
    @abstractmethod
    def d_embed(self) -> int:
        """Return the width of token vectors."""

    @property
    def start_ids(self) -> list[int]:
        """Return the tokens that the decoder reads before a target."""
        return [self.target_tokenizer.eos_id]

    @property
    def source_start(self) -> int | None:
        """Return the token before every source, if any."""
        return None

    @property
    def longest(self) -> int | None:
        """Return the greatest number of tokens of a source, or of a target with its start; None: any."""
        return None

    @property
    def backwards(self) -> bool:
        """Return whether texts are read from right to left; numbers never are."""
        return self.reverse_source and not self.sizes.columns

    # ---- fitting

    @property
    def sizes(self) -> Sizes:
        """Return the sizes of the sources."""
        return read_sizes(self.learnt)

    def fit_pairs(self, data: Parallel, options: FitOptions) -> None:
        texts, held_texts = hold_out(data, options.valid)
        start = self._begin(texts) if options.start is None else None
        train = self._encode_pairs(texts)
        longest_target = int(train.targets.lengths.max())
        most = self.config.max_length
        if self.longest is not None:  # the start tokens of a target need positions as well
            most = min(most, self.longest - len(self.start_ids) + 1)
        train = short_enough(train, most)
        config, device = prepare(self.name, options)
        held = None
        if held_texts is None:
            check_held_out(config)
        else:
            held = self._encode_pairs(held_texts)
            self.check_lengths(held.sources, "held-out source")
            self.check_lengths(held.targets, "held-out target")
            if held_texts is not options.valid:  # but a part of the data
                longest_target = max(longest_target, int(held.targets.lengths.max()))
        longest_source = int(train.sources.lengths.max()) - self.marks_of_sources or 1
        for name, longest in (
            ("longest_source", longest_source),
            ("longest_target", longest_target),
        ):
            # also of the model to start from
            self.learnt[name] = max(longest, self.learnt.get(name, 1))
        train_model(
            self,
            self._task(train, held, start, config),
            config,
            device,
            options,
            valid=None if held is None else held.data.fingerprint,
        )

    def _encode_pairs(self, data: Parallel) -> EncodedPairs:
        return EncodedPairs(
            data,
            self.encode_sources(data.sources),
            encode_texts(self.target_tokenizer, data.targets),
        )

    def _begin(self, data: Parallel) -> InitialWeights | None:
        """Set tokenizers and sizes; return the initial weights that come from the data."""
        from seqloom.models.sequence.sequence_net import InitialWeights

        c = self.config
        if data.numeric:
            if c.shared_vocabulary or c.source_tokenizer:
                raise ConfigError(
                    f"the sources of {data.name} are numbers, which have no tokens; leave out "
                    f"shared_vocabulary "
                    "and source_tokenizer"
                )
            sizes, mean, scale = check_numbers(data.sources, data.name)
            self.tokenizers = {
                "target": make_tokenizer(c.target_tokenizer or c.tokenizer, [data.targets], c)
            }
            self.learnt["sizes"] = sizes.to_dict()
            return InitialWeights(mean=mean, scale=scale)
        texts = data.source_texts
        target = make_tokenizer(
            c.target_tokenizer or c.tokenizer,
            [texts, data.targets] if c.shared_vocabulary else [data.targets],
            c,
        )
        source = (
            target
            if c.shared_vocabulary
            else make_tokenizer(c.source_tokenizer or c.tokenizer, [texts], c)
        )
        self.tokenizers = {"source": source, "target": target}
        self.learnt["sizes"] = Sizes(source.vocab_size, self.d_embed).to_dict()
        return None

    def _task(
        self,
        pairs: EncodedPairs,
        held: EncodedPairs | None,
        start: InitialWeights | None,
        train: TrainConfig,
    ) -> SequenceTraining:
        from seqloom.models.sequence.sequence_net import SequenceTraining
        from seqloom.models.translation.translation_net import pair_loss
        from seqloom.training.trainable import Criterion

        c, by_bleu = self.config, self.config.select_by == "bleu"
        held_out_score = None
        if held is not None:
            some = held.part(np.arange(min(len(held.data), BLEU_PAIRS)))

            def held_out_score(network: Any) -> float:
                if by_bleu:
                    return self._greedy_bleu(network, some)
                total = sum(
                    float(part.sum())
                    for part in self._log_probs(network, held.sources, held.targets)
                )
                return -total / len(held.targets.steps["ids"])

        batches = PairBatches(
            pairs.sources,
            pairs.targets,
            self.start_ids,
            most_tokens=TOKENS,
            batch_size=train.batch_size,
            seed=train.seed,
        )
        return SequenceTraining(
            batches,
            Criterion("bleu", higher_is_better=True) if by_bleu else Criterion("nats"),
            lambda: self.build_fitted(start),
            lambda network, batch: pair_loss(network, batch, c.scheduled_sampling, c.sampling_half),
            held_out_score,
            counted="tokens",
            enough_epochs=MAX_EPOCHS,
        )

    def _greedy_bleu(self, network: Any, pairs: EncodedPairs) -> float:
        from seqloom.decoding.beam import beam_search
        from seqloom.metrics.text_scores import bleu

        most = min(2 * int(pairs.targets.lengths.max()) + 10, (self.longest or MOST_TOKENS) - 1)
        translations: list[str] = [""] * len(pairs.data)
        for chosen in pairs.sources.buckets(TOKENS_PER_PASS):
            stepper = self.network_decoder(network, pairs.sources.part(chosen))
            hypotheses = beam_search(
                stepper, [np.zeros(0, np.int64)] * len(chosen), beams=1, max_tokens=most
            )
            for i, best in zip(chosen.tolist(), hypotheses):
                translations[i] = self.target_tokenizer.decode(best[0].ids)
        return bleu(translations, pairs.data.targets).value

    # ---- the network

    def make_reader(self, start: InitialWeights | None) -> Any:
        """Make the reader of the sources; None where they share the vectors of the targets."""
        from seqloom.nn import readers

        sizes = self.sizes
        if self.config.shared_vocabulary:
            return None
        if sizes.columns:
            scales = {"mean": start.mean, "scale": start.scale} if start else {}
            return readers.NumberReader(sizes.columns, missing=sizes.missing, **scales)
        return readers.TokenReader(sizes.vocab_size, sizes.d_embed)

    def take_reader(self, weights: Weights) -> Any:
        """Take the reader of the sources without torch; None where they share the vectors of the targets."""
        sizes, part = self.sizes, weights.within("reader")
        if self.config.shared_vocabulary:
            return None
        if sizes.columns:
            return NumberReader(part, sizes.columns, missing=sizes.missing)
        return TokenReader(part, sizes.vocab_size, sizes.d_embed)

    def array_specs(self, length: Length) -> dict[str, Spec]:
        sizes, source = self.sizes, self.tokenizers.get("source")
        if "target" not in self.tokenizers or (source is None) != bool(sizes.columns):
            raise ModelError(
                f"this {self.name} model has the tokenizers "
                f"{', '.join(self.tokenizers) or 'none'}: it is damaged"
            )
        if source is not None and source.vocab_size != sizes.vocab_size:
            raise ModelError(
                f"{sizes.vocab_size:,} vectors for {source.vocab_size:,} source tokens: tokenizer "
                f"and weights are "
                "of different models"
            )
        if self.config.shared_vocabulary and (
            source is None or source.vocab_size != self.target_tokenizer.vocab_size
        ):
            raise ModelError(
                f"this {self.name} model has one vocabulary but tokenizers of two sizes: it is damaged"
            )
        return super().array_specs(length)

    # ---- using it

    def encode_sources(self, sources: Any) -> Encoded:
        """Encode sources as the network reads them."""
        if self.sizes.columns:
            return NumberInputs(self.sizes).encode(sources)
        return encode_texts(
            self.tokenizers["source"], sources, reverse=self.backwards, first=self.source_start
        )

    @property
    def marks_of_sources(self) -> int:
        """Return how many steps of an encoded source are not tokens of its text: its end, and its start
        if it has one.
        """
        return 0 if self.sizes.columns else 1 + (self.source_start is not None)

    def check_lengths(self, encoded: Encoded, what: str) -> None:
        longest = int(encoded.lengths.max(initial=0))
        if self.longest is not None and longest > self.longest:
            raise DataError(
                f"a {what} has {longest:,} tokens, and this {self.name} model has positions for "
                f"{self.longest:,}; "
                "shorten or divide it"
            )

    def token_limit(self, how: TranslationConfig) -> int:
        limit = super().token_limit(how)
        if self.longest is None:
            return limit
        most = self.longest - len(self.start_ids)
        if how.max_tokens is not None and limit > most:
            raise ConfigError(
                f"max_tokens is {limit:,}; this {self.name} model has positions for {most:,}"
            )
        return min(limit, most)

    def decoder(self, sources: Any) -> Stepper:
        self.check_fitted()
        return self.read_sources(sources).decoder(range(len(sources)))

    def read_sources(self, sources: Any) -> ReadSources:
        return EncodedSources(self, sources)

    def encoded_decoder(self, encoded: Encoded) -> Stepper:
        """Return a Stepper for encoded sources: on a CPU without torch, where the calls of single steps
        take longer than the arithmetic.
        """
        if not self.net.on_cpu:
            return self.network_decoder(self.network(), encoded)
        self.check_lengths(encoded, "source")
        return Decoder(
            self.runtime(),
            encoded.examples(),
            self.target_tokenizer.eos_id,
            start=self.start_ids,
            backwards=self.backwards,
        )

    def network_decoder(self, network: Any, encoded: Encoded) -> NetworkDecoder:
        """Return a Stepper that runs the torch network."""
        from seqloom.models.translation.translation_net import NetworkDecoder

        target = self.target_tokenizer
        self.check_lengths(encoded, "source")
        return NetworkDecoder(
            network,
            encoded.batch(np.arange(len(encoded))),
            target.vocab_size,
            target.eos_id,
            start=self.start_ids,
            backwards=self.backwards,
        )

    def pair_log_probs(self, sources: Any, targets: list[str]) -> list[np.ndarray]:
        if self.reads_by_steps():
            return super().pair_log_probs(sources, targets)
        return self._log_probs(
            self.network(),
            self.encode_sources(sources),
            encode_texts(self.target_tokenizer, targets),
        )

    def _log_probs(self, network: Any, sources: Encoded, targets: Encoded) -> list[np.ndarray]:
        out: list[np.ndarray] = [np.empty(0, np.float32)] * len(targets)
        for chosen, features, token_ids in self._forced(network, sources, targets):
            flat = check_scores(
                network.output.token_log_probs(features, token_ids).float().cpu().numpy()
            )
            ends = np.cumsum(targets.lengths[chosen])
            for i, part in zip(chosen.tolist(), np.split(flat, ends[:-1])):
                out[i] = part
        return out

    def alignments(
        self, sources: Any, targets: list[str], *, layer: int | None = None, head: int | None = None
    ) -> list[np.ndarray] | None:
        """Return the attention weights of the source tokens, `</s>` last, for each target token,
        `</s>` last: (T, S). The mean over the layers and heads of a Transformer, or of one of them
        (from 0).
        """
        read, out = self.encode_sources(sources), [np.empty((0, 0), np.float32)] * len(targets)
        trace, encoded_targets = (
            Trace("*cross.weights"),
            encode_texts(self.target_tokenizer, targets),
        )
        for chosen, _, _ in self._forced(self.network(), read, encoded_targets, trace):
            if not trace:
                return None
            layers = [layer.float().cpu().numpy() for layer in trace.values()]
            # (B, layers, heads, T, S)
            weights = np.stack(layers, 1)[..., len(self.start_ids) - 1 :, :]
            weights = weights[:, _part(layer, weights.shape[1], "layer")][
                :, :, _part(head, weights.shape[2], "head")
            ]
            for i, attention in zip(chosen.tolist(), weights.mean((1, 2))):
                out[i] = (
                    attention[:, : read.lengths[i]]
                    if self.source_start is None
                    else without_start(attention[:, : read.lengths[i]])
                )
                if self.backwards:
                    out[i] = in_source_order(out[i], np.full(len(out[i]), read.lengths[i]))
        return [
            attention[:length] for attention, length in zip(out, encoded_targets.lengths.tolist())
        ]

    def _forced(
        self, network: Any, sources: Encoded, targets: Encoded, trace: Trace | None = None
    ) -> Iterator[tuple[np.ndarray, Any, Any]]:
        """Return batches of given targets (teacher forcing): the indices of the pairs, the features of
        each token (N, D), and the tokens (N,). The trace has all steps, from the first of `start_ids`
        on.
        """
        from seqloom.models.translation.translation_net import forced_features

        self.check_lengths(sources, "source")
        self.check_lengths(targets, "target")
        return forced_features(network, sources, targets, self.start_ids, TOKENS_PER_PASS, trace)


def _part(number: int | None, many: int, what: str) -> slice:
    """Return the slice of one layer or head, or of all."""
    if number is None:
        return slice(None)
    if not 0 <= number < many:
        raise ConfigError(f"{what} must be from 0 to {many - 1}; got {number}")
    return slice(number, number + 1)
