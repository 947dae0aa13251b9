"""A comparison in a process of its own, watched from the page: of a file that was dropped on it, or of a
small set of models on the bundled text where there are none.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from seqloom.comparison.kept import NAME
from seqloom.directories import cache_directory
from seqloom.serving.fields import Fields, Refused, whole
from seqloom.studio.shelf import Shelf, read_json
from seqloom.studio.starting import newest_comparison

RUNGS = ("uniform", "byte-3", "hmm", "bpe-3", "rnn", "lstm")  # of the small set, in a minute
MINUTES = 0.08  # of each network of the small set
MOST_FILES, MOST_BYTES = 2, 20_000_000  # of what is dropped
LEAST_MINUTES, MOST_MINUTES = 0.01, 60.0  # of each network
KEPT = 5  # files that were dropped, with their models
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Comparing:
    """`seqloom compare` in a process of its own; finished rungs come to the shelf."""

    def __init__(self, shelf: Shelf, title: str, arguments: list[str], folder: Path | None) -> None:
        """Begin. `folder` has the files that the arguments name and keeps the rungs; without one, the
        user's cache does.
        """
        self.shelf, self.title, self.folder = shelf, title, folder
        self.said, self.error, self.stopped, self.begun = "", "", False, time.time()
        # -P: a file that is dropped is data, whatever it is called
        command = [sys.executable, "-P", "-m", "seqloom", "compare", "--no-samples"]
        self.child = subprocess.Popen(
            [*command, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stderr is not None
        for line in self.child.stderr:
            if line := ESCAPES.sub("", line).strip():
                self.said = line
        if self.child.wait() != 0 and not self.stopped:
            self.error = self.said.removeprefix("seqloom: ") or "it ended with an error"

    @property
    def running(self) -> bool:
        """Return whether it goes on."""
        return self._reader.is_alive()

    def described(self) -> dict[str, Any]:
        """Return how far it is; look for models that have come."""
        running = self.running
        folder = self.folder or newest_comparison()
        if folder is not None and folder not in self.shelf.directories:
            self.shelf.directories.append(folder)
            self.shelf.titles[folder] = self.title
        self.shelf.scan()
        files = [] if folder is None else [folder / NAME, *folder.glob(f"*/{NAME}")]
        newest = max(
            (one for one in files if one.is_file() and one.stat().st_mtime > self.begun - 1),
            key=lambda one: one.stat().st_mtime,
            default=None,
        )
        kept = {} if newest is None else read_json(newest)
        return {
            "title": self.title,
            "running": running,
            "stopped": self.stopped,
            "done": len(kept.get("rungs", ())) + len(kept.get("skipped", ())),
            "of": len(kept.get("wanted", ())),
            "said": self.said if running else "",
            "error": self.error,
            "seconds": round(time.time() - self.begun),
        }

    def close(self) -> None:
        """End it; finished rungs stay."""
        self.stopped = self.stopped or self.running
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
        self._reader.join(10)


def small_set(shelf: Shelf, rungs: tuple[str, ...] = RUNGS) -> Comparing:
    """Begin to train a small set of models on the bundled text."""
    arguments = ["--rungs", ",".join(rungs), "--minutes", str(MINUTES)]
    return Comparing(shelf, "a small set on the bundled text", arguments, None)


def dropped(shelf: Shelf, asked: Fields) -> Comparing:
    """Begin a comparison of files that the page sends, `[{"name": ..., "content": ...}]`."""
    files = _files(asked)
    minutes = asked.raw("minutes", MINUTES)
    if not isinstance(minutes, (int, float)) or not LEAST_MINUTES <= minutes <= MOST_MINUTES:
        asked.refuse("minutes", f"a number from {LEAST_MINUTES} to {MOST_MINUTES:.0f}")
    arguments = ["--work", ".", "--minutes", str(minutes)]
    arguments += ["--curve"] if asked.flag("curve") else []
    folder = _folder(files)
    return Comparing(shelf, " and ".join(files), [*arguments, "--", *files], folder)


def _files(asked: Fields) -> dict[str, bytes]:
    """Return contents by name; names are made safe, endings stay."""
    value, wanted = asked.raw("files"), '[{"name": "x.tsv", "content": "..."}], one file or two'
    if not (isinstance(value, list) and 1 <= len(value) <= MOST_FILES):
        raise Refused(f"files must be {wanted}", field="files")
    files: dict[str, bytes] = {}
    for one in value:
        name, content = (
            (one.get("name"), one.get("content")) if isinstance(one, dict) else (None, None)
        )
        if not (isinstance(name, str) and isinstance(content, str)):
            raise Refused(f"files must be {wanted}", field="files")
        safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name.replace("\\", "/").rpartition("/")[2])
        safe = safe[-80:].lstrip("-.") or "data.txt"
        files[safe if safe not in files else f"second-{safe}"] = whole(content).encode()
    size = sum(map(len, files.values()))
    if size > MOST_BYTES:
        raise Refused(
            f"{size / 1e6:,.1f} MB are more than the {MOST_BYTES / 1e6:.0f} MB that the page takes; "
            f"`seqloom compare FILE` takes more",
            status=413,
            field="files",
        )
    return files


def _folder(files: dict[str, bytes]) -> Path:
    """Write files to a directory of their own below the cache; the same ones to the same, so that what
    was trained on them is not trained again.
    """
    stamp = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:8]
    root = cache_directory() / "studio"
    folder = root / f"{Path(next(iter(files))).stem}-{stamp}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        folder.touch()
        older = sorted(root.iterdir(), key=lambda one: -one.stat().st_mtime)[KEPT:]
    except OSError as error:
        raise Refused(
            f"{folder} cannot be written: {error.strerror or error}", status=503
        ) from None
    for one in older:
        shutil.rmtree(one, ignore_errors=True)
    return folder
