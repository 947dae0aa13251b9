"""The process that renders a chat template: `python -P chat_worker.py`, JSON in, JSON out, without seqloom.

A template comes with a stranger's weights. Jinja's sandbox keeps it from reaching Python, but not from
using all time and memory (repeating a text by one long multiplication suffices), so it runs in a
separate process with little of both.
"""

import json
import sys
from datetime import datetime
from typing import Any

SECONDS, MEMORY = 2, 1 << 29  # CPU time; bytes of address space, most of it for Python and Jinja
# characters that a template may make of each of the messages', and add by itself
MOST_TIMES, MOST_ADDED = 4, 200_000


def limit() -> None:
    try:
        import resource
    except ImportError:  # Windows: the caller's time limit is all there is
        return
    for kind, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, MEMORY)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(
            kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
        )


class Refused(Exception):
    """The template itself refuses the conversation."""


def refuse(message: object) -> None:
    raise Refused(str(message))


def rendered(source: str, values: dict) -> str:
    """Apply a template as transformers does: the same environment, functions and filters."""
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %} marks the text that is trained on; here only its content is rendered."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: Any = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    parts, length = [], 0
    given = sum(len(message["content"]) for message in values["messages"])
    most = MOST_TIMES * given + MOST_ADDED
    for part in environment.from_string(source).generate(**values):
        length += len(part)
        if length > most:
            raise Refused(f"it makes more than {most:,} characters of {given:,}")
        parts.append(part)
    return "".join(parts)


def main() -> None:
    limit()
    task = json.loads(sys.stdin.buffer.read())
    try:
        answer = {"text": rendered(task["template"], task["values"])}
    except ModuleNotFoundError as error:
        answer = {"missing": str(error.name)}
    except MemoryError:
        answer = {"error": f"it needs more than {MEMORY >> 20} MiB of memory"}
    except RecursionError:
        answer = {"error": "it is nested too deeply"}
    except Exception as error:  # of whatever the template does
        answer = {"error": " ".join(str(error).split())[:300] or type(error).__name__}
    sys.stdout.buffer.write(json.dumps(answer).encode("ascii"))


if __name__ == "__main__":
    main()
