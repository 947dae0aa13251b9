"""Which words of a sentence each head finds: the head or the dependents of a word, by tagged data, and the
earlier mention that a pronoun refers to, by a file of pairs.

What a word looks at is the mean over its tokens of the weights on all tokens of another word; the marks of
the model are not chosen from. With many heads the best one is good by chance. So the head for a relation is
chosen on every other sentence and measured on the others, beside the best fixed distance, chosen in the same
way (Clark et al. 2019 compare with it too).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.charts.attention import by_layer_chart, relations_chart
from seqloom.data.dependencies import ROOT, Parsed, read_parsed
from seqloom.errors import ConfigError, DataError
from seqloom.views.attending import layers_of

FEW = 10  # arcs of a relation in each half, below which it is left out
LEFT_OUT = ("punct", "root", "dep")
MAX_LINES, BEST, DRAWN = (
    40,
    8,
    24,
)  # relations and heads in the table of a terminal, relations in a chart
Place = tuple[int, int]  # the first character of a word and the one after its last


class Looks(NamedTuple):
    """What the words of a sentence look at: names of layer and head, weights (heads, W, W), whether later
    words are seen, and which words are read (W,): all but what lies beyond the context.
    """

    heads: list[tuple[str, int]]
    weights: np.ndarray
    ahead: bool
    read: np.ndarray


def words_look(model: Any, words: Sequence[str], text: str, places: Sequence[Place]) -> Looks:
    """Return what each word of a text looks at, by every head that relates a text to itself."""
    names, parts = [], []
    ahead, members = False, np.zeros((0, 0), np.float32)
    for layer in layers_of(model, list(words) if model.task == "tagger" else text):
        if not layer.itself:
            continue
        if not len(members):
            members = _members(model, layer.steps, text, places)
        counts = np.maximum(members.sum(0), 1)
        parts.append(
            np.einsum("tw,hts,sv->hwv", members / counts, layer.weights, members, optimize=True)
        )
        names += [(layer.name, head) for head in range(len(layer.weights))]
        ahead |= bool(np.triu(layer.weights.max(0), 1).any())
    return Looks(names, np.concatenate(parts), ahead, np.asarray(members.any(0)))


def _members(model: Any, steps: list[str], text: str, places: Sequence[Place]) -> np.ndarray:
    """Return which steps belong to which words, (T, W)."""
    members = np.zeros((len(steps), len(places)), np.float32)
    own_words = model.task == "tagger" and not model.config.published
    if own_words:
        count = min(members.shape)
        members[np.arange(count), np.arange(count)] = 1
        return members
    located = model.tokenizer.locate(text)
    names = [model.tokenizer.token(i) for i in located.ids.tolist()]
    first = next(
        (
            shift
            for shift in range(len(steps))
            if steps[shift : shift + len(names)] == names[: len(steps) - shift]
        ),
        None,
    )
    if first is None:
        return members
    spans = zip(located.starts.tolist(), located.stops.tolist())
    for step, (start, stop) in enumerate(spans, first):
        if step < len(steps):
            for word, (begin, end) in enumerate(places):
                members[step, word] = start < end and begin < stop
    return members


def check_reads_one(model: Any) -> None:
    """Refuse models that read pairs or numbers."""
    if model.task in ("translator", "answerer") or getattr(model, "reads_numbers", False):
        raise ConfigError(
            f"tagged words and pairs are for models that read one text; this {model.name} model does not"
        )


# ---- arcs between words


def arcs_of(model: Any, path: str, most: int) -> list[dict[str, Any]]:
    """Return for each relation and direction the head that finds it best, measured on other sentences than
    those that it was chosen on.
    """
    check_reads_one(model)
    sentences = read_parsed(path, most)
    names: list[tuple[str, int]] = []
    tables: tuple[dict[tuple[str, str], list[Any]], ...] = ({}, {})
    with progress.task("sentences", len(sentences)) as bar:
        for number, sentence in enumerate(sentences):
            text, places = sentence.text(blanks=_splits_at_blanks(model))
            looks = words_look(model, sentence.words, text, places)
            names = looks.heads
            _count(tables[number % 2], sentence, looks)
            bar.advance()
    rows = []
    for (relation, direction), chosen in tables[0].items():
        measured = tables[1].get((relation, direction))
        if measured is None or min(len(chosen), len(measured)) < FEW:
            continue
        hits = [np.mean([hit for hit, _ in half], axis=0) for half in (chosen, measured)]
        best = int(hits[0].argmax())
        offset = Counter(offset for _, offset in chosen).most_common(1)[0][0]
        rows.append(
            {
                "relation": relation,
                "from": direction,
                "arcs": len(measured),
                "layer": names[best][0],
                "head": names[best][1],
                "accuracy": float(hits[1][best]),
                "mean_accuracy": float(hits[1].mean()),
                "offset": offset,
                "offset_accuracy": float(np.mean([each == offset for _, each in measured])),
            }
        )
    if not rows:
        raise DataError(
            f"{path}: no relation has {2 * FEW} arcs in the first {len(sentences):,} sentences; give more"
        )
    return sorted(rows, key=lambda row: row["offset_accuracy"] - row["accuracy"])


def _splits_at_blanks(model: Any) -> bool:
    return model.task != "tagger" and model.tokenizer.kind == "whitespace"


def _count(table: dict[tuple[str, str], list[Any]], sentence: Parsed, looks: Looks) -> None:
    """Add for each arc which heads look along it more than at any other word, and how far it reaches."""
    weights = looks.weights.copy()
    diagonal = np.arange(len(sentence.words))
    weights[:, diagonal, diagonal] = -1.0
    best = weights.argmax(2)  # (heads, W)
    for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations)):
        relation = relation.partition(":")[0]
        if head == ROOT or relation in LEFT_OUT or not looks.read[[word, head]].all():
            continue
        for direction, start, end in (("dependent", word, head), ("head", head, word)):
            if looks.ahead or end < start:
                hits = best[:, start] == end
                table.setdefault((relation, direction), []).append((hits, end - start))


# ---- mentions


class Mention(NamedTuple):
    """A text, and where a mention, what it refers to, and what it might refer to stand."""

    text: str
    mention: Place
    right: Place
    wrong: list[Place]


def read_pairs(path: str) -> list[Mention]:
    """Read lines of a text, a mention, what it refers to and what else it might, with tabs between."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8; save it as such") from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) < 4 or not all(cells):
            raise DataError(
                f"{path}, line {number}: it takes a text, a mention, what it refers to and what else it "
                "might, with tabs between"
            )
        text, mention, *candidates = cells
        at = _find(text, mention, len(text))
        places = [None if at is None else _find(text, each, at[0]) for each in candidates]
        if at is None or None in places:
            missing = mention if at is None else candidates[places.index(None)]
            raise DataError(
                f"{path}, line {number}: {missing!r} is not a word of the text"
                + ("" if at is None else f" before {mention!r}")
            )
        found.append(Mention(text, at, places[0], places[1:]))  # type: ignore[arg-type]
    if not found:
        raise DataError(f"{path} has no line; give some")
    return found


