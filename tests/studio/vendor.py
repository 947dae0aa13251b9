"""Fetch what the page vendors and compare it with the lock: `python -m tests.studio.vendor`; with `--write`
the files are written. A new version is a change of LOCK.json: its version and integrity (as npm shows them).
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from seqloom.studio.page import STATIC

VENDOR = STATIC / "vendor"


def fetched(name: str, version: str, integrity: str, folder: Path) -> Path:
    """Return the tarball of a package, which must be the one of the lock."""
    done = subprocess.run(
        ["npm", "pack", "--silent", f"{name}@{version}"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    path = folder / done.stdout.strip().splitlines()[-1]
    found = "sha512-" + base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    if found != integrity:
        raise SystemExit(f"{name} {version} has the integrity {found}, the lock {integrity}")
    return path


def main() -> None:
    """Fetch all, compare, and write if asked."""
    lock = json.loads((VENDOR / "LOCK.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        for one in lock:
            path = fetched(one["name"], one["version"], one["integrity"], Path(folder))
            with tarfile.open(path) as packed:
                data = packed.extractfile(one["path"]).read()
            found = hashlib.sha256(data).hexdigest()
            if "--write" in sys.argv:
                (VENDOR / one["file"]).write_bytes(data)
                one["sha256"] = found
            elif found != one["sha256"]:
                raise SystemExit(f"{one['file']}: sha256 {found}, the lock has {one['sha256']}")
            print(f"{one['file']}: {one['name']} {one['version']}, {len(data):,} bytes")
    if "--write" in sys.argv:
        (VENDOR / "LOCK.json").write_text(json.dumps(lock, indent=1) + "\n")


if __name__ == "__main__":
    main()
