"""Model files of other programs: what reads them, as far as their beginning or their name tells."""

from __future__ import annotations

import re
from pathlib import Path

from seqloom.data.vector_files import file_head, vectors_instead_of_text

_PICKLE = re.compile(rb"\x80[\x02-\x05]")  # how pickles of protocol 2 and later begin

_NOT_READ = {
    ".onnx": "an ONNX file, which seqloom convert writes and onnxruntime runs; load the model it was made of",
    ".h5": "weights of Keras, which seqloom does not read",
    ".keras": "weights of Keras, which seqloom does not read",
    ".model": "a tokenizer of SentencePiece, which seqloom convert reads beside the weights that it belongs "
    "to, or a model of gensim: export it by save_word2vec_format, which seqloom.read_vectors reads",
}


def reader_of(path: Path) -> str:
    """Say what reads a file of another program, as far as its beginning or its name tells."""
    if not path.is_file():  # a pipe would wait for ever
        return ""
    head, _ = file_head(path)
    if head.startswith(b"mmap lm"):
        return "; this is a KenLM binary: convert its ARPA file instead (seqloom convert model.arpa OUT)"
    convert = f"seqloom convert {path} OUT makes a model of it"
    if path.name.endswith((".arpa", ".arpa.gz")) or head.startswith(b"\\data\\"):
        return (
            f"; this looks like an ARPA file: seqloom.read_arpa({str(path)!r}) reads it, {convert}"
        )
    if head.startswith(b"GGUF"):
        return f"; this looks like a GGUF file: {convert}"
    if path.suffix in _NOT_READ:
        return f"; this looks like {_NOT_READ[path.suffix]}"
    vectors = vectors_instead_of_text(head) or (
        "word vectors" if path.name.endswith((".vec", ".vec.gz")) else None
    )
    if vectors:
        return (
            f"; this looks like {vectors}: seqloom.read_vectors({str(path)!r}) reads it, {convert}"
        )
    if path.suffix in (".safetensors", ".pt", ".pth", ".bin", ".ckpt"):
        return (
            "; this looks like weights alone: seqloom convert DIR OUT makes a model of the directory of "
            "transformers that they are in"
        )
    if _PICKLE.match(head) or path.suffix in (".pkl", ".pickle", ".joblib"):
        return (
            "; this looks like a pickle, which could run code and is never read; export it from its program, "
            "such as word vectors by gensim's save_word2vec_format for seqloom.read_vectors"
        )
    return ""
