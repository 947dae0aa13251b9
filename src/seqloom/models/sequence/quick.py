"""One example at a time through a composed network, without torch.

For a single text torch pays more for its calls than for its sums. Here a layer is one product and one kernel; the weights are
those of the network by name, and tests hold both to the same numbers. Transformers, and documents in several rows, are left to
torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from threading import Lock

import numpy as np

from seqloom.arrays import aligned
from seqloom.kernels.decode import add_gelu
from seqloom.kernels.gates import character_maxima, gru_walk, lstm_walk, rnn_walk
from seqloom.kernels.translate import product_of_each
from seqloom.models.sequence.configs import EncoderConfig
from seqloom.models.sequence.encoded import Encoded
from seqloom.models.sequence.sizes import Sizes

Layer = Callable[[np.ndarray], np.ndarray]  # (T, D) to (T, d)
Multiply = Callable[[np.ndarray, np.ndarray, np.ndarray], None]  # weight (R, K), x (T, K), out (T, R)
FEW = 8  # examples up to which this is quicker than batches
KEPT = 1 << 25  # bytes of products with words that are kept
SHORT = 32  # steps up to which `product_of_each` is about as quick as the matrix library
ZERO = np.float32(0)


def can_be_quick(c: EncoderConfig) -> bool:
    return c.encoder != "transformer" and not c.published and getattr(c, "long", "truncate") == "truncate"


class QuickNetwork:
    """Reader and encoder of a fitted model; what the head makes of `features` is up to the caller."""

    def __init__(self, c: EncoderConfig, sizes: Sizes, arrays: Mapping[str, np.ndarray]) -> None:
        self.sizes = sizes
        self.weights = {name: np.ascontiguousarray(array) for name, array in arrays.items() if array.dtype == np.float32}
        self.spell: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
        if c.characters != "none" and not sizes.columns:
            self.spell = self._filters if c.characters == "cnn" else self._ends
        self.layers = encoder_layers(c.encoder, c.n_layers, c.window, self.weights)
        self.known: KnownWords | None = None
        if self.layers and isinstance(self.layers[0], Recurrent) and self.spell is None and not sizes.columns:
            self.known = KnownWords(sizes.vocab_size + sizes.further, self.layers[0], self._vectors)

    def features(self, encoded: Encoded, example: int) -> np.ndarray:
        """The encoder's vectors of one example, float32 (T, d_out); it must have a step."""
        steps, layers = slice(*encoded.borders[example:example + 2].tolist()), self.layers
        if self.known is not None:
            x, layers = self.known.layer.walk(self.known(encoded.steps["ids"][steps])), layers[1:]
        else:
            x = self.read(encoded, steps)
        for layer in layers:
            x = layer(x)
        return x

    # ---- reading

    def read(self, encoded: Encoded, steps: slice) -> np.ndarray:
        """The reader's vectors of these steps (T, D)."""
        weights = self.weights
        if self.sizes.columns:
            values = encoded.steps["values"][steps]
            absent = np.isnan(values)
            scaled = np.where(absent, ZERO, (values - weights["reader.mean"]) / weights["reader.scale"])
            return np.concatenate([scaled, absent.astype(np.float32)], 1) if self.sizes.missing else scaled
        vectors = self._vectors(encoded.steps["ids"][steps])
        if self.spell is None or encoded.spellings is None:
            return vectors
        spelled, where = encoded.spellings, encoded.steps["words"][steps]
        ids, lengths = spelled.ids, spelled.lengths
        if len(encoded) > 1:
            used, where = np.unique(where, return_inverse=True)
            ids, lengths = ids[used], lengths[used]
        return np.concatenate([vectors, self.spell(ids, lengths)[where]], 1)

    def _vectors(self, words: np.ndarray) -> np.ndarray:
        size = self.sizes.vocab_size
        vectors: np.ndarray = self.weights["reader.embedding.weight"][np.minimum(words, size - 1)]
        if self.sizes.further:
            beyond = np.flatnonzero(words >= size)
            vectors[beyond] = self.weights["reader.further"][words[beyond] - size]
        return vectors

    def _filters(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        bias = self.weights["reader.characters.filters.bias"]
        out = np.empty((len(ids), len(bias)), np.float32)
        character_maxima(ids, lengths, self.taps, bias, out)
        return out

    @cached_property
    def taps(self) -> np.ndarray:
        """The vectors of the characters times the three parts of the filters (3, C, F)."""
        vectors, filters = (self.weights[f"reader.characters.{name}.weight"] for name in ("embedding", "filters"))
        return np.stack([vectors @ part.T for part in np.split(filters, 3, axis=1)])

    @cached_property
    def by_character(self) -> Recurrent:
        return Recurrent(self.weights, "reader.characters.recurrent.layers.0.", "bilstm")

    def _ends(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        x, half = self.weights["reader.characters.embedding.weight"][ids], len(self.by_character.turned[0])
        out = np.zeros((len(ids), 2 * half), np.float32)
        for row, length in enumerate(lengths.tolist()):
            if length:
                states = self.by_character(x[row, :length])
                out[row] = np.concatenate([states[-1, :half], states[0, half:]])
        return out


# ---- layers


def multiply(weight: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """out (T, R) = x (T, K) times the transpose of weight (R, K). A few steps are multiplied in this thread: those of a matrix
    library wait for each other, which on a busy machine takes ten times as long as the product."""
    if len(x) <= SHORT:
        product_of_each(weight, x, out)
    else:
        np.matmul(x, weight.T, out=out)


def encoder_layers(encoder: str, n_layers: int, window: int, weights: Mapping[str, np.ndarray]) -> list[Layer]:
    """The layers of `nn.encoders`, but for those of a Transformer."""
    if encoder == "bag":
        return []
    reach = [window if encoder == "cnn" or not i else 0 for i in range(n_layers)]
    return [_window(weights, i, reach[i]) if encoder in ("window", "cnn") else
            Recurrent(weights, f"encoder.stack.layers.{i}.", encoder) for i in range(n_layers)]


def _window(weights: Mapping[str, np.ndarray], i: int, reach: int) -> Layer:
    weight, bias = weights[f"encoder.layers.{i}.weight"].T, weights[f"encoder.layers.{i}.bias"]

    def layer(x: np.ndarray) -> np.ndarray:
        y = np.ascontiguousarray(_neighbours(x[None], reach)[0] @ weight)
        add_gelu(y, bias)
        return x + y if i else y

    return layer


class Recurrent:
    """A recurrent layer in one direction or both."""

    def __init__(self, weights: Mapping[str, np.ndarray], place: str, encoder: str) -> None:
        self.cell = encoder.removeprefix("bi")
        directions = [place, f"{place}reverse."] if encoder.startswith("bi") else [place]
        self.inputs = [weights[f"{at}w_x"] for at in directions]  # (G, D)
        self.biases = [weights[f"{at}b"] for at in directions]
        self.turned = [aligned(weights[f"{at}w_h"].T) for at in directions]  # (H, G)
        self.further = [weights.get(f"{at}b_h") for at in directions]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.walk(self.projected(x))

    def projected(self, x: np.ndarray, multiply: Multiply = multiply) -> np.ndarray:
        """The input's part of the gates, (directions, T, G)."""
        out = np.empty((len(self.inputs), len(x), len(self.biases[0])), np.float32)
        for weight, bias, into in zip(self.inputs, self.biases, out):
            multiply(weight, x, into)
            into += bias
        return out

    def walk(self, projected: np.ndarray) -> np.ndarray:
        out = np.empty((*projected.shape[:2], len(self.turned[0])), np.float32)
        for i, (turned, states) in enumerate(zip(self.turned, out)):
            if self.cell == "gru":
                gru_walk(projected[i], turned, self.further[i], i == 1, states)
            else:
                (lstm_walk if self.cell == "lstm" else rnn_walk)(projected[i], turned, i == 1, states)
        return out[0] if len(out) == 1 else np.concatenate(list(out), 1)


class KnownWords:
    """A recurrent layer's products with the vectors of words, each made when the word first comes and then kept, since a few
    words make up most of every text. A product does not depend on the words beside it, to the bit."""

    def __init__(self, n_words: int, layer: Recurrent, vectors: Callable[[np.ndarray], np.ndarray]) -> None:
        self.layer, self.vectors, self.lock = layer, vectors, Lock()
        directions, gates = len(layer.inputs), len(layer.biases[0])
        self.table = np.empty((directions, min(max(KEPT // (4 * directions * gates), SHORT), n_words), gates), np.float32)
        self.places, self.used = np.full(n_words, -1), 0  # of words in the table

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        """(directions, T, G)."""
        with self.lock:
            places = self.places[ids]
            if (places < 0).any():
                new = np.unique(ids[places < 0])
                if self.used + len(new) > self.table.shape[1]:  # begin again
                    self.places[:], self.used, new = -1, 0, np.unique(ids)
                if len(new) > self.table.shape[1]:
                    return self.layer.projected(self.vectors(ids))
                made = self.layer.projected(self.vectors(new), product_of_each)
                self.table[:, self.used:self.used + len(new)] = made
                self.places[new] = np.arange(self.used, self.used + len(new))
                self.used += len(new)
                places = self.places[ids]
            return self.table[:, places]


def _neighbours(x: np.ndarray, reach: int) -> np.ndarray:
    """`nn.encoders.neighbours`."""
    if reach == 0:
        return x
    wide = np.pad(x, ((0, 0), (reach, reach), (0, 0)))
    return np.concatenate([wide[:, i:i + x.shape[1]] for i in range(2 * reach + 1)], 2)


def pooled(x: np.ndarray, kind: str, weights: Mapping[str, np.ndarray], bidirectional: bool) -> np.ndarray:
    """`nn.pooling.Pooling` of one example (T, D)."""
    if kind == "max":
        return x.max(0)
    if kind == "mean":
        return x.mean(0)
    if kind == "last":
        half = x.shape[1] // 2
        return np.concatenate([x[-1, :half], x[0, half:]]) if bidirectional else x[-1]
    scores = np.tanh(x @ weights["output.pooling.project.weight"].T + weights["output.pooling.project.bias"])
    scores = scores @ weights["output.pooling.score.weight"][0]
    shares = np.exp(scores - scores.max())
    return (shares / shares.sum()) @ x
