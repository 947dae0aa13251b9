"""Models of other programs: `interop.open(path)` reads one, `interop.write(model, target)` writes one,
`interop.write_onnx(model, target)` a network as an ONNX file."""

from seqloom.interop.opening import open, write, write_onnx

__all__ = ["open", "write", "write_onnx"]
