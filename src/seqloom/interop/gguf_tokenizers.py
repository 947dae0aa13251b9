"""The tokenizers in GGUF files: byte-level BPE by its rules for words, SentencePiece's BPE and WordPiece.

A file names the rule by which its texts are cut into words before BPE (`tokenizer.ggml.pre`) and leaves the rule itself to
the program that reads it. The table has those that are known, as the tokenizers of the models have them; any other is refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seqloom.errors import quoted, suggest_known
from seqloom.interop.gguf import GGUFFile
from seqloom.interop.sentencepiece import NORMAL, Piece, SentencePieces, sentencepiece_spec
from seqloom.text.subword_lists import (
    DIGITS_APART,
    Spec,
    added_token,
    byte_level,
    byte_level_spec,
    coder_of,
    mark,
    numbered,
    split_by,
    word_piece_spec,
)
from seqloom.text.tokenizer import Tokenizer

KINDS = {"gpt2": "byte-level BPE", "llama": "BPE of SentencePiece", "bert": "WordPiece"}
_USER_DEFINED, _BYTE = 4, 6  # types of tokens; others than these and normal ones are marks


class Rule(NamedTuple):
    """How a text is cut into words."""

    steps: list[Spec]
    whole_first: bool = False  # a word that is a token is not cut


def _splits(*rules: str) -> list[Spec]:
    return [*(split_by(rule) for rule in rules), byte_level(rule=False)]


def _tiktoken(*, letters: str = r"\p{L}", others: str = r"\p{L}\p{N}", digits: str = "{1,3}") -> list[Spec]:
    """The form of OpenAI's rules: contractions, words with what stands before them, numbers, symbols, white space."""
    return _splits(rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?{letters}+|\p{{N}}{digits}|"
                   rf" ?[^\s{others}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ASIAN = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"  # Han, and all from U+0800 to them; Hangul
_SYMBOLS = "!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002"
_CASED = (  # letters that have two cases, as deepseek-llm lists them
    "A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373\u0376"
    "\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-"
    "\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A"
    "\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4"
    "\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC"
    "\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F"
    "\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B"
    "\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A"
    "\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2"
    "\U000118A0-\U000118DF\U0001E900-\U0001E943")

_PLAIN, _DIGITS = Rule([byte_level()]), Rule([DIGITS_APART, byte_level()])
_LLAMA3, _QWEN2 = Rule(_tiktoken(), whole_first=True), Rule(_tiktoken(digits=""))
RULES = {
    **dict.fromkeys(("gpt-2", "phi-2", "gigachat", "mellum", "mpt", "olmo", "jais", "trillion", "exaone4"), _PLAIN),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"), _DIGITS),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"), _LLAMA3),
    **dict.fromkeys(("dbrx", "smaug-bpe"), Rule(_tiktoken())),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"), _QWEN2),
    "qwen35": Rule(_tiktoken(letters=r"[\p{L}\p{M}]", others=r"\p{L}\p{M}\p{N}", digits="")),
    "tekken": Rule(_splits(
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), whole_first=True),
    "deepseek-llm": Rule(_splits("[\r\n]", rf"\s?[{_CASED}]+", rf"\s?[{_SYMBOLS}]+", r"\s+$", _ASIAN, r"\p{N}+")),
    "deepseek-coder": Rule(_splits("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _ASIAN, r"\p{N}")),
    "falcon": Rule(_splits(r"[\p{P}$+<=>^~|`]+", _GPT2, "[0-9][0-9][0-9]")),
}


def read_gguf_tokenizer(file: GGUFFile) -> Tokenizer:
    """The tokenizer of a GGUF file; ids are those of the file."""
    kind = file.text("tokenizer.ggml.model")
    if kind not in KINDS:
        known = ", ".join(f"{name} ({what})" for name, what in KINDS.items())
        file.fail(f"its tokenizer is of the kind {quoted(kind)}; {known} can be read")
    tokens = file.texts("tokenizer.ggml.tokens")
    if len(tokens) < 2:
        file.fail(f"its vocabulary has {len(tokens)} tokens")
    types = _numbers(file, "token_type", len(tokens), np.full(len(tokens), NORMAL))
    end = "seperator_token_id" if kind == "bert" else "eos_token_id"  # sic
    eos_id = file.whole(f"tokenizer.ggml.{end}", 0, len(tokens) - 1)
    spec = {"gpt2": _byte_level, "llama": _sentencepiece, "bert": _word_piece}[kind](file, tokens, types)
    eos = tokens[eos_id]
    mark(spec, [eos])  # whatever its type says
    return Tokenizer.of_subwords(coder_of(spec, eos, file.name))


def _byte_level(file: GGUFFile, tokens: list[str], types: np.ndarray) -> Spec:
    name = file.text("tokenizer.ggml.pre")
    if name not in RULES:
        file.fail(f"its tokenizer cuts a text into words by the rule {quoted(name)}{suggest_known(name, RULES)}")
    rule = RULES[name]
    return byte_level_spec(numbered(tokens, file.name), file.texts("tokenizer.ggml.merges"), rule.steps,
                           _added(tokens, types), whole_first=rule.whole_first)


def _sentencepiece(file: GGUFFile, tokens: list[str], types: np.ndarray) -> Spec:
    scores = _numbers(file, "scores", len(tokens), None)
    unknown = file.whole("tokenizer.ggml.unknown_token_id", 0, len(tokens) - 1, 0)
    pieces = [Piece(token, score, kind) for token, score, kind in zip(tokens, scores.tolist(), types.tolist())]
    return sentencepiece_spec(SentencePieces(
        pieces, unigram=False, unknown=unknown, byte_fallback=bool((types == _BYTE).any()),
        blank_first=file.flag("tokenizer.ggml.add_space_prefix", True), blanks_joined=False), file.name)


def _word_piece(file: GGUFFile, tokens: list[str], types: np.ndarray) -> Spec:
    """Its tokens begin words with `▁`, those of BERT go on words with `##`; `tokens` becomes the latter."""
    unknown = file.whole("tokenizer.ggml.unknown_token_id", 0, len(tokens) - 1, 100)
    for i, (token, kind) in enumerate(zip(tokens, types.tolist())):
        if kind == NORMAL:
            tokens[i] = token[1:] if token.startswith("▁") else f"##{token}"
    return word_piece_spec(numbered(tokens, file.name), tokens[unknown], lowercase=True, added=_added(tokens, types))


def _added(tokens: list[str], types: np.ndarray) -> list[Spec]:
    """Tokens that are not made of others: marks, and those that users added, which are found in a text."""
    return [added_token(i, tokens[i], special=int(types[i]) != _USER_DEFINED)
            for i in np.flatnonzero((types != NORMAL) & (types != _BYTE)).tolist()]


def _numbers(file: GGUFFile, name: str, size: int, default: Any) -> np.ndarray:
    values = file.values.get(f"tokenizer.ggml.{name}", default)
    if not isinstance(values, np.ndarray) or len(values) != size or not np.isfinite(values).all():
        file.fail(f"tokenizer.ggml.{name} is not a list of as many numbers as there are tokens")
    return values
