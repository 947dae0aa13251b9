"""From a prompt to rows: its tokens before it is read, and how texts go on after it."""

from __future__ import annotations

import numpy as np

from seqloom.decoding.constraints import HealedPrompt, rule_out
from seqloom.decoding.generation import Generator, choose_spelling, open_ended
from seqloom.decoding.sampling import Drawing
from seqloom.decoding.spelling import Speller
from seqloom.decoding.stepper import State
from seqloom.errors import ConfigError
from seqloom.serving.requests import Request, Row, TokenScore


class Prompts:
    """What a language model does with prompts."""

    def __init__(
        self,
        generator: Generator,
        *,
        context: int | None = None,
        limit: int | None = None,
        fresh_lines: bool = False,
    ) -> None:
        """Set up. `context`: how many tokens back the model can see, where a prompt may be cut to them;
        `limit`: tokens that fit into its window; `fresh_lines`: every line begins anew.
        """
        self.generator, self.eos_id = generator, generator.whole.eos_id
        self.context, self.limit, self.fresh_lines = context, limit, fresh_lines
        self._forbidden_by_ends: dict[frozenset[int], np.ndarray | None] = {}

    def prepare(self, request: Request) -> Row:
        """Find the tokens of a prompt; in any thread, as it may take long. The request does not know its
        row: what knows each other stays in memory until Python looks for such cycles.
        """
        generator = self.generator
        row = Row(request, np.empty(0, np.int64))
        if isinstance(request.prompt, str):
            if row.scored:
                ids = generator.tokenizer.encode(request.prompt, newline_ends=generator.by_line)
            else:
                row.plan = generator.plan(generator.last_line(request.prompt))
                ids = row.plan.whole.ids if row.plan.certain is None else row.plan.certain
            request.prompt_tokens = len(ids) if row.plan is None else len(row.plan.whole.ids)
        else:
            ids = request.prompt
            request.prompt_tokens = len(ids)
        if self.limit is not None and request.prompt_tokens >= self.limit:
            raise ConfigError(
                f"the prompt has {request.prompt_tokens:,} tokens, but the context of the model has "
                f"{self.limit:,}, one of them for the start",
                ["prompt"],
            )
        row.whole = ids = np.asarray(ids, np.int64)
        if len(ids) and ids[0] == self.eos_id and not isinstance(request.prompt, str):
            # a sequence begins as if `</s>` had been read
            if row.scored:
                row.scores.append(TokenScore(self.eos_id, None, []))
                row.first = False
            ids = ids[1:]
        if self.fresh_lines:
            *before, ids = np.split(ids, np.flatnonzero(ids == self.eos_id) + 1)
            if row.scored:
                row.units.extend([*before[1:], ids] if before else ())
                ids = before[0] if before else ids
        if self.context is not None and not row.scored:
            ids = ids[max(len(ids) - self.context, 0) :]
        row.pending = ids
        return row

    def writers(self, row: Row, state: State, log_probs: np.ndarray) -> list[Row]:
        """Return the rows that write after a prompt, each with its spelling of the last word; `state` and
        `log_probs` (1, V): those after what the prompt's row has read.
        """
        request, generator, plan = row.request, self.generator, row.plan
        forbidden = self._forbidden(request.ends)
        spellings = None
        if plan is not None:
            read = None
            if plan.certain is not None:
                log_probs = log_probs.copy()
                if len(generator.never):
                    rule_out(log_probs, generator.never)
                read = state, log_probs
            spellings = generator.heal("", plan, read)
        seed = None if request.config.temperature == 0 else request.config.seed
        ends = {self.eos_id, *request.ends}
        if isinstance(request.prompt, str):
            before = open_ended(request.prompt)
        else:
            before = open_ended(generator.tokenizer.decode(row.whole[-1:]))
        writers = []
        for index in range(request.n):
            writer = Row(request, np.empty(0, np.int64))
            writer.index, writer.first = index, False
            writer.scores = list(row.scores)
            chosen = HealedPrompt(row.whole)
            if spellings is not None and plan is not None:
                chosen = choose_spelling(spellings, seed, index)
                if plan.certain is not None:
                    writer.pending = chosen.ids[len(plan.certain) :]
            writer.speller = Speller(
                generator.tokenizer, request.stop, ends, before=before, dropped=chosen.dropped
            )
            writer.drawing = Drawing(
                request.config,
                index,
                chosen.ids,
                generator.whole.vocab_size,
                allowed=chosen.allowed,
                forbidden=forbidden,
                endless=generator.endless and not request.config.allow_eos,
            )
            writers.append(writer)
        return writers

    def _forbidden(self, ends: frozenset[int]) -> np.ndarray | None:
        """Return the tokens that an answer with these ends must not have; the same array for all such."""
        if ends not in self._forbidden_by_ends:
            tokens = [token for token in self.generator.never.tolist() if token not in ends]
            self._forbidden_by_ends[ends] = np.array(tokens, np.int64) if tokens else None
        return self._forbidden_by_ends[ends]
