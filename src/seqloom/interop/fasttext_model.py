"""A fastText model file as a model of our own: open at once, with vectors for unseen words, and ready to learn further."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from seqloom import progress
from seqloom.interop.fasttext_bin import Dense, FastTextFile, read_fasttext
from seqloom.models.vectors.fasttext import FastText
from seqloom.models.vectors.word_vectors import WordVectors


def convert_fasttext(path: str | Path) -> FastText | WordVectors:
    """A `fasttext` model with all rows; words alone where the file has no n-grams, is a classifier or is quantised."""
    file = read_fasttext(path)
    words, o = file.vectors(), file.options
    nodes = max(len(words) - 1, 1) if o["loss"] == "hs" else len(words)
    ngrams = 0 < o["maxn"] >= o["minn"]
    whole = isinstance(file.input, Dense) and isinstance(file.output, Dense) and len(file.output) >= nodes
    if not ngrams or not whole or o["model"] == "supervised":
        words.maker = None
        if ngrams:
            what = "a classifier" if o["model"] == "supervised" else "quantised or without an output matrix"
            progress.say(f"{path}: {what}, so only the vectors of its {len(words):,} words are kept; ask the file itself about "
                         "other words")
        return words
    model = FastText(dimensions=o["dim"], architecture="cbow" if o["model"] == "cbow" else "skip-gram",
                     loss="softmax" if o["loss"] == "ova" else o["loss"], window=max(o["ws"], 1),
                     negatives=max(o["neg"], 1), epochs=max(o["epoch"], 1), min_count=max(o["minCount"], 1),
                     sample=min(max(o["t"], 0.0), 1.0), min_ngram=max(o["minn"], 1), max_ngram=o["maxn"], buckets=o["bucket"])
    counts = file.counts[:len(words)]  # labels come behind
    model.fitted, model.fit_info = True, words.fit_info | {"dimensions": o["dim"], "tokens": int(counts.sum())}
    model.restore_arrays({**words.words.arrays(), "counts": counts, "matrix": words.matrix,
                          "input": _rows(file, len(words) + o["bucket"]), "buckets": np.arange(o["bucket"]),
                          "output": file.output.rows(np.arange(nodes))})
    return model


def _rows(file: FastTextFile, n: int) -> np.ndarray:
    made = np.empty((n, file.options["dim"]), np.float32)
    for low in range(0, n, 1 << 16):
        part = np.arange(low, min(low + (1 << 16), n))
        made[part] = file.input.rows(part)
    return made
