"""Work that threads share, however small it is."""

import os
import time
from contextlib import contextmanager

from seqloom.kernels.parallel import HELPED, TEAM, THREADS, WORTH, call_helpers

PATIENCE = 300  # seconds after which a test has failed, however busy the machine is


@contextmanager
def shared_by(threads):
    """Kernels share whatever has parts, between so many threads."""
    worth, before = int(TEAM[WORTH]), os.environ.get("SEQLOOM_THREADS")
    TEAM[WORTH], os.environ["SEQLOOM_THREADS"] = 1, str(threads)
    try:
        call_helpers()
        yield
    finally:
        TEAM[WORTH], TEAM[THREADS] = worth, 0  # asked anew by whoever needs them
        del os.environ["SEQLOOM_THREADS"]
        if before is not None:
            os.environ["SEQLOOM_THREADS"] = before


def helped(work):
    """What the work gives in each of its turns, until a helper has taken part."""
    before, deadline = int(TEAM[HELPED]), time.monotonic() + PATIENCE
    while TEAM[HELPED] == before:
        assert time.monotonic() < deadline, "no helper came"
        call_helpers()
        yield work()
