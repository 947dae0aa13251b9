"""What `--cluster` names: a number of processes here, or the checked address of a Dask scheduler."""

from __future__ import annotations

import ipaddress
import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.errors import ConfigError, SeqloomError

REACHED = 3.0  # seconds in which a scheduler must answer
MOST_PROCESSES = 256
SECURE = ("tls", "wss")


class ClusterError(SeqloomError):
    """There is no cluster at the address, or it cannot be used."""


class Place(NamedTuple):
    """Where the workers are."""

    processes: int | None = None  # on this machine; None: those of the scheduler at `address`
    address: str = ""

    @classmethod
    def named(cls, where: str) -> Place:
        """Read what `--cluster` names: a number of processes, an address, or Dask's scheduler file."""
        if where.isascii() and where.isdigit():
            if not 1 <= int(where[:9]) <= MOST_PROCESSES:
                raise ConfigError(
                    f"cluster {where[:20]}: from 1 to {MOST_PROCESSES} local processes, or the address of "
                    "a Dask scheduler"
                )
            return cls(int(where))
        if where.endswith(".json"):
            try:
                where = str(json.loads(Path(where).read_text("utf-8"))["address"])
            except (OSError, ValueError, KeyError, TypeError):
                raise ConfigError(
                    f"cluster {where}: not a scheduler file of Dask; name one that `dask "
                    "scheduler` wrote"
                ) from None
        return cls(None, checked_address(where))


def checked_address(address: str) -> str:
    """Return the address of a scheduler; refuse one without TLS that is not on this machine.

    >>> checked_address("127.0.0.1:8786"), checked_address("tls://head:8786")
    ('tcp://127.0.0.1:8786', 'tls://head:8786')
    """
    scheme, mark, rest = address.partition("://")
    scheme, rest = (scheme, rest) if mark else ("tcp", address)
    host, _, port = rest.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16):
        raise ConfigError(
            f"cluster {address}: expected a number of local processes, an address such as "
            "tls://head:8786, or a scheduler file (.json)"
        )
    if scheme not in SECURE and not (scheme in ("tcp", "ws") and _is_local(host.strip("[]"))):
        raise ConfigError(
            f"cluster {address}: Dask unpickles what it is sent, so another machine is reached over TLS "
            f"only: tls://{rest}, with the certificates in Dask's configuration (distributed.comm.tls)"
        )
    return f"{scheme}://{rest}"


def _is_local(host: str) -> bool:
    """Return whether this names the machine itself, whatever a name server says."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def security_of(address: str) -> Any:
    from distributed.security import Security

    if address.partition("://")[0] not in SECURE:
        return None
    security = Security(require_encryption=True)
    if not getattr(security, "tls_ca_file", None):
        raise ConfigError(
            f"cluster {address}: Dask's configuration has no certificates; set "
            "distributed.comm.tls.ca-file and those of the client"
        )
    return security


def check_reached(address: str) -> None:
    """Refuse an address where nobody listens, in one line and at once."""
    host, _, port = address.partition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACHED).close()
    except OSError as error:
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise ClusterError(
            f"there is no cluster at {address} ({why}); start one (dask scheduler, dask worker), or name a "
            "number of local processes"
        ) from None
