"""A translation step by step: the hypotheses of the beam, what each might write next, and what it looks at.

The search is the one of `translate`; it is only watched (`decoding/beam`). A hypothesis writes its
next token, which is one of several candidates: among those of all hypotheses the best go on, those
that end leave the beam.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.charts.page import Page, Sheet, with_headings
from seqloom.charts.translation import alignment_chart, beam_chart
from seqloom.config import make
from seqloom.decoding.beam import Attending, BeamConfig, BeamStep, beam_search
from seqloom.decoding.configs import TranslationConfig
from seqloom.decoding.sampling import top_indices
from seqloom.errors import ConfigError
from seqloom.metrics.tables import width
from seqloom.views.hidden import visible
from seqloom.views.translation import END, source_tokens

if TYPE_CHECKING:
    from seqloom.contracts import Translator
    from seqloom.decoding.stepper import Stepper

MAX_SOURCE_TOKENS = 3  # source tokens of a hypothesis that are named
SCREEN = 80  # columns of a line


def trace(model: Translator, source: Any, *, top: int = 3, **options: Any) -> Sheet:
    """Show how a translation came about. The data has `steps`, each with the open `hypotheses`
    (their tokens, what they attend to most, their `top` likeliest next tokens and what becomes
    of each) and the `ended` ones; `lines` has each step as text. `options` as in `translate`,
    of beam search.
    """
    model.check_writes("a translation is traced")
    search = make(TranslationConfig, None, options)
    if search.search != "beam" or top < 1:
        raise ConfigError(
            f"a trace shows beam search with at least 1 candidate; got search {search.search} and top {top}"
        )
    model.check_sources([source])
    stepper, config = model.decoder([source]), model.beam_config(search)
    names = source_tokens(model, source)
    watcher = _Watcher(model, stepper, config, names, top)
    best = beam_search(stepper, [np.zeros(0, np.int64)], config, watch=watcher)[0][0]
    steps, path = watcher.steps, watcher.path(best.ids.tolist(), best.finished)
    data = {
        "source": names,
        "translation": model.target_tokenizer.decode(best.ids),
        "log_prob": best.log_prob,
        "score": best.score,
        "finished": best.finished,
        "steps": steps,
        "lines": [step_lines(step) for step in steps],
    }
    written = [token for _, token in path]
    attention_weights = (
        np.array([watcher.weights[t][row] for t, (row, _) in enumerate(path)])
        if watcher.weights
        else None
    )

    def draw(page: bool) -> dict[str, Any]:
        charts = {"Beam": beam_chart(steps)}
        if attention_weights is not None:
            charts["What it looked at"] = alignment_chart(attention_weights, names, written)
        return charts

    return Sheet(f"{model.label()}: trace", draw, data, _summary(data), page=_page)


class _Watcher:
    """Writes down every step of a search for one source."""

    def __init__(
        self, model: Translator, stepper: Stepper, config: BeamConfig, source: list[str], top: int
    ) -> None:
        self.model, self.stepper, self.config, self.source, self.top = (
            model,
            stepper,
            config,
            source,
            top,
        )
        self.steps: list[dict[str, Any]] = []
        self.weights: list[np.ndarray] = []  # (R, S) of each step, where the model shows them
        self.ids: list[list[int]] = [[]]  # of the open hypotheses
        self.before: list[list[list[int]]] = []  # the same at each step

    def __call__(self, step: BeamStep) -> None:
        fates, ended = self._fates(step)
        looks = self._looks(step)
        hypotheses = []
        for row, ids in enumerate(self.ids):
            probs = np.exp(np.minimum(step.log_probs[row].astype(np.float64), 0.0))
            shown = dict.fromkeys(
                [
                    *top_indices(probs[None], self.top)[0].tolist(),
                    *(j for i, j in fates if i == row),
                ]
            )
            candidates = [
                {
                    "token": self._name(token),
                    "probability": float(probs[token]),
                    **fates.get((row, token), {"becomes": "dropped"}),
                    "best": False,
                }
                for token in shown
            ]
            hypotheses.append(
                {
                    "number": row + 1,
                    "tokens": [*map(self._name, ids)],
                    "text": self._text(ids),
                    "log_prob": float(step.log_prob[row]),
                    "looks_at": looks[row],
                    "candidates": candidates,
                    "best": False,
                }
            )
        self.steps.append({"step": len(self.steps) + 1, "hypotheses": hypotheses, "ended": ended})
        self.before.append(self.ids)
        self.ids = [
            [*self.ids[row], token] for row, token in zip(step.rows.tolist(), step.tokens.tolist())
        ]

    def _fates(
        self, step: BeamStep
    ) -> tuple[dict[tuple[int, int], dict[str, Any]], list[dict[str, Any]]]:
        """Return what becomes of the continuations that the step took, by row and token, and those
        that left the beam.
        """
        totals = step.log_prob[:, None] + np.minimum(step.log_probs.astype(np.float64), 0.0)
        length = len(self.steps) + 1
        beam = {
            pair: number
            for number, pair in enumerate(zip(step.rows.tolist(), step.tokens.tolist()), 1)
        }
        fates: dict[tuple[int, int], dict[str, Any]] = {}
        ended = []
        for index in top_indices(totals.reshape(1, -1), self.config.beams)[0].tolist():
            row, token = divmod(index, totals.shape[1])
            if totals[row, token] == -np.inf:
                continue
            ends = token == self.stepper.eos_id
            if ends or length == self.config.max_tokens:
                total = float(totals[row, token])
                penalty = float(step.coverage[row]) if len(step.coverage) else 0.0
                ended.append(
                    {
                        "text": self._text([*self.ids[row], *[token] * (not ends)]),
                        "log_prob": total,
                        "score": total / self.config.divisor(length) + penalty,
                        "finished": ends,
                    }
                )
                fates[row, token] = {"becomes": "ends" if ends else "cut off"}
            elif (row, token) in beam:
                fates[row, token] = {"becomes": "open", "number": beam[row, token]}
            else:  # the search is over, since no open hypothesis can become better than what has ended
                fates[row, token] = {"becomes": "given up"}
        return fates, ended

    def _looks(self, step: BeamStep) -> list[list[dict[str, Any]]]:
        """Return the source tokens that each hypothesis attends to most for its next token."""
        if isinstance(self.stepper, Attending):
            weights = np.asarray(self.stepper.attention(step.state)[0], np.float64)[
                :, : len(self.source)
            ].copy()
            if weights.shape[1]:
                self.weights.append(weights)
                return [
                    [
                        {
                            "position": position + 1,
                            "token": self.source[position],
                            "weight": float(row[position]),
                        }
                        for position in top_indices(row[None], MAX_SOURCE_TOKENS)[0].tolist()
                    ]
                    for row in weights
                ]
        return [[] for _ in self.ids]

    def path(self, ids: list[int], finished: bool) -> list[tuple[int, str]]:
        """Return the rows that became the best translation, and what each wrote; mark them."""
        tokens, path = [*ids, *[self.stepper.eos_id] * finished], []
        for t, token in enumerate(tokens):
            row = self.before[t].index(tokens[:t])
            one, name = self.steps[t]["hypotheses"][row], self._name(token)
            one["best"] = True
            next(c for c in one["candidates"] if c["token"] == name and c["becomes"] != "dropped")[
                "best"
            ] = True
            path.append((row, name))
        return path

    def _name(self, token: int) -> str:
        return (
            END
            if token == self.stepper.eos_id
            else visible(self.model.target_tokenizer.token(token))
        )

    def _text(self, ids: list[int]) -> str:
        return self.model.target_tokenizer.decode(np.array(ids, np.int64))


def step_lines(step: dict[str, Any]) -> str:
    """Return a step for people, no wider than a screen: of a long hypothesis the last tokens; `*`
    marks what became the best translation.
    """
    lines = [f"step {step['step']}"]
    for one in step["hypotheses"]:
        looks = ", ".join(f"{look['token']} {look['weight']:.2f}" for look in one["looks_at"])
        head = f"{'*' if one['best'] else ' '} #{one['number']} {one['log_prob']:.2f}  "
        head += folded(one["tokens"], SCREEN - width(head)) or "(nothing yet)"
        beside = f"   looks at {looks}" if looks else ""
        if width(head + beside) <= SCREEN:
            lines.append(head + beside)
        else:
            lines += [head, f"     looks at {looks}"]
        lines += _filled(
            [f"{c['token']} {c['probability']:.3f}{_fate(c)}" for c in one["candidates"]]
        )
    for one in step["ended"]:
        head, score = "ended" if one["finished"] else "cut off", f"  score {one['score']:.4f}"
        room = SCREEN - len(f"  {head}: {score}")
        lines.append(f"  {head}: {_tail(visible_text(one['text']), room)}{score}")
    return "\n".join(lines)


def folded(tokens: Sequence[str], room: int) -> str:
    """Join tokens; of more than have room, the last with the number of those before.

    >>> folded(["so", "it", "goes"], 20), folded(["on"] * 20, 20)
    ('so it goes', '(+15) on on on on on')
    """
    whole = " ".join(tokens)
    if width(whole) <= room:
        return whole
    shown: list[str] = []
    for token in reversed(tokens):
        line = f"(+{len(tokens) - len(shown) - 1}) {' '.join([token, *shown])}"
        if shown and width(line) > room:
            break
        shown.insert(0, token)
    return f"(+{len(tokens) - len(shown)}) {' '.join(shown)}"


def _tail(text: str, room: int) -> str:
    """Return the text, or as much of its end as has room."""
    if width(text) <= room:
        return text
    while width(text) > room - 1:
        text = text[1:]
    return f"…{text}"


def _filled(parts: Sequence[str]) -> list[str]:
    """Return indented lines of as many parts as have room."""
    lines: list[str] = []
    for part in parts:
        if lines and width(f"{lines[-1]}   {part}") <= SCREEN:
            lines[-1] += f"   {part}"
        else:
            lines.append(f"     {part}")
    return lines


def visible_text(text: str) -> str:
    """Return a text in one line."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _fate(candidate: dict[str, Any]) -> str:
    becomes = candidate["becomes"]
    return (
        ""
        if becomes == "dropped"
        else f" -> #{candidate['number']}"
        if becomes == "open"
        else f" ({becomes})"
    )


def _summary(data: dict[str, Any]) -> list[str]:
    steps = data["steps"]
    many, end = (
        sum(len(step["ended"]) for step in steps),
        "ended" if data["finished"] else "was cut off",
    )
    last = sum(any(one["best"] for one in step["hypotheses"]) for step in steps)
    translation = visible_text(data["translation"])
    return [
        translation if data["finished"] else _tail(translation, SCREEN),
        f"score {data['score']:.4f}; it {end} in step {last} of the search's {len(steps)}, in which {many:,} "
        f"hypothes{'is' if many == 1 else 'es'} ended",
    ]


def _page(sheet: Sheet) -> Page:
    """Build the page: the charts, and all steps below them."""
    return (
        with_headings(sheet)
        .heading("Steps")
        .folded("every hypothesis and candidate", "\n\n".join(sheet.data["lines"]))
    )
