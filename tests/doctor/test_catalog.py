"""The checks of all areas: IDs, and the pages and sections that they name."""

import collections
import re

import pytest

from app.framework import diagnosing
from tests.project import reference_pages

CHECKS = [check for checks in reference_pages.AREAS.values() for check in checks]


def test_each_check_has_an_id_of_its_own() -> None:
    ids = collections.Counter(check.id for check in CHECKS)
    assert [name for name, count in ids.items() if count > 1] == []
    for area, checks in reference_pages.AREAS.items():
        assert len({check.id[0] for check in checks}) == 1, area
    assert all(re.fullmatch(r"[A-Z]\d\d", name) for name in ids)


@pytest.mark.parametrize("docs", sorted({check.docs for check in CHECKS}))
def test_the_page_and_section_of_each_check_exist(docs: str) -> None:
    page, _, anchor = docs.partition("#")
    text = (reference_pages.ROOT / "docs" / page).read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert not anchor or anchor in anchors


def test_the_worst_verdict_decides() -> None:
    check = CHECKS[0]
    results = [
        check.ok("a", "b"),
        check.warning("a", "b"),
        check.unsure("a", "b", fix="c"),
        check.problem("a", "b"),
    ]
    for number, expected in enumerate(("ok", "ok", "warning", "unsure", "problem")):
        assert diagnosing.worst(results[:number]) == expected
