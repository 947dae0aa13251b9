"""Tokens that are hidden from a model which sees all the others (Devlin et al. 2019, section 3.1).

Such a model has no probability of a text as a product; instead each token is hidden in turn, and
the sum of what it is then given is the text's pseudo-log-likelihood, its exponential mean the
pseudo-perplexity (Salazar et al. 2020). A model writes `mask_log_probs`; where a text has several
hidden tokens they are guessed independently, as the model was trained.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from seqloom import progress
from seqloom.batching import Span, runs
from seqloom.config import Config, TextConfig
from seqloom.contracts.base import Model
from seqloom.contracts.fitting import FitOptions, data_record
from seqloom.contracts.starting import check_tokenizer_alone
from seqloom.data.corpus import Corpus, as_corpus
from seqloom.errors import ConfigError, DataError, quoted
from seqloom.metrics import bootstrap
from seqloom.metrics.language import perplexity
from seqloom.metrics.result import Result, Signature, Value
from seqloom.text.file_names import refuse_existing_file
from seqloom.text.masks import HIDDEN, encode_masked, write_tokens

if TYPE_CHECKING:
    from seqloom.contracts.fitting import Train
    from seqloom.text.tokenizer import Tokenizer

Text = str | tuple[str, str]  # one, or a pair that the model reads together
# The ids of one text, or of two; HIDDEN where a token is to be guessed.
Row = tuple[np.ndarray, ...]

TOKENS_PER_PASS = 1 << 13  # tokens in rows that are guessed together
CELLS = 1 << 24  # probabilities that are held at once


class Fill(NamedTuple):
    """A text with its masks filled."""

    text: Any  # as it was given: a text or a pair
    tokens: tuple[str, ...]  # one for each mask
    score: float  # natural-log probability of these tokens


class MaskedModel(Model):
    """What stands where a token is hidden."""

    task: ClassVar[str] = "masked language model"
    public_names = "tokenizer fill score token_scores pseudo_perplexity evaluate"
    config_class: ClassVar[type[Config]] = TextConfig
    primitives: ClassVar[tuple[str, ...]] = ("mask_log_probs",)

    # ---- what a model writes

    @abstractmethod
    def fit_corpus(self, corpus: Corpus, options: FitOptions) -> None:
        """Learn from a text; the tokenizer is already there."""

    def mask_log_probs(self, rows: list[Row]) -> list[np.ndarray]:
        """Return for each row the natural-log probabilities of all tokens at each of its hidden
        tokens, float32 (hidden, V).
        """
        raise NotImplementedError

    @property
    def mask(self) -> str:
        """Return what a text has where a token is hidden."""
        return "[MASK]"

    def longest(self, texts: int) -> int | None:
        """Return the most tokens of a row of one or two texts; None: any number."""
        return None

    def check_masked(self) -> None:
        """Refuse a model that cannot guess tokens."""

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
        """Learn. `data`: a corpus, a Path, the text itself, or a list of texts.

        `start`: a saved model of the same kind, whose weights, tokenizer and options training starts from.
        """
        options = self.fit_options(
            memory,
            train,
            device,
            run,
            None if valid is None else as_corpus(valid),
            start,
            training=training,
        )
        check_tokenizer_alone(tokenizer, options)
        corpus = as_corpus(data)
        with self.learning(options):
            if options.start is None:
                self.tokenizer = tokenizer or self._make_tokenizer(corpus)
            self.fit_corpus(corpus, options)
            # The record comes from the reading of the text.
            self.fit_info = {**data_record(corpus), **self.fit_info}
        return self

    # ---- the verbs

    def summary(self) -> str:
        return self.tokenizer.label()

    def encode(self, text: Text) -> Row:
        """Encode a text, or both texts of a pair, as ids."""
        parts = (text,) if isinstance(text, str) else text
        if not (
            isinstance(parts, tuple)
            and 1 <= len(parts) <= 2
            and all(isinstance(part, str) for part in parts)
        ):
            raise DataError(f"expected a text, or a pair of texts as a tuple; got {quoted(text)}")
        return tuple(encode_masked(self.tokenizer, part, self.mask) for part in parts)

    def fill(self, text: Text | Sequence[Text], k: int = 5) -> Any:
        """Return the k best ways to fill the masks of a text, the best first; for a list of texts a
        list of these.

        Tokens that are no text, such as [PAD], are left out.
        """
        self.check_fitted()
        self.check_masked()
        if k < 1:
            raise ConfigError(f"k must be at least 1; got {k}")
        single = isinstance(text, (str, tuple))
        texts: list[Any] = [text] if single else list(text)
        rows = [self.encode(each) for each in texts]
        for each, row in zip(texts, rows):
            if not any((part == HIDDEN).any() for part in row):
                raise DataError(
                    f"{quoted(each)} has no {self.mask}; write it where a token is to be guessed"
                )
            self._check_length(row, each)
        answers = []
        for low, high in _portions(
            [sum(map(len, row)) for row in rows],
            [_hidden(row) for row in rows],
            self.tokenizer.vocab_size,
        ):
            for each, row, log_probs in zip(
                texts[low:high], rows[low:high], self.mask_log_probs(rows[low:high])
            ):
                answers.append(
                    [self._filled(each, row, ids, score) for ids, score in self._best(log_probs, k)]
                )
        return answers[0] if single else answers

    def _best(self, log_probs: np.ndarray, k: int) -> list[tuple[list[int], float]]:
        """Return the k best choices of one token for each hidden token (hidden, V), with the sum of
        their log-probabilities.
        """
        scores = np.where(self.tokenizer.byte_lengths > 0, log_probs, -np.inf)
        best: list[tuple[list[int], float]] = [([], 0.0)]
        for row in scores:
            order = np.argsort(-row, kind="stable")[:k].tolist()
            longer = [
                ([*ids, token], score + float(row[token]))
                for ids, score in best
                for token in order
                if row[token] > -np.inf
            ]
            best = sorted(longer, key=lambda choice: -choice[1])[:k]
        return best

    def _filled(self, text: Any, row: Row, ids: list[int], score: float) -> Fill:
        written, at = [], 0
        for part, encoded in zip((text,) if isinstance(text, str) else text, row):
            masks = int((encoded == HIDDEN).sum())
            written.append(write_tokens(self.tokenizer, part, self.mask, ids[at : at + masks]))
            at += masks
        names = tuple(self.tokenizer.token(token) for token in ids)
        return Fill(written[0] if isinstance(text, str) else tuple(written), names, score)

    def score(self, text: Text | Sequence[Text]) -> Any:
        """Return the pseudo-log-likelihood of a text: the sum of `token_scores`; for a list of texts a
        list.
        """
        if isinstance(text, (str, tuple)):
            return float(np.sum(self.token_scores(text), dtype=np.float64))
        return [float(np.sum(scores, dtype=np.float64)) for scores in self.token_scores(text)]

    def token_scores(self, text: Text | Sequence[Text]) -> Any:
        """Return the natural-log probability of each token where it alone is hidden; for a list of
        texts a list of lists.

        A text that is longer than the model can read is scored in parts of equal length.
        """
        if isinstance(text, str):
            refuse_existing_file(text)
        single = isinstance(text, (str, tuple))
        texts: list[Any] = [text] if single else list(text)
        scored = [scores.tolist() for scores, _ in self._scored(texts)]
        return scored[0] if single else scored

    def pseudo_perplexity(self, data: Any) -> float:
        """Return exp of the mean negative log-probability of a token that alone is hidden."""
        return float(self.evaluate(data, samples=0).metrics["pseudo_perplexity"])  # type: ignore[arg-type]

    def evaluate(self, data: Any, *, samples: int = 1000) -> Result:
        """Compute the pseudo-perplexity of held-out text, and how often the likeliest token is the
        right one; a line is one text.

        `samples`: of the bootstrap over texts, 0 for no interval.
        """
        self.check_fitted()
        corpus = as_corpus(data)
        self.remark_training_data(corpus.name, corpus.fingerprint, corpus.file_hashes)
        texts = [line.rstrip("\r\n") for line in corpus.lines() if line.strip()]
        scored = [pair for pair in self._scored(texts) if len(pair[0])]
        if not scored:
            raise DataError(f"{corpus.name} has no tokens to hide; give some text")
        log_probs, right = (np.concatenate(parts) for parts in zip(*scored))
        metrics: dict[str, Value] = {
            "pseudo_perplexity": perplexity(log_probs),
            "accuracy": float(right.mean()),
            "tokens": len(log_probs),
            "texts": len(scored),
        }
        if samples:
            costs = np.array([-scores.sum(dtype=np.float64) for scores, _ in scored])
            low, high = bootstrap.interval(
                costs, np.array([len(scores) for scores, _ in scored]), samples=samples
            )
            metrics["nats_per_token_interval"] = (low, high)
        most = self.longest(1)
        parts = sum(len(scores) > most for scores, _ in scored) if most else 0
        notes = (
            (f"{parts:,} texts are longer than {most:,} tokens and were scored in parts",)
            if parts
            else ()
        )
        return Result(metrics, self.signature(corpus), notes)

    def signature(self, data: Corpus | None = None) -> Signature:
        """Return everything that the model's results depend on."""
        return Signature(
            model=self.label(),
            tokenizer=self.tokenizer_label(),
            unit="line",
            context=self.longest(1),
            data=data.fingerprint[:8] if data else None,
            extras=self.training_extras(),
        )

    # ---- hiding each token in turn

    def _scored(self, texts: Sequence[Text]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield for each text the log-probabilities of its tokens, and whether each is the likeliest
        where it is hidden.
        """
        self.check_fitted()
        self.check_masked()
        rows = [self.encode(text) for text in texts]
        parts = [self._parts(row, text) for text, row in zip(texts, rows)]
        all_rows = [part for each in parts for part in each]
        log_probs = iter(self._hidden_in_turn(all_rows))
        with progress.task(
            "scoring", sum(len(ids) for row in all_rows for ids in row), "tokens"
        ) as bar:
            for each in parts:
                scores = [next(log_probs) for row in each for ids in row for _ in ids]
                bar.advance(len(scores))
                yield (
                    np.array([score for score, _ in scores], np.float32),
                    np.array([hit for _, hit in scores], bool),
                )

    def _parts(self, row: Row, text: Text) -> list[Row]:
        """Split a text that is too long into parts of about equal length."""
        if any((ids == HIDDEN).any() for ids in row):
            raise DataError(
                f"{quoted(text)} has a {self.mask}, so it cannot be scored; fill it first"
            )
        most = self.longest(len(row))
        if len(row) > 1 or most is None or len(row[0]) <= most:
            self._check_length(row, text)
            return [row]
        return [(part,) for part in np.array_split(row[0], -(-len(row[0]) // most))]

    def _hidden_in_turn(self, rows: list[Row]) -> Iterator[tuple[float, bool]]:
        """Yield for each token of each row its log-probability where it is hidden, and whether it is
        the likeliest.
        """
        counts = [sum(map(len, row)) for row in rows]
        lengths = [count for count in counts for _ in range(count)]
        hidden = _each_hidden(rows)
        for low, high in _portions(lengths, [1] * len(lengths), self.tokenizer.vocab_size):
            masked, answers = zip(*(next(hidden) for _ in range(high - low)))
            for log_probs, answer in zip(self.mask_log_probs(list(masked)), answers):
                yield float(log_probs[0, answer]), int(log_probs[0].argmax()) == answer

    def _check_length(self, row: Row, text: Any) -> None:
        most, length = self.longest(len(row)), sum(map(len, row))
        if most is not None and length > most:
            raise DataError(
                f"{quoted(text)} has {length:,} tokens, and this {self.name} model reads at most {most:,} of "
                f"{'one text' if len(row) == 1 else 'two texts together'}; shorten it"
            )


def _hidden(row: Row) -> int:
    return sum(int((ids == HIDDEN).sum()) for ids in row)


def _each_hidden(rows: Iterable[Row]) -> Iterator[tuple[Row, int]]:
    """Yield every row with each of its tokens hidden in turn, and the token."""
    for row in rows:
        for i, ids in enumerate(row):
            for position in range(len(ids)):
                masked = ids.copy()
                masked[position] = HIDDEN
                yield (*row[:i], masked, *row[i + 1 :]), int(ids[position])


def _portions(lengths: list[int], hidden: list[int], vocab_size: int) -> list[Span]:
    """Return the start and end of rows that are guessed together, so that neither their tokens nor
    their probabilities are too many.
    """
    tokens, cells = np.array(lengths) * (CELLS // TOKENS_PER_PASS), np.array(hidden) * vocab_size
    return runs(np.maximum(tokens, cells), CELLS)
