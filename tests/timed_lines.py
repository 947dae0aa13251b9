"""What a command says only because time has passed: how far it is, and that it compiles. No test
depends on it.
"""

import re

from seqloom.kernels.compiling import MESSAGE

SHARE = r"(?:\d+%|[\d,]+ \w+)(?:[,;] .*)?"  # of `Pace.share`, then rate, time left and remarks
TIMED = re.compile(rf"^(?:{re.escape(MESSAGE)}|[^:\n]+: {SHARE})\n", re.MULTILINE)


def without_timed_lines(err: str) -> str:
    """Return stderr as it is where everything is quick and compiled."""
    return TIMED.sub("", err)
