"""A text of any size scored portion by portion, in memory that does not grow with it; and many short
texts scored together, with one call of the tokenizer and one of the model for a batch of them.

A portion ends after a unit where there is one, else anywhere: what a model must remember of a
sequence that continues in the next portion is left to the model (`continue_log_probs`). A text that fits
into one portion is scored in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.data.corpus import Corpus
from seqloom.data.encode import encoded_blocks
from seqloom.metrics.language import SegmentCosts, Tally, unit_lengths
from seqloom.text.coding import to_bytes

if TYPE_CHECKING:
    from seqloom.contracts.language import LanguageModel


PORTION = 1 << 21  # tokens

SHARED = "share_batches"  # attribute of a model whose batches workers answer

Reading = Callable[[np.ndarray], np.ndarray]  # the next ids of a text to their log-probabilities


def each_batch(model: Any, method: str, batches: Sequence[Any]) -> Iterable[Any]:
    """Return what a method of the model answers to each batch, or what workers answer for it."""
    share = vars(model).get(SHARED)
    return map(getattr(model, method), batches) if share is None else share(method, batches)


class TextReading:
    """Reads one text with one model. The ids of a portion are units closed by `</s>`; the last may
    go on in the next.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model, self.eos_id = model, model.tokenizer.eos_id
        self.state: Any = None  # of the sequence that the last portion broke off in

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        if self.model.carry:
            return self._stretch(ids)
        begin, end = inner_units(ids, self.eos_id, self.state is not None)
        parts = []
        if begin:
            parts.append(self._stretch(ids[:begin]))
            if begin < len(ids) or ids[-1] == self.eos_id:
                self.state = None
        if begin < end:
            parts.append(
                self.model.sequence_log_probs(
                    ids[begin:end], unit_lengths(ids[begin:end], self.eos_id)
                )
            )
        if end < len(ids):
            parts.append(self._stretch(ids[end:]))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _stretch(self, ids: np.ndarray) -> np.ndarray:
        log_probs, self.state = self.model.continue_log_probs(ids, self.state)
        return log_probs


def inner_units(ids: np.ndarray, eos_id: int, continued: bool) -> tuple[int, int]:
    """Return where the units that lie whole in the ids begin and end; `continued`: the first
    tokens end an earlier one.

    >>> inner_units(np.array([5, 0, 3, 0, 7, 7]), eos_id=0, continued=True)
    (2, 4)
    >>> inner_units(np.array([5, 5, 5]), eos_id=0, continued=True)
    (3, 3)
    """
    ends = np.flatnonzero(ids == eos_id) + 1
    if not len(ends):
        return (len(ids), len(ids)) if continued else (0, 0)
    return int(ends[0]) if continued else 0, int(ends[-1])


def portions(
    model: LanguageModel, corpus: Corpus, reading: Reading | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the ids of a corpus, `</s>` at the end of every unit, and their log-probabilities,
    many at a time.
    """
    blocks = encoded_blocks(model.tokenizer, corpus, model.unit, label="scoring")
    cut = _cut(blocks, model.portion, None if model.carry else model.tokenizer.eos_id)
    if reading is None and SHARED in vars(model):
        whole = list(cut)
        if not model.carry and all(ids[-1] == model.tokenizer.eos_id for ids in whole):
            yield from zip(whole, each_batch(model, "reading", whole))
            return
        cut = iter(whole)
    reading = reading or model.reading()
    for ids in cut:
        yield ids, reading(ids)


def _cut(blocks: Iterable[np.ndarray], size: int, eos_id: int | None) -> Iterator[np.ndarray]:
    """Join blocks and cut them anew: `size` tokens at most, after the last `eos_id` among them if
    there is one.
    """
    waiting: list[np.ndarray] = []
    count = 0
    for block in blocks:
        waiting.append(block)
        count += len(block)
        if count <= size:
            continue
        rest = np.concatenate(waiting)
        while len(rest) > size:
            ends = np.flatnonzero(rest[:size] == eos_id) if eos_id is not None else rest[:0]
            at = int(ends[-1]) + 1 if len(ends) else size
            yield rest[:at]
            rest = rest[at:]
        waiting, count = [rest], len(rest)
    if count:
        yield np.concatenate(waiting)


def tally(
    model: LanguageModel,
    corpus: Corpus,
    reading: Reading | None = None,
    costs: SegmentCosts | None = None,
) -> Tally:
    """Compute what the text costs; also by segment, if asked."""
    tokenizer, total = model.tokenizer, Tally()
    for ids, log_probs in portions(model, corpus, reading):
        total.add(log_probs, ids == tokenizer.unk_id if tokenizer.has_oov else None)
        if costs is not None:
            costs.add(ids, log_probs)
    return total


def continued_by_context(
    model: LanguageModel, ids: np.ndarray, before: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Compute `continue_log_probs` of a model that sees `context` tokens: they are read once more
    before the stretch.
    """
    before = ids[:0] if before is None else before
    joined = np.concatenate([before, ids])
    log_probs = model.sequence_log_probs(joined, np.array([len(joined)]))[len(before) :]
    return log_probs, joined[max(len(joined) - (model.context or 0), 0) :]


def continued_by_steps(model: LanguageModel, ids: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
    """Compute `continue_log_probs` token by token with the stepper; slow. A stepper with a
    faster way has a method `continued(ids, state)`.
    """
    stepper = model.stepper()
    if (faster := getattr(stepper, "continued", None)) is not None:
        return faster(ids, state)
    inner, log_probs = stepper.start(1) if state is None else state
    out = np.empty(len(ids), np.float32)
    for position, token in enumerate(ids.tolist()):
        out[position] = log_probs[0, token]
        inner, log_probs = stepper.step(inner, np.array([token], np.int64))
    return out, (inner, log_probs)


# ---- scoring

_ONE = np.zeros(1, np.int64)  # where a single text begins


def score_batch(model: LanguageModel, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return token log-probabilities of all these texts, float32, and where each text begins in
    them.

    It is called for a single short text too, so it takes care not to do more than it must.
    """
    tokenizer = model.tokenizer
    if model.unit != "line":
        encoded = [model.encode(text)[0] for text in texts]
        ids, ends = np.concatenate(encoded), np.cumsum([len(e) for e in encoded])
        starts = _starts(ends)
        return model.sequence_log_probs(ids, ends - starts), starts
    joined = "\n".join(texts) + "\n"
    one_line_each = joined.count("\n") == len(texts)
    if not one_line_each:
        joined = "\n".join([text.removesuffix("\n") for text in texts]) + "\n"
    ids = tokenizer.encode_block(to_bytes(joined), newline_ends=True)
    if one_line_each and len(texts) == 1:
        return model.sequence_log_probs(ids, np.array([len(ids)])), _ONE
    ends = np.flatnonzero(ids == tokenizer.eos_id) + 1  # of the lines
    starts = _starts(ends)
    lengths = ends - starts
    if not one_line_each:
        # Ends of the texts, not of their lines.
        ends = ends[np.cumsum([1 + text.removesuffix("\n").count("\n") for text in texts]) - 1]
        starts = _starts(ends)
    return model.sequence_log_probs(ids, ends - starts if model.carry else lengths), starts


def sums(scored: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Compute the score of each text from those of its tokens."""
    log_probs, starts = scored
    return np.add.reduceat(log_probs, starts, dtype=np.float64)


def _starts(ends: np.ndarray) -> np.ndarray:
    """Return where consecutive stretches with these ends begin."""
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1]
    return starts
