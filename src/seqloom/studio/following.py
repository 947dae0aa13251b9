"""What follows a prompt, as text: the probability of each next piece of text, summed over all ways in
which the tokenizer spells it.

A prompt may end inside a token. So all spellings of its last word are followed (`Generator.heal`), and
where one of them ends with the prompt, the token after it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from seqloom.contracts import LanguageModel
from seqloom.decoding.constraints import HealedPrompt
from seqloom.decoding.generation import Generator
from seqloom.decoding.stepper import prefill
from seqloom.errors import DataError
from seqloom.views.language import pieces_of
from seqloom.views.token_costs import token_rows, window_of

MOST_PIECES = 4096  # that are told; what is left has a sum
MOST_CHARACTERS = 64
UNLIKELY = 14.0  # nats below the likeliest spelling, where others are left out
END = "</s>"


def following(model: LanguageModel, prompt: str, most: int = MOST_PIECES) -> dict[str, Any]:
    """Return the pieces of text that may follow, likeliest first, each with its log-probability and its
    kind ("text", "bytes" of a character, or the "end"), their entropy in bits, what is left, and the
    next characters.
    """
    if len(prompt) > 1_000_000:
        raise DataError("the prompt has more than a million characters; give less")
    generator, by_bytes = model.generator(), _shares(model, prompt)
    shares = np.array(list(by_bytes.values()))
    shares = shares / shares.sum()
    positive = shares[shares > 0]
    ranked = sorted(zip(by_bytes, shares.tolist()), key=lambda pair: (-pair[1], pair[0] or b""))
    kept = [pair for pair in ranked[:most] if pair[1] > 0]
    return {
        "unit": generator.tokenizer.label(),
        "entropy": float(-(positive * np.log2(positive)).sum()) + 0.0,
        "pieces": [[*shown(data), math.log(share)] for data, share in kept],
        "n": len(positive),
        "rest": float(max(0.0, 1.0 - sum(share for _, share in kept)))
        if len(positive) > most
        else 0.0,
        "characters": _characters(ranked),
    }


def character_share(model: LanguageModel, prompt: str, character: str) -> float:
    """Return the probability that a character of one byte follows, summed over all that begins with it."""
    data = character.encode("utf-8")
    shares = _shares(model, prompt)
    fitting = sum(share for piece, share in shares.items() if (piece or b"")[:1] == data)
    return fitting / sum(shares.values())


def _shares(model: LanguageModel, prompt: str) -> dict[bytes | None, float]:
    """Return the share of each piece of text that may follow, over all spellings of the prompt."""
    generator = model.generator()
    by_bytes: dict[bytes | None, float] = {}
    for healed, weight in _weighed(generator, prompt):
        for data, share in _after(generator, healed, prompt, weight, by_line=generator.by_line):
            by_bytes[data] = by_bytes.get(data, 0.0) + share
    return by_bytes


def _weighed(generator: Generator, prompt: str) -> list[tuple[HealedPrompt, float]]:
    """Return the spellings of a prompt with their shares."""
    spellings = generator.heal(generator.last_line(prompt))
    best = max(one.log_prob for one in spellings)
    near = [one for one in spellings if one.log_prob > best - UNLIKELY]
    shares = np.exp(np.array([one.log_prob - best for one in near]))
    return list(zip(near, (shares / shares.sum()).tolist()))


def _after(
    generator: Generator, healed: HealedPrompt, prompt: str, weight: float, *, by_line: bool
) -> list[tuple[bytes | None, float]]:
    """Return what may follow one spelling, with its share: bytes, or None for the end of the text."""
    tokenizer, eos_id = generator.tokenizer, generator.stepper.eos_id
    _, log_probs = prefill(generator.stepper, [healed.ids])
    probs = np.exp(log_probs[0].astype(np.float64))
    allowed = np.arange(len(probs)) if healed.allowed is None else healed.allowed
    total = probs[allowed].sum()
    if not total > 0:  # the model finds the prompt impossible
        probs[allowed], total = 1.0, float(len(allowed))
    before = bool(prompt) and not prompt[-1].isspace()
    result: list[tuple[bytes | None, float]] = []
    whole: list[int] = []
    for token in allowed[probs[allowed] > 0].tolist():
        share = weight * float(probs[token] / total)
        if token == eos_id:
            result.append((b"\n" if by_line else None, share))
            continue
        data = generator.index.token_bytes[token] if healed.dropped else b""
        if healed.dropped and data == healed.dropped:
            whole.append(token)
        elif healed.dropped:
            result.append((data[len(healed.dropped) :], share))
        else:
            data = tokenizer.piece(token, before=before)
            result.append((data or tokenizer.token(token).encode("utf-8", "replace"), share))
    for token in whole:  # ends where the prompt does: the next token follows
        ids, share = np.append(healed.ids, token), weight * float(probs[token] / total)
        result += _after(generator, HealedPrompt(ids), prompt, share, by_line=by_line)
    return result


def shown(data: bytes | None) -> tuple[str, str]:
    """Return the text of bytes, and of which kind it is."""
    if data is None:
        return END, "end"
    try:
        return data.decode("utf-8"), "text"
    except UnicodeDecodeError:
        return "".join(f"\\x{byte:02x}" for byte in data), "bytes"


def _characters(ranked: list[tuple[bytes | None, float]]) -> list[list[Any]]:
    """Return the next characters with their log-probabilities, summed over pieces."""
    sums: dict[str, float] = {}
    for data, share in ranked:
        text, kind = shown(data)
        first = text[:1] if kind == "text" else text
        sums[first] = sums.get(first, 0.0) + share
    ordered = sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))
    return [[text, math.log(share)] for text, share in ordered[:MOST_CHARACTERS] if share > 0]


def coloured(model: LanguageModel, text: str, top: int, excerpt: bool = False) -> dict[str, Any]:
    """Return a text in pieces of whole characters, with what each costs, and the tokens that it is made
    of as `seqloom inspect surprisal` has them; of an `excerpt` without the end of the document, which
    the text is not.
    """
    ids, lengths, said = window_of(model, text)
    rows = token_rows(model, ids, lengths, top)
    if excerpt and model.unit != "line" and len(ids) > 1 and ids[-1] == model.tokenizer.eos_id:
        ids, rows = ids[:-1], rows[:-1]
    pieces = pieces_of(model, ids, np.array([row["bits"] for row in rows]))
    tokenizer, end = model.tokenizer, 1 if model.unit == "line" else 0
    sizes = [
        (len(tokenizer.token_bytes(i)) if i != tokenizer.eos_id else end) for i in ids.tolist()
    ]
    at, groups, left = 0, [], 0
    for piece in pieces:
        group: list[dict[str, Any]] = []
        left += piece.weight if tokenizer.lossless else 1
        while at < len(rows) and (left > 0 or not group):
            left -= sizes[at] if tokenizer.lossless else 1
            group.append(rows[at])
            at += 1
        groups.append(group)
    if groups:
        groups[-1] += rows[at:]
    return {
        "bits": float(sum(row["bits"] for row in rows)),
        "bytes": int(sum(sizes)) if tokenizer.lossless else None,
        "said": said,
        "pieces": [
            {"text": piece.text, "bits": piece.bits, "weight": piece.weight, "tokens": group}
            for piece, group in zip(pieces, groups)
        ],
    }
