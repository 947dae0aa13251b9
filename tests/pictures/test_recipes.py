"""Every picture of docs/inspect.md and recipes/attention.md has a recipe, and each still draws its numbers;
no picture is compared.
"""

import json
import re

import numpy as np
import pytest

from seqloom.charts.theme import specification
from tests.pictures import IMAGES, PICTURES, SMALL


def numbers_in(spec):
    """All numbers of a chart, also those that are written in its words."""
    text = json.dumps(spec)
    return np.array([float(found) for found in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)])


@pytest.mark.parametrize("name", PICTURES)
def test_the_recipe_draws_its_numbers(name):
    pytest.importorskip("altair")
    picture = PICTURES[name]
    sheet = picture.sheet(SMALL)
    spec = specification(sheet.picture())
    assert " ".join(np.atleast_1d(spec["title"]["text"])) == sheet.title
    assert all(json.dumps(heading)[1:-1] in json.dumps(spec) for heading in sheet.charts)
    shown, wanted = numbers_in(spec), picture.numbers(sheet)
    assert wanted
    for number in wanted:
        assert np.isclose(shown, number, rtol=1e-5, atol=1e-9).any(), number


def test_every_picture_of_the_pages_has_a_recipe():
    pages = [IMAGES.parent / "inspect.md", IMAGES.parent.parent / "recipes" / "attention.md"]
    text = "".join(page.read_text("utf-8") for page in pages)
    shown = set(re.findall(r"images/([\w-]+)\.png\)", text))
    assert shown == set(PICTURES)
    assert all((IMAGES / f"{name}.png").is_file() for name in PICTURES)
