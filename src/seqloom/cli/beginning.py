"""Until the command line listens itself (`cli/interruptions`), a signal ends the process without a
trace. This is imported first and imports little: what is loaded after it takes a while.
"""

import _signal as signal  # what `signal` is made of, without its enumerations
import os


def _end(number: int, frame: object) -> None:
    os.write(2, b"interrupted before it started\n")
    os._exit(128 + number)


for _number in (signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(_number) in (signal.SIG_DFL, signal.default_int_handler):  # not under nohup
        signal.signal(_number, _end)
