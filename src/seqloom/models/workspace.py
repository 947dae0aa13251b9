"""Where large arrays live while a counting model is built: in memory, or in files that the system
may page out.

With a memory limit the arrays are memory-mapped temporary files, unlinked at once, so that even
`kill -9` leaves nothing behind. Whenever the process holds more than the limit, their pages are
given back; they stay in the files.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import DTypeLike

from seqloom.arrays import SCRATCH, give_back, resident
from seqloom.errors import SeqloomError

T = TypeVar("T")


@dataclass(frozen=True)
class Workspace:
    memory: int | None = None  # bytes that one block of counting may use; None: all that there is
    on_disk: bool = False
    limit: int | None = (
        None  # bytes that the whole process stays below, as far as mapped arrays can make it
    )
    areas: weakref.WeakSet[mmap.mmap] = field(
        default_factory=weakref.WeakSet, repr=False, compare=False
    )

    @classmethod
    def within(cls, limit: int) -> Workspace:
        """Make a workspace on disk, with the memory that the limit leaves beside the program, the
        tokenizer and the text; at least a quarter of it.
        """
        held = resident()
        memory = max(limit - held, limit // 4)
        return cls(memory, True, max(limit, held + memory))

    def empty(self, n: int, dtype: DTypeLike) -> np.ndarray:
        if not self.on_disk or n == 0:
            return np.empty(n, dtype)
        size = n * np.dtype(dtype).itemsize
        handle, path = tempfile.mkstemp(prefix="seqloom-")
        try:
            os.truncate(path, size)
            if hasattr(
                os, "posix_fallocate"
            ):  # a full disk must be an error here, not a SIGBUS later
                os.posix_fallocate(handle, 0, size)
            area = mmap.mmap(handle, size)
        except OSError as error:
            raise SeqloomError(
                f"no room for {size >> 20} MiB of temporary files in {tempfile.gettempdir()} "
                f"({error.strerror}); set TMPDIR to a larger disk or raise memory=..."
            ) from error
        finally:
            os.close(handle)
            with contextlib.suppress(OSError):
                os.unlink(path)
        self.areas.add(area)
        SCRATCH.add(area)
        return np.frombuffer(area, dtype=dtype)

    def keep(self, array: np.ndarray) -> np.ndarray:
        """Return the array itself, or its copy on disk."""
        if not self.on_disk or len(array) == 0:
            return array
        copy = self.empty(len(array), array.dtype)
        copy[:] = array
        self.release(copy)
        return copy

    def run(self, function: Callable[[T], object], items: Iterable[T]) -> None:
        """Run `parallel_run` within the memory limit."""
        from seqloom.kernels.parallel import parallel_run

        def one(item: T) -> None:
            function(item)
            self.relieve()

        parallel_run(one if self.limit is not None else function, items)

    def relieve(self) -> None:
        """Give back what is mapped if the process is above its limit."""
        if self.limit is not None and resident() > self.limit:
            for area in list(self.areas):
                if hasattr(area, "madvise"):
                    area.madvise(mmap.MADV_DONTNEED)

    def release(self, *arrays: np.ndarray) -> None:
        """Give the memory of mapped arrays back for now; their content stays in the file."""
        give_back(*arrays)
