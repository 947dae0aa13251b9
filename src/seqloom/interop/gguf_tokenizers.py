"""The tokenizers in GGUF files: byte-level BPE by its rules for words, SentencePiece's BPE and WordPiece.

A file names the rule that splits its texts into words before BPE (`tokenizer.ggml.pre`) and leaves the
rule itself to the program that reads it. The table has the known rules, as in the tokenizers of the
models; any other is refused.
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
    bos: bool = False  # texts begin with the bos token, if the file does not say


def _splits(*rules: str) -> list[Spec]:
    return [*(split_by(rule) for rule in rules), byte_level(rule=False)]


def _tiktoken(
    *, letters: str = r"\p{L}", others: str = r"\p{L}\p{N}", digits: str = "{1,3}"
) -> list[Spec]:
    """Build rules in OpenAI's form: contractions, words with what stands before them, numbers,
    symbols, white space.
    """
    return _splits(
        rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?{letters}+|\p{{N}}{digits}|"
        rf" ?[^\s{others}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"  # Han, and all from U+0800 to them; Hangul
_SYMBOLS = "!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002"
_CASED = (  # letters that have two cases, as deepseek-llm lists them
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd"
    "\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d"
    "\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
    "\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b"
    "\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787"
    "\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)

_PLAIN, _DIGITS = Rule([byte_level()]), Rule([DIGITS_APART, byte_level()])
_LLAMA3, _QWEN2 = Rule(_tiktoken(), whole_first=True, bos=True), Rule(_tiktoken(digits=""))
RULES = {
    **dict.fromkeys(
        ("gpt-2", "phi-2", "gigachat", "mellum", "mpt", "olmo", "jais", "trillion", "exaone4"),
        _PLAIN,
    ),
    **dict.fromkeys(
        (
            "smollm",
            "starcoder",
            "refact",
            "command-r",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ),
        _DIGITS,
    ),
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
        _LLAMA3,
    ),
    **dict.fromkeys(("dbrx", "smaug-bpe"), Rule(_tiktoken())),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"), _QWEN2),
    "qwen35": Rule(_tiktoken(letters=r"[\p{L}\p{M}]", others=r"\p{L}\p{M}\p{N}", digits="")),
    "tekken": Rule(
        _splits(
            rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}|"
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        whole_first=True,
    ),
    "deepseek-llm": Rule(
        _splits("[\r\n]", rf"\s?[{_CASED}]+", rf"\s?[{_SYMBOLS}]+", r"\s+$", _ASIAN, r"\p{N}+")
    ),
    "deepseek-coder": Rule(_splits("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _ASIAN, r"\p{N}")),
    "falcon": Rule(_splits(r"[\p{P}$+<=>^~|`]+", _GPT2, "[0-9][0-9][0-9]")),
}


def read_gguf_tokenizer(file: GGUFFile) -> Tokenizer:
    """Read the tokenizer of a GGUF file; ids are those of the file."""
    kind = file.text("tokenizer.ggml.model")
    if kind not in KINDS:
        known = ", ".join(f"{name} ({what})" for name, what in KINDS.items())
        file.fail(f"its tokenizer is of the kind {quoted(kind)}; {known} can be read")
    tokens = file.texts("tokenizer.ggml.tokens")
    if len(tokens) < 2:
        file.fail(f"its vocabulary has {len(tokens)} tokens")
    types = _numbers(file, "token_type", len(tokens), np.full(len(tokens), NORMAL))
    end = "seperator_token_id" if kind == "bert" else "eos_token_id"  # sic
    eos_id = file.integer(f"tokenizer.ggml.{end}", 0, len(tokens) - 1)
    spec = {"gpt2": _byte_level, "llama": _sentencepiece, "bert": _word_piece}[kind](
        file, tokens, types
    )
    eos = tokens[eos_id]
    mark(spec, [eos])  # whatever its type says
    return Tokenizer.of_subwords(coder_of(spec, eos, file.name))


def begins_with_bos(file: GGUFFile) -> bool:
    """Return whether texts begin with the bos token, as the file says or else its tokenizer always
    has it.
    """
    kind, rule = file.text("tokenizer.ggml.model"), file.values.get("tokenizer.ggml.pre")
    usual = kind == "llama" or (isinstance(rule, str) and rule in RULES and RULES[rule].bos)
    return file.flag("tokenizer.ggml.add_bos_token", usual)


def _byte_level(file: GGUFFile, tokens: list[str], types: np.ndarray) -> Spec:
    name = file.text("tokenizer.ggml.pre")
    if name not in RULES:
        file.fail(
            f"its tokenizer cuts a text into words by the rule {quoted(name)}{suggest_known(name, RULES)}"
        )
    rule = RULES[name]
    return byte_level_spec(
        numbered(tokens, file.name),
        file.texts("tokenizer.ggml.merges"),
        rule.steps,
        _added(tokens, types),
        whole_first=rule.whole_first,
    )


def _sentencepiece(file: GGUFFile, tokens: list[str], types: np.ndarray) -> Spec:
    scores = _numbers(file, "scores", len(tokens), None)
    unknown = file.integer("tokenizer.ggml.unknown_token_id", 0, len(tokens) - 1, 0)
    pieces = [
        Piece(token, score, kind)
        for token, score, kind in zip(tokens, scores.tolist(), types.tolist())
    ]
    return sentencepiece_spec(
        SentencePieces(
            pieces,
            unigram=False,
            unknown=unknown,
            byte_fallback=bool((types == _BYTE).any()),
            blank_first=file.flag("tokenizer.ggml.add_space_prefix", True),
            blanks_joined=False,
        ),
        file.name,
    )


def _word_piece(file: GGUFFile, tokens: list[str], types: np.ndarray) -> Spec:
    """Build a WordPiece tokenizer. The file's tokens begin words with `▁`, those of BERT continue
    words with `##`; `tokens` becomes the latter.
    """
    unknown = file.integer("tokenizer.ggml.unknown_token_id", 0, len(tokens) - 1, 100)
    for i, (token, kind) in enumerate(zip(tokens, types.tolist())):
        if kind == NORMAL:
            tokens[i] = token[1:] if token.startswith("▁") else f"##{token}"
    return word_piece_spec(
        numbered(tokens, file.name), tokens[unknown], lowercase=True, added=_added(tokens, types)
    )


def _added(tokens: list[str], types: np.ndarray) -> list[Spec]:
    """Return tokens that are not made of others: marks, and those that users added, which are
    found in a text.
    """
    return [
        added_token(i, tokens[i], special=int(types[i]) != _USER_DEFINED)
        for i in np.flatnonzero((types != NORMAL) & (types != _BYTE)).tolist()
    ]


def _numbers(file: GGUFFile, name: str, size: int, default: Any) -> np.ndarray:
    values = file.values.get(f"tokenizer.ggml.{name}", default)
    if not isinstance(values, np.ndarray) or len(values) != size or not np.isfinite(values).all():
        file.fail(f"tokenizer.ggml.{name} is not a list of as many numbers as there are tokens")
    return values
