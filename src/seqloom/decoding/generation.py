"""Text in, text out: what ties the search over a Stepper, healing and stop strings to a tokenizer.

A `Generator` is made of a Stepper and the tokenizer that belongs to it. Nothing of it changes after it was made, so threads
share it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from seqloom.decoding.constraints import Without
from seqloom.decoding.drafting import DRAFTED, Chance, draw_drafted
from seqloom.decoding.healing import HealedPrompt, PrefixIndex, heal
from seqloom.decoding.sampling import SamplingConfig, sample
from seqloom.decoding.search import search
from seqloom.decoding.stepper import Stepper
from seqloom.decoding.stops import TextStream
from seqloom.errors import ConfigError
from seqloom.text.tokenizer import Tokenizer

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
        """`ends`: declared marks that may be drawn nevertheless, since they end an answer."""
        never = [token for token in tokenizer.declared_ids if token not in ends]
        if tokenizer.has_oov and tokenizer.unk_id is not None:
            never.append(tokenizer.unk_id)  # a reader cannot use <unk>
        self._whole = stepper
        self.stepper: Stepper = Without(stepper, never) if never else stepper
        self.tokenizer = tokenizer
        self.by_line = by_line  # a prompt's earlier lines are sequences of their own
        self.endless = endless  # the model has read one stream, so `</s>` says nothing about where a text may end
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
        """The continuation of each prompt."""
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
        """The continuation of one prompt as it is drawn."""
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
        """What follows these tokens as it is drawn, up to any of the tokens `ends`."""
        prompt, writer = HealedPrompt(ids), self._ended_by(ends)
        drawn: Iterator[int]
        if draft is None:
            drawn = (int(row[0]) for row in sample(writer._chosen(config), [ids], config))
        else:
            drawn = writer._drafted(
                prompt, config, draft._replace(generator=draft.generator._ended_by(ends)), 0
            )
        return self._spell(
            "", prompt, (self.stepper.eos_id if token in ends else token for token in drawn), stop
        )

    def _ended_by(self, ends: Collection[int | None]) -> Generator:
        """The same, but declared marks among these may be drawn."""
        if not any(token in ends for token in self.tokenizer.declared_ids):
            return self
        return Generator(
            self._whole, self.tokenizer, by_line=self.by_line, endless=self.endless, ends=ends
        )

    def _chosen(self, config: SamplingConfig) -> Stepper:
        """The stepper that text is drawn from: of an endless text without its end, unless asked."""
        return self.stepper if config.allow_eos else self._going_on

    def _drafted(
        self, healed: HealedPrompt, config: SamplingConfig, draft: Draft, row: int
    ) -> Iterator[int]:
        """The tokens of one row, proposed by the other model; neither proposes what this one never draws."""
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
        """Tokens by what they add to a text that goes on a word, so ` th` and `th` (##th) are told apart."""
        return self.tokenizer.derived(
            "prefix index",
            lambda: PrefixIndex(
                [
                    self.tokenizer.piece(i, before=True) if self.tokenizer.token_bytes(i) else b""
                    for i in range(self.tokenizer.vocab_size)
                ]
            ),
        )

    def last_line(self, text: str) -> str:
        return text.rpartition("\n")[2] if self.by_line else text

    def heal(self, prompt: str) -> list[HealedPrompt]:
        """The tokens of a prompt; for subwords all ways to spell its last word, likeliest first."""
        ids = self.tokenizer.encode(prompt)
        if not self.tokenizer.subword or not prompt:
            return [HealedPrompt(ids)]
        if (
            self.tokenizer.joiner and prompt[-1].isspace()
        ):  # the space is part of no token: a word must begin
            return [
                HealedPrompt(
                    ids, self.index.starting_with(self.tokenizer.joiner), self.tokenizer.joiner
                )
            ]
        back = 1
        while (
            back < min(len(ids), LAST_WORD) and not self.index.token_bytes[ids[-back]][:1].isspace()
        ):
            back += 1
        last = b"".join(self.index.token_bytes[i] for i in ids[-back:])
        return heal(self.stepper, self.index, ids[:-back], last) or [HealedPrompt(ids)]

    def _prepare(self, prompt: str, seed: int | None, row: int = 0) -> HealedPrompt:
        """One spelling of the prompt: drawn by its probability, or with no seed the likeliest."""
        ways = self.heal(self.last_line(prompt))
        if seed is None or len(ways) == 1:
            return ways[0]
        weights = np.exp(np.array([way.log_prob for way in ways]) - ways[0].log_prob)
        return ways[
            np.random.default_rng((seed, row, 1)).choice(len(ways), p=weights / weights.sum())
        ]

    def _spell(
        self, prompt: str, healed: HealedPrompt, ids: Iterator[int], stop: Sequence[str]
    ) -> Iterator[str]:
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


class Draft(NamedTuple):
    """A second model that proposes tokens (`drafting`), and how many at a time."""

    generator: Generator
    tokens: int = DRAFTED
