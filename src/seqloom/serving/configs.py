"""Options of `seqloom serve`."""

from __future__ import annotations

from dataclasses import dataclass

from seqloom.config import MAX_INTEGER, Config, option
from seqloom.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ServeConfig(Config):
    """Where the server listens, and what it allows."""

    host: str = option("127.0.0.1", "Address to listen on; 0.0.0.0: on all of the machine's.")
    port: int = option(8000, "Port to listen on; 0: a free one.", minimum=0, maximum=65535)
    key: str | None = option(
        None, "Answer only requests with this key (also $SEQLOOM_KEY).", metavar="KEY"
    )
    allow_host: tuple[str, ...] = option(
        (),
        "Answer requests to this name, such as models.example.org; may be repeated  [default: on a "
        "loopback address its own names, else all].",
        metavar="NAME",
        repeated=True,
    )
    allow_origin: tuple[str, ...] = option(
        (),
        "Let pages from this origin, such as http://localhost:3000, ask (CORS), *: from all; may be "
        "repeated.",
        metavar="ORIGIN",
        repeated=True,
    )
    rows: int = option(32, "Texts that a language model writes together.", minimum=1, maximum=4096)
    queue: int = option(
        256,
        "Texts that may wait for a language model; more are refused (429).",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    max_tokens: int = option(8192, "Most tokens of an answer.", minimum=1, maximum=MAX_INTEGER)
    max_prompt: int = option(
        100_000,
        "Most tokens of a prompt, of models whose context has no limit of its own.",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    max_texts: int = option(
        1024,
        "Most texts of a request: inputs, prompts, or choices (n).",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    max_body: int = option(4_000_000, "Most bytes of a request.", minimum=1000, maximum=MAX_INTEGER)
    max_connections: int = option(
        1000, "Most connections at a time; further ones are closed.", minimum=1, maximum=MAX_INTEGER
    )
    timeout: float = option(600.0, "Seconds that an answer may take.", minimum=0.1, maximum=1e6)
    request_timeout: float = option(
        20.0, "Seconds within which a client must have sent its request.", minimum=0.1, maximum=1e6
    )
    drain: float = option(
        20.0, "Seconds that running requests have to end after SIGTERM.", minimum=0.0, maximum=1e6
    )
    log: str | None = option(
        None,
        "Append each request with its texts to this file, a line of JSON each, for `seqloom drift`.",
        metavar="FILE",
    )
    access_log: bool = option(True, "A line of JSON for each request, on standard error.")

    def __post_init__(self) -> None:
        super().__post_init__()
        # an empty one, as of a variable that is not set, would let everybody in
        if self.key is not None and not (self.key and all("!" <= one <= "~" for one in self.key)):
            raise ConfigError(
                "key must be letters, digits and signs of ASCII without spaces, at least one; leave "
                "it out to answer requests without a key",
                ["key"],
            )
