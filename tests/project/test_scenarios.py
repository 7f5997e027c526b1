"""Every acceptance scenario has a test that needs no Kubernetes, so that `make test` shows all of them."""

import re

from tests.project import generating

PROMISED = {
    *(f"WP-{number}" for number in range(1, 22)),
    *(f"LX-{number}" for number in range(1, 15)),
    *(f"RL-{number}" for number in range(1, 15)),
    *(f"PR-{number}" for number in (*range(1, 14), 24, 25)),
}


def test_every_scenario_is_shown_without_kubernetes() -> None:
    tests = generating.ROOT / "tests"
    marked = {
        identity
        for path in tests.rglob("test_*.py")
        if tests / "e2e" not in path.parents
        for arguments in re.findall(r"mark\.scenario\(([^)]*)\)", path.read_text())
        for identity in re.findall(r'"([A-Z]+-\d+[a-z]?)"', arguments)
    }
    assert PROMISED - marked == set()
