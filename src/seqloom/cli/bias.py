"""`seqloom bias VECTORS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.options import common, emit
from seqloom.config import MOST_SEED
from seqloom.errors import ConfigError
from seqloom.progress import say
from seqloom.tasks import open_model

if TYPE_CHECKING:
    from seqloom.metrics.bias import Pairs, WordLists

WORDS_SHOWN = 6  # words at either end
LISTED = 10  # words of a note


@click.command(
    name="bias",
    epilog="""\b
Tests: flowers-insects, instruments-weapons, names-pleasant, career-family, math-arts, \
science-arts, young-old.
Lists: occupations, neutral (these and the words of the tests that ought not to lean), \
and the lists of the tests.
\b
Examples:
  seqloom bias vectors
  seqloom bias vectors --test career-family --test math,arts,male_terms,female_terms
  seqloom bias vectors --neutralise neutral -o debiased --on questions-words.txt --chart leaning.png
  seqloom bias vectors --words own.json --direction rich:poor,wealth:poverty --neutralise jobs.txt
""",
)
@click.argument("vectors")
@click.option(
    "--test",
    "tests",
    multiple=True,
    metavar="NAME|X,Y,A,B",
    help="Association test, or the names of its four lists; may be repeated.  [default: all]",
)
@click.option(
    "--words",
    metavar="FILE.json",
    help="Your own lists, pairs and tests: a JSON object of word lists by name.",
)
@click.option(
    "--direction",
    metavar="PAIRS",
    help="Bias direction: he,she, or he:she,man:woman, or the name of a list of "
    "pairs.  [default: gender]",
)
@click.option(
    "--neutralise",
    "--neutralize",
    multiple=True,
    metavar="LIST|FILE|W,W,..",
    help="Remove the direction from these words; may be repeated.",
)
@click.option(
    "--equalise",
    "--equalize",
    metavar="PAIRS|none",
    help="Pairs to make equal except for the direction, when words "
    "are neutralised.  [default: those of --direction; more for gender]",
)
@click.option(
    "--on",
    multiple=True,
    metavar="FILE",
    help="Analogies or similarities, to show what debiasing costs.",
)
@click.option("-o", "--output", metavar="OUT", help="Save the debiased vectors as a model.")
@click.option("--chart", metavar="FILE", help="Draw how far the words lean: .png, .svg, .html.")
@click.option(
    "--permutations",
    type=click.IntRange(1, 10**8),
    default=100_000,
    show_default=True,
    help="Number of random partitions, if there are too many to try all.",
)
@click.option("-s", "--seed", type=click.IntRange(0, MOST_SEED), default=0, show_default=True)
@common
def command(
    vectors: str,
    tests: tuple[str, ...],
    words: str | None,
    direction: str | None,
    neutralise: tuple[str, ...],
    equalise: str | None,
    on: tuple[str, ...],
    output: str | None,
    chart: str | None,
    permutations: int,
    seed: int,
    as_json: bool,
) -> None:
    """Measure the bias of word vectors and remove it.

    WEAT: whether one list of words is closer to a second list than another list is, as an effect
    size d (0: none, 2: the maximum) with a one-sided p-value. Direction: how far occupations, or
    the words to neutralise, lean along a direction such as he to she. With --neutralise, results
    are shown before and after. VECTORS: a saved model, or a file of word2vec, GloVe or fastText.
    """
    from seqloom.metrics.bias import read_word_lists, with_built_in, word_list

    _check(neutralise, equalise, output, chart)
    own = read_word_lists(words) if words else None
    word_lists = with_built_in(own)
    chosen = list(dict.fromkeys(tests)) or list((own and own.tests) or word_lists.tests)
    selected = {name: word_lists.test(name) for name in chosen}
    pairs = _pairs(direction or "gender", word_lists)
    equal = (
        []
        if equalise == "none"
        else _pairs(equalise, word_lists)
        if equalise
        else pairs
        if direction
        else word_lists.pairs["gender_equal"]
    )
    neutral = [word for text in neutralise for word in word_list(text, word_lists)]

    from seqloom.models.word_vectors.debias import bias_direction, debias, known_pairs, report

    source = open_model("bias", vectors)
    model = source.vectors  # words that are in the list: others have no row to change
    usable_pairs = known_pairs(model, pairs)
    needed = direction is not None or neutralise or chart is not None
    line = bias_direction(model, pairs) if usable_pairs or needed else None
    after = debias(model, neutral, known_pairs(model, equal), line) if neutralise else None
    summary = report(
        model,
        after,
        tests=selected if tests else _possible(model, selected),
        direction=line,
        on=on,
        neutral=neutral or word_lists.words("occupations"),
        permutations=permutations,
        seed=seed,
    )
    if usable_pairs and len(usable_pairs) < len(pairs):
        say(f"skipped {len(pairs) - len(usable_pairs)} of {len(pairs)} pairs: a word has no vector")
    if chart is not None and line is not None:
        from seqloom.views import leaning

        leaning(summary).save(chart)
    if output is not None and after is not None:
        after.save(output)
        if source.unseen(["x"]) is not None:
            say(
                f"{output} holds vectors for its {len(after):,} words only; {vectors} can also "
                f"build them for unseen words"
            )
    if as_json:
        emit(
            summary | ({"saved": output} if output else {}) | ({"picture": chart} if chart else {})
        )
        return
    click.echo(_table(summary, after is not None))
    for written in filter(None, (output, chart)):
        click.echo(f"written to {written}")


def _possible(model: Any, tests: dict[str, Any]) -> dict[str, Any]:
    """Return the tests of the defaults that have some known words in each list."""
    from seqloom.metrics.bias import known_words

    possible = {
        name: four
        for name, four in tests.items()
        if all(known_words(model, words)[0] for words in four)
    }
    if lost := [name for name in tests if name not in possible]:
        say(f"skipped tests that have a list without any known word: {', '.join(lost)}")
    return possible


def _check(
    neutralise: tuple[str, ...], equalise: str | None, output: str | None, chart: str | None
) -> None:
    if not neutralise and (output is not None or equalise is not None):
        raise ConfigError(
            f"{'--output' if output is not None else '--equalise'} needs words to take the bias out of; "
            "give --neutralise, for example: --neutralise neutral"
        )
    if output is not None:
        from seqloom.storage import check_target

        check_target(output)
    if chart is not None:
        from seqloom.charts import theme

        theme.check_target(chart)


def _pairs(text: str, word_lists: WordLists) -> Pairs:
    from seqloom.metrics.bias import as_pairs

    return word_lists.pairs[text] if text in word_lists.pairs else as_pairs(text)


def _table(summary: dict[str, Any], both: bool) -> str:
    """Return a table of tests, direction and cost; each number before and, if debiased,
    after.
    """
    from seqloom.metrics.tables import aligned

    head = ["test", "d", "p", *(["d after", "p after"] if both else [])]
    tests = [
        [
            name,
            *(
                cell
                for d, p in zip(test["effect_size"], test["p_value"])
                for cell in (f"{d:.3f}", f"{p:.2g}")
            ),
        ]
        for name, test in summary["tests"].items()
    ]
    lines = (
        aligned([head, *tests])
        if tests
        else ["no test could be made: too few of the words have vectors"]
    )
    if "direction" not in summary:
        return "\n".join([*lines, *_costs(summary), *_notes(summary)])
    neutral, ends = summary["neutral"], summary["direction"]["pairs"][0]
    more = len(summary["direction"]["pairs"]) - 1
    rows = [
        ["direct bias, mean |cos|", *(f"{v:.4f}" for v in neutral["direct_bias"])],
        ["mean |projection|", *(f"{v:.4f}" for v in neutral["mean_projection"])],
        [
            "side told by neighbours",
            *("-" if v != v else f"{v:.1%}" for v in neutral["told_by_neighbours"]),
        ],
    ]
    lines += [
        "",
        f"direction {ends[0]} - {ends[1]}"
        + (f" and {more} more pairs" if more else "")
        + f", {summary['direction']['explained']:.0%} of their variance; {neutral['words']:,} words",
    ]
    if neutral["words"]:
        lines += aligned([["", *(["before", "after"] if both else ["now"])], *rows])
        order = sorted(neutral["leans"], key=lambda word: -neutral["leans"][word][0])
        for end, sign, words in zip(ends, (1, -1), (order, order[::-1])):
            shown = [
                f"{word} {lean:+.2f}"
                for word in words
                if sign * (lean := neutral["leans"][word][0]) > 0
            ][:WORDS_SHOWN]
            lines.append(f"towards {end}: " + (", ".join(shown) or "none"))
    return "\n".join([*lines, *_costs(summary), *_notes(summary)])


def _costs(summary: dict[str, Any]) -> list[str]:
    lines = []
    for file, results in summary["cost"].items():
        name = next(iter(results[0]))
        lines.append(
            f"{name} on {file}: "
            + " -> ".join("-" if r[name] is None else f"{r[name]:.4f}" for r in results)
        )
    return lines


def _notes(summary: dict[str, Any]) -> list[str]:
    notes = []
    for name, test in summary["tests"].items():
        if missing := test["missing"]:
            more = f" and {len(missing) - LISTED} more" if len(missing) > LISTED else ""
            notes.append(
                f"note  {name}: skipped, without a vector: {', '.join(missing[:LISTED])}{more}"
            )
    if drawn := [name for name, test in summary["tests"].items() if not test["exact"]]:
        count = summary["tests"][drawn[0]]["partitions"] - 1
        notes.append(
            f"note  p of {', '.join(drawn)} from {count:,} drawn partitions, seed "
            f"{summary['seed']}; others from all"
        )
    if missing := summary.get("neutral", {}).get("missing"):
        more = f" and {len(missing) - LISTED} more" if len(missing) > LISTED else ""
        notes.append(f"note  words without a vector: {', '.join(missing[:LISTED])}{more}")
    return notes