def _find(text: str, words: str, end: int) -> Place | None:
    """Return where whole words stand last before a place, without regard to case."""
    found = list(re.finditer(rf"(?<!\w){re.escape(words)}(?!\w)", text[:end], re.IGNORECASE))
    return found[-1].span() if found else None


def pairs_of(model: Any, path: str) -> list[dict[str, Any]]:
    """Return for each head how often a mention looks more at what it refers to than at what it does not."""
    check_reads_one(model)
    pairs = read_pairs(path)
    shares = []
    names: list[tuple[str, int]] = []
    with progress.task("pairs", len(pairs)) as bar:
        for pair in pairs:
            places = _words(pair.text)
            looks = words_look(model, [pair.text[a:b] for a, b in places], pair.text, places)
            names = looks.heads
            at, *candidates = (
                [i for i, (a, b) in enumerate(places) if a < stop and start < b]
                for start, stop in (pair.mention, pair.right, *pair.wrong)
            )
            if not all(looks.read[words].all() for words in (at, *candidates)):
                raise DataError(
                    f"{path}: {pair.text!r} is too long for this model, or not read to its end"
                )
            each = [looks.weights[:, at][:, :, words].sum(2).mean(1) for words in candidates]
            shares.append((each[0], np.max(each[1:], axis=0)))
            bar.advance()
    right, wrong = (np.array(part) for part in zip(*shares))  # (pairs, heads)
    return [
        {
            "layer": layer,
            "head": head,
            "pairs": len(pairs),
            "accuracy": float((right[:, n] > wrong[:, n]).mean()),
            "weight_right": float(right[:, n].mean()),
            "weight_wrong": float(wrong[:, n].mean()),
        }
        for n, (layer, head) in enumerate(names)
    ]


