"""Continuous batching: one thread draws the next token of all requests to a language model together.

Requests join and leave between steps. Every row has its own options and random numbers, and the
numbers of a row do not depend on the rows beside it, so a request gets the text that it would get
alone, to the bit. Rows that still read their prompt take part: where a Stepper can take in several
tokens of a row at once (`read_on`), a piece of the prompt at a time, so that a long prompt does not
hold up the others; else token by token, as drawn ones.

How llama.cpp's server, TGI and vLLM (Kwon et al. 2023) schedule was the example: running rows come
first, then prompts up to a number of tokens; who waits gets in by turns (`queueing`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from seqloom.decoding.sampling import draw_next, repeats, top_indices
from seqloom.decoding.stepper import State, check_log_probs, extend, join, select
from seqloom.errors import ModelError
from seqloom.serving.prompts import Prompts
from seqloom.serving.queueing import Queue
from seqloom.serving.requests import Event, Full, Request, Row, TokenScore
from seqloom.serving.workers import start

PROMPT_TOKENS = 128  # of prompts that are read in one turn, while nobody waits for its next token
# beside rows that write: as many as take so long, which is known from the turns before
PROMPT_SECONDS, LEAST_PROMPT_TOKENS = 0.05, 16
SCORED_TOKENS = (
    64  # of a prompt whose log-probabilities are wanted, which takes a row of V for each
)

# events of a request that are not sent yet; to one whose client reads slowly, more tokens go at a time
MOST_UNREAD = 64


class Engine:
    """The decoding thread of one language model."""

    def __init__(
        self,
        prompts: Prompts,
        *,
        max_rows: int,
        max_waiting: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the thread."""
        self.prompts, self.stepper = prompts, prompts.generator.whole
        self.max_rows, self.max_waiting, self.clock = max_rows, max_waiting, clock
        self.eos_id = self.stepper.eos_id
        self._read_on = getattr(self.stepper, "read_on", None)
        self._extends = hasattr(self.stepper, "extend")
        self._wake = threading.Condition()
        self._waiting = Queue()
        self._stopping = self._ended = self._ending_texts = False
        self._prompt_tokens = PROMPT_TOKENS
        self._rows: list[Row] = []
        self._state: State = None
        self._log_probs = np.empty((0, self.stepper.vocab_size), np.float32)
        self._scoring: deque[tuple[Row, State, np.ndarray]] = deque()
        self._start()

    def _start(self) -> None:
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="decoding", daemon=True)
        start(self._thread)

    # ---- for other threads

    def submit(self, request: Request, row: Row | None = None) -> None:
        """Put a request into the queue, with its prompt if that is prepared; raise Full where there is no
        room.
        """
        row = row or self.prompts.prepare(request)
        request.open, request.arrived = request.n, self.clock()
        with self._wake:
            if self._waiting.n_texts + request.n > self.max_waiting and self._waiting:
                raise Full
            self._waiting.add(row)
            if self._ended:  # of a client that found this model before it was replaced
                self._start()
            self._wake.notify()

    def cancel(self, request: Request) -> None:
        """Drop a request whose client has left, before the next step."""
        request.cancelled = True
        with self._wake:
            self._waiting.remove(request)

    def close(self) -> None:
        """Let the thread end as soon as all requests are answered."""
        with self._wake:
            self._stopping = True
            self._wake.notify()

    def end_all(self) -> None:
        """End all texts as they are."""
        self._ending_texts = True

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended."""
        self._thread.join(timeout)

    @property
    def waiting_rows(self) -> int:
        """Return the number of texts that wait."""
        with self._wake:
            return self._waiting.n_texts

    @property
    def running_rows(self) -> int:
        """Return the number of texts that are read or written now."""
        return len(self._rows) + len(self._scoring)

    # ---- the decoding thread

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._waiting or self._rows or self._scoring or self._stopping):
                    self._wake.wait()
                if self._stopping and not (self._waiting or self._rows or self._scoring):
                    self._ended = True
                    return
                new = self._admit()
            try:
                self._turn(new)
            except Exception as error:  # whatever a model does, the thread lives on
                requests = {id(row.request): row.request for row in [*self._rows, *new]}
                requests |= {id(row.request): row.request for row, _, _ in self._scoring}
                self._rows, self._state = [], None
                self._log_probs = self._log_probs[:0]
                self._scoring.clear()
                for request in requests.values():
                    self._fail(request, error)

    def _now(self) -> float:
        return float("inf") if self._ending_texts else self.clock()

    def _admit(self) -> list[Row]:
        """Take rows from the queue while there is room; each request begins as one row."""
        if not self._waiting:
            return []
        for late in self._waiting.expired(self._now()):
            if late.drawing is None:
                self._fail(late.request, TimeoutError("the request waited too long"))
            else:
                self._finish(late, "length")
        running = [*self._rows, *(row for row, _, _ in self._scoring)]
        return self._waiting.take(running, self.max_rows)

    def _turn(self, new: list[Row]) -> None:
        self._drop_departed()
        self._join_new(new)
        self._score_piece()
        self._finish_prompts()
        self._draw()
        self._step()

    def _join_new(self, new: list[Row]) -> None:
        """Begin sequences."""
        if further := [row for row in new if row.begun is not None]:
            states, log_probs_of = zip(*(row.begun for row in further if row.begun is not None))
            self._add(further, join(states), np.concatenate(log_probs_of))
            for row in further:
                row.begun = None
        in_batch = []
        for row in new:
            if row in further:
                continue
            if row.scored and self._extends:
                state, log_probs = self.stepper.start(1)
                self._scoring.append((row, state, log_probs))
            else:
                in_batch.append(row)
        if in_batch:
            self._add(in_batch, *self.stepper.start(len(in_batch)))

    def _add(self, rows: list[Row], state: State, log_probs: np.ndarray) -> None:
        if self._rows:
            state = join([self._state, state])
            log_probs = np.concatenate([self._log_probs, log_probs])
        self._rows, self._state, self._log_probs = [*self._rows, *rows], state, log_probs

    def _keep(self, kept: list[int]) -> None:
        """Drop all rows but these."""
        if len(kept) == len(self._rows):
            return
        if not kept:
            self._rows, self._state, self._log_probs = [], None, self._log_probs[:0]
            return
        at = np.array(kept, np.int64)
        self._rows = [self._rows[i] for i in kept]
        self._state, self._log_probs = select(self._state, at), self._log_probs[at]

    def _drop_departed(self) -> None:
        now = self._now()
        for row in [*self._rows, *(row for row, _, _ in self._scoring)]:
            if row.request.deadline <= now and not row.request.done:
                if row.drawing is not None:
                    self._finish(row, "length")
                else:
                    self._fail(row.request, TimeoutError("the request took too long"))
        gone = [row.request.cancelled or row.request.done for row in self._rows]
        if any(gone):
            self._keep([i for i, left in enumerate(gone) if not left])
        self._scoring = deque(
            item
            for item in self._scoring
            if not (item[0].request.cancelled or item[0].request.done)
        )

    def _score_piece(self) -> None:
        """Read on in the oldest prompt of which log-probabilities are wanted, in one pass over several
        tokens.
        """
        if not self._scoring:
            return
        row, state, log_probs = self._scoring.popleft()
        if len(row.pending):
            piece = row.pending[:SCORED_TOKENS]
            try:
                states, after = extend(self.stepper, state, piece[None])
            except Exception as error:  # of this prompt; the others go on
                self._fail(row.request, error)
                return
            taken = len(states)
            before = np.concatenate([log_probs, after[0, : taken - 1]])
            for token, row_log_probs in zip(piece[:taken].tolist(), before):
                self._note(row, token, row_log_probs)
            row.pending = row.pending[taken:]
            state, log_probs = states[-1], after[0, -1:]
        if not len(row.pending) and row.units:
            row.pending = row.units.popleft()
            state, log_probs = self.stepper.start(1)
        if len(row.pending):
            self._scoring.append((row, state, log_probs))
        else:
            self._add([row], state, log_probs)

    def _note(self, row: Row, token: int, log_probs: np.ndarray) -> None:
        """Note what the model thought of a token, (V,), if that is wanted."""
        if row.request.top is None:
            return
        if row.first and row.drawing is None:
            row.scores.append(TokenScore(token, None, []))
        else:
            best = (
                top_indices(log_probs[None], row.request.top)[0].tolist() if row.request.top else []
            )
            top = [(other, float(log_probs[other])) for other in best]
            row.scores.append(TokenScore(token, float(log_probs[token]), top))
        row.first = False

    def _finish_prompts(self) -> None:
        """Let rows whose prompt is read begin to write; further texts of the same prompt wait their turn."""
        read = [
            i for i, row in enumerate(self._rows) if row.drawing is None and not len(row.pending)
        ]
        if not read:
            return
        kept: list[int] = []
        rows: list[Row] = []
        for i, row in enumerate(self._rows):
            if i not in read:
                kept.append(i)
                rows.append(row)
            elif not row.request.write:
                for index in range(row.request.n):
                    self._emit(row, index, "", "length")
            else:
                try:
                    one = select(self._state, np.array([i])) if row.plan is not None else None
                    writers = self.prompts.writers(row, one, self._log_probs[i : i + 1])
                except Exception as error:  # of this prompt; the others go on
                    self._fail(row.request, error)
                    continue
                kept.append(i)
                rows.append(writers[0])
                self._let_wait(i, writers[1:])
        if not kept:
            self._keep([])
            return
        at = np.array(kept, np.int64)
        self._state, self._log_probs, self._rows = (
            select(self._state, at),
            self._log_probs[at],
            rows,
        )

    def _let_wait(self, i: int, writers: list[Row]) -> None:
        """Keep what row i has read for further texts."""
        if not writers:
            return
        begun = select(self._state, np.array([i])), self._log_probs[i : i + 1].copy()
        for writer in writers:
            writer.begun = begun
        with self._wake:
            if not writers[0].request.cancelled:
                self._waiting.add_first(writers)

    def _draw(self) -> None:
        """Draw the next token of every row that has read all it has to."""
        ready = [
            i
            for i, row in enumerate(self._rows)
            if row.drawing is not None and not len(row.pending)
        ]
        if not ready:
            return
        everyone = len(ready) == len(self._rows)
        log_probs = self._log_probs if everyone else self._log_probs[np.array(ready, np.int64)]
        try:
            check_log_probs(log_probs)
        except ModelError:
            ready = self._without_broken(ready, log_probs)
            if not ready:
                return
            log_probs = self._log_probs[np.array(ready, np.int64)]
        rows = [self._rows[i] for i in ready]
        raw = {i: log_probs[i].copy() for i, row in enumerate(rows) if row.request.top is not None}
        drawings = [row.drawing for row in rows if row.drawing is not None]
        ids = draw_next(drawings, log_probs, self.eos_id).tolist()
        now = self.clock()
        for i, (row, token) in enumerate(zip(rows, ids)):
            if i in raw:
                self._note(row, token, raw[i])
            self._take(row, token, now)
        if any(row.over for row in rows):
            self._keep([i for i, row in enumerate(self._rows) if not row.over])

    def _without_broken(self, ready: list[int], log_probs: np.ndarray) -> list[int]:
        """Fail the requests from whose log-probabilities nothing can be drawn; return the other rows."""
        fine = []
        for i, row_log_probs in zip(ready, log_probs):
            try:
                check_log_probs(row_log_probs[None])
                fine.append(self._rows[i])
            except ModelError as error:
                self._fail(self._rows[i].request, error)
        self._keep([i for i, row in enumerate(self._rows) if not row.request.done])
        return [i for i, row in enumerate(self._rows) if row in fine]

    def _take(self, row: Row, token: int, now: float) -> None:
        """Add a drawn token to the text of a row."""
        request, speller, drawing = row.request, row.speller, row.drawing
        assert speller is not None
        assert drawing is not None
        request.drawn_tokens += 1
        if request.first_drawn is None:
            request.first_drawn = now
        piece = speller.feed(token, now=request.streamed)
        if request.cut_loops:
            row.drawn.append(token)
            speller.ended = speller.ended or repeats(row.drawn)
        if speller.ended or drawing.position == request.config.max_tokens:
            self._finish(row, "stop" if speller.ended else "length", piece)
            return
        row.pending = np.array([token], np.int64)
        if piece:
            row.text.append(piece)
        if request.streamed and (piece or row.scores) and len(request.events) < MOST_UNREAD:
            self._emit(row, row.index, "".join(row.text), None)
            row.text = []

    def _finish(self, row: Row, reason: str, piece: str = "") -> None:
        assert row.speller is not None
        tail = row.speller.flush()
        if reason == "length" and row.speller.ended:
            reason = "stop"
        row.drawing = None
        row.pending = np.empty(0, np.int64)
        row.over = True
        self._emit(row, row.index, "".join(row.text) + piece + tail, reason)

    def _emit(self, row: Row, index: int, text: str, finish: str | None) -> None:
        request = row.request
        request.events.append(Event(index, text, list(row.scores), finish))
        row.scores = []
        if finish is not None:
            request.open -= 1
        if request.done or request.streamed:
            request.notify(request)

    def _fail(self, request: Request, error: Exception) -> None:
        if not request.done:
            request.error = error
            with self._wake:  # its other texts do not begin
                self._waiting.remove(request)
            request.notify(request)

    def _note_pace(self, tokens: int, seconds: float) -> None:
        """Choose how many tokens of prompts are read beside rows that write; a row's numbers do not depend
        on how its prompt is cut.
        """
        fitting = int(tokens * PROMPT_SECONDS / max(seconds, 1e-9))
        self._prompt_tokens = min(max(fitting, LEAST_PROMPT_TOKENS), PROMPT_TOKENS)

    def _step(self) -> None:
        """Read the next tokens of all rows: a drawn one each, and pieces of prompts."""
        rows = self._rows
        if not rows:
            return
        parts: list[np.ndarray] = []
        writing = any(row.drawing is not None for row in rows)
        left = self._prompt_tokens if writing else PROMPT_TOKENS
        for row in rows:
            size = 1
            if row.drawing is None and not row.scored and self._read_on is not None:
                size = max(min(len(row.pending), left), 1)
                left -= size
            parts.append(row.pending[:size])
        for i, (row, part) in enumerate(zip(rows, parts)):
            if row.drawing is None and row.scored:
                self._note(row, int(part[0]), self._log_probs[i])
            row.pending = row.pending[len(part) :]
        if self._read_on is not None and any(len(part) > 1 for part in parts):
            begun = self.clock()
            self._state, self._log_probs = self._read_on(self._state, parts)
            self._note_pace(sum(map(len, parts)), self.clock() - begun)
        else:
            ids = np.array([part[0] for part in parts], np.int64)
            self._state, self._log_probs = self.stepper.step(self._state, ids)
        again = [row for row in rows if row.units and not len(row.pending)]
        if again:  # their next line begins anew
            self._keep([i for i, row in enumerate(rows) if row not in again])
            for row in again:
                row.pending = row.units.popleft()
            self._add(again, *self.stepper.start(len(again)))
