"""A finding of `seqloom advise`, and how its numbers are written."""

from __future__ import annotations

from typing import Any, NamedTuple


class Finding(NamedTuple):
    """What was found, the figures behind it, and one thing to try."""

    says: str  # a sentence without its stop
    figures: dict[str, Any]
    advice: str  # what to try, as options of `seqloom fit` or a command
    options: dict[str, Any] = {}  # noqa: RUF012 - read only; the same for Python
    rule: str = ""


def arguments(**options: Any) -> str:
    """Write options as arguments, which the command line turns into flags.

    >>> arguments(epochs=1.3, clip="norm")
    'epochs=1.3, clip=norm'
    """
    return ", ".join(f"{name}={value}" for name, value in options.items())


def to_try(says: str, figures: dict[str, Any], advice: str, **options: Any) -> Finding:
    """Make a finding whose advice names options of fitting: `{}` in it."""
    return Finding(says, figures, advice.format(arguments(**options)), options)


def short(value: float) -> float | int:
    """Round to two or three digits, as one would say it.

    >>> short(1.2847), short(0.00123456), short(1234.5), short(3.0)
    (1.28, 0.00123, 1230, 3)
    """
    rounded = float(f"{value:.3g}")
    return int(rounded) if rounded == int(rounded) else rounded


def percent(share: float) -> str:
    """Write a share, with a digit more where it is small.

    >>> percent(0.412), percent(0.0041), percent(1.25)
    ('41 %', '0.4 %', '125 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.095 or share == 0 else f"{100 * share:.1f} %"
