"""A writer of small GGUF files for tests: plain values and arrays, or bytes that lie."""

import struct

import numpy as np

U32, I32, F32, BOOL, STRING, LIST, U64 = 4, 5, 6, 7, 8, 9, 10


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def encoded(value):
    """The number of a value's type, and the value."""
    if isinstance(value, bytes):  # as it is, the type included
        return value
    if isinstance(value, bool):
        return struct.pack("<IB", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + text(value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", LIST, STRING, len(value)) + b"".join(map(text, value))
    return struct.pack("<IIQ", LIST, I32, len(value)) + np.array(value, "<i4").tobytes()


def gguf(values=(), tensors=(), *, version=3, counts=None, alignment=32, offsets=None):
    """The bytes of a file. A tensor is (name, float32 array), or (name, shape as in NumPy, type, bytes)."""
    values, tensors = (
        dict(values),
        [
            t if len(t) == 4 else (t[0], t[1].shape, 0, t[1].astype("<f4").tobytes())
            for t in tensors
        ],
    )
    n_tensors, n_values = counts or (len(tensors), len(values))
    head = b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_values)
    head += b"".join(text(key) + encoded(value) for key, value in values.items())
    at, body = 0, b""
    for i, (name, shape, kind, raw) in enumerate(tensors):
        start = at if offsets is None else offsets[i]
        head += text(name) + struct.pack(
            f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, start
        )
        body += raw + bytes(-len(raw) % alignment)
        at = len(body)
    return head + bytes(-len(head) % alignment) + body
