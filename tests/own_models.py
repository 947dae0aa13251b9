"""Models as a user would write them in a script: the primitive, and at most options."""

import math
import re

import numpy as np

import seqloom
from seqloom.contracts.answering import Found


class Bigram(seqloom.LanguageModel):
    """The last token decides"""

    k: float = seqloom.option(0.1, "added to every count", minimum=1e-6)

    def fit_ids(self, ids, how):
        counts = np.full((self.tokenizer.vocab_size,) * 2, self.k)
        np.add.at(counts, (np.roll(ids, 1), ids), 1)
        self.table = np.log(counts / counts.sum(axis=1, keepdims=True))

    def next_log_probs(self, context):
        return self.table[context[-1]]


class Votes(seqloom.Classifier):
    """Each word votes for the classes that it was seen with"""

    k: float = seqloom.option(1.0, "added to every vote", minimum=1e-6)

    def fit_examples(self, data, how):
        self.votes = {}
        for text, label in zip(data.texts, data.labels):
            for word in text.split():
                self.votes.setdefault(word, [0] * len(self.classes))[self.classes.index(label)] += 1

    def class_log_probs(self, texts):
        none = [0] * len(self.classes)
        counts = np.array(
            [
                np.sum([none, *(self.votes.get(word, none) for word in text.split())], axis=0)
                for text in texts
            ]
        )
        return np.log((counts + self.k) / (counts + self.k).sum(axis=1, keepdims=True))


class Frequent(seqloom.Tagger):
    """The most frequent tag of each word"""

    def fit_sentences(self, data, how):
        counts = {}
        for words, tags in zip(data.sentences, data.tags):
            for word, tag in zip(words, tags):
                counts.setdefault(word, []).append(tag)
        self.best = {word: max(sorted(set(tags)), key=tags.count) for word, tags in counts.items()}
        self.usual = max(self.tags, key=[tag for tags in data.tags for tag in tags].count)

    def tag(self, words):
        return [self.best.get(word, self.usual) for word in words]


class Drift(seqloom.Forecaster):
    """The last value, moved by the mean step"""

    def fit_series(self, data, how):
        parts = self.windows_of(data)
        self.drift = np.nanmean(
            np.concatenate([truth[:, 0] - windows.past[:, -1] for windows, truth in parts]), axis=0
        )

    def forecast_windows(self, windows, horizon):
        return windows.past[:, -1:] + self.drift * np.arange(1, horizon + 1)[:, None]


class Backwards(seqloom.Translator):
    """The source from its end to its beginning, character by character"""

    def fit_pairs(self, data, how):
        self.tokenizers = {
            "source": seqloom.Tokenizer(kind="char").fit(data.source_texts),
            "target": seqloom.Tokenizer(kind="char").fit(data.targets),
        }
        self.sure = 0.9

    def decoder(self, sources):
        return Writer(
            self.target_ids([source[::-1] for source in sources]), self.target_tokenizer, self.sure
        )


class Between(seqloom.MaskedModel):
    """How often each token stood beside the same neighbours"""

    def fit_corpus(self, corpus, how):
        self.seen = np.ones(
            (2, self.tokenizer.vocab_size + 1, self.tokenizer.vocab_size)
        )  # the last one: nothing there
        for line in corpus.lines():
            ids = [-1, *self.tokenizer.encode(line.strip()).tolist(), -1]
            for left, token, right in zip(ids, ids[1:-1], ids[2:]):
                self.seen[0, left, token] += 1
                self.seen[1, right, token] += 1

    def mask_log_probs(self, rows):
        found = []
        for ids in map(np.concatenate, rows):
            around, places = np.array([-1, *ids.tolist(), -1]), np.flatnonzero(ids < 0)
            scores = np.log(self.seen[0, around[places]]) + np.log(self.seen[1, around[places + 2]])
            found.append(
                (scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))).astype(np.float32)
            )
        return found


class Named(seqloom.Answerer):
    """The capital letters after the last word of the question; no answer where it is not in the context"""

    def fit_questions(self, data, how):
        self.sure = 0.9

    def find_spans(self, pairs):
        found = []
        for question, context in pairs:
            last = question.rstrip("?").split(" ")[-1]
            match = re.search(rf"{re.escape(last)} is (\w+)", context) if last else None
            span = (match.start(1), match.end(1)) if match else (0, 0)
            found.append(Found(*span, math.log(self.sure), 0.1 if match else 1.0))
        return found


class Letters(seqloom.TextEmbedder):
    """How often each letter occurs in a text, weighted by how rare it was in the training text"""

    def fit_corpus(self, corpus, how):
        counts = np.bincount(np.frombuffer(corpus.text().encode(), np.uint8) % 32, minlength=32)
        self.rarity = (1 / (1 + counts)).astype(np.float32)

    def embed_texts(self, texts):
        letters = [np.frombuffer(text.encode(), np.uint8) % 32 for text in texts]
        return np.array(
            [np.bincount(one, minlength=32) * self.rarity for one in letters], np.float32
        )


class Writer:
    """Gives the right next character that probability and shares the rest among the others."""

    def __init__(self, targets, tokenizer, sure):
        self.targets, self.vocab_size, self.eos_id, self.sure = (
            targets,
            tokenizer.vocab_size,
            tokenizer.eos_id,
            sure,
        )

    def start(self, n):
        return self.state(np.arange(n), np.zeros(n, np.int64))

    def step(self, state, ids):
        return self.state(state[0], state[1] + 1)

    def state(self, source, at):
        probs = np.full(
            (len(at), self.vocab_size), (1 - self.sure) / (self.vocab_size - 1), np.float32
        )
        for row, (i, t) in enumerate(zip(source.tolist(), at.tolist())):
            probs[row, self.targets[i][min(t, len(self.targets[i]) - 1)]] = self.sure
        return (source, at), np.log(probs)
