"""The fields of a request: read, checked, and refused with the name of the field.

null means absent, unknown fields are ignored, and a known one is never ignored: it is obeyed or refused.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, NoReturn, TypeVar

from seqloom.config import Config
from seqloom.errors import ConfigError, quoted

C = TypeVar("C", bound=Config)
DEEPEST = 32  # brackets within brackets of a body


class Refused(Exception):
    """A request that is answered with an error, in the shape that OpenAI's clients parse."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        field: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.field, self.code = message, status, field, code
        self.headers = headers or {}

    @classmethod
    def busy(cls, message: str) -> Refused:
        """Return how a request is refused that may be tried again."""
        headers = {"retry-after": "1"}
        return cls(message, status=429, code="rate_limit_exceeded", headers=headers)

    def body(self) -> dict[str, Any]:
        """Return the error as clients expect it."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self.message, "type": kind, "param": self.field, "code": self.code}
        return {"error": error}


def parse(body: bytes) -> Fields:
    """Read the body of a request, which must be an object of JSON."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(f"the body is not UTF-8: byte {error.start} is wrong") from None
    try:
        values = json.loads(text, parse_constant=_refuse_constant)
        deep = isinstance(values, (dict, list)) and _is_deep(values)
    except RecursionError:
        deep = True
    except ValueError as error:
        raise Refused(f"the body is not JSON: {str(error)[:200]}") from None
    if deep:
        raise Refused(f"the body is nested more than {DEEPEST} deep")
    if "\\ud" in text or "\\uD" in text:  # the only way to write a lone surrogate
        values = _without_surrogates(values)
    if not isinstance(values, dict):
        raise Refused(f"the body must be an object; got {quoted(values)}")
    return Fields({key: value for key, value in values.items() if value is not None})


def _is_deep(value: Any) -> bool:
    """Return whether lists and objects are nested too deeply."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (list, dict))
        ]
        if not level:
            return False
    return True


def _without_surrogates(value: Any) -> Any:
    """Return a value in which texts can be written as UTF-8."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list):
        return [_without_surrogates(one) for one in value]
    if isinstance(value, dict):
        return {whole(key): _without_surrogates(one) for key, one in value.items()}
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def whole(text: str) -> str:
    """Return a text in which lone surrogates, which JSON can write, are U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Fields:
    """The fields of a request, by name."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def raw(self, name: str, default: Any = None) -> Any:
        """Return a value as it was sent."""
        return self.values.get(name, default)

    def refuse(self, name: str, wanted: str) -> NoReturn:
        """Say what a field must be."""
        raise Refused(f"{name} must be {wanted}; got {quoted(self.values[name])}", field=name)

    def flag(self, name: str) -> bool:
        """Return a truth value; absent is false."""
        value = self.values.get(name, False)
        if not isinstance(value, bool):
            self.refuse(name, "true or false")
        return value

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return a text."""
        value = self.values.get(name, default)
        if value is not None and not isinstance(value, str):
            self.refuse(name, "a text")
        return None if value is None else whole(value)

    def integer(self, name: str, default: int | None, low: int, high: int) -> int | None:
        """Return a whole number."""
        value = self.values.get(name, default)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.refuse(name, f"a whole number from {low:,} to {high:,}")
        return value

    def texts(self, name: str, most: int) -> list[str]:
        """Return one text or a list of them, as a list."""
        value = self.values.get(name, [])
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.refuse(name, "a text or a list of texts")
        self.check_count(name, len(value), most)
        return [whole(one) for one in value]

    def check_count(self, name: str, count: int, most: int) -> None:
        """Refuse more than the server allows."""
        if count > most:
            raise Refused(
                f"{name} has {count:,} entries; this server takes at most {most:,} in a request",
                field=name,
            )

    def refuse_unsupported(self, allowed: dict[str, Collection[Any]]) -> None:
        """Refuse fields that ask for what is not done here; the values listed ask for nothing."""
        for name, values in allowed.items():
            if name in self.values and self.values[name] not in values:
                raise Refused(f"{name} is not supported here; leave it out", field=name)

    def config(self, cls: type[C], names: Collection[str], **given: Any) -> C:
        """Make the options of that class from the fields of these names."""
        values = {name: self.values[name] for name in names if name in self.values}
        try:
            return cls(**values | given)
        except ConfigError as error:
            field = next((name for name in error.options if name in values), None)
            raise Refused(str(error), field=field) from None
