"""Text in, text out: what ties sampling, beam search, healing and stop strings to a tokenizer.

A `Generator` is made of a Stepper and the tokenizer that belongs to it; it holds no state between calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from typing import NamedTuple

import numpy as np

from seqloom.decoding.beam import beam_search
from seqloom.decoding.healing import Healed, PrefixIndex, heal, restrict
from seqloom.decoding.sampling import SamplingConfig, sample, top_indices
from seqloom.decoding.stepper import State, Stepper, prefill, select
from seqloom.decoding.stops import TextStream
from seqloom.errors import ConfigError
from seqloom.text.coding import to_bytes
from seqloom.text.tokenizer import Tokenizer

WORD_TOKENS = 32  # a suggested word may have so many tokens at most
WIDTH = 4  # hypotheses followed for each suggestion wanted
IDEOGRAPH = "\u3005\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # each a word of its own

_WORD = re.compile(rf"[{IDEOGRAPH}]|[^\s{IDEOGRAPH}]+")
_UNFINISHED = re.compile(rf"[^\s{IDEOGRAPH}]+\Z")


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
            idle = [f.name for f in fields(config)
                    if f.name not in ("max_tokens", "seed") and getattr(config, f.name) != f.default]
            if idle:
                raise ConfigError(f"beam search draws nothing, so {', '.join(idle)} has no effect; drop it, or beams")
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
        """The n likeliest next words; without white space at the end, words that the last one may become."""
        text = self._last_line(text)
        whole = self.tokenizer.joiner and not self.tokenizer.subword
        found = self._complete_token(text, n) if whole else self._complete_spelling(text, n)
        return [Suggestion(word, p) for word, p in found]

    @cached_property
    def index(self) -> PrefixIndex:
        """Tokens by what they add to a text that goes on a word, so ` th` and `th` (##th) are told apart."""
        return PrefixIndex([self.tokenizer.piece(i, before=True) if self.tokenizer.token_bytes(i) else b""
                            for i in range(self.tokenizer.vocab_size)])

    @cached_property
    def ends(self) -> np.ndarray:
        """Which tokens, bool (V,), end the word before them: white space, another word's beginning, `</s>`."""
        pieces = (self.tokenizer.piece(i, before=True) for i in range(self.tokenizer.vocab_size))
        starts = [piece.decode("utf-8", "ignore")[:1] for piece in pieces]
        ends = np.array([bool(start) and not _UNFINISHED.match(start) for start in starts])
        ends[self.stepper.eos_id] = True
        return ends

    def _last_line(self, text: str) -> str:
        return text.rpartition("\n")[2] if self.by_line else text

    def _prepare(self, prompt: str) -> Healed:
        """The ids of a prompt; subword tokens are taken back where a longer one could stand, also at a last space."""
        prompt = self._last_line(prompt)
        ids = self.tokenizer.encode(prompt)
        if not self.tokenizer.subword or not prompt:
            return Healed(ids, None, b"")
        if self.tokenizer.joiner and prompt[-1].isspace():  # the space is part of no token: a word must begin
            return Healed(ids, self.index.starting_with(self.tokenizer.joiner), self.tokenizer.joiner)
        return heal(self.index, ids)

    def _spell(self, prompt: str, healed: Healed, ids: Iterator[int], stop: Sequence[str]) -> Iterator[str]:
        """Whole characters, without the bytes that healing took back, up to a stop string or `</s>`."""
        text = TextStream(stop, skip=len(healed.dropped))
        before = bool(healed.dropped) or (bool(prompt) and not prompt[-1].isspace())
        ended = False
        for token in ids:
            if token == self.stepper.eos_id:
                ended = True
                break
            piece, stopped = text.feed(self.tokenizer.piece(token, before=before))
            before = True
            if piece:
                yield piece
            if stopped:
                return
        rest, _ = text.flush(cut=not ended)
        if rest:
            yield rest

    def _complete_token(self, text: str, n: int) -> list[tuple[str, float]]:
        """For tokenizers whose tokens are words."""
        fragment = unfinished(text)
        allowed = self.index.starting_with(self.tokenizer.joiner + to_bytes(fragment)) if fragment else None
        if allowed is not None and not len(allowed):
            fragment, allowed = "", None
        ids = self.tokenizer.encode(text.removesuffix(fragment))
        _, log_probs = prefill(self.stepper, [ids])
        log_probs = restrict(log_probs, [allowed])
        log_probs[:, self.stepper.eos_id] = -np.inf
        best = top_indices(log_probs, n)[0]
        total = np.exp(log_probs.astype(np.float64)).sum() if fragment else 1.0
        return [(self.tokenizer.token(i), float(np.exp(log_probs[0, i]) / total)) for i in best
                if log_probs[0, i] > -np.inf]

    def _complete_spelling(self, text: str, n: int) -> list[tuple[str, float]]:
        """For tokens smaller than words: follow the likeliest spellings until the word is over."""
        healed, fragment = self._prepare(text), unfinished(text)
        state, log_probs = prefill(self.stepper, [healed.ids])
        log_probs = restrict(log_probs, [healed.allowed]).astype(np.float64)
        if healed.allowed is not None:
            log_probs -= np.logaddexp.reduce(log_probs, axis=1, keepdims=True)
        words: dict[str, float] = {}
        costs, spelled = np.zeros(1), [b""]
        for step in range(WORD_TOKENS):
            if step or healed.allowed is None:
                self._close(words, fragment, [s[len(healed.dropped):] for s in spelled], costs, log_probs)
            rows, ids, costs = self._best(costs[:, None] + log_probs, WIDTH * n)
            spelled = [spelled[r] + self.tokenizer.piece(i, before=True) for r, i in zip(rows, ids)]
            going = []
            for j, spelling in enumerate(spelled):
                ending = spelling[len(healed.dropped):].decode("utf-8", errors="ignore")
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
            costs, spelled = costs[keep], [spelled[j] for j in going]
        return sorted(words.items(), key=lambda item: (-item[1], item[0]))[:n]

    def _close(self, words: dict[str, float], fragment: str, endings: list[bytes], costs: np.ndarray,
               log_probs: np.ndarray) -> None:
        """Count each word that has begun as ended by all the tokens that would end it, and leave the others."""
        for row, ending in enumerate(endings):
            word = fragment + ending.decode("utf-8", errors="ignore").lstrip()
            if word:
                mass = float(np.exp(costs[row] + log_probs[row, self.ends]).sum())
                words[word] = words.get(word, 0.0) + mass
                log_probs[row, self.ends] = -np.inf

    def _step(self, state: State, rows: np.ndarray, ids: np.ndarray) -> tuple[State, np.ndarray]:
        state, log_probs = self.stepper.step(select(state, rows), ids)
        return state, log_probs.astype(np.float64)

    @staticmethod
    def _best(costs: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        flat = costs.reshape(1, -1)
        best = top_indices(flat, k)[0]
        best = best[flat[0, best] > -np.inf]
        return best // costs.shape[1], best % costs.shape[1], flat[0, best]


def unfinished(text: str) -> str:
    """The word that a text breaks off in; nothing after white space, nor where every character is a word.

    >>> unfinished("to be or no"), unfinished("to be ")
    ('no', '')
    """
    found = _UNFINISHED.search(text)
    return found[0] if found else ""


def attach(text: str, word: str) -> str:
    """The text with a suggested word in place of its unfinished one, or after it.

    >>> attach("to be or no", "not"), attach("to be", "or"), attach("to be ", "or")
    ('to be or not', 'to be or', 'to be or')
    """
    fragment = unfinished(text)
    if not fragment or word.startswith(fragment):
        return text.removesuffix(fragment) + word
    return f"{text} {word}"


def _finished_word(fragment: str, ending: str, ended: bool) -> str | None:
    """The word once something else or the end follows it; None while it may go on, "" where there is none."""
    text = fragment + ending if fragment else ending.lstrip()
    found = _WORD.match(text)
    if found is None:
        return "" if ended else None
    over = ended or found.end() < len(text) or not _UNFINISHED.match(found[0])
    return found[0] if over else None


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
