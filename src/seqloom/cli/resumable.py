"""Files of answers that can be continued after an interruption.

A file is written line by line. While it is incomplete it has the ending `.part` and, beside it, a small
`.part.json` that says what it is made of, so that it is never continued with another model, other options
or another text. Lines are written as soon as they are known; whatever ends the process, the complete lines
stay, and half a line at the end is written again. The finished file takes its name at the end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from seqloom import progress
from seqloom.describing import differences
from seqloom.directories import locked
from seqloom.errors import ConfigError, DataError
from seqloom.scale.work import contents

__all__ = ["contents", "write_resumable"]

HASHED = ("model", "text")  # what is recorded by its contents


def write_resumable(
    target: str,
    answers: Callable[[int], Iterator[str]],
    facts: dict[str, Any],
    resume: bool,
    *,
    inputs: Sequence[str] = (),
    numbered: bool = False,
    finish: Callable[[Path, Path], None] = os.replace,
) -> None:
    """Write all answers into the file.

    `answers` gives the lines of each source after those that are done; with `numbered` a source may have
    several, which begin with its number. `facts`: what a continued file must have in common with its
    beginning. `finish` makes the file of the complete one. `inputs`: files that it must not replace.
    """
    path = _checked(target, inputs)
    part, record = (path.with_name(path.name + end) for end in (".part", ".part.json"))
    with locked(
        path.with_name(f".{path.name}.lock"),
        lambda who: f"{target} is being written by {who}; wait for it",
    ):
        done, size = _begin(part, record, facts, resume, numbered)
        if done:
            progress.say(f"continuing {target} after line {done:,}")
        count = done
        try:
            with part.open("r+b") as file:
                file.truncate(size)
                file.seek(size)
                for lines in answers(done):
                    file.write(lines.encode("utf-8", "replace"))
                    file.flush()
                    count += 1
        except Exception:
            if not count:  # nothing to continue, and the next attempt may have other options
                part.unlink(missing_ok=True)
                record.unlink(missing_ok=True)
            raise
        except KeyboardInterrupt as error:
            raise type(error)(
                f"interrupted; {count:,} lines are in {part}; run the same command with --resume to "
                "continue"
            ) from None
        finish(part, path)
        part.unlink(missing_ok=True)
        record.unlink(missing_ok=True)
    progress.say(f"{target}: {count:,} {'line' if count == 1 else 'lines'}")


def _checked(target: str, inputs: Sequence[str]) -> Path:
    """Return the file to write, behind a link the file that it leads to; refuse what is none, and inputs."""
    path = Path(target)
    path = path.resolve() if path.is_symlink() else path
    if path.is_dir():
        raise ConfigError(f"{target} is a directory; name a file")
    if not path.parent.is_dir():
        raise ConfigError(f"{path.parent} is no directory; make it, or name another file")
    if target.startswith("/dev/") or (path.exists() and not path.is_file()):
        raise ConfigError(f"{target} is no regular file; leave it out and write > {target}")
    if path.resolve() in [Path(name).resolve() for name in inputs]:
        raise ConfigError(f"{target} is what is read; name another file for the answers")
    return path


def _begin(
    part: Path, record: Path, facts: dict[str, Any], resume: bool, numbered: bool
) -> tuple[int, int]:
    """Return how many sources are done, and the bytes that they take; ensure that the files exist."""
    if part.exists() and record.exists():
        if not resume:
            raise ConfigError(
                f"{part} is unfinished; continue it with --resume, or delete it to begin anew"
            )
        _check_same(part, record, facts)
        return _complete(part.read_bytes(), numbered=numbered)
    part.write_bytes(b"")
    temporary = record.with_name(f".{record.name}.new")
    temporary.write_text(json.dumps(facts, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, record)
    return 0, 0


def _check_same(part: Path, record: Path, facts: dict[str, Any]) -> None:
    try:
        before = dict(json.loads(record.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise DataError(
            f"{record} cannot be read, so {part} cannot be continued; delete both to begin anew"
        ) from None
    now = json.loads(json.dumps(facts))
    other = [f"another {name}" for name in HASHED if before.get(name) != now[name]]
    if options := differences(
        *({k: v for k, v in one.items() if k not in HASHED} for one in (before, now))
    ):
        other.append(f"other options ({'; '.join(options)})")
    if other:
        raise ConfigError(
            f"{part} was begun with {' and '.join(other)}; give the same as before, or delete it "
            f"to begin anew"
        )


def _complete(data: bytes, *, numbered: bool) -> tuple[int, int]:
    """Count the sources with all their lines written, and the bytes of these lines. Some of the n
    best of the last source may be missing.

    >>> _complete("eins\\nzwei\\ndr".encode(), numbered=False)
    (2, 10)
    >>> _complete(b"1\\t-0.1\\ta\\n1\\t-0.2\\tb\\n2\\t-0.1\\tc\\n2\\t-0", numbered=True)
    (1, 18)
    """
    lines = data.split(b"\n")[:-1]
    if numbered:
        numbers = [int(line.split(b"\t", 1)[0]) for line in lines]
        lines = lines[: numbers.index(numbers[-1])] if numbers else []
        done = numbers[len(lines)] - 1 if numbers else 0
    return done if numbered else len(lines), sum(len(line) + 1 for line in lines)
