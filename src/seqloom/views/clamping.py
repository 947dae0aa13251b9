"""What the gates of a recurrent language model are worth: the cost of a text with one held at a value."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom import progress
from seqloom.charts.costs import token_bars
from seqloom.charts.page import Sheet
from seqloom.charts.shares import MAX_TOKENS, bars_of_shares, coloured_tokens
from seqloom.contracts.transforming import tokens_before
from seqloom.errors import ConfigError, suggest_known
from seqloom.models.network.clamping import costs, gates_of, held, mean_gates
from seqloom.models.network.recurrence import layers_of
from seqloom.views.catalogue import view
from seqloom.views.configs import ClampOptions
from seqloom.views.hidden import visible
from seqloom.views.reading import remarks
from seqloom.views.recurrence import check_unit, choose_layer, joiner_of
from seqloom.views.token_costs import window_of

TOKENS = 1024  # of a text that are looked at, since it is read again for each gate and value
VALUES: tuple[str, ...] = ("0", "1", "mean")


@view
def clamp(model: Any, text: str, options: ClampOptions) -> Sheet:
    """Show what a text costs with a gate held at 0, at 1 or at its mean over the text, beside the model's own
    cost.
    """
    layers = layers_of(model)
    if options.layer is not None:
        layers = [choose_layer(layers, options.layer)]
    gates = gates_of(layers)
    if options.gate is not None and options.gate not in gates:
        raise ConfigError(
            f"unknown gate {options.gate!r}{suggest_known(options.gate, list(gates))}", ["gate"]
        )
    if options.unit is not None:
        check_unit(options.unit, min(layer.cell.d_hidden for layer in layers))
    ids, lengths, said = window_of(model, text, TOKENS)
    read = tokens_before(model, ids.astype(np.int64))
    means = mean_gates(model, layers, read, lengths)
    own = costs(model.runtime(), read, ids, lengths)
    chosen = [
        (gate, value)
        for gate in options.gate or gates
        for value in ((options.value,) if options.value else VALUES)
    ]
    held_costs = {}
    with progress.task("gates", len(chosen), "readings") as bar:
        for gate, value in chosen:
            given = means if value == "mean" else float(value)
            network = held(model, layers, gate, given, options.unit)
            held_costs[gate, value] = costs(network, read, ids, lengths)
            bar.advance(1)
    rows: list[dict[str, Any]] = [
        {
            "gate": gate,
            "value": value,
            "bits": float(bits.mean()),
            "more": float((bits - own).mean()),
            "total": float((bits - own).sum()),
        }
        for (gate, value), bits in held_costs.items()
    ]
    tokens = [model.tokenizer.token(token) for token in ids.tolist()]
    more = next(iter(held_costs.values())) - own

    def draw(page: bool) -> dict[str, Any]:
        if len(rows) == 1:
            shown = list(zip(map(visible, tokens), more.tolist()))
            sides = "costs more", "costs less"
            return {title: coloured_tokens(shown, sides, joiner=joiner_of(model), unit="bits")}
        ordered = sorted(rows, key=lambda row: -row["more"])
        bars = [(f"{row['gate']} = {row['value']}", row["more"]) for row in ordered]
        if ordered[-1]["more"] >= 0:
            longer = [(name, value, f"{value:+.3f}") for name, value in bars]
            return {title: token_bars(longer, "bits more for each token")}
        sides = "costs more", "costs less"
        return {title: bars_of_shares(bars, sides, "bits more for each token")}

    only = rows[0]
    title = (
        f"Each token with {only['gate']} = {only['value']}, against the model's own cost"
        if len(rows) == 1
        else "What a token costs more with a gate held"
    )
    return Sheet(
        f"{model.label()}: gates held",
        draw,
        {
            "rows": rows,
            "bits": float(own.mean()),
            "tokens": tokens,
            "own": own,
            "costs": {f"{gate}={value}": bits for (gate, value), bits in held_costs.items()},
            "layers": [layer.name for layer in layers],
            "unit": options.unit,
        },
        [*_sentences(rows, own, layers, options), *said, *remarks(model)],
        lines=_lines(rows, float(own.mean())),
    )


def _signed(bits: float) -> str:
    """Return bits with a sign, and no minus before zero."""
    return f"{round(bits, 3) + 0.0:+.3f}"


def _sentences(rows: Any, own: np.ndarray, layers: Any, options: ClampOptions) -> list[str]:
    where = "in all layers" if options.layer is None else f"in {layers[0].name}"
    which = f"unit {options.unit}" if options.unit is not None else "all units"
    said = [
        f"The model's own cost is {own.mean():.3f} bits for each of {len(own):,} tokens. Gates are held "
        f"{where}, for {which}; mean: each unit at its mean over this text.",
    ]
    if len(rows) > 1:
        most, least = (pick(rows, key=lambda row: abs(row["more"])) for pick in (max, min))
        said.append(
            f"Most matters {most['gate']} = {most['value']}, {_signed(most['more'])} bits a token; "
            f"least matters {least['gate']} = {least['value']}, {_signed(least['more'])}."
        )
    elif len(own) > MAX_TOKENS:
        said.append(f"The text is coloured up to token {MAX_TOKENS:,}.")
    return said


def _lines(rows: Any, own: float) -> list[str]:
    lines = [f"{'held':<12}{'bits a token':>14}{'more':>10}{'all together':>14}"]
    lines.append(f"{'nothing':<12}{own:>14.3f}")
    for row in rows:
        name = f"{row['gate']} = {row['value']}"
        lines.append(
            f"{name:<12}{row['bits']:>14.3f}{_signed(row['more']):>10}{row['total']:>+14.1f}"
        )
    return lines
