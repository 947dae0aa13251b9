"""Two tasks in which one word decides another one `distance` words later, to measure how far back a model
remembers.

`copy_task`: a symbol, then fillers without meaning, then `again`: the answer is the symbol.
`agreement_task`: a noun, then a gap with other nouns in it, then `was` or `were`, which agrees with
the first noun (Linzen et al. 2016). Both follow from the seed, at any distance. They serve classifiers as
labelled texts (context and answer), and language models as lines: the answer is the last word and is
compared with the other choices.

    >>> copy_task(2, distance=3, symbols=4).lines()
    ['s2 f0 f2 again s2', 's1 f3 f1 again s1']
    >>> agreement_task(2, distance=4).lines()
    ['the child of the green kings was', 'the kings of the broken mice were']
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seqloom.data.classification import Labelled
from seqloom.errors import ConfigError

NOUNS = [
    ("king", "kings"),
    ("ship", "ships"),
    ("pilot", "pilots"),
    ("child", "children"),
    ("woman", "women"),
    ("dog", "dogs"),
    ("song", "songs"),
    ("tree", "trees"),
    ("mouse", "mice"),
    ("letter", "letters"),
]
PREPOSITIONS = ["near", "behind", "beside", "of", "with", "under"]
ADJECTIVES = ["old", "famous", "small", "green", "quiet", "broken"]
PLACES = ["here", "over there"]  # for gaps that are too short for a phrase with a noun
VERBS = ("was", "were")
AGAIN = "again"
FILLERS = 8  # number of distinct filler words


@dataclass(frozen=True)
class Probe:
    """Items of a task: the words before the answer, the answer, and the number of words between it and the
    word that decides it.
    """

    name: str
    contexts: list[list[str]]
    answers: list[str]
    choices: tuple[str, ...]  # all possible answers
    distances: list[int]

    def __len__(self) -> int:
        return len(self.answers)

    def labelled(self) -> Labelled:
        """Return the items for classifiers: the context and its answer, with a column `distance`."""
        texts = [" ".join(words) for words in self.contexts]
        return Labelled.of(
            list(zip(texts, self.answers)), columns={"distance": self.distances}, name=self.name
        )

    def lines(self) -> list[str]:
        """Return the items for language models: each with its answer as the last word."""
        return [" ".join([*words, answer]) for words, answer in zip(self.contexts, self.answers)]

    def accuracy(self, score: Callable[[str], float]) -> dict[int, float]:
        """Return, by distance, the share of items in which the answer scores highest of all choices;
        `score`: for example a language model's.
        """
        right: dict[int, list[bool]] = {distance: [] for distance in sorted(set(self.distances))}
        for words, answer, distance in zip(self.contexts, self.answers, self.distances):
            scores = {choice: score(" ".join([*words, choice])) for choice in self.choices}
            best_other = max(value for choice, value in scores.items() if choice != answer)
            right[distance].append(scores[answer] > best_other)
        return {distance: sum(values) / len(values) for distance, values in right.items()}


def copy_task(n: int, distance: int | Sequence[int], *, symbols: int = 8, seed: int = 0) -> Probe:
    """Make n items, each with one of the distances, 1 or more: the last of the words between is
    always `again`.
    """
    if not 2 <= symbols <= 1_000_000:
        raise ConfigError(f"symbols is {symbols}; it must be from 2 to 1,000,000")
    rng, distances = _drawn("copy", n, distance, seed, minimum=1)
    choices = tuple(f"s{i}" for i in range(symbols))
    answers = [rng.choice(choices) for _ in range(n)]
    contexts = [
        [answer, *(f"f{rng.randrange(FILLERS)}" for _ in range(gap - 1)), AGAIN]
        for answer, gap in zip(answers, distances)
    ]
    return Probe("copy", contexts, answers, choices, distances)


def agreement_task(n: int, distance: int | Sequence[int], *, seed: int = 0) -> Probe:
    """Make n items, each with one of the distances; the nouns of the gap are singular or plural at random,
    independently of the first.
    """
    rng, distances = _drawn("agreement", n, distance, seed)
    contexts, answers = [], []
    for gap in distances:
        plural = rng.randrange(2)
        contexts.append(["the", rng.choice(NOUNS)[plural], *_gap(gap, rng)])
        answers.append(VERBS[plural])
    return Probe("agreement", contexts, answers, VERBS, distances)


def _gap(length: int, rng: random.Random) -> list[str]:
    """Return `length` words: phrases of three, such as `near the dogs`; adjectives lengthen the last one."""
    if length < 3:
        return PLACES[length - 1].split() if length else []
    words: list[str] = []
    for i in range(length // 3):
        extra = length % 3 if i == length // 3 - 1 else 0
        words += [
            rng.choice(PREPOSITIONS),
            "the",
            *rng.sample(ADJECTIVES, extra),
            rng.choice(NOUNS)[rng.randrange(2)],
        ]
    return words


def _drawn(
    name: str, n: int, distance: int | Sequence[int], seed: int, minimum: int = 0
) -> tuple[random.Random, list[int]]:
    """Return the random generator of a task, and the distance of each item: all equally often."""
    choices = [distance] if isinstance(distance, int) else list(distance)
    if n < 1:
        raise ConfigError(f"a task of {n} items; give at least 1")
    if not choices or min(choices) < minimum:
        raise ConfigError(f"distance is {distance}; give a number from {minimum} on, or several")
    rng = random.Random(f"{name} {seed}")
    distances = [choices[i % len(choices)] for i in range(n)]
    rng.shuffle(distances)
    return rng, distances
