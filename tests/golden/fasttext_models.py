"""fastText's models that the tests read: trained on the spot where fastText is installed, and as it
once trained them.

`Recorded` answers what tests ask a model of fastText, from the files in `fasttext/`, so that the
same tests run with both.
"""

import json
import random
from pathlib import Path

import numpy as np
import pytest

HOME = Path(__file__).parent / "fasttext"
PROBES = ("moonlight", "catsat", "日本日", "é", "zzz", "neverseen", "slept")  # in none of the texts

TEXT = (
    "the cat sat on the mat while the naïve dog barked at the 日本 moon\n" * 30
    + "running runner runs ran and the cats and the dogs sat\n" * 30
)
LABELLED = "".join(
    f"__label__{'good' if i % 2 else 'bad'} the {'nice' if i % 2 else 'awful'} film number {i % 9} "
    f"was shown\n"
    for i in range(600)
)
MANY = LABELLED + "".join(
    f"__label__{i} x{i}\n" for i in range(260)
)  # 256 codes need as many words and labels

UNSUPERVISED = {
    "skipgram": {"model": "skipgram"},
    "cbow": {"model": "cbow", "minn": 2, "maxn": 4},
    "no-ngrams": {"model": "skipgram", "maxn": 0},
    "single-letters": {"model": "cbow", "minn": 1, "maxn": 3},
    "tree": {"loss": "hs"},
    "no-lengths": {"model": "skipgram", "minn": 5, "maxn": 4},
    "min-count-0": {"minCount": 0},
    "epoch-0": {"epoch": 0},
    "window-0": {"ws": 0},
    "sample-2": {"t": 2.0},
    "label": {"label": "dog"},
}
SUPERVISED = {
    "plain": {},
    "word-ngrams": {"minn": 2, "maxn": 3, "wordNgrams": 2},
    "hierarchical": {"loss": "hs"},
}
QUANTISED = {
    "codes": {},
    "lengths-apart": {"qnorm": True},
    "output-too": {"qout": True, "qnorm": True},
    "pruned": {"cutoff": 280, "qnorm": True},
    "other-stretches": {"dsub": 3},
}
NAMES = [*UNSUPERVISED, *SUPERVISED, *QUANTISED]


def file_of(name):
    return f"{name}.{'ftz' if name in QUANTISED else 'bin'}"


def train(name, place):
    """The model of that name and its file in the directory `place`."""
    fasttext = pytest.importorskip("fasttext")
    text = TEXT if name in UNSUPERVISED else LABELLED if name in SUPERVISED else MANY
    (place / "text").write_text(text, encoding="utf-8")
    threads = 12  # with fewer than ten it leaves most of its input matrix uninitialised
    options = {"dim": 4, "epoch": 1, "minCount": 1, "bucket": 60, "thread": threads, "verbose": 0}
    if name in UNSUPERVISED:
        model = fasttext.train_unsupervised(str(place / "text"), **options | UNSUPERVISED[name])
    elif name in SUPERVISED:
        model = fasttext.train_supervised(str(place / "text"), **options | SUPERVISED[name])
    else:
        model = fasttext.train_supervised(str(place / "text"), **options, minn=2, maxn=3, loss="hs")
        model.quantize(
            str(place / "text"), retrain=False, thread=threads, verbose=0, **QUANTISED[name]
        )
    model.save_model(str(place / file_of(name)))
    return model, place / file_of(name)


def recorded(name):
    return Recorded(name), HOME / file_of(name)


class Recorded:
    """What fastText said of a model, by fastText's own names."""

    def __init__(self, name):
        facts = json.loads((HOME / "facts.json").read_text(encoding="utf-8"))[name]
        self.words, self.labels, self.counts = facts["words"], facts["labels"], facts["counts"]
        with np.load(HOME / "vectors.npz") as arrays:
            self.vectors, self.output = arrays[name], arrays[f"{name}.output"]

    def get_words(self, include_freq=False):
        return (self.words, np.array(self.counts)) if include_freq else self.words

    def get_labels(self):
        return self.labels

    def get_word_id(self, word):
        return self.words.index(word)

    def get_word_vector(self, word):
        return self.vectors[[*self.words, *PROBES].index(word)]

    def get_output_matrix(self):
        return self.output


def record(names, place):
    """Train all of them with the fastText that is installed, and write what `Recorded` reads."""
    facts, arrays = {}, {}
    for name in names:
        model, path = train(name, place)
        (HOME / file_of(name)).write_bytes(path.read_bytes())
        words, counts = model.get_words(include_freq=True)
        labels = [] if name in UNSUPERVISED else model.get_labels()
        facts[name] = {"words": words, "labels": labels, "counts": counts.tolist()}
        arrays[name] = np.array(
            [model.get_word_vector(word) for word in (*words, *PROBES)], np.float32
        )
        arrays[f"{name}.output"] = (
            np.zeros(0) if name in QUANTISED else np.array(model.get_output_matrix(), np.float32)
        )
    (HOME / "facts.json").write_text(json.dumps(facts, ensure_ascii=False) + "\n", encoding="utf-8")
    np.savez_compressed(HOME / "vectors.npz", **arrays)


# ---- its classifier

TOPICS = {
    "sea": "wave ship sail salt storm harbour",
    "sky": "wing cloud bird wind storm star",
    "land": "hill road horse dust field",
}


def topic_texts(n, seed, length):
    """Texts with some words of their topic among words that say nothing; sorted by class, as files
    often are.
    """
    draw = random.Random(seed)
    noise = [f"w{i}" for i in range(200)]
    made = []
    for _ in range(n):
        topic = draw.choice(list(TOPICS))
        words = draw.choices(noise, k=length) + draw.choices(TOPICS[topic].split(), k=2)
        draw.shuffle(words)
        made.append((" ".join(words), topic))
    return sorted(made, key=lambda pair: pair[1])


def classified():
    """Texts to learn from, and texts to be judged by."""
    return topic_texts(3000, 5, 14), topic_texts(1000, 6, 14)


def accuracy(source, place):
    """Of fastText's classifier; `source`: recorded or live."""
    if source == "recorded":
        return json.loads((HOME / "classifier.json").read_text())["accuracy"]
    fasttext = pytest.importorskip("fasttext")
    train, test = classified()
    random.Random(0).shuffle(train)  # fastText reads a file in its order
    for name, rows in (("a.txt", train), ("b.txt", test)):
        (place / name).write_text("".join(f"__label__{label} {text}\n" for text, label in rows))
    peer = fasttext.train_supervised(
        str(place / "a.txt"), lr=0.3, epoch=4, dim=20, wordNgrams=1, thread=12, verbose=0
    )  # with fewer threads than ten it leaves rows uninitialised
    return peer.test(str(place / "b.txt"))[1]


def record_accuracy(place):
    (HOME / "classifier.json").write_text(json.dumps({"accuracy": accuracy("live", place)}) + "\n")
