"""A file of translations that is written line by line and can be continued after an interruption.

While it is incomplete it has the ending `.part` and, beside it, a small `.part.json` that says what it is made of, so that it
is never continued with another model, other options or another text. Lines are written as soon as they are known; whatever
ends the process, the complete lines stay, and half a line at the end is written again. The finished file takes its name at the
end.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom import progress
from seqloom.describing import differences
from seqloom.errors import ConfigError, DataError
from seqloom.locks import locked

if TYPE_CHECKING:
    from seqloom.cli.translate import Job

HASHED = ("model", "text")  # what is recorded by its contents


def write_resumable(
    target: str,
    sources: Iterator[Any],
    n_bytes: int | None,
    job: Job,
    facts: dict[str, Any],
    resume: bool,
) -> None:
    """Translate all sources, of so many bytes, into the file; `facts`: what a continued file must have in common with its
    beginning."""
    path = Path(target)
    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(
            f"{target} is a directory; name a file"
            if path.is_dir()
            else f"{path.parent} is no directory; make it, or name another file"
        )
    part, record = (path.with_name(path.name + end) for end in (".part", ".part.json"))
    with locked(
        path.with_name(f".{path.name}.lock"),
        lambda who: f"{target} is being written by {who}; wait for it",
    ):
        done, size = _begin(part, record, facts, resume)
        if done:
            progress.say(f"continuing {target} after line {done:,}")
            _skip(sources, done, target)
        count = done
        try:
            with part.open("r+b") as file:
                file.truncate(size)
                file.seek(size)
                for count, source, best in job.answers(sources, n_bytes, done=done):
                    file.write(
                        "".join(f"{line}\n" for line in job.lines(count, source, best)).encode(
                            "utf-8", "replace"
                        )
                    )
                    file.flush()
        except KeyboardInterrupt as error:
            raise type(error)(
                f"interrupted; {count:,} lines are in {part}; run the same command with --resume to "
                "continue"
            ) from None
        os.replace(part, path)
        record.unlink(missing_ok=True)
    progress.say(f"{target}: {count:,} lines")


def _begin(part: Path, record: Path, facts: dict[str, Any], resume: bool) -> tuple[int, int]:
    """How many sources are done, and the bytes that they take; the files are there afterwards."""
    if part.exists() and record.exists():
        if not resume:
            raise ConfigError(
                f"{part} is an unfinished translation; continue it with --resume, or delete it to begin anew"
            )
        _check_same(part, record, facts)
        return _complete(part.read_bytes(), numbered=bool(facts["nbest"]) and not facts["json"])
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
            f"{part} was begun with {' and '.join(other)}; give the same as before, or delete it to begin anew"
        )


def _complete(data: bytes, *, numbered: bool) -> tuple[int, int]:
    """Sources whose lines are all there, and the bytes of these lines. Of the n best of the last one some may be missing.

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


def contents(*names: str) -> list[str]:
    """What is in each of these files or directories, as a hash; of others, such as standard input, the name."""
    found = []
    for name in names:
        whole, path = hashlib.sha256(), Path(name)
        files = (
            [path]
            if path.is_file()
            else sorted(one for one in path.rglob("*") if one.is_file())
            if path.is_dir()
            else []
        )
        for one in files:
            with one.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        found.append(whole.hexdigest()[:16] if files else name)
    return found


def _skip(sources: Iterator[Any], done: int, target: str) -> None:
    there = sum(1 for _ in itertools.islice(sources, done))
    if there < done:
        raise DataError(
            f"the text has {there:,} lines, but {done:,} of {target} are translated already: it is another text"
        )
