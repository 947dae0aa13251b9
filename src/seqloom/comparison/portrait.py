"""One model on one text as a picture: its cost along the text, token by token, and its calibration.

    >>> from seqloom import NGram
    >>> from seqloom.comparison.portrait import surprise
    >>> model = NGram(order=2).fit("the cat sat on the mat\\nthe cat sat on the log\\n")
    >>> print(surprise(model, "the cat sat on the moon", colour=False))
    bits per token: 0: under 1, 1: 1 to 3, 2: 3 to 6, 3: 6 to 10, 4: 10 to 14, 5: 14 and more
    the cat sat on the <unk>↵
    0001111000000000003333331
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.charts import files, terminal, theme
from seqloom.charts.costs import along, histogram
from seqloom.charts.page import Page
from seqloom.charts.passage import SCRIPT, STYLE, passage_html
from seqloom.comparison.calibration import calibration
from seqloom.comparison.passage import passage, pieces
from seqloom.comparison.pictures import calibration_chart
from seqloom.contracts import LanguageModel
from seqloom.data.corpus import as_corpus
from seqloom.data.encode import encode_corpus


def draw(model: LanguageModel, data: Any, path: str | Path) -> None:
    """Write the picture where the ending says how: .png, .svg, or .html with a passage to look into."""
    kind = files.check_target(path)
    corpus = as_corpus(data)
    charts = portrait(model, corpus)
    if kind != "html":
        files.save(_sheet(charts), path)
        return
    page = Page(f"{model.label()} on {corpus.name}")
    page.text(str(model.signature(corpus)), kind="faint")
    for title, chart in charts.items():
        page.heading(title).chart(chart, title)
    if model.tokens().lossless:
        found = passage({model.label(): model}, corpus, guide=model.label())
        page.heading(f"A passage (from byte {found.start:,})")
        page.raw(passage_html(found.pieces, [model.label()]), style=STYLE, script=SCRIPT)
    files.write(path, page.html().encode())


def portrait(model: LanguageModel, data: Any) -> dict[str, Any]:
    """Charts by title: bits along the text, what the tokens cost, calibration."""
    corpus, tokenizer = as_corpus(data), model.tokens()
    ids = encode_corpus(tokenizer, corpus, unit=model.unit)
    bits = -model.text_log_probs(ids).astype(np.float64) / math.log(2)
    weights = np.ones(len(ids))
    if tokenizer.lossless:
        weights = tokenizer.byte_lengths[ids].astype(np.float64)
        weights[ids == tokenizer.eos_id] = 1.0 if model.unit == "line" else 0.0
    return {"Bits along the text": along(bits, weights, unit="byte" if tokenizer.lossless else "token"),
            "What the tokens cost": histogram(bits),
            "Calibration": calibration_chart({model.label(): calibration(model, corpus)})}


def _sheet(charts: dict[str, Any]) -> Any:
    """The three charts on one sheet: the text above, the others side by side."""
    import altair as alt

    (first, top), (second, left), (third, right) = charts.items()
    below = alt.hconcat(left.properties(width=430, height=300, title=second),
                        right.properties(width=350, height=300, title=third), spacing=40)
    return alt.vconcat(top.properties(width=900, title=first), below.resolve_scale(color="independent"), spacing=30)


def surprise(model: LanguageModel, text: str, *, colour: bool = True) -> str:
    """The text for a terminal, coloured by what each token costs, below a legend."""
    borders, unit = scale(model)
    shown = terminal.show(pieces(model, text), borders, colour=colour)
    return terminal.legend(borders, unit, colour=colour) + "\n" + shown


def scale(model: LanguageModel) -> tuple[tuple[float, ...], str]:
    """Where the colours change, and what costs are divided by: bytes where none is lost, else tokens."""
    return (theme.BITS, "byte") if model.tokens().lossless else (theme.TOKEN_BITS, "token")
