"""Pictures of models, text and results. Each function returns a `Sheet`: its numbers, its charts, and `save("x.png")`.

    >>> import seqloom
    >>> model = seqloom.HMM(states=2, iterations=5).fit("the cat sat\\nthe dog sat\\n")
    >>> list(seqloom.inspect.states(model, "the dog").charts)[0]
    'Belief about the state, token by token'

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqloom.inspect.costs import portrait as portrait
    from seqloom.inspect.costs import surprise as surprise
    from seqloom.inspect.explanations import explanation as explanation
    from seqloom.inspect.exposure import exposure_bias as exposure_bias
    from seqloom.inspect.hidden import states as states
    from seqloom.inspect.results import comparison as comparison
    from seqloom.inspect.results import description as description
    from seqloom.inspect.results import errors as errors
    from seqloom.inspect.results import robustness as robustness
    from seqloom.inspect.runs import training_curves as training_curves
    from seqloom.inspect.series import anomalies as anomalies
    from seqloom.inspect.series import forecast as forecast
    from seqloom.inspect.tracing import trace as trace
    from seqloom.inspect.translations import alignment as alignment
    from seqloom.inspect.translations import quality_by_length as quality_by_length
    from seqloom.inspect.vectors import analogies as analogies
    from seqloom.inspect.vectors import leaning as leaning
    from seqloom.inspect.vectors import neighbours as neighbours
    from seqloom.inspect.vectors import word_map as word_map

_PUBLIC = {
    "alignment": "translations",
    "analogies": "vectors",
    "anomalies": "series",
    "comparison": "results",
    "description": "results",
    "errors": "results",
    "explanation": "explanations",
    "exposure_bias": "exposure",
    "forecast": "series",
    "leaning": "vectors",
    "neighbours": "vectors",
    "portrait": "costs",
    "quality_by_length": "translations",
    "robustness": "results",
    "states": "hidden",
    "surprise": "costs",
    "trace": "tracing",
    "training_curves": "runs",
    "word_map": "vectors",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'seqloom.inspect' has no attribute {name!r}")
    return getattr(import_module(f"seqloom.inspect.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
