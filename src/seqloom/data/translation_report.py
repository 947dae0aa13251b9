"""Odd pairs, reported or filtered: empty sides, very long ones, unequal lengths, copies, duplicates.

A pair counts for the first of these that holds. Words are separated by white space, and each Chinese
character or Japanese kana is one; the length of a numeric source is the number of its frames, and is not
compared with that of the target.

    >>> data = Parallel.of([("a cat", "eine Katze"), ("Berlin", "Berlin"), ("a cat", "eine Katze"),
    ...                     ("", "nichts")])
    >>> report = report_pairs(data)
    >>> report.counts["copies"], report.counts["duplicates"], report.examples["duplicates"]
    (1, 1, [(3, 'a cat', 'eine Katze')])
    >>> len(filter_pairs(data, max_words=50, drop_duplicates=True))
    2
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.data.examples import example_digest
from seqloom.data.translation import Parallel
from seqloom.errors import ConfigError, DataError, shortened

_UNSPACED = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]"
)
_MAX_EXAMPLE_LENGTH = 60  # characters of an example


@dataclass(frozen=True)
class PairReport:
    """Counts of odd pairs by kind; examples are (number of the pair from 1, source, target)."""

    name: str
    pairs: int
    counts: dict[str, int]
    examples: dict[str, list[tuple[int, str, str]]]
    words: tuple[float, float]  # average number in a source and in a target

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.pairs:,} pairs, {self.words[0]:.1f} words a source and "
            f"{self.words[1]:.1f} a target"
        ]
        width = max(map(len, self.counts))
        for kind, count in self.counts.items():
            lines.append(f"{kind:<{width}}{count:>9,}  {count / self.pairs:6.2%}")
            lines += [
                f"  {number:,}: {source} | {target}"
                for number, source, target in self.examples[kind]
            ]
        return "\n".join(lines)


def report_pairs(
    data: Parallel, *, max_words: int | None = None, max_ratio: float | None = None, shown: int = 3
) -> PairReport:
    """Count odd pairs. `max_words`, `max_ratio`: as in `filter_pairs`; `shown`: examples of each kind."""
    kinds, lengths = _odd(data, max_words, max_ratio)
    kinds["other targets"] = _other_targets(data)
    examples = {
        kind: [_example(data, int(k)) for k in np.flatnonzero(mask)[:shown]]
        for kind, mask in kinds.items()
    }
    return PairReport(
        data.name,
        len(data),
        {kind: int(mask.sum()) for kind, mask in kinds.items()},
        examples,
        (float(lengths[0].mean()), float(lengths[1].mean())),
    )


def filter_pairs(
    data: Parallel,
    *,
    max_words: int | None = None,
    max_ratio: float | None = None,
    drop_copies: bool = False,
    drop_duplicates: bool = False,
) -> Parallel:
    """Keep pairs with two non-empty sides of at most `max_words` words, neither having more than
    `max_ratio` times as many as the other. `drop_copies`: drop pairs with equal source and target;
    `drop_duplicates`: keep the first of equal pairs. The numbers of dropped pairs are reported.
    """
    kinds, _ = _odd(data, max_words, max_ratio)
    keep = {"copies": not drop_copies, "duplicates": not drop_duplicates}
    dropped = {
        kind: mask for kind, mask in kinds.items() if not keep.get(kind, False) and mask.any()
    }
    if not dropped:
        return data
    kept_mask = ~np.any(list(dropped.values()), axis=0)
    counts = ", ".join(f"{int(mask.sum()):,} {kind}" for kind, mask in dropped.items())
    if not kept_mask.any():
        raise DataError(
            f"{data.name}: none of {len(data):,} pairs is left ({counts}); allow longer or less equal ones"
        )
    progress.say(
        f"{data.name}: dropped {len(data) - int(kept_mask.sum()):,} of {len(data):,} pairs ({counts})"
    )
    return data.part(kept_mask)


def seen_sources(data: Parallel, training: Parallel) -> np.ndarray:
    """Return which sources also occur in the training data, ignoring differences in the white
    space between words: bool (n,).

    >>> seen_sources(Parallel.of([("a  b", "x"), ("c", "y")]), Parallel.of([("a b", "z")])).tolist()
    [True, False]
    """
    training_sources = set(map(example_digest, training.sources))
    return np.array([example_digest(source) in training_sources for source in data.sources])


def count_words(text: str) -> int:
    """Count words, and characters of scripts that do not separate words.

    >>> count_words("two dogs"), count_words("猫在这里 ok"), count_words("")
    (2, 5, 0)
    """
    if text.isascii() or not _UNSPACED.search(text):
        return len(text.split())
    spaced, n_unspaced = _UNSPACED.subn(" ", text)
    return n_unspaced + len(spaced.split())


def _odd(
    data: Parallel, max_words: int | None, max_ratio: float | None
) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Return the pairs of each kind, none in two, and the lengths of both sides."""
    if max_words is not None and max_words < 1:
        raise ConfigError(f"max_words must be at least 1; got {max_words}")
    if max_ratio is not None and not max_ratio >= 1:
        raise ConfigError(f"max_ratio must be at least 1; got {max_ratio}")
    lengths = [_lengths(side) for side in (data.sources, data.targets)]
    shorter, longer = np.minimum(*lengths), np.maximum(*lengths)
    kinds = {"with an empty side": shorter == 0}
    if max_words is not None:
        kinds[f"longer than {max_words:,} words"] = longer > max_words
    if max_ratio is not None and not data.numeric:
        kinds[f"of lengths more than {max_ratio:g} times apart"] = longer > max_ratio * shorter
    kinds["copies"] = np.array(
        [isinstance(a, str) and a.split() == b.split() for a, b in zip(data.sources, data.targets)]
    )
    kinds["duplicates"] = _repeated(
        [(example_digest(a), example_digest(b)) for a, b in zip(data.sources, data.targets)]
    )
    before = np.zeros(len(data), bool)
    for kind, mask in kinds.items():
        kinds[kind] = mask & ~before
        before |= mask
    return kinds, lengths


def _lengths(side: Sequence[Any]) -> np.ndarray:
    return np.array(
        [count_words(value) if isinstance(value, str) else len(value) for value in side], np.int64
    )


def _repeated(keys: Sequence[Any]) -> np.ndarray:
    """Return which keys occurred before."""
    seen: set[Any] = set()
    repeated = np.zeros(len(keys), bool)
    for k, key in enumerate(keys):
        repeated[k] = key in seen
        seen.add(key)
    return repeated


def _other_targets(data: Parallel) -> np.ndarray:
    """Return which sources occurred before with another target."""
    first: dict[bytes, bytes] = {}
    other = np.zeros(len(data), bool)
    for k, (source, target) in enumerate(zip(data.sources, data.targets)):
        digest = example_digest(target)
        other[k] = first.setdefault(example_digest(source), digest) != digest
    return other


def _example(data: Parallel, k: int) -> tuple[int, str, str]:
    source = data.sources[k]
    shown = source if isinstance(source, str) else f"{source.shape[0]} x {source.shape[1]} numbers"
    return (
        k + 1,
        shortened(shown, _MAX_EXAMPLE_LENGTH),
        shortened(data.targets[k], _MAX_EXAMPLE_LENGTH),
    )
