"""Words as two arrays of a saved tagger: their bytes, one after the other, and where each ends."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from seqloom.errors import ModelError


def pack_words(words: Iterable[str]) -> dict[str, np.ndarray]:
    spelled = [word.encode("utf-8", "surrogatepass") for word in words]
    return {
        "words": np.frombuffer(b"".join(spelled), np.uint8).copy(),
        "word_ends": np.cumsum([len(w) for w in spelled]),
    }


def unpack_words(arrays: dict[str, np.ndarray]) -> list[str]:
    """Different words, or the file is damaged."""
    blob, ends = np.asarray(arrays["words"]).tobytes(), arrays["word_ends"].tolist()
    words = [
        blob[start:end].decode("utf-8", "surrogatepass") for start, end in zip([0, *ends], ends)
    ]
    if ends != sorted(ends) or ends[-1:] != [len(blob)] or len(set(words)) < len(words):
        raise ModelError("its words contradict each other: the file is damaged")
    return words
