"""A result and the signature that says how to get it again.

The signature is one line, as in sacrebleu (Post 2018, "A Call for Clarity in Reporting BLEU Scores"), so
that it can stand under a table: two numbers may be compared where their signatures differ in the model
and its tokenizer only.

How long an answer takes: one example at a time, as a user waits for it, and many together, as a
file is worked through.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, KeysView, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seqloom import progress
from seqloom._version import __version__
from seqloom.errors import suggest_known
from seqloom.frames import as_frame, flat_row, html_table

Value = float | int | str | bool | None | tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Signature:
    """Everything that a number depends on; what is None does not apply and is left out of the line.

    >>> print(Signature(model="uniform", tokenizer="byte", data="ab12cd34", unit="stream",
    ...                 carry=True, version="1.0"))
    model:uniform|tok:byte|data:ab12cd34|unit:stream|carry:yes|version:1.0
    """

    model: str
    tokenizer: str | None = None
    data: str | None = None  # short_hash of the bytes that were scored
    split: str | None = None
    unit: str | None = None  # line, document or stream
    carry: bool | None = None  # whether state crosses units
    context: int | None = None  # how many tokens the model sees at most
    seed: int | None = None
    version: str = __version__
    extras: Mapping[str, Value] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, extras among the others, leaving out None."""
        names = (
            "model",
            "tokenizer",
            "data",
            "split",
            "unit",
            "carry",
            "context",
            "seed",
            "version",
        )
        clash = set(names) & set(self.extras)
        if clash:
            raise ValueError(f"extras repeat fields of the signature: {', '.join(sorted(clash))}")
        every = {name: getattr(self, name) for name in names} | dict(self.extras)
        return {name: plain(value) for name, value in every.items() if value is not None}

    def __str__(self) -> str:
        parts = {
            "tok" if name == "tokenizer" else name: _word(value)
            for name, value in self.to_dict().items()
        }
        return "|".join(f"{name}:{word}" for name, word in parts.items())


@dataclass(frozen=True)
class Result:
    """What `evaluate` returns: numbers by name, how they came about, and remarks for the reader.

    >>> result = Result({"perplexity": 8.0, "tokens": 1200}, Signature(model="uniform", version="1.0"))
    >>> result["perplexity"]
    8.0
    >>> print(result)
    perplexity  8.0000
    tokens       1,200
    signature   model:uniform|version:1.0
    """

    metrics: Mapping[str, Value]
    signature: Signature
    notes: tuple[str, ...] = ()
    # Tables behind the numbers, such as a confusion matrix.
    details: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Value:
        if name not in self.metrics:
            raise KeyError(f"unknown metric {name!r}{suggest_known(name, self.metrics)}")
        return self.metrics[name]

    def __contains__(self, name: object) -> bool:
        return name in self.metrics

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    def __bool__(self) -> bool:
        return True  # a result without metrics is one, too

    def keys(self) -> KeysView[str]:
        """Return the names of the metrics, so that `dict(result)` is a dictionary of them."""
        return self.metrics.keys()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, which has no infinity: that becomes the text "inf"."""
        values = {
            "metrics": plain(self.metrics),
            "signature": self.signature.to_dict(),
            "notes": list(self.notes),
        }
        return values | ({"details": plain(self.details)} if self.details else {})

    def __str__(self) -> str:
        shown = {name: _show(value) for name, value in self.metrics.items()}
        left = max(len(name) for name in (*shown, "signature"))
        right = max((len(text) for text in shown.values()), default=0)
        lines = [f"{name:<{left}}  {text:>{right}}" for name, text in shown.items()]
        lines.append(f"{'signature':<{left}}  {self.signature}")
        return "\n".join(lines + [f"{'note':<{left}}  {note}" for note in self.notes])

    __repr__ = __str__

    def to_frame(self) -> Any:
        """Return one row, to be joined with those of other results: the model, then each metric; an
        interval takes two columns. A frame of pandas or polars where one is installed.
        """
        return as_frame([flat_row({"model": self.signature.model, **self.metrics})])

    def _repr_html_(self) -> str:
        rows = [(name, _show(value)) for name, value in self.metrics.items()]
        return html_table((), rows, after=[str(self.signature), *self.notes])


def short_hash(data: bytes) -> str:
    """Return eight hexadecimal digits that name a text in a signature.

    >>> short_hash(b"to be or not to be")
    '2e9d72a7'
    """
    return hashlib.sha256(data).hexdigest()[:8]


def plain(value: Any) -> Any:
    """Convert a value to types that JSON has; infinity and NaN, which it does not have, become
    text.

    >>> plain({"interval": (1.5, math.inf), "p": math.nan})
    {'interval': [1.5, 'inf'], 'p': 'nan'}
    """
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # a NumPy array or scalar
        return plain(value.tolist()) if getattr(value, "ndim", 0) else plain(value.item())
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _word(value: Any) -> str:
    """Return one value as text inside the line, without a bar, which would end it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(_word(item) for item in value)
    return str(value).replace("|", "/").replace("\n", " ")


def _show(value: Any) -> str:
    """Return one value as text in the table, for people."""
    if isinstance(value, (list, tuple)):
        return " to ".join(_show(item) for item in value)
    if value is None:
        return "-"
    if isinstance(value, (bool, str)):
        return _word(value)
    value = value.item() if hasattr(value, "item") else value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"


# ---- latency

MAX_EXAMPLES = 1000  # examples that are asked about alone
BATCH = 20_000  # and together
MAX_SECONDS = 5.0  # seconds, after which no further ones are asked about
MIN_EXAMPLES = 20  # of them all the same
WARM_UP = 3  # calls that are not counted: kernels are loaded, caches filled


def latency(predict: Callable[[Any], Any], examples: list[Any]) -> dict[str, float]:
    """Measure the milliseconds per example, as median and 95th percentile, and the examples per
    second of a list.

    >>> sorted(latency(len, ["a text", "another"]))
    ['examples_per_second', 'latency_p50_ms', 'latency_p95_ms']
    """
    chosen = [
        examples[i]
        for i in np.linspace(0, len(examples) - 1, min(MAX_EXAMPLES, len(examples)))
        .astype(int)
        .tolist()
    ]
    batch = examples[:BATCH]
    with progress.reporting(None):
        for example in (chosen * WARM_UP)[:WARM_UP]:
            predict(example)
        began, spent = time.perf_counter(), []
        for example in chosen:
            start = time.perf_counter()
            predict(example)
            spent.append(time.perf_counter() - start)
            if time.perf_counter() - began > MAX_SECONDS and len(spent) >= MIN_EXAMPLES:
                break
        predict(batch[:MIN_EXAMPLES])
        start = time.perf_counter()
        predict(batch)
        seconds = time.perf_counter() - start
    half, most = (float(np.quantile(spent, share, method="inverted_cdf")) for share in (0.5, 0.95))
    return {
        "latency_p50_ms": 1000 * half,
        "latency_p95_ms": 1000 * most,
        "examples_per_second": len(batch) / seconds,
    }
