"""Models of other programs: `interop.open(path)` reads one, `interop.write(model, target)` writes one."""

from seqloom.interop.opening import open, write

__all__ = ["open", "write"]
