"""One model on one text as a picture: its cost along the text, token by token, and its calibration.

>>> from seqloom import NGram
>>> from seqloom.views import surprise
>>> model = NGram(order=2).fit("the cat sat on the mat\\nthe cat sat on the log\\n")
>>> print(surprise(model, "the cat sat on the moon", colour=False))
bits per token: 0: under 1, 1: 1 to 3, 2: 3 to 6, 3: 6 to 10, 4: 10 to 14, 5: 14 and more
the cat sat on the <unk>↵
0001111000000000003333331
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from seqloom.charts import passage as terminal
from seqloom.charts import theme
from seqloom.charts.costs import along, histogram
from seqloom.charts.page import Charts, Page, Sheet, with_headings
from seqloom.charts.passage import SCRIPT, STYLE, passage_html
from seqloom.contracts import LanguageModel
from seqloom.data.corpus import as_corpus
from seqloom.data.encode import encode_corpus
from seqloom.views.calibration import calibration, calibration_chart
from seqloom.views.passage import passage, pieces


def portrait(model: LanguageModel, data: Any) -> Sheet:
    """Bits along the text, what the tokens cost, and calibration; in a page also a passage to look into."""
    corpus, tokenizer = as_corpus(data), model.tokenizer
    ids = encode_corpus(tokenizer, corpus, unit=model.unit)
    bits = -model.text_log_probs(ids).astype(np.float64) / math.log(2)
    weights = np.ones(len(ids))
    if tokenizer.lossless:
        weights = tokenizer.byte_lengths[ids].astype(np.float64)
        weights[ids == tokenizer.eos_id] = 1.0 if model.unit == "line" else 0.0
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


def _one_above_two(charts: Charts) -> Any:
    """The text above, the others side by side."""
    import altair as alt

    (first, top), (second, left), (third, right) = charts.items()
    below = alt.hconcat(
        left.properties(width=430, height=300, title=second),
        right.properties(width=350, height=300, title=third),
        spacing=40,
    )
    return alt.vconcat(
        top.properties(width=900, title=first), below.resolve_scale(color="independent"), spacing=30
    )


def surprise(model: LanguageModel, text: str, *, colour: bool = True) -> str:
    """The text for a terminal, coloured by what each token costs, below a legend."""
    borders, unit = scale(model)
    shown = terminal.show(pieces(model, text), borders, colour=colour)
    return terminal.legend(borders, unit, colour=colour) + "\n" + shown


def scale(model: LanguageModel) -> tuple[tuple[float, ...], str]:
    """Where the colours change, and what costs are divided by: bytes where none is lost, else tokens."""
    return (theme.BITS, "byte") if model.tokenizer.lossless else (theme.TOKEN_BITS, "token")
