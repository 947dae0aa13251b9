"""Rates and gaps equal those counted one by one and fairlearn's; intervals equal resampling of rows."""

import numpy as np
import pytest

from seqloom.errors import DataError
from seqloom.metrics import tables
from seqloom.metrics.fairness import evaluate_groups
from seqloom.metrics.slices import by_name

NAMES = ["no", "yes"]


def one_hot(labels, n):
    return np.eye(n, dtype=bool)[labels]


def case(seed=0, n=400, classes=2, groups=3):
    rng = np.random.default_rng(seed)
    gold, where = rng.integers(0, classes, n), rng.integers(0, groups, n)
    wrong = rng.random(n) < 0.1 + 0.1 * where
    return gold, np.where(wrong, rng.integers(0, classes, n), gold), [f"g{g}" for g in where]


def share(flags):
    return sum(flags) / len(flags)


@pytest.mark.parametrize("classes", [2, 4])
def test_rates_and_gaps_are_what_is_counted_one_by_one(classes):
    gold, said, where = case(classes=classes)
    names = [f"c{c}" for c in range(classes)]
    flags = one_hot(gold, classes), one_hot(said, classes)
    metrics, details, notes = evaluate_groups(names, *flags, by_name("g", where), samples=0)
    groups = {g: [i for i in range(len(gold)) if where[i] == g] for g in sorted(set(where))}
    found = {}
    for row, (g, rows) in zip(details["groups"], groups.items()):
        assert (row["group"], row["size"]) == (g, len(rows))
        assert row["accuracy"] == pytest.approx(share([gold[i] == said[i] for i in rows]))
        for c, one in enumerate(row["classes"]):
            rates = (
                share([said[i] == c for i in rows]),
                share([said[i] == c for i in rows if gold[i] == c]),
                share([said[i] == c for i in rows if gold[i] != c]),
            )
            keys = ("selection_rate", "true_positive_rate", "false_positive_rate")
            assert [one[key] for key in keys] == pytest.approx(rates)
            found[g, c] = rates
    worst = []
    for c, row in enumerate(details["gaps"]):
        gaps = [
            max(found[g, c][k] for g in groups) - min(found[g, c][k] for g in groups)
            for k in range(3)
        ]
        assert [
            row["demographic_parity"],
            row["true_positive_rate"],
            row["false_positive_rate"],
        ] == pytest.approx(gaps)
        assert row["equalised_odds"] == pytest.approx(max(gaps[1:]))
        worst.append(gaps)
    assert metrics["demographic_parity_gap"] == pytest.approx(max(gaps[0] for gaps in worst))
    assert metrics["equalised_odds_gap"] == pytest.approx(max(max(gaps[1:]) for gaps in worst))
    accuracies = [row["accuracy"] for row in details["groups"]]
    assert metrics["accuracy_gap"] == pytest.approx(max(accuracies) - min(accuracies))
    assert notes == ()


@pytest.mark.parametrize(
    ("seed", "parity", "odds"),
    [
        (0, 0.08520390175108705, 0.1796131896005072),
        (1, 0.07802988378527942, 0.15517241379310345),
        (2, 0.06953814218993248, 0.11145131659522356),
    ],
)
def test_gaps_are_those_of_fairlearn(seed, parity, odds):
    """demographic_parity_difference and equalized_odds_difference of fairlearn 0.15.0, computed once."""
    gold, said, where = case(seed)
    row = evaluate_groups(
        NAMES, one_hot(gold, 2), one_hot(said, 2), by_name("g", where), samples=0
    )[1]["gaps"][1]
    assert (row["demographic_parity"], row["equalised_odds"]) == pytest.approx(
        (parity, odds), abs=1e-12
    )


def test_intervals_are_those_of_resampled_rows():
    gold, said, where = case(1, n=150)
    groups = by_name("g", where)
    metrics, details, _ = evaluate_groups(
        NAMES, one_hot(gold, 2), one_hot(said, 2), groups, samples=4000
    )
    rng, drawn = np.random.default_rng(5), []
    for _ in range(2000):
        rows = np.concatenate(
            [
                rng.choice(np.flatnonzero(groups.indices == g), (groups.indices == g).sum())
                for g in range(3)
            ]
        )
        again = evaluate_groups(
            NAMES,
            one_hot(gold[rows], 2),
            one_hot(said[rows], 2),
            groups._replace(indices=groups.indices[rows]),
            samples=0,
        )[0]
        drawn.append(
            [again["accuracy_gap"], again["demographic_parity_gap"], again["equalised_odds_gap"]]
        )
    expected = np.quantile(drawn, [0.025, 0.975], axis=0).T
    found = [
        metrics[f"{key}_gap_interval"]
        for key in ("accuracy", "demographic_parity", "equalised_odds")
    ]
    np.testing.assert_allclose(found, expected, atol=0.025)
    assert (
        details["gaps"][0]["demographic_parity_interval"]
        == metrics["demographic_parity_gap_interval"]
    )  # two classes


def test_gaps_of_equal_groups_are_those_of_chance():
    rng = np.random.default_rng(2)
    gold, said = rng.integers(0, 2, (2, 600))
    where = rng.choice(["a", "b"], 600).tolist()
    metrics = evaluate_groups(
        NAMES, one_hot(gold, 2), one_hot(said, 2), by_name("g", where), samples=200
    )[0]
    assert 0 < metrics["demographic_parity_gap_chance"] < 0.08
    unfair = np.where(np.array(where) == "a", 1, said)
    metrics = evaluate_groups(
        NAMES, one_hot(gold, 2), one_hot(unfair, 2), by_name("g", where), samples=200
    )[0]
    assert (
        metrics["demographic_parity_gap_interval"][0]
        > 0.4
        > 0.08
        > metrics["demographic_parity_gap_chance"]
    )


def test_a_group_without_a_class_is_left_out_of_its_rate():
    gold, said = np.array([1, 0, 1, 0, 0, 0]), np.array([1, 0, 0, 0, 1, 0])
    groups = by_name("site", ["a", "a", "b", "b", "c", "c"])
    _, details, notes = evaluate_groups(
        NAMES, one_hot(gold, 2), one_hot(said, 2), groups, samples=20
    )
    assert details["groups"][2]["classes"][1]["true_positive_rate"] is None
    assert details["gaps"][1]["true_positive_rate"] == 1.0  # a has 1, b has 0
    assert "'c'" in notes[0]
    shown = tables._groups(details["groups"], "site") + tables._gaps(details["gaps"])
    assert "nan" not in shown
    assert "-" in shown
    _, details, _ = evaluate_groups(
        NAMES, one_hot(gold[:2], 2), one_hot(said[:2], 2), by_name("s", ["a", "b"]), samples=20
    )
    assert details["gaps"][1]["true_positive_rate"] is None  # one group alone has no gap
    with pytest.raises(DataError, match="'site' has one value only, 'a'"):
        evaluate_groups(
            NAMES, one_hot(gold, 2), one_hot(said, 2), by_name("site", ["a"] * 6), samples=0
        )


def test_several_labels():
    gold, said = np.array([[1, 1], [0, 1], [1, 0]], bool), np.array([[1, 0], [0, 1], [1, 0]], bool)
    metrics, details, _ = evaluate_groups(
        ["x", "y"], gold, said, by_name("g", ["a", "a", "b"]), samples=10
    )
    assert metrics["accuracy_gap"] == 0.5
    assert details["groups"][0]["classes"][1] == {
        "class": "y",
        "support": 2,
        "predicted": 1,
        "selection_rate": 0.5,
        "true_positive_rate": 0.5,
        "false_positive_rate": None,
    }
