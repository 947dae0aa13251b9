"""Greedy search of a recurrent decoder for one source in one call (`kernels/seq2seq`), where no scores are asked for.

It writes what beam search with one beam writes: it leaves each choice that rounding could turn round to the log-probabilities.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from seqloom.decoding.sanity import check_log_probs
from seqloom.kernels.intrinsics import TOGETHER
from seqloom.kernels.seq2seq import write
from seqloom.models.network.step_weights import Softmax

if TYPE_CHECKING:
    from seqloom.models.translate.seq2seq_steps import Memory, Seq2SeqSteps

KEPT = 1 << 25  # bytes of products of the first layer with tokens that are kept
Arrays = tuple[np.ndarray, ...]


def rounded(output: Softmax) -> Arrays:
    """The output layer as `kernels.seq2seq.likeliest` takes it."""
    weight = output.matrix.weight
    (n, size), largest = weight.shape, np.abs(weight).max(axis=1, initial=0)
    scale, bias = np.where(largest > 0, largest / 127, 1).astype(np.float32), np.zeros(n, np.float32)
    bias += output.bias if len(output.bias) else 0
    numbers = np.zeros((-(-n // TOGETHER) * TOGETHER, -(-size // 2) * 2), np.int8)
    numbers[:n, :size] = np.rint(weight / scale[:, None])
    error = np.linalg.norm(weight - numbers[:n, :size] * scale[:, None], axis=1)
    per_row = error, np.linalg.norm(weight, axis=1) + error, np.float32(1e-6) * np.abs(bias)
    groups = np.ascontiguousarray(numbers.reshape(-1, TOGETHER, numbers.shape[1] // 2, 2).transpose(0, 2, 1, 3))
    return groups, scale, *(np.maximum.reduceat(row, np.arange(0, n, TOGETHER)) for row in per_row), weight, bias


class GreedyWriter:
    """The weights of a decoder of one GRU layer with attention as the kernel takes them."""

    def __init__(self, steps: Seq2SeqSteps) -> None:
        assert steps.readout is not None
        assert isinstance(steps.output, Softmax)
        layer, size = steps.layers[0], len(steps.embedding)
        self.steps, self.lock = steps, Lock()
        parts = [layer.w_h, *([] if steps.query is None else [steps.query]), steps.readout]
        self.recurrence = np.concatenate([part.weight for part in parts]), layer.b_h
        w_fed = np.empty((0, 0), np.float32) if steps.w_fed is None else steps.w_fed.weight
        self.weights = np.ascontiguousarray(steps.embedding), layer.w_x.weight, w_fed
        kept = size if 4 * size * len(layer.b) <= KEPT else 0
        self.nothing = np.empty((0, len(layer.b)), np.float32), np.empty(0, np.bool_)
        self.table: Arrays = ((steps.token_gates, np.ones(size, np.bool_)) if steps.token_gates is not None else
                              (np.empty((kept, len(layer.b)), np.float32), np.zeros(kept, np.bool_)))
        self.attention = steps.energy, steps.scale, steps.covered, steps.readout_bias
        self.output = rounded(steps.output)

    @staticmethod
    def can_write(steps: Seq2SeqSteps) -> bool:
        """Whether there is a kernel for such a decoder, and its output layer is in order."""
        output = steps.output
        return (steps.c.cell == "gru" and len(steps.layers) == 1 and steps.attends and isinstance(output, Softmax)
                and bool(np.isfinite(output.matrix.weight).all() and np.isfinite(output.bias).all()))

    def __call__(self, memory: Memory, source: int, steps: slice, max_tokens: int, eos_id: int) -> tuple[np.ndarray, bool]:
        """The tokens for one of the sources, without the end symbol, and whether they end; `steps`: its own of the memory."""
        layer = self.steps.layers[0]
        bias = layer.b + memory.known[source] if memory.known.shape[1] else layer.b
        h, features = memory.start[0][0][source].copy(), np.zeros(len(self.steps.readout_bias), np.float32)
        coverage = np.zeros((1, steps.stop - steps.start if len(self.steps.covered) else 0), np.float32)
        state = h, np.empty(len(self.recurrence[0]), np.float32), features, coverage
        known = memory.vectors[steps], memory.keys[steps], bias
        ids, token, done = np.empty(max_tokens, np.int64), self.steps.eos_id, 0
        alone = self.lock.acquire(blocking=False)  # else another thread may be writing to the table
        try:
            inputs = *self.weights, *(self.table if alone or self.steps.token_gates is not None else self.nothing)
            while done < max_tokens and (done == 0 or token != eos_id):
                done, token = write(token, eos_id, done, ids, state, known, inputs, self.recurrence, self.attention,
                                    self.output)
                if token < 0:
                    token = ids[done] = self._by_log_probs(features)
                    done += 1
        finally:
            if alone:
                self.lock.release()
        ended = bool(token == eos_id)
        return ids[:done - ended], ended

    def _by_log_probs(self, features: np.ndarray) -> int:
        log_probs = self.steps.output.log_probs(features[None])
        check_log_probs(log_probs)
        return int(np.minimum(log_probs[0], np.float32(0)).argmax())
