"""What a network does where torch records it for another program (ONNX) instead of running it.

torch's recorder (TorchScript) keeps sizes as symbols, but whatever Python decides while it records is
fixed: a branch, a loop over steps, a number. So a recorded network takes no branch that depends on its
batch (`holds`), and goes over the steps of a sequence by a loop that is recorded as a loop
(`over_steps`). Formulas stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

Step = Callable[..., tuple[Tensor, tuple[Tensor, ...]]]

_loops: list[Any] = []  # of the recording under way: torch's graph does not keep them alive


def recorded() -> bool:
    """Return whether torch records this call for another program."""
    return torch.jit.is_tracing()


def holds(condition: Tensor) -> bool:
    """Return whether a condition holds for all of this batch; a recorded network must not rely on it."""
    return not recorded() and bool(condition.all())


def over_steps(
    step: Step,
    inputs: Sequence[Tensor],
    state: tuple[Tensor, ...],
    shared: Sequence[Tensor] = (),
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Call `step(*inputs[t], *state, *shared)`, which gives an output and the next state, for each t of
    the inputs (T, ...); return the outputs (T, ...), of at least one step, and the last state.

    Tensors that depend on the batch are passed to it, not closed over.
    """
    if recorded():
        return _recorded_loop(step, inputs, state, shared)
    outputs = []
    for now in zip(*inputs):
        output, state = step(*now, *state, *shared)
        outputs.append(output)
    return torch.stack(outputs), state


@contextmanager
def recording() -> Iterator[None]:
    """Keep what a recording needs until it has been written."""
    try:
        yield
    finally:
        _loops.clear()


def _recorded_loop(
    step: Step, inputs: Sequence[Tensor], state: tuple[Tensor, ...], shared: Sequence[Tensor]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Record one step, and a loop around it in torch's own language."""
    sizes = len(inputs), len(state)
    state_of: Any = torch._C
    outer = state_of._get_tracing_state()  # recordings do not nest: the other one pauses
    state_of._set_tracing_state(None)
    try:
        examples = [
            *(x[0].detach().clone() for x in inputs),
            *(x.detach().clone() for x in (*state, *shared)),
        ]

        def flat(*values: Tensor) -> tuple[Tensor, ...]:
            output, after = step(*values)
            return output, *after

        one_step = torch.jit.trace(flat, tuple(examples), check_trace=False)
    finally:
        state_of._set_tracing_state(outer)
    given = [f"x{i}" for i in range(sizes[0])]
    states = [f"s{i}" for i in range(sizes[1])]
    fixed = [f"c{i}" for i in range(len(shared))]
    declared = ", ".join(f"{name}: Tensor" for name in (*given, *states, *fixed))
    arguments = ", ".join((*(f"{name}[t]" for name in given), *states, *fixed))
    loop = torch.jit.CompilationUnit(
        f"""
def loop({declared}):
    outputs: List[Tensor] = []
    for t in range(x0.size(0)):
        output, {", ".join(states)} = one_step({arguments})
        outputs.append(output)
    return torch.stack(outputs), {", ".join(states)}
"""
    )
    _loops.extend((loop, one_step))
    outputs, *after = loop.loop(*inputs, *state, *shared)
    return outputs, tuple(after)
