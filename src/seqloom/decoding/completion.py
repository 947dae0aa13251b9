"""The likeliest next words, whatever a model's tokens are.

Where tokens are words, the distribution of the next token is the answer. Where they are smaller, the
likeliest spellings are followed until the word ends, beginning with all spellings of the word that
the text breaks off in.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from seqloom.decoding.constraints import restrict
from seqloom.decoding.generation import Generator
from seqloom.decoding.sampling import normalize, top_indices
from seqloom.decoding.stepper import State, check_scores, prefill, select
from seqloom.text.coding import to_bytes

WORD_TOKENS = 32  # maximum number of tokens of a suggested word
WIDTH = 4  # hypotheses followed for each suggestion asked for
# scripts without spaces: each character counts as a word
IDEOGRAPH = "\u3005\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

_WORD = re.compile(rf"[{IDEOGRAPH}]|[^\s{IDEOGRAPH}]+")
_UNFINISHED = re.compile(rf"[^\s{IDEOGRAPH}]+\Z")


class Suggestion(NamedTuple):
    """A next word and how likely it is among all next words."""

    text: str
    probability: float


class Completer:
    def __init__(self, generator: Generator) -> None:
        self.generator, self.stepper, self.tokenizer = (
            generator,
            generator.stepper,
            generator.tokenizer,
        )

    def complete(self, text: str, n: int) -> list[Suggestion]:
        """Return the n likeliest next words; if no white space ends the text, the n likeliest
        completions of its last word.
        """
        text = self.generator.last_line(text)
        word_tokens = self.tokenizer.joiner and not self.tokenizer.subword
        complete = self._complete_token if word_tokens else self._complete_spelling
        suggestions = complete(text, n)
        return [Suggestion(word, p) for word, p in suggestions]

    @property
    def ends(self) -> np.ndarray:
        """Return the tokens that end the word before them: white space, the start of a word, `</s>`."""
        return self.tokenizer.derived("word ends", self._ends)

    def _ends(self) -> np.ndarray:
        pieces = (self.tokenizer.piece(i, before=True) for i in range(self.tokenizer.vocab_size))
        starts = [piece.decode("utf-8", "ignore")[:1] for piece in pieces]
        ends = np.array([bool(start) and not _UNFINISHED.match(start) for start in starts])
        ends[self.stepper.eos_id] = True
        return np.flatnonzero(ends)

    def _complete_token(self, text: str, n: int) -> list[tuple[str, float]]:
        """Complete with tokenizers whose tokens are words."""
        fragment = unfinished(text)
        allowed = (
            self.generator.index.starting_with(self.tokenizer.joiner + to_bytes(fragment))
            if fragment
            else None
        )
        if allowed is not None and not len(allowed):
            fragment, allowed = "", None
        ids = self.tokenizer.encode(text.removesuffix(fragment))
        _, log_probs = prefill(self.stepper, [ids])
        log_probs[:, self.stepper.eos_id] = -np.inf
        if allowed is not None:  # probabilities among the completions, however unlikely they are
            log_probs = normalize(restrict(log_probs, [allowed])[:, allowed].astype(np.float64))
        best = top_indices(log_probs, n)[0]
        best, top_log_probs = best if allowed is None else allowed[best], log_probs[0, best]
        return [
            (self.tokenizer.token(i), float(np.exp(p)))
            for i, p in zip(best, top_log_probs)
            if p > -np.inf
        ]

    def _complete_spelling(self, text: str, n: int) -> list[tuple[str, float]]:
        """Complete with tokens smaller than words: follow the likeliest spellings until the word ends."""
        healed, fragment = self.generator.heal(text)[: WIDTH * n], unfinished(text)
        state, log_probs = prefill(self.stepper, [prompt.ids for prompt in healed])
        log_probs = restrict(log_probs, [prompt.allowed for prompt in healed]).astype(np.float64)
        log_probs -= np.logaddexp.reduce(log_probs, axis=1, keepdims=True)
        words: dict[str, float] = {}
        costs = np.array([prompt.log_prob for prompt in healed])
        costs -= np.logaddexp.reduce(costs)
        spelled, skip = [b""] * len(healed), [len(prompt.dropped) for prompt in healed]
        for step in range(WORD_TOKENS):
            if step or healed[0].allowed is None:
                self._close(
                    words, fragment, [s[k:] for s, k in zip(spelled, skip)], costs, log_probs
                )
            rows, ids, costs = self._best(costs[:, None] + log_probs, WIDTH * n)
            spelled = [spelled[r] + self.tokenizer.piece(i, before=True) for r, i in zip(rows, ids)]
            skip = [skip[r] for r in rows]
            going = []
            for j, spelling in enumerate(spelled):
                ending = spelling[skip[j] :].decode("utf-8", errors="ignore")
                word = _finished_word(fragment, ending, ids[j] == self.stepper.eos_id)
                if word is None:
                    going.append(j)
                elif word:
                    words[word] = words.get(word, 0.0) + float(np.exp(costs[j]))
            nth = sorted(words.values(), reverse=True)[n - 1] if len(words) >= n else 0.0
            going = [j for j in going if np.exp(costs[j]) > nth]
            if not going:
                break
            keep = np.array(going)
            state, log_probs = self._step(state, rows[keep], ids[keep])
            costs, spelled, skip = (
                costs[keep],
                [spelled[j] for j in going],
                [skip[j] for j in going],
            )
        return sorted(words.items(), key=lambda item: (-item[1], item[0]))[:n]

    def _close(
        self,
        words: dict[str, float],
        fragment: str,
        endings: list[bytes],
        costs: np.ndarray,
        log_probs: np.ndarray,
    ) -> None:
        """Add to each word that has begun the probability of all tokens that would end it, and rule
        these tokens out.
        """
        for row, ending in enumerate(endings):
            word = fragment + ending.decode("utf-8", errors="ignore").lstrip()
            if word:
                mass = float(np.exp(costs[row] + log_probs[row, self.ends]).sum())
                words[word] = words.get(word, 0.0) + mass
                log_probs[row, self.ends] = -np.inf

    def _step(self, state: State, rows: np.ndarray, ids: np.ndarray) -> tuple[State, np.ndarray]:
        state, log_probs = self.stepper.step(select(state, rows), ids)
        return state, check_scores(log_probs, exact=False).astype(np.float64)

    @staticmethod
    def _best(costs: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        flat = costs.reshape(1, -1)
        best = top_indices(flat, k)[0]
        best = best[flat[0, best] > -np.inf]
        return best // costs.shape[1], best % costs.shape[1], flat[0, best]


def unfinished(text: str) -> str:
    """Return the word that a text breaks off in; empty after white space and after an ideograph.

    >>> unfinished("to be or no"), unfinished("to be ")
    ('no', '')
    """
    match = _UNFINISHED.search(text)
    return match[0] if match else ""


def attach(text: str, word: str) -> str:
    """Return the text with a suggested word in place of its unfinished one, or after it.

    >>> attach("to be or no", "not"), attach("to be", "or"), attach("to be ", "or")
    ('to be or not', 'to be or', 'to be or')
    """
    fragment = unfinished(text)
    if not fragment or word.startswith(fragment):
        return text.removesuffix(fragment) + word
    return f"{text} {word}"


def _finished_word(fragment: str, ending: str, ended: bool) -> str | None:
    """Return the word once it has ended; None while it may go on, "" if the text ended without a
    word.
    """
    text = fragment + ending if fragment else ending.lstrip()
    match = _WORD.match(text)
    if match is None:
        return "" if ended else None
    over = ended or match.end() < len(text) or not _UNFINISHED.match(match[0])
    return match[0] if over else None
