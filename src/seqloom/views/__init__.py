"""Pictures of models, text and results. Each function returns a `Sheet`: its numbers, its charts,
and `save("x.png")`.

    >>> import seqloom
    >>> model = seqloom.HMM(states=2, iterations=5).fit("the cat sat\\nthe dog sat\\n")
    >>> list(seqloom.inspect.states(model, "the dog").charts)[0]
    'Belief about the state, token by token'

Users know it as `seqloom.inspect`. Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqloom.views.catalogue import VIEWS

if TYPE_CHECKING:
    from seqloom.comparison.pictures import comparison as comparison
    from seqloom.views.classification import explanation as explanation
    from seqloom.views.forecasting import anomalies as anomalies
    from seqloom.views.forecasting import forecast as forecast
    from seqloom.views.hidden import states as states
    from seqloom.views.language import portrait as portrait
    from seqloom.views.language import surprise as surprise
    from seqloom.views.results import description as description
    from seqloom.views.results import errors as errors
    from seqloom.views.results import robustness as robustness
    from seqloom.views.tracing import trace as trace
    from seqloom.views.training_logs import training_curves as training_curves
    from seqloom.views.translation import alignment as alignment
    from seqloom.views.translation import exposure_bias as exposure_bias
    from seqloom.views.translation import quality_by_length as quality_by_length
    from seqloom.views.word_vectors import analogies as analogies
    from seqloom.views.word_vectors import leaning as leaning
    from seqloom.views.word_vectors import neighbours as neighbours
    from seqloom.views.word_vectors import word_map as word_map

_MODULES = {
    "comparison.pictures": "comparison",
    "views.forecasting": "anomalies forecast",
    "views.hidden": "states",
    "views.language": "portrait surprise",
    "views.results": "description errors robustness",
    "views.tracing": "trace",
    "views.training_logs": "training_curves",
    "views.translation": "alignment exposure_bias quality_by_length",
    "views.word_vectors": "analogies leaning neighbours word_map",
}
_PUBLIC = {
    name: f"seqloom.{module}" for module, names in _MODULES.items() for name in names.split()
}
_PUBLIC |= {name.replace("-", "_"): f"seqloom.views.{view.module}" for name, view in VIEWS.items()}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'seqloom.inspect' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return __all__
