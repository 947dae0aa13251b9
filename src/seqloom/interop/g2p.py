"""The weights of g2p-en, English spelling to pronunciation, as a `seq2seq` model.

Its file `checkpoint20.npz` has a GRU that reads the letters of a word and `</s>`, and a second that starts in
the last state of the first and writes ARPAbet phonemes from `<s>` to `</s>`. That is `seq2seq` without
attention and tied weights: the initial state is the summary itself (an identity matrix), and the two biases
of a gate become one, except the candidate's. A decoder here begins with the vector of `</s>`, which is
therefore that of their `<s>`; as an input their `</s>` never occurs.

It reads lower-case letters only, and g2p-en lower-cases every text first; so does the tokenizer of the
sources here. g2p-en writes greedily and stops after 20 phonemes: `translate(word, beams=1, max_tokens=20)`.
"""

from __future__ import annotations

import hashlib
import string
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqloom.errors import DataError
from seqloom.interop.layouts import G2P
from seqloom.interop.tensors import Parts
from seqloom.interop.values import TensorFile
from seqloom.models.sequence.configs import Sizes
from seqloom.models.translation.seq2seq import Seq2Seq
from seqloom.text.tokenizer import Tokenizer

VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"
CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH"
STRESSED = [
    vowel + stress for vowel in VOWELS.split() for stress in "012"
]  # none, the main, a weaker one
PHONEMES = sorted([*STRESSED, *CONSONANTS.split(), "UW"])
NAMES = {
    f"{side}_{part}" for side in ("enc", "dec") for part in ("emb", "w_ih", "w_hh", "b_ih", "b_hh")
}
NAMES |= {"fc_w", "fc_b"}
MAX_PHONEMES = (
    20  # phonemes that g2p-en writes at most; how long its training data was is not in the file
)


@dataclass(frozen=True)
class Checkpoint(TensorFile):
    """Its arrays, with one bias for both gates that have two there, and an identity matrix."""

    tensors: dict[str, np.ndarray]

    @property
    def d_hidden(self) -> int:
        return self.tensors["enc_w_hh"].shape[-1]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = {name: tensor.shape for name, tensor in self.tensors.items()}
        return shapes | {"identity": (self.d_hidden, self.d_hidden)}

    def array(self, name: str) -> np.ndarray:
        array = np.eye(self.d_hidden) if name == "identity" else self.tensors[name]
        return self.checked(name, array.astype(np.float32))

    def digest(self) -> str:
        return hashlib.sha256(Path(self.name).read_bytes()).hexdigest()


def is_g2p(path: Path) -> bool:
    """Tell whether this is such a file, by the names of its arrays."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()} == NAMES
    except (OSError, zipfile.BadZipFile):
        return False


def read_g2p(path: Path) -> Parts:
    """Return the parts of a translator of words, in lower case, into phonemes with blanks between them."""
    file = Checkpoint(str(path), {}, _tensors(path))
    d_embed = file.tensors["enc_emb"].shape[-1]
    options = {
        "source_tokenizer": "char",
        "target_tokenizer": "whitespace",
        "encoder": "gru",
        "cell": "gru",
        "attention": "none",
        "d_embed": d_embed,
        "d_hidden": file.d_hidden,
        "tied": False,
    }
    source = Tokenizer.from_tokens(
        list(string.ascii_lowercase), kind="char", normalize="case=lower"
    )
    target = Tokenizer.from_tokens(
        ["<pad>", "<s>", *PHONEMES]
    )  # the first two only have probabilities
    sizes = Sizes(source.vocab_size, d_embed).to_dict()
    learnt = {"sizes": sizes, "longest_source": MAX_PHONEMES, "longest_target": MAX_PHONEMES}
    return Parts(
        file,
        Seq2Seq,
        options,
        {"source": source, "target": target},
        learnt,
        G2P,
        file.record("letters", target="phonemes"),
        absent=("initial.bias",),
    )


def _tensors(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path) as file:
            tensors = {name: file[name] for name in NAMES}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path}: cannot be read or damaged ({error}); get a complete copy"
        ) from None
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f" or tensor.ndim != (1 if "_b" in name else 2) or not tensor.size:
            raise DataError(
                f"{path}: the tensor {name!r} is {tensor.dtype} of shape {tensor.shape}; "
                f"expected floats in a {'vector' if '_b' in name else 'matrix'}"
            )
    for side in ("enc", "dec"):
        inner, outer = (
            tensors.pop(f"{side}_{bias}").astype(np.float32) for bias in ("b_ih", "b_hh")
        )
        gates = 2 * len(inner) // 3  # of r and z, whose biases are only ever added
        if len(inner) != len(outer):
            raise DataError(
                f"{path}: the two biases of {side} have {len(inner)} and {len(outer)} numbers"
            )
        tensors[f"{side}_b"] = np.append(inner[:gates] + outer[:gates], inner[gates:])
        tensors[f"{side}_b_h"] = outer[gates:]
    return tensors
