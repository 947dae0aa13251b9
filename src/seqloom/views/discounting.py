"""A discount after another on the same counts: what each order adds to the tokens of a text, and the bits of
held-out text.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.charts.costs import by_setting
from seqloom.charts.page import Charts, Sheet
from seqloom.data.corpus import as_corpus, bundled
from seqloom.data.encode import encode_corpus
from seqloom.models.language.backing_off import order_shares
from seqloom.models.language.discounting import discounted
from seqloom.models.language.ngram import NGram
from seqloom.views.catalogue import view
from seqloom.views.configs import DiscountsOptions
from seqloom.views.hidden import visible
from seqloom.views.language import byte_weights
from seqloom.views.token_costs import window_of

MOST = 60  # tokens of the text whose shares are told


@view
def discounts(model: NGram, text: str, options: DiscountsOptions) -> Sheet:
    """Show for each of some discounts the bits of held-out text, and for each token of a text what each order
    adds to its probability; the n-grams are counted anew, in the training part of a corpus.
    """
    ids, lengths, said = window_of(model, text)
    corpus = bundled() if options.corpus is None else as_corpus(Path(options.corpus))
    parts, tokenizer = corpus.split(), model.tokenizer
    train, valid = (
        encode_corpus(tokenizer, part, unit=model.unit) for part in (parts.train, parts.valid)
    )
    size = float(byte_weights(model, valid).sum())
    unit = "byte" if tokenizer.lossless else "token"
    starts = np.cumsum(lengths) - lengths
    begins = np.repeat(starts, lengths)[:MOST]
    grid = [step / options.steps for step in range(1, options.steps + 1)]
    rows: list[dict[str, Any]] = []
    shares = []
    for one in discounted(model, train, grid):
        costs = -one.model.trie.score(valid, tokenizer.eos_id).astype(np.float64) / math.log(2)
        rows.append({"discount": one.discount, "bits": float(costs.sum() / size)})
        shares.append([_shares(one.model, ids, int(low), at) for at, low in enumerate(begins)])
    best = min(rows[1:], key=lambda row: row["bits"])
    own = model.config.smoothing
    summary = [
        f"Counted in {parts.train.name}, measured on {parts.valid.name}: of the discounts that were tried, "
        f"{best['discount']:g} is best with {best['bits']:.3f} bits for each {unit}; {own}, which chooses by "
        f"the counts, has {rows[0]['bits']:.3f}.",
        *said,
    ]
    if len(ids) > MOST:
        summary.append(f"Shares are told of the first {MOST} of {len(ids):,} tokens.")

    def draw(page: bool) -> Charts:
        points = [(row["discount"], row["bits"]) for row in rows[1:]]
        return {"Held-out bits by discount": by_setting(points, "discount", f"bits per {unit}")}

    return Sheet(
        f"{model.label()}: one discount after another",
        draw,
        {
            "rows": rows[1:],
            "own": {"smoothing": own, "bits": rows[0]["bits"]},
            "best": best["discount"],
            "unit": unit,
            "orders": list(range(model.trie.order, 0, -1)),
            "tokens": [visible(tokenizer.token(int(i))) for i in ids[:MOST]],
            "shares": shares[1:],
            "own_shares": shares[0],
            "counted": parts.train.name,
            "measured": parts.valid.name,
        },
        summary,
        lines=[f"{'discount':>9}{f'bits/{unit}':>12}"]
        + [f"{row['discount']:>9.3g}{row['bits']:>12.4f}" for row in rows[1:]],
    )


def _shares(model: NGram, ids: np.ndarray, low: int, at: int) -> list[float]:
    """Return what each order adds to a token, the highest order first; 0 where what is before is shorter."""
    found = order_shares(model, ids[low : at + 1], at - low, counted=False)
    return [0.0] * (model.trie.order - len(found)) + [one.share for one in found]
