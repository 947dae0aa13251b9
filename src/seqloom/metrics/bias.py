"""How far words lean: the word-embedding association test, and leanings along a direction.

WEAT (Caliskan, Bryson and Narayanan 2017) asks whether the targets X lie nearer to the attributes
A, and Y nearer to B. With s(w) = mean cos(w, a) - mean cos(w, b), equation by equation:

    statistic    sum of s over X - sum of s over Y
    effect size  d = (mean of s over X - mean of s over Y) / standard deviation of s over both
                 (n - 1, as May et al. 2019)
    p-value      the share of the partitions of both into sizes |X| and |Y| whose statistic is at
                 least as large (one-sided)

Direct bias (Bolukbasi et al. 2016, section 5.2) is the mean |cos| of words that ought to be neutral
with a direction. It says little about what neighbours still give away (Gonen and Goldberg 2019), so
`told_by_neighbours` measures that too.

The built-in word lists of the tests are those of Caliskan, Bryson and Narayanan 2017 (`Semantics
derived automatically from language corpora contain human-like biases`, supplement), the defining
pairs those of Bolukbasi et al. 2016 (`Man is to computer programmer as woman is to homemaker?`,
appendix), names included.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from seqloom.errors import ConfigError, DataError, suggest_known
from seqloom.metrics.bootstrap import CELLS
from seqloom.text.bundled import read_tables

Pairs = list[tuple[str, str]]
FOUR = ("X", "Y", "A", "B")  # two lists of targets, two of attributes

# which ought not to lean, but for the people among them
_NEUTRAL = "occupations career family math arts science arts_2"


@dataclass(frozen=True)
class WordLists:
    """Lists, pairs and tests by name."""

    lists: dict[str, list[str]] = field(default_factory=dict)
    pairs: dict[str, Pairs] = field(default_factory=dict)
    tests: dict[str, tuple[str, str, str, str]] = field(default_factory=dict)

    def test(self, name: str) -> tuple[list[str], list[str], list[str], list[str]]:
        """Return X, Y, A and B of a test, given by its name or by the names of the four lists, with
        commas.
        """
        names = self.tests.get(name) or tuple(part.strip() for part in name.split(","))
        if len(names) == 1:
            raise ConfigError(
                f"unknown test {name!r}{suggest_known(name, self.tests)}; or name four lists, X,Y,A,B"
            )
        if len(names) != 4:
            raise ConfigError(f"a test compares four lists X,Y,A,B; {name!r} names {len(names)}")
        x, y, a, b = (self.words(part) for part in names)
        return x, y, a, b

    def words(self, name: str) -> list[str]:
        if name not in self.lists:
            raise ConfigError(f"unknown list {name!r}{suggest_known(name, self.lists)}")
        return self.lists[name]


def built_in() -> WordLists:
    """Return the lists of `data/bundled/bias.toml`, and one of all words that ought not to lean."""
    tables = read_tables("bias")
    lists = {name: words.split() for name, words in tables["lists"].items()}
    lists["neutral"] = list(
        dict.fromkeys(word for name in _NEUTRAL.split() for word in lists[name] if word.islower())
    )
    pairs = {name: [_pair(pair) for pair in some.split()] for name, some in tables["pairs"].items()}
    tests = {name: (x, y, a, b) for name, (x, y, a, b) in tables["tests"].items()}
    return WordLists(lists, pairs, tests)


def read_word_lists(path: str | Path) -> WordLists:
    """Read word lists from a JSON file; `tests` may also name built-in lists, which a list of that
    name in the file replaces. The file holds an object:

        {"career": ["office", "salary"], "family": ["home", "wedding"], ...}   lists, as WEFE has them
        {"pairs": [["he", "she"], ["man", "woman"]]}                           pairs
        {"tests": {"work": ["career", "family", "he", "she"]}}                 names of X, Y, A and B
        {"X": [...], "Y": [...], "A": [...], "B": [...]}                       one test alone, or
                                                                               several by name
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path}: not a JSON file of word lists ({error})") from None
    if isinstance(content, list):
        content = {Path(path).stem: content}
    if not isinstance(content, dict) or not content:
        raise DataError(
            f'{path}: a JSON object of word lists is needed, such as {{"career": ["office", "salary"], ..}}'
        )
    lists = WordLists()
    if set(FOUR) <= content.keys():
        content = {
            **{key: value for key, value in content.items() if key not in FOUR},
            Path(path).stem: {key: content[key] for key in FOUR},
        }
    for name, value in content.items():
        if name == "tests" and isinstance(value, dict):
            for test, four in value.items():
                _take_test(lists, str(path), test, four)
        elif isinstance(value, dict):
            _take_test(lists, str(path), name, value)
        else:
            _take_list(lists, str(path), name, value)
    return lists


