"""The weights of g2p-en, English spelling to pronunciation, as a `seq2seq` model.

Its file `checkpoint20.npz` has a GRU that reads the letters of a word and `</s>`, and a second that begins with `<s>` in the
last state of the first and writes ARPAbet phonemes until `</s>`. That is `seq2seq` without attention and tied weights: the
initial state is the summary itself (an identity matrix), and the two biases of a gate become one, but for the candidate's.
A decoder here begins with the vector of `</s>`, so that is the one of `<s>` there; as an input the other `</s>` never occurs.

The letters that it knows are lower-case ones, and g2p-en makes every text lower-case before it; so does the tokenizer of the
sources here. g2p-en writes greedily and stops after 20 phonemes: `translate(word, beams=1, max_tokens=20)`.
"""

from __future__ import annotations

import hashlib
import string
import zipfile
from pathlib import Path

import numpy as np

from seqloom.errors import DataError
from seqloom.models.sequence.sizes import Sizes
from seqloom.models.translate.seq2seq import Seq2Seq
from seqloom.text.tokenizer import Tokenizer

VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"  # each without stress, with the main and with a weaker one
CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH"
PHONEMES = sorted([*(vowel + stress for vowel in VOWELS.split() for stress in "012"), *CONSONANTS.split(), "UW"])
LETTERS = list(string.ascii_lowercase)
SOURCES = ("<pad>", "<unk>", "</s>", *LETTERS)  # by their rows in the file
TARGETS = ("<pad>", "<unk>", "<s>", "</s>", *PHONEMES)
NAMES = {f"{side}_{part}" for side in ("enc", "dec") for part in ("emb", "w_ih", "w_hh", "b_ih", "b_hh")} | {"fc_w", "fc_b"}
LONGEST = 20  # phonemes that g2p-en writes at most; how long its training data was is not in the file


def is_g2p(path: Path) -> bool:
    """Whether this is such a file, by the names of its arrays."""
    try:
        with open(path, "rb") as file:
            if file.read(2) != b"PK":
                return False
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()} == NAMES
    except (OSError, zipfile.BadZipFile):
        return False


def read_g2p(path: str | Path) -> Seq2Seq:
    """A translator of words, read in lower case, into phonemes with blanks between them."""
    source = Path(path)
    if not is_g2p(source):
        raise DataError(f"{path}: not the weights of g2p-en; expected its checkpoint20.npz")
    try:
        with np.load(source) as file:
            arrays = {name: file[name] for name in NAMES}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: cannot be read or damaged ({error}); get a complete copy of the file") from None
    d_embed, d_hidden = _check(arrays, str(path))
    model = Seq2Seq(source_tokenizer="char", target_tokenizer="whitespace", encoder="gru", cell="gru", attention="none",
                    d_embed=d_embed, d_hidden=d_hidden, tied=False)
    target = Tokenizer.from_tokens(["<pad>", "<s>", *PHONEMES])  # never written, but they have probabilities
    model.tokenizers = {"source": Tokenizer.from_tokens(LETTERS, kind="char", normalize="case=lower"), "target": target}
    letters = _rows(["</s>", "<unk>", *LETTERS], SOURCES)
    written = ["<unk>", "<pad>", "<s>", *PHONEMES]
    weights = {"reader.embedding.weight": arrays["enc_emb"][letters],
               "embedding.weight": arrays["dec_emb"][_rows(["<s>", *written], TARGETS)],
               **_gru(arrays, "enc", "encoder.stack.layers.0."), **_gru(arrays, "dec", "decoder.layers.0."),
               "initial.weight": np.eye(d_hidden), "initial.bias": np.zeros(d_hidden),
               **{f"output.{ours}": arrays[f"fc_{theirs}"][_rows(["</s>", *written], TARGETS)]
                  for ours, theirs in (("weight", "w"), ("bias", "b"))}}
    model.learnt = {"sizes": Sizes(len(letters), d_embed).to_dict(), "longest_source": LONGEST, "longest_target": LONGEST}
    model.restore_arrays({name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()})
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    model.fitted = True
    model.fit_info = {"data": source.name, "data_hash": digest[:16], "source": "letters", "target": "phonemes"}
    return model


def _rows(tokens: list[str], there: tuple[str, ...]) -> list[int]:
    return [there.index(token) for token in tokens]


def _gru(arrays: dict[str, np.ndarray], theirs: str, ours: str) -> dict[str, np.ndarray]:
    """One layer; gates stand in the same order r, z, n."""
    b, b_h = (arrays[f"{theirs}_{name}"].astype(np.float32) for name in ("b_ih", "b_hh"))
    gates = 2 * len(b) // 3  # of r and z, whose biases are only ever added
    return {f"{ours}w_x": arrays[f"{theirs}_w_ih"], f"{ours}w_h": arrays[f"{theirs}_w_hh"],
            f"{ours}b": np.concatenate([b[:gates] + b_h[:gates], b[gates:]]), f"{ours}b_h": b_h[gates:]}


def _check(arrays: dict[str, np.ndarray], path: str) -> tuple[int, int]:
    """The widths of vectors and states; refused where shapes do not fit together or weights are not finite."""
    d_embed, d_hidden = (shape[-1] if len(shape) == 2 else 0 for shape in (arrays["enc_emb"].shape, arrays["enc_w_hh"].shape))
    gates = 3 * d_hidden
    wanted = {"enc_emb": (len(SOURCES), d_embed), "dec_emb": (len(TARGETS), d_embed), "fc_w": (len(TARGETS), d_hidden),
              "fc_b": (len(TARGETS),)}
    for side in ("enc", "dec"):
        wanted |= {f"{side}_w_ih": (gates, d_embed), f"{side}_w_hh": (gates, d_hidden), f"{side}_b_ih": (gates,),
                   f"{side}_b_hh": (gates,)}
    for name, shape in wanted.items():
        if arrays[name].shape != shape or arrays[name].dtype.kind != "f" or not arrays[name].size:
            raise DataError(f"{path}: {name} has the shape {arrays[name].shape} and type {arrays[name].dtype}; expected floats "
                            f"of shape {shape}")
        if not np.isfinite(arrays[name]).all():
            raise DataError(f"{path}: {name} has a number that is not finite; get another copy of the file")
    return d_embed, d_hidden
