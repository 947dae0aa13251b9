"""How alike the vectors of one word are within a sense and across senses, at each layer of a network.

The embedding layer has one vector for a word and can tell no senses apart; a network with random weights
can, to some degree, since it mixes the neighbours in. Both stand beside the layers of the model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.charts.by_layer import LayerPoint, layers_chart, short_layer
from seqloom.charts.page import Sheet
from seqloom.data.documents import numbered_lines
from seqloom.data.sources import find_documents
from seqloom.errors import DataError, quoted
from seqloom.metrics.bootstrap import interval
from seqloom.models.network.network import has_torch
from seqloom.models.network.word_layers import untrained, word_layers
from seqloom.views.catalogue import view
from seqloom.views.configs import SensesOptions
from seqloom.views.reading import remarks

MODEL, RANDOM = "this model", "random weights"
MARKED = re.compile(r"\*([^*\s](?:[^*]*[^*\s])?)\*")  # *bank*
SAMPLES = 500  # of an interval
SAME = 1e-6  # cosines that differ by less are equal


class Use(NamedTuple):
    """A word in a sentence, and its sense there."""

    words: list[str]
    at: int  # which of the words
    sense: str


@view
def senses(model: Any, file: Any, options: SensesOptions) -> Sheet:
    """Show the mean cosine of two uses of a word of one sense and of two senses, layer by layer, and how
    often the use that is nearest has the same sense.
    """
    uses = read_uses(file, options.word)
    if len(uses) > options.sentences:
        rng = np.random.default_rng(options.seed)
        progress.say(
            f"{options.sentences:,} of {len(uses):,} sentences are read; sentences=... reads more"
        )
        uses = [uses[i] for i in sorted(rng.permutation(len(uses))[: options.sentences].tolist())]
    networks = {MODEL: model}
    if options.random and has_torch():
        networks[RANDOM] = untrained(model, options.seed)
    rows: list[dict[str, Any]] = []
    for network, one in networks.items():
        kept, layers = _vectors(one, uses)
        kinds = np.array([use.sense for use in kept])
        _check_senses(kinds.tolist())
        rows += [
            {"network": network, "layer": layer} | compare_senses(vectors, kinds, options.seed)
            for layer, vectors in layers.items()
        ]
    counts = Counter(kinds.tolist())
    chance = sum(n * (n - 1) for n in counts.values()) / (len(kinds) * (len(kinds) - 1))
    best = max((row for row in rows if row["network"] == MODEL), key=lambda row: row["gap"])
    word = Counter(use.words[use.at].lower() for use in kept).most_common(1)[0][0]
    shares = ", ".join(f"{sense} {n:,}" for sense, n in counts.most_common())
    return Sheet(
        f"{model.label()}: senses of {word!r}",
        lambda page: _charts(rows, chance),
        {"rows": rows, "senses": dict(counts), "word": word, "chance": chance},
        [
            *remarks(model),
            f"{len(kinds):,} sentences: {shares}.",
            f"Furthest apart: {best['layer']}, cosine {best['within']:.3f} within a sense and "
            f"{best['across']:.3f} across, a gap of {best['gap']:.3f} "
            f"({best['low']:.3f} to {best['high']:.3f}).",
            f"By chance the nearest use has the same sense in {chance:.1%}.",
        ],
        lines=_lines(rows),
    )


# ---- data


def read_uses(file: Any, word: str | None = None) -> list[Use]:
    """Return the uses of a word: of pairs of sentence and sense, or of a file with a pair in each line."""
    if not isinstance(file, (str, Path)):
        return [
            _use(str(text), str(sense), word, f"pair {i}")
            for i, (text, sense) in enumerate(file, 1)
        ]
    path = Path(file)
    if not path.is_file():
        raise DataError(
            f"there is no file {path}; give one with a sentence, a tab and a sense in each line"
        )
    uses = []
    for document in find_documents(path, "utf-8"):
        for first, lines in numbered_lines(document):
            for number, line in enumerate(lines, first):
                if not line.strip():
                    continue
                text, tab, sense = line.rstrip("\r\n").rpartition("\t")
                place = f"{path.name}, line {number}"
                if not (tab and text.strip() and sense.strip()):
                    raise DataError(
                        f"{place}: expected a sentence, a tab and a sense; got {quoted(line)}"
                    )
                uses.append(_use(text, sense.strip(), word, place))
    if not uses:
        raise DataError(f"{path} is empty; give sentences with the sense of a word in each")
    return uses


def _use(text: str, sense: str, word: str | None, place: str) -> Use:
    """Find the word in a sentence: between asterisks or, if it is given, where it first stands."""
    pattern = MARKED if word is None else re.compile(rf"(?i)(?<!\w)({re.escape(word)})(?!\w)")
    found = pattern.search(text)
    if found is None:
        raise DataError(
            f"{place}: "
            + (
                "no word stands between asterisks (*bank*); mark one, or give word=..."
                if word is None
                else f"the word {word!r} is not in the sentence"
            )
        )
    before, after = text[: found.start()].split(), text[found.end() :].split()
    return Use([*before, found[1], *after], len(before), sense)


def _check_senses(kinds: Sequence[str]) -> None:
    counts = Counter(kinds)
    if len(counts) < 2 or max(counts.values()) < 2:
        raise DataError(
            "two senses are needed, and two sentences of one of them; there are "
            f"{', '.join(f'{n} of {sense!r}' for sense, n in counts.items()) or 'none'}"
        )


def _vectors(model: Any, uses: Sequence[Use]) -> tuple[list[Use], dict[str, np.ndarray]]:
    """Return the uses whose word the network reads, and its vectors by layer."""
    kept: list[Use] = []
    layers: dict[str, list[np.ndarray]] = {}
    with progress.task("reading", len(uses), "sentences") as bar:
        for use in uses:
            with progress.unsaid():
                chosen, found = word_layers(model, use.words)
            at = np.flatnonzero(chosen == use.at)
            if len(at):
                kept.append(use)
                for name, array in found.items():
                    layers.setdefault(name, []).append(array[at[0]])
            bar.advance()
    if len(kept) < len(uses):
        progress.say(
            f"in {len(uses) - len(kept):,} of {len(uses):,} sentences the word lies beyond what the network "
            "reads at a time; they are left out"
        )
    return kept, {name: np.stack(arrays) for name, arrays in layers.items()}


# ---- numbers


def compare_senses(vectors: np.ndarray, kinds: np.ndarray, seed: int = 0) -> dict[str, float]:
    """Return the mean cosine of pairs of one sense and of two, their gap with its interval over sentences,
    and the share of vectors whose nearest has the same sense.

    >>> found = compare_senses(np.eye(4)[[0, 0, 1, 1]], np.array(["a", "a", "b", "b"]))
    >>> found["within"], found["across"], found["nearest"]
    (1.0, 0.0, 1.0)
    """
    vectors = vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.where(lengths > 0, lengths, 1.0)
    cosines = units @ units.T
    same = kinds[:, None] == kinds[None, :]
    other = ~np.eye(len(kinds), dtype=bool)  # a use is not compared with itself

    def gaps(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return both means where each use counts so many times, (samples,), NaN where no pair is left."""
        means = []
        for pairs in (same & other, ~same):
            sums = ((weights @ (cosines * pairs)) * weights).sum(axis=1)
            n_pairs = ((weights @ pairs) * weights).sum(axis=1)
            means.append(np.where(n_pairs > 0, sums / np.maximum(n_pairs, 1), np.nan))
        return means[0], means[1]

    (within,), (across,) = gaps(np.ones((1, len(kinds))))
    drawn = np.random.default_rng(seed).multinomial(
        len(kinds), np.full(len(kinds), 1 / len(kinds)), SAMPLES
    )
    sampled = np.sort(np.subtract(*gaps(drawn.astype(np.float64))))
    sampled = sampled[~np.isnan(sampled)]
    out = int(0.025 * len(sampled))
    nearest = np.where(other, cosines, -np.inf)
    ties = nearest >= nearest.max(axis=1, keepdims=True) - SAME
    right = (ties & same).sum(axis=1) / ties.sum(axis=1)  # of several that are nearest, the share
    low, high = interval(right, np.ones(len(kinds)))
    return {
        "within": float(within),
        "across": float(across),
        "gap": float(within - across),
        "low": float(sampled[out]),
        "high": float(sampled[-1 - out]),
        "nearest": float(right.mean()),
        "nearest_low": low,
        "nearest_high": high,
    }


