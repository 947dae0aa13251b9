"""The neural cache (Grave, Joulin and Usunier 2017, "Improving Neural Language Models with a
Continuous Cache").

It remembers the vectors h_i from which a trained network predicted the last tokens, and these
tokens. A token that followed a vector similar to the present one is likely to recur (equations 2 and
3):

    p(w) = (1 - share) p_network(w) + share sum_i softmax_i(theta h_t . h_i) [w_i = w]

Only theta and share are fitted, on text that the network has not seen. As long as nothing is
remembered, the network predicts alone. Unlike `cache`, which counts words, it takes their contexts
into account.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom import progress, storage
from seqloom.arrays import Length, Spec
from seqloom.config import Unit
from seqloom.contracts import FitOptions, LanguageModel
from seqloom.data.corpus import Corpus
from seqloom.decoding.stepper import Stepper, check_scores
from seqloom.errors import ConfigError, ModelError
from seqloom.metrics.language import unit_lengths
from seqloom.models.language.configs import NeuralCacheConfig
from seqloom.models.language.neural import NeuralLanguageModel, Past
from seqloom.text.tokenizer import Tokenizer

# Candidates of theta, times the variance of a vector; then factors around the best of them.
FLATNESS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
FINER = (2**-0.5, 2**-0.25, 2**0.25, 2**0.5)
MOST_SHARE = 0.99
MOST_HELD_OUT = 100_000  # tokens on which theta is chosen
MAX_VECTORS = 1 << 17  # tokens whose vectors are held at a time
BLOCK = 128  # tokens whose scores are computed at a time
INITIAL_VECTORS = 64  # capacity of a new state; doubled whenever it is full


class NeuralCache(LanguageModel):
    name = "neural-cache"
    public_names = "of members"
    has_members = True
    config_class = NeuralCacheConfig  # type: ignore[assignment]
    theta: float
    share: float

    @classmethod
    def of(cls, member: LanguageModel, **options: Any) -> NeuralCache:
        """Return a cache over a network that is in memory."""
        model = cls(**options)
        model.members = [member]
        return model

    def _member(self) -> NeuralLanguageModel:
        if not self.members:
            if self.config.member is None:
                raise ConfigError(
                    "a neural cache needs a trained network; give its directory with member"
                )
            self.members = [storage.load(self.config.member)]
        member = self.members[0]
        if not isinstance(member, NeuralLanguageModel):
            raise ConfigError(
                f"a neural cache remembers a network's vectors, and {member.label()} has none; "
                "give an nplm, rnn, lstm, gru or gpt as member"
            )
        return member

    @property
    def unit(self) -> Unit:
        return self._member().unit

    @property
    def carry(self) -> bool:
        return self._member().carry

    @property
    def context(self) -> int | None:
        reach = self._member().context
        return None if reach is None else reach + self.config.window

    @property
    def parameters(self) -> int:
        return self._member().parameters + 2

    def label(self) -> str:
        return f"neural-cache{self.config.window}({self._member().label()})"

    def _make_tokenizer(self, corpus: Corpus) -> Tokenizer:
        return self._member().tokenizer

    # ---- fitting

    def fit_ids(self, ids: np.ndarray, options: FitOptions) -> None:
        member, c = self._member(), self.config
        if self.tokenizer != member.tokenizer:
            raise ConfigError(
                "a neural cache reads text with its member's tokenizer; do not give another"
            )
        theta, share = c.theta, c.share
        if theta is None or share is None:
            ids = ids[:MOST_HELD_OUT]
            lengths = np.array([len(ids)]) if self.carry else _lengths(ids, self.tokenizer.eos_id)
            theta, share = self._choose(ids, lengths)
        self.theta, self.share = theta, share
        self.fit_info |= {"theta": theta, "share": share}

    def _choose(self, ids: np.ndarray, lengths: np.ndarray) -> tuple[float, float]:
        """Choose theta and share by the likelihood."""
        features, log_probs = self._member().sequence_features(ids, lengths)
        starts = _starts(lengths)
        has_history = starts < np.arange(len(ids))  # first tokens have nothing to remember
        plain = np.exp(log_probs[has_history].astype(np.float64))

        def best_of(thetas: Sequence[float]) -> tuple[float, float, float]:
            candidates = []
            for theta, row in zip(
                thetas, self._cache_probs(features, ids, starts, thetas), strict=True
            ):
                share = (
                    best_share(plain, row[has_history])
                    if self.config.share is None
                    else self.config.share
                )
                candidates.append(
                    (
                        float(np.log((1 - share) * plain + share * row[has_history]).mean()),
                        theta,
                        share,
                    )
                )
            return max(candidates)  # of equal ones the highest theta; at share 0 it has no effect

        if not has_history.any():
            raise ConfigError(
                "no text to choose theta and share on: every unit is a single token; give theta and share"
            )
        if self.config.theta is not None:
            return best_of([self.config.theta])[1:]
        # The variance, since a part that all vectors share does not change the softmax.
        scale = float(features.var(axis=0, dtype=np.float64).sum()) or 1.0
        coarse = best_of([flat / scale for flat in FLATNESS])
        nearby = (
            best_of([factor * coarse[1] for factor in FINER]) if coarse[1] and coarse[2] else coarse
        )
        return max(coarse, nearby)[1:]

    # ---- scoring

    def sequence_log_probs(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        if not self.share:
            return self._member().sequence_log_probs(ids, lengths)
        features, log_probs = self._member().sequence_features(ids, lengths)
        return self._mixed(features, ids, _starts(lengths), log_probs)

    def hidden_states(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return self._member().hidden_states(ids, lengths)

    @property
    def portion(self) -> int:
        return MAX_VECTORS

    def continue_log_probs(self, ids: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        past, vectors, words = state or (Past(), None, np.zeros(0, np.int64))
        features, log_probs = self._member().sequence_features(ids, np.array([len(ids)]), past)
        vectors, words = (
            features if vectors is None else np.concatenate([vectors, features]),
            np.append(words, ids),
        )
        n_past = len(words) - len(ids)
        if self.share:
            before = np.zeros(n_past, np.float32)  # dropped below
            log_probs = self._mixed(
                vectors, words, np.zeros(len(words), np.int64), np.append(before, log_probs)
            )[n_past:]
        return log_probs, (past, vectors[-self.config.window :], words[-self.config.window :])

    def _mixed(
        self, features: np.ndarray, ids: np.ndarray, starts: np.ndarray, log_probs: np.ndarray
    ) -> np.ndarray:
        """Return the network's log-probabilities (N,) mixed with those of the cache."""
        remembered = self._cache_probs(features, ids, starts, [self.theta])[0]
        with np.errstate(divide="ignore"):
            mixed = np.logaddexp(np.log1p(-self.share) + log_probs, np.log(self.share * remembered))
        return check_scores(
            np.where(starts < np.arange(len(ids)), mixed, log_probs).astype(np.float32)
        )

    def _cache_probs(
        self, features: np.ndarray, ids: np.ndarray, starts: np.ndarray, thetas: Sequence[float]
    ) -> np.ndarray:
        """Compute the probability of each token by the cache alone for each theta, float64 (thetas, N);
        0 where it is empty.

        A block of tokens is multiplied by all vectors that some of them see; a mask hides the rest.
        """
        import torch

        window, n = min(self.config.window, len(ids)), len(ids)
        device = next(self._member().network().parameters()).device
        vectors, words = (
            torch.from_numpy(features).to(device),
            torch.from_numpy(ids.astype(np.int64)).to(device),
        )
        begins, positions = torch.from_numpy(starts).to(device), torch.arange(n, device=device)
        probs = np.zeros((len(thetas), n))
        distance = torch.arange(BLOCK, device=device)[:, None] - torch.arange(
            -window, BLOCK, device=device
        )
        # The mask of every block, except for sequences that begin inside it.
        band = torch.zeros(distance.shape, device=device)
        band[(distance <= 0) | (distance > window)] = -torch.inf
        with torch.inference_mode(), progress.task("neural cache", n, "tokens") as bar:
            for low in range(0, n, BLOCK):
                high = min(low + BLOCK, n)
                first = max(low - window, int(starts[low]))
                mask = band[: high - low, first - low + window : high - low + window]
                if starts[high - 1] > first:
                    mask = mask.masked_fill(
                        positions[first:high] < begins[low:high, None], -torch.inf
                    )
                scores = vectors[low:high] @ vectors[first:high].t()  # (B, K)
                other_word = words[low:high, None] != words[first:high]
                for row, theta in enumerate(thetas):
                    shares = torch.softmax(torch.add(mask, scores, alpha=theta), dim=1)
                    probs[row, low:high] = shares.masked_fill_(other_word, 0.0).sum(1).cpu().numpy()
                bar.advance(high - low)
        probs[:, starts == np.arange(n)] = 0.0  # softmax of nothing
        return probs

    @property
    def quantizable(self) -> bool:
        return True

    def stepper(self, *, eight_bit: bool = False) -> NeuralCacheStepper:
        self.check_fitted()
        return NeuralCacheStepper(
            self._member().sized_stepper(eight_bit=eight_bit),
            self.config.window,
            self.theta,
            self.share,
        )

    # ---- persistence

    def arrays(self) -> dict[str, np.ndarray]:
        return {"weights": np.array([self.theta, self.share])}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        if len(self.members) != 1:
            raise ModelError(
                f"{len(self.members)} members where one network should be; fit and save it again"
            )
        return {"weights": Spec("float64", (2,), low=0)}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        if self.tokenizer != self._member().tokenizer:
            raise ModelError("its tokenizer is not that of its member")
        self.theta, self.share = (float(value) for value in arrays["weights"])
        if self.share > MOST_SHARE:
            raise ModelError(
                f"the weight of the cache is {self.share}; it can be at most {MOST_SHARE}"
            )


