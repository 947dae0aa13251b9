"""The trellis of a hidden Markov model over a text: what it believed of the state at each step then and
afterwards, the likeliest path, and how fast it forgets where it began.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.charts.belief import FLOOR, forgetting_chart
from seqloom.charts.page import Charts, Sheet
from seqloom.charts.trellis import SEEN, trellis_chart
from seqloom.errors import ConfigError, DataError
from seqloom.models.hidden.editing import edited, read_edits
from seqloom.models.hidden.lattice import Lattice, forgetting_of_tags, of_chain, of_tags
from seqloom.views.catalogue import view
from seqloom.views.configs import TrellisOptions
from seqloom.views.hidden import FORGETTING, IN_NAME, visible

WINDOW = 1 << 10  # tokens that are looked at
COLUMNS = 18  # tokens of the picture
MOST_WORDS = 40  # different tokens of the text whose emissions are told
MAX_ROWS = 60  # tokens in the table of a terminal
FORGOTTEN = 0.01  # distance below which nothing is left of the beginning, to say


@view
def trellis(model: Any, text: Any, options: TrellisOptions) -> Sheet:
    """Show filter, smoothing and Viterbi path of a hidden Markov model along a text or a sentence."""
    if model.task == "tagger":
        if options.tables is not None:
            raise ConfigError("tables can be changed of language models only", ["tables"])
        found = _of_tagger(model, text)
    else:
        found = _of_language(model, text, options.tables)
    tokens, names, lattice, forgetting, said, tables = found
    if options.first > len(tokens):
        raise ConfigError(
            f"first must be from 1 to {len(tokens):,}, the tokens that are looked at; got {options.first:,}",
            ["first"],
        )
    rows = [_row(lattice, names, t, token) for t, token in enumerate(tokens)]
    changed = sum(row["filter"] != row["smoothing"] for row in rows)
    off = sum(row["path"] != row["smoothing"] for row in rows)
    tokens_off = f"{off:,} token" + "s" * (off != 1)
    summary = [
        f"What came later changed the likeliest state of {changed:,} of {len(rows):,} tokens. The likeliest "
        f"path has {lattice.path_share:.1%} of the probability of all paths; at {tokens_off} it is "
        "not in the state that is likeliest there.",
        _forgetting_sentence(forgetting),
        "In the picture a disc is as large as the probability of a state given the whole text, a ring as "
        "that given the tokens up to it; lines are moves, orange is the likeliest path.",
        *said,
    ]
    low = options.first - 1
    drawn = slice(low, low + COLUMNS)
    if len(tokens) > COLUMNS:
        last = min(low + COLUMNS, len(tokens))
        summary.append(
            f"The picture has the tokens {options.first:,} to {last:,} of {len(tokens):,}."
        )

    def draw(page: bool) -> Charts:
        shown = [f"{low + i + 1} {visible(token)}" for i, token in enumerate(tokens[drawn])]
        part = (
            lattice.filtered[drawn],
            lattice.smoothed[drawn],
            lattice.moves[low : low + COLUMNS - 1],
        )
        charts = {"States, token by token": trellis_chart(*part, lattice.path[drawn], shown, names)}
        if max(forgetting) > FLOOR:
            charts[FORGETTING] = forgetting_chart({model.label(): forgetting})
        return charts

    return Sheet(
        f"{model.label()}: trellis",
        draw,
        {
            "states": names,
            "tokens": tokens,
            "filter": lattice.filtered,
            "smoothing": lattice.smoothed,
            "path": [names[s] for s in lattice.path.tolist()],
            "path_share": lattice.path_share,
            "log_prob": lattice.log_prob,
            "forgetting": forgetting,
            "moves": _moves(lattice.moves[low : low + COLUMNS - 1], low),
            "tables": tables,
            "rows": rows,
        },
        summary,
        lines=_lines(rows),
    )


Tables = dict[str, Any] | None
Found = tuple[list[str], list[str], Lattice, list[float], list[str], Tables]


def _of_language(model: Any, text: str, changed: str | None) -> Found:
    ids, lengths = model.encode(text)
    if not text.strip():
        raise DataError("the text is empty; give one")
    said = []
    if len(lengths) > 1:
        said.append(f"Of {len(lengths):,} sequences, the first is shown.")
    ids = ids[: lengths[0]]
    if len(ids) > WINDOW:
        said.append(f"Of its {len(ids):,} tokens, the first {WINDOW:,} are looked at.")
        ids = ids[:WINDOW]
    names = [
        f"{i}: {' '.join(visible(word) for word, _ in words)}"
        for i, words in enumerate(model.top_words(IN_NAME))
    ]
    chain, tokenizer = model.chain, model.tokenizer
    if changed is not None:
        edits = read_edits(_read(changed), tokenizer.id)
        chain = edited(chain, edits)
        rows = f"{edits.n_rows:,} rows are" if edits.n_rows != 1 else "One row is"
        said.append(
            f"{rows} changed. What was given stays, and the rest of a row is scaled so that it sums to one; "
            "given values with a sum above one are divided by it."
        )
        costs = chain.token_log_probs(ids)
        if np.isinf(costs).any():
            at = int(np.isinf(costs).argmax())
            raise DataError(
                f"with these tables the text cannot occur: token {at + 1}, "
                f"{tokenizer.token(int(ids[at]))!r}, has the probability 0 there"
            )
    shown = list(dict.fromkeys(ids.tolist()))[:MOST_WORDS]
    tables = {
        "start": chain.start,
        "transitions": chain.transitions,
        "words": [tokenizer.token(i) for i in shown],
        "emissions": chain.emissions[:, shown],
    }
    other = np.zeros(chain.n_states)
    other[chain.start.argmin()] = 1.0
    return (
        [tokenizer.token(int(i)) for i in ids],
        names,
        of_chain(chain, ids),
        chain.forgetting(ids, other).tolist(),
        said,
        tables,
    )


def _read(path: str) -> Any:
    """Return the values of a file of JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", ["tables"]) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {str(error)[:100]}", ["tables"]) from None


