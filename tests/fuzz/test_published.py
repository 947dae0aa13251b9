"""A few damaged models of other programs in every run of the tests."""

import pytest

pytest.importorskip("torch")

from .published import run


def test_damaged_published_models_are_refused_in_one_line_or_work():
    counts = run(40, seed=0)
    assert counts.wrong == []
    assert counts.tried == 40
    assert min(counts.refused, counts.worked) > 5
