"""`seqloom` and `python -m seqloom.cli`. Until the command line listens itself, a signal ends the process without a trace."""

import os
import signal
from types import FrameType


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted before anything was begun\n")
    os._exit(128 + number)


for _number in (signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(_number) in (signal.SIG_DFL, signal.default_int_handler):  # not under nohup
        signal.signal(_number, _end)

from seqloom.cli.main import run  # noqa: E402  (loading it takes a while, in which a signal may come)

if __name__ == "__main__":
    run()
