"""What reading data says to its user."""

import pytest

from seqloom import progress


class Listener:
    def __init__(self):
        self.said: list[str] = []

    def begin(self, label, total, unit):
        return self

    def advance(self, amount=1):
        pass

    def end(self, task):
        pass

    def say(self, message):
        self.said.append(message)


@pytest.fixture
def said():
    listener = Listener()
    with progress.reporting(listener):
        yield listener.said
