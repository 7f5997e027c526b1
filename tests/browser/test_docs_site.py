"""The documentation site in a browser: WCAG 2.2 A and AA, no error of the console, nothing from elsewhere."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support import docs_sites
from tests.support.browser import axe, browsers

pytestmark = pytest.mark.browser
PAGES = (
    "/README.html",
    "/docs/tutorial.html",
    "/docs/architecture.html",
    "/docs/how-to/archive.html",
    "/docs/reference/settings.html",
    "/docs/reference/doctor.html",
    "/docs/decisions/README.html",
)
"""One of each kind: first page, tutorial, picture, how-to, and lists of the reference."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docs_sites.served(docs_sites.build(tmp_path_factory.mktemp("site"))) as found:
        yield found


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_violates_a_rule_of_accessibility(
    url: str, tmp_path: pathlib.Path, scheme: str, width: int
) -> None:
    """At the end the browser checks that no page wrote an error or asked another server."""
    found: dict[str, list[str]] = {}
    with browsers.browser(url, tmp_path / "profile", size=(width, 800), dark=scheme == "dark") as one:
        for path in PAGES:
            one.driver.get(url + path)
            one.run("document.documentElement.dataset.settled = 'loaded'")
            if violations := axe.violations(one):
                found[path] = violations
            assert one.text("h1"), path
    assert found == {}
