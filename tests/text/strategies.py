"""Texts that are hard on tokenizers, for hypothesis."""

from hypothesis import strategies as st

_PIECES = [
    "a", "B", "z", "the", " the", "cook", "don't", "x’y", "'", "’", "''", "7", "42", "½", ".", ",", "!?", "--", "_",
    " ", "  ", "\n", "\n\n", "\r\n", "\t", "\v", "\f", "\x00", "\x1c", "\x1f", "\x7f", "\x85", "\xa0", "\u1680",
    "\u2003", "\u2028", "\u202f", "\u205f", "\u3000", "\ufeff", "\u200b",
    "\u200d", "\u0301", "é", "ß", "Ж", "ب", "שלום", "हिन्दी",
    "你", "好吗", "カ", "ー", "の", "々", "한국", "😀", "👨‍👩‍👧", "❤️", "𠀀", "𝔘", "\U000e0100", "\U0010ffff",
    "<unk>", "</s>", "<s>", "[UNK]", "[SEP]", "<|endoftext|>", "##ing",
]
_BAD = [b"\xff", b"\xc3", b"\xe4\xb8", b"\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xf0\x9f\x98"]

texts = st.one_of(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join), st.text(max_size=20))
pieces = st.lists(st.one_of(st.sampled_from(_PIECES).map(str.encode), st.sampled_from(_BAD)), max_size=12).map(b"".join)
byte_strings = st.one_of(texts.map(str.encode), pieces, st.binary(max_size=20))
