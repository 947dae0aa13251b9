"""What gensim says of word vectors and of phrases: asked now where it is installed, and as it once answered.

`vectors.txt` and `vectors.bin` were written by gensim; `answers.json` holds the rest. That gensim
reads our files is recorded as the digests of files that it has read to the bit.
"""

import hashlib
import json
import random
from pathlib import Path

import numpy as np
import pytest

HOME = Path(__file__).parent / "gensim"
WORDS = [
    "the",
    "naïve",
    "日本",
    "1998",
    "</s>",
    "it's",
    "nan",
    "0.5",
    "-",
    "\u00a0",
    *(f"word{i}" for i in range(30)),
]
PHRASES = [
    {"threshold": 1.0},
    {"threshold": 1.0, "connectors": "english", "min_count": 2, "joiner": "++"},
    {"scoring": "npmi"},
    {"scoring": "npmi", "threshold": -0.9, "connectors": "of,the,nowhere", "min_count": 1},
]
ODD_ONES = ["word1", "word2", "word3", "word4", "word5"]


def recorded():
    return json.loads((HOME / "answers.json").read_text(encoding="utf-8"))


def read(path, form):
    """gensim's (words, matrix) of a file."""
    vectors = pytest.importorskip("gensim.models").KeyedVectors
    found = vectors.load_word2vec_format(
        str(path), binary=form == "word2vec-binary", no_header=form == "glove"
    )
    return found.index_to_key, found.vectors


def write(words, matrix, path, binary):
    peer = pytest.importorskip("gensim.models").KeyedVectors(matrix.shape[1])
    peer.add_vectors(list(words), matrix)
    peer.save_word2vec_format(str(path), binary=binary)


def verbs(words, matrix):
    """Neighbours, analogies, cosines and the odd one out."""
    peer = pytest.importorskip("gensim.models").KeyedVectors(matrix.shape[1])
    peer.add_vectors(list(words), matrix)
    return {
        "nearest": {word: peer.most_similar(word, topn=10) for word in ("the", "word7")},
        "add": peer.most_similar(positive=["word2", "word3"], negative=["word1"], topn=5),
        "mul": peer.most_similar_cosmul(positive=["word2", "word3"], negative=["word1"], topn=5),
        "similarity": float(peer.similarity("word8", "word9")),
        "odd": peer.doesnt_match(ODD_ONES),
    }


def phrases(lines, config):
    """The joined lines, and the score of each phrase in them."""
    module = pytest.importorskip("gensim.models.phrases")
    peer = module.Phrases(
        lines,
        min_count=config.min_count,
        threshold=config.limit,
        scoring=config.scoring,
        delimiter=config.joiner,
        connector_words=frozenset(config.connecting),
    )
    return [" ".join(peer[line]) for line in lines], peer.find_phrases(lines)


def two_passes(lines):
    module = pytest.importorskip("gensim.models.phrases")
    first = module.Phrases(lines, min_count=5, threshold=3)
    once = [list(first[line]) for line in lines]
    second = module.Phrases(once, min_count=5, threshold=3)
    return [" ".join(second[line]) for line in once]


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def sentences(seed, n):
    """Lines in which some words come together on purpose, some with small words between them."""
    rng = random.Random(seed)
    plain = [f"w{i}" for i in range(30)] + ["of", "the", "Ärger", "日本"]
    sets = [
        ["new", "york"],
        ["bank", "of", "america"],
        ["lord", "of", "the", "rings"],
        ["new", "york", "times"],
        ["a_b", "c"],
    ]
    return [
        [
            word
            for _ in range(rng.randint(0, 12))
            for word in (rng.choice(sets) if rng.random() < 0.25 else [rng.choice(plain)])
        ]
        for _ in range(n)
    ]


def record(place):
    from seqloom.interop.vectors import write_vectors
    from seqloom.models.word_vectors.word_vectors import WordVectors
    from seqloom.text.phrases import PhrasesConfig

    rng = np.random.default_rng(2)
    matrix = (
        rng.normal(size=(len(WORDS), 7)) * 10.0 ** rng.integers(-12, 12, (len(WORDS), 1))
    ).astype(np.float32)
    for binary in (True, False):
        write(WORDS, matrix, HOME / ("vectors.bin" if binary else "vectors.txt"), binary)
    ours, answers = WordVectors.of(WORDS, matrix), {"read": {}, "verbs": verbs(WORDS, matrix)}
    part = ours.subset(
        [word for word in WORDS if word != "\u00a0"]
    )  # gensim takes it for white space
    for form in ("word2vec", "word2vec-binary", "glove", "fasttext"):
        write_vectors(part, place / "v", form)
        words, found = read(place / "v", form)
        assert (words, found.tobytes()) == (list(part.words), part.matrix.tobytes())
        answers["read"][form] = digest(place / "v")
    lines = sentences(1, 120)
    said = [phrases(lines, PhrasesConfig(**options)) for options in PHRASES]
    answers["phrases"] = {
        "lines": [" ".join(line) for line in lines],
        "joined": [joined for joined, _ in said],
        "scores": [scores for _, scores in said],
        "two_passes": two_passes(lines),
    }
    (HOME / "answers.json").write_text(
        json.dumps(answers, ensure_ascii=False, indent=0) + "\n", encoding="utf-8"
    )
