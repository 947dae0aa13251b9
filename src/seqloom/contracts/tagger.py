"""One tag for every word of a sentence.

A tagger writes `tag_ids(sentences)`. Where tags mark spans (BIO and its kin), `evaluate` also reads the spans and gives
their F1 as the conlleval script counts it. A tagger may work in another scheme than its data has (`works_in`); what it
answers is in the scheme of the data.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from seqloom import progress
from seqloom.config import parse_size
from seqloom.contracts.base import Fitting, Model
from seqloom.data.spans import Scheme, convert
from seqloom.data.tagged import Tagged, as_tagged
from seqloom.metrics import tagging
from seqloom.metrics.result import Result, Signature

if TYPE_CHECKING:
    from seqloom.training.config import TrainConfig

BATCH = 2_000  # sentences that are looked at together


class Tagger(Model):
    """Which tag each word of a sentence has."""

    task: ClassVar[str] = "tagger"

    @property
    def tags(self) -> list[str]:
        """The tags that it works with, in the order of `tag_ids`."""
        return self.fit_info.get("working_tags", [])

    @property
    def works_in(self) -> Scheme | None:
        """The scheme that spans are turned into for learning; None: as they are."""
        return None

    # ---- what a model writes

    @abstractmethod
    def fit_sentences(self, data: Tagged, how: Fitting) -> None:
        """Learn from tagged sentences; `tags` is already there, and sorted."""

    @abstractmethod
    def tag_ids(self, sentences: list[list[str]]) -> list[np.ndarray]:
        """The place in `tags` of each word's tag, one array a sentence."""

    def knows(self, word: str) -> bool:
        """Whether the word was in the training data; evaluation tells known and unknown words apart."""
        return True

    # ---- fitting

    def fit(self, data: Any, *, valid: Any = None, memory: int | str | None = None, train: TrainConfig | None = None,
            device: str | None = None, run: str | Path | None = None) -> Self:
        """Learn from scratch. `data`: a Tagged, a Path, or a list of (words, tags)."""
        how = Fitting(memory=parse_size(memory), train=train, device=device, run=Path(run) if run else None,
                      valid=None if valid is None else as_tagged(valid))
        self.check_fitting(how)
        given = as_tagged(data)
        work = given.converted(self.works_in) if given.scheme and self.works_in else given
        try:
            self.fit_info = {"data": given.name, "data_hash": given.fingerprint[:16], "sentences": len(given),
                             "words": sum(map(len, given.sentences)), "tags": given.tagset, "scheme": given.scheme,
                             "working_tags": work.tagset, "working_scheme": work.scheme}
            self.fit_sentences(work, how)
        except BaseException:
            self.fit_info = {}  # what was begun is not a fitted model
            raise
        return self

    # ---- the verbs

    def summary(self) -> str:
        info = self.fit_info
        return f"{info['sentences']:,} sentences, {info['words']:,} words, {len(info['tags'])} tags"

    def predict(self, sentences: str | list[str] | list[list[str]]) -> Any:
        """The tags of a sentence (a list of words, or a text cut at blanks), or of each sentence of a list of lists."""
        self.check_fitted()
        one = isinstance(sentences, str) or not sentences or isinstance(sentences[0], str)
        rows: Any = [sentences.split() if isinstance(sentences, str) else sentences] if one else sentences
        outside, inside = self.fit_info["scheme"], self.fit_info["working_scheme"]
        tagged = []
        with progress.task("tagging", len(rows), "sentences") as bar:
            for start in range(0, len(rows), BATCH):
                for ids in self.tag_ids(rows[start : start + BATCH]):
                    tags = [self.tags[i] for i in ids.tolist()]
                    tagged.append(tags if inside == outside else convert(tags, inside, outside))
                bar.advance(len(rows[start : start + BATCH]))
        return tagged[0] if one else tagged

    def evaluate(self, data: Any, *, samples: int = 1000, examples: int = 3) -> Result:
        """Accuracy of known and unknown words, F1 of spans where tags mark them, confusion, and errors by kind."""
        self.check_fitted()
        gold, scheme = as_tagged(data), self.fit_info["scheme"]
        if gold.scheme and scheme:
            gold = gold.converted(scheme)
        predicted = self.predict(gold.sentences)
        metrics, details, notes = tagging.judge(gold, predicted, self.fit_info["tags"], self.knows, samples=samples,
                                                examples=examples)
        return Result(metrics, self.signature(gold), notes, details)

    def signature(self, data: Tagged | None = None) -> Signature:
        """What a number of this model depends on."""
        extras = {"train": self.fit_info["data_hash"][:8], **({"scheme": data.scheme} if data and data.scheme else {})}
        return Signature(model=self.label(), data=data.fingerprint[:8] if data else None, extras=extras)
