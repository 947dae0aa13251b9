"""One model on one text as a picture: its cost along the text, token by token, and its calibration; and a
passage under several models, so one sees which of them predicts what.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqloom.charts import theme
from seqloom.charts.costs import along, histogram
from seqloom.charts.page import Charts, Page, Sheet, with_headings
from seqloom.charts.passage import (
    SCRIPT,
    STYLE,
    Piece,
    legend,
    passage_html,
    show,
    whole_characters,
)
from seqloom.contracts import LanguageModel
from seqloom.data.corpus import Corpus, as_corpus
from seqloom.data.encode import encode_corpus
from seqloom.views.calibration import calibration, calibration_chart

HEAD = 100_000  # bytes of the test part in which the passage is looked for
LENGTH = 600  # bytes


@dataclass(frozen=True)
class Passage:
    start: int  # byte of the test part
    text: str
    pieces: dict[str, list[Piece]]  # by rung; the last one may reach beyond the text


def pieces(model: LanguageModel, text: str) -> list[Piece]:
    """Split the text into the model's tokens with the cost of each in bits; the sum is
    `-score(text) / ln 2`.

    Weights are bytes where the tokenizer keeps every byte, else 1 a token.
    """
    return pieces_of(model, *_scored(model, text))


def pieces_of(model: LanguageModel, ids: np.ndarray, bits: np.ndarray) -> list[Piece]:
    """Return the tokens with these costs as pieces of text."""
    tokenizer = model.tokenizer
    end = "\n" if model.unit == "line" else ""
    if tokenizer.lossless:
        spelled = [
            tokenizer.token_bytes(i) if i != tokenizer.eos_id else end.encode()
            for i in ids.tolist()
        ]
        return whole_characters(spelled, bits.tolist())
    result, before = [], False
    for i, cost in zip(ids.tolist(), bits.tolist()):
        if i == tokenizer.eos_id:
            result.append(Piece(end, cost))
        else:
            result.append(Piece(tokenizer.piece(i, before=before).decode("utf-8", "replace"), cost))
        before = i != tokenizer.eos_id
    return result


def passage(
    models: Mapping[str, LanguageModel], test: Corpus, *, guide: str, length: int = LENGTH
) -> Passage:
    """Choose some lines that are as hard for the rung `guide` as the text around them, with their
    cost under every model.

    The models read the test part from its beginning up to the passage, as they did when they were
    measured, and the costs of its tokens are those that went into the table. A token belongs to the
    passage in which it starts.
    """
    data = head(test, HEAD)
    _, bits, starts = _located(models[guide], data)
    begin, end = choose(data, bits, starts, length)
    return Passage(
        begin,
        data[begin:end].decode(),
        {n: pieces_between(m, data, begin, end) for n, m in models.items()},
    )


def pieces_between(model: LanguageModel, data: bytes, begin: int, end: int) -> list[Piece]:
    """Return the pieces whose tokens start at bytes begin..end-1 of the data, which is read from
    its beginning.

    Where a token that starts before reaches into the passage, that part has no cost of its own (NaN).
    """
    tokenizer = model.tokenizer
    ids, bits, starts = _located(model, data)
    inside = np.flatnonzero((starts >= begin) & (starts < end))
    first = int(starts[inside[0]]) if len(inside) else end
    cut = (
        [Piece(data[begin:first].decode("utf-8", "replace"), math.nan, first - begin)]
        if first > begin
        else []
    )
    spelled = [
        b"\n" if i == tokenizer.eos_id else tokenizer.token_bytes(i) for i in ids[inside].tolist()
    ]
    return cut + whole_characters(spelled, bits[inside].tolist())


def _scored(model: LanguageModel, text: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of a text and the bits of each."""
    ids, lengths = model.encode(text)
    if model.carry:
        lengths = np.array([len(ids)])
    # No minus zero.
    return ids, -model.sequence_log_probs(ids, lengths).astype(np.float64) / math.log(2) + 0.0


