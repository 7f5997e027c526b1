"""The acceptance scenarios: each has a test without Kubernetes, and a line in docs/design/scenarios.md."""

import re

import pytest

from tests.project import reference_pages

PAGE = reference_pages.ROOT / "docs" / "design" / "scenarios.md"
TESTS = reference_pages.ROOT / "tests"
SCENARIOS = {
    *(f"WP-{number}" for number in range(1, 22)),
    *(f"LX-{number}" for number in range(1, 15)),
    *(f"RL-{number}" for number in range(1, 15)),
    *(f"PR-{number}" for number in (*range(1, 14), 24, 25)),
}


@pytest.fixture(scope="module")
def described() -> list[str]:
    """The ids on the page, in its order."""
    return re.findall(r"^\| ([A-Z]+-\d+[a-z]?) \| \S", PAGE.read_text(), re.MULTILINE)


def marked(*, e2e: bool) -> set[str]:
    """The ids that tests are marked with, those of tests/e2e included or not."""
    return {
        identity
        for path in TESTS.rglob("test_*.py")
        if e2e or TESTS / "e2e" not in path.parents
        for arguments in re.findall(r"mark\.scenario\(([^)]*)\)", path.read_text())
        for identity in re.findall(r'"([A-Z]+-\d+[a-z]?)"', arguments)
    }


def test_every_scenario_is_shown_without_kubernetes(described: list[str]) -> None:
    assert (SCENARIOS | set(described)) - marked(e2e=False) == set()


def test_every_scenario_is_described_once(described: list[str]) -> None:
    assert len(described) == len(set(described))
    assert SCENARIOS | marked(e2e=True) == set(described)
