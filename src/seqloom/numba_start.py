"""Lets the first call of a kernel that is in the cache do no more than read it: two things take numba 0.2 s.

- It prepares its compiler for everything that it could compile (`refresh`) before it looks into the cache.
  Whatever is compiled prepares it again, so for our kernels this is left out.
- It imports scipy.linalg, only to know whether there is a BLAS. Here that is known as soon as scipy is found;
  a function that uses a BLAS, of whoever else compiles with numba, imports it then.

Both are done when numba's own files are imported, which may be long after the package of kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

Execute = Callable[[ModuleType], None]


def read_without_compiler(module: ModuleType, execute: Execute) -> None:
    """Run numba.core.caching, then let our kernels be read without the compiler."""
    execute(module)
    if not (hasattr(module, "Cache") and hasattr(module.Cache, "_load_overload")):
        return  # another numba
    usual = module.Cache.load_overload

    def load_overload(self: Any, sig: Any, target_context: Any) -> Any:
        from numba.core.runtime import rtsys

        if not self._py_func.__module__.startswith("seqloom.kernels."):
            return usual(self, sig, target_context)
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    module.Cache.load_overload = load_overload


def only_find_blas(module: ModuleType, execute: Execute) -> None:
    """Run numba.np.arraymath, which asks whether there is a BLAS."""
    from numba.np import linalg

    whole = getattr(linalg, "ensure_blas", None)
    if whole is None:  # another numba
        return execute(module)

    def ensure_blas() -> None:
        if find_spec("scipy") is None:
            raise ImportError("no scipy")

    linalg.ensure_blas = ensure_blas
    try:
        execute(module)
    finally:
        linalg.ensure_blas = module.ensure_blas = whole  # type: ignore[attr-defined]


CHANGED = {"numba.core.caching": read_without_compiler, "numba.np.arraymath": only_find_blas}


class _Changed(Loader):
    def __init__(self, name: str, loader: Loader) -> None:
        self.name, self.loader = name, loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        CHANGED[self.name](module, self.loader.exec_module)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(fullname, path) if fullname in CHANGED else None
        if found is not None and found.loader is not None:
            found.loader = _Changed(fullname, found.loader)
        return found


def watch_numba() -> None:
    """Change these files of numba when they are imported; if they are already, all stays as it is."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
