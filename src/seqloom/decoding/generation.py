"""Text in, text out: connects the search over a Stepper, healing and stop strings to a tokenizer.

`search` is the level of ids, for sampling and beam search; `spelling` turns tokens into text that can
be shown at once; a `Generator` has a Stepper and its tokenizer, and does both. `Decoders`
holds the Generators of a fitted model: built when first needed, then shared by all threads of a
process, which is safe because a Generator never changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from seqloom.decoding.beam import BeamConfig, beam_search
from seqloom.decoding.constraints import HealedPrompt, PrefixIndex, Without, heal
from seqloom.decoding.drafting import DRAFTED, Chance, draw_drafted
from seqloom.decoding.sampling import SamplingConfig, sample, until_loop
from seqloom.decoding.spelling import Speller
from seqloom.decoding.stepper import State, Stepper
from seqloom.errors import ConfigError
from seqloom.text.tokenizer import Tokenizer

# ---- search


def search(
    stepper: Stepper,
    prompts: Sequence[np.ndarray],
    config: SamplingConfig,
    *,
    beams: int | None = None,
    length_penalty: float = 1.0,
    first_allowed: Sequence[np.ndarray | None] | None = None,
) -> list[list[int]]:
    """Return the continuation of each prompt, with the end symbol if reached: sampled as the config
    says, or the best of `beams`.

    Row i of `stepper.start(n)` begins prompt i. A language model begins all rows alike; a translator
    begins row i with source i, and its prompts are empty.
    """
    if beams is None:
        drawn = list(sample(stepper, prompts, config, first_allowed=first_allowed))
        return [[int(ids[row]) for ids in drawn if ids[row] >= 0] for row in range(len(prompts))]
    used = ("max_tokens", "min_tokens", "seed", "allow_eos")
    unused = [
        f.name
        for f in fields(config)
        if f.name not in used and getattr(config, f.name) != f.default
    ]
    if unused:
        raise ConfigError(
            f"beam search does not sample, so {', '.join(unused)} has no effect; drop it or beams",
            (*unused, "beams"),
        )
    beam_config = BeamConfig(
        beams=beams,
        max_tokens=config.max_tokens,
        min_tokens=config.min_tokens,
        length_penalty=length_penalty,
    )
    hypotheses = beam_search(stepper, prompts, beam_config, first_allowed=first_allowed)
    return [[*best.ids.tolist(), *[stepper.eos_id] * best.finished] for best, *_ in hypotheses]


# ---- generation

LAST_WORD = 8  # tokens of a prompt's last word that may be spelled anew


class Generator:
    def __init__(
        self,
        stepper: Stepper,
        tokenizer: Tokenizer,
        *,
        by_line: bool,
        endless: bool = False,
        ends: Collection[int | None] = (),
    ) -> None:
        """Set up the generator. `ends`: declared marks that may be drawn although others may not,
        since they end an answer.
        """
        never = [token for token in tokenizer.declared_ids if token not in ends]
        if tokenizer.has_oov and tokenizer.unk_id is not None:
            never.append(tokenizer.unk_id)  # a reader cannot use <unk>
        self.never = np.array(never, np.int64)  # tokens that are not drawn
        self.whole = stepper  # which may draw them
        self.stepper: Stepper = Without(stepper, never) if never else stepper
        self.tokenizer = tokenizer
        self.by_line = by_line  # a prompt's earlier lines are sequences of their own
        # the model has read one stream, so `</s>` says nothing about where a text may end
        self.endless = endless
        self._going_on: Stepper = (
            Without(self.stepper, [stepper.eos_id]) if endless else self.stepper
        )

    def generate(
        self,
        prompts: Sequence[str],
        config: SamplingConfig,
        stop: Sequence[str] = (),
        beams: int | None = None,
        length_penalty: float = 1.0,
        draft: Draft | None = None,
    ) -> list[str]:
        """Return the continuation of each prompt."""
        if draft is not None and beams is not None:
            raise ConfigError("a draft is for drawing text; leave out draft or beams")
        seed = None if beams is not None or config.temperature == 0 else config.seed
        healed = [self._prepare(prompt, seed, row) for row, prompt in enumerate(prompts)]
        if draft is not None:
            return [
                "".join(self._spell(prompt, h, self._drafted(h, config, draft, row), stop))
                for row, (prompt, h) in enumerate(zip(prompts, healed))
            ]
        rows = search(
            self._chosen(config),
            [h.ids for h in healed],
            config,
            beams=beams,
            length_penalty=length_penalty,
            first_allowed=[h.allowed for h in healed],
        )
        return [
            "".join(self._spell(prompt, h, iter(row), stop))
            for prompt, h, row in zip(prompts, healed, rows)
        ]

    def stream(
        self,
        prompt: str,
        config: SamplingConfig,
        stop: Sequence[str] = (),
        draft: Draft | None = None,
    ) -> Iterator[str]:
        """Yield the continuation of one prompt as it is drawn."""
        healed = self._prepare(prompt, None if config.temperature == 0 else config.seed)
        if draft is not None:
            return self._spell(prompt, healed, self._drafted(healed, config, draft, 0), stop)
        drawn = sample(self._chosen(config), [healed.ids], config, first_allowed=[healed.allowed])
        return self._spell(prompt, healed, (int(ids[0]) for ids in drawn), stop)

    def answer(
        self,
        ids: np.ndarray,
        config: SamplingConfig,
        stop: Sequence[str],
        ends: Collection[int | None],
        draft: Draft | None = None,
    ) -> Iterator[str]:
        """Yield what follows these tokens as it is drawn, up to any of the tokens `ends`."""
        prompt, writer = HealedPrompt(ids), self._ended_by(ends)
        drawn: Iterator[int]
        if draft is None:
            drawn = (int(row[0]) for row in sample(writer._chosen(config), [ids], config))
        else:
            drawn = writer._drafted(
                prompt, config, draft._replace(generator=draft.generator._ended_by(ends)), 0
            )
        ended = (self.stepper.eos_id if token in ends else token for token in drawn)
        return self._spell("", prompt, until_loop(ended), stop)

    def _ended_by(self, ends: Collection[int | None]) -> Generator:
        """Return a generator like this one that may draw the declared marks among `ends`."""
        if not any(token in ends for token in self.tokenizer.declared_ids):
            return self
        return Generator(
            self.whole, self.tokenizer, by_line=self.by_line, endless=self.endless, ends=ends
        )

    def _chosen(self, config: SamplingConfig) -> Stepper:
        """Return the stepper to draw from; for endless text it never ends, unless the config allows it."""
        return self.stepper if config.allow_eos else self._going_on

    def _drafted(
        self, healed: HealedPrompt, config: SamplingConfig, draft: Draft, row: int
    ) -> Iterator[int]:
        """Yield the tokens of one row, proposed by the draft model, which leaves out the end symbol
        where this one does.
        """
        if draft.generator.tokenizer != self.tokenizer:
            raise ConfigError(
                f"the draft has another tokenizer ({draft.generator.tokenizer.label()}) than the model "
                f"({self.tokenizer.label()}); fit it with that one: fit(data, tokenizer=model.tokenizer)"
            )
        drafter, chance = draft.generator.stepper, Chance(np.random.default_rng((config.seed, row)))
        if self.endless and not config.allow_eos:
            drafter = Without(drafter, [self.stepper.eos_id])
        return draw_drafted(
            self._chosen(config),
            drafter,
            healed.ids,
            config,
            chance,
            drafted=draft.tokens,
            first_allowed=healed.allowed,
        )

    @property
    def index(self) -> PrefixIndex:
        """Return the index of the tokens by the bytes they add inside a word, which distinguishes
        ` th` from `th` (##th).
        """
        return self.tokenizer.derived(
            "prefix index",
            lambda: PrefixIndex(self.tokenizer.pieces()),
        )

    def last_line(self, text: str) -> str:
        return text.rpartition("\n")[2] if self.by_line else text

    def plan(self, prompt: str) -> PromptPlan:
        """Return the tokens of a prompt that are certain, and the bytes of its last word, which may be
        spelled anew.
        """
        ids = self.tokenizer.encode(prompt)
        if not self.tokenizer.subword or not prompt:
            return PromptPlan(HealedPrompt(ids))
        joiner = self.tokenizer.joiner
        if joiner and prompt[-1].isspace():  # no token contains the space: a word must begin
            return PromptPlan(HealedPrompt(ids, self.index.starting_with(joiner), joiner))
        back = 1
        while (
            back < min(len(ids), LAST_WORD) and not self.index.token_bytes[ids[-back]][:1].isspace()
        ):
            back += 1
        last = b"".join(self.index.token_bytes[i] for i in ids[-back:])
        return PromptPlan(HealedPrompt(ids), ids[:-back], last)

    def heal(
        self,
        prompt: str,
        plan: PromptPlan | None = None,
        read: tuple[State, np.ndarray] | None = None,
    ) -> list[HealedPrompt]:
        """Return the tokens of a prompt; for subwords, all spellings of its last word, likeliest
        first. `plan` and `read`: its plan, and the state after the certain tokens, where they are known.
        """
        plan = plan or self.plan(prompt)
        if plan.certain is None:
            return [plan.whole]
        spellings = heal(self.stepper, self.index, plan.certain, plan.last, read=read)
        return spellings or [plan.whole]

    def _prepare(self, prompt: str, seed: int | None, row: int = 0) -> HealedPrompt:
        """Choose one spelling of the prompt: drawn by its probability or, without a seed, the
        likeliest.
        """
        return choose_spelling(self.heal(self.last_line(prompt)), seed, row)

    def _spell(
        self, prompt: str, healed: HealedPrompt, ids: Iterator[int], stop: Sequence[str]
    ) -> Iterator[str]:
        """Yield whole characters, without the bytes that healing removed from the prompt, up to a stop
        string or `</s>`.
        """
        speller = Speller(
            self.tokenizer,
            stop,
            {self.stepper.eos_id},
            before=open_ended(prompt),
            dropped=healed.dropped,
        )
        for token in ids:
            if piece := speller.feed(token):
                yield piece
            if speller.ended:
                break
        if tail := speller.flush():
            yield tail


def open_ended(prompt: str) -> bool:
    """Return whether a text ends without white space, so that a word may go on."""
    return bool(prompt) and not prompt[-1].isspace()


class PromptPlan(NamedTuple):
    """What is known of a prompt's tokens before the model has read it."""

    whole: HealedPrompt  # as the tokenizer has it
    certain: np.ndarray | None = None  # the tokens before its last word; None: all are certain
    last: bytes = b""  # the last word


def choose_spelling(
    spellings: Sequence[HealedPrompt], seed: int | None, row: int = 0
) -> HealedPrompt:
    """Choose one spelling of a prompt: drawn by its probability or, without a seed, the likeliest."""
    if seed is None or len(spellings) == 1:
        return spellings[0]
    weights = np.exp(np.array([s.log_prob for s in spellings]) - spellings[0].log_prob)
    rng = np.random.default_rng((seed, row, 1))
    return spellings[rng.choice(len(spellings), p=weights / weights.sum())]


class Draft(NamedTuple):
    """A second model that proposes tokens (`drafting`), and how many at a time."""

    generator: Generator
    tokens: int = DRAFTED


def draft_of(model: Any, tokens: int) -> Draft | None:
    """Return what decoding needs of a language model that drafts; None without one."""
    if tokens < 1:
        raise ConfigError(f"draft_tokens must be at least 1; got {tokens}")
    if model is not None and not hasattr(model, "generator"):
        raise ConfigError(f"draft is a language model; got {type(model).__name__}")
    return None if model is None else Draft(model.generator(), tokens)


# ---- sharing

# shared by all models; held while a decoder is built, so that not every thread rounds the weights
_making = RLock()


def _renew() -> None:
    global _making
    _making = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)  # the thread that held it may not exist in the child


class Decoders:
    """The Generators of one fitted model: with its weights as they are, and rounded to 8 bits."""

    def __init__(self) -> None:
        self._generators: dict[bool, tuple[Sequence[Decoders], Generator]] = {}

    def get(
        self, eight_bit: bool, members: Sequence[Decoders], make: Callable[[], Generator]
    ) -> Generator:
        """Return the decoder that was built while the model's members had these decoders, else a new
        one.
        """
        entry = self._generators.get(eight_bit)
        if entry is None or not _same(entry[0], members):
            with _making:
                entry = self._generators.get(eight_bit)
                if entry is None or not _same(entry[0], members):
                    entry = self._generators[eight_bit] = members, make()
        return entry[1]


def _same(old: Sequence[Decoders], new: Sequence[Decoders]) -> bool:
    """Return whether all members are unchanged: one that is fitted again gets new decoders."""
    return len(old) == len(new) and all(a is b for a, b in zip(old, new))
