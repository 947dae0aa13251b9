"""Names never lie on each other, whatever the window."""

import itertools
import math
import random

import pytest

from seqloom.charts import theme
from seqloom.charts.scales import GAP, LEADER, LINE, POINT, label_box, overlap, place_labels, spread


def pixels(box, width):
    return box.x * width + box.left, box.top, box.x * width + box.right, box.bottom


def meet(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@pytest.mark.parametrize("widths", [(theme.NARROW, theme.MIDDLE), (theme.MIDDLE, theme.WIDEST)])
@pytest.mark.parametrize("seed", range(30))
def test_nothing_overlaps_in_any_width(seed, widths):
    rng = random.Random(seed)
    n = rng.randint(1, 25)
    crowd = rng.choice([1.0, 0.2, 0.03])  # also all in one corner
    xs, ys = [rng.random() * crowd for _ in range(n)], [1 - rng.random() * crowd for _ in range(n)]
    names = [f"byte-{i}" for i in range(n)]
    lines = [(i - 1, i) for i in range(1, n)]
    places = place_labels(names, xs, ys, lines=lines, widths=widths)
    for width in range(widths[0], widths[1] + 1, 7):
        boxes = [
            pixels(label_box(name, x, y * theme.HEIGHT, place), width)
            for name, x, y, place in zip(names, xs, ys, places)
            if place
        ]
        dots = [
            (
                x * width - POINT,
                y * theme.HEIGHT - POINT,
                x * width + POINT,
                y * theme.HEIGHT + POINT,
            )
            for x, y in zip(xs, ys)
        ]
        for i, box in enumerate(boxes):
            assert box[0] >= -2
            assert box[2] <= width + 2
            assert box[1] >= 0
            assert box[3] <= theme.HEIGHT
            assert not any(meet(box, other) for other in boxes[:i])
            assert not any(meet(box, dot) for dot in dots)


def test_every_name_has_a_place_where_there_is_room():
    xs, ys = [0.1, 0.3, 0.5, 0.7], [0.2, 0.4, 0.6, 0.8]
    assert None not in place_labels(
        ["one", "two", "three", "four"], xs, ys, widths=(theme.NARROW, theme.WIDEST)
    )


def test_a_name_is_never_nearest_to_another_point():
    """Three points almost on one spot: a name beside the crowd would be read as that of its
    rightmost point.
    """
    xs, ys = [0.5, 0.508, 0.516], [0.5, 0.5, 0.498]
    for place, x, y in zip(
        place_labels(["bpe-3", "bpe-4", "bpe-5"], xs, ys, widths=(300, 460)), xs, ys
    ):
        if place is not None and abs(place.dy) < LEADER:
            for width in (300, 460):
                left, top, right, bottom = pixels(
                    label_box("bpe-3", x, y * theme.HEIGHT, place), width
                )
                away = [
                    math.hypot(
                        max(left - a * width, a * width - right, 0), max(top - b, b - bottom, 0)
                    )
                    for a, b in zip(xs, (y * theme.HEIGHT for y in ys))
                ]
                assert min(away) == away[xs.index(x)]


def test_the_best_point_is_named_first():
    """Two points on one spot at the lower border: the lower, better one gets the place."""
    places = place_labels(["worse", "better"], [0.5, 0.5], [0.9, 0.905])
    assert places[1] is not None
    assert places[1].dx == GAP


def test_a_line_is_avoided_where_something_else_is_free():
    free = place_labels(["a"], [0.5], [0.5])[0]
    beside = place_labels(["a", "b"], [0.3, 0.9], [0.5, 0.5], lines=[(0, 1)])[0]
    assert free is not None
    assert free.align == "left"
    assert beside is not None
    assert beside.align != "left"


def test_boxes_that_pass_each_other_as_the_window_grows_count_as_overlap():
    left = label_box(
        "a long name", 0.40, 100, place_labels(["a long name"], [0.4], [100 / theme.HEIGHT])[0]
    )
    right = left._replace(
        x=0.45, left=left.left - 20, right=left.left - 12
    )  # before it when narrow, in it when wide
    assert not meet(pixels(left, 100), pixels(right, 100))
    assert overlap(left, right, (100, 1000))
    assert not overlap(left, right, (100, 110))


@pytest.mark.parametrize("seed", range(20))
def test_spread_keeps_order_gap_and_borders(seed):
    rng = random.Random(seed)
    n = rng.randint(1, 15)
    values = [rng.choice([rng.random(), 0.5, 0.99]) for _ in range(n)]
    gap = LINE / theme.HEIGHT
    placed = spread(values, gap, 0.0, 1.0)
    ordered = [p for _, p in sorted(zip(values, placed))]
    assert all(b - a >= gap - 1e-9 for a, b in itertools.pairwise(ordered))
    assert min(placed) >= -1e-9
    assert max(placed) <= 1 + 1e-9


def test_spread_leaves_alone_what_has_room():
    assert spread([0.1, 0.5, 0.9], 0.1) == [0.1, 0.5, 0.9]
