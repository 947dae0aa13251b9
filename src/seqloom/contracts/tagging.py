"""One tag for every word of a sentence.

A tagger writes `tag(words)`, or `tag_ids(sentences)` where it is faster with many. Where tags mark
spans (BIO and its kin), `evaluate` also reads the spans and gives their F1 as the conlleval script
counts it. A tagger may work in another scheme than its data has (`works_in`); what it answers is in
the scheme of the data.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from seqloom import progress
from seqloom.contracts.base import Model
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.reading import each_batch
from seqloom.contracts.saving import Kind, names, one_of
from seqloom.contracts.slicing import slices_of_tagged
from seqloom.contracts.starting import tags_of_start
from seqloom.data.examples import values
from seqloom.data.spans import SCHEMES, Scheme, convert
from seqloom.data.tagging import Tagged, as_tagged
from seqloom.errors import DataError, ModelError
from seqloom.metrics import tagging
from seqloom.metrics.result import Result, Signature
from seqloom.metrics.result import latency as measure_latency
from seqloom.metrics.slices import length_record
from seqloom.text.file_names import refuse_existing_file

if TYPE_CHECKING:
    from seqloom.contracts.fitting import Train

BATCH = 2_000  # sentences that are tagged together


class Tagger(Model):
    """Which tag each word of a sentence has."""

    task: ClassVar[str] = "tagger"
    public_names = "tags predict score evaluate"
    primitives: ClassVar[tuple[str, ...]] = ("tag", "tag_ids")
    learnt_values: ClassVar[dict[str, Kind]] = {
        "tags": names,
        "working_tags": names,
        "scheme": one_of(None, *SCHEMES),
        "working_scheme": one_of(None, *SCHEMES),
    }

    @property
    def tags(self) -> list[str]:
        """Return the tags used inside the model, in the order of `tag_ids`."""
        return self.learnt.get("working_tags", [])

    @property
    def works_in(self) -> Scheme | None:
        """Return the tagging scheme used inside the model; None: that of the data."""
        return None

    # ---- what a model writes

    @abstractmethod
    def fit_sentences(self, data: Tagged, options: FitOptions) -> None:
        """Learn from tagged sentences; `tags` is already there, and sorted."""

    def tag(self, words: list[str]) -> list[str]:
        """Return the tag of each word of a sentence; for a tagger that does not write `tag_ids`."""
        raise NotImplementedError(f"{self.name} tags sentences by predict(sentences)")

    def tag_ids(self, sentences: list[list[str]]) -> list[np.ndarray]:
        """Return the index in `tags` of each word's tag, one array per sentence."""
        return [tag_indices(self.tags, words, self.tag(words)) for words in sentences]

    def sequences(self, sentences: Any) -> tuple[Any, bool]:
        """Return what `predict` was given as a list of sequences, and whether it was a single one: of
        words, unless a model that reads something else (frames) says otherwise.
        """
        rows: list[Any] = (
            sentences.split() if isinstance(sentences, str) else values(sentences, "sentences")
        )
        single = isinstance(sentences, str) or not rows or isinstance(rows[0], str)
        rows = [rows] if single else rows
        _check_words(rows, single)
        return rows, single

    def knows(self, word: str) -> bool:
        """Return whether the word was in the training data; evaluation tells known and unknown words
        apart.
        """
        return True

    # ---- fitting

    def fit(
        self,
        data: Any,
        tags: Any = None,
        *,
        valid: Any = None,
        memory: int | str | None = None,
        train: Train = None,
        device: str | None = None,
        run: str | Path | None = None,
        start: str | Path | Model | None = None,
        **training: Any,
    ) -> Self:
        """Learn. `data`: sentences, with `tags`; or a Tagged, a Path, or a list of (words, tags).

        `start`: of a network, a saved model of the same kind, whose weights, words, tags and options training
        starts from.
        """
        options = self.fit_options(
            memory,
            train,
            device,
            run,
            None if valid is None else as_tagged(valid),
            start,
            training=training,
        )
        tagged = as_tagged(data, tags)
        if not tagged.n_words:
            raise DataError(f"{tagged.name} has no words to learn from; give sentences with some")
        if len(tagged.tagset) == 1 and options.start is None:
            progress.say(
                f"{tagged.name} has only one tag, {tagged.tagset[0]!r}, which will be predicted for every "
                "word"
            )
        if options.start is None:
            work = tagged.converted(self.works_in) if tagged.scheme and self.works_in else tagged
        else:
            work = tags_of_start(tagged, options.start)
        with self.learning(options):
            if options.start is None:
                self.learnt = {
                    "tags": tagged.tagset,
                    "scheme": tagged.scheme,
                    "working_tags": work.tagset,
                    "working_scheme": work.scheme,
                }
            self.fit_info = {
                "data": tagged.name,
                "data_hash": tagged.fingerprint[:16],
                "sentences": len(tagged),
                "words": tagged.n_words,
                "lengths": length_record(list(map(len, tagged.sentences))),
            }
            self.fit_sentences(work, options)
        return self

    # ---- the verbs

    def summary(self) -> str:
        counts = {what: self.recorded(what, 0) for what in ("sentences", "words")} | {
            "tags": len(self.learnt["tags"])
        }
        return ", ".join(
            f"{n:,} {what if n != 1 else what.removesuffix('s')}" for what, n in counts.items() if n
        )

    def predict(self, sentences: Any) -> Any:
        """Predict the tags of a sentence (a list of words, or a text split at spaces), or of each
        sentence of a list of lists.
        """
        self.check_fitted()
        if isinstance(sentences, str):
            refuse_existing_file(sentences)
        rows, single = self.sequences(sentences)
        outside, inside, names = self.learnt["scheme"], self.learnt["working_scheme"], self.tags
        tagged = []
        with progress.task("tagging", len(rows), "sentences") as bar:
            batches = [rows[low : low + BATCH] for low in range(0, len(rows), BATCH)]
            for found in each_batch(self, "tag_ids", batches):
                for ids in found:
                    tags = [names[i] for i in ids.tolist()]
                    tagged.append(tags if inside == outside else convert(tags, inside, outside))
                bar.advance(len(found))
        return tagged[0] if single else tagged

    def score(self, data: Any, tags: Any = None) -> float:
        """Return the accuracy by words."""
        result = self.evaluate(data, tags, samples=0, examples=0)
        return float(result.metrics["accuracy"])  # type: ignore[arg-type]

    def evaluate(
        self,
        data: Any,
        tags: Any = None,
        *,
        slice_by: str | Sequence[str] = (),
        latency: bool = False,
        samples: int = 1000,
        examples: int = 3,
    ) -> Result:
        """Compute the accuracy of known and unknown words, F1 of spans where tags mark them,
        confusion, and errors by kind.

        `data` and `tags`: as `fit` takes them. `slice_by`: also by parts of the data: "length" of
        the sentences, "class" (the tag of a word), "unknown" (the share of unknown words);
        `latency`: how long predictions take. `samples`: of the bootstrap, 0 for no intervals;
        `examples`: words that are shown of each kind of error.
        """
        self.check_fitted()
        gold, scheme = as_tagged(data, tags), self.learnt["scheme"]
        self.remark_training_data(gold.name, gold.fingerprint)
        if gold.scheme and scheme:
            gold = gold.converted(scheme)
        predicted = self.predict(gold.sentences)
        # Tags of the answers too: spans may meet as never in training.
        tagset = sorted({*self.learnt["tags"], *chain.from_iterable(predicted)})
        metrics, details, notes = tagging.evaluate_tags(
            gold, predicted, tagset, self.knows, samples=samples, examples=examples
        )
        if slice_by:
            knows = None if type(self).knows is Tagger.knows else self.knows
            details["slices"] = slices_of_tagged(self, gold, predicted, knows, slice_by, samples)
        if latency:
            metrics |= measure_latency(self.predict, gold.sentences)
        return Result(metrics, self.signature(gold), notes, details)

    def signature(self, data: Tagged | None = None) -> Signature:
        """Return everything that the model's results depend on."""
        extras = {
            **self.training_extras(),
            **({"scheme": data.scheme} if data and data.scheme else {}),
        }
        return Signature(
            model=self.label(), data=data.fingerprint[:8] if data else None, extras=extras
        )


