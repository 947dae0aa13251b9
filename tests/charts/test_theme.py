"""The colours can be told apart, also by those who do not see all of them."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from seqloom.charts import theme

# Linear RGB as seen without one kind of cones: Vienot, Brettel and Mollon 1999, "Digital video
# colourmaps for checking
# the legibility of displays by dichromats", for protan and deutan; tritan after Brettel, Vienot and
# Mollon 1997.
NORMAL = np.eye(3)
PROTAN = np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]])
DEUTAN = np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]])
TRITAN = np.array(
    [[1.01277, 0.13548, -0.14826], [-0.01243, 0.86812, 0.14431], [0.07589, 0.80500, 0.11911]]
)
VIEWERS = {"normal": NORMAL, "protan": PROTAN, "deutan": DEUTAN, "tritan": TRITAN}


def linear(colour):
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b* of linear sRGB."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def luminance(colour):
    return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour))


def contrast(a, b):
    """WCAG 2."""
    light, dark = sorted([luminance(a), luminance(b)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("viewer", VIEWERS)
def test_groups_differ_for_every_viewer(viewer):
    for a, b in combinations(theme.HUES[:4], 2):
        assert (
            np.linalg.norm(lab(VIEWERS[viewer] @ linear(a)) - lab(VIEWERS[viewer] @ linear(b))) > 15
        ), (a, b)


@pytest.mark.parametrize("viewer", VIEWERS)
def test_the_ramp_grows_darker_for_every_viewer(viewer):
    light = [lab(VIEWERS[viewer] @ linear(c))[0] for c in theme.RAMP]
    assert all(a - b > 3 for a, b in pairwise(light)), light


def test_text_is_readable():
    for back, ink in zip(theme.RAMP, theme.RAMP_INK):
        assert contrast(back, ink) > 3
    assert contrast(theme.FAINT, "#ffffff") > 4.5
    for hue in theme.HUES[:4]:  # names are written in the colour of their group
        assert contrast(hue, "#ffffff") > 3


def test_members_of_a_group_grow_darker_and_differ():
    names = {f"byte-{n}": "byte" for n in range(1, 9)} | {"mixture": "mixture"}
    colours = theme.member_colours(names)
    shades = [luminance(colours[f"byte-{n}"]) for n in range(1, 9)]
    assert shades == sorted(shades, reverse=True)
    assert len(set(colours.values())) == 9
    assert (
        min(contrast(c, "#ffffff") for c in colours.values()) > 2.5
    )  # the lines and the names at their ends
    assert colours["mixture"] == theme.HUES[1]


def test_every_cost_has_a_step():
    assert [theme.step(b) for b in (0, 0.49, 0.5, 1, 3.9, 4, 8, float("inf"))] == [
        0,
        0,
        1,
        2,
        3,
        4,
        5,
        5,
    ]
    for ramp in (
        theme.steps_named(),
        theme.RAMP,
        theme.RAMP_INK,
        theme.TERMINAL,
        theme.TERMINAL_INK,
    ):
        assert len(ramp) == len(theme.BITS) + 1


def test_a_number_at_the_right_edge_has_room():
    """Axis labels stand around their tick; half of one at the end of the axis lies outside the plot."""
    assert (
        theme.config()["padding"]["right"] >= 4 * 0.58 * (theme.FONT_SIZE - 1) / 2
    )  # four characters
