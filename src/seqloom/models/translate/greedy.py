"""Greedy search of a recurrent decoder for one source in one call (`kernels/seq2seq`), where no scores are asked for.

It writes what beam search with one beam writes: it leaves each choice that rounding could turn round to the log-probabilities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from seqloom.arrays import aligned
from seqloom.decoding.sanity import check_log_probs
from seqloom.kernels.intrinsics import TOGETHER
from seqloom.kernels.seq2seq import write
from seqloom.models.network.step_weights import Softmax

if TYPE_CHECKING:
    from seqloom.models.translate.seq2seq_steps import Memory, Seq2SeqSteps

KEPT = 1 << 25  # bytes up to which the first layer's products with all tokens are made beforehand
WIDEST = 2.7  # times the root mean square of a row: beyond it 4 bits round to the last of their 16 steps
FINER = 10  # the steps of the next 4 bits, of which 15 also cover most of what is beyond the widest
Arrays = tuple[np.ndarray, ...]


def rounded(output: Softmax) -> tuple[Arrays, Arrays, np.ndarray, np.ndarray, tuple[np.float32, np.float32]]:
    """The output layer as `kernels.seq2seq.likeliest` takes it."""
    weight, bias = output.matrix.weight, np.zeros(len(output.matrix.weight), np.float32)
    bias += output.bias if len(output.bias) else 0
    norm, largest = np.linalg.norm(weight, axis=1), np.abs(weight).max(axis=1, initial=0)
    widest = np.minimum(largest, WIDEST * norm / max(weight.shape[1], 1) ** 0.5)
    rough_scale = np.where(widest > 0, widest / 7.5, 1).astype(np.float32)
    fine_scale = rough_scale / FINER
    rough, left = _in_4_bits(weight, rough_scale)
    fine, least = _in_4_bits(left, fine_scale)
    rough_error, fine_error = np.linalg.norm(left, axis=1), np.linalg.norm(least, axis=1)
    limits = (np.float32((norm + np.maximum(rough_error, fine_error)).max(initial=0)),
              np.float32(1e-6 * np.abs(bias).max(initial=0)))
    return ((_halves_of_groups(rough), _groups(rough_scale), _groups(rough_error), _groups(bias, -np.inf)),
            (_halves_of_rows(fine), fine_scale, fine_error), weight, bias, limits)


def _in_4_bits(weight: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (V, D) in numbers from 0 to 15, 7.5 too large, and what they lack."""
    numbers = np.clip(np.rint(weight / scale[:, None] + np.float32(7.5)), 0, 15)
    return numbers.astype(np.uint8), weight - scale[:, None] * (numbers - np.float32(7.5))


def _groups(values: np.ndarray, beyond: float = 0) -> np.ndarray:
    """Values of rows (V, ...) by groups (G, 64, ...)."""
    whole = np.full((-(-len(values) // TOGETHER) * TOGETHER, *values.shape[1:]), beyond, values.dtype)
    whole[:len(values)] = values
    return whole.reshape(-1, TOGETHER, *values.shape[1:])


def _halves_of_groups(numbers: np.ndarray) -> np.ndarray:
    """Rows (V, D) of numbers from 0 to 15 as `products_of_64` reads them."""
    eights = -(-numbers.shape[1] // 8)
    whole = np.pad(numbers, ((0, 0), (0, 8 * eights - numbers.shape[1])))
    low, high = _groups(whole).reshape(-1, TOGETHER, eights, 2, 4).transpose(3, 0, 2, 1, 4)
    return aligned(low | high << 4)


def _halves_of_rows(numbers: np.ndarray) -> np.ndarray:
    """Rows (V, D) of numbers from 0 to 15 as `product_of_row` reads them."""
    vectors = -(-numbers.shape[1] // 128)
    whole = np.pad(numbers, ((0, 0), (0, 128 * vectors - numbers.shape[1])))
    low, high = whole.reshape(len(numbers), vectors, 2, 64).transpose(2, 0, 1, 3)
    return aligned((low | high << 4).reshape(len(numbers), -1))


class GreedyWriter:
    """The weights of a decoder of one GRU layer with attention as the kernel takes them."""

    def __init__(self, steps: Seq2SeqSteps) -> None:
        assert steps.readout is not None
        assert isinstance(steps.output, Softmax)
        layer, size = steps.layers[0], len(steps.embedding)
        self.steps = steps
        parts = [layer.w_h, *([] if steps.query is None else [steps.query]), steps.readout]
        self.recurrence = aligned(np.concatenate([part.weight for part in parts])), layer.b_h
        w_fed = np.empty((0, 0), np.float32) if steps.w_fed is None else steps.w_fed.weight
        table = steps.token_gates
        if table is None:
            kept = 4 * size * len(layer.b) <= KEPT
            table = layer.project(steps.embedding) if kept else np.empty((0, len(layer.b)), np.float32)
        self.inputs = np.ascontiguousarray(steps.embedding), layer.w_x.weight, w_fed, table
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
        while done < max_tokens and (done == 0 or token != eos_id):
            done, token = write(token, eos_id, done, ids, state, known, self.inputs, self.recurrence, self.attention,
                                self.output)
            if token < 0:
                token = ids[done] = self._by_log_probs(features)
                done += 1
        ended = bool(token == eos_id)
        return ids[:done - ended], ended

    def _by_log_probs(self, features: np.ndarray) -> int:
        log_probs = self.steps.output.log_probs(features[None])
        check_log_probs(log_probs)
        return int(np.minimum(log_probs[0], np.float32(0)).argmax())
