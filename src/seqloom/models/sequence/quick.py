"""One example at a time through a composed network, without torch.

For a single text torch pays more for its calls than for its sums. Here a layer is one product and one kernel; the weights are
those of the network by name, and tests hold both to the same numbers. Transformers, and documents in several rows, are left to
torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from seqloom.kernels.decode import add_gelu
from seqloom.kernels.gates import WIDTH, character_maxima, gru_walk, lstm_walk, rnn_walk
from seqloom.models.network.step_weights import Panels, panels_of
from seqloom.models.sequence.configs import EncoderConfig
from seqloom.models.sequence.encoded import Encoded
from seqloom.models.sequence.sizes import Sizes

Layer = Callable[[np.ndarray], np.ndarray]  # (T, D) to (T, d)
FEW = 8  # examples up to which this is quicker than batches
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

    def features(self, encoded: Encoded, example: int) -> np.ndarray:
        """The encoder's vectors of one example, float32 (T, d_out); it must have a step."""
        x = self.read(encoded, slice(*encoded.borders[example:example + 2].tolist()))
        for layer in self.layers:
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
        x, half = self.weights["reader.characters.embedding.weight"][ids], self.by_character.size // 2
        out = np.zeros((len(ids), 2 * half), np.float32)
        for row, length in enumerate(lengths.tolist()):
            if length:
                states = self.by_character(x[row, :length])
                out[row] = np.concatenate([states[-1, :half], states[0, half:]])
        return out


# ---- layers


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
        self.input = Panels(np.concatenate([weights[f"{at}w_x"] for at in directions]))  # of both, (directions G, D)
        self.bias = np.concatenate([weights[f"{at}b"] for at in directions])
        self.states = [panels_of(weights[f"{at}w_h"], WIDTH) for at in directions]
        self.further = [weights.get(f"{at}b_h") for at in directions]
        self.size = len(directions) * weights[f"{place}w_h"].shape[1]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(T, D) to (T, directions H). What a step adds to the gates does not depend on the others, to the bit."""
        projected = self.input(x)
        projected += self.bias
        out = np.empty((len(x), self.size), np.float32)
        for direction, panels in enumerate(self.states):
            if self.cell == "gru":
                gru_walk(projected, panels, self.further[direction], direction, out)
            else:
                (lstm_walk if self.cell == "lstm" else rnn_walk)(projected, panels, direction, out)
        return out


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
