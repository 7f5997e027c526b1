"""axe-core in a page: which rules of WCAG 2.2 A and AA it violates."""

import pathlib

from tests.support.browser import browsers, scripts

_SOURCE = pathlib.Path(__file__).parent / "vendor" / "axe-core-4.14.1" / "axe.min.js"


def violations(page: browsers.Browser) -> list[str]:
    """Rule, place and reason of each violation; empty if there is none."""
    page.settled()
    if not page.run("return 'axe' in globalThis"):
        page.run(_SOURCE.read_text())
    return [str(one) for one in page.later(scripts.read("axe"))]