def _located(model: LanguageModel, data: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids, bits, and the byte at which each token starts."""
    tokenizer = model.tokenizer
    ids, bits = _scored(model, data.decode())
    widths = tokenizer.byte_lengths[ids].astype(np.int64)
    widths[ids == tokenizer.eos_id] = (
        1  # a newline; the one end of a stream lies behind its last byte
    )
    return ids, bits, np.cumsum(widths) - widths


def choose(data: bytes, costs: np.ndarray, starts: np.ndarray, length: int) -> tuple[int, int]:
    """Find the first lines of about that length whose mean cost is nearest to that of all: begin
    and end.
    """
    if len(data) <= length:
        return 0, len(data)
    lines = np.concatenate([[0], np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1])
    ends = np.append(lines[1:], len(data))
    blank = np.flatnonzero(ends - lines <= 1) + 1  # a paragraph is a better beginning than any line
    first = lines[blank[blank < len(lines)]] if np.count_nonzero(blank < len(lines)) > 5 else lines
    first = first[first + length <= len(data)]
    if not len(first):
        first = np.array([0])
    sums = np.concatenate([[0.0], np.cumsum(costs)])
    mean = sums[-1] / len(data)
    best, distance = (0, _end(data, 0, length)), math.inf
    for begin in first.tolist():
        end = _end(data, begin, length)
        a, b = np.searchsorted(starts, [begin, end])
        away = abs((sums[b] - sums[a]) / max(end - begin, 1) - mean)
        if away < distance:
            best, distance = (begin, end), away
    return best


def _end(data: bytes, begin: int, length: int) -> int:
    """Find the last end of a line, word or character up to `length` bytes further."""
    window = data[begin : begin + length]
    if begin + length >= len(data):
        return len(data)
    for mark in (b"\n", b" "):
        at = window.rfind(mark)
        if at >= length // 2:
            return begin + at + 1
    at = begin + length
    while at > begin + 1 and data[at] & 0xC0 == 0x80:
        at -= 1
    return at


def head(corpus: Corpus, size: int) -> bytes:
    """Return the first bytes of the text, up to the end of a line, word or character."""
    data = b""
    for document in corpus.documents:
        for chunk in document.chunks():
            data += chunk
            if len(data) > size:
                return data[: _end(data, 0, size)]
    return data


# ---- costs


def portrait(model: LanguageModel, data: Any) -> Sheet:
    """Show bits along the text, what the tokens cost, and calibration; on a page also a passage to
    explore.
    """
    corpus, tokenizer = as_corpus(data), model.tokenizer
    ids = encode_corpus(tokenizer, corpus, unit=model.unit)
    bits = -model.text_log_probs(ids).astype(np.float64) / math.log(2)
    weights = byte_weights(model, ids)
    calibrated = calibration(model, corpus)

    def draw(page: bool) -> dict[str, Any]:
        return {
            "Bits along the text": along(
                bits, weights, unit="byte" if tokenizer.lossless else "token"
            ),
            "What the tokens cost": histogram(bits),
            "Calibration": calibration_chart({model.label(): calibrated}),
        }

    def page(sheet: Sheet) -> Page:
        document = with_headings(sheet)
        if tokenizer.lossless:
            excerpt = passage({model.label(): model}, corpus, guide=model.label())
            document.heading(f"A passage (from byte {excerpt.start:,})")
            document.raw(passage_html(excerpt.pieces, [model.label()]), style=STYLE, script=SCRIPT)
        return document.text(str(model.signature(corpus)), kind="faint")

    return Sheet(
        f"{model.label()} on {corpus.name}",
        draw,
        {"bits": bits, "weights": weights, "calibration": calibrated},
        arrange=_one_above_two,
        page=page,
    )


def byte_weights(model: LanguageModel, ids: np.ndarray) -> np.ndarray:
    """Return how many bytes of a text each token stands for; 1 where the tokenizer loses some."""
    tokenizer = model.tokenizer
    if not tokenizer.lossless:
        return np.ones(len(ids))
    weights = tokenizer.byte_lengths[ids].astype(np.float64)
    weights[ids == tokenizer.eos_id] = 1.0 if model.unit == "line" else 0.0
    return weights


def _one_above_two(charts: Charts) -> Any:
    """Put the text above, the others side by side."""
    import altair as alt

    top, left, right = charts.values()
    below = alt.hconcat(
        left.properties(width=430, height=300),
        right.properties(width=350, height=300),
        spacing=40,
    )
    return alt.vconcat(
        top.properties(width=900), below.resolve_scale(color="independent"), spacing=30
    )


def surprise(model: LanguageModel, text: str, *, colour: bool = True) -> str:
    r"""Return the text for a terminal, coloured by what each token costs, below a legend.

    >>> from seqloom import NGram
    >>> model = NGram(order=2).fit("the cat sat on the mat\nthe cat sat on the log\n")
    >>> print(surprise(model, "the cat sat on the moon", colour=False))
    bits per token: 0: under 1, 1: 1 to 3, 2: 3 to 6, 3: 6 to 10, 4: 10 to 14, 5: 14 and more
    the cat sat on the <unk>↵
    0001111000000000003333331
    """
    bounds, unit = scale(model)
    shown = show(pieces(model, text), bounds, colour=colour)
    return legend(bounds, unit, colour=colour) + "\n" + shown


def scale(model: LanguageModel) -> tuple[tuple[float, ...], str]:
    """Return where the colours change, and what costs are divided by: bytes if none is lost, else
    tokens.
    """
    return (theme.BITS, "byte") if model.tokenizer.lossless else (theme.TOKEN_BITS, "token")