# ---- showing


def _charts(rows: Sequence[dict[str, Any]], chance: float) -> dict[str, Any]:
    gap: dict[str, list[LayerPoint]] = {}
    near: dict[str, list[LayerPoint]] = {}
    for row in rows:
        own, layer = row["network"], row["layer"]
        own += " (dashes)" if own == RANDOM else ""
        gap.setdefault(own, []).append(LayerPoint(layer, row["gap"], row["low"], row["high"]))
        near.setdefault(own, []).append(
            LayerPoint(layer, row["nearest"], row["nearest_low"], row["nearest_high"])
        )
    dashed = [name for name in gap if name.startswith(RANDOM)]
    return {
        "Cosine within a sense, less that across senses": layers_chart(
            gap, "difference of cosines", ".2f", dashed=dashed, reference=(0.0, "no difference")
        ),
        "The nearest use has the same sense": layers_chart(
            near, "share of sentences", ".0%", dashed=dashed, reference=(chance, "by chance")
        ),
    }


def _lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        f"{'network':<16}{'layer':<14}{'within':>8}{'across':>8}{'gap':>8}{'95 % interval':>18}{'nearest':>9}"
    ]
    for row in rows:
        between = f"{row['low']:.3f} to {row['high']:.3f}"
        lines.append(
            f"{row['network']:<16}{short_layer(row['layer']):<14}{row['within']:>8.3f}{row['across']:>8.3f}"
            f"{row['gap']:>8.3f}{between:>18}{row['nearest']:>9.1%}"
        )
    return lines
