"""`python -m seqloom.cli`."""

from seqloom.cli.main import run

run()
