"""The attack by options knows every command."""

from .options import BASES, commands


def test_every_command_is_attacked():
    assert {words[-1] for words, _ in commands() if words[0] != "fit"} == BASES.keys()
