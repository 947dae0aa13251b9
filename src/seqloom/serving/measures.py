"""What the server counts, as Prometheus reads it (`GET /metrics`)."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator

SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # bounds of histograms

HELP = {
    "seqloom_requests_total": "Requests that were answered.",
    "seqloom_request_seconds": "Time from a request to the end of its answer.",
    "seqloom_first_token_seconds": "Time from a request to the first token of its answer.",
    "seqloom_prompt_tokens_total": "Tokens of prompts.",
    "seqloom_generated_tokens_total": "Tokens of answers.",
    "seqloom_in_flight_requests": "Requests that are being answered.",
    "seqloom_waiting_rows": "Texts that wait for a language model.",
    "seqloom_running_rows": "Texts that a language model reads or writes now.",
    "seqloom_draining": "1 once the server takes no more requests.",
}
Labels = tuple[tuple[str, str], ...]


class Measures:
    """Counters and histograms by name and labels."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, Labels], float] = defaultdict(float)
        self._buckets: dict[tuple[str, Labels], list[float]] = {}

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            self._counts[name, tuple(labels.items())] += amount

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Put a duration into a histogram: a count for each bound, for all, and the sum."""
        with self._lock:
            buckets = self._buckets.setdefault(
                (name, tuple(labels.items())), [0.0] * (len(SECONDS) + 2)
            )
            for at, bound in enumerate(SECONDS):
                buckets[at] += seconds <= bound
            buckets[-2] += 1
            buckets[-1] += seconds

    def render(self, gauges: list[tuple[str, dict[str, str], float]]) -> str:
        """Return all of it, and values of this moment, in Prometheus' text format."""
        return "\n".join(self._lines(gauges)) + "\n"

    def _lines(self, gauges: list[tuple[str, dict[str, str], float]]) -> Iterator[str]:
        with self._lock:
            counts = sorted(self._counts.items())
            histograms = sorted((key, list(values)) for key, values in self._buckets.items())
        described: set[str] = set()

        def describe(name: str, kind: str) -> Iterator[str]:
            if name not in described:
                described.add(name)
                yield f"# HELP {name} {HELP[name]}"
                yield f"# TYPE {name} {kind}"

        for (name, labels), value in counts:
            yield from describe(name, "counter")
            yield f"{name}{_shown(labels)} {value:.15g}"
        for (name, labels), values in histograms:
            yield from describe(name, "histogram")
            for bound, count in zip([*map(str, SECONDS), "+Inf"], values):
                yield f"{name}_bucket{_shown((*labels, ('le', bound)))} {count:.15g}"
            yield f"{name}_sum{_shown(labels)} {values[-1]:.6f}"
            yield f"{name}_count{_shown(labels)} {values[-2]:.15g}"
        for name, named, value in gauges:
            yield from describe(name, "gauge")
            yield f"{name}{_shown(tuple(named.items()))} {value:.15g}"


def _shown(labels: Labels) -> str:
    if not labels:
        return ""
    escaped = (
        (key, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for key, value in labels
    )
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped) + "}"
