"""How a graph makes the rows that its network reads, of whole texts and questions: windows and marks, as
`models/sequence/inputs` and `models/answering/windows` do for the model.

Absent tokens are -1 where a graph is given no lengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Batch = dict[str, Tensor]


def windows(lengths: Tensor, most: Any, size: Any, step: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return the text (R,) and the first step (R,) of each window of at most `size` steps, `step` apart, and
    the number of windows per text (B,); `most`: the steps of the longest text.
    """
    beyond = (lengths - size).clamp(min=0)
    counts = 1 + torch.div(beyond + step - 1, step, rounding_mode="floor")
    texts, numbers = (torch.arange(most) < counts.unsqueeze(1)).nonzero(as_tuple=True)
    return texts, numbers * (step[texts] if isinstance(step, Tensor) else step), counts


def divided(batch: Mapping[str, Tensor], size: int) -> Batch:
    """Divide texts, or series, into windows that overlap by half."""
    lengths, most = batch["lengths"], _steps(batch)
    texts, starts, counts = windows(lengths, most, size, max(size // 2, 1))
    return _rows(batch, texts, starts, lengths[texts] - starts, size) | {"counts": counts}


def sentences(batch: Mapping[str, Tensor], size: int, end: int) -> Batch:
    """Divide texts after each end symbol."""
    ids = batch["ids"]
    there = torch.arange(_steps(batch)) < batch["lengths"].unsqueeze(1)
    ends = (ids == end) & there
    texts, stops = ends.nonzero(as_tuple=True)
    first = F.pad((texts[1:] != texts[:-1]).to(torch.int64), (1, 0), value=1)
    starts = torch.where(first > 0, 0, F.pad(stops[:-1], (1, 0)) + 1)
    return _rows(batch, texts, starts, stops - starts + 1, size) | {"counts": ends.sum(1)}


def cut(batch: Mapping[str, Tensor], size: int) -> Batch:
    """Cut texts to their first steps."""
    steps = {name: x[:, :size] for name, x in batch.items() if name != "lengths"}
    return steps | {"lengths": batch["lengths"].clamp(max=size)}


def _rows(
    batch: Mapping[str, Tensor], texts: Tensor, starts: Tensor, left: Tensor, size: int
) -> Batch:
    """Return rows of texts, at most `size` steps of the steps that are left from each start."""
    most = _steps(batch)
    places = (starts.unsqueeze(1) + torch.arange(most)[:size]).clamp(max=most - 1)
    steps = {name: x[texts.unsqueeze(1), places] for name, x in batch.items() if name != "lengths"}
    return steps | {"lengths": left.clamp(max=size)}


def _steps(batch: Mapping[str, Tensor]) -> Any:
    return batch["values" if "values" in batch else "ids"].shape[1]


def spelled(batch: Mapping[str, Tensor]) -> Batch:
    """Replace the letters of each step (B, T, L) by those of words, of which every step has its own."""
    letters = F.pad(batch["spellings"], (0, 1))  # at least one
    lengths = (letters > 0).sum(2)
    return {
        **batch,
        "words": torch.ones_like(lengths).flatten().cumsum(0).view_as(lengths) - 1,
        "spellings": letters.flatten(0, 1),
        "spelling_lengths": lengths.flatten(),
    }


def marked_words(batch: Mapping[str, Tensor], cls: int, sep: int) -> Batch:
    """Put the marks of an encoder around rows of pieces of words."""
    ids, places = batch["ids"], batch["places"]
    lengths, steps = (ids >= 0).sum(1), torch.arange(ids.shape[1] + 2)
    shifted = F.pad(ids, (1, 1))
    shifted = torch.where(steps > lengths.unsqueeze(1), sep, shifted)
    rows, positions = places.clamp(min=0).unbind(2)
    return {
        "ids": torch.where(steps == 0, cls, shifted),
        "lengths": lengths + 2,
        "counts": torch.zeros_like(places[:, 0, 0]),  # rows are counted over all sentences
        "rows": rows,
        "positions": positions + 1,
        "word_counts": (places[:, :, 0] >= 0).sum(1),
    }


def questions(batch: Mapping[str, Tensor], inputs: Any) -> tuple[Batch, Tensor, Tensor]:
    """Return rows of a question and a window of its context with the marks of `inputs` (`WindowInputs`),
    the question of each row, and what to add to a step of a row for its step of the context.
    """
    marks, size, overlap = inputs.marks, inputs.longest, inputs.overlap
    question, context = (F.pad(batch[name], (0, 1), value=-1) for name in ("question", "ids"))
    asked, found = (question >= 0).sum(1), (context >= 0).sum(1)
    room = size - inputs.around - asked
    step = room - (torch.div(room, 3, rounding_mode="floor") if overlap is None else overlap)
    texts, starts, _ = windows(found, context.shape[1], room, step.clamp(min=1))
    # the context begins at `first` and has `n` steps
    asked, room, left = (x[texts].unsqueeze(1) for x in (asked, room, found))
    first = asked + 1 + marks.separators
    n = torch.minimum(left - starts.unsqueeze(1), room)
    shift = starts.unsqueeze(1) - first
    steps = torch.arange(question.shape[1] + context.shape[1] + inputs.around)[:size].unsqueeze(0)
    of_question, of_context = (steps > 0) & (steps <= asked), (steps >= first) & (steps < first + n)
    at_question = (steps - 1).clamp(min=0, max=question.shape[1] - 1).expand_as(of_question)
    at_context = torch.minimum((steps + shift).clamp(min=0), left)
    own = texts.unsqueeze(1)
    ids = torch.where(of_context, context[own, at_context], marks.sep)
    ids = torch.where(of_question, question[own, at_question], ids)
    kinds = torch.where(of_context, F.pad(batch["kinds"], (0, 1))[own, at_context], 0)
    rows = {
        "ids": torch.where(steps == 0, marks.cls, ids),
        "lengths": (first + n + 1).squeeze(1),
        "allowed": (steps == 0) | (kinds > 0),
    }
    if inputs.published is None:
        rows["types"] = torch.where(of_context, kinds.clamp(min=1), 0)
    else:
        second = steps > asked + 1 if marks.separators == 1 else steps < 0 * asked
        rows["types"] = second.to(torch.int64)
    if "spellings" in batch:
        letters, many = batch["spellings"], batch["question"].shape[1]
        at = torch.where(of_context, many + at_context, letters.shape[1] - 1)
        at = torch.where(of_question, at_question, at)
        rows = spelled({**rows, "spellings": letters[own, at]})
    return rows, texts, shift
