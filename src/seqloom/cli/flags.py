"""Messages of the library name arguments; on the command line they name its flags."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import click


def flags_of(command: click.Command) -> dict[str, str]:
    """Return the flags of a command by the names of their options."""
    return {
        p.name: max(p.opts, key=len)
        for p in command.params
        if p.name and isinstance(p, click.Option)
    }


_ARGUMENT = re.compile(  # not in a call, LSTM(order=3)
    r"\b(?!(?<=\()\w+=\d)([a-z]\w*)=(\.\.\.|'[^']*'|True\b|False\b|\d[\d.]*\b)"
)
_OTHERWISE = {  # what the command line says otherwise, once flags are named
    "or call predict$": "or leave --stream out",
    r"(?<=fit a model with )(\w+)='(\w+)'": r"--\1 \2",  # flags of other commands
    "(?<=again without )bits$": "--bits",
    "(with|for) (--[^ ]+) on(?=[;,])": r"\1 \2",  # switches take no value
    "with (--[^ ]+) off(?=[;,])": r"without \1",
    "for (--[^ ]+) off(?=[;,])": r"for use without \1",
}


def in_flags(message: str, flags: Mapping[str, str], options: Collection[str] = ()) -> str:
    """Name flags where the library names arguments: `valid=...`, `form='tsv'`, words such as min_count,
    and `options`, which the message is known to name. What is no flag of the command stays.

    >>> in_flags("give valid=... or crf=False", {"valid": "--valid", "crf": "--crf"})
    'give --valid or --no-crf'
    >>> in_flags("steps=20 repeats it", {"steps": "--steps"})
    '--steps 20 repeats it'
    >>> in_flags("at must be at least 0", {"at": "--at"}, ["at"])
    '--at must be at least 0'
    """

    def argument(match: re.Match[str]) -> str:
        flag, value = flags.get(match[1]), match[2]
        if flag is None:
            return match[0]
        if value == "False":
            return f"--no-{flag[2:]}"
        return flag if value in ("...", "True") else f"{flag} {value.strip(chr(39))}"

    message = _ARGUMENT.sub(argument, message)
    if names := "|".join(name for name in flags if name in options or "_" in name):
        message = re.sub(
            rf"(?<![\w./'\"=-])({names})(?![\w/'\"(=-]|\.\w| (?:least|most)\b)",
            lambda match: flags[match[1]],
            message,
        )
    if "restart" in flags:  # of an unfinished run
        message = re.sub(r"remove \S+ to start over", "give --restart to start over", message)
    for change in _OTHERWISE.items():
        message = re.sub(*change, message)
    return message
