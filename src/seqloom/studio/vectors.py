"""Word and sentence vectors for the page: a plane of words or texts, and how far words lean."""

from __future__ import annotations

from typing import Any

from seqloom.serving.catalogue import Served
from seqloom.serving.fields import Fields, Refused
from seqloom.views import word_vectors

MOST_WORDS, FEWEST = 1000, 2  # points of a plane
MOST_TEXTS = 200  # lines whose vectors are computed


def plane(served: Served, asked: Fields) -> dict[str, Any]:
    """Return words as points: the first `top` of the model and those that are asked for (`words`); of
    sentence vectors the lines of a text.
    """
    method, words = asked.text("method", "pca"), _words(asked)
    seed = asked.integer("seed", 0, 0, 2**31 - 1) or 0
    if served.task.name == "sentence vectors":
        lines = [one for one in (asked.text("text", "") or "").splitlines() if one.strip()]
        lines = list(dict.fromkeys(lines))[:MOST_TEXTS]
        if len(lines) < FEWEST:
            raise Refused("a plane needs at least two lines of text", field="text")
        sheet = word_vectors.word_map(served.model, lines, method=method, seed=seed)  # type: ignore[arg-type]
    else:
        top = asked.integer("top", word_vectors.TOP, FEWEST, MOST_WORDS) or 0
        frequent = word_vectors.first_words(served.model, top)
        unknown = [word for word in words if not served.model.knows(word)]
        groups = {"asked": [w for w in words if w not in unknown], "": frequent}
        sheet = word_vectors.word_map(served.model, groups, method=method, seed=seed)  # type: ignore[arg-type]
        return _told(sheet) | {"unknown": unknown}
    return _told(sheet) | {"unknown": []}


def leaning(served: Served, asked: Fields) -> dict[str, Any]:
    """Return the cosine of words with the direction from the first to the second word of a pair."""
    pair = asked.texts("pair", 2)
    if len(pair) != 2 or served.task.name != "word vectors":
        raise Refused("pair must be a list of two words, for word vectors", field="pair")
    sheet = word_vectors.leaning_along(served.model, [(pair[0], pair[1])], _words(asked))
    return {"title": sheet.title, "leans": sheet.data}


def _words(asked: Fields) -> list[str]:
    return [word for word in asked.texts("words", MOST_TEXTS) if word.strip()]


def _told(sheet: Any) -> dict[str, Any]:
    return {"summary": list(sheet.summary), **sheet.data}
