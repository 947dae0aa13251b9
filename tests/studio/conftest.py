"""What the tests of the page share: one shelf of models, one server, one browser."""

import pytest

from tests.studio.shelves import make_shelf


@pytest.fixture(scope="session")
def shelf_folder(tmp_path_factory):
    return make_shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture(scope="session")
def studio(shelf_folder):
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    from seqloom.studio.server import open_studio

    with open_studio(shelf_folder) as running:
        yield running


@pytest.fixture(scope="session")
def browser():
    from tests.studio.browser import launched

    yield from launched()


@pytest.fixture
def opened(browser, studio):
    """A page of its own, closed and judged at the end."""
    from tests.studio.browser import Page

    made = Page(browser, studio.address)
    yield made
    made.close()