def with_built_in(custom: WordLists | None) -> WordLists:
    """Return the built-in lists, with custom lists replacing those of the same name."""
    base = built_in()
    return (
        base
        if custom is None
        else WordLists(
            base.lists | custom.lists, base.pairs | custom.pairs, base.tests | custom.tests
        )
    )


def _take_list(lists: WordLists, path: str, name: str, value: Any) -> None:
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        lists.lists[name] = list(dict.fromkeys(value))
    elif (
        isinstance(value, list)
        and value
        and all(
            isinstance(pair, list)
            and len(pair) == 2
            and all(isinstance(word, str) for word in pair)
            for pair in value
        )
    ):
        lists.pairs[name] = [(first, second) for first, second in value]
    else:
        raise DataError(f"{path}: {name!r} is neither a list of words nor a list of pairs of words")


def _take_test(lists: WordLists, path: str, name: str, value: Any) -> None:
    """Add a test given as the names of four lists, or as the four lists themselves."""
    four = [value.get(key) for key in FOUR] if isinstance(value, dict) else value
    if not isinstance(four, list) or len(four) != 4 or not all(four):
        raise DataError(f"{path}: the test {name!r} needs four lists, X, Y, A and B")
    names = []
    for key, part in zip(FOUR, four):
        if isinstance(part, list):
            _take_list(lists, path, f"{name} {key}", part)
        names.append(part if isinstance(part, str) else f"{name} {key}")
    lists.tests[name] = (names[0], names[1], names[2], names[3])


def as_pairs(text: str) -> Pairs:
    """Parse pairs: `he,she` is one pair, `he:she,man:woman` are several.

    >>> as_pairs("he,she"), as_pairs("he:she, man:woman")
    ([('he', 'she')], [('he', 'she'), ('man', 'woman')])
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if ":" not in text and len(parts) == 2:
        return [(parts[0], parts[1])]
    bad = [part for part in parts if part.count(":") != 1 or not all(_pair(part))]
    if bad or not parts:
        raise ConfigError(f"{text!r} is not a pair he,she nor a list of pairs he:she,man:woman")
    return [_pair(part) for part in parts]


def _pair(text: str) -> tuple[str, str]:
    first, _, second = text.partition(":")
    return first.strip(), second.strip()


def word_list(text: str, lists: WordLists) -> list[str]:
    """Return words given by the name of a list, by a file (JSON, or one word a line), or written
    out with commas.
    """
    if text in lists.lists:
        return lists.lists[text]
    if Path(text).is_file():
        if Path(text).suffix.lower() == ".json":
            return sorted(
                {word for words in read_word_lists(text).lists.values() for word in words}
            )
        return _lines(text)
    if "," in text:
        return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    raise ConfigError(
        f"{text}: neither a list of words nor a file{suggest_known(text, lists.lists)}"
    )


def _lines(path: str) -> list[str]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path} as a list of words: {error}") from None
    words = list(
        dict.fromkeys(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    )
    if not words:
        raise DataError(f"{path} is empty; it must hold one word per line")
    return words


# ---- bias

EXACT = 36  # words of both targets up to which every partition counts
NEIGHBOURS = 5  # nearest words that may tell the lean of a word


class Vectors(Protocol):
    """What is needed of an embedder."""

    def knows(self, word: str) -> bool: ...
    def rows(self, words: Sequence[str]) -> np.ndarray: ...


@dataclass(frozen=True)
class Weat:
    """The outcome of one test; `missing` are words without a vector, which were left out."""

    effect_size: float
    p_value: float
    statistic: float
    partitions: int  # that were compared: all, or those drawn and the observed one
    exact: bool
    associations: tuple[dict[str, float], dict[str, float]]  # s of each word of X and of Y
    missing: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def weat(
    vectors: Vectors,
    x: Sequence[str],
    y: Sequence[str],
    a: Sequence[str],
    b: Sequence[str],
    *,
    permutations: int = 100_000,
    seed: int = 0,
) -> Weat:
    """Measure whether x is associated with a and y with b; `permutations` are sampled only if
    there are too many partitions.

    >>> toys = {"he": (1, 0), "she": (0, 1), "ship": (3, 1), "war": (2, 1), "tea": (1, 3), "art": (1, 2)}
    >>> class Toy:
    ...     def knows(self, word): return True
    ...     def rows(self, words): return np.array([toys[word] for word in words])
    >>> found = weat(Toy(), ["ship", "war"], ["tea", "art"], ["he"], ["she"])
    >>> round(found.effect_size, 4), round(found.p_value, 4), found.partitions
    (1.7071, 0.1667, 6)
    """
    if permutations < 1:
        raise ConfigError(f"permutations must be at least 1; got {permutations}")
    lists, missing = zip(*(known_words(vectors, words) for words in (x, y, a, b)))
    for name, words, given in zip(("X", "Y", "A", "B"), lists, (x, y, a, b)):
        if not words:
            raise DataError(
                f"no word of list {name} has a vector: {', '.join(list(given)[:5]) or 'it is empty'}"
            )
    if twice := set(lists[0]) & set(lists[1]):
        raise ConfigError(
            f"{min(twice)!r} is in both X and Y; a target word belongs to one of them"
        )
    near, far = unit_rows(vectors.rows(lists[2])), unit_rows(vectors.rows(lists[3]))
    # (|X| + |Y|,)
    s = unit_rows(vectors.rows([*lists[0], *lists[1]])) @ (near.mean(axis=0) - far.mean(axis=0))
    n = len(lists[0])
    spread = float(s.std(ddof=1))
    effect = float(s[:n].mean() - s[n:].mean()) / spread if spread > 1e-12 else 0.0
    p_value, partitions = p_of_partition(s, n, permutations, seed)
    named = dict(zip([*lists[0], *lists[1]], s.tolist()))
    return Weat(
        effect,
        p_value,
        float(s[:n].sum() - s[n:].sum()),
        partitions,
        len(s) <= EXACT,
        ({w: named[w] for w in lists[0]}, {w: named[w] for w in lists[1]}),
        tuple(word for words in missing for word in words),
    )


def p_of_partition(values: np.ndarray, n: int, permutations: int, seed: int) -> tuple[float, int]:
    """Return the share of the choices of n values whose sum is at least that of the first n, and
    how many choices were compared.

    The sum of all is fixed, so the statistic is as large as the sum of the first part is.

    The observed partition is one of them, so p is never zero. Up to `EXACT` words all partitions count:
    sums of subsets of one half of the words meet those of the other half, which needs 2^18 sums and not
    9 thousand million. Beyond, partitions are drawn.
    """
    values = np.asarray(values, np.float64)
    # Equal sums in another order are equal.
    least = float(values[:n].sum()) - 1e-10 * float(np.abs(values).sum())
    if len(values) <= EXACT:
        half = len(values) // 2
        count, total = _as_large(values[:half], values[half:], n, least), math.comb(len(values), n)
        return count / total, total
    rng = np.random.default_rng(seed)
    count, size = 1, max(1, CELLS // len(values))
    for done in range(0, permutations, size):
        keys = rng.random((min(size, permutations - done), len(values)), np.float32)
        chosen = np.argpartition(keys, n, axis=1)[:, :n]
        count += int(np.count_nonzero(values[chosen].sum(axis=1) >= least))
    return count / (permutations + 1), permutations + 1


def _as_large(left: np.ndarray, right: np.ndarray, n: int, least: float) -> int:
    """Count the choices of n from both halves that reach the sum `least`."""
    (sums, sizes), (others, other_sizes) = _subsets(left), _subsets(right)
    count = 0
    for k in range(max(n - len(right), 0), min(n, len(left)) + 1):
        rest = np.sort(others[other_sizes == n - k])
        some = sums[sizes == k]
        count += some.size * rest.size - int(np.searchsorted(rest, least - some).sum())
    return count


def _subsets(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum and size of every subset."""
    sums, sizes = np.zeros(1), np.zeros(1, np.int8)
    for value in values.tolist():
        sums, sizes = (
            np.concatenate([sums, sums + value]),
            np.concatenate([sizes, sizes + np.int8(1)]),
        )
    return sums, sizes


