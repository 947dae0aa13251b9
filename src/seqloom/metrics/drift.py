"""How far the texts that come in are from those a model was evaluated on.

Each text is measured: what it costs a language model, how many of its words are new, how sure a
classifier is, its length. For each measure the texts that came in are compared with a sample of the
reference by the two-sample statistic of Anderson and Darling (Pettitt 1976), which sees the tails
that a few foreign texts are in; which words are used, and which labels are answered, by the
distance of their means (of words: maximum mean discrepancy, Gretton et al. 2012, with a linear
kernel). All are permutation tests: who came in and who is the reference is exchanged at random, so
nothing is assumed about their distributions, and Holm's method (1979) keeps the chance that any of
them is wrong below the given rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from seqloom.errors import DataError
from seqloom.metrics.bootstrap import unpaired
from seqloom.metrics.reference import LEAST, LENGTH, NEW_WORDS, Reference, Sample

MOST_COMPARED = 5000  # texts of a window that are compared
MOST_LABELS = 200  # labels whose shares are compared
BUCKETS = 1 << 9  # of words whose means are compared
CHUNK = 200  # permutations at once
FEWEST, MOST = 1000, 20_000  # permutations
SURE = 60  # of them at least as far as what was seen, after which no more are drawn

WORDS, LABELS = "words used", "labels"
SHARES = frozenset({NEW_WORDS, "unknown words", "confidence"})  # shown in per cent

Statistic = Callable[[np.ndarray], np.ndarray]  # of rows of signs, True: came in


class Row(NamedTuple):
    """One measure of a window: in what came in, in the reference, the difference with its interval."""

    measure: str
    value: float
    expected: float
    low: float
    high: float
    p_value: float
    fires: bool

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


@dataclass(frozen=True)
class Window:
    """The measures of some texts; `first` and `last` count from 1."""

    first: int
    last: int
    distinct: int
    rows: tuple[Row, ...]

    @property
    def fires(self) -> bool:
        return any(row.fires for row in self.rows)

    @property
    def largest(self) -> Row:
        """Return the measure that differs most surely; of several, that with the largest difference,
        and one that people know rather than a distance.
        """
        return min(self.rows, key=lambda r: (r.p_value, r.measure == WORDS, -_far(r)))


@dataclass(frozen=True)
class Drift:
    """The whole and its windows, and how foreign each text is."""

    whole: Window
    windows: tuple[Window, ...]
    foreign: np.ndarray  # a score of each text: higher is more foreign
    rate: float
    reference: Reference = field(repr=False)

    @property
    def fires(self) -> bool:
        return self.whole.fires or any(window.fires for window in self.windows)


# ---- comparing


def compare(
    reference: Reference, came: Sample, *, rate: float = 0.01, window: int = 0, seed: int = 0
) -> Drift:
    """Test whether texts differ from the reference, all together and in windows of so many."""
    if len(came) < LEAST:
        raise DataError(f"only {len(came)} texts came in; {LEAST} are needed to say anything")
    base = _complete(reference, reference.sample)
    came = _complete(reference, came)
    starts = range(0, len(came) - LEAST + 1, window) if window else ()
    spans = [(0, len(came))] + [(start, min(start + window, len(came))) for start in starts]
    n_tests = len(spans) * (len(came.columns) + bool(came.words) + (came.labels is not None))
    most = int(min(MOST, max(FEWEST, 4 * n_tests / rate)))
    drafts = [
        _compared(base, came.part(np.arange(*span)), most, np.random.default_rng((seed, i)), span)
        for i, span in enumerate(spans)
    ]
    fires = iter(_holm([row.p_value for draft in drafts for row in draft.rows], rate))
    windows = [
        Window(
            draft.first,
            draft.last,
            draft.distinct,
            tuple(row._replace(fires=next(fires)) for row in draft.rows),
        )
        for draft in drafts
    ]
    return Drift(windows[0], tuple(windows[1:]), _foreign(base, came), rate, reference)


def _complete(reference: Reference, sample: Sample) -> Sample:
    """Add how many words of each text are not known."""
    if not sample.words:
        return sample
    counts = [(float(np.count_nonzero(~reference.known[w])), float(len(w))) for w in sample.words]
    ahead = {name: rows for name, rows in sample.columns.items() if name != LENGTH}
    last = {name: rows for name, rows in sample.columns.items() if name == LENGTH}
    columns = {**ahead, NEW_WORDS: np.array(counts).reshape(-1, 2), **last}
    return Sample(columns, sample.words, sample.labels, sample.keys)


def _compared(
    base: Sample, came: Sample, most: int, rng: np.random.Generator, span: tuple[int, int]
) -> Window:
    """Test one window; nothing fires yet. A text that repeats counts once, on both sides alike."""
    n_distinct = len(came.distinct())
    if n_distinct < len(came) or len(base.distinct()) < len(base):
        # Of more texts a larger share repeats, so as many are drawn of both.
        n = min(len(base), len(came))
        base, came = (one.part(np.sort(rng.permutation(len(one))[:n])) for one in (base, came))
        base, came = base.part(base.distinct()), came.part(came.distinct())
    if len(came) > MOST_COMPARED:
        came = came.part(np.sort(rng.permutation(len(came))[:MOST_COMPARED]))
    names = [name for name in came.columns if name in base.columns]
    tests: dict[str, Statistic] = {
        name: _anderson_darling(_ratios(base.columns[name]), _ratios(came.columns[name]))
        for name in names
    }
    if base.words and came.words:
        tests[WORDS] = _distance(_profiles([*base.words, *came.words]), squared=True)
    measures = {name: (came.columns[name], base.columns[name]) for name in names}
    if base.labels is not None and came.labels is not None:
        shares, named = _label_shares(base.labels, came.labels)
        tests[LABELS] = _distance(shares, squared=False)
        label, *both = _most_different(shares, named, len(base))
        measures[label] = both[0], both[1]
    p_values, drawn, seen = _permute(tests, len(base), len(came), most, rng)
    ends = unpaired(*(np.stack(columns, axis=1) for columns in zip(*measures.values())))
    rows = [Row(name, *four, p_values.get(name, 1.0), False) for name, four in zip(measures, ends)]
    if LABELS in tests:
        rows[-1] = rows[-1]._replace(p_value=p_values[LABELS])
    if WORDS in tests:
        exchanged, value = np.sqrt(drawn[WORDS]), math.sqrt(seen[WORDS])
        low, high = map(float, np.quantile(exchanged, (0.025, 0.975)))
        mean = float(exchanged.mean())
        row = Row(WORDS, value, mean, value - high, value - low, p_values[WORDS], False)
        rows.insert(len(names), row)
    return Window(span[0] + 1, span[1], n_distinct, tuple(rows))


def _ratios(rows: np.ndarray) -> np.ndarray:
    return rows[:, 0] / np.where(rows[:, 1] > 0, rows[:, 1], 1.0)


@dataclass(frozen=True)
class _AndersonDarling:
    """The statistic of two samples, of signs of the pooled texts, base first."""

    order: np.ndarray  # by the measure
    weights: np.ndarray  # of the squared gap at each place of this order; 0 inside equal values

    def __call__(self, signs: np.ndarray) -> np.ndarray:
        return self.of(_squared_gaps(signs[:, self.order]))

    def of(self, squares: np.ndarray) -> np.ndarray:
        result: np.ndarray = squares @ self.weights
        return result


def _squared_gaps(signs: np.ndarray) -> np.ndarray:
    """Return how many came in up to each place less how many would, squared."""
    n_all = signs.shape[1]
    gaps = np.cumsum(signs, axis=1, dtype=np.float64)
    gaps -= np.arange(1.0, n_all + 1) * (int(signs[0].sum()) / n_all)
    gaps *= gaps
    return gaps


def _anderson_darling(base: np.ndarray, came: np.ndarray) -> _AndersonDarling:
    pooled = np.concatenate([base, came])
    order, n_all = np.argsort(pooled, kind="stable"), len(pooled)
    ends = np.append(np.flatnonzero(np.diff(pooled[order])), n_all - 1)  # of equal values
    below = ends + 1.0
    steps = np.diff(below, prepend=0.0)  # how many have each value
    inside = ends < n_all - 1
    weights = np.zeros(n_all)
    weights[ends[inside]] = (steps / (below * np.maximum(n_all - below, 1.0)))[inside]
    return _AndersonDarling(order, weights)


def _profiles(words: list[np.ndarray]) -> np.ndarray:
    """Return a row of length 1 for each text: its words in buckets, rare ones weighing more."""
    rows = np.zeros((len(words), BUCKETS), dtype=np.float32)
    for row, hashes in zip(rows, words):
        row[hashes % BUCKETS] = 1.0
    rows *= np.log(len(rows) / np.maximum(rows.sum(axis=0), 1.0)).astype(np.float32)
    norms = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return rows / np.where(norms > 0, norms, 1.0)


def _distance(rows: np.ndarray, *, squared: bool) -> Statistic:
    """Return how far the mean row of those who came is from that of the others: the sum of squares,
    or half the sum of differences (total variation, of shares that sum to one).
    """
    total, n_all = rows.sum(axis=0, dtype=np.float64), len(rows)

    def statistic(signs: np.ndarray) -> np.ndarray:
        n_came = int(signs[0].sum())
        sums = (signs.astype(rows.dtype) @ rows).astype(np.float64)
        gaps = sums / n_came - (total - sums) / (n_all - n_came)
        result: np.ndarray = (gaps * gaps).sum(axis=1) if squared else np.abs(gaps).sum(axis=1) / 2
        return result

    return statistic


def _label_shares(
    base: Sequence[tuple[str, ...]], came: Sequence[tuple[str, ...]]
) -> tuple[np.ndarray, list[str]]:
    """Return of each text which labels it has, (n, labels), and their names; rare ones are one."""
    counts: dict[str, int] = {}
    for labels in (*base, *came):
        for label in labels:
            counts[label] = counts.get(label, 0) + 1
    named = sorted(counts, key=lambda label: (-counts[label], label))[: MOST_LABELS - 1]
    places = {label: i for i, label in enumerate(named)}
    rows = np.zeros((len(base) + len(came), len(named) + 1), dtype=np.float64)
    for row, labels in zip(rows, (*base, *came)):
        for label in labels:
            row[places.get(label, len(named))] = 1.0
    return rows, [*named, "other labels"]


def _most_different(
    shares: np.ndarray, named: list[str], n_base: int
) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the label whose share differs most, and which texts that came and of the base have it."""
    gaps = np.abs(shares[n_base:].mean(axis=0) - shares[:n_base].mean(axis=0))
    column = int(np.argmax(gaps))
    rows = np.stack([shares[:, column], np.ones(len(shares))], axis=1)
    return f"label {named[column]}", rows[n_base:], rows[:n_base]


