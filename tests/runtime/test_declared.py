"""What a network without torch takes is what torch's network has: the same names, shapes and kinds
of numbers.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from seqloom import registry
from seqloom.models.network.network import NetworkModel
from tests.runtime.networks import CASES


@pytest.mark.parametrize("case", CASES)
def test_what_is_declared_is_what_torch_has(case):
    model = CASES[case]()
    expected = {
        name: (tuple(value.shape), value.dtype.is_floating_point)
        for name, value in model.build_fitted().state_dict().items()
    }
    found = {name: (each.shape, each.role != "index") for name, each in model.declared().items()}
    assert found == expected
    assert all(
        value.dtype in (torch.float32, torch.int64)
        for value in model.build_fitted().state_dict().values()
    )


def test_every_network_is_here():
    """A model that is a network, and its name is not among the cases, was forgotten."""
    networks = {
        name for name in registry.MODELS if issubclass(registry.model_class(name), NetworkModel)
    }
    assert networks == {case.partition(" ")[0] for case in CASES}