# ---- along a direction


def direct_bias(cosines: np.ndarray, strictness: float = 1.0) -> float:
    """Return the mean of |cos|^strictness of words that ought to be neutral.

    >>> direct_bias(np.array([0.5, -0.1, 0.0]))
    0.2
    """
    return round(float((np.abs(cosines) ** strictness).mean()), 12) if len(cosines) else math.nan


def told_by_neighbours(vectors: np.ndarray, leans: np.ndarray, k: int = NEIGHBOURS) -> float:
    """Return how often most of a word's k nearest neighbours among these words (n, D) lean the way
    it does; about 0.5 means that they do not tell.

    The sides are the halves above and below the median, so that guessing is right half of the time.
    """
    if len(leans) <= k:
        return math.nan
    side = leans > np.median(leans)
    units = unit_rows(vectors)
    cosines = units @ units.T  # (n, n)
    np.fill_diagonal(cosines, -np.inf)
    nearest = np.argpartition(-cosines, k, axis=1)[:, :k]
    return float(((side[nearest].sum(axis=1) * 2 > k) == side).mean())


# ---- words and vectors


def known_words(vectors: Vectors, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that have a vector, as they are or else in lower case, each once, and those
    that have none.
    """
    known: dict[str, None] = {}
    missing = []
    for word in words:
        form = next((form for form in (word, word.lower()) if vectors.knows(form)), None)
        if form is None:
            missing.append(word)
        else:
            known[form] = None
    return list(known), missing


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Return each row divided by its length, float64; a row of zeros stays."""
    rows = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)
