"""A text for every source.

A translator writes `decoder(sources)`: a Stepper that has read the sources, whose row i writes the
target of source i. From it come `translate` (beam search, greedy, drawn; the n best), `score` and
`evaluate`. A model that can score known targets faster overrides `pair_log_probs`. A model that
does not write token by token overrides `translate_batch`.

Sources are texts, or arrays of numbers (T, C), one row for each step. One source in, one
translation out; a list in, a list out. What a source becomes does not depend on the others beside
it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from seqloom import progress
from seqloom.batching import like_lengths
from seqloom.config import MAX_INTEGER, make
from seqloom.contracts.base import Model
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.saving import Kind, positive
from seqloom.contracts.starting import check_numeric
from seqloom.contracts.translations import (
    Answers,
    ReadSources,
    Translation,
    TranslationConfig,
    framed,
    search_batch,
    token_counts,
)
from seqloom.data.translation import Parallel
from seqloom.decoding.beam import BeamConfig, forced_log_probs
from seqloom.decoding.configs import BeamOptions
from seqloom.decoding.ensemble import Ensemble
from seqloom.decoding.stepper import Stepper
from seqloom.errors import ConfigError, DataError
from seqloom.metrics.result import Result, Signature
from seqloom.metrics.translation import evaluate_translations
from seqloom.text.file_names import refuse_existing_file
from seqloom.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from seqloom.contracts.fitting import Train

T = TypeVar("T")
Sources = list[Any]  # texts, or arrays
BATCH = 64  # sources that are translated together, of like length
PORTION = 20 * BATCH  # sources that are sorted by length
LONG_SOURCE = 1024  # tokens that are always translated


class Translator(Model):
    """A text for every source."""

    task: ClassVar[str] = "translator"
    public_names = "tokenizers translate score token_scores alignments evaluate"
    learnt_values: ClassVar[dict[str, Kind]] = {
        "longest_source": positive,
        "longest_target": positive,
    }
    primitives: ClassVar[tuple[str, ...]] = ("decoder", "translate_batch")

    # ---- what a model writes

    @abstractmethod
    def fit_pairs(self, data: Parallel, options: FitOptions) -> None:
        """Learn from pairs; it sets `tokenizers["source"]` (if sources are texts) and
        `tokenizers["target"]`.
        """

    def decoder(self, sources: Sources) -> Stepper:
        """Return a Stepper over target tokens; row i of `start(n)` belongs to source i."""
        raise NotImplementedError

    def read_sources(self, sources: Sources) -> ReadSources:
        """Return the sources as this model reads them."""
        return ReadSources(self, sources)

    def translate_batch(
        self, sources: Sources, how: TranslationConfig, nbest: int = 1
    ) -> list[list[Translation]]:
        """Return the best translations of each source, best first."""
        return search_batch(self, self.decoder(sources), range(len(sources)), how, nbest)

    def pair_log_probs(self, sources: Sources, targets: list[str]) -> list[np.ndarray]:
        """Return the natural-log probability of each token of each target, `</s>` last."""
        return forced_log_probs(self.decoder(sources), self.target_ids(targets))

    def alignments(self, sources: Sources, targets: list[str]) -> list[np.ndarray] | None:
        """Return how much each token of a target, `</s>` last, attends to each step of its source, of
        a text `</s>` last: (T, S). None: it does not.
        """
        return None

    @property
    def reads_numbers(self) -> bool:
        """Return whether its sources are arrays of numbers rather than texts."""
        return "source" not in self.tokenizers

    # ---- fitting

    def fit(
        self,
        data: Any,
        targets: Any = None,
        *,
        valid: Any = None,
        memory: int | str | None = None,
        train: Train = None,
        device: str | None = None,
        run: str | Path | None = None,
        start: str | Path | Model | None = None,
        **training: Any,
    ) -> Self:
        """Learn. `data`: sources, with `targets`; or a Parallel, a Path, a list of (source, target), a frame.

        `start`: of a network, a saved model of the same kind, whose weights, tokenizers and options training
        starts from.
        """
        pairs = Parallel.of(data, targets)
        held_out = None if valid is None else Parallel.of(valid)
        options = self.fit_options(memory, train, device, run, held_out, start, training=training)
        if held_out is not None and held_out.numeric != pairs.numeric:
            raise DataError(
                f"the sources of {pairs.name} and of {held_out.name} must both be texts or both be numbers"
            )
        if options.start is not None:
            check_numeric(
                pairs.numeric, options.start.model.reads_numbers, f"the sources of {pairs.name}"
            )
        with self.learning(options):
            self.fit_info = {
                "data": pairs.name,
                "data_hash": pairs.fingerprint[:16],
                "pairs": len(pairs),
                "source": pairs.source_name,
                "target": pairs.target_name,
            }
            self.fit_pairs(pairs, options)
            # A model that has counted them already, or left out pairs, has its own values.
            if "longest_source" not in self.learnt:
                self.learnt["longest_source"] = (
                    int(self.read_sources(pairs.sources).lengths.max()) or 1
                )
                self.learnt["longest_target"] = (
                    int(token_counts(self.target_tokenizer, pairs.targets).max()) + 1
                )
        return self

    # ---- the verbs

    def summary(self) -> str:
        pairs = self.recorded("pairs", 0)
        return f"{pairs:,} pair{'s' * (pairs != 1)}" if pairs else "pairs"

    @property
    def most_tokens(self) -> int:
        """Return the tokens after which a translation that does not end is cut off, where nothing else
        is given.
        """
        return 2 * int(self.learnt["longest_target"]) + 10

    def token_limit(self, how: TranslationConfig) -> int:
        """Return how many tokens a translation may have at most."""
        return how.max_tokens or self.most_tokens

    def check_source_lengths(self, lengths: np.ndarray, how: TranslationConfig, first: int) -> None:
        """Refuse sources that are much longer than any in training; `first`: the number of the first."""
        limit = how.max_source or max(4 * int(self.learnt["longest_source"]), LONG_SOURCE)
        if (lengths > limit).any():
            i = int(np.argmax(lengths > limit))
            raise DataError(
                f"source {first + i + 1:,} has {lengths[i]:,} {'steps' if self.reads_numbers else 'tokens'}, "
                f"more than {limit:,}; divide it, for example into sentences, or allow it: "
                f"max_source={lengths[i]}"
            )

    def translate(
        self,
        source: Any,
        *,
        nbest: int | None = None,
        ensemble: Sequence[Translator] = (),
        **options: Any,
    ) -> Any:
        """Translate a source, or each of a list. `options` are those of `TranslationConfig`: search,
        beams, length_penalty, max_tokens, ... With `nbest`, return a list of that many
        Translations, best first. `ensemble`: models that decide together with this one; their
        target tokens must be the same.
        """
        how = make(TranslationConfig, None, options)
        if nbest is not None and (nbest < 1 or how.search == "sample"):
            raise ConfigError(
                f"nbest must be at least 1 and needs search beam; got {nbest} and {how.search}"
            )
        single = isinstance(source, str) or (
            isinstance(source, np.ndarray) and source.ndim < 3 and source.dtype.kind in "fiub"
        )
        if not single and not isinstance(source, Iterable):
            raise DataError(f"expected a source or a list of them; got {type(source).__name__}")
        if isinstance(source, str):
            refuse_existing_file(source)
        sources = framed([source] if single else list(source))
        answers = self.translations(sources, how, nbest or 1, ensemble, scored=nbest is not None)
        self.remark_cut_off(answers.cut_off, len(answers), how)
        self.remark_long_sources(answers.long_sources, len(answers))
        results = [best if nbest is not None else best[0].text for best in answers]
        return results[0] if single else results

    def translations(
        self,
        sources: Sources,
        how: TranslationConfig | None = None,
        nbest: int = 1,
        ensemble: Sequence[Translator] = (),
        *,
        first: int = 0,
        scored: bool = True,
    ) -> Answers:
        """Return the best translations of each source: sources of like length together, answers in the
        order of the sources. `first`: the number of the first one, where these are a part of all; a
        source is drawn by its number. `scored` False: nobody looks at `log_prob` and `score`; they
        may be NaN, and greedy search is quicker for some models.
        """
        self.check_fitted()
        how = how or TranslationConfig()
        self.check_sources(sources)
        self._check_ensemble(ensemble)
        if how.prefix:
            self.check_writes("a prefix is continued")
        answers = Answers([[]] * len(sources))
        with progress.task("translating", len(sources), "sources") as bar:
            for start in range(0, len(sources), PORTION):
                part = sources[start : start + PORTION]
                read = [member.read_sources(part) for member in (self, *ensemble)]
                if self.writes_tokens:  # to others length does not matter
                    self.check_source_lengths(read[0].lengths, how, first + start)
                for chosen in self._batches(read[0]):
                    if (
                        not ensemble
                        and type(self).translate_batch is not Translator.translate_batch
                    ):
                        hypotheses = self.translate_batch([part[i] for i in chosen], how, nbest)
                    else:
                        steppers = [each.decoder(chosen) for each in read]
                        hypotheses = search_batch(
                            self,
                            Ensemble(steppers) if ensemble else steppers[0],
                            [first + start + i for i in chosen],
                            how,
                            nbest,
                            scored,
                        )
                    for i, best in zip(chosen, hypotheses):
                        answers[start + i] = best
                    bar.advance(len(chosen))
                if self.writes_tokens:
                    answers.long_sources += int(
                        np.count_nonzero(read[0].lengths > self.learnt["longest_source"])
                    )
        return answers

    def remark_cut_off(self, cut: int, n: int, how: TranslationConfig) -> None:
        """Say once for all n sources how many translations did not end."""
        if cut:
            progress.say(
                f"warning: {cut:,} of {n:,} translations did not end and were cut off after "
                f"{self.token_limit(how):,} tokens; max_tokens=... allows more"
            )

    def remark_long_sources(self, long: int, n: int) -> None:
        """Say once for all n sources how many are longer than any in training."""
        if long:
            progress.say(
                f"{long:,} of {n:,} source{'s are' if n > 1 else ' is'} longer than any in training "
                f"({self.learnt['longest_source']:,} "
                f"{'steps' if self.reads_numbers else 'tokens'}); expect worse translations"
            )

    def score(self, source: Any, target: Any) -> Any:
        """Return the natural-log probability of a target given its source, the end symbol included;
        lists in, a list out.
        """
        single = isinstance(target, str)
        sources, targets = ([source], [target]) if single else (list(source), list(target))
        sources = framed(sources)
        scores = [float(log_probs.sum()) for log_probs in self.token_scores(sources, targets)]
        return scores[0] if single else scores

    def token_scores(self, sources: Sources, targets: list[str]) -> list[np.ndarray]:
        """Return the natural-log probability of each target token:
        `tokenizers["target"].encode(target)`, then `</s>`.
        """
        return self.of_pairs(self.pair_log_probs, sources, targets)

    def of_pairs(
        self, what: Callable[[Sources, list[str]], list[T]], sources: Sources, targets: list[str]
    ) -> list[T]:
        """Call a function of sources and targets for all pairs, those of like length together."""
        self.check_fitted()
        self.check_sources(sources)
        if len(sources) != len(targets):
            raise DataError(
                f"every source needs a target; there are {len(sources):,} sources and "
                f"{len(targets):,} targets"
            )
        answers: dict[int, T] = {}
        for group in like_lengths([len(target) for target in targets], rows=BATCH):
            chosen = group.tolist()
            answers |= zip(chosen, what([sources[i] for i in chosen], [targets[i] for i in chosen]))
        return [answers[i] for i in range(len(sources))]

    def evaluate(
        self,
        data: Any,
        targets: Any = None,
        *,
        samples: int = 1000,
        how: TranslationConfig | None = None,
        **options: Any,
    ) -> Result:
        """Compute BLEU and chrF of the translations with intervals, exact matches, WER and CER,
        ROUGE-L, the nats of a target token, and quality by length of the source. `samples`: of the
        bootstrap, 0 for no interval; `options` as in `translate`.
        """
        pairs = Parallel.of(data, targets)
        how = make(TranslationConfig, how, options)
        self.remark_training_data(pairs.name, pairs.fingerprint)
        # data of one's own, which nobody else decides, is read whole
        unlimited = replace(how, max_source=how.max_source or MAX_INTEGER)
        answers = self.translations(pairs.sources, unlimited)
        self.remark_cut_off(answers.cut_off, len(answers), how)
        self.remark_long_sources(answers.long_sources, len(answers))
        metrics, details, notes = evaluate_translations(
            [best[0].text for best in answers], pairs.targets, pairs.sources, samples=samples
        )
        log_probs = self.token_scores(pairs.sources, pairs.targets)
        tokens = sum(map(len, log_probs))
        metrics["nats_per_token"] = -sum(float(some.sum()) for some in log_probs) / max(tokens, 1)
        metrics["cut_off"] = answers.cut_off
        return Result(metrics, self.signature(pairs, how), notes, details)

    def signature(
        self, data: Parallel | None = None, how: TranslationConfig | None = None
    ) -> Signature:
        """Return everything that the model's results depend on."""
        extras = self.training_extras()
        if how is not None:
            extras |= {
                "search": how.search,
                **(
                    {"beams": how.beams, "length_penalty": how.length_penalty}
                    if how.search == "beam"
                    else {"seed": how.seed}
                ),
            }
        return Signature(
            model=self.label(),
            tokenizer=self.tokenizer_label(),
            data=data.fingerprint[:8] if data else None,
            extras=extras,
        )

    # ---- tokens

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.tokenizers["target"]

    def target_ids(self, targets: Sequence[str]) -> list[np.ndarray]:
        """Return the tokens of each target, `</s>` last."""
        tokenizer = self.target_tokenizer
        return [
            np.append(tokenizer.encode(target), tokenizer.eos_id).astype(np.int64)
            for target in targets
        ]

    def _batches(self, read: ReadSources) -> list[list[int]]:
        """Return the indices of sources of like length, the longest first; a single batch stays as it
        is.
        """
        if len(read.sources) <= BATCH:
            return [list(range(len(read.sources)))]
        lengths = read.lengths if self.writes_tokens else [len(source) for source in read.sources]
        return [group.tolist() for group in like_lengths(lengths, rows=BATCH)]

    def check_sources(self, sources: Sources) -> None:
        for i, source in enumerate(sources):
            if self.reads_numbers and not (isinstance(source, np.ndarray) and source.ndim == 2):
                raise DataError(
                    f"this {self.name} model reads arrays of numbers (steps, columns); source {i + 1} is "
                    f"{type(source).__name__}"
                )
            if self.reads_numbers and len(source) > self.learnt["longest_source"] == 1:
                raise DataError(
                    f"this {self.name} model was fitted on single vectors; source {i + 1} has "
                    f"{len(source)} steps (several vectors are a list: translate(list(array)))"
                )
            if not self.reads_numbers and not isinstance(source, str):
                raise DataError(
                    f"expected a source text or a list of them; source {i + 1} is {type(source).__name__}"
                )

    @property
    def writes_tokens(self) -> bool:
        """Return whether it has a decoder, which writes token by token."""
        return type(self).decoder is not Translator.decoder

    def check_writes(self, what: str) -> None:
        """Refuse a model without a decoder; `what` needs one."""
        self.check_fitted()
        if not self.writes_tokens:
            raise ConfigError(f"{self.name} models do not write token by token, by which {what}")

    def _check_ensemble(self, others: Sequence[Translator]) -> None:
        for number, member in enumerate((self, *others) if others else (), 1):
            member.check_writes("an ensemble decides")
            if member.target_tokenizer != self.target_tokenizer:
                other, first = member.target_tokenizer.label(), self.target_tokenizer.label()
                raise ConfigError(
                    f"member {number} of the ensemble has other target tokens than the first "
                    f"({f'{other}, not {first}' if other != first else f'both have {other}'}); fit "
                    f"all members with the same target tokenizer"
                )

    def beam_config(self, how: TranslationConfig, nbest: int = 1) -> BeamConfig:
        """Return the options by which beam search finds what `translate` gives."""
        shared = {field.name: getattr(how, field.name) for field in fields(BeamOptions)}
        return BeamConfig(
            **shared | {"beams": max(how.beams, nbest)},
            nbest=nbest,
            max_tokens=self.token_limit(how),
        )
