"""Text in, text out: what ties sampling, beam search, healing and stop strings to a tokenizer.

A `Generator` is made of a Stepper and the tokenizer that belongs to it; it holds no state between calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from seqloom.decoding.beam import beam_search
from seqloom.decoding.healing import Healed, PrefixIndex, heal, restrict
from seqloom.decoding.sampling import SamplingConfig, sample, top_indices
from seqloom.decoding.stepper import State, Stepper, prefill, select
from seqloom.decoding.stops import TextStream
from seqloom.text.tokenizer import Tokenizer

WORD_TOKENS = 32  # a suggested word may have so many tokens at most
WIDTH = 4  # hypotheses followed for each suggestion wanted


class Suggestion(NamedTuple):
    """A next word and how likely it is among all next words."""

    text: str
    probability: float


class Generator:
    def __init__(self, stepper: Stepper, tokenizer: Tokenizer, *, by_line: bool) -> None:
        self.stepper: Stepper = stepper
        if tokenizer.has_oov and tokenizer.unk_id is not None:
            self.stepper = _Without(stepper, tokenizer.unk_id)  # a reader cannot use <unk>
        self.tokenizer = tokenizer
        self.by_line = by_line  # a prompt's earlier lines are sequences of their own

    def generate(self, prompts: Sequence[str], config: SamplingConfig, stop: Sequence[str] = (),
                 beams: int | None = None, length_penalty: float = 1.0) -> list[str]:
        """The continuation of each prompt."""
        healed = [self._prepare(prompt) for prompt in prompts]
        allowed = [h.allowed for h in healed]
        if beams is None:
            drawn = list(sample(self.stepper, [h.ids for h in healed], config, first_allowed=allowed))
            rows = [[int(ids[row]) for ids in drawn if ids[row] >= 0] for row in range(len(prompts))]
        else:
            found = beam_search(self.stepper, [h.ids for h in healed], beams=beams, max_tokens=config.max_tokens,
                                length_penalty=length_penalty, first_allowed=allowed)
            rows = [hypotheses[0].ids.tolist() for hypotheses in found]
        return ["".join(self._spell(prompt, h, iter(row), stop)) for prompt, h, row in zip(prompts, healed, rows)]

    def stream(self, prompt: str, config: SamplingConfig, stop: Sequence[str] = ()) -> Iterator[str]:
        """The continuation of one prompt as it is drawn."""
        healed = self._prepare(prompt)
        drawn = sample(self.stepper, [healed.ids], config, first_allowed=[healed.allowed])
        return self._spell(prompt, healed, (int(ids[0]) for ids in drawn), stop)

    def complete(self, text: str, n: int) -> list[Suggestion]:
        """The n likeliest next words, or endings of the last word where the text does not end in white space."""
        text = self._last_line(text)
        found = self._complete_token(text, n) if self.tokenizer.joiner else self._complete_spelling(text, n)
        return [Suggestion(word, p) for word, p in found]

    @cached_property
    def index(self) -> PrefixIndex:
        return PrefixIndex([self.tokenizer.token_bytes(i) for i in range(self.tokenizer.vocab_size)])

    def _last_line(self, text: str) -> str:
        return text.rpartition("\n")[2] if self.by_line else text

    def _prepare(self, prompt: str) -> Healed:
        prompt = self._last_line(prompt)
        ids = self.tokenizer.encode(prompt)
        if not self.tokenizer.subword or not prompt or prompt[-1].isspace():
            return Healed(ids, None, b"")
        return heal(self.index, ids)

    def _spell(self, prompt: str, healed: Healed, ids: Iterator[int], stop: Sequence[str]) -> Iterator[str]:
        """Whole characters, without the bytes that healing took back, up to a stop string or `</s>`."""
        text = TextStream(stop, skip=len(healed.dropped))
        before = bool(prompt) and not prompt[-1].isspace()
        for token in ids:
            if token == self.stepper.eos_id:
                break
            piece, stopped = text.feed(self.tokenizer.piece(token, before=before))
            before = True
            if piece:
                yield piece
            if stopped:
                return
        rest, _ = text.flush()
        if rest:
            yield rest

    def _complete_token(self, text: str, n: int) -> list[tuple[str, float]]:
        """For tokenizers whose tokens are words."""
        fragment = "" if not text or text[-1].isspace() else text.split()[-1]
        allowed = self.index.starting_with(fragment.encode()) if fragment else None
        if fragment and (allowed is None or not len(allowed)):
            fragment, allowed = "", None
        ids = self.tokenizer.encode(text.rstrip()[: -len(fragment)] if fragment else text)
        _, log_probs = prefill(self.stepper, [ids])
        log_probs = restrict(log_probs, [allowed])
        log_probs[:, self.stepper.eos_id] = -np.inf
        best = top_indices(log_probs, n)[0]
        total = np.exp(log_probs.astype(np.float64)).sum() if fragment else 1.0
        return [(self.tokenizer.token(i), float(np.exp(log_probs[0, i]) / total)) for i in best
                if log_probs[0, i] > -np.inf]

    def _complete_spelling(self, text: str, n: int) -> list[tuple[str, float]]:
        """For tokens smaller than words: follow the likeliest spellings until the word is over."""
        healed = self._prepare(text)
        inside = bool(text) and not text[-1].isspace()
        state, log_probs = prefill(self.stepper, [healed.ids])
        log_probs = restrict(log_probs, [healed.allowed]).astype(np.float64)
        if healed.allowed is not None:
            log_probs -= np.logaddexp.reduce(log_probs, axis=1, keepdims=True)
        words: dict[str, float] = {}
        costs, spelled = np.zeros(1), [b""]
        for _ in range(WORD_TOKENS):
            rows, ids, costs = self._best(costs[:, None] + log_probs, WIDTH * n)
            spelled = [spelled[r] + self.tokenizer.token_bytes(i) for r, i in zip(rows, ids)]
            going = []
            for j, spelling in enumerate(spelled):
                word = _finished_word(spelling[len(healed.dropped):], inside, ids[j] == self.stepper.eos_id)
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
            costs, spelled = costs[keep], [spelled[j] for j in going]
        return sorted(words.items(), key=lambda item: (-item[1], item[0]))[:n]

    def _step(self, state: State, rows: np.ndarray, ids: np.ndarray) -> tuple[State, np.ndarray]:
        state, log_probs = self.stepper.step(select(state, rows), ids)
        return state, log_probs.astype(np.float64)

    @staticmethod
    def _best(costs: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        flat = costs.reshape(1, -1)
        best = top_indices(flat, k)[0]
        best = best[flat[0, best] > -np.inf]
        return best // costs.shape[1], best % costs.shape[1], flat[0, best]


def _finished_word(spelling: bytes, inside: bool, ended: bool) -> str | None:
    """The word once white space or the end follows it; None while it may go on, "" where there is none."""
    text = spelling.decode("utf-8", errors="ignore")
    if not inside:
        text = text.lstrip()
        if not text:
            return "" if ended else None
    word = text.split()[0] if text and not text[0].isspace() else ""
    over = ended or len(word) < len(text)
    return word if over else None


class _Without:
    """A stepper that never proposes one token."""

    def __init__(self, stepper: Stepper, token: int) -> None:
        self.inner, self.token = stepper, token
        self.vocab_size, self.eos_id = stepper.vocab_size, stepper.eos_id
        if hasattr(stepper, "prefill"):
            self.prefill = self._prefill

    def _mask(self, result: tuple[State, np.ndarray]) -> tuple[State, np.ndarray]:
        state, log_probs = result
        alone = np.isneginf(np.delete(log_probs, self.token, axis=1).max(axis=1))
        log_probs[~alone, self.token] = -np.inf
        return state, log_probs

    def start(self, n: int) -> tuple[State, np.ndarray]:
        return self._mask(self.inner.start(n))

    def step(self, state: State, ids: np.ndarray) -> tuple[State, np.ndarray]:
        return self._mask(self.inner.step(state, ids))

    def _prefill(self, prompts: Sequence[np.ndarray]) -> tuple[State, np.ndarray]:
        return self._mask(self.inner.prefill(prompts))  # type: ignore[attr-defined]
