"""Products with weights of bfloat16: rounded as torch rounds them, and the same with and without a matrix unit."""

import numpy as np
import pytest
import torch

from seqloom.kernels import amx
from seqloom.kernels.bfloat import from_bits, rounded_bits, split_rows
from seqloom.models.network import step_weights
from seqloom.models.network.step_weights import BFloat16, Panels, bfloat16


def made(rows, columns, n):
    rng = np.random.default_rng(rows + n)
    return rng.normal(size=(rows, columns)).astype(np.float32), rng.normal(size=(n, columns)).astype(np.float32)


def as_torch_rounds(weight):
    return torch.from_numpy(weight).to(torch.bfloat16).to(torch.float32).numpy()


def test_rounding():
    weight = np.random.default_rng(0).normal(size=(50, 70)).astype(np.float32)
    weight[0, :6] = 0, -0.0, 1e-40, 1 + 2**-8, 1 + 3 * 2**-8, 3e38  # of two that are as near the even one is taken
    assert np.array_equal(from_bits(rounded_bits(weight)), as_torch_rounds(weight))
    any_nan = np.array([[0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000]], np.uint32).view(np.float32)
    assert np.isnan(from_bits(rounded_bits(any_nan))).all()


def test_rows_are_sums_of_two():
    x = made(1, 70, 5)[1]
    parts = split_rows(x, 4, 3)
    assert parts.shape == (2, 8, 96)
    assert np.abs(from_bits(parts).sum(axis=0)[:5, :70] - x).max() < 2.0**-15
    assert not parts[:, 5:].any()
    assert not parts[:, :, 70:].any()


@pytest.mark.parametrize("unit", [False, pytest.param(True, marks=pytest.mark.skipif(
    not amx.available(), reason="this processor has no matrix unit"))])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 21, 32, 33, 70])
@pytest.mark.parametrize(("rows", "columns"), [(32, 32), (5, 8), (70, 100), (96, 384)])
def test_product(monkeypatch, rows, columns, n, unit):
    weight, x = made(rows, columns, n)
    monkeypatch.setattr(amx, "available", lambda: unit)
    matrix = bfloat16(weight)
    assert isinstance(matrix, BFloat16 if unit else Panels)
    assert len(matrix) == rows
    found = matrix(x)
    assert np.allclose(found, x.astype(np.float64) @ as_torch_rounds(weight).T.astype(np.float64), atol=1e-3)
    monkeypatch.setattr(step_weights, "SPLIT", 0)  # by several threads
    assert np.array_equal(matrix(x), found)
    assert np.array_equal(matrix(np.asfortranarray(x)), found)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_what_is_not_finite_is_noticed(broken):
    weight, x = made(32, 32, 8)
    x[3, 5] = broken
    found = np.isfinite(bfloat16(weight)(x))
    assert not found[3].any()
    assert found[:3].all()
