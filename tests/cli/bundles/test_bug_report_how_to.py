"""docs/how-to/bug-report.md lists what a bundle holds, and its bounds."""

import re

from app.store.bundles import bundle_reader, layout
from tests.support import how_to_pages

TEXT = how_to_pages.page("bug-report.md")


def test_the_members_and_bounds_of_the_page_are_those_of_a_bundle() -> None:
    listed = re.findall(r"^\| `([\w.]+)` \|", TEXT, re.MULTILINE)
    assert listed == [*layout.MEMBERS, layout.MANIFEST]
    assert f"{layout.MOST_EVENTS:,} events" in TEXT
    assert f"{layout.MOST_DECISIONS:,} decisions" in TEXT
    assert f"({layout.MOST_BYTES >> 20} MiB, {bundle_reader.MOST_EXPANDED >> 30} GiB expanded)" in TEXT
