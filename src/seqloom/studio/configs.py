"""Options of `seqloom studio`."""

from __future__ import annotations

from dataclasses import dataclass

from seqloom.config import MAX_INTEGER, option
from seqloom.errors import ConfigError
from seqloom.serving.configs import ServeConfig

USUAL = 8642  # the port of the command, where it is free


@dataclass(frozen=True, kw_only=True)
class StudioConfig(ServeConfig):
    """Where the page is, whether it is opened, and what its server allows."""

    port: int = option(
        0, f"Port to listen on; 0: {USUAL} if it is free, else another.", minimum=0, maximum=65535
    )
    max_body: int = option(
        32_000_000, "Most bytes of a request.", minimum=1000, maximum=MAX_INTEGER
    )
    access_log: bool = option(False, "A line of JSON for each request, on standard error.")
    browser: bool = option(True, "Open the page in a browser.")
    train: bool = option(
        True, "Train a small set of models on the bundled text where there are none."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.key is not None:
            raise ConfigError(
                "the page takes no key; leave key out here, or serve models to others with `seqloom serve`",
                ["key"],
            )
