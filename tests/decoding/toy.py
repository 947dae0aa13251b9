"""Small Steppers: a table of bigrams, one whose state is as awkward as the contract allows, and a
translator's.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def log(probs):
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(probs, np.float64)).astype(np.float32)


class Bigrams:
    """p(next | last) from a table; row V of the table is the start."""

    def __init__(self, probs, eos_id=0):
        self.table = log(probs)  # (V + 1, V)
        self.vocab_size = self.table.shape[1]
        self.eos_id = eos_id
        self.tokens_stepped = 0

    def start(self, n):
        last = np.full(n, self.vocab_size)
        return (last,), self.table[last]

    def step(self, state, ids):
        assert ids.dtype == np.int64
        assert ids.shape == state[0].shape
        self.tokens_stepped += len(ids)
        return (ids.copy(),), self.table[ids]


def random_bigrams(vocab_size, seed=0, zeros=False):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(vocab_size, 0.7), size=vocab_size + 1)
    if zeros:
        probs[rng.random(probs.shape) < 0.3] = 0.0
        probs[:, 0] += 1e-3  # no row is left empty
        probs /= probs.sum(axis=1, keepdims=True)
    return Bigrams(probs)


class Attentive:
    """Every past token matters, by content and by place, as in a Transformer with a key-value cache.

    The cache is padded on the right and grows; `step` writes into the state that it is given; what is in
    the padding is spoilt on purpose. Rows are computed one by one, so they cannot differ with the batch.
    """

    def __init__(self, vocab_size=5, seed=0, eos_id=0, spread=2.0):
        rng = np.random.default_rng(seed)
        self.vocab_size, self.eos_id = vocab_size, eos_id
        self.embedding = rng.normal(size=(vocab_size, 4))
        self.output = rng.normal(size=(4, vocab_size)) * spread
        self.mixer = rng.normal(size=(4, 4))

    def start(self, n):
        state = (np.zeros(n, np.int64), (np.zeros((n, 1, 4)), np.zeros((n, 4))))
        return state, self._log_probs(state)

    def step(self, state, ids):
        lengths, (cache, hidden) = state
        assert ids.dtype == np.int64
        assert ids.shape == lengths.shape
        if len(ids) and lengths.max() >= cache.shape[1]:
            grown = np.full((len(ids), cache.shape[1] + 2, 4), 7.7)
            grown[:, : cache.shape[1]] = cache
            cache = grown
        for row, token in enumerate(ids):
            cache[row, lengths[row]] = self.embedding[token]
            hidden[row] = np.tanh(self.mixer @ hidden[row] + self.embedding[token])
            lengths[row] += 1
        state = (lengths, (cache, hidden))
        return state, self._log_probs(state)

    def _log_probs(self, state):
        lengths, (cache, hidden) = state
        rows = []
        for row, length in enumerate(lengths):
            past = cache[row, :length] * np.arange(1, length + 1)[:, None]
            logits = (np.tanh(past.sum(axis=0)) + hidden[row]) @ self.output
            rows.append(logits - math.log(np.exp(logits).sum()))
        return np.array(rows, np.float32).reshape(len(lengths), self.vocab_size)


class Translations:
    """A decoder over source sentences: row i of `start` belongs to source i. What it remembers of
    them is its own and never moves; the state holds the number of the source, the position in it,
    and the last token.
    """

    def __init__(self, sources, vocab_size=6, seed=0, eos_id=0, spread=1.0):
        rng = np.random.default_rng(seed)
        self.vocab_size, self.eos_id = vocab_size, eos_id
        self.embedding = rng.normal(size=(vocab_size, 4))
        self.last = rng.normal(size=(vocab_size, vocab_size)) * spread
        self.output = rng.normal(size=(4, vocab_size)) * spread
        self.memory = [self.embedding[source] for source in sources]
        for memory in self.memory:
            memory.flags.writeable = False
        self.widths = []

    def start(self, n):
        assert n == len(self.memory)
        state = (np.arange(n), np.zeros(n, np.int64), np.full(n, self.eos_id))
        return state, self._log_probs(state)

    def step(self, state, ids):
        source, position, _ = state
        assert (
            np.diff(source) >= 0
        ).all()  # hypotheses of one source stay side by side, sources in their order
        self.widths.append(len(source))
        state = (source, position + 1, ids.copy())
        return state, self._log_probs(state)

    def _log_probs(self, state):
        rows = []
        for source, position, last in zip(*state):
            weights = np.exp(-np.abs(np.arange(len(self.memory[source])) - position))
            logits = (weights @ self.memory[source]) @ self.output + self.last[last]
            rows.append(logits - math.log(np.exp(logits).sum()))
        return np.array(rows, np.float32)


class Aligned(Translations):
    """A translator that shows its attention, which depends on the last token too; beyond a source
    it is spoilt on purpose.
    """

    def attention(self, state):
        lengths = np.array([len(memory) for memory in self.memory])
        weights = np.full((len(state[0]), lengths.max()), 7.7)
        for row, (source, position, last) in enumerate(zip(*state)):
            places = np.arange(lengths[source])
            near = np.exp(-np.abs(places - position) + self.memory[source] @ self.embedding[last])
            weights[row, : lengths[source]] = near / near.sum()
        return weights, lengths[state[0]]


def log_probs_after(stepper, ids):
    """The slow, obvious way: one row, token by token."""
    state, log_probs = stepper.start(1)
    for token in ids:
        state, log_probs = stepper.step(state, np.array([token], np.int64))
    return log_probs[0]


def greedy(stepper, prompt, max_tokens):
    """Ids with the end symbol, if it came."""
    ids = []
    while len(ids) < max_tokens and stepper.eos_id not in ids:
        ids.append(int(log_probs_after(stepper, [*prompt, *ids]).argmax()))
    return ids


def every_output(stepper, prompt, max_tokens):
    """(ids with the end symbol, log-probability) of all outputs of at most max_tokens."""
    words = [i for i in range(stepper.vocab_size) if i != stepper.eos_id]
    for length in range(1, max_tokens + 1):
        lasts = range(stepper.vocab_size) if length == max_tokens else [stepper.eos_id]
        for body in itertools.product(words, repeat=length - 1):
            for last in lasts:
                ids = [*body, last]
                total = sum(
                    float(log_probs_after(stepper, [*prompt, *ids[:i]])[ids[i]])
                    for i in range(length)
                )
                yield ids, total


def run(stream, eos_id):
    """The ids of each row of a stream, the end symbol included; checks that -1 follows it and
    nothing else.
    """
    steps = np.array(list(stream))  # (T, n)
    rows = []
    for column in steps.T:
        ended = np.flatnonzero(column == eos_id)
        length = ended[0] + 1 if len(ended) else len(column)
        assert (column[:length] >= 0).all()
        assert (column[length:] == -1).all()
        rows.append(column[:length].tolist())
    return rows
