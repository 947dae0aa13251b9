"""Hidden Markov language model: a hidden class changes from word to word and emits the words.

After Rabiner 1989, "A Tutorial on Hidden Markov Models". The state of the stepper is the belief
about the hidden class of the next token, (n, S): a token corrects it (Bayes), the transition matrix
moves it on. `</s>` is an ordinary token, so probabilities of texts of different lengths can be
compared. The model is learnt from raw text by Baum-Welch (`models/hidden`), with restarts, since EM
finds local maxima only; pseudo-counts keep unseen tokens above zero. For learning, long units are
cut into stretches: a belief forgets what was hundreds of tokens ago, and the kernels are faster with
many sequences in parallel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts import FitOptions, LanguageModel
from seqloom.contracts.reading import PORTION
from seqloom.metrics.language import unit_lengths
from seqloom.models.hidden.chain import CategoricalHMM
from seqloom.models.language.configs import HMMConfig

STRETCH = 256  # tokens of a sequence in training


def stretches(lengths: np.ndarray) -> np.ndarray:
    """Return the lengths, long ones divided into stretches.

    >>> stretches(np.array([3, 600, 0])).tolist()
    [3, 256, 256, 88, 0]
    """
    full = lengths // STRETCH - (lengths % STRETCH == 0)
    counts = np.maximum(full, 0) + 1
    parts = np.full(counts.sum(), STRETCH)
    parts[np.cumsum(counts) - 1] = lengths - STRETCH * (counts - 1)
    return parts


class HMM(LanguageModel):
    name = "hmm"
    public_names = "beliefs top_words"
    config_class = HMMConfig
    chain: CategoricalHMM

    @property
    def parameters(self) -> int:
        return self.chain.n_free if self.fitted else 0

    def label(self) -> str:
        return f"hmm{self.config.states}"

    def fit_ids(self, ids: np.ndarray, options: FitOptions) -> None:
        from seqloom.models.hidden.chain import learn

        c, tokenizer = self.config, self.tokenizer
        lengths = stretches(unit_lengths(ids, tokenizer.eos_id))
        facts = {
            "model": self.name,
            "config": c.to_dict(),
            "data": self.fit_info["data_hash"],
            "tokenizer": tokenizer.label(),
        }
        self.chain, report = learn(
            np.asarray(ids, np.int64),
            lengths,
            n_states=c.states,
            vocab_size=tokenizer.vocab_size,
            iterations=c.iterations,
            tolerance=c.tolerance,
            restarts=c.restarts,
            k=c.k,
            seed=c.seed,
            run=options.run,
            facts=facts,
        )
        self.fit_info |= report

    def sequence_log_probs(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return self.chain.token_log_probs(np.asarray(ids, np.int64), lengths).astype(np.float32)

    def hidden_states(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the belief about the class of each token before it is read, float32 (N, S)."""
        beliefs, _ = self.chain.filter(np.asarray(ids, np.int64), lengths)
        states = np.roll(self.chain.predict(beliefs), 1, axis=0)
        states[np.cumsum(lengths) - lengths] = self.chain.start
        return states.astype(np.float32)

    @property
    def portion(self) -> int:
        return max(PORTION // self.config.states, STRETCH)

    def continue_log_probs(self, ids: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        if state is not None and not state.any():  # after an impossible token
            return np.full(len(ids), -np.inf, np.float32), state
        chain = self.chain if state is None else replace(self.chain, start=state)
        beliefs, log_probs = chain.filter(np.asarray(ids, np.int64))
        return log_probs.astype(np.float32), self.chain.predict(beliefs[-1])

    def stepper(self, *, eight_bit: bool = False) -> HMMStepper:
        return HMMStepper(self.chain, self.tokenizer.eos_id)

    def arrays(self) -> dict[str, np.ndarray]:
        return self.chain.arrays()

    def array_specs(self, length: Length) -> dict[str, Spec]:
        states, size = self.config.states, self.tokenizer.vocab_size
        return {
            "start": Spec("float64", (states,), 0, 1),
            "transitions": Spec("float64", (states, states), 0, 1),
            "emissions": Spec("float64", (states, size), 0, 1),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.chain = CategoricalHMM(
            **{name: np.array(arrays[name]) for name in ("start", "transitions", "emissions")}
        )

    def beliefs(self, text: str, *, smoothed: bool = False) -> tuple[list[str], np.ndarray]:
        """Return the tokens of a text and the belief about the hidden class at each, (T, S), given the
        tokens up to it, or, smoothed, the whole text.
        """
        ids, lengths = self.encode(text)
        beliefs = (
            self.chain.posteriors(ids, lengths) if smoothed else self.chain.filter(ids, lengths)[0]
        )
        return [self.tokenizer.token(int(i)) for i in ids], beliefs

    def top_words(self, n: int = 10) -> list[list[tuple[str, float]]]:
        """Return the likeliest tokens of each state with their probabilities."""
        tokens = self.tokenizer
        best = np.argsort(-self.chain.emissions, axis=1, kind="stable")[:, :n]
        return [
            [(tokens.token(int(i)), float(row[i])) for i in ids]
            for ids, row in zip(best, self.chain.emissions)
        ]


class HMMStepper:
    """The state is (belief about the class of the next token (n, S),)."""

    def __init__(self, chain: CategoricalHMM, eos_id: int) -> None:
        self.chain, self.eos_id, self.vocab_size = chain, eos_id, chain.vocab_size

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        return self._state_and_log_probs(np.repeat(self.chain.start[None], n, axis=0))

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        corrected, _ = self.chain.correct(state[0], ids)
        return self._state_and_log_probs(self.chain.predict(corrected))

    def _state_and_log_probs(self, predicted: np.ndarray) -> tuple[Any, np.ndarray]:
        with np.errstate(divide="ignore"):
            return (predicted,), np.log(self.chain.next_probs(predicted)).astype(np.float32)