def best_share(plain: np.ndarray, remembered: np.ndarray) -> float:
    """Find the weight of `remembered` at which the mean log-likelihood of the mixture is highest.

    It is concave in the weight, so bisection by the sign of its slope finds the maximum.
    """
    low, high = 0.0, MOST_SHARE
    gain = remembered - plain
    for _ in range(20):
        middle = (low + high) / 2
        if float((gain / (plain + middle * gain)).mean()) > 0:
            low = middle
        else:
            high = middle
    return round((low + high) / 2, 6)


def _starts(lengths: np.ndarray) -> np.ndarray:
    """Return the first position of the sequence of each token, int64 (N,)."""
    return np.repeat(np.cumsum(lengths) - lengths, lengths).astype(np.int64)


def _lengths(ids: np.ndarray, eos_id: int) -> np.ndarray:
    """Return the lengths of units; the last may have been cut off."""
    lengths = unit_lengths(ids, eos_id)
    cut_off = len(ids) - int(lengths.sum())
    return np.append(lengths, cut_off) if cut_off else lengths


class NeuralCacheStepper:
    """The state: (member's state, vectors (n, C, D), the token after each (n, C), number of tokens
    read (n,)).

    C grows up to the window; then the oldest are overwritten.
    """

    def __init__(self, member: Stepper, window: int, theta: float, share: float) -> None:
        self.member: Any = member
        self.window, self.theta, self.share = window, np.float32(theta), share
        self.vocab_size, self.eos_id = member.vocab_size, member.eos_id

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        inner, log_probs = self.member.start(n)
        width = self.member.features(inner).shape[1]
        return (
            inner,
            np.zeros((n, 0, width), np.float32),
            np.zeros((n, 0), np.int64),
            np.zeros(n, np.int64),
        ), log_probs

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        inner, vectors, words, read = state
        vectors, words = self._room(vectors, words, int(read.max(initial=0)) + 1)
        rows = np.arange(len(ids))
        vectors[rows, read % self.window] = self.member.features(inner)
        words[rows, read % self.window] = ids
        inner, log_probs = self.member.step(inner, ids)
        state = (inner, vectors, words, read + 1)
        return state, self._mix(log_probs, self.member.features(inner), *state[1:])

    def _mix(
        self,
        log_probs: np.ndarray,
        features: np.ndarray,
        vectors: np.ndarray,
        words: np.ndarray,
        read: np.ndarray,
    ) -> np.ndarray:
        mixed = log_probs.copy()
        for row, filled in enumerate(np.minimum(read, self.window).tolist()):
            scores = self.theta * (vectors[row, :filled] @ features[row])
            shares = np.exp(scores - scores.max())
            remembered = np.bincount(words[row, :filled], shares, self.vocab_size) / shares.sum(
                dtype=np.float64
            )
            with np.errstate(divide="ignore"):
                mixed[row] = np.logaddexp(
                    np.log1p(-self.share) + log_probs[row], np.log(self.share * remembered)
                )
        return mixed

    def _room(
        self, vectors: np.ndarray, words: np.ndarray, length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors and words with room for `length` tokens per row, or for the whole window."""
        capacity = words.shape[1]
        if capacity >= min(length, self.window):
            return vectors, words
        padding = [
            (0, 0),
            (0, min(max(length, INITIAL_VECTORS, 2 * capacity), self.window) - capacity),
            (0, 0),
        ]
        return np.pad(vectors, padding), np.pad(words, padding[:2])
