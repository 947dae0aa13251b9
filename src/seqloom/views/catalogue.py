"""Every view of `seqloom.inspect` that has a command: `seqloom inspect NAME MODEL [TEXT]`.

A view is a function in this folder, marked with `view`, which gets what it looks at and its options and
returns a `Sheet`; and a line in `VIEWS`, which says of which models it is, what it looks at besides them,
and which options it has. The command, its flags and `--help`, the arguments in Python and the list that
`seqloom inspect MODEL` prints all follow from that line.

    >>> from seqloom import NGram
    >>> "surprisal" in views_of(NGram(order=2).fit("the cat sat"))
    True
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqloom.config import Config, field_types, make
from seqloom.errors import ConfigError
from seqloom.views import configs, needs

if TYPE_CHECKING:
    from seqloom.charts.page import Sheet

# What a view looks at, in order; the command line has an argument for each:
# model: a fitted model or the directory of one; other: a second one; text: what the model reads, one text,
# or several where it reads pairs; data: held-out data of the model's task; file: a file of another kind,
# which the view reads; runs: directories of runs.
Inputs = tuple[str, ...]
OF_TEXT: Inputs = ("model", "text")


@dataclass(frozen=True)
class View:
    """What is said of a view: a line of help, the file of this folder with its function (no view is called
    like a file), which models have it, what it looks at, its options, what a `file` holds, and examples of
    the command.
    """

    help: str
    module: str
    fits: Callable[[Any], bool] = needs.anything
    inputs: Inputs = OF_TEXT
    options: type[Config] = Config
    optional: bool = (
        False  # whether it also works with nothing to look at; its inputs are then None
    )
    file: str = ""
    examples: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()  # options that may stand instead of the text, which is then None

    @property
    def of_models(self) -> bool:
        """Tell whether it is a view of a model, and not of runs or of nothing given."""
        return "model" in self.inputs


VIEWS = {
    # ---- language models
    "surprisal": View(
        "What each token of a text costs a language model, and what it expected instead.",
        "token_costs",
        needs.language_model,
        options=configs.SurprisalOptions,
        examples=(
            'seqloom inspect surprisal model "to be or not to be"',
            "seqloom inspect surprisal model text.txt --top 5",
        ),
    ),
    "difference": View(
        "Where two language models disagree on a text, the largest disagreements first.",
        "disagreement",
        needs.language_model,
        inputs=("model", "other", "text"),
        options=configs.DifferenceOptions,
        examples=(
            'seqloom inspect difference model other "to be or not to be"',
            "seqloom inspect difference model other text.txt --top 5 --chart difference.png",
        ),
    ),
    "shares": View(
        "Which member of a mixture paid for each token of a text.",
        "membership",
        needs.members,
        examples=('seqloom inspect shares mixture "to be or not to be"',),
    ),
    "backoff": View(
        "Where the probability of a token comes from in an n-gram model: what each order adds.",
        "orders",
        needs.ngrams,
        options=configs.BackoffOptions,
        examples=(
            'seqloom inspect backoff model "to be or not to be"',
            'seqloom inspect backoff model "to be or not to be" --token 4 --corpus text.txt',
        ),
    ),
    "discounts": View(
        "What the discount of an n-gram model does: held-out bits and shares of the orders.",
        "discounting",
        needs.ngrams,
        options=configs.DiscountsOptions,
        examples=(
            'seqloom inspect discounts model "to be or not to be"',
            'seqloom inspect discounts model "to be" --corpus text.txt --steps 10',
        ),
    ),
    "prediction": View(
        "One prediction number by number, each with its equation: back-off chain, belief, gates, one head "
        "of attention, mixture, and from the state to the probability.",
        "one_prediction",
        needs.language_model,
        options=configs.PredictionOptions,
        examples=(
            'seqloom inspect prediction model "to be or not to be"',
            'seqloom inspect prediction model "to be or not to be" --token 4 --rank 1',
        ),
    ),
    # ---- recurrent networks
    "gates": View(
        "Gates, cell and hidden states of a recurrent network along a text.",
        "recurrence",
        needs.recurrence,
        options=configs.GatesOptions,
        examples=(
            'seqloom inspect gates model "to be or not to be"',
            'seqloom inspect gates model "to be" --layer 1 --chart gates.html',
            'seqloom inspect gates model "to be or not to be" --unit 7',
        ),
    ),
    "units": View(
        "A line for each recurrent unit: half-life, saturation, mean, what it fires on most.",
        "recurrence",
        needs.recurrence,
        options=configs.UnitsOptions,
        examples=("seqloom inspect units model text.txt --count 10",),
    ),
    "step": View(
        "One step of a recurrent cell, with every number beside its equation.",
        "cell_steps",
        needs.recurrence,
        options=configs.StepOptions,
        examples=(
            'seqloom inspect step model "to be or not to be"',
            'seqloom inspect step model "to be or not to be" --at 3 --unit 7 --names ltm',
        ),
    ),
    "similar": View(
        "Where else in a corpus a recurrent unit, or the whole state, is as at the end of a text.",
        "likeness",
        needs.recurrent_language_model,
        options=configs.SimilarOptions,
        examples=('seqloom inspect similar model "to be" --unit 7 --corpus text.txt',),
    ),
    "unrolled": View(
        "A recurrent network unrolled in time, drawn from the model's own shape.",
        "unrolling",
        needs.recurrent,
        inputs=("model",),
        options=configs.UnrolledOptions,
        examples=("seqloom inspect unrolled model --steps 3 --chart unrolled.png",),
    ),
    "compare-gates": View(
        "How long the units of two recurrent networks remember, on one text.",
        "recurrence",
        needs.recurrence,
        inputs=("model", "other", "text"),
        options=configs.CompareGatesOptions,
        examples=("seqloom inspect compare-gates lstm gru text.txt --chart memories.png",),
    ),
    "clamp": View(
        "What the gates of a recurrent language model are worth: the cost of a text with one held at 0, 1 or "
        "its mean.",
        "clamping",
        needs.gated_language_model,
        options=configs.ClampOptions,
        examples=(
            'seqloom inspect clamp model "to be or not to be"',
            "seqloom inspect clamp model text.txt --gate f --value 1 --chart without.png",
        ),
    ),
    # ---- gradients
    "gradients": View(
        "How far a change of a recurrent state, and the loss, reach back in time: in a model that reads an "
        "example, in fresh cells, or without either as the documents' demonstrations.",
        "gradient_flow",
        needs.loss_by_position,
        options=configs.GradientsOptions,
        optional=True,
        examples=(
            "seqloom inspect gradients",
            "seqloom inspect gradients --cell rnn,lstm,gru --chart gradients.png",
            'seqloom inspect gradients model "to be or not to be"',
        ),
    ),
    "neuron": View(
        "One recurrent neuron: its fixed points, where they appear, and the plateau and cliff of its loss.",
        "one_neuron",
        inputs=(),
        options=configs.NeuronOptions,
        examples=(
            "seqloom inspect neuron",
            "seqloom inspect neuron --activation tanh --w 1.5 --b 0.1 --chart neuron.png",
        ),
    ),
    "reach": View(
        "How far back each recurrent cell and encoder learns: trains them at growing lags.",
        "reaching",
        inputs=(),
        options=configs.ReachOptions,
        examples=(
            "seqloom inspect reach --chart reach.png",
            "seqloom inspect reach --encoder rnn,lstm,gru --task recall --minutes 1",
            "seqloom inspect reach --encoder lstm --forget-bias 0,1,2 --task recall --clip norm",
            "seqloom inspect reach --encoder rnn,gru,lstm --task recall --clip norm --noise 0,0.3,1",
        ),
    ),
    "activations": View(
        "Activations of a plain RNN compared: saturation, gradient, and how far back it learns.",
        "reaching",
        inputs=(),
        options=configs.ActivationsOptions,
        examples=("seqloom inspect activations", "seqloom inspect activations --minutes 2"),
    ),
    # ---- attention
    "attention": View(
        "Where each step of a text looks: the weights of a layer and head of attention.",
        "attending",
        needs.attention,
        options=configs.AttentionOptions,
        examples=(
            'seqloom inspect attention model "the cat sat"',
            'seqloom inspect attention model "the cat sat" --layer 1 --head 0',
        ),
    ),
    "heads": View(
        "All heads of attention: pattern, entropy and distance over a text, and which words each finds.",
        "head_patterns",
        needs.attention,
        options=configs.HeadsOptions,
        instead=("tagged", "pairs"),
        examples=(
            'seqloom inspect heads model "the cat sat on the mat, and the dog sat too"',
            "seqloom inspect heads model --tagged sentences.conllu --chart heads.html",
        ),
    ),
    "ablation": View(
        "What each head and each layer is worth: the cost in bits, accuracy or F1 of removing it.",
        "removal",
        needs.heads_and_data,
        inputs=("model", "data"),
        options=configs.AblationOptions,
        examples=(
            "seqloom inspect ablation model valid.txt",
            "seqloom inspect ablation model valid.txt --examples 500 --chart heads.png",
        ),
    ),
    "without": View(
        "What a text costs, token by token, when some heads of attention are switched off.",
        "without_heads",
        needs.heads_and_text,
        options=configs.WithoutOptions,
        examples=(
            'seqloom inspect without model "to be or not to be" --off 0.1',
            'seqloom inspect without model "to be or not to be" --off 0.1,2 --chart without.png',
        ),
    ),
    # ---- what is in the vectors
    "probe": View(
        "What a linear probe reads of tags or labels from each layer, with a control task.",
        "probing",
        needs.word_layers,
        inputs=("model", "file"),
        options=configs.ProbeOptions,
        file="FILE has sentences with a tag for each word (.conll, .conllu, or what else a tagger reads), or "
        "texts with labels (.tsv, .csv, .jsonl).",
        examples=(
            "seqloom inspect probe model tagged.conllu",
            "seqloom inspect probe model labelled.tsv --words 2000 --chart probe.png",
        ),
    ),
    "senses": View(
        "How alike the vectors of a word are within a sense and across senses, layer by layer.",
        "word_senses",
        needs.word_layers,
        inputs=("model", "file"),
        options=configs.SensesOptions,
        file="FILE has a sentence, a tab and a sense in each line; the word stands between asterisks "
        "(by the *bank* of a river), or is given by word=...",
        examples=(
            "seqloom inspect senses model bank.tsv",
            "seqloom inspect senses model bank.tsv --word bank --chart senses.png",
        ),
    ),
    "shapes": View(
        "Each part of a network for a text: shape of its result, parameters, multiplications, bytes.",
        "forward_pass",
        needs.network,
        examples=(
            'seqloom inspect shapes model "to be or not to be"',
            'seqloom inspect shapes model "to be or not to be" --chart shapes.png',
        ),
    ),
    # ---- answers
    "explanation": View(
        "What spoke for a label, a tag, a token of a translation or an answer, and what against it.",
        "classification",
        needs.explained,
        options=configs.ExplanationOptions,
        examples=(
            'seqloom inspect explanation classifier "what a lovely film"',
            'seqloom inspect explanation tagger "Mary saw New York" --word 3',
            'seqloom inspect explanation translator "the cat" --step 2 --method attention',
        ),
    ),
    "trellis": View(
        "States of a hidden Markov model along a text: filter, smoothing, the likeliest path.",
        "lattice",
        needs.hidden_states,
        options=configs.TrellisOptions,
        examples=(
            'seqloom inspect trellis model "the dog saw the cat"',
            "seqloom inspect trellis tagger sentence.txt --chart trellis.png",
        ),
    ),
    # ---- runs
    "run": View(
        "How training went: losses, gradients by layer, clipped steps, gates; several runs together.",
        "training_logs",
        inputs=("runs",),
        options=configs.RunOptions,
        examples=(
            "seqloom inspect run model",
            "seqloom inspect run small large.run --by tokens --chart both.html",
        ),
    ),
}


def views_of(model: Any) -> dict[str, View]:
    """Return the views that a fitted model has."""
    return {name: view for name, view in VIEWS.items() if view.of_models and view.fits(model)}


def check(name: str, model: Any, of_task: Iterable[str] = ()) -> None:
    """Refuse a view that a model does not have, and name those that it has, those of its task included."""
    model.check_fitted()
    if not VIEWS[name].fits(model):
        known = [*views_of(model), *of_task]
        others = f"; there are: {', '.join(known)}" if known else ", which have none"
        raise ConfigError(f"there is no view {name!r} of {model.name} models{others}")


def run(name: str, *inputs: Any, **options: Any) -> Sheet:
    """Return the sheet of a view by its name."""
    function = getattr(import_module(f"seqloom.views.{VIEWS[name].module}"), name.replace("-", "_"))
    return function(*inputs, **options)


def _with_remarks(sheet: Sheet, entry: View, inputs: tuple[Any, ...]) -> Sheet:
    """Return the sheet with what must be said of its models, where the view does not say it."""
    from seqloom.views.reading import left_out, remarks

    models = [value for kind, value in zip(entry.inputs, inputs) if kind in ("model", "other")]
    said = [line for model in models if model is not None for line in remarks(model)]
    missing = [line for line in dict.fromkeys(said) if line not in sheet.summary]
    cut = []
    if entry.inputs == OF_TEXT and inputs[0] is not None:
        cut = left_out(*inputs)
    return replace(sheet, summary=[*missing, *sheet.summary, *cut]) if missing or cut else sheet


def view(function: Callable[..., Sheet]) -> Callable[..., Sheet]:
    """Make a function of inputs and options a view: it takes its options as keywords, checks them as the
    command line does, and refuses models that do not have the view.
    """
    name = function.__name__.replace("_", "-")
    entry = VIEWS[name]

    @wraps(function)
    def viewed(*inputs: Any, **options: Any) -> Sheet:
        if entry.optional and not inputs:
            inputs = (None,) * len(entry.inputs)
        if len(inputs) != len(entry.inputs):
            raise ConfigError(
                f"{name} takes {', '.join(entry.inputs) or 'options'} and keywords; {len(inputs)} "
                "arguments are given"
            )
        settings = make(entry.options, None, options)
        for kind, value in zip(entry.inputs, inputs):
            if kind in ("model", "other") and not (value is None and entry.optional):
                check(name, value)
        return _with_remarks(function(*inputs, settings), entry, inputs)

    kinds, keyword = field_types(entry.options), inspect.Parameter.KEYWORD_ONLY
    viewed.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                kind,
                inspect.Parameter.POSITIONAL_ONLY,
                default=None if entry.optional else inspect.Parameter.empty,
            )
            for kind in entry.inputs
        ]
        + [
            inspect.Parameter(f.name, keyword, default=f.default, annotation=kinds[f.name])
            for f in fields(entry.options)
        ]
    )
    return viewed