def _permute(
    tests: Mapping[str, Statistic], n_base: int, n_came: int, most: int, rng: np.random.Generator
) -> tuple[dict[str, float], dict[str, np.ndarray], dict[str, float]]:
    """Return p-values, statistics of exchanged texts, and those of the texts as they came. A test for
    which enough exchanges were as far is done (Besag and Clifford 1991).
    """
    signs = np.zeros((1, n_base + n_came), dtype=bool)
    signs[0, n_base:] = True
    seen = {name: float(test(signs)[0]) for name, test in tests.items()}
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in tests}
    far, p_values, done = dict.fromkeys(tests, 0), dict[str, float](), 0
    while len(p_values) < len(tests):
        count = min(CHUNK, most - done)
        exchanged = rng.permuted(np.repeat(signs, count, axis=0), axis=1)
        squares: np.ndarray | None = None
        done += count
        for name, test in tests.items():
            if name in p_values:
                continue
            if isinstance(test, _AndersonDarling):
                # Signs in random order are as random in the order of any measure.
                squares = _squared_gaps(exchanged) if squares is None else squares
                values = test.of(squares)
            else:
                values = test(exchanged)
            far[name] += int(np.count_nonzero(values >= seen[name] * (1 - 1e-9)))
            drawn[name].append(values)
            if done == most or (done >= FEWEST // 2 and far[name] >= SURE):
                p_values[name] = (far[name] + 1) / (done + 1)
    return p_values, {name: np.concatenate(values) for name, values in drawn.items()}, seen


def _holm(p_values: Sequence[float], rate: float) -> list[bool]:
    """Return which hypotheses of no difference are rejected, so that any is wrongly at this rate.

    >>> _holm([0.04, 0.001, 0.03], 0.05)
    [False, True, False]
    """
    rejected = [False] * len(p_values)
    for place, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if p_values[i] > rate / (len(p_values) - place):
            break
        rejected[i] = True
    return rejected


def _far(row: Row) -> float:
    """Return how large a difference is, in units of its interval."""
    half = (row.high - row.low) / 2
    return abs(row.value - row.expected) / half if half > 0 and math.isfinite(half) else 0.0


def _foreign(base: Sample, came: Sample) -> np.ndarray:
    """Return how much of its first measure each text has beyond the reference, in units that do not
    favour short texts.
    """
    name = NEW_WORDS if came.words else next(iter(came.columns))
    first = next(iter(came.columns))
    if first in base.columns and first not in SHARES and first != LENGTH:
        name = first  # what a text costs a language model
    part, whole = base.columns[name].sum(axis=0)
    expected = part / whole if whole else 0.0
    rows = came.columns[name]
    result: np.ndarray = (rows[:, 0] - expected * rows[:, 1]) / np.sqrt(np.maximum(rows[:, 1], 1.0))
    return result
