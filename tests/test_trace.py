"""A trace keeps what is wanted, by the names of parts."""

import subprocess
import sys

import numpy as np
import pytest

from seqloom.traces import Trace, within


def test_all_is_kept_by_name():
    trace = Trace()
    trace.within("blocks.0").within("attention").add("weights", 1)
    trace.add("out", 2)
    assert dict(trace) == {"blocks.0.attention.weights": 1, "out": 2}
    assert list(trace) == ["blocks.0.attention.weights", "out"]
    assert len(trace) == 2


def test_a_view_has_the_names_inside_of_its_part():
    trace = Trace()
    view = trace.within("blocks.1")
    trace.add("blocks.1.out", 3)
    trace.add("blocks.10.out", 4)
    assert dict(view) == {"out": 3}
    with pytest.raises(KeyError, match=r"blocks\.1\.weights"):
        view["weights"]


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        ((), {"out", "layers.0.c", "layers.0.gates.f", "layers.1.gates.f"}),
        (("*.gates.*",), {"layers.0.gates.f", "layers.1.gates.f"}),
        (("layers.0.*",), {"layers.0.c", "layers.0.gates.f"}),
        (("out", "*.c"), {"out", "layers.0.c"}),
        (("*.weights",), set()),
    ],
)
def test_only_what_is_wanted_is_kept(patterns, kept):
    trace = Trace(*patterns)
    for part in ("layers.0", "layers.1"):
        view = trace.within(part)
        for name in ("c", "gates.f"):
            if (part, name) != ("layers.1", "c"):
                assert view.wants(name) == (f"{part}.{name}" in kept)
                view.add(name, 0)
    trace.add("out", 0)
    assert set(trace) == kept
    assert trace.within("layers.0").wants("c", "gates.f") == bool(
        kept & {"layers.0.c", "layers.0.gates.f"}
    )


def test_arrays_are_changed_from_the_inside_out():
    trace = Trace()
    layer = trace.within("layer", lambda x: x.T)
    layer.add("out", np.arange(6).reshape(3, 2))
    layer.within("reverse", lambda x: x[::-1]).add("h", np.arange(6).reshape(3, 2))
    assert trace["layer.out"].tolist() == [[0, 2, 4], [1, 3, 5]]
    assert trace["layer.reverse.h"].tolist() == [[4, 2, 0], [5, 3, 1]]


def test_an_empty_one_wants_the_same():
    trace = Trace("decoder.*")
    view = trace.within("decoder")
    view.add("h", 1)
    other = view.empty()
    other.add("c", 2)
    assert dict(other) == {"c": 2}
    assert dict(trace) == {"decoder.h": 1}
    assert not trace.empty().wants("c")


def test_where_nothing_is_traced_no_part_is():
    assert within(None, "blocks.0") is None
    assert within(Trace(), "blocks.0").prefix == "blocks.0."


def test_it_needs_neither_torch_nor_numba():
    code = "import sys, seqloom.traces; sys.exit(bool({'torch', 'numba'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