def _of_tagger(model: Any, text: Any) -> Found:
    (words,), _ = model.sequences(text)
    if not words:
        raise DataError("the sentence has no words; give one")
    said = []
    if len(words) > WINDOW:
        said.append(f"Of {len(words):,} words, the first {WINDOW:,} are looked at.")
        words = words[:WINDOW]
    if unknown := sum(not model.knows(word) for word in words):
        said.append(f"{unknown:,} of {len(words):,} words were not in the training data.")
    transitions, emissions = model.log_scores(words)
    (path,) = model.tag_ids([words])
    begins = transitions[-1, -1, :-1]
    distances = forgetting_of_tags(transitions, emissions, int(begins.argmin()))
    lattice = of_tags(transitions, emissions, path)
    return words, list(model.tags), lattice, distances.tolist(), said, None


def _moves(moves: np.ndarray, first: int) -> list[list[float]]:
    """Return the moves that are drawn: place, state from which, state to which, probability."""
    return [
        [first + t, a, b, float(moves[t, a, b])] for t, a, b in np.argwhere(moves >= SEEN).tolist()
    ]


def _row(lattice: Lattice, names: list[str], t: int, token: str) -> dict[str, Any]:
    then, later, path = (
        int(lattice.filtered[t].argmax()),
        int(lattice.smoothed[t].argmax()),
        int(lattice.path[t]),
    )
    return {
        "number": t + 1,
        "token": token,
        "filter": names[then],
        "filter_probability": float(lattice.filtered[t, then]),
        "smoothing": names[later],
        "smoothing_probability": float(lattice.smoothed[t, later]),
        "path": names[path],
        "path_probability": float(lattice.smoothed[t, path]),
    }


def _forgetting_sentence(distances: list[float]) -> str:
    below = [t for t, distance in enumerate(distances, 1) if distance < FORGOTTEN]
    if not below:
        return (
            f"Begun in another state, it still believes otherwise after the last token: the distance is "
            f"{distances[-1]:.3f}."
        )
    return (
        f"Begun in another state, it has forgotten that after {below[0]:,} tokens (distance below "
        f"{FORGOTTEN})."
    )


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    wide = min(max(len(row[kind]) for row in rows for kind in ("filter", "smoothing", "path")), 24)
    lines = [
        f"{'':>6}{'token':<14}{'filter':<{wide}}{'':>7}  {'smoothing':<{wide}}{'':>7}  {'path':<{wide}}"
    ]
    for row in rows[:MAX_ROWS]:
        then, later = row["filter_probability"], row["smoothing_probability"]
        lines.append(
            f"{row['number']:>5} {row['token']!r:<14}{row['filter'][:wide]:<{wide}}{then:>7.1%}  "
            f"{row['smoothing'][:wide]:<{wide}}{later:>7.1%}  {row['path'][:wide]:<{wide}}"
            f"{row['path_probability']:>7.1%}"
        )
    if len(rows) > MAX_ROWS:
        lines.append(f"      ... and {len(rows) - MAX_ROWS:,} more; to_frame() and JSON have all")
    return lines