def tag_indices(tagset: list[str], words: list[str], tags: list[str]) -> np.ndarray:
    """Return the index of each tag of a sentence in the tagset; refuse tags that are not in it."""
    if len(tags) != len(words):
        raise ModelError(
            f"tag(words) gave {len(tags)} tags for {len(words)} words; it must give one for each"
        )
    index = {tag: i for i, tag in enumerate(tagset)}
    if strange := [tag for tag in tags if tag not in index]:
        raise ModelError(
            f"tag(words) gave {strange[0]!r}, which is not one of self.tags: {', '.join(tagset)}"
        )
    return np.array([index[tag] for tag in tags], np.int64)


def _check_words(rows: list[list[str]], single: bool) -> None:
    """Refuse values that are not words, and a list of sentences that would be taken for one of words."""
    lists = all(isinstance(row, (list, tuple, np.ndarray)) for row in rows)
    if not lists or not all(
        issubclass(kind, str) for kind in set(map(type, chain.from_iterable(rows)))
    ):
        raise DataError(
            "words must be text: a sentence is a text or a list of words, several sentences are a "
            "list of lists"
        )
    if single and any(len(word.split()) > 1 for word in rows[0]):
        raise DataError(
            "a list of text is one sentence, so none of its words may contain a space; give several "
            "sentences as lists of words: [text.split() for text in texts]"
        )
