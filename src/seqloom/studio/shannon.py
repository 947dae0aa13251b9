"""Shannon's game: guess a text character by character; the guesses it takes are a code, so they have bits.

Shannon 1951, "Prediction and entropy of printed English": somebody who guesses like you, told only at
which guess you were right, could restore the text. So a character costs what its number of guesses costs
in a code, and that may be compared with a model's bits for the same character. The code here is adaptive:
it learns from the guesses before how often you need one, two, three. With many guesses it costs the
entropy of their numbers, Shannon's upper bound, and a beginner's luck is not taken for skill.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.contracts import LanguageModel
from seqloom.errors import DataError
from seqloom.metrics import bootstrap
from seqloom.studio.following import character_share

USUAL = " etaoinsrhldcumfpgwybvkxjqz,.'-;:!?\"" + "ETAOINSRHLDCUMFPGWYBVKXJQZ" + "0123456789"
ALPHABET = USUAL + "".join(chr(i) for i in range(33, 127) if chr(i) not in USUAL)
PRIOR = 2.0  # characters' worth of what is expected of anybody: 1 guess of 2, 2 of 6, 3 of 12, ...
MOST = 400  # characters of a game


def expected() -> np.ndarray:
    """Return the shares of 1, 2, ... guesses before anything is known: 1 / (r (r + 1)), which sum to one
    over all whole numbers, here over the alphabet.
    """
    number = np.arange(1, len(ALPHABET) + 1, dtype=np.float64)
    shares = 1.0 / (number * (number + 1))
    return shares / shares.sum()


def costs(guesses: Sequence[int]) -> np.ndarray:
    """Return the bits of each character from how many guesses it took, in the order of the game."""
    counts = PRIOR * expected()
    bits = np.empty(len(guesses))
    for i, number in enumerate(guesses):
        bits[i] = math.log2(counts.sum() / counts[number - 1])
        counts[number - 1] += 1
    return bits


def is_given(character: str) -> bool:
    """Return whether a character is told without a guess: ends of lines, and what is not on each keyboard."""
    return character not in ALPHABET


def places(text: str, start: int, n: int) -> list[int]:
    """Return where the characters stand that were guessed."""
    found = [i for i in range(start, len(text)) if not is_given(text[i])][:n]
    if len(found) < n:
        raise DataError(f"after character {start:,} there are {len(found):,} to guess, not {n:,}")
    return found


def played(text: str, start: int, guesses: Sequence[int]) -> dict[str, Any]:
    """Return what a game comes to: bits of each character, per byte, and their interval over words."""
    at, bits = places(text, start, len(guesses)), costs(guesses)
    words = [
        len(re.findall(r"\S\s", text[: i + 1])) for i in at
    ]  # a space belongs to the next word
    per_word = [bits[np.equal(words, one)] for one in sorted(set(words))]
    interval = (
        bootstrap.interval(
            np.array([one.sum() for one in per_word]),
            np.array([float(len(one)) for one in per_word]),
        )
        if per_word
        else (math.nan, math.nan)
    )
    return {
        "bits": bits,
        "per_byte": float(bits.mean()) if len(bits) else None,
        "interval": list(interval),
        "at": at,
        "words": len(per_word),
        "alphabet": ALPHABET,
    }


def by_model(model: LanguageModel, text: str, at: Sequence[int]) -> dict[str, Any]:
    """Return what the same characters cost a model that read the same text before them."""
    bits = np.array(
        [-math.log2(max(character_share(model, text[:i], text[i]), 1e-300)) for i in at]
    )
    return {"bits": bits, "per_byte": float(bits.mean()) if len(bits) else None}