def _words(text: str) -> list[Place]:
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def best_by_chance(heads: int, pairs: int) -> float:
    """Return the expected accuracy of the best of so many heads that are right in half of the cases.

    >>> best_by_chance(1, 10), round(best_by_chance(100, 10), 3)
    (0.5, 0.875)
    """
    below = np.cumsum([comb(pairs, k) for k in range(pairs + 1)]) / 2**pairs
    return float((1 - below[:-1] ** heads).sum() / pairs)


# ---- words and charts


def arc_lines(rows: list[dict[str, Any]], further: bool) -> list[str]:
    """Return a table of relations, those first in which a head is farthest above a fixed distance."""
    lines = ["", *_said("Relations between words", further)] if further else []
    width = max(len(row["layer"]) for row in rows) + 2
    lines.append(
        f"{'relation':<12}{'looks from':<12}{'arcs':>6}  {'layer':<{width}}head  right  fixed distance"
    )
    for row in rows[:MAX_LINES]:
        lines.append(
            f"{row['relation']:<12}{row['from']:<12}{row['arcs']:>6,}  {row['layer']:<{width}}"
            f"{row['head']:>4}"
            f"{row['accuracy']:>7.0%}{row['offset_accuracy']:>7.0%} ({row['offset']:+d})"
        )
    return lines


def pair_lines(rows: list[dict[str, Any]], further: bool) -> tuple[list[str], list[str]]:
    """Return a table of the heads that are right most often, and what the best is by chance."""
    lines = ["", *_said("Mentions", further)] if further else []
    width = max(len(row["layer"]) for row in rows) + 2
    lines.append(f"{'layer':<{width}}head  right  weight on the right one, on a wrong one")
    for row in sorted(rows, key=lambda row: -row["accuracy"])[:BEST]:
        lines.append(
            f"{row['layer']:<{width}}{row['head']:>4}{row['accuracy']:>7.0%}"
            f"{row['weight_right']:>8.3f}{row['weight_wrong']:>8.3f}"
        )
    pairs, best = rows[0]["pairs"], max(row["accuracy"] for row in rows)
    chance = best_by_chance(len(rows), pairs)
    return lines, [
        f"{pairs} pairs, {len(rows)} heads: the best is right in {best:.0%}; the best of as many coins would "
        f"be in {chance:.0%}."
    ]


def _said(title: str, further: bool) -> list[str]:
    return [title] if further else []


def arc_charts(data: dict[str, Any]) -> dict[str, Any]:
    """Return the charts of what was measured: relations beside a fixed distance, and pairs by layer."""
    charts: dict[str, Any] = {}
    if "arcs" in data:
        charts["Relations that a head finds"] = relations_chart(data["arcs"][:DRAWN])
    if "pairs" in data:
        charts["Pairs in which each head is right"] = by_layer_chart(
            data["pairs"], "accuracy", "share of pairs"
        )
    return charts
