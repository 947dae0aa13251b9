"""`python -m seqloom` is the command `seqloom`."""

from seqloom.cli.__main__ import run

if __name__ == "__main__":
    run()
